"""Times of several ways over one size that grows, and the power of it with which each grows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from einc.driver.commands.sizes import sets
from einc.driver.timing.contest import Result
from einc.errors.report import failure
from einc.ir.programs import Program

STEPS = 4  # lengths where nobody says which


def lengths(program: Program, text: str, sizes: Mapping[str, int]) -> tuple[str, list[int]]:
    """`T=256,512,1024` -> the size and its numbers in order. Without a text the first size of positions, doubled up to
    its number. EincError where the text is of another form, or there is no such size.
    """
    if not text:
        found = (name for one in sets(program) if one.cls == "time" for name in sorted(one.extent.sizes))
        name = next((name for name in found if name not in program.sizes), None)
        if name is None:
            raise failure("the spec has no size of positions over which it could be timed", "say which: --over B=1,2,4")
        return name, sorted({max(1, sizes[name] >> n) for n in range(STEPS)})
    name, _, numbers = text.partition("=")
    found_numbers = [int(part) for part in numbers.split(",") if part.strip().isdecimal() and int(part)]
    if len(found_numbers) != len(numbers.split(",")) or len({*found_numbers}) < 2:
        raise failure(f"`{text}` is not of the form NAME=NUMBER,NUMBER,…, with two whole numbers from 1 or more",
                      "write --over T=256,512,1024")
    return name.strip(), sorted({*found_numbers})


def lines(found: Iterable[tuple[int, Sequence[Result]]]) -> dict[str, list[tuple[float, float]]]:
    """The seconds of each way over the size, where it has any."""
    out: dict[str, list[tuple[float, float]]] = {}
    for length, results in found:
        for one in results:
            if one.time is not None:
                out.setdefault(one.name, []).append((length, one.time.middle))
    return out


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of log value over log size, by least squares; None where it has no meaning."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    middle_x, middle_y = (sum(side) / len(logs) for side in zip(*logs, strict=True))
    return float(sum((x - middle_x) * (y - middle_y) for x, y in logs) / sum((x - middle_x) ** 2 for x, _ in logs))
