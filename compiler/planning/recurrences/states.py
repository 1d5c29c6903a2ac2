"""The states of a loop over positions, each with the products of its update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from einc.ir.dependence import reached
from einc.ir.indices import Index
from einc.ir.programs import Equation, IndexLoop
from einc.ir.rounds import place_of
from einc.ir.sums import addends, signed
from einc.ir.terms import TRUE, Apply, Position, Read, Term
from einc.planning.recurrences.products import NotAffine, Product, Products


@dataclass(frozen=True)
class State:
    """A state: its tensor, its value before the first round, what a round makes of it, its letters, and the products of
    its update.
    """

    tensor: str
    first: str
    following: Equation
    letters: tuple[Index, ...]
    products: tuple[Product, ...]
    largest: bool = False  # it is the largest of sums, in place of a sum of products


def state_of(index: Index, told: tuple[str, str, Equation], products: Products) -> State:
    """A state with the products of its update. Raises NotAffine where that reads another one."""
    tensor, first, following = told
    letters = tuple(i for i in following.indices if i != index)
    if following.domain != TRUE or len(letters) != len(following.axes) - (place_of(index, following) is not None):
        raise NotAffine(following.body)
    largest = largest_of(following.body, tensor, letters, products)
    if largest is not None:
        return State(tensor, first, following, letters, largest, True)
    found = products.of(following.body)
    for p in found:
        if p.read is not None and p.read.tensor != tensor:
            raise NotAffine(p.read)
        if p.read is not None and not p.bound and p.read.subs != tuple(map(Position, letters)):
            raise NotAffine(p.read)
    return State(tensor, first, following, letters, tuple(found))


def largest_of(body: Term, state: str, letters: tuple[Index, ...], products: Products) -> tuple[Product, ...] | None:
    """What is added to the state, and what it is compared with, of a maximum: a product with the read of the state and
    others without; None where the body is no such maximum.
    """
    while isinstance(body, Read) and body.tensor in products.moving:
        made = products.moving[body.tensor]
        body = made.at(body.subs) if made.domain == TRUE else Read(state, ())
    if not (isinstance(body, Apply) and body.op == "max"):
        return None
    held = [arg for arg in body.args if products.holds(arg)]
    own = Read(state, tuple(map(Position, letters)))
    if len(held) != 1 or not isinstance(held[0], Apply | Read):
        return None
    parts = addends(held[0])
    rest = [(sign, part) for sign, part in parts if part != own]
    if (1, own) not in parts or len(rest) != len(parts) - 1 or any(products.holds(part) for _, part in rest):
        return None
    others = [arg for arg in body.args if arg is not held[0]]
    compared = others[0] if len(others) == 1 else Apply("max", tuple(others))
    return Product((signed(rest),), (), own), Product((compared,))


def live(by: Mapping[str, Equation], repeats: Iterable[IndexLoop], wanted: Iterable[str]) -> set[str]:
    """What the wanted values need; a state needs its first value and what a round makes of it."""
    states = {state: (first, following) for repeat in repeats for state, first, following in repeat.states}
    inside = {key: repeat for repeat in repeats for key in repeat.inside}

    def after(key: str) -> Iterable[str]:
        yield from states.get(key, ())
        yield from by[key].reads if key in by else ()
        if key in inside:  # a loop is there as a whole, or not at all
            yield from (*inside[key].inside, *(state for state, _, _ in inside[key].states))

    return set(reached(wanted, after))
