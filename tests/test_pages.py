"""A cache in pages of a pool is a cache: whatever lies in between, whoever shares the
pages, and whenever it is stopped."""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import unwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Arrays, arrays, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_serving import LONGER, named, served, stepwise

from bench import soak
from bench.cli import main
from einc.driver import front

GROWING = ["gqa", "mla_rope", "sliding_window", "yarn_dynamic", "decoder_lm", "sdpa", "mask_documents", "retention",
           "one_projection", "convolution"]


@cache
def growing(name: str) -> tuple[front.Compiled, Arrays, dict[str, int]]:
    case = named("attention" if name == "yarn_dynamic" else name)
    made = front.compile(LONGER, plan="serve") if name == "yarn_dynamic" else served(case)
    sizes = {**case.sizes, "T": 40, **({"L": 5} if name == "yarn_dynamic" else {})}
    return made, arrays(made.program, sizes, case.ranges, 1), sizes


def classes(made: front.Compiled) -> dict[str, Any]:
    return unwrap(made.function).__globals__


def scattered(made: front.Compiled, pages: int, page: int) -> Any:
    """A pool in which every third page is taken, by a cache that is not there for anything else."""
    pool = classes(made)["Pool"](pages + pages // 2 + 3, page)
    taken = list(range(1, len(pool.counts), 3))
    pool.other = classes(made)["Cache"](pool=pool, table=taken, length=len(taken) * page)
    return pool


def poisoned(state: Any) -> None:
    """No numbers, or absurd ones, in all memory of the pool that has nothing of the cache."""
    kept = {state.table.run(at)[0] for at in range(state.length - state.dropped)}
    free = torch.tensor([slot for slot in range(len(state.pool.counts) * state.pool.page) if slot not in kept])
    for store in state.pool.stores.values():
        store.rows.index_fill_(store.axis, free, torch.nan if store.rows.is_floating_point() else 2**62)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", GROWING)
def test_pages_are_rows(name: str) -> None:
    made, arrays_, sizes = growing(name)
    cuts = [5, *[1] * 13, 9, *[1] * 13]
    whole = stepwise(made, arrays_, sizes, cuts)
    for page in (1, 3, 16, 256):
        found = stepwise(made, arrays_, sizes, cuts, scattered(made, -(-40 // page), page), poisoned)
        for key, x in found.items():
            np.testing.assert_allclose(x, whole[key], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("name", ["gqa", "sdpa"])
def test_a_kernel_of_the_library_is_called_for_each_piece(name: str, dtype: torch.dtype, bound: float) -> None:
    """What torch's kernel gives of each piece, joined, is what it gives of the whole."""
    made, arrays_, _ = growing(name)
    given_ = {key: torch.as_tensor(x).to(dtype) for key, x in arrays_.items()}
    axes = {t.key: n for t in made.program.inputs() for n, s in enumerate(t.slots)
            if s.set.cls == "time" and t.role == "input"}
    outputs = []
    for pool in (None, scattered(made, 14, 3)):
        here = {key: x.narrow(axes[key], 0, 30) if key in axes else x for key, x in given_.items()}
        assert made.prefill is not None
        _, state = made.prefill(**here, pool=pool)
        if pool is not None:
            poisoned(state)
            assert len(state.table.runs) > 4
        for at in range(30, 40):
            here = {key: x.narrow(axes[key], at, 1) if key in axes else x for key, x in given_.items()}
            outputs.append(made(state, **here))
    for whole, found in zip(outputs[:10], outputs[10:], strict=True):
        torch.testing.assert_close(found, whole, rtol=bound, atol=bound * float(whole.abs().max()))


@pytest.mark.whole
def test_rounds_have_pages_of_their_own() -> None:
    made, arrays_, sizes = growing("llama_lm")
    found = stepwise(made, arrays_, sizes, [5, 1, 34], scattered(made, 14, 3), poisoned)
    for key, x in stepwise(made, arrays_, sizes, [5, 1, 34]).items():
        np.testing.assert_allclose(found[key], x, rtol=1e-12, atol=1e-12)


# tables


def tiny() -> dict[str, Any]:
    return soak.emitted("all")  # type: ignore[no-any-return]


def rows(count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {name: torch.randn(count, soak.WIDTH, dtype=torch.float64) for name in "qkv"}


def part(x: dict[str, torch.Tensor], first: int, last: int) -> dict[str, torch.Tensor]:
    return {name: one[first:last] for name, one in x.items()}


@pytest.mark.parametrize("as_tensor", [False, True])
def test_entries_that_are_not_used_may_be_absurd(as_tensor: bool) -> None:
    x, file = rows(12), tiny()
    pool = file["Pool"](6, 4)
    table = [4, 1, 2147480000, -5]
    made = file["Cache"](pool=pool, table=torch.tensor(table) if as_tensor else table)
    y = torch.cat([file["step"](made, **part(x, at, at + 2)) for at in range(0, 8, 2)])
    torch.testing.assert_close(y, file["prefill"](**x)[0][:8])
    assert made.table.pages == [4, 1] and pool.free == 4
    with pytest.raises(ValueError, match="entry 2 of the table is 2147480000, the pages of the pool are 0 to 5"):
        file["step"](made, **part(x, 8, 12))
    assert made.length == 8 and pool.free == 4


def test_a_table_brings_positions() -> None:
    """Whoever has the table of another's pages has its positions, and writes beside them."""
    x, file = rows(12), tiny()
    pool = file["Pool"](6, 4)
    whole, first = file["prefill"](**x)[0], file["prefill"](**part(x, 0, 6), pool=pool)[1]
    other = file["Cache"](pool=pool, table=[*first.table.pages, 2147480000], length=6)
    assert [pool.counts[page] for page in first.table.pages] == [2, 2]
    torch.testing.assert_close(file["step"](first, **part(x, 6, 8)), whole[6:8])
    torch.testing.assert_close(file["step"](other, **part(x, 6, 8)), whole[6:8])
    assert first.table.pages[0] == other.table.pages[0] and first.table.pages[1] != other.table.pages[1]


def test_a_table_says_where_positions_go() -> None:
    """A page that another holds is not taken from it: a free one stands in for it."""
    x, file = rows(12), tiny()
    pool = file["Pool"](6, 4)
    first = file["Cache"](pool=pool, table=[3, 0, 1])
    file["step"](first, **part(x, 0, 12))
    assert first.table.pages == [3, 0, 1]
    other = file["Cache"](pool=pool, table=[5, 3, 4])
    torch.testing.assert_close(file["step"](other, **part(x, 0, 12)), file["prefill"](**x)[0])
    assert sorted(other.table.pages) == [2, 4, 5] and pool.free == 0


@pytest.mark.parametrize(("table", "length", "said"), [
    ([0, 9], 5, "entry 1 of the table is 9, the pages of the pool are 0 to 5"), ([-1], 1, "entry 0 of the table is -1"),
    ([0], 5, "5 positions lie in 2 pages, the table names 1"),
    (None, 5, "5 positions lie in 2 pages, the table names 0"),
    ([0.5], 1, "entry 0 of the table is 0.5"),
    ([3, 1, 3], 9, "the table names a page twice among the 3 in which 9 positions lie"),
])
def test_a_used_entry_is_a_page(table: list[int] | None, length: int, said: str) -> None:
    pool = tiny()["Pool"](6, 4)
    with pytest.raises(ValueError, match=said):
        tiny()["Cache"](pool=pool, table=table, length=length)
    assert pool.free == 6 and not pool.caches


def test_a_table_without_a_pool() -> None:
    with pytest.raises(ValueError, match="a table needs the pool whose pages it names"):
        tiny()["Cache"](table=[0])
    for pages, page, said in ((0, 4, "pages = 0"), (2.0, 4, "pages = 2.0"), (2, 1.5, "page = 1.5"),
                              (2, True, "page = True")):
        with pytest.raises(ValueError, match=f"{said}, a whole number from 1 is expected"):
            tiny()["Pool"](pages, page)


def test_counts_of_positions_are_whole_numbers() -> None:
    file = tiny()
    made = file["prefill"](**rows(4), pool=file["Pool"](4, 4))[1]
    for call, said in ((file["Cache"], "chunk"), (lambda x: file["prefill"](**rows(2), chunk=x), "chunk"),
                       (lambda x: file["Cache"](pool=made.pool, length=x), "length"), (made.fork, "length"),
                       (made.reserve, "count")):
        for wrong in (1.5, float("inf"), float("nan"), "a", -1):
            with pytest.raises(ValueError, match=f"{said} = {wrong!r}, a whole number from [01] is expected"):
                call(wrong)
    assert (made.length, made.pool.free, len(made.pool.caches)) == (4, 3, 1)


# no room


def test_an_exhausted_pool_loses_nothing() -> None:
    x, file = rows(20), tiny()
    pool = file["Pool"](4, 4)
    _, made = file["prefill"](**part(x, 0, 6), pool=pool)
    _, other = file["prefill"](**part(x, 0, 3), pool=pool)
    with pytest.raises(file["Exhausted"],
                       match="3 more pages are needed, 1 of 4 are free: free a cache, or make a larger pool"):
        file["step"](made, **part(x, 6, 20))
    with pytest.raises(file["Exhausted"]):
        file["prefill"](**part(x, 0, 5), pool=pool)
    assert (pool.free, made.length, len(pool.caches)) == (1, 6, 2)
    other.free()
    torch.testing.assert_close(file["step"](made, **part(x, 6, 16)), file["prefill"](**x)[0][6:16])


def test_room_for_all_or_for_none() -> None:
    x, file = rows(20), tiny()
    pool = file["Pool"](5, 4)
    made = [file["prefill"](**part(x, 0, 3), pool=pool)[1] for _ in range(2)]
    with pytest.raises(file["Exhausted"]):
        file["_reserve"](made, [9, 6])
    assert pool.free == 3
    file["_reserve"](made, [9, 1])
    assert pool.free == 1
    made[0].reserve(5)
    assert pool.free == 1, "room that is there is used"
    made[0].free()
    made[0].free()
    assert pool.free == 4


def test_a_copy_needs_a_page() -> None:
    x, file = rows(8), tiny()
    pool = file["Pool"](2, 4)
    _, made = file["prefill"](**part(x, 0, 6), pool=pool)
    other = made.fork()
    with pytest.raises(file["Exhausted"], match="1 more page is needed"):
        file["step"](other, **part(x, 6, 7))
    made.free()
    torch.testing.assert_close(file["step"](other, **part(x, 6, 8)), file["prefill"](**x)[0][6:8])


# forks


@pytest.mark.parametrize("name", ["gqa", "decoder_lm", "sliding_window"])
@pytest.mark.parametrize("page", [0, 3])
def test_forks_go_their_own_ways(name: str, page: int) -> None:
    """Both write where they parted; without a pool a fork is a copy."""
    made, arrays_, sizes = growing(name)
    other = dict(arrays_)
    for tensor in made.program.inputs():
        if tensor.role == "input" and not tensor.integer:
            other[tensor.key] = np.concatenate([arrays_[tensor.key][:7], arrays_[tensor.key][7:][::-1]])
        elif tensor.role == "input":
            other[tensor.key] = np.flip(arrays_[tensor.key], -1).copy()
            other[tensor.key][..., :7] = arrays_[tensor.key][..., :7]
    pool, forks = (classes(made)["Pool"](90, page) if page else None), list[Any]()
    stepwise(made, arrays_, sizes, [7, 3], pool, lambda state: forks.append(state.fork()))
    (fork,) = forks
    original, branch = stepwise(made, arrays_, sizes, [7, 3]), stepwise(made, other, sizes, [7, 3])
    again = fork.fork(5 if name != "sliding_window" else 7)
    assert fork.length == 7
    for state, want, inputs, first in ((fork, branch, other, 7), (again, original, arrays_, again.length)):
        here = {}
        for tensor in made.program.inputs():
            x = torch.as_tensor(inputs[tensor.key])
            axis = next((n for n, s in enumerate(tensor.slots) if s.set.cls == "time" and tensor.role == "input"), None)
            here[tensor.key] = x if axis is None else x.narrow(axis, first, 10 - first)
        asked = {"W": sizes["W"]} if name == "sliding_window" else {}
        y = made(state, **here, **asked)
        ((_, whole),) = want.items()
        at = next(n for n, size in enumerate(whole.shape) if size == 10)
        torch.testing.assert_close(y, torch.as_tensor(whole).narrow(at, first, 10 - first), rtol=1e-9, atol=1e-9)


def test_a_fork_has_what_it_reads() -> None:
    file = soak.emitted("few")
    _, made = file["prefill"](**rows(40), pool=file["Pool"](20, 4))
    assert made.dropped == 36 and made.pool.free == 19
    with pytest.raises(ValueError, match="39 positions cannot be forked: the cache has 40, of which it dropped 36"):
        made.fork(39)
    assert made.fork(40).length == 40


# caches that nobody has any more


@examples(15, 40, data=st.data())
def test_pages_of_a_cache_that_is_dropped_come_back(data: st.DataObject) -> None:
    """At once, but for those that others hold; and what is left goes on as if it had been freed."""
    file, page = tiny(), data.draw(st.integers(1, 5))
    pool, x = file["Pool"](60, page), rows(24)
    made = [file["prefill"](**part(x, 0, data.draw(st.integers(1, 12))), pool=pool)[1]]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(made) - 1))
        made.append(made[at].fork(data.draw(st.integers(0, made[at].length))))
        file["step"](made[-1], **part(x, made[-1].length, made[-1].length + data.draw(st.integers(1, 3))))
    while made:
        made.pop(data.draw(st.integers(0, len(made) - 1)))
        held = {n for one in made for n in one.table.pages}
        assert pool.free == 60 - len(held) and sorted(pool.caches) == sorted(one.number for one in made)
        assert [n for n, count in enumerate(pool.counts) if count] == sorted(held)
        for at in range(len(made)):
            upto = made[at].length + 1
            y = file["step"](made[at], **part(x, upto - 1, upto))
            torch.testing.assert_close(y, file["prefill"](**part(x, 0, upto))[0][-1:])


def test_room_that_is_dropped_is_used_by_the_next_step() -> None:
    x, file = rows(12), tiny()
    pool = file["Pool"](3, 4)
    made = file["prefill"](**part(x, 0, 12), pool=pool)[1]
    del made
    assert file["prefill"](**x, pool=pool)[1].length == 12
    # A step that fails at its first row leaves a cache to nobody.
    with pytest.raises(ValueError, match="the cache keeps"):
        file["prefill"](**{name: one.float() for name, one in x.items()}, pool=pool)
    assert pool.free == 3


@pytest.mark.parametrize("paged", [False, True])
def test_a_copy_is_a_fork(paged: bool) -> None:
    x, file = rows(12), tiny()
    made = file["prefill"](**part(x, 0, 6), pool=file["Pool"](9, 4) if paged else None)[1]
    for copied in (copy.copy(made), copy.deepcopy(made), copy.deepcopy([made, made])[1]):
        file["step"](copied, **{name: -one[6:8] for name, one in x.items()})
        assert (copied.length, made.length) == (8, 6)
    torch.testing.assert_close(file["step"](made, **part(x, 6, 12)), file["prefill"](**x)[0][6:])


# files


def test_a_save_that_fails_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one that did not fail is there; and whoever saves at the same time has another file."""
    x, file = rows(12), tiny()
    pool = file["Pool"](9, 4)
    made, names = file["prefill"](**part(x, 0, 6), pool=pool)[1], list[str]()
    pool.save(str(folder / "pool"))
    for place, name in ((torch, "save"), (os, "fsync"), (os, "replace")):
        file["step"](made, **part(x, made.length, made.length + 1))
        plain = getattr(place, name)

        def failing(*args: Any, plain: Any = plain) -> None:
            names.extend(one.name for one in folder.iterdir() if one.name != "pool")
            if plain is torch.save:
                plain(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(place, name, failing)
            pool.save(str(folder / "pool"))
        assert [one.name for one in folder.iterdir()] == ["pool"]
    assert len(set(names)) == 3
    assert file["Pool"].load(str(folder / "pool")).loaded[made.number].length == 6


TAMPERED: dict[str, Callable[[Any], None]] = {
    "has page -1, the pages of the pool are 0 to 8": lambda x: x[5][1][4].__setitem__(0, -1),
    "has page 9, the pages": lambda x: x[5][1][4].__setitem__(1, 9),
    "has page 0.5, the pages": lambda x: x[5][1][4].__setitem__(1, 0.5),
    "cache 1 has a page twice": lambda x: x[5][1][4].__setitem__(1, x[5][1][4][0]),
    "caches have others": lambda x: x[5][2][4].__setitem__(0, 7),
    "what is kept has a page twice": lambda x: x[3].append(x[3][0]),
    "what is kept has page 77": lambda x: x[3].append(77),
    "length = -1": lambda x: x[5].__setitem__(1, (-1, *x[5][1][1:])),
    "has 40 positions": lambda x: x[5].__setitem__(1, (40, *x[5][1][1:])),
    "it dropped 8": lambda x: x[5].__setitem__(1, (6, 8, *x[5][1][2:])),
    "it dropped 3": lambda x: x[5].__setitem__(1, (6, 3, *x[5][1][2:])),
    "chunk = 0": lambda x: x[5].__setitem__(1, (*x[5][1][:3], 0, *x[5][1][4:])),
    "cache 9 of 2": lambda x: x[5].__setitem__(9, x[5][1]),
    "cache 1 of 0": lambda x: x.__setitem__(2, 0),
    "pages = -3": lambda x: x.__setitem__(0, -3),
    "page = 1.5": lambda x: x.__setitem__(1, 1.5),
    "k has shape": lambda x: x.__setitem__(1, 2),
    "k has rows of shape": lambda x: x[4].__setitem__("k", (*x[4]["k"][:3], x[4]["k"][3][:, 1:])),
    "is no saved pool": lambda x: x.pop(),
    "not iterable": lambda x: x[5].__setitem__(1, (*x[5][1][:4], 5, [], {})),
    "a state is no tensor": lambda x: x[5].__setitem__(1, (*x[5][1][:6], {"S": 3})),
}


@pytest.mark.parametrize("said", TAMPERED)
def test_a_file_that_was_tampered_with_is_refused(folder: Path, said: str) -> None:
    file, path = tiny(), str(folder / "pool")
    pool = file["Pool"](9, 4)
    made = file["prefill"](**rows(10), pool=pool)[1]
    other = file["prefill"](**rows(3), pool=pool)[1]
    pool.save(path)
    assert sorted(file["Pool"].load(path).loaded) == [made.number, other.number] == [1, 2]
    found = list(torch.load(path, weights_only=True))
    TAMPERED[said](found)
    torch.save(tuple(found), path)
    with pytest.raises(ValueError, match=f"{re.escape(path)} is no saved pool: ") as told:
        file["Pool"].load(path)
    assert said in str(told.value)


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_a_file_says_is_refused_or_consistent(data: st.DataObject) -> None:
    """One thing in a saved pool is another: it is refused, or the pool that is loaded
    counts its pages as its caches do."""
    file, absurd = tiny(), st.sampled_from([-1, 0, 1, 2, 7, 9, 10**20, 0.5, "a", None, True])
    pool = file["Pool"](9, 4)
    kept = [file["prefill"](**rows(10), pool=pool)[1], file["prefill"](**rows(3), pool=pool)[1]]
    kept.append(kept[0].fork(7))
    with TemporaryDirectory() as folder:
        path = f"{folder}/pool"
        pool.save(path)
        spoiled = mutated(list(torch.load(path, weights_only=True)), data, absurd)
        torch.save(spoiled, path)
        try:
            found = file["Pool"].load(path)
        except ValueError as error:
            assert "is no saved pool" in str(error)
            return
    tables = [page for one in found.loaded.values() for page in one.table.pages]
    assert [tables.count(n) for n in range(len(found.counts))] == found.counts
    assert all(0 <= page < 9 for page in tables)
    assert all(one.length <= one.dropped + 4 * len(one.table.pages) for one in found.loaded.values())


def mutated(x: Any, data: st.DataObject, absurd: st.SearchStrategy[Any]) -> Any:
    """The same with one thing in it that is another."""
    if isinstance(x, dict) and x:
        key = data.draw(st.sampled_from(list(x)))
        return {**x, key: mutated(x[key], data, absurd)}
    if isinstance(x, list | tuple) and x:
        at = data.draw(st.integers(0, len(x) - 1))
        return type(x)([*x[:at], mutated(x[at], data, absurd), *x[at + 1 :]])
    return data.draw(absurd)


# where pages lie


def test_requests_that_grow_together_have_long_runs() -> None:
    file = tiny()
    pool = file["Pool"](512, 4)
    made = [file["prefill"](**rows(30), pool=pool)[1] for _ in range(8)]
    for _ in range(100):
        for one in made:
            file["step"](one, **rows(1))
    assert sum(len(one.table.runs) for one in made) <= 12


@given(data=st.data())
@settings(max_examples=60)
def test_tiles_are_what_was_written(data: st.DataObject) -> None:
    """Each position of the spans is in one tile, whatever lies side by side, and in it stands what was written."""
    file, page = tiny(), data.draw(st.sampled_from([1, 3, 16, 256]))
    length = data.draw(st.integers(1, 1500))
    count = -(-length // page)
    table = list(range(count + 2))
    if data.draw(st.booleans()):
        random.Random(data.draw(st.integers(0, 9))).shuffle(table)
    else:  # runs of several lengths
        cut = data.draw(st.integers(0, count))
        table = table[cut:] + table[:cut]
    pool = file["Pool"](count + 3, page)
    made = file["Cache"](pool=pool, table=table)
    whole = torch.arange(2 * length).view(2, length)
    laid = made["x"].append(whole, 1, (0, 1))
    made.length += length
    ends = st.integers(0, length)
    spans = tuple(data.draw(st.lists(st.tuples(ends, ends), max_size=3)))
    columns = data.draw(st.integers(1, 700))
    tiles = list(laid.tiles(spans, columns))
    assert all(0 < last - first <= columns for first, last in tiles)
    assert [at for first, last in tiles
            for at in range(first, last)] == sorted({at for a, b in spans for at in range(a, b)})
    for first, last in tiles:
        assert laid.tile(first, last).equal(whole[:, first:last])
    assert laid.whole().equal(whole)
    again = made["x"].append(whole[:, :3], 1, (0, 1))
    assert again.whole().equal(torch.cat([whole, whole[:, :3]], 1))


# random requests


class Requests(RuleBasedStateMachine):
    """The operations of `bench soak` in the orders that hypothesis finds, and the least one that fails."""

    @initialize(kind=st.sampled_from(["all", "few"]), pool=st.sampled_from([(20, 1), (12, 3), (6, 16), (3, 256)]))
    def begin(self, kind: str, pool: tuple[int, int]) -> None:
        self.soak, self.random = soak.Soak.begin(kind, *pool), random.Random(0)

    def one(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.soak.rows)))

    @rule(data=st.data(), shuffled=st.booleans())
    def join(self, data: st.DataObject, shuffled: bool) -> None:
        pages = range(len(self.soak.pool.counts))
        self.soak.join(data.draw(st.permutations(pages)) if shuffled else None)

    @precondition(lambda self: self.soak.rows)
    @rule(data=st.data(), together=st.booleans())
    def append(self, data: st.DataObject, together: bool) -> None:
        numbers = ([self.one(data)] if not together else [n for n in self.soak.rows if data.draw(st.booleans())]
                   or [self.one(data)])
        self.soak.append({number: data.draw(st.integers(1, 18)) for number in numbers}, self.random)

    @precondition(lambda self: self.soak.rows)
    @rule(data=st.data(), count=st.integers(0, 9))
    def reserve(self, data: st.DataObject, count: int) -> None:
        self.soak.reserve({number: count for number in self.soak.rows if data.draw(st.booleans())})

    @precondition(lambda self: self.soak.rows)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        number = self.one(data)
        self.soak.fork(number, data.draw(st.integers(0, len(self.soak.rows[number]))))

    @precondition(lambda self: self.soak.rows)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        self.soak.free(self.one(data))

    @precondition(lambda self: self.soak.rows)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.soak.drop(self.one(data))

    @rule()
    def reload(self) -> None:
        with TemporaryDirectory() as folder:
            self.soak.reload(Path(folder) / "pool")

    @invariant()
    def all_is_there(self) -> None:
        if hasattr(self, "soak"):
            self.soak.check()


Requests.TestCase.settings = settings(max_examples=25, stateful_step_count=25)
TestRequests = Requests.TestCase


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as found:
        yield Path(found)


@pytest.mark.parametrize("kind", soak.RANGES)
@pytest.mark.parametrize(("pages", "page"), soak.POOLS)
@pytest.mark.parametrize("count", [100, pytest.param(1250, marks=pytest.mark.whole)])
def test_many_operations(kind: str, pages: int, page: int, count: int, folder: Path) -> None:
    soak.soaked(kind, pages, page, 1, count, folder)


def test_a_killed_process_goes_on_from_its_last_save(folder: Path) -> None:
    assert soak.killed(folder / "pool", "few", 24, 16, seed=0, kills=1, lines=2, pause=0) > 0


def test_the_commands(folder: Path) -> None:
    for words in (["soak", "--operations", "80", "--kills", "0"],
                  ["paged", "--length", "40", "--page", "3", "--rounds", "1"]):
        done = CliRunner().invoke(main, [*words, "--out", str(folder)])
        assert done.exit_code == 0, done.output
        rows_ = [json.loads(line) for line in (folder / f"{words[0]}.jsonl").read_text(encoding="utf-8").splitlines()]
        assert {row["kind"] for row in rows_} == {words[0]}


def test_the_emitted_text_can_be_printed() -> None:
    text = front.compile(soak.SPEC.replace("RANGE", "s ≤ t"), plan="serve").source
    assert all(line.isprintable() for line in text.splitlines())
