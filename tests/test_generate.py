"""`einc.generate`: what transformers generates, what is drawn as often as it should be,
and a bar where it takes long."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from test_oracles import spiced, zoo

import einc

__all__ = ["zoo"]
VOCABULARY = 40


@pytest.fixture(scope="module")
def theirs(zoo: Any) -> Any:
    """transformers, imported when the zoo is."""
    del zoo
    return importlib.import_module("transformers")


@pytest.fixture(scope="module")
def model(theirs: Any) -> Any:
    config = theirs.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, n_positions=32, bos_token_id=0,
                               eos_token_id=0)
    return spiced(theirs.GPT2LMHeadModel(config).double(), biases=0.3)


def test_the_likeliest_token_is_that_of_transformers(model: Any) -> None:
    ids = torch.randint(1, VOCABULARY, (3, 5), generator=torch.Generator().manual_seed(1))
    want = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0,
                          eos_token_id=None)
    got = einc.generate(lambda x: model(x, use_cache=False), ids, 12)
    assert torch.equal(got, want) and torch.equal(got[:, :5], ids)
    assert torch.equal(einc.generate(lambda x: model(x[None]).logits[0], ids[1], 12),
                       want[1]), "one row without a batch"
    assert torch.equal(einc.generate(model, einc.generate(model, ids, 7), 5), want)
    stop = int(want[1, 7])
    ended = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                           pad_token_id=stop,
                           eos_token_id=stop)
    assert torch.equal(einc.generate(model, ids, 12, stop=stop), ended)
    assert torch.equal(einc.generate(model, ids, 0), ids)


def warped(theirs: Any, scores: torch.Tensor, temperature: float, top_k: int | None,
           top_p: float | None) -> torch.Tensor:
    """The probabilities that transformers draws from."""
    ids = torch.zeros(len(scores), 1, dtype=torch.long)
    for warper in (theirs.TemperatureLogitsWarper(temperature), *([theirs.TopKLogitsWarper(top_k)] if top_k else []),
                   *([theirs.TopPLogitsWarper(top_p)] if top_p else [])):
        scores = warper(ids, scores)
    return scores.softmax(-1)


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [
    (1.0, None, None), (0.5, None, None), (2.0, 5, None), (1.0, None, 0.7), (1.3, 6, 0.8), (1.0, 1, None),
    (1.0, None, 1e-9),
])
def test_draws_are_as_likely_as_they_should_be(theirs: Any, temperature: float, top_k: int | None,
                                               top_p: float | None) -> None:
    scores = 1.5 * torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    rows = 4000
    ids = torch.zeros(rows, 1, dtype=torch.long)
    drawn = einc.generate(lambda x: scores.expand(*x.shape, -1), ids, 2, temperature=temperature, top_k=top_k,
                          top_p=top_p, seed=3)
    want = warped(theirs, scores[None], temperature, top_k, top_p)[0].numpy()
    for step in (1, 2):
        counts = np.bincount(drawn[:, step].numpy(), minlength=VOCABULARY)
        assert not counts[want == 0].any()
        spread = np.sqrt(np.maximum(rows * want * (1 - want), 1))
        assert (np.abs(counts - rows * want) < 5 * spread).all()
    if (want > 0).sum() > 4:
        assert (drawn[:, 1] == drawn[:, 2]).double().mean() == pytest.approx(float((want**2).sum()), abs=5 / rows**0.5)


def test_a_seed_settles_every_token(model: Any) -> None:
    """A text goes on as it would have, whatever stands beside it."""
    ids = torch.randint(1, VOCABULARY, (3, 4), generator=torch.Generator().manual_seed(1))

    def drawn(x: torch.Tensor, steps: int, seed: int = 7) -> torch.Tensor:
        made: torch.Tensor = einc.generate(model, x, steps, temperature=1.5, seed=seed)
        return made

    whole = drawn(ids, 9)
    assert torch.equal(drawn(drawn(ids, 4), 5), whole) and torch.equal(drawn(ids[:2], 9), whole[:2])
    first, second, _ = drawn(ids[:1].expand(3, -1), 9)
    assert not torch.equal(drawn(ids, 9, 8), whole) and not torch.equal(first, second)


def test_of_equal_logits_the_smaller_tokens_come_first() -> None:
    ids = torch.zeros(50, 1, dtype=torch.long)
    drawn = einc.generate(lambda x: torch.zeros(*x.shape, VOCABULARY), ids, 1, temperature=1.0, top_k=3)
    assert set(drawn[:, 1].tolist()) == {0, 1, 2}


def test_logits_that_are_infinite(model: Any) -> None:
    only = torch.full((VOCABULARY,), -torch.inf)
    only[9] = 3.0
    for more in ({}, {"temperature": 0.7}, {"temperature": 5.0, "top_p": 0.5}):
        assert einc.generate(lambda x: only.expand(*x.shape, -1), torch.tensor([1]), 2, **more).tolist() == [1, 9, 9]


@pytest.mark.parametrize(("given", "said"), [
    ({"steps": -1}, "steps = -1"),
    ({"temperature": -0.5}, "temperature = -0.5"),
    ({"temperature": float("nan")}, "temperature = nan"),
    ({"top_k": 3}, "give a temperature"),
    ({"top_k": 0, "temperature": 1.0}, "top_k = 0"),
    ({"top_p": 1.5, "temperature": 1.0}, "top_p = 1.5"),
    ({"ids": torch.zeros(2, 0, dtype=torch.long)}, "at least one token"),
    ({"ids": torch.zeros(2)}, "whole numbers"),
    ({"ids": [1, 2]}, "whole numbers"),
    ({"logits": lambda x: torch.zeros(*x.shape)}, r"have shape \(1, 2\), and \(1, 2, V\) is expected"),
    ({"logits": lambda x: torch.full((*x.shape, 4), torch.nan)}, "after 2 tokens none is a finite greatest"),
])
def test_what_does_not_fit_is_refused(given: dict[str, Any], said: str) -> None:
    usual = {"logits": lambda x: torch.zeros(*x.shape, 4), "ids": torch.ones(1, 2, dtype=torch.long), "steps": 2}
    with pytest.raises(ValueError, match=said):
        einc.generate(**(usual | given))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A terminal, and a clock on which every step takes a second."""
    console = Console(stderr=True, force_terminal=True, record=True, width=60)
    module = importlib.import_module("einc.driver.decoding.generate")
    monkeypatch.setattr(module, "Console", lambda **_: console)
    clock = iter(range(100))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    yield console


def test_a_bar_where_it_takes_long(slow: Console, capsys: pytest.CaptureFixture[str]) -> None:
    einc.generate(lambda x: torch.zeros(*x.shape, 4), torch.tensor([1]), 5)
    shown = slow.export_text()
    assert "tokens" in shown and "/5" in shown


def test_bytes_are_tokens_that_may_grow() -> None:
    """A token has room, whatever few bits the given ones have."""
    def logits(ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot((ids.long() + 100) % 300, 300).double()

    text = einc.generate(logits, torch.frombuffer(bytearray(b"x"), dtype=torch.uint8), 3)
    assert text.tolist() == [120, 220, 20, 120]
    assert einc.generate(logits, torch.tensor([200], dtype=torch.uint8), 1).tolist() == [200, 0]
    assert einc.generate(logits, torch.tensor([150], dtype=torch.uint8), 2,
                         temperature=1e-310).tolist() == [150, 250, 50]
