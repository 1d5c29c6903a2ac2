"""The text around the statements of a compiled kernel: its comments, the memory that it needs, the call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from einc.backends.cpp.magnitudes import magnitudes
from einc.backends.cpp.places import Places
from einc.backends.writer import Writer


def commented(text: str) -> str:
    """A text that stands in a block comment: nothing in it ends the comment,
    continues a line or ends a string of Python.
    """
    return text.replace("\\", "/").replace('"', "'").replace("*/", "* /").replace("/*", "/ *")


def wrapped(places: Places, body: Writer, name: str, parameters: str, size: str, piece: str,
            counts: Sequence[str], common: str = "0") -> str:
    """All definitions of a kernel: the statements of `body` as a function of these parameters, the memory of a thread,
    and the functions that Python calls, for one call and for a queue of several. A call is shared out in pieces:
    `counts` are the statements before the expression `size`, their number, and before `piece`, which does piece `work`;
    `common` is how many numbers of memory all pieces have in common.
    """
    arguments, out = places.arguments, Writer()
    bounds = magnitudes(places)  # may add arguments
    whole, reals = arguments.whole(), arguments.reals()
    for text in places.schedule.kernel.texts:
        out(f"/* {commented(text)} */")
    out(f"namespace {name}_tile {{")
    memory = ["L total = 0;", *(f"total += padded({amount});" for _, amount in places.memory), "return total;"]
    _defined(out, "static L needed(const L* n)", whole, memory)
    out.open(f"static void one(void* const* p, const L* n, const double* x, {parameters}, float* room, int* bad) {{")
    out.lines += [f"    {line}" for line in (*arguments.pointers(), *whole, *reals)]
    for part, amount in places.memory:
        out(f"float* const {part} = room; room += padded({amount});")
    out.close()
    out.lines += body.lines
    out("}")
    _defined(out, "static L pieces(const L* n, const double* x)", [*whole, *reals],
             [*bounds, *counts, f"return {size};"])
    _defined(out, "static L shared(const L* n, const double* x)", [*whole, *reals], [*counts, f"return {common};"])
    _defined(out, "static void run(void* const* p, const L* n, const double* x, L work, float* common, float* own, "
             "int* bad)", [*whole, *reals], [*counts, piece])
    out("}")
    entry, end = f'extern "C" L {name}', "float* room, L each, L threads)"
    _defined(out, f"{entry}_room(const L* n)", [], [f"return {name}_tile::needed(n);"])
    several = "L calls, void* const* const* p, const L* const* n, const double* const* x, L* ends"
    _defined(out, f"{entry}_queue({several}, {end}", [],
             [f"using namespace {name}_tile;",
              "return queued(calls, p, n, x, ends, room, each, threads, pieces, shared, run);"])
    _defined(out, f"{entry}(void* const* p, const L* n, const double* x, {end}", [],
             ["L ends[2];", f"return {name}_queue(1, &p, &n, &x, ends, room, each, threads);"])
    return out.text


def _defined(out: Writer, head: str, known: Sequence[str], statements: Sequence[str]) -> None:
    """Writes a function: of the declarations that are known, those of names that its statements have."""
    words = set(re.findall(r"\w+", "\n".join(statements)))
    out.open(f"{head} {{")
    out.lines += [f"    {line}" for line in known if words & set(re.findall(r"(\w+) =", line))]
    for line in statements:
        out(line)
    out.close()
    out("}")
