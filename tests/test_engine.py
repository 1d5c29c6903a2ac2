"""Texts that join and leave between steps: each is what it would be alone, with little
room, beginnings shared, others' faults."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from helpers import arrays, examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from test_generate_command import GROUPS, HEADS, lists, llama, once, room, rows, said, theirs
from test_oracles import zoo
from test_serving import named

import einc
from einc.driver.decoding.engine import Engine, Request
from einc.driver.decoding.generate import grown
from einc.driver.decoding.sampling import Sampler
from einc.driver.decoding.vocabulary import Spoken
from einc.driver.front import Compiled

__all__ = ["llama", "once", "room", "zoo"]
VOCABULARY = 12
SPEC = """index n : batch(B)
index t, s : time(T)
index v : vocab(0..V-1)
index e, f : feature(D)
input w_{n t} : int
weight E_v^f, M_f^e, U_e^v
x_{n t}^f = E_{w_{n t}}^f cos(t)
K_{n t}^e = x_{n t}^f M_f^e
mask L_{n t s} : s ≤ t
L_{n t s} = x_{n t}^f K_{n s f}
output O_{n t}^v = Σ_s softmax_s(L_{n t s}) K_{n s}^e U_e^v
"""
SPECS = {
    "batch": SPEC,
    "single": SPEC.replace("index n : batch(B)\n", "").replace("n t", "t").replace("n s", "s"),
    "near": SPEC.replace("s ≤ t", "s ∈ (t - 5, t]"),
}
WAYS = [{}, {"temperature": 1.0}, {"temperature": 0.7, "top_k": 4, "seed": 3},
        {"temperature": 1.3, "top_p": 0.8, "seed": 1}]
POOLS = [None, (40, 1), (10, 4), (3, 16)]  # of which each holds the longest text, and no two of them


@cache
def compiled(name: str) -> tuple[Compiled, dict[str, torch.Tensor]]:
    random = torch.Generator().manual_seed(0)
    shapes = {"E": (VOCABULARY, 8), "M": (8, 8), "U": (8, VOCABULARY)}
    weights = {key: torch.randn(shape, generator=random, dtype=torch.float64) for key, shape in shapes.items()}
    return einc.compile(SPECS[name], plan="serve"), weights


@cache
def alone(name: str, prompt: tuple[int, ...], count: int, way: int, row: int) -> list[int]:
    """What a text becomes that has a cache for itself and stands beside none."""
    made, weights = compiled(name)
    return [int(n) for n in grown(Spoken(made, weights), torch.tensor(prompt), count, Sampler(**WAYS[way]), rows=[row])]


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """What is compiled once is compiled before it is needed; small products are slower on several threads."""
    for name in SPECS:
        compiled(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def engine_of(name: str, pool: tuple[int, int] | None, budget: int = 512) -> Engine:
    made, weights = compiled(name)
    return einc.Engine(made, weights, budget=budget, pool=None if pool is None else made.pool(*pool))


def through(engine: Engine) -> list[tuple[Request, int]]:
    """Every token that is made until all texts are over."""
    out, most = [], 2000
    while engine.busy and (most := most - 1):
        out += engine.step()
    assert most, "it comes to an end"
    return out


# the same texts, whatever stands beside them

BEGINNING = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3)
PROMPTS = st.one_of(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20).map(tuple),
    st.tuples(st.integers(1, 18), st.lists(st.integers(0, 3), max_size=2)).map(lambda x: (*BEGINNING[: x[0]], *x[1])),
)


@examples(8, 25, name=st.sampled_from(list(SPECS)), pool=st.sampled_from(POOLS), budget=st.sampled_from([1, 7, 512]),
       data=st.data())
def test_texts_that_join_and_leave_are_as_alone(name: str, pool: tuple[int, int] | None, budget: int,
                                                data: st.DataObject) -> None:
    engine, texts = engine_of(name, pool, budget), list[tuple[Request, tuple[Any, ...]]]()
    made, left = dict[Request, list[int]](), set[Request]()
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            prompt, count = data.draw(PROMPTS), data.draw(st.integers(1, 20))
            way, row = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
            text = engine.add(prompt, count, **WAYS[way], row=row)
            texts.append((text, (prompt, count, way, row)))
        elif texts and data.draw(st.integers(0, 3)) == 0:
            text = data.draw(st.sampled_from(texts))[0]
            left |= {text} if not text.over else set()
            engine.close(text)
        else:
            for text, token in engine.step():
                made.setdefault(text, []).append(token)
    for text, token in through(engine):
        made.setdefault(text, []).append(token)
    for text, how in texts:
        want = alone(name, *how)
        assert text.over and text.error is None
        assert text.made == made.get(text, []) == (want[: len(text.made)] if text in left else want)
    assert engine.pool is None or engine.pool.free == pool[0], "every page has been given back"


LAYERS = """index t : time(T)
index v : vocab(0..V-1)
index f : feature(d_model)
input w_t : int
weight E_v^f, U_f^v
H_t^f = E_{w_t}^f
for ℓ in 1..N:
    H_t^f ← H_t^f + "NAME"(X = H_t^f)
