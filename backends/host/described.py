"""What the caller of an emitted function reads of it: its parameters, and what is given and comes out."""

from __future__ import annotations

from collections.abc import Sequence

from einc.backends.host import serving
from einc.backends.host.naming import Named
from einc.backends.writer import Writer, sized


def told(naming: Named) -> list[str]:
    """What is given and what comes out: names and shapes, a line each."""
    module, out = naming.module, Writer()
    for tensor in (t for t in module.inputs if t.role != "place"):
        shape = ", ".join(sized(naming.said(s.set.extent)) for s in tensor.slots)
        name = serving.label(naming, tensor.key) if tensor.role == "cache" else naming.public[tensor.key]
        out(
            f"{tensor.role:6} {name}  ({shape}{',' * (len(tensor.slots) == 1)})"
            + ("  integers" if tensor.integer else f"  {tensor.element.word}" if tensor.element.word else "")
        )
    for name, (_, key) in zip(naming.outputs, module.outputs, strict=True):
        shape = ", ".join(sized(naming.said(s.extent)) for s in module.buffers[key].sets)
        out(f"output {name}  ({shape}{',' * (len(module.buffers[key].sets) == 1)})")
    return out.lines


def describe(naming: Named, sizes: Sequence[str], out: Writer) -> None:
    """Writes the docstring of the caller's function."""
    also = f", given {', '.join(sizes)}" if sizes else ""
    more = ("The next positions, which are added to the cache." if naming.module.past
            else f"{naming.module.name} of tensors, whose shapes tell the sizes{also}.")
    out(f'"""{more}')
    out()
    for line in told(naming):
        out(line)
    out('"""')


def parameters(tensors: Sequence[str], sizes: Sequence[str], past: str = "") -> str:
    """Those of a caller's function: tensors in the order in which they are declared, and sizes by name; all by name
    where there is a past.
    """
    typed = [f"{name}: torch.Tensor" for name in tensors]
    mark = ["*"] if past and (tensors or sizes) else []
    asked = [*([] if mark or not sizes else ["*"]), *(f"{name}: int" for name in sizes)]
    return ", ".join([*mark, *typed, *asked])
