"""What stands at the head of an emitted function: sizes read from shapes, and checks that say what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from einc.backends.host import serving
from einc.backends.host.naming import Named
from einc.backends.writer import Writer, sized
from einc.ir.indices import Extent, number, size
from einc.ir.plan import Lengths, Module
from einc.ir.terms import Tensor


def _device(module: Module, out: Writer, types: list[str]) -> None:
    floats = sorted((t for t in module.given if not t.integer), key=lambda t: t.wide)
    first = (floats or list(module.inputs))[0].key if module.inputs else None
    device = f"{first}.device" if first else "torch.get_default_device()"
    dtype = f"{floats[0].key}.dtype" if floats else "torch.get_default_dtype()"
    out(f"device, dtype = {device}, {dtype}")
    for line in types:
        out(line)


def read_sizes(names: Named, body: Writer, helpers: set[str], types: list[str]) -> list[str]:
    """Reads every size from the shapes, asks for the others, and checks every input against what it must be."""
    asked, _ = check_shapes(names, body, helpers, types)
    read_values(names, body, helpers)
    if names.module.past:
        serving.begin(names, body, helpers)
    return asked


def check_shapes(names: Named, body: Writer, helpers: set[str], types: list[str]) -> tuple[list[str], list[str]]:
    """The same without a look at any element; the sizes that the caller gives, and those that only elements tell."""
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
        return f'{left}_shape("{names.public[tensor.key]}", {tensor.key}, {len(tensor.slots)})'

    _shapes(module, known, body, told)
    for one in module.lengths:
        (name,) = one.total.sizes
        if name not in known:
            body(f"{name} = int({one.given}.sum())")
            known[name] = name
            summed.append(name)
    _device(module, body, types)
    asked = sorted(module.sizes - known.keys())
    for name in asked:
        helpers.add("_whole")
        least = 0 if any(name in x.extent.sizes for x in module.sets) else 1
        body(f'_whole("{names.size(name)}", {name}, {least})')
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
    """What the shapes tell of sizes that are not known yet; `told` is the statement for a tensor, or nothing."""
    pending: list[tuple[Tensor, int, Extent]] = []
    for tensor in module.given:
        targets: list[str] = []
        for n, slot in enumerate(tensor.slots):
            name = next(iter(slot.set.extent.sizes), "")
            if slot.set.extent == size(name) and name not in known:
                known[name] = name
                targets.append(name)
            else:
                targets.append("_")
                pending.append((tensor, n, slot.set.extent))
        some = any(t != "_" for t in targets)
        line = told(tensor, f"{', '.join(targets)}{',' * (len(targets) == 1)} = " if some else "")
        if line:
            body(line)
    for tensor, n, extent in pending:
        _solve(tensor, n, extent, known, body)


def _solve(tensor: Tensor, n: int, extent: Extent, known: dict[str, str], body: Writer) -> None:
    """An extent with one unknown size fixes it."""
    unknown = [s for s in extent.sizes if s not in known]
    if len(unknown) != 1:
        return
    (name,) = unknown
    coefficient = next((c for m, c in extent.terms if m == ((name, 1),)), None)
    rest = Extent(tuple((m, c) for m, c in extent.terms if m != ((name, 1),)))
    if coefficient is None or name in rest.sizes:
        return
    value = (size("#") - rest) * number(1 / coefficient)
    body(f"{name} = {sized(value).replace('#', f'{tensor.key}.shape[{n}]')}")
    known[name] = name


def _checks(names: Named, body: Writer, helpers: set[str]) -> None:
    module = names.module
    for set_ in module.sets:
        for _, coefficient in set_.extent.terms:
            if coefficient.denominator > 1 and len(set_.extent.terms) == 1:
                extent = set_.extent * number(coefficient.denominator)
                above, said = sized(extent), sized(names.said(extent))
                body(f"if {above if above.isidentifier() else f'({above})'} % {coefficient.denominator}:")
                body(f'    raise ValueError(f"{said} = {{{above}}} is not a multiple of {coefficient.denominator}")')
    for tensor in module.given:
        shape = _shape([s.set.extent for s in tensor.slots])
        said = _shape([names.said(s.set.extent) for s in tensor.slots])
        kind = "None" if tensor.integer else "wide" if tensor.wide else "dtype"
        helpers.add("_expect")
        body(f'_expect("{names.public[tensor.key]}", {tensor.key}, {shape}, "{said}", {kind}, device)')


def read_values(names: Named, body: Writer, helpers: set[str], checked: bool = True) -> None:
    """Integers in one type; what follows from lengths; elements that stand as positions are checked, unless they have been."""
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


def _pieces(names: Named, one: Lengths, body: Writer, helpers: set[str], checked: bool) -> None:
    """What follows from the lengths of the pieces of an axis."""
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
    return f"({', '.join(map(sized, extents))}{',' * (len(extents) == 1)})"


HELPERS = {
    "_shape": '''
def _shape(name, x, axes):
    """The shape of an input; its rank is checked."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    if x.ndim != axes:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} axes are expected")
    return x.shape
