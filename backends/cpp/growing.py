"""Folds that grow in loops. A sum of many numbers is a sum of runs: each is of few numbers, and the runs are added in
double, so that what is lost does not grow with the length of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einc.backends.cpp.values import begun, type_of
from einc.backends.writer import Writer

RUN = 64  # numbers of a run


@dataclass(frozen=True)
class Grown:
    """A fold in the making: a number, a vector if it has lanes, or an array of these with `sizes`, such as `[N]`,
    whose elements `places`, such as `[r]`, stand in the loops `each`.
    """

    name: str
    fold: str
    lanes: bool
    sizes: str = ""
    places: str = ""
    each: str = ""

    @property
    def element(self) -> str:
        """The element of the fold's array that a loop over features is at, as C++."""
        return f"{self.name}{self.places}"

    @property
    def started(self) -> str:
        """The statement that puts the fold, or a run of it, at its start."""
        start = f"(float){begun(self.fold)}"
        return f"{self.each}{self.element} = {f'splat({start})' if self.lanes else start};"


def opened(body: Writer, folds: Sequence[Grown], loops: Sequence[tuple[str, str]]) -> None:
    """Writes the starts of folds, and opens the loops in which they grow: the variable of each loop, and its end."""
    runs = _runs(folds, loops)
    for fold in folds:
        body(f"{type_of('real', fold.lanes)} {fold.name}{fold.sizes};")
        body(f"{type_of('exact', fold.lanes)} {fold.name}_runs{fold.sizes} = {{}};" if fold in runs else fold.started)
    for place, end in loops[:-1] if runs else loops:
        body.open(f"for (L {place} = 0; {place} < {end}; {place}++) {{")
    if runs:
        place, end = loops[-1]
        body.open(f"for (L {place}_run = 0; {place}_run < {end}; {place}_run += {RUN}) {{")
        for fold in runs:
            body(fold.started)
        body.open(f"for (L {place} = {place}_run; {place} < {end} && {place} < {place}_run + {RUN}; {place}++) {{")


def closed(body: Writer, folds: Sequence[Grown], loops: Sequence[tuple[str, str]]) -> None:
    """Closes the loops in which folds have grown."""
    runs = _runs(folds, loops)
    if runs:
        body.close()
        body("}")
    for fold in runs:
        body(f"{fold.each}{fold.name}_runs{fold.places} += exact({fold.element});")
    for _ in loops:
        body.close()
        body("}")
    for fold in runs:
        body(f"{fold.each}{fold.element} = real({fold.name}_runs{fold.places});")


def _runs(folds: Sequence[Grown], loops: Sequence[tuple[str, str]]) -> list[Grown]:
    """The folds that are sums of more numbers than a run has, or of nobody knows how many."""
    few = len(loops) == 1 and loops[0][1].isdigit() and int(loops[0][1]) <= RUN
    return [fold for fold in folds if fold.fold == "sum" and not few]
