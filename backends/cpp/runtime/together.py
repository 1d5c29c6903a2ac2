"""Calls of compiled kernels that several functions make side by side, as the requests of a step do: each kernel runs
once for all of them.
"""

from __future__ import annotations

import array
from collections.abc import Generator
from typing import Any

import torch

from einc.backends.cpp.runtime.native import (
    _RAN,
    _native,
    _native_entry,
    _native_given,
    _native_in_memory,
    _native_library,
)


def _native_queue(calls: list[tuple[Any, ...]]) -> bool:
    """Runs calls of one kernel, with the arguments of `_native`, in one call whose pieces are shared out together; the
    longest come first. False where it has not run: torch's statements then compute the results of all.
    """
    (text, name, *_), (dtype, *more) = calls[0], calls[0][6:]
    vectors = more[0] if more else 2
    _RAN[name] = False
    given = []
    for _, _, tensors, sizes, numbers, work, *_ in sorted(calls, key=lambda call: -call[5]):
        one = _native_given(text, tensors, sizes, numbers, work, dtype, vectors)
        if one is None:
            return False
        given.append(one)
    needed, run = _native_entry(_native_library(text, dtype, vectors), name, f"{name}_queue", 5)
    tables = [array.array("Q", [one.buffer_info()[0] for one in column]) for column in zip(*given, strict=True)]
    pointers, whole, reals = [table.buffer_info()[0] for table in tables]
    ends = array.array("q", bytes(16 * len(given)))
    each = max(needed(one.buffer_info()[0]) for _, one, _ in given)
    _RAN[name] = _native_in_memory(name, run, each, len(given), pointers, whole, reals, ends.buffer_info()[0])
    return _RAN[name]


def _native_together(bodies: list[Generator[tuple[Any, ...], Any, Any]]) -> list[Any]:
    """What functions return that run side by side: each waits where it asks for a compiled kernel, by the arguments of
    `_native`, until all others wait or are done; the calls of one kernel then run as one.
    """
    if len(bodies) == 1:
        return [_native_alone(bodies[0])]
    made, answers = [None] * len(bodies), dict[int, Any].fromkeys(range(len(bodies)))
    while answers:
        asked = dict[tuple[Any, ...], list[int]]()
        calls = dict[int, tuple[Any, ...]]()
        for at, answer in answers.items():
            try:
                calls[at] = bodies[at].send(answer)
                asked.setdefault((*calls[at][:2], *calls[at][6:]), []).append(at)
            except StopIteration as ended:
                made[at] = ended.value
        answers = {}
        for some in asked.values():
            if len(some) == 1 or torch.compiler.is_compiling():
                answers |= {at: _native(*calls[at]) for at in some}
            else:
                answers |= dict.fromkeys(some, _native_queue([calls[at] for at in some]))
    return made


def _native_alone(body: Generator[tuple[Any, ...], Any, Any]) -> Any:
    """What a function returns that has no others beside it: each of its calls runs when it is asked for."""
    answer = None
    try:
        while True:
            answer = _native(*body.send(answer))
    except StopIteration as ended:
        return ended.value
