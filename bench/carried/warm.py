"""Filling the compilers' caches, in processes beside each other, before anything is timed: one thread compiles a
tile in seconds, and there are hundreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from bench.carried.cases import Measured
from bench.carried.rivals import COMPILED, RIVALS
from bench.carried.run import LostError, Place, alive, carried, drawn, forget, given, said
from bench.carried.tiles import PastError
from bench.case import Task


def unlike(cases: Sequence[Measured]) -> list[Measured]:
    """One case for those that differ in lengths alone: Triton compiles them once."""
    kept: dict[tuple[str, int | None, str], Measured] = {}
    for case in cases:
        kept.setdefault((case.kernel, case.sizes.get("D"), case.dtype), case)
    return list(kept.values())


def warm(place: Place, cases: Sequence[Measured], number: int, of: int) -> int:
    """The part of process `number` of `of`: every so many of the tiles of each kernel, and some cases' compiled rivals.
    Their count; what fails here fails again, and is told, where it is measured."""
    cases = [case.shrunk() for case in cases] if place.tiny else cases
    done = 0
    rivals = {case.name for turn, case in enumerate(cases) if turn % of == number}
    tiles = {case.name: (number - turn) % of for turn, case in enumerate(unlike(cases))}
    for case in cases:
        if place.clock.now() > place.end:
            break
        if case.name not in rivals and case.name not in tiles:
            continue
        try:
            task = drawn(place, case)
            if case.name in rivals and place.device.type == "cuda":
                done += sum(tried(place, partial(_first, place, task, name)) for name in case.rivals
                            if name in COMPILED)
            if case.name in tiles:
                done += _tiles(place, case, task, tiles[case.name], of)
        except LostError:
            raise
        except Exception as error:
            print(f"  {case.name}: {said(error)}", flush=True)
            alive(place.device, error)
        forget(place.device)
    return done


def _first(place: Place, task: Task, name: str) -> None:
    with torch.device(place.device):
        made = RIVALS[name](task)
    made.call()


def tried(place: Place, call: Callable[[], object]) -> bool:
    """Whether it went well."""
    try:
        with torch.no_grad():
            call()
    except PastError:
        raise
    except Exception as error:
        print(f"  {said(error)}", flush=True)
        alive(place.device, error)
        return False
    return True


def _tiles(place: Place, case: Measured, task: Task, first: int, step: int) -> int:
    """Compile and run the module with the tiles first, first + step, … of each kernel, as far as there are any."""
    module = carried(place, case)
    done, module.turn = 0, first
    try:
        while place.clock.now() < place.end and not (place.tiny and module.turn > 1):
            done += tried(place, lambda: module(**given(task)))
            module.turn += step
            if module.turn >= max(map(len, module.seen.values()), default=0):
                break
    except PastError:
        pass
    return done
