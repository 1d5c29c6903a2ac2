"""Several requests in one step: each compiled kernel is called once, and its pieces of work are one queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from cpp_texts import NEEDED, globals_of
from helpers import distance
from test_cpp_pages import compiled
from test_requests import Texts, named, places

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

NAMES = ["sdpa", "gqa", "mla_rope", "sliding_window", "softcap", "alibi"]
PLAN = [[9, 20, 1], [1, 1, 1], [1, 12, 2], [2, 0, 1], [1, 1, 1]]


class Narrow(Texts):
    """Texts in float32, whose kernels are compiled."""

    def __init__(self, name: str, pages: int = 0) -> None:
        super().__init__(named(name), pages, compiled(name), PLAN)
        self.given = [{k: x.astype(np.float32) if x.dtype.kind == "f" else x for k, x in one.items()}
                      for one in self.given]

    def all_steps(self, plan: list[list[int]]) -> list[dict[str, list[np.ndarray]]]:
        return [self.step(counts) for counts in plan]


@contextmanager
def calls(made: Any, **others: Any) -> Iterator[list[tuple[str, int]]]:
    """The kernels that are called within, each with the number of requests of the call; `others` replace helpers."""
    found, own = list[tuple[str, int]](), globals_of(made.function)
    kept = {name: own[name] for name in ("_native", "_native_queue", *others)}

    def one(text: str, name: str, *rest: Any) -> bool:
        found.append((name, 1))
        ran: bool = kept["_native"](text, name, *rest)
        return ran

    def several(asked: list[tuple[Any, ...]]) -> bool:
        found.append((asked[0][1], len(asked)))
        ran: bool = kept["_native_queue"](asked)
        return ran

    own.update({"_native": one, "_native_queue": several} | others)
    try:
        yield found
    finally:
        own.update(kept)


def agree(texts: Narrow, found: list[dict[str, list[np.ndarray]]], bound: float = 1e-5) -> None:
    """Every text has what the interpreter says that it has alone."""
    keys = dict(texts.program.outputs)
    for n in range(len(texts.at)):
        for name, want in texts.alone(n).items():
            along = places(texts.program.tensors[keys[name]], texts.along)[0]
            assert distance(np.concatenate([step[name][n] for step in found], along), want) < bound


@pytest.mark.drawn(3)
@pytest.mark.parametrize("pages", [0, 400])
@pytest.mark.parametrize("name", NAMES)
def test_one_call_for_all_requests(name: str, pages: int) -> None:
    """Requests of one step that take the same kernel share one call of it, those of few rows and of many apart."""
    texts = Narrow(name, pages)
    with calls(texts.made) as called:
        found = [texts.step(PLAN[0])]
        called.clear()
        found.append(texts.step(PLAN[1]))
        assert called
        assert {count for _, count in called} == {3}
        assert len(called) == len(dict(called))
        called.clear()
        found.append(texts.step(PLAN[2]))
        assert sorted(count for _, count in called) == sorted([1, 2] * (len(called) // 2))
    agree(texts, found + texts.all_steps(PLAN[3:]))


def test_the_same_bits_as_alone() -> None:
    """What a request gets does not depend on the requests beside it."""
    together, apart = Narrow("gqa"), Narrow("gqa")
    with calls(apart.made, _native_queue=lambda asked: all(globals_of(apart.made.function)["_native"](*one)
                                                           for one in asked)):
        want = apart.all_steps(PLAN)
    for one, other in zip(together.all_steps(PLAN), want, strict=True):
        for key in one:
            for a, b in zip(one[key], other[key], strict=True):
                np.testing.assert_array_equal(a, b)


def test_torch_computes_what_the_queue_cannot() -> None:
    """Where one call of a queue cannot run, none of its calls has run, and torch computes the results of all."""
    texts = Narrow("gqa")
    given = globals_of(texts.made.function)["_native_given"]
    met = list[int]()

    def last_cannot(*rest: Any) -> Any:
        met.append(1)
        return None if len(met) % 3 == 0 else given(*rest)

    with calls(texts.made, _native_given=last_cannot):
        found = texts.all_steps(PLAN)
    assert met
    agree(texts, found)


def test_an_error_of_one_request_is_told() -> None:
    """What is raised in the body of a request, before or after it has waited, reaches the caller."""
    together = globals_of(compiled("gqa").function)["_native_together"]

    def body(fails: bool) -> Any:
        yield ("", "k0", [], [], [], 0, None)
        if fails:
            raise ValueError("this one")

    with calls(compiled("gqa"), _native_queue=lambda asked: True), pytest.raises(ValueError, match="this one"):
        together([body(False), body(True)])
