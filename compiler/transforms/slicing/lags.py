"""Values of rounds that later rounds read -> states, so that a round reads nothing that another one made.

What is read a fixed number of positions back lasts for so many rounds. What is read at other earlier positions is a
state that has all of them, those of later rounds 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from einc.ir.dependence import behind
from einc.ir.domains import difference
from einc.ir.draft import unused
from einc.ir.indices import Index, distinct
from einc.ir.programs import Equation, IndexLoop, Program, Tensor
from einc.ir.rounds import place_of
from einc.ir.terms import TRUE, ZERO, Apply, Position, Read, Term, Where, reads, transform
from einc.transforms.slicing.repeats import in_order

P = TypeVar("P", bound=Program)


def with_lags(program: P) -> P:
    """The program whose loops in order read in a round what that round makes, and states."""
    loops, equations, tensors = list(program.loops), {e.target: e for e in program.equations}, dict(program.tensors)
    for n, loop in enumerate(program.loops):
        if isinstance(loop, IndexLoop):
            loops[n] = _lagged(loop, equations, tensors)
    if tuple(loops) == program.loops:
        return program
    repeats = [loop for loop in loops if isinstance(loop, IndexLoop)]
    return program.but(equations=[equations[key] for key in in_order(equations, repeats)], tensors=tensors, loops=loops)


def _lagged(loop: IndexLoop, equations: dict[str, Equation], tensors: dict[str, Tensor]) -> IndexLoop:
    """The loop and those in it with such states. Changes `equations` and `tensors`, which are those of the program."""
    before = {*equations}
    inner = tuple(_lagged(one, equations, tensors) for one in loop.loops)
    loop = replace(loop, loops=inner, inside=(*loop.inside, *(key for key in equations if key not in before)))
    work = _Lags(loop, {key: equations[key] for key in loop.inside}, tensors)
    work.run()
    equations |= work.made
    new = work.made.keys() - {*loop.inside, *work.starts.values()}
    inside = (*loop.inside, *(key for key in work.made if key in new))
    return replace(loop, states=(*loop.states, *work.states), inside=inside)


@dataclass
class _Lags:
    """One loop. `made` are its changed equations and new ones, of which `starts` stand outside; `tensors` grow."""

    loop: IndexLoop
    by: dict[str, Equation]
    tensors: dict[str, Tensor]
    made: dict[str, Equation] = field(default_factory=dict)
    states: list[tuple[str, str, str]] = field(default_factory=list)
    starts: dict[tuple[str, bool], str] = field(default_factory=dict)
    names: dict[tuple[str, int], str] = field(default_factory=dict)

    def run(self) -> None:
        """Changes every equation that reads what another round made."""
        self.parts = {key: at for key, e in self.by.items() if (at := place_of(self.loop.index, e)) is not None}
        for key, equation in self.by.items():
            if any(self._is_earlier(r) for t in (equation.domain, equation.body) for r in reads(t)):
                own = {k for k in self.parts if key in behind(self.by, [k])}
                self.made[key] = equation.map(lambda term: transform(term, lambda t: self._read(t, own)))  # noqa: B023

    def _is_earlier(self, read: Read) -> bool:
        at = self.parts.get(read.tensor)
        return at is not None and read.subs[at] != Position(self.loop.index)

    def _read(self, term: Term, own: Set[str]) -> Term:
        """A read of what another round made, as one of a state; of the values `own`, which are made of the one that
        reads, nothing of this round is there.
        """
        if not isinstance(term, Read) or not self._is_earlier(term):
            return term
        at = self.parts[term.tensor]
        back = difference(term.subs[at], Position(self.loop.index))
        lag = None if back is None or back.atoms else back.constant.constant
        if lag is None or lag.denominator != 1 or lag < 1:
            before, now = self._all(term.tensor)
            return Read(before if term.tensor in own else now, term.subs)
        return Read(self._last(term.tensor, int(lag)), (*term.subs[:at], *term.subs[at + 1 :]))

    def _last(self, key: str, lag: int) -> str:
        """The state that holds the value of so many rounds ago. Changes `self.names`, `self.made` and `self.states`."""
        if (key, lag) not in self.names:
            equation = self.by[key]
            letters = tuple(i for i in equation.indices if i != self.loop.index)
            name = self.names[key, lag] = self._tensor(f"{key}_before", key, whole=False)
            following = key
            if lag > 1:
                earlier = self._last(key, lag - 1)
                following = self._tensor(f"{key}_kept", key, whole=False)
                axes = tuple(map(Position, letters))
                self.made[following] = Equation(following, axes, TRUE, Read(earlier, axes))
            self.states.append((name, self._start(key, letters, whole=False), following))
        return self.names[key, lag]

    def _all(self, key: str) -> tuple[str, str]:
        """The state that holds the values of all earlier rounds, and the same with that of this round. Changes
        `self.names`, `self.made` and `self.states`."""
        if (key, 0) not in self.names:
            equation, at, index = self.by[key], self.parts[key], self.loop.index
            (letter,) = distinct((index,), {i.name for i in equation.indices})
            axes = tuple(Position(letter) if n == at else axis for n, axis in enumerate(equation.axes))
            name = self.names[key, 0] = self._tensor(f"{key}_before", key, whole=True)
            following = self._tensor(f"{key}_kept", key, whole=True)
            here, there = Position(index), Position(letter)
            body = Apply("add", (Where(Apply("eq", (there, here)), Read(key, equation.axes)),
                                 Where(Apply("ne", (there, here)), Read(name, axes))))
            self.made[following] = Equation(following, axes, TRUE, body)
            letters = tuple(letter if i == index else i for i in equation.indices)
            self.states.append((name, self._start(key, letters, whole=True), following))
            self.names[key, -1] = following
        return self.names[key, 0], self.names[key, -1]

    def _start(self, key: str, letters: Iterable[Index], *, whole: bool) -> str:
        """What such a state holds before the first round: nothing reads it. Adds its tensor and its equation."""
        if (key, whole) not in self.starts:
            name = self.starts[key, whole] = self._tensor(f"{key}_start", key, whole=whole)
            self.made[name] = Equation(name, tuple(map(Position, letters)), TRUE, ZERO)
        return self.starts[key, whole]

    def _tensor(self, stem: str, key: str, *, whole: bool) -> str:
        name, at, tensor = unused(stem, self.tensors), self.parts[key], self.tensors[key]
        slots = tensor.slots if whole else (*tensor.slots[:at], *tensor.slots[at + 1 :])
        self.tensors[name] = Tensor(name, name, slots, "local", tensor.element)
        return name
