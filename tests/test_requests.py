"""Several texts in one step: every one has what it would have alone, whatever stands beside it."""

from __future__ import annotations

from functools import cache
from inspect import signature, unwrap
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, each, meaning, typed_of
from programs import DRAWN, Case
from test_serving import GROWING, LATER, SLOW, grows, named

from einc.driver import front
from einc.ir.indices import IndexSet
from einc.ir.programs import Tensor
from einc.transforms.serving.cached import append_stability, growing

PLAN = [[3, 5, 1], [1, 1, 4], [2, 0, 1], [1, 1, 1]]  # so many new positions of each text in each step


def places(tensor: Tensor, along: IndexSet) -> list[int]:
    return [n for n, slot in enumerate(tensor.slots) if slot.set == along and tensor.role != "weight"]


@cache
def served(case: Case) -> front.Compiled:
    return front.built(typed_of(case), plan="serve")


class Texts:
    """Texts of a program with weights in common, and one cache for each."""

    def __init__(self, case: Case, pages: int = 0, made: front.Compiled | None = None,
                 plan: list[list[int]] = PLAN) -> None:
        self.made, self.sizes = made or served(case), dict(case.sizes)
        self.program, self.along = self.made.program, growing(self.made.program)
        total = [sum(counts) for counts in zip(*plan, strict=True)]
        common = arrays(self.program, {**self.sizes, "T": max(total)}, case.ranges, 0)
        grown = {t.key for t in self.program.inputs() if places(t, self.along)}
        found = [arrays(self.program, {**self.sizes, "T": max(total)}, case.ranges, n + 1) for n in range(len(total))]
        self.given: list[Arrays] = [{k: (x if k in grown else common[k]) for k, x in one.items()} for one in found]
        own = unwrap(self.made.function).__globals__
        self.pool = own["Pool"](pages, 3) if pages else None
        self.caches = [own["Cache"](4, self.pool) for _ in total]
        self.at = [0] * len(total)

    def asked(self) -> dict[str, int]:
        parameters, tensors = signature(unwrap(self.made.function)).parameters, {t.key for t in self.program.inputs()}
        return {p: v for n, v in self.sizes.items() for p in (n, f"{n}_size") if p in parameters and p not in tensors}

    def part(self, n: int, tensor: Tensor, first: int, last: int) -> np.ndarray:
        x = self.given[n][tensor.key]
        return np.take(x, range(first, last), places(tensor, self.along)[0]) if places(tensor, self.along) else x

    def step(self, counts: list[int]) -> dict[str, list[np.ndarray]]:
        """The outputs of each text for its next positions, those of one step."""
        here = {}
        for tensor in self.program.inputs():
            parts = [self.part(n, tensor, self.at[n], self.at[n] + count) for n, count in enumerate(counts)]
            found = places(tensor, self.along)
            here[tensor.key] = torch.as_tensor(np.concatenate(parts, found[0]) if found else parts[0])
        out = self.made(self.caches, **here, **self.asked(), lengths=counts)
        ends = np.cumsum(counts)[:-1]
        names = [name for name, _ in self.program.outputs]
        out = dict(zip(names, [out] if len(names) == 1 else out, strict=True))
        keys = dict(self.program.outputs)
        self.at = [at + count for at, count in zip(self.at, counts, strict=True)]
        return {name: np.split(x.numpy(), ends, places(self.program.tensors[keys[name]], self.along)[0])
                for name, x in out.items()}

    def alone(self, n: int) -> Arrays:
        given = {t.key: self.part(n, t, 0, self.at[n]) for t in self.program.inputs()}
        return meaning(self.program, given, {**self.sizes, "T": self.at[n]})


def steady(case: Case) -> bool:
    """A program whose inputs and outputs have one position each, and whose numbers are
    none of the number of positions."""
    program = typed_of(case)
    along = growing(program)
    tensors = [*program.inputs(), *(program.tensors[key] for _, key in program.outputs)]
    lengths = append_stability(program, along).lengths
    return all(len(places(t, along)) < 2 for t in tensors) and not any(key in lengths for _, key in program.outputs)


# The others; named, so that nothing is checked before the first test runs.
UNSTEADY = ("over_zero", "row_twice", "row_elsewhere", "mixed_numbers", "decode", "mla_decode", "sigmoid", "indexer",
            "online_softmax")
CASES = [case for case in GROWING if case.name not in (*LATER.split(), *UNSTEADY)]


@each([case for case in GROWING if case.name not in LATER.split()], {}, few=DRAWN)
def test_which_programs_are_steady(case: Case) -> None:
    assert steady(case) == (case in CASES)


