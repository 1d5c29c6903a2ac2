"""What stands at the head of an emitted function: sizes read from shapes, and checks that say what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from einc.backends.host import serving
from einc.backends.host.contractions import element
from einc.backends.host.naming import Named
from einc.backends.writer import Writer, sized
from einc.ir.elements import REAL
from einc.ir.extents import solved
from einc.ir.indices import Extent, number, size
from einc.ir.plan import Lengths, Module
from einc.ir.programs import Tensor


def _device(module: Module, out: Writer, types: list[str]) -> None:
    floats = sorted((t for t in module.given if not t.constant), key=lambda t: t.element != REAL)
    first = (floats or list(module.inputs))[0].key if module.inputs else None
    device = f"{first}.device" if first else "torch.get_default_device()"
    dtype = f"{floats[0].key}.dtype" if floats else "torch.get_default_dtype()"
    out(f"device, dtype = {device}, {dtype}")
    for line in types:
        out(line)


def read_sizes(names: Named, body: Writer, helpers: set[str], types: list[str]) -> list[str]:
    """Writes into `body` how every size is read from the shapes, and how every input is checked against what it must
    be; the sizes that the caller is asked for. Adds the helpers that it needs to `helpers`.
    """
    asked, _ = check_shapes(names, body, helpers, types)
    read_values(names, body, helpers)
    if names.module.past:
        serving.begin(names, body, helpers)
    return asked


def check_shapes(names: Named, body: Writer, helpers: set[str], types: list[str]) -> tuple[list[str], list[str]]:
    """Writes the same, but nothing that looks at an element; the sizes that the caller is asked for, and those that
    only elements tell. Adds the helpers that it needs to `helpers`.
    """
    module, known, summed = names.module, dict[str, str](), list[str]()
    for name, value in module.fixed.items():
        body(f"{name} = {value}")
        known[name] = name
    if module.past:
        serving.single(module, body, helpers)
        known |= {name: name for name in (module.past, module.dropped) if name}
    lead = next((t for t in module.given if not t.integer), next(iter(module.inputs), None))

    def told(tensor: Tensor, left: str) -> str:
        if not left and tensor is not lead:
            return ""
        helpers.add("_shape")
        said = _shape([names.said(extent) for extent in tensor.extents])
        return f'{left}_shape("{names.public[tensor.key]}", {tensor.key}, "{said}", {len(tensor.slots)})'

    _shapes(module, known, body, told)
    for one in module.lengths:
        (name,) = one.total.sizes
        if name not in known:
            body(f"{name} = int({one.given}.sum())")
            known[name] = name
            summed.append(name)
    _device(module, body, types)
    asked, divide = sorted(module.sizes - known.keys()), _divisors(module)
    for name in asked:
        helpers.add("_whole")
        least = 0 if any(name in x.extent.sizes for x in module.sets) and name not in divide else 1
        body(f'_whole("{names.size(name)}", {name}, {least})')
    for name in sorted(divide - module.fixed.keys() - {*asked}):
        body(f"if {name} < 1:")
        body(f'    raise ValueError(f"{names.declared[name]} = {{{name}}} divides, and is less than 1")')
    _checks(names, body, helpers)
    return asked, summed


def given_sizes(names: Named, given: Iterable[str], types: list[str]) -> list[str]:
    """The same of inputs that have been checked already, where some sizes are given; the lines, at the left edge."""
    module, known, body = names.module, {name: name for name in given}, Writer()
    for name, value in module.fixed.items():
        body(f"{name} = {value}")
        known[name] = name
    _shapes(module, known, body, lambda tensor, left: left and f"{left}{tensor.key}.shape")
    _device(module, body, types)
    return body.lines


def _shapes(module: Module, known: dict[str, str], body: Writer, told: Callable[[Tensor, str], str]) -> None:
    """Writes what the shapes tell of sizes that are not known yet; `told` is the statement for a tensor, or nothing."""
    pending: list[tuple[Tensor, int, Extent]] = []
    for tensor in module.given:
        targets: list[str] = []
        for n, extent in enumerate(tensor.extents):
            name = next(iter(extent.sizes), "")
            if extent == size(name) and name not in known:
                known[name] = name
                targets.append(name)
            else:
                targets.append("_")
                pending.append((tensor, n, extent))
        some = any(t != "_" for t in targets)
        line = told(tensor, f"{', '.join(targets)}{',' * (len(targets) == 1)} = " if some else "")
        if line:
            body(line)
    for tensor, n, extent in pending:
        _solve(tensor, n, extent, known, body)


def _solve(tensor: Tensor, n: int, extent: Extent, known: dict[str, str], body: Writer) -> None:
    """Writes the statement that solves an extent for its one unknown size, which is known from then on."""
    found = solved(extent, known, "#")
    if found is not None:
        name, value = found
        body(f"{name} = {sized(value).replace('#', f'{tensor.key}.shape[{n}]')}")
        known[name] = name


def _divisors(module: Module) -> set[str]:
    """The sizes by which quotients that are rounded divide."""
    return {name for of in module.sets for x in of.extent.roundings for name in x.fraction[1].sizes}


def _checks(names: Named, body: Writer, helpers: set[str]) -> None:
    """Writes the checks that sizes are multiples of what divides them, and that every given tensor has its shape, type
    and device; adds the helpers that check.
    """
    module = names.module
    for set_ in module.sets:
        for _, coefficient in set_.extent.terms:
            if coefficient.denominator > 1 and len(set_.extent.terms) == 1:
                extent = set_.extent * number(coefficient.denominator)
                above, said = sized(extent), sized(names.said(extent))
                body(f"if {above if above.isidentifier() else f'({above})'} % {coefficient.denominator}:")
                body(f'    raise ValueError(f"{said} = {{{above}}} is not a multiple of {coefficient.denominator}")')
    rows: dict[str, list[str]] = {"_expect": [], "_stored": []}
    for tensor in module.given:
        shape = _shape([*tensor.extents])
        said = _shape([names.said(extent) for extent in tensor.extents])
        kind = "None" if tensor.integer else element(tensor)
        row = f'    ("{names.public[tensor.key]}", {tensor.key}, "{said}", {shape}, {kind}),'
        rows["_expect" if tensor.element.narrow is None else "_stored"].append(row)
    for check, lines in rows.items():
        if lines:
            helpers.add(check)
            body(f"{check}(device, (")
            for line in lines:
                body(line)
            body("))")


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def read_values(names: Named, body: Writer, helpers: set[str], checked: bool = True) -> None:
    """Writes integers in one type; what follows from lengths; elements that stand as positions are checked, unless they
    have been.
    """
    module = names.module
    given = {t.key for t in module.given}
    for tensor in module.inputs:
        if tensor.integer and tensor.key in given:
            body(f"{tensor.key} = {tensor.key}.long()")
    for one in module.lengths:
        _pieces(names, one, body, helpers, checked)
    for name, set_ in (x for x in module.keys if checked and x[0] in given):
        helpers.add("_within")
        last = sized(set_.extent + number(set_.start - 1))
        body(f'_within("{names.public[name]}", {name}, {set_.start}, {last})')


def read_derived(names: Named, body: Writer) -> None:
    """Writes what follows from lengths, where something reads it; the lengths in one type."""
    for one in names.module.lengths:
        if one.piece or one.offset or one.start:
            body(f"{one.given} = {one.given}.long()")
            _pieces(names, one, body, set(), False)


def _pieces(names: Named, one: Lengths, body: Writer, helpers: set[str], checked: bool) -> None:
    """Writes what follows from the lengths of the pieces of an axis."""
    total, starts = sized(one.total), f"{one.given}.cumsum(0) - {one.given}"
    if checked:
        helpers.add("_add_up")
        body(f'_add_up("{names.public[one.given]}", {one.given}, {total})')
    if one.start:
        body(f"{one.start} = {starts}")
        starts = one.start
    pieces = f"torch.arange({one.first}, {sized(one.pieces + number(one.first))}, device=device)"
    for name, of in ((one.offset, starts), (one.piece, pieces)):
        if name:
            body(f"{name} = torch.repeat_interleave({of}, {one.given}, output_size={total})")


def _shape(extents: list[Extent]) -> str:
    return _tuple([*map(sized, extents)])