output O_t^v = H_t^f U_f^v
"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["mla_rope", "sliding_window"])
def test_layers_of_another_kind(name: str) -> None:
    """With a part that all heads share and is kept as it is; and where what is far away is dropped."""
    made, sizes = einc.compile(LAYERS.replace("NAME", name), plan="serve"), dict(named(name).sizes)
    data = arrays(made.program, {**sizes, "T": 1, "V": VOCABULARY, "N": 2}, {"w": ("0", "0")})
    weights = {key: torch.as_tensor(x) for key, x in data.items() if key != "w"}
    weights |= {size: sizes[size] for size in ("W",) if name == "sliding_window"}
    prompts = [(5,), BEGINNING, (*BEGINNING[:15], 0, 0), (1, 2, 3, 4, 5)]
    want = [[int(n) for n in grown(Spoken(made, weights), torch.tensor(p), 9, Sampler(1.0))] for p in prompts]
    for pool in (None, (26, 1), (5, 7)):
        engine = einc.Engine(made, weights, budget=13, pool=None if pool is None else made.pool(*pool))
        texts = [engine.add(prompt, 9, temperature=1.0) for prompt in prompts]
        through(engine)
        assert [(text.made, text.error) for text in texts] == [(tokens, None) for tokens in want]
        assert pool is None or engine.pool.free == pool[0]


