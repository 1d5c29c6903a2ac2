"""Products that the processor forms of pairs of bfloat16 numbers, or of four whole numbers of 8 bits: which products of
a kernel may be formed so.

An operand may stand in the type of the data where it is loaded in that type, or along the stream as whole numbers of 8
bits, so that nothing is rounded, or where the plan says that rounding it does no harm; four by four stand operands that
are both loaded as such numbers. A number by which a loaded operand is multiplied is taken out of the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from einc.backends.cpp.schedule import Schedule, folds_pairs, product_at_end
from einc.ir.elements import RANGED, REAL
from einc.ir.plan import Dot, Let, Load, Map, Module


@dataclass(frozen=True, slots=True)
class Narrow:
    """A product of loaded operands: the tile of rows, the tile of the stream (empty where there is none), and the
    numbers by which the result is multiplied. `where`: the macro of processors that form it, `PAIRS` or `QUADS`.
    """

    rows: str
    stream: str
    factors: tuple[str, ...]
    where: str = "PAIRS"


@dataclass
class Pairing:
    """`pairs` are operands as pairs or fours of numbers, `narrow` the products of these; `spared` is what they do not
    need, each with the condition of the preprocessor under which it is needed.
    """

    pairs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    narrow: Mapping[str, Narrow] = field(default_factory=dict)
    spared: Mapping[str, str] = field(default_factory=dict)

    def before(self, name: str) -> list[str]:
        """The line before what makes a value, where it may not be needed."""
        return [f"#if {self.spared[name]}"] if name in self.spared else []

    def after(self, name: str) -> list[str]:
        """The line behind what makes a value, where it may not be needed: the end of the preprocessor's condition."""
        return ["#endif"] if name in self.spared else []


def narrow(schedule: Schedule, module: Module) -> Mapping[str, Narrow]:
    """The products of a kernel that may be formed of pairs, by the names of their lets."""
    found = {let.name: _product(let, schedule, module) for let in schedule.kernel.lets if isinstance(let.op, Dot)}
    return {name: one for name, one in found.items() if one is not None}


def spared(schedule: Schedule, products: Mapping[str, Narrow]) -> Mapping[str, str]:
    """The values with features that nobody reads where all these products are formed so, each with the condition under
    which some are not."""
    lets, out = schedule.lets(), dict[str, set[str]]()
    stored = {store.value for store in schedule.kernel.stores}
    for let in reversed(schedule.kernel.lets):
        users = [x for x in schedule.kernel.lets if let.name in x.reads]
        free = all(x.name in out or x.name in products for x in users)
        if (schedule.features(lets[let.name]) and users and free and let.name not in stored
                and not isinstance(let.op, Dot)):
            out[let.name] = {w for x in users for w in out.get(x.name) or {products[x.name].where}}
    return {name: " || ".join([*(f"!{w}" for w in sorted(found)), "QV == 1"]) for name, found in out.items()}


def _product(let: Let, schedule: Schedule, module: Module) -> Narrow | None:
    """How one product may be formed; None where it may not."""
    lets = schedule.lets()
    wide = [lets[a] for a in let.args if schedule.features(lets[a])]
    bases = [_base(a, schedule, module) for a in wide]
    kind = product_at_end(let, schedule)
    assert isinstance(let.op, Dot)
    if any(b is None for b in bases) or not wide or folds_pairs(let, schedule):
        return None
    known = [b for b in bases if b is not None]
    factors = tuple(f for _, more in known for f in more)
    codes = {name: row for name, _ in known if isinstance(load := lets[name].op, Load)
             and (row := module.buffers[load.buffer].element.narrow) is not None}
    fours = len(codes) == len(known) == 2 and not kind
    if not fours and any(row.together > 1 or schedule.has_rows(lets[name]) for name, row in codes.items()):
        return None  # a bfloat16 number holds every whole number of a byte
    if kind and let.op.may_round and len(known) == 1:
        name = known[0][0]
        if kind == "stream":
            return None if factors else Narrow("", name, ())
        return Narrow(name, "", factors)
    if not kind and len(known) == 2 and schedule.has_rows(let) and schedule.streams(let):
        rows = next(name for name, _ in known if schedule.has_rows(lets[name]))
        stream = next(name for name, _ in known if name != rows)
        return Narrow(rows, stream, factors, "QUADS" if fours else "PAIRS")
    return None


def _base(let: Let, schedule: Schedule, module: Module) -> tuple[str, tuple[str, ...]] | None:
    """The load that an operand is, and the numbers that it is multiplied by; None where it is something else."""
    lets = schedule.lets()
    match let.op:
        case Load(buffer) if not let.args and len(schedule.features(let)) == 1:
            grown = buffer in {store.buffer for store in schedule.kernel.merged}
            element = module.buffers[buffer].element
            whole = element.narrow is not None and element.narrow.whole
            return (let.name, ()) if (element in (REAL, RANGED) or whole) and not grown else None
        case Map("mul"):
            wide = [a for a in let.args if schedule.features(lets[a])]
            others = tuple(a for a in let.args if a not in wide)
            plain = all(not schedule.has_rows(lets[a]) and not schedule.streams(lets[a]) for a in others)
            if len(wide) == 1 and plain and (found := _base(lets[wide[0]], schedule, module)) is not None:
                return found[0], (*found[1], *others)
    return None
