"""The gradient of a program piece by piece, as texts: of the whole, or of one round and
of what stands before and after rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest

from einc.ir.indices import Index, number
from einc.ir.programs import Program
from einc.syntax.printing.show import show
from einc.transforms.gradients.backward import Derived, derive
from einc.transforms.slicing.lags import with_lags
from einc.transforms.slicing.repeats import round_of, stretches


@dataclass(frozen=True)
class Piece:
    """What is differentiated on its own; the title is empty where that is the whole program."""

    title: str
    derived: Derived

    @property
    def heading(self) -> str:
        """The heading of the piece, with its title if it has one."""
        return f"The gradient of {self.derived.forward.name}{self.title and ', ' + self.title}"

    @property
    def text(self) -> str:
        """The program of the gradient as a spec, and above it what its caller has to give."""
        derived = self.derived
        names = {key: name for name, key in derived.forward.outputs}
        given = {"Cotangents": [f"{d} of {names[key]}" for key, d in derived.cotangents],
                 "Saved by the forward program": sorted(key for _, key in derived.saved)}
        said = [self.heading, *(f"{what}: {', '.join(which)}" for what, which in given.items() if which)]
        return "".join(f"# {line}.\n" for line in said) + show(derived.backward)


def pieces(program: Program) -> list[Piece]:
    """The pieces in the order of the program; its gradient goes through them from the last to the first."""
    if not program.repeats:
        return [Piece("", derive(program))]
    program, found = with_lags(program), list[Piece]()
    for stretch, repeat in zip_longest(stretches(program), program.repeats):
        if stretch.equations:
            side, rounds = ("before", repeat) if repeat is not None else ("after", program.repeats[-1])
            found.append(Piece(f"what stands {side} the rounds {_rounds(rounds.index)}", derive(stretch)))
        if repeat is not None:
            title = f"one of the rounds {_rounds(repeat.index)}"
            found += [replace(piece, title=f"{piece.title}{piece.title and ' in '}{title}")
                      for piece in pieces(round_of(program, repeat, own=True).program)]
    return found


def _rounds(index: Index) -> str:
    over = index.set
    return f"{index.name} ∈ {over.start}..{over.extent + number(over.start - 1)}"
