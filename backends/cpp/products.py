"""Products of few rows of data with a matrix that is read once as it lies: which contractions are such, and the call of
their compiled kernel. Scales of blocks of what is summed, and the sum over these blocks, are a part of it; any letters
may be rows, blocks, terms and columns. A matrix has few bits, or new positions of a step over a cache are multiplied
with it, which are few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einc.backends.cpp.arguments import read_as_they_lie, stored
from einc.backends.host.contractions import contract, element, joined, viewed
from einc.backends.host.loops import Page
from einc.backends.writer import folded, identifier, lettered, sized
from einc.ir.elements import RANGED, REAL, WIDE
from einc.ir.indices import DATA
from einc.ir.plan import AxisRef, Buffer, Contract, Flatten, InSlices, Module, Subscript, axes_of_contraction

Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A product by the places of its operands in `first`; with `then`, a contraction of the product and of scales that
    sums over blocks. `groups` are the axes that all have, those of rows, blocks, terms and columns, and `scaled` those
    of the scales, by the names that they have in `first`; `made` are those of the result.
    """

    first: Contract
    then: Contract | None
    data: int
    groups: tuple[Axes, ...]
    scaled: Axes
    made: Axes

    @property
    def last(self) -> Contract:
        """The contraction that makes the result."""
        return self.then or self.first


def product(step: Contract | InSlices, module: Module) -> Product | None:
    """The product of few rows that a step is, or that its first contraction is; None where it is something else."""
    first, *others = step.contractions if isinstance(step, InSlices) else (step,)
    matrix = _matrix(first, module)
    if matrix is None or not _readable(first, matrix, module.buffers):
        return None
    data = 1 - matrix
    if len(others) == 1 and (found := _scaled(first, others[0], data, module.buffers)) is not None:
        return found
    groups = _groups(first, data, ())
    return None if groups is None else Product(first, None, data, groups, (), first.axes)


def _matrix(step: Contract, module: Module) -> int | None:
    """Which operand is the matrix: the one of few bits, or, where new positions of a step over a cache are multiplied,
    the one that has no axis of data.
    """
    if len(step.reads) != 2:
        return None
    elements = [module.buffers[name].element for name in step.reads]
    few = [element.narrow is not None for element in elements]
    if sum(few) == 1:
        return few.index(True)
    known = axes_of_contraction(step, module.buffers)
    lengths = [[known[axis].extent for axis in letters if axis in known and known[axis].cls in DATA]
               for letters in step.letters]
    new = all(module.past not in extent.sizes for extents in lengths for extent in extents)
    plain = all(element == REAL for element in elements)
    return lengths.index([]) if module.past and plain and new and lengths.count([]) == 1 else None


def _readable(step: Contract, few: int, buffers: Mapping[str, Buffer]) -> bool:
    """Whether the kernel knows where all numbers of the operands lie."""
    known = axes_of_contraction(step, buffers)
    named = all(axis in known for letters in step.letters for axis in letters)
    plain = isinstance(step.views[few][-1], AxisRef) if step.views[few] else False
    lying = buffers[step.reads[few]].element
    if lying.narrow is not None and lying.word not in read_as_they_lie():
        return False
    return named and bool(step.views[few]) and (plain or not lying.shared or _pair(step.views[few][-1]))


def _pair(sub: Subscript) -> bool:
    """Whether a slot is made of axes alone, no part of which is left out or split again."""
    return isinstance(sub, Flatten) and all(isinstance(part, AxisRef) for part in sub.parts)


def _groups(step: Contract, data: int, blocks: Axes) -> tuple[Axes, ...] | None:
    """The axes that both operands and the result have, those of rows, blocks, terms and columns, each in the order in
    which they lie; None where one operand is summed alone. Columns are what the matrix alone has and what lies side by
    side in it; other such axes are as those that all have."""
    x, w = step.letters[data], step.letters[1 - data]
    if any(axis not in step.axes for axis in {*x} ^ {*w}):
        return None
    alone = [axis not in x for axis in w]
    last = max((n for n, is_alone in enumerate(alone) if is_alone), default=-1)
    first = last + 1
    while first > 0 and alone[first - 1]:
        first -= 1
    columns = w[first : last + 1]
    outer = tuple(axis for axis in w if axis in step.axes and axis not in (*columns, *blocks))
    rows = tuple(axis for axis in x if axis not in w)
    return outer, rows, blocks, tuple(axis for axis in w if axis in x and axis not in step.axes), columns