@pytest.mark.parametrize("pool", [None, (400, 1), (40, 16)])
def test_texts_that_begin_alike_are_read_once(pool: tuple[int, int] | None) -> None:
    """Several that go on from one prompt, and others that have a part of it: what is kept of it is taken over."""
    prompt = tuple(n % 11 for n in range(50))
    engine = engine_of("batch", pool, 30)
    texts = [engine.add(prompt, 8, **WAYS[1], row=row) for row in range(5)]
    part = engine.add((*prompt[:33], 11, 11), 8)
    while engine.busy:
        engine.step()
        if pool is not None:
            held = engine.room - engine.pool.free
            pages = -(-50 // pool[1]) + sum(-(-max(0, len(t.tokens) - 33) // pool[1]) + 1 for t in engine.running)
            assert held <= pages, "pages are shared"
    found = 33 if pool and pool[1] == 1 else 30  # the first step reads 30, and 3 more are not worth another's
    assert engine.read == 50 + 4 + 35 - found and engine.shared == 4 * 49 + found
    assert [t.made for t in texts] == [alone("batch", prompt, 8, 1, row) for row in range(5)]
    assert part.made == alone("batch", part.prompt, 8, 0, 0)


def test_pieces_of_prompts_stand_beside_tokens_that_are_made() -> None:
    """A step reads one token of each text that is being made, and fills the budget with those that begin."""
    engine = engine_of("batch", None, 10)
    first = engine.add([1, 2], 9)
    engine.step()
    second = engine.add(BEGINNING, 3)
    assert [text for text, _ in engine.step()] == [first] and second.cache.length == 9
    assert [text for text, _ in engine.step()] == [first, second] and second.cache.length == 18
    assert (engine.read, engine.grown) == (20, 2)
    assert first.made == alone("batch", (1, 2), 9, 0, 0)[:3] and second.made == alone("batch", BEGINNING, 3, 0, 0)[:1]


def test_the_youngest_is_put_back_once_and_made_again() -> None:
    engine = engine_of("batch", (6, 4))
    texts = [engine.add((n, n + 1, n), 20, **WAYS[1]) for n in range(3)]
    orders = [text for text, _ in through(engine)]
    assert engine.back == 2 and engine.held == 6
    assert [t.made for t in texts] == [alone("batch", t.prompt, 20, 1, 0) for t in texts]
    last = {text: n for n, text in enumerate(orders)}
    assert sorted(texts, key=last.__getitem__) == texts, "older ones are over first"


# what goes wrong


def test_a_text_that_alone_has_no_room() -> None:
    """It is over with an error that says how many pages would do; the others are as alone."""
    engine = engine_of("batch", (5, 4))
    short, long, late = engine.add((1, 2), 5), engine.add((2, 1), 40), engine.add((2, 2), 6)
    through(engine)
    made = compiled("batch")[0]
    assert isinstance(long.error, made.named("Exhausted")) and long.over and len(long.made) == 19
    assert str(long.error) == "21 tokens of one text have no room in 5 pages of 4 positions: 11 are enough for it"
    assert short.made == alone("batch", (1, 2), 5, 0, 0) and late.made == alone("batch", (2, 2), 6, 0, 0)
    assert engine.pool.free == 5
    near = engine_of("near", (5, 4))
    text = near.add((2, 1), 40)
    through(near)
    assert text.error is None and text.made == alone("near", (2, 1), 40, 0, 0), "what nothing reads has no pages"


def test_the_fault_of_one_text_is_its_own() -> None:
    engine = engine_of("batch", (20, 4))
    weights = compiled("batch")[1]
    spoiled = {**weights, "E": weights["E"].clone()}
    spoiled["E"][11] = torch.nan
    engine.model.given = spoiled
    one, two, wrong, none = (engine.add(ids, 4) for ids in ((1, 2), (2, 1, 3), (1, VOCABULARY), (5, 11)))
    through(engine)
    assert isinstance(wrong.error, IndexError) and isinstance(none.error, ValueError)
    assert "after 2 tokens none is a finite greatest" in str(none.error)
    assert [one.made, two.made] == [alone("batch", (1, 2), 4, 0, 0), alone("batch", (2, 1, 3), 4, 0, 0)]
    assert engine.pool.free == 20


NO_NUMBERS: dict[str, Callable[[torch.Tensor, int], None]] = {
    "none is a number": lambda x, n: x.fill_(torch.nan),
    "one is no number": lambda x, n: x[n].fill_(torch.nan),
    "one is endless": lambda x, n: x[n].fill_(torch.inf),
    "all are endless": lambda x, n: x.fill_(torch.inf),
    "all are forbidden": lambda x, n: x.fill_(-torch.inf),
    "two of a kind": lambda x, n: x[:: max(n, 1)].fill_(torch.inf),
}


@examples(12, 40, pool=st.sampled_from(POOLS), budget=st.sampled_from([1, 7, 512]), data=st.data())
def test_a_row_without_a_greatest_ends_its_own_text(pool: tuple[int, int] | None, budget: int,
                                                    data: st.DataObject) -> None:
    """Whichever texts have one, in whichever step, however tokens are taken: the others
    have the tokens that they have alone."""
    engine, how, spoils = engine_of("batch", pool, budget), list[tuple[Any, ...]](), dict[int, tuple[int, str, int]]()
    for number in range(data.draw(st.integers(1, 5))):
        how.append((data.draw(PROMPTS), data.draw(st.integers(1, 12)), data.draw(st.integers(0, 3)),
                    data.draw(st.integers(0, 2))))
        if data.draw(st.booleans()):
            step = data.draw(st.integers(0, how[-1][1] - 1))
            spoils[number] = (step, data.draw(st.sampled_from(sorted(NO_NUMBERS))),
                              data.draw(st.integers(0, VOCABULARY - 1)))
    texts = [engine.add(prompt, count, **WAYS[way], row=row) for prompt, count, way, row in how]
    plain = engine.model.step

    def spoiled(caches: Any, new: Any, counts: Any) -> torch.Tensor:
        logits: torch.Tensor = plain(caches, new, counts)
        for row, kept in enumerate(caches):
            text = next(text for text in texts if text.cache is kept)
            step, kind, at = spoils.get(text.number, (-1, "", 0))
            if kind and kept.length == len(text.prompt) + step:
                NO_NUMBERS[kind](logits[row], at)
        return logits

    engine.model.step = spoiled  # type: ignore[method-assign]
    through(engine)
    for text, wanted in zip(texts, how, strict=True):
        step = spoils[text.number][0] if text.number in spoils else None
        assert text.over and text.cache is None and text.made == alone("batch", *wanted)[:step]
        assert (text.error is None) == (step is None)
        assert step is None or f"after {len(text.prompt) + step} tokens none is a finite greatest" in str(text.error)
    assert engine.pool is None or pool is None or engine.pool.free == pool[0], "every page has been given back"


@pytest.mark.parametrize("pool", [None, (30, 4)])
def test_a_step_that_is_broken_off_loses_nothing(monkeypatch: pytest.MonkeyPatch, pool: tuple[int, int] | None) -> None:
    engine = engine_of("batch", pool)
    texts = [engine.add(prompt, 6, **WAYS[1]) for prompt in ((1, 2), BEGINNING)]
    for place in (Sampler, Spoken):
        engine.step()
        with monkeypatch.context() as patch:
            patch.setattr(place, "taken" if place is Sampler else "step", interrupted)
            with pytest.raises(KeyboardInterrupt):
                engine.step()
    through(engine)
    assert [t.made for t in texts] == [alone("batch", t.prompt, 6, 1, 0) for t in texts]


@pytest.mark.parametrize("pool", [None, (10, 4)])
def test_threads_that_step_one_engine(pool: tuple[int, int] | None) -> None:
    """Texts that several threads add, step and close have the tokens that they have
    alone, and each token is made once."""
    engine, made, raised = engine_of("batch", pool, 7), dict[Request, list[int]](), list[BaseException]()
    wanted, closed = dict[Request, tuple[Any, ...]](), set[Request]()

    def run(turn: int) -> None:
        try:
            for n in range(3):
                how = (BEGINNING[: 5 * turn + n + 1], 12, (turn + n) % 4, n)
                text = engine.add(how[0], how[1], **WAYS[how[2]], row=n)
                wanted[text] = how
                if n == 2:
                    engine.close(text)
                    closed.add(text)
                while engine.busy:
                    for text, token in engine.step():
                        made.setdefault(text, []).append(token)
        except BaseException as error:
            raised.append(error)

    threads = [Thread(target=run, args=(turn,)) for turn in range(3)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    assert not raised and len(wanted) == 9
    for text, (prompt, count, way, row) in wanted.items():
        want = alone("batch", prompt, count, way, row)
        assert text.error is None and text.over and text.made == (want[: len(text.made)] if text in closed else want)
        assert sorted(made.get(text, [])) == sorted(text.made)
    assert pool is None or engine.pool.free == pool[0]


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_no_text_reads_a_page_that_is_not_its_own() -> None:
    """What lies in free pages, and in those of another text, is no number: that text
    fails, and no other token changes."""
    engine = engine_of("batch", (30, 4))
    first, second = engine.add(BEGINNING, 9, **WAYS[1]), engine.add((7, *BEGINNING), 9)
    third = engine.add((*BEGINNING[:9], 0), 9)
    for _ in range(4):
        engine.step()
    others = [page for page in range(30) if page not in {*first.cache.table.pages, *third.cache.table.pages}]
    assert {*first.cache.table.pages} & {*third.cache.table.pages} and {*second.cache.table.pages} < {*others}
    for store in engine.pool.stores.values():
        store.pages[:, others] = torch.nan
    through(engine)
    assert isinstance(second.error, ValueError) and len(second.made) == 4
    assert first.made == alone("batch", BEGINNING, 9, 1, 0) and third.made == alone("batch", third.prompt, 9, 0, 0)


def test_results_of_whole_texts_are_made_one_after_another() -> None:
    """A spec that returns something for every two positions takes one text at a time."""
    made = einc.compile(SPECS["single"] + "output N_{t s} = 1[s ≤ t] x_t^f x_{s f}\n", plan="serve")
    engine = einc.Engine(made, compiled("single")[1])
    texts = [engine.add(prompt, 6) for prompt in ((1, 2), (2, 1, 3), (4,))]
    through(engine)
    assert [t.made for t in texts] == [alone("single", t.prompt, 6, 0, 0) for t in texts]


@pytest.mark.parametrize(("args", "options", "said"), [
    (([], 3), {}, "at least one token"),
    ((torch.ones(1, 2, dtype=torch.long), 3), {}, "whole numbers"),
    ((torch.ones(2), 3), {}, "whole numbers"),
    ((torch.tensor(1), 3), {}, "whole numbers"),
    (([1], 0), {}, "count = 0"),
    (([1], 3), {"top_k": 2}, "give a temperature"),
])
def test_what_does_not_fit_is_refused(args: Any, options: Any, said: str) -> None:
    engine = engine_of("batch", None)
    with pytest.raises(ValueError, match=said):
        engine.add(*args, **options)
    assert not engine.busy


NO_WHOLE = st.one_of(st.floats(), st.text(max_size=2), st.booleans(), st.builds(object), st.just([1]), st.just(None),
                     st.fractions().filter(lambda x: x.denominator > 1), st.complex_numbers())


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(["count", "top_k", "seed", "row", "budget", "steps", "pages", "page", "stop"]),
       wrong=NO_WHOLE)
def test_what_is_no_whole_number_is_refused_where_it_is_given(name: str, wrong: Any) -> None:
    """The error names the argument and what it was given; nothing joins that would stop a step."""
    assume(wrong is not None or name not in ("top_k", "stop"))
    assume(name != "stop" or wrong not in ("", [1]))
    assume(name != "page" or wrong)  # the page that the text says
    (made, weights), engine = compiled("batch"), engine_of("batch", None)
    ids = torch.tensor([1, 2])
    with pytest.raises(ValueError, match=re.escape(f"{name} = {wrong!r}, ") + ".* expected"):
        match name:
            case "budget":
                einc.Engine(made, weights, budget=wrong)
            case "pages" | "page":
                made.pool(**{"pages": 4, name: wrong})
            case "steps":
                einc.generate(made, ids, wrong, given=weights)
            case _:
                engine.add(ids, **{"count": 3, "temperature": 1.0, name: wrong})
    assert not engine.busy
    if name in ("top_k", "seed", "stop"):
        for given_ in (ids, [ids, ids[:1]]):
            with pytest.raises(ValueError, match=f"{name} = "):
                einc.generate(made, given_, 3, given=weights, **{"temperature": 1.0, name: wrong})


@pytest.mark.parametrize(("options", "said"), [
    ({"stop": 10**30}, "stop = 1000000000000000000000000000000, a token or several"),
    ({"stop": [3, -1]}, r"stop = \[3, -1\]"),
    ({"temperature": float("inf")}, "temperature = inf, a finite number"), ({"temperature": "1"}, "temperature = '1'"),
    ({"top_p": "0.5"}, "top_p = '0.5'"), ({"top_p": 1j}, "top_p = 1j"), ({"top_p": float("nan")}, "top_p = nan"),
])
def test_numbers_that_say_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    (made, weights), options = compiled("batch"), {"temperature": 1.0, **options}
    for call in (lambda: engine_of("batch", None).add([1], 3, **options),
                 lambda: einc.generate(made, torch.tensor([1]), 3, given=weights, **options)):
        with pytest.raises(ValueError, match=said):
            call()


def test_whole_numbers_of_any_kind_are_taken() -> None:
    """Those of numpy and torch are the plain ones that they stand for."""
    engine, kinds = engine_of("batch", None), (int, np.int64, np.uint8, torch.tensor)
    texts = [engine.add((1, 2), kind(9), temperature=np.float32(1.0), top_k=kind(12), seed=kind(3), row=kind(1),
                        stop=kind(200))
             for kind in kinds]
    ended = engine.add((1, 2), 9, stop=torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]))
    through(engine)
    assert len({tuple(text.made) for text in texts}) == 1 and len({text.taking for text in texts}) == 1
    assert all(type(x) is int for text in texts for x in (text.count, text.row, *text.stop)) and len(ended.made) == 1


