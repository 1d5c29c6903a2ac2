"""What a call checks before it computes: whole numbers in lanes have 32 bits, and nothing is divided by a size of 0."""

from __future__ import annotations

from einc.backends.cpp.arguments import host_code
from einc.backends.cpp.places import Places
from einc.ir.plan import Iota, Let, Load, Map, Select


def magnitudes(places: Places) -> list[str]:
    """Statements that leave a call to torch where whole numbers in lanes might need more than 32 bits, where a slot
    that is looked up is empty, and where a number that divides is 0."""
    lines, known = [f"if ({name} == 0) return -1;" for name in sorted(places.arguments.not_zero)], dict[str, str]()
    for let in places.schedule.kernel.lets:
        if let.kind == "scalar":
            code = host_code(let, places.schedule)
            known[let.name] = (f"size({places.arguments.computed(code.text, code.calls)})" if _used(let, places)
                               else "0.")
        elif let.kind == "integer":
            name = places.arguments.fresh(f"{let.name}_most")
            lines.append(f"const double {name} = {_most(let, known, places)};")
            known[let.name] = name
            lines.append(f"if ({name} > 2147483647.) return -1;")
    return lines if any(x.startswith("if") for x in lines) else []


def _used(let: Let, places: Places) -> bool:
    """Whether a whole number is made of this one."""
    return any(x.kind == "integer" and let.name in x.reads for x in places.schedule.kernel.lets)


def _most(let: Let, known: dict[str, str], places: Places) -> str:
    """A number that the magnitude of a value does not exceed."""
    match let.op:
        case Iota(axis):
            found = places.schedule.kernel.axis(axis).set
            last = f"(double){places.arguments.size(found.extent)} + {found.start}"
            return last if found.start >= 0 else f"larger({last}, {-found.start}.)"
        case Load():
            return "1e9"
        case Map(op):
            given = [known.get(a, "1e18") for a in let.args]
            if op == "mul":
                return " * ".join(given)
            if op in ("add", "sub"):
                return " + ".join(given)
            if op in ("min", "max"):
                text = given[0]
                for other in given[1:]:
                    text = f"larger({text}, {other})"
                return text
            if op in ("neg", "abs", "floordiv", "ceildiv", "spread"):
                return given[0]
            if op == "mod":
                return given[1]
        case Select(otherwise):
            return f"larger({known.get(let.args[1], '1e18')}, {abs(otherwise)!r})"
    return "1e18"
