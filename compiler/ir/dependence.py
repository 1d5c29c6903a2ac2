"""Walks over what depends on what: equations and what they read, or anything else that has successors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from einc.ir.programs import Equation

T = TypeVar("T", bound=Hashable)


def reached(start: Iterable[T], after: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """What can be reached, `start` included, each once: depth first, and of successors the last one first."""
    stack, seen = list(start), set[T]()
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            yield here
            stack += after(here)


def in_order(start: Iterable[T], before: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """What can be reached, `start` included, each once and after what stands before it, else in the order given."""
    stack, done = [(key, False) for key in reversed(list(start))], set[T]()
    while stack:
        here, ready = stack.pop()
        if ready:
            yield here
        elif here not in done:
            done.add(here)
            stack += [(here, True), *((key, False) for key in reversed(list(before(here))))]


def components(start: Iterable[T], after: Callable[[T], Iterable[T]]) -> list[list[T]]:
    """What can be reached, `start` included, in groups of which each member reaches every other."""
    order, into = list(in_order(start, after)), dict[T, list[T]]()
    for key in order:
        for other in after(key):
            into.setdefault(other, []).append(key)
    out, seen = list[list[T]](), set[T]()
    for key in reversed(order):
        if key not in seen:
            out.append([k for k in reached([key], lambda k: [x for x in into.get(k, ()) if x not in seen])])
            seen.update(out[-1])
    return out


def behind(by: Mapping[str, Equation], wanted: Iterable[str]) -> set[str]:
    """The names of some values and of all that they are made of, as far as there are equations for them."""
    return by.keys() & set(reached(wanted, lambda key: by[key].reads if key in by else ()))


def needed(by: Mapping[str, Equation], wanted: Iterable[str]) -> list[Equation]:
    """The equations of some values and of all that they are made of, each after what it reads."""
    found = in_order(wanted, lambda key: [r.tensor for r in by[key].elements] if key in by else ())
    return [by[key] for key in found if key in by]
