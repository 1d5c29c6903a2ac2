"""The text around the statements of a compiled kernel: its comments, the memory that it needs, the call."""

from __future__ import annotations

from einc.backends.cpp.magnitudes import magnitudes
from einc.backends.cpp.places import Places
from einc.backends.writer import Writer


def commented(text: str) -> str:
    """A text that stands in a block comment: nothing in it ends the comment,
    continues a line or ends a string of Python.
    """
    return text.replace("\\", "/").replace('"', "'").replace("*/", "* /").replace("/*", "/ *")


def wrapped(places: Places, body: Writer, name: str, parameters: str, call: Writer) -> str:
    """All definitions of a kernel: the statements of `body` as a function of these parameters, the memory of a thread,
    and the function that Python calls, which ends with the statements of `call`.
    """
    arguments, out = places.arguments, Writer()
    bounds = magnitudes(places)  # may add arguments
    whole, reals = arguments.whole(), arguments.reals()
    for text in places.schedule.kernel.texts:
        out(f"/* {commented(text)} */")
    out(f"namespace {name}_tile {{")
    out.open("static L needed(const L* n) {")
    out.lines += [f"    {line}" for line in whole]
    out("L total = 0;")
    for _, amount in places.memory:
        out(f"total += padded({amount});")
    out("return total;")
    out.close()
    out("}")
    out.open(f"static void one(void* const* p, const L* n, const double* x, {parameters}, float* room, int* bad) {{")
    out.lines += [f"    {line}" for line in (*arguments.pointers(), *whole, *reals)]
    for piece, amount in places.memory:
        out(f"float* const {piece} = room; room += padded({amount});")
    out.close()
    out.lines += body.lines
    out("}")
    out("}")
    out(f'extern "C" L {name}_room(const L* n) {{ return {name}_tile::needed(n); }}')
    out.open(f'extern "C" L {name}(void* const* p, const L* n, const double* x, float* room, L each, L threads) {{')
    out.lines += [f"    {line}" for line in (*whole, *reals, *bounds, *call.lines)]
    out.close()
    out("}")
    return out.text