def test_what_no_engine_takes() -> None:
    made, weights = compiled("batch")
    with pytest.raises(TypeError, match="plan=\"serve\""):
        einc.Engine(einc.compile(SPEC), weights)
    with pytest.raises(TypeError, match="keeps nothing"):
        einc.compile(SPEC).pool(4)
    with pytest.raises(ValueError, match="budget = 0"):
        einc.Engine(made, weights, budget=0)
    engine = einc.Engine(made, {})
    text = engine.add([1], 1)
    assert engine.step() == [] and isinstance(text.error, TypeError)


# the functions


def test_a_list_of_texts() -> None:
    """With and without a cache, as they end; and as they are made."""
    made, weights = compiled("batch")
    ids = [torch.tensor(p) for p in ((1, 2, 3), (5,), BEGINNING)]
    for way, options in enumerate(WAYS):
        want = [alone("batch", tuple(x.tolist()), 9, way, row) for row, x in enumerate(ids)]
        for model in (made, einc.compile(SPEC)):
            got = einc.generate(model, ids, 9, given=weights, **options)
            assert [x.tolist() for x in got] == [[*x.tolist(), *new] for x, new in zip(ids, want, strict=True)]
            stop = want[0][3]
            ended = einc.generate(model, ids, 9, given=weights, stop=stop, **options)
            assert [len(x) for x in ended] == [
                len(x) + (new.index(stop) + 1 if stop in new else 9) for x, new in zip(ids, want, strict=True)]
            pairs = [(n, int(token)) for n, token in einc.stream(model, ids, 9, given=weights, **options)]
            assert [[token for n, token in pairs if n == row] for row in range(3)] == want
    assert [x.tolist() for x in einc.generate(made, ids, 0, given=weights)] == [x.tolist() for x in ids]
    assert einc.generate(made, [], 3, given=weights) == []
    with pytest.raises(IndexError, match="99"):
        einc.generate(made, [ids[0], torch.tensor([99])], 3, given=weights)
    for wrong in ([ids[0], ids[0][None]], [ids[0], []], [torch.zeros(2)]):
        with pytest.raises(ValueError, match="whole numbers"):
            einc.generate(made, wrong, 3, given=weights)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("options", [[], ["--pages", "12", "--page", "3"], ["--budget", "3"]])
