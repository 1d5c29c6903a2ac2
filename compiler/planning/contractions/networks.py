"""Equations as networks: a sum of a product of plain reads, its linear definitions in place of their names.

A network says what is multiplied and what is summed, and leaves the order open; `orders` has those that may be run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from einc.ir.indices import Index, distinct
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors
from einc.ir.terms import ONE, TRUE, Apply, Fold, Position, Read, Term, both, conjuncts, free_indices, substitute
from einc.planning.contractions.materialise import plain_subs

Scale = tuple[str, Term]  # `mul` or `div`, and by what


@dataclass(frozen=True, slots=True)
class Network:
    """root = Σ_{bound, domain} Π factors, times or over each of the scales.

    `opened`: whether it takes in what its equation reads by name.
    """

    root: Equation
    factors: tuple[Read, ...]
    bound: tuple[Index, ...]
    domain: Term = TRUE
    scales: tuple[Scale, ...] = ()
    opened: bool = False

    @property
    def written(self) -> bool:
        """Whether the factors of the network are those that the equation is written with."""
        return set(factors(self.root.body.body if isinstance(self.root.body, Fold) else ONE)) == set(self.factors)


def networks(program: NormalProgram, virtual: frozenset[str]) -> dict[str, Network]:
    """The equations that are networks: contractions, and stored ones scaled point by point."""
    out: dict[str, Network] = {}
    for equation in program.equations:
        if all(isinstance(a, Position) for a in equation.axes):
            made = contraction_of(program, equation) or _scaled(equation, out, virtual)
            if made is not None:
                out[equation.target] = made
    return out


def contraction_of(program: NormalProgram, equation: Equation) -> Network | None:
    """A sum of a product of plain reads."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum" or body.body == ONE:
        return None
    parts = tuple(f for f in factors(body.body) if isinstance(f, Read))
    letters = indices_of(parts)
    plain = all(plain_subs(p) and not program.tensors[p.tensor].integer for p in parts)
    if not plain or not {*body.bound, *equation.indices} <= letters or len(parts) < len(factors(body.body)):
        return None
    return Network(equation, parts, body.bound, body.domain)


def _scaled(equation: Equation, found: Mapping[str, Network], virtual: frozenset[str]) -> Network | None:
    """y = x g / z, where x is a network that is stored and has all the indices."""
    parts = list(_quotient(equation.body))
    for op, term in parts:
        if (op == "mul" and isinstance(term, Read) and term.tensor in found and term.tensor not in virtual
            and plain_subs(term)):
            scales = tuple(p for p in parts if p[1] is not term)
            if free_indices(term) == set(equation.indices) and equation.target not in virtual:
                return Network(equation, (term,), (), TRUE, scales)
    return None


def _quotient(term: Term) -> Iterable[Scale]:
    match term:
        case Apply("mul", args):
            for arg in args:
                yield from _quotient(arg)
        case Apply("div", (above, below)):
            yield from _quotient(above)
            yield "div", below
        case _:
            yield "mul", term


def indices_of(terms: Iterable[Term]) -> frozenset[Index]:
    """The free indices of all the terms."""
    return frozenset(i for t in terms for i in free_indices(t))


def definitions(program: NormalProgram, found: Mapping[str, Network], virtual: frozenset[str]) -> tuple[str, ...]:
    """The networks that may stand in place of their names: all that read them are networks, which read them once."""
    readers: dict[str, list[Equation]] = {}
    for equation in program.equations:
        for read in equation.elements:
            readers.setdefault(read.tensor, []).append(equation)
    outputs = {key for _, key in program.outputs}
    return tuple(
        key
        for key, net in found.items()
        if key not in outputs
        and net.root.domain == TRUE
        and not (key in virtual and (net.domain != TRUE or any(f.tensor in virtual for f in net.factors)))
        and len({e.target for e in readers.get(key, [])}) == len(readers.get(key, [])) > 0
        and all(e.target in found and any(f.tensor == key for f in found[e.target].factors) for e in readers[key])
    )


def opened(net: Network, inlined: Iterable[str], found: Mapping[str, Network]) -> Network:
    """The network with the networks of some of its factors in their place."""
    chosen = frozenset(inlined)
    while (at := next((n for n, f in enumerate(net.factors) if f.tensor in chosen), None)) is not None:
        read, inner = net.factors[at], found[net.factors[at].tensor]
        taken = frozenset(i.name for i in indices_of((*net.factors, net.domain, *(t for _, t in net.scales)))) | {
            i.name for i in (*net.bound, *net.root.indices, *inner.root.indices)
        }
        fresh = distinct(inner.bound, taken)
        by: dict[Index, Term] = dict(zip(inner.root.indices, read.subs, strict=True))
        by |= zip(inner.bound, map(Position, fresh), strict=True)
        parts = tuple(f for f in (substitute(f, by) for f in inner.factors) if isinstance(f, Read))
        net = replace(
            net,
            factors=(*net.factors[:at], *parts, *net.factors[at + 1 :]),
            bound=(*net.bound, *fresh),
            domain=both(*conjuncts(net.domain), *conjuncts(substitute(inner.domain, by))),
            scales=(*net.scales, *((op, substitute(t, by)) for op, t in inner.scales)),
            opened=True,
        )
    return net
