"""A module and its gradient -> the text of one file, whose halves are operators of torch.

So what it computes is compiled, exported, checkpointed and differentiated as torch's own operators are.
The caller's function looks at shapes and types alone: what looks at elements stands inside the
operators, which run only where tensors have some.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from einc.backends.host.inputs import check_shapes, read_derived
from einc.backends.host.loops import Dialect
from einc.backends.host.module import below, head, library, result, signature
from einc.backends.host.module_class import write_class
from einc.backends.host.naming import Named, named
from einc.backends.host.pair import Pair
from einc.backends.host.segmented import SegmentWriter
from einc.backends.writer import Writer, folded, identifier
from einc.ir.plan import Gradient, ModuleClass, SegmentedModule

_NOTES = (
    "",
    "Results have gradients, and gradients have none of their own. Under torch.autocast real inputs, but for float64,",
    "are taken in its type, and nothing is cast again inside.",
)


def _notes(plan: Gradient | SegmentedModule) -> tuple[str, ...]:
    """What the head of a file says of its gradient."""
    return (*_NOTES, *slopes(plan))


def slopes(plan: Gradient | SegmentedModule) -> list[str]:
    """What the head of a file says of slopes that are declared."""
    said = f"The slope of {', '.join(plan.declared)} is declared: 1 between the ends of the type, 0 beyond them."
    return [said] if plan.declared else []


def write_gradient(plan: Gradient | SegmentedModule, dialect: Dialect, module_class: ModuleClass | None = None) -> str:
    """The whole file; with a module class, the class that holds the weights too."""
    helpers, body, statements = {"_expect"}, Writer(depth=1), Writer(depth=1)
    pairs, shown = _chain(plan, dialect, helpers, statements) if isinstance(plan, SegmentedModule) else _single(
        plan, dialect, helpers, statements)
    asked = _entry(shown, body, helpers)
    body.lines += ["", *statements.lines]
    lines = [*(line for pair in pairs for line in pair.functions()), *dialect.definitions()]
    known = library(dialect)
    needed = known.needed(helpers)
    out = Writer()
    head(shown, dialect, out, known.imports(needed), _notes(plan))
    signature(shown, out, asked)
    out.lines += body.lines
    if module_class is not None:
        out.lines += write_class(shown, module_class, asked, trained=True)
    out.lines += lines
    out.lines += below(known.texts(needed))
    out.lines += [line for pair in pairs for line in pair.glue()]
    digest = hashlib.sha256(out.text.encode()).hexdigest()[:8]
    out.lines += ["", "", '_library = torch.library.Library("einc", "FRAGMENT")']
    given = ", ".join([f'"{identifier(shown.module.name)}_{digest}"', *(f'"{p.stem}"' for p in pairs[:1] if p.stem)])
    out.lines += [f"_name = _free({given})", *(line for pair in pairs for line in pair.registered())]
    return out.text


def _entry(shown: Named, body: Writer, helpers: set[str]) -> list[str]:
    """The statements of the caller's function before anything is computed; the sizes that the caller gives."""
    floats = ", ".join(t.key for t in shown.module.inputs if not t.constant)
    if floats:
        helpers.add("_cast")
        body.lines += folded(f"    {floats}{'' if ', ' in floats else ','} = _cast({floats})")
    return check_shapes(shown, body, helpers, [])[0]


def _single(plan: Gradient, dialect: Dialect, helpers: set[str], body: Writer) -> tuple[list[Pair], Named]:
    """The only pair, and the module as the caller sees it; writes the one call."""
    pair = Pair(plan, "", dialect, helpers, set())
    naming, forward = pair.forward.naming, pair.forward
    outputs = naming.module.outputs[: len(plan.shown)]
    shown = replace(naming, module=replace(naming.module, outputs=outputs), outputs=naming.outputs[: len(outputs)])
    targets = {key: inner for (_, key), (_, inner) in zip(plan.shown, outputs, strict=True)}
    sizes = {declared: inner for inner, declared in naming.declared.items()}
    body.lines += [f"    {line}" for line in pair.call(forward.tensors, sizes, targets)]
    body(f"return {result(shown.module)}")
    return [pair], shown


def _chain(plan: SegmentedModule, dialect: Dialect, helpers: set[str], body: Writer) -> tuple[list[Pair], Named]:
    """The pairs of all pieces, and the module as the caller sees it; writes the calls."""
    naming = named(plan.whole)
    read_derived(naming, body)
    links = SegmentWriter(plan, naming, dialect, helpers, body)
    links.write(plan)
    body()
    body(f"return {result(naming.module)}")
    return links.pairs, naming
