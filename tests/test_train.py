"""`python -m bench train` on tiny models: what is compared is the same model on the same
text, and curves that part are told."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import einc

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import record, train
from bench.cli import main

SIZES = {"B": 2, "T": 12, "C": 12, "N": 2, "H": 2, "d_k": 4, "d_model": 8, "d_ff": 16, "V": 256}
WORDS = ["--sizes", "B=2,T=12,C=12,N=2,H=2,d_k=4,d_model=8,d_ff=16"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def text(length: int = 400) -> torch.Tensor:
    return torch.frombuffer(bytearray(("def f(x):\n    return x\n" * length)[:length].encode()), dtype=torch.uint8)


def setup(**changes: object) -> train.Setup:
    return train.Setup(**{"steps": 12, "rate": 1e-2, "sizes": SIZES, **changes})  # type: ignore[arg-type]


def skewed(weights: train.Tensors, words: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """A model that is another one, if by little."""
    return train.plain(weights, words, following) + 0.02 * weights["gamma"].square().mean()


def test_the_text_is_sources_in_order(tmp_path: Path) -> None:
    for name, code in {"b.py": "two", "a.py": "one", "c.txt": "no", "test/d.py": "no",
                       "site-packages/e.py": "no"}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(code, encoding="utf-8")
    assert bytes(train.corpus(tmp_path).tolist()) == b"one\ntwo"
    assert b"OrderedDict" in bytes(train.corpus(Path(inspect.getfile(inspect)).parent / "collections").tolist())


def test_batches_are_pieces_of_the_text_and_what_follows() -> None:
    found, again = (list(train.batches(text(), setup())) for _ in range(2))
    assert len(found) == 12
    whole = bytes(text().tolist())
    for (words, following), (same, _) in zip(found, again, strict=True):
        assert words.shape == following.shape == (2, 12) and torch.equal(words, same)
        assert all(bytes([*row, int(last[-1])]) in whole for row, last in zip(words.tolist(), following, strict=True))
        assert torch.equal(words[:, 1:], following[:, :-1])
    assert not torch.equal(found[0][0], next(train.batches(text(), setup(seed=1)))[0])


def test_both_are_one_model() -> None:
    """The spec's losses are those of plain torch, at weights of which none is 0 or 1."""
    random = torch.Generator().manual_seed(0)
    begun = train.start(setup(dtype=torch.float64))
    weights = {name: x + 0.3 * torch.randn(x.shape, generator=random, dtype=x.dtype) for name, x in begun.items()}
    words, following = next(train.batches(text(), setup()))
    got = einc.compile(train.SPEC)(w=words, y=following, **weights)
    assert got.shape == (2, 12)
    assert float(got.mean()) == pytest.approx(float(train.plain(weights, words, following)), abs=1e-12)


def test_no_logits_are_stored() -> None:
    plan = einc.compile(train.SPEC).plan
    assert "O" not in plan.buffers and "L_cal" in plan.buffers


def test_the_same_training_gives_the_same_curve() -> None:
    found = train.train({"one": train.plain, "two": train.plain}, text(), setup())
    assert found["one"].losses == found["two"].losses and len(found["one"].seconds) == 12
    assert train.apart(found["one"], found["two"]) == 0 and train.falls(found["one"]) and train.wrong(found) == ""
    for row in train.rows(found, setup()):
        assert (row["steps"], row["apart"], len(row["losses"])) == (12, 0, 12)


def test_curves_that_part_are_told() -> None:
    found = train.train({"one": skewed, "two": train.plain}, text(), setup(steps=3))
    assert "the curves part: by 2" in train.wrong(found)
    level = train.Curve((1.0, 2.0), (1.0, 1.0))
    assert train.wrong({"one": level, "two": level}) == "the loss of one and two does not fall"
    lost = train.Curve((1.0, float("nan")), (1.0, 1.0))
    assert train.apart(lost, level) == train.apart(lost, lost) == float("inf")


@pytest.mark.parametrize(("way", "status"), [(train.plain, 0), (skewed, 1)])
def test_the_command(way: train.Loss, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "derived", lambda backend="torch": way)
    monkeypatch.setattr(train, "corpus", text)
    done = CliRunner().invoke(main, ["train", "--steps", "6", "--out", str(tmp_path), *WORDS])
    assert done.exit_code == status, done.output
    assert ("the curves part" in done.output) == bool(status)
    rows = record.read(tmp_path / "train.jsonl")
    assert [(row["rival"], len(row["losses"]), row["sizes"])
            for row in rows] == [("einc", 6, SIZES), ("torch", 6, SIZES)]
    assert (tmp_path / "train.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("words", ["N=0", "n=3", "N", "N=two"])
def test_sizes_that_are_none(words: str) -> None:
    done = CliRunner().invoke(main, ["train", "--sizes", words])
    assert done.exit_code == 1 and f"`{words}` is no size: the sizes are B, T, " in done.output


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_what_is_derived_trains_as_autograd_does(dtype: torch.dtype, bound: float) -> None:
    found = train.train({"einc": train.derived(), "torch": train.plain}, text(), setup(dtype=dtype))
    assert train.apart(found["einc"], found["torch"]) <= bound and train.falls(found["einc"])


def test_nothing_of_the_vocabulary_is_stored_for_every_word() -> None:
    """Neither the logits nor their gradients, forward or backward, have V numbers for each word."""
    model, sizes = einc.compile(train.SPEC, grad=True), {**SIZES, "B": 3, "T": 50, "C": 50, "V": 997}
    weights = {name: x.requires_grad_() for name, x in train.start(setup(sizes=sizes)).items()}
    words = torch.randint(0, 997, (3, 50), generator=torch.Generator().manual_seed(0))
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):  # type: ignore[func-returns-value]
        model(w=words, y=words, **weights).mean().backward()
    assert max(kept) < 3 * 50 * 997