@pytest.mark.drawn(2)
@each(CASES, {}, slow=SLOW, few=DRAWN)
def test_texts_side_by_side_are_each_as_alone(case: Case) -> None:
    texts = Texts(case)
    found: list[dict[str, list[np.ndarray]]] = [texts.step(counts) for counts in PLAN]
    keys = dict(texts.program.outputs)
    for n in range(len(texts.at)):
        for name, want in texts.alone(n).items():
            got = np.concatenate([step[name][n] for step in found],
                                 places(texts.program.tensors[keys[name]], texts.along)[0])
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["gqa", "mla_rope", "sliding_window", "decoder_lm"])
def test_no_text_reads_what_is_kept_of_another(name: str) -> None:
    """What one cache has is no number: no other text's result changes by a bit."""
    clean, poisoned = Texts(named(name)), Texts(named(name))
    for counts in PLAN[:2]:
        clean.step(counts)
        poisoned.step(counts)
    spoil(poisoned.caches[1])
    want, got = clean.step(PLAN[3]), poisoned.step(PLAN[3])
    for key in want:
        for n in (0, 2):
            np.testing.assert_array_equal(got[key][n], want[key][n])
        assert np.isnan(got[key][1]).all()


def spoil(cache: Any) -> None:
    def each(rows: Any) -> None:
        if rows.store is not None:
            rows.store.fill_(float("nan"))
        for inner in rows.rounds.values():
            each(inner)

    for rows in cache.kept.values():
        each(rows)


def test_a_step_that_lacks_pages_leaves_all_texts_as_they_were() -> None:
    texts = Texts(named("gqa"), pages=6)
    before = texts.step([3, 5, 1])
    held, lengths = list(texts.pool.counts), [one.length for one in texts.caches]
    with pytest.raises(RuntimeError, match="3 more pages are needed, 2 of 6 are free"):
        texts.step([4, 2, 1])
    assert list(texts.pool.counts) == held and [one.length for one in texts.caches] == lengths
    texts.caches[0].free()
    texts.at[0] = 0
    again = texts.step([3, 0, 0])
    for key in before:
        np.testing.assert_allclose(again[key][0], before[key][0], rtol=1e-9)


def test_what_a_step_says_of_its_caches() -> None:
    texts = Texts(named("gqa"))
    given = {t.key: torch.as_tensor(texts.part(0, t, 0, 3)) for t in texts.program.inputs()}
    one, other, _ = texts.caches
    for caches, lengths, said in [
        ([one, other], None, "one is expected for each"),
        ([one, other], [3], "one is expected for each"),
        ([one, other], [1, 1], "add up to the 3 new positions"),
        ([one, other], [4, -1], "add up to the 3 new positions"),
        ([one, one], [1, 2], "stands twice"),
    ]:
        with pytest.raises(ValueError, match=said):
            texts.made(caches, **given, lengths=lengths)
        assert one.length == other.length == 0
    assert grows(texts.program)


@pytest.mark.parametrize("name", ["gqa", "decoder_lm", "retention", "mla_rope", "preblock"])
def test_the_last_positions_alone(name: str) -> None:
    """Of each text the last new position, as among all of them."""
    whole, last = Texts(named(name)), Texts(named(name))
    for counts in PLAN[:2]:
        want = whole.step(counts)
        place = {name: places(last.program.tensors[key], last.along)[0] for name, key in last.program.outputs}
        here = {t.key: torch.as_tensor(np.concatenate(
            [last.part(n, t, last.at[n], last.at[n] + count) for n, count in enumerate(counts)], found[0]))
            if (found := places(t, last.along)) else torch.as_tensor(last.part(0, t, 0, 0))
            for t in last.program.inputs()}
        out = last.made(last.caches, **here, **last.asked(), lengths=counts, latest=True)
        last.at = [at + count for at, count in zip(last.at, counts, strict=True)]
        (key,) = want
        for n, x in enumerate(out.split(1, place[key])):
            np.testing.assert_allclose(x.numpy(), np.take(want[key][n], [-1], place[key]), rtol=1e-9, atol=1e-9)


def test_a_cache_of_another_file_is_none_of_these() -> None:
    made, other = front.compile("sdpa", plan="serve"), front.compile("gqa", plan="serve")
    given = {name: torch.randn(1, 2, 3, 4) for name in ("Q", "K", "V")}
    assert made.prefill is not None
    for wrong in (other.cache(), [other.cache()], None, "cache", 3):
        with pytest.raises(TypeError, match="that this very file has made"):
            made(wrong, **given)
    _, cache = made.prefill(**given)
    with pytest.raises(TypeError):
        list(cache)
    with pytest.raises(ValueError, match="there is no new position"):
        made(cache, **{name: x[:, :, :0] for name, x in given.items()})
    with pytest.raises(ValueError, match="chunk = 0"):
        made.prefill(**given, chunk=0)
