"""What an array is, element by element: terms over letters, and conditions on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from einc.ir.indices import Extent


@dataclass(frozen=True)
class Letter:
    """An index of one axis or of a part of one; two letters are one if they have one number."""

    number: int
    extent: Extent
    hint: str = ""


Part = Letter | int  # an int picks one element, counted from 1
Slot = tuple[Part, ...]  # the parts of one axis, the first varies slowest
Axis = tuple[Letter, ...]  # no letter: an axis of one element


@dataclass(frozen=True)
class Constant:
    """A number."""

    value: float | int


@dataclass(frozen=True)
class SizeOf:
    """A size, as a number."""

    extent: Extent


@dataclass(frozen=True)
class Place:
    """The number of a letter, counted from 1."""

    letter: Letter


@dataclass(frozen=True)
class Read:
    """An element of an array: an argument, a weight, or what an equation defines."""

    name: str
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True)
class Apply:
    """A sign of arithmetic (`+`, `-`, `*`, `/`, `^`) or a function of the language, of numbers."""

    name: str
    args: tuple[Term, ...]
    named: tuple[tuple[str, Term], ...] = ()


@dataclass(frozen=True)
class Gate:
    """1 where a condition holds, and 0 elsewhere."""

    condition: Condition


@dataclass(frozen=True)
class Fold:
    """`sum`, `prod`, `max` or `min` of the body over letters, where the condition holds."""

    name: str
    letters: tuple[Letter, ...]
    condition: Condition | None
    body: Term


@dataclass(frozen=True)
class Line:
    """A function of the language of a whole line: its letters stay free in the value."""

    name: str
    letters: tuple[Letter, ...]
    condition: Condition | None
    args: tuple[Term, ...]
    named: tuple[tuple[str, Term], ...] = ()
    keeps: bool = True  # whether the letters stay free in the value


Term = Constant | SizeOf | Place | Read | Apply | Gate | Fold | Line


@dataclass(frozen=True)
class Compare:
    """`left sign right`, with a sign of the language."""

    sign: str
    left: Term
    right: Term


@dataclass(frozen=True)
class Joined:
    """Several conditions, joined by `and` or `or`."""

    word: str
    parts: tuple[Condition, ...]


Condition = Compare | Joined
OPPOSITE = {"≤": ">", ">": "≤", "<": "≥", "≥": "<", "=": "≠", "≠": "="}


def negated(condition: Condition) -> Condition:
    """The condition that holds exactly where this one does not."""
    match condition:
        case Compare(sign, left, right):
            return Compare(OPPOSITE[sign], left, right)
        case Joined(word, parts):
            return Joined("or" if word == "and" else "and", tuple(map(negated, parts)))
    assert_never(condition)


def both(*conditions: Condition | None) -> Condition | None:
    """The conjunction of the conditions that are not None, each once; None where there are none."""
    found = tuple(dict.fromkeys(c for c in conditions if c is not None))
    return Joined("and", found) if len(found) > 1 else found[0] if found else None


Put = Mapping[Letter, Slot]


def put(term: Term, new: Put) -> Term:
    """The term with other letters, or the parts of a composite, in place of some."""
    match term:
        case Constant() | SizeOf():
            return term
        case Place(letter):
            return place(new.get(letter, (letter,)))
        case Read(name, slots):
            return Read(name, tuple(put_slot(slot, new) for slot in slots))
        case Apply(_, args):
            return replace(term, args=tuple(put(a, new) for a in args))
        case Gate(condition):
            return Gate(put_condition(condition, new))
        case Fold(_, letters, condition, body):
            return replace(term, letters=_bound(letters, new), body=put(body, new),
                           condition=None if condition is None else put_condition(condition, new))
        case Line(_, letters, condition, args):
            return replace(term, letters=_bound(letters, new), args=tuple(put(a, new) for a in args),
                           condition=None if condition is None else put_condition(condition, new))
    assert_never(term)


def put_slot(slot: Slot, new: Put) -> Slot:
    """One axis with other letters in place of those of `new`."""
    return tuple(part for old in slot for part in ((old,) if isinstance(old, int) else new.get(old, (old,))))


def put_condition(condition: Condition, new: Put) -> Condition:
    """A condition with other letters in place of those of `new`."""
    match condition:
        case Compare(sign, left, right):
            return Compare(sign, put(left, new), put(right, new))
        case Joined(word, parts):
            return Joined(word, tuple(put_condition(part, new) for part in parts))
    assert_never(condition)


def _bound(letters: Iterable[Letter], new: Put) -> tuple[Letter, ...]:
    return tuple(part for letter in letters for part in new.get(letter, (letter,)) if isinstance(part, Letter))


def place(slot: Slot) -> Term:
    """The number of an element of a composite, counted from 1."""
    first, *rest = slot or (1,)
    term: Term = Constant(first) if isinstance(first, int) else Place(first)
    for part in rest:
        assert isinstance(part, Letter), "a part that is picked stands first"
        below = Apply("*", (Apply("-", (term, Constant(1))), SizeOf(part.extent)))
        term = Apply("+", (below, Place(part)))
    return term


def inside(term: Term | Condition) -> Iterator[Term | Condition]:
    """The term, its parts, and the parts of those."""
    yield term
    match term:
        case Constant() | SizeOf() | Place() | Read():
            return
        case Apply(_, args):
            parts: tuple[Term | Condition, ...] = args
        case Gate(condition):
            parts = (condition,)
        case Fold(_, _, condition, body):
            parts = (body,) if condition is None else (condition, body)
        case Line(_, _, condition, args):
            parts = args if condition is None else (condition, *args)
        case Compare(_, left, right):
            parts = (left, right)
        case Joined(_, parts):
            pass
        case _:
            assert_never(term)
    for part in parts:
        yield from inside(part)


def letters_of(term: Term | Condition) -> tuple[Letter, ...]:
    """All letters, bound ones too, in the order in which they stand."""
    found: list[Letter] = []
    for part in inside(term):
        match part:
            case Place(letter):
                found.append(letter)
            case Read(_, slots):
                found += [p for slot in slots for p in slot if isinstance(p, Letter)]
            case Fold(_, letters) | Line(_, letters):
                found += letters
            case _:
                pass
    return tuple(dict.fromkeys(found))
