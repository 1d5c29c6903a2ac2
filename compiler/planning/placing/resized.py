"""A program with other extents for some of its sizes, and with a letter of its own for every set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import TypeVar

from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.programs import Equation, Program
from einc.ir.terms import Fold, Join, Pack, Part, Position, Size, Term, bound_indices, children, rebuild

P = TypeVar("P", bound=Program)


def resized(program: P, by: Mapping[str, Extent]) -> P:
    """The program in which some sizes are made of others."""
    def over(of: IndexSet) -> IndexSet:
        return replace(of, extent=of.extent.put(by))

    return _changed(program, over, lambda name, _: name, by)


def lettered(program: P) -> P:
    """The program in which every letter is one, runs over one set and is no name of a tensor or a size: those that the
    inputs have keep theirs.
    """
    found: dict[str, IndexSet] = {}
    slots = [s for t in (*program.inputs(), *program.tensors.values()) for s in t.slots]
    pairs = [(s.name, s.set) for s in slots]
    pairs += [(i.name, i.set) for t in program.terms for i in (
        (t.index,) if isinstance(t, Position | Join) else ()) + bound_indices(t)]
    others = {name for t in program.tensors.values() for name in (t.key, t.text)}
    others |= {name for _, of in pairs for name in of.extent.sizes}
    taken, names = others | {name.rstrip("'") for name, _ in pairs}, dict[tuple[str, IndexSet], str]()
    for name, of in pairs:
        plain = name.rstrip("'")
        other = found.setdefault(plain, of) != of or not plain.isalpha() or plain in others
        if other and (plain, of) not in names:
            names[plain, of] = next(x for x in _new() if x not in taken)
            taken.add(names[plain, of])
            found[names[plain, of]] = of

    def named(name: str, of: IndexSet) -> str:
        """The letter of a set, with the primes that it had."""
        plain = name.rstrip("'")
        return names.get((plain, of), plain) + name[len(plain):]

    return _changed(program, lambda of: of, named, {})


def _new() -> Iterator[str]:
    """Letters, those first that mean least."""
    yield from "uvwxyzabcdefghijklmnopqrst"
    yield from "αβγδεζηκλμνξρστυφχψω"
    yield from (f"i_{n}" for n in count())


def _changed(program: P, over: Callable[[IndexSet], IndexSet], named: Callable[[str, IndexSet], str],
             by: Mapping[str, Extent]) -> P:
    """The program with other sets and names for its letters."""
    def letter(index: Index) -> Index:
        return Index(named(index.name, index.set), over(index.set))

    def change(term: Term) -> Term:
        """The term with letters of the other sets and with the other extents in it."""
        kids = tuple(map(change, children(term)))
        match term:
            case Position(index):
                return Position(letter(index))
            case Size(extent):
                return Size(extent.put(by))
            case Pack(_, sets, into):
                return Pack(kids, tuple(map(over, sets)), over(into))
            case Part(_, of, before, into):
                return Part(kids[0], over(of), before.put(by), over(into))
            case Fold(op, bound):
                return Fold(op, tuple(map(letter, bound)), *kids)
            case Join(index, parts):
                return Join(letter(index), tuple((letter(i), kid) for (i, _), kid in zip(parts, kids, strict=True)))
        return rebuild(term, kids)

    equations = tuple(Equation(e.target, tuple(map(change, e.axes)), change(e.domain), change(e.body), e.source)
                      for e in program.equations)
    tensors = {key: replace(t, slots=tuple(
        replace(s, set=over(s.set), name=named(s.name, s.set)) for s in t.slots))
               for key, t in program.tensors.items()}
    splits = {over(whole): tuple(map(over, parts)) for whole, parts in program.splits.items()}
    sums = {over(whole): tuple(map(letter, parts)) for whole, parts in program.sums.items()}
    return replace(program.but(equations=equations, tensors=tensors), splits=splits, sums=sums,
                   sizes={k: v for k, v in program.sizes.items() if k not in by})