def _scaled(first: Contract, then: Contract, data: int, buffers: Mapping[str, Buffer]) -> Product | None:
    """A product, and the sum over blocks of it times scales, as one; None where the second contraction is no such sum,
    or scales differ from row to row."""
    at = then.reads.index(first.out)
    if len(then.reads) != 2 or len(then.path) != 1:
        return None
    names = {sub.axis: mine for sub, mine in zip(then.views[at], first.axes, strict=True) if isinstance(sub, AxisRef)}
    scales, element_ = then.letters[1 - at], buffers[then.reads[1 - at]].element
    if len(names) < len(first.axes) or {*then.axes, *scales} - names.keys() or element_ not in (REAL, WIDE, RANGED):
        return None
    blocks = tuple(axis for axis in first.letters[1 - data] if axis in first.axes
                   and axis not in [names[theirs] for theirs in then.axes])
    groups = _groups(first, data, blocks)
    scaled, made = (tuple(names[theirs] for theirs in axes) for axes in (scales, then.axes))
    if groups is None or {*groups[1]} & {*scaled} or {*made} != {*groups[0], *groups[1], *groups[4]}:
        return None
    return Product(first, then, data, groups, scaled, made)


def declared(found: Product, name: str, module: Module) -> str:
    """The kernel of a product, as a line of C++."""
    buffers, first = module.buffers, found.first
    few = buffers[first.reads[1 - found.data]].element
    scale = _scale(found)
    kind = stored(buffers[scale].element) if scale else "DATA"
    ranks, last = len(first.letters[1 - found.data]), first.views[1 - found.data][-1]
    ranks -= len(last.parts) - 1 if few.shared and isinstance(last, Flatten) else 0
    strides = 1 + ranks + max(1, len(found.scaled)) + 1
    return f"PRODUCT({name}, {few.narrow.name if few.narrow else 'DATA'}, {kind}, {strides})"


def _scale(found: Product) -> str:
    """The buffer of the scales; empty where there are none."""
    return "" if found.then is None else next(name for name in found.then.reads if name != found.first.out)


def written(step: Contract | InSlices, found: Product, name: str, page: Page) -> None:
    """Writes the call of the kernel of this name, and torch's statements for where it has not run."""
    module, body, out = page.module, page.body, found.last.out
    page.helpers.add("_native_product")
    sizes = page.names.fresh("sizes")
    for line in _call(step, found, name, module, sizes):
        body.lines += folded("    " * body.depth + line)
    body.open(f"if {out} is None:")
    contract(module, step, body, page.names, page.helpers)
    body.close()
    body.open("else:")
    body(f"{out} = {out}{joined(found.last)}.to({element(module.buffers[out])})")
    rest = step.contractions[1:] if isinstance(step, InSlices) and found.then is None else ()
    for one in rest:
        contract(module, one, body, page.names, page.helpers)
    body.close()


def _call(step: Contract | InSlices, found: Product, name: str, module: Module, sizes: str) -> list[str]:
    """The statements that call the kernel; `sizes` is the name of the extents of all letters."""
    first, scale = found.first, _scale(found)
    known = axes_of_contraction(first, module.buffers)
    letters = lettered(known)

    def word(axes: Axes) -> str:
        return '"' + "".join(letters[axis] for axis in axes) + '"'

    def given(buffer: str, view: tuple[Subscript, ...], axes: Axes) -> str:
        view = view[:-1] if module.buffers[buffer].element.shared else view
        return f"({viewed(identifier(buffer), view)}, {word(axes)})"

    x, matrix = (given(first.reads[n], first.views[n], first.letters[n]) for n in (found.data, 1 - found.data))
    scales = "None"
    if found.then is not None:
        scales = given(scale, found.then.views[found.then.reads.index(scale)], found.scaled)
    shown = ", ".join(f'"{letters[axis]}": {sized(over.extent)}' for axis, over in known.items())
    groups = ", ".join(map(word, found.groups))
    arguments = f'_CPP, "{name}", {sized(step.cost.flops)}, dtype, {x}, {matrix}, {scales}, ({groups}), {sizes}'
    return [f"{sizes} = {{{shown}}}", f"{found.last.out} = _native_product({arguments}, {word(found.made)})"]
