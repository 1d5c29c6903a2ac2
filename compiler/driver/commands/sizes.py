"""The sizes of a program: which there are, and a number for each."""

from __future__ import annotations

from collections.abc import Mapping

from einc.errors.report import failure
from einc.ir.extents import told
from einc.ir.indices import INDEX_CLASSES, Extent, IndexSet, size
from einc.ir.programs import Program, sets_of
from einc.ir.terms import Size

DEFAULTS = {"time": 256, "batch": 2, "request": 3, "head": 8, "latent": 32, "expert": 4, "vocab": 512, "feature": 64,
            "layer": 2}
SECOND_HEAD = 2
OTHER = 16
_LEAST = 8  # positions with which a loop over them is still tried


def sets(program: Program) -> list[IndexSet]:
    """Every set that is read or run over, once; those of what the caller gives first, in the order declared."""
    given = [slot.set for tensor in program.inputs() for slot in tensor.slots]
    inside = (found for term in program.terms for found in sets_of(term))
    return list(dict.fromkeys([*given, *(repeat.index.set for repeat in program.every_repeat), *inside]))


def names(program: Program) -> list[str]:
    """The sizes that the spec leaves open."""
    extents = [*(s.extent for s in sets(program)), *(t.extent for t in program.terms if isinstance(t, Size))]
    found = dict.fromkeys(name for extent in extents for name in sorted(extent.sizes))
    return [name for name in found if name not in program.sizes]


def asked(program: Program) -> list[str]:
    """The sizes that no shape tells, so that the caller gives them."""
    fixed = told([extent for t in program.inputs() for extent in t.element.extents(s.set for s in t.slots)],
                 program.sizes)
    return [name for name in names(program) if name not in fixed]


def default(program: Program, given: Mapping[str, int]) -> dict[str, int]:
    """A number for every size: what is given, else by the class of the first set that has the size for its extent.
    Positions in blocks, time(N P), are about as many as others: what runs over N and P has a root of that number.
    """
    out = {**_roots(program), **program.sizes, **given}
    heads = 0
    for one in sets(program):
        match one.extent.terms:
            case ((((str(name), 1),), coefficient),) if coefficient == 1:
                heads += one.cls == "head"
                out.setdefault(name, SECOND_HEAD if one.cls == "head" and heads > 1 else DEFAULTS.get(one.cls, OTHER))
    return {**dict.fromkeys(names(program), OTHER), **out}


def _roots(program: Program) -> dict[str, int]:
    """For sizes of positions whose product is a number of positions, that number's root, which is a whole number."""
    positions = [one for one in sets(program) if INDEX_CLASSES[one.cls].before]
    alone = {name for one in positions for name in one.extent.sizes if one.extent == size(name)}
    products = [one for one in positions if len(one.extent.sizes) > 1 and len(one.extent.terms) == 1
                and one.extent.sizes <= alone]
    return {name: round(DEFAULTS[one.cls] ** (1 / len(one.extent.sizes))) for one in products
            for name in one.extent.sizes}


def shorter(program: Program, given: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes with half as many positions in the loops over positions whose number nobody gave; None where there are
    none, or few.
    """
    known = default(program, given)
    loops = (r.index.set.extent.sizes for r in program.every_repeat if INDEX_CLASSES[r.index.set.cls].before)
    open_ = {name for found in loops for name in found if name not in program.sizes}
    if not open_ or any(known[name] < 2 * _LEAST for name in open_):
        return None
    return {**given, **{name: known[name] // 2 for name in open_}}


def extent(formula: Extent, sizes: Mapping[str, int]) -> int:
    """The extent as a number of elements, refused where it is none."""
    at = ", ".join(f"{name} = {sizes[name]}" for name in sorted(formula.sizes))
    try:
        value = formula.at(sizes)
    except ZeroDivisionError:
        raise failure(f"the extent `{formula}` divides by zero at {at}") from None
    if value.denominator != 1 or value < 0:
        raise failure(f"the extent `{formula}` is {value} at {at}, which is no number of elements")
    return int(value)