def test_the_tokens_of_transformers_at_any_lengths(llama: Any, tmp_path: Path, options: list[str]) -> None:
    llama.save_pretrained(tmp_path)
    texts = [[5, 9, 2, 7, 7, 1], [1, 2], [8], [5, 9, 2, 7, 7, 1, 3, 3]]
    want = [theirs(llama, text, 9) for text in texts]
    told = ["--sizes", f"H={HEADS},G={GROUPS}", "--count", "9", *options, *lists(texts)]
    assert rows(said(tmp_path, *told, spec="llama_lm", weights="model.safetensors")) == want
    made = einc.compile("llama_lm", plan="serve")
    weights = einc.load_weights(made, load_file(tmp_path / "model.safetensors"), H=HEADS, G=GROUPS)
    got = einc.generate(made, [torch.tensor(text) for text in texts], 9, given=weights)
    assert [x.tolist() for x in got] == [text + new for text, new in zip(texts, want, strict=True)]


# the command


def test_samples_share_what_is_kept_of_their_prompt(room: Path) -> None:
    """Each is as it would be among prompts that are given several times; the report says what they shared."""
    text = [n % 7 + 1 for n in range(40)]
    several = rows(said(room, *lists([text] * 4), "--count", "5", "--temperature", "1"))
    for options in ([], ["--pages", "30", "--page", "4"], ["--pages", "11", "--page", "4"]):
        result = said(room, *lists([text]), "--samples", "4", "--count", "5", "--temperature", "1", *options)
        assert rows(result) == several
        assert ("shared   117 tokens" in result.stderr) == ("11" not in options)
        assert ("pool     " in result.stderr) == bool(options)
    result = said(room, "--prompt", "ab", "--prompt", "c", "--samples", "2", "--temperature", "9", "--count", "3")
    assert result.stdout.splitlines()[0].startswith("[1.1] ") and "\n[2.2] " in result.stdout
    assert said(room, "--prompt", "ab", "--samples", "2", "--temperature", "9", "--count",
                "3").stdout.startswith("[1] ")