''',
    "_expect": '''
def _expect(name, x, shape, axes, dtype, device):
    """Equal extents, one element type (integers where dtype is None), one device; nothing is stretched or converted."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    if tuple(x.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} = {shape} is expected")
    if dtype is None and (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool):
        raise TypeError(f"{name} holds {x.dtype}, whole numbers are expected")
    if dtype is not None and (x.dtype != dtype or not dtype.is_floating_point):
        raise TypeError(f"{name} holds {x.dtype}, {f'{dtype} is' if dtype.is_floating_point else 'real numbers are'} expected")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device}, the others are on {device}")
''',
    "_whole": '''
def _whole(name, value, least):
    """A size that no tensor fixes."""
    if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)) or value < least:
        raise ValueError(f"{name} = {value!r}, a whole number from {least} is expected")
''',
    "_within": '''
def _within(name, x, low, high):
    """Elements that stand as positions must be positions."""
    if x.numel() and not (low <= int(x.min()) and int(x.max()) <= high):
        raise IndexError(f"{name} holds values from {int(x.min())} to {int(x.max())}, {low} to {high} are expected")
''',
    "_add_up": '''
def _add_up(name, lengths, total):
    """The lengths of the pieces of an axis."""
    if lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"{name} holds {int(lengths.min())}, lengths from 0 are expected")
    if int(lengths.sum()) != total:
        raise ValueError(f"{name} adds up to {int(lengths.sum())}, but the axes that it divides have {total} elements")
''',
    "_over": '''
def _over(x, n):
    """x / n for a number n, where 0 over 0 is 0."""
    if n:
        return x / n
    if isinstance(x, torch.Tensor):
        return torch.where(x == 0, 0.0, x / n)
    return x * math.copysign(math.inf, n) if x else 0.0
''',
    "_dense": '''
def _dense(x):
    """A tensor whose last axis is without gaps, as a library reads it."""
    return x if x.stride(-1) == 1 else x.contiguous()
''',
    "_in_parts": '''
def _in_parts(call, x, *past):
    """What a call makes of rows and a past, with the logarithm of what it divided by: of each piece of the past, and merged."""
    x, made, total = _dense(x), None, None
    for piece in [past] if isinstance(past[0], torch.Tensor) else zip(*past):
        y, log = _of_piece(call, x, [_dense(p) for p in piece])
        if made is not None:
            y = torch.lerp(made.to(log.dtype), y.to(log.dtype), torch.sigmoid(log - total)[..., None])
            log = torch.logaddexp(total, log)
        made, total = y, log
    return made.to(x.dtype)


def _of_piece(call, x, past):
    """Of one piece: where processors are left, of parts of it, and merged."""
    parts = min(torch.get_num_threads() // max(1, x.shape[0] * x.shape[1]), past[0].shape[2] // 1024)
    if parts < 2:
        return call(x, *past)[:2]
    length = past[0].shape[2] // parts
    rows, rest = x.flatten(0, 1)[:, None], [p[:, :, parts * length :].flatten(0, 1)[:, None] for p in past]
    cut = [p[:, :, : parts * length].unflatten(2, (parts, length)).flatten(0, 1) for p in past]
    found = [call(rows.expand(-1, parts, -1, -1), *cut)[:2]] + ([call(rows, *rest)[:2]] if rest[0].shape[2] else [])
    y, log = (torch.cat(each, 1) for each in zip(*found))
    total = log.logsumexp(1)
    y = (y * (log - total[:, None]).exp_()[..., None]).sum(1)
    return y.view(*x.shape[:3], -1), total.view(x.shape[:3])
''',
    "_number": '''
def _number(function, *numbers):
    """A function of numbers as tensors have it: infinite, or no number, where Python's own would raise."""
    return function(*(torch.tensor(n, dtype=torch.float64, device="cpu") for n in numbers)).item()
''',
}