@pytest.mark.parametrize(("args", "error"), [
    ("--ids 1 --page 4", "--page is of a pool"),
    ("--ids 1,2,3 --pages 2 --page 4 --count 7", "a text may come to 9 positions, and 2 pages of 4 have 8"),
    ("--ids 1,2,3 --pages 2 --page 4 --count 7", "give --pages 3 or more"),
    ("--ids 1 --samples 2", "--samples makes several texts of each prompt"),
])
def test_options_that_do_not_fit_are_refused(room: Path, args: str, error: str) -> None:
    assert error in said(room, *args.split(), status=1).stderr


@pytest.mark.parametrize("args", [
    "--pages 0", "--pages 99999999999", "--pages 3 --page 0", "--pages 3 --page 257", "--samples 0", "--budget 0"])
def test_numbers_of_none_are_refused(room: Path, args: str) -> None:
    assert f"'{args.split()[-2]}'" in said(room, "--ids", "1", *args.split(), status=2).stderr


def test_pages_of_what_is_near(room: Path, tmp_path: Path) -> None:
    """Where the past is dropped a pool smaller than a text will do; one that will not is told."""
    (tmp_path / "near.ein").write_text((room / "small.ein").read_text("utf-8").replace("s ≤ t", "s ∈ (t - 6, t]"),
                                       "utf-8")
    weights, told = str(room / "small.safetensors"), ["--ids", "1,2", "--count", "30"]
    want = rows(said(tmp_path, *told, spec="near.ein", weights=weights))
    assert rows(said(tmp_path, *told, "--pages", "4", "--page", "3", spec="near.ein", weights=weights)) == want
    result = said(tmp_path, *told, "--pages", "1", "--page", "3", spec="near.ein", weights=weights, status=1)
    assert "have no room in 1 page of 3 positions: 11 are enough for it" in result.stderr
    assert "--pages 11" in result.stderr
    assert result.stderr.count("error") == 1 and "Traceback" not in result.stderr
