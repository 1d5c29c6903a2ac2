"""Plain contractions, each pair a product of the library's, and the element types of what is stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from einc.backends.host.pointwise import Axes, aligned, summed, within
from einc.backends.writer import Names, Writer, lettered, sized
from einc.ir.elements import RANGED, WIDE
from einc.ir.plan import Buffer, Contract, Flatten, InSlices, Module, Move, Repack, SegmentSum, Slice, Subscript, leaves
from einc.ir.programs import Tensor

# Types that depend on that of the data: the wide one, and one of no smaller range than float32, which is the data's own
# but for float16. Where they have names: `wide` and `ranged`.
PROMOTED = "torch.promote_types(dtype, torch.float32)"
_FROM_DATA = {"wide": PROMOTED, "ranged": "torch.promote_types(dtype, torch.bfloat16)"}


def element(buffer: Buffer | Tensor, named: bool = True) -> str:
    """The element type of a buffer or a tensor, an expression of torch; types that depend on that of the data by their
    names, where they are `named`."""
    storage = buffer.element.storage
    if storage in _FROM_DATA:
        return storage if named else _FROM_DATA[storage]
    return "dtype" if storage == "data" else f"torch.{storage}"


def named_types(module: Module, wide: bool = False, ranged: bool = False) -> list[str]:
    """The lines that name the types which depend on that of the data: those that something beside the kernels has, and
    those that are asked for."""
    lines = {"wide": "wide = torch.float64 if dtype == torch.float64 else torch.float32",
             "ranged": f"ranged = {_FROM_DATA['ranged']}  # that of the data; of float16 float32"}
    said = {"wide": wide or _speaks_wide(module), "ranged": ranged or _speaks_ranged(module)}
    return [line for name, line in lines.items() if said[name]]


def _speaks_ranged(module: Module) -> bool:
    """Whether something has the type of more range."""
    if any(b.element == RANGED for b in module.buffers.values()) or any(t.element == RANGED for t in module.inputs):
        return True
    steps = list(leaves(module.steps))
    if any(isinstance(step, InSlices) and step.adds for step in steps):
        return True
    contractions = [one for step in steps for one in (step.contractions if isinstance(step, InSlices) else (step,))
                    if isinstance(one, Contract)]
    return any(flag for one in contractions for flag in _scaled_next(one))


def _speaks_wide(module: Module) -> bool:
    """Whether something beside the kernels has the wide type."""
    steps = list(leaves(module.steps))
    if any(isinstance(step, SegmentSum | InSlices) for step in steps) or any(
            one.wide for step in steps if isinstance(step, Move) for one in step.moved):
        return True
    if any(len(p) > 1 for s in steps if isinstance(s, Contract) for p, _ in _steps(s)):
        return True
    return any(b.element == WIDE for b in module.buffers.values()) or any(t.element == WIDE for t in module.inputs)


def stored(module: Module, name: str, out: str) -> str:
    """A buffer in the type of what is made of it; whole numbers as they are."""
    return name + _converted(module, name, out)


def _converted(module: Module, name: str, out: str) -> str:
    """What is written behind a buffer to have it in the type of what is made of it; empty where it has that."""
    mine, wanted = element(module.buffers[name]), _base(module.buffers[out])
    return "" if mine in (wanted, "torch.int64") else f".to({wanted})"


def _base(buffer: Buffer) -> str:
    """The type in which a buffer is made of operands that have no more digits or range than it."""
    made = buffer.element
    return element(buffer) if made in (WIDE, RANGED) or made.narrow is not None else "dtype"


def formed_in(module: Module, operands: Iterable[str], out: str) -> str:
    """The type in which a product of matrices is formed before it has that of the result."""
    kinds = (element(module.buffers[name]) for name in operands)
    return _widest((_base(module.buffers[out]), *(kind for kind in kinds if kind == "wide")))


def _widest(kinds: Iterable[str]) -> str:
    """Of types that depend on that of the data the one with most range and digits, the first of equal ones."""
    return max(kinds, key=lambda kind: {"ranged": 1, "wide": 2}.get(kind, 0))


@dataclass(frozen=True, slots=True)
class _Cut:
    """A slice of the axis `letter`: `count` places from `low` on; the sum of all slices is kept in the wide type where
    it `adds`."""

    letter: str
    low: str
    count: str
    adds: bool

    def of(self, text: str, axes: Axes) -> str:
        """The slice of a value with some axes."""
        return f"{text}.narrow({axes.index(self.letter)}, {self.low}, {self.count})" if self.letter in axes else text


def _in_slices(module: Module, step: InSlices, body: Writer, names: Names, helpers: set[str]) -> None:
    """Writes a loop over slices of an axis. What they make is added up in the wide type, or stands side by side."""
    helpers.add("_slices")
    buffer, made = module.buffers[step.out], names.fresh(f"{step.out}_part")
    *before, last = step.contractions
    low, count = names.fresh("low"), names.fresh("count")
    shape = ", ".join(sized(over.extent) for over in buffer.sets) + "," * (len(buffer.sets) == 1)
    start, kind = ("zeros", "wide") if step.adds else ("empty", element(buffer))
    body(f"{step.out} = torch.{start}(({shape}), dtype={kind}, device=device)")
    each = ", ".join(sized(x) for x in step.each) + "," * (len(step.each) == 1)
    body.open(f"for {low}, {count} in _slices({sized(step.extent)}, ({each}), device):")
    known = [one.out for one in before]
    for one, letter in zip(step.contractions, step.along, strict=True):
        _contract(module, one, made if one is last else one.out, known,
                  _Cut(letter, low, count, step.adds and one is last), body, names, helpers)
    if step.adds:
        body(f"{step.out} += {made}")
    else:
        at = _firsts(last).index(step.along[-1])
        body(f"{step.out}.narrow({at}, {low}, {count}).copy_({made})")
    body.close()
    if step.adds and buffer.element != WIDE:
        body(f"{step.out} = {step.out}.to({element(buffer)})")


def _firsts(step: Contract) -> list[str]:
    """The first axis of each slot of a result."""
    starts = [sum(step.slots[:n]) for n in range(len(step.slots))]
    return [step.axes[n] for n in starts]


def contract(module: Module, step: Contract | InSlices | Repack, body: Writer, names: Names,
             helpers: set[str]) -> None:
    """Writes products of pairs in the planned order, slice by slice where the plan says so; einsum hands those of two
    matrices to a matrix product. What is wide makes its pair wide. Or writes numbers in other bytes.
    """
    match step:
        case Contract():
            _contract(module, step, step.out, (), None, body, names, helpers)
        case InSlices():
            _in_slices(module, step, body, names, helpers)
        case Repack():
            before, after = module.buffers[step.reads[0]], module.buffers[step.out]
            write = from_bytes if before.element.shared else _in_bytes
            body(f"{step.out} = {write(before if before.element.shared else after, before.name, helpers)}")


def from_bytes(buffer: Buffer, text: str, helpers: set[str], first: str = "0", count: str = "") -> str:
    """The text that takes the numbers along the last axis of a buffer out of its bytes, or `count` of them from the
    `first` on; adds the helper that it calls to `helpers`."""
    helpers.add("_from_bytes")
    return f"_from_bytes({text}, {first}, {count or sized(buffer.sets[-1].extent)}, {buffer.element.together})"


def _in_bytes(buffer: Buffer, text: str, helpers: set[str]) -> str:
    """The text that puts numbers into the bytes of a buffer; adds the helper that it calls to `helpers`."""
    helpers.add("_in_bytes")
    return f"_in_bytes({text}, {buffer.element.together})"


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand as a text of torch with its axes, and the type that it has."""

    text: str
    axes: Axes
    kind: str

    def to(self, kind: str) -> tuple[str, Axes]:
        """Its text in another type, and its axes."""
        return self.text if self.kind in (kind, "torch.int64") else f"{self.text}.to({kind})", self.axes


def _contract(module: Module, step: Contract, made: str, known: Collection[str], cut: _Cut | None, body: Writer,
              names: Names, helpers: set[str]) -> None:
    """Writes a contraction under the name `made`, of slices of its operands where it is `cut`, of which those that are
    `known` are slices already. What meets a scale later, and what is added up, keeps its range until then."""
    body(f"# {step.text}")
    base = _base(module.buffers[step.out])
    adds = cut is not None and cut.adds
    scales = ["wide"] * (adds and not {*known}.isdisjoint(step.reads))  # of slices of what is added up
    operands, scaled = list(_operands(module, step, known, cut, helpers)), _scaled_next(step)
    for n, (pair, out) in enumerate(_steps(step)):
        chosen, operands = [operands[p] for p in pair], [o for m, o in enumerate(operands) if m not in pair]
        last = n == len(step.path) - 1
        target = made if last else names.fresh(f"{step.out}_{n}")
        later = adds or scaled[n]
        points = _by_points([o.axes for o in chosen], out)
        kept = [o.kind for o in chosen if o.kind == "wide" or (points and o.kind == "ranged")]
        kind = _widest((base, *kept, *scales, *["ranged"] * later))
        text, kind = _product(module, step, chosen, out, kind, cut, helpers)
        if kind != base and not later and (cut is None or last):  # what is added up stays so until the end
            text, kind = f"{text}.to({base})", base
        body(f"{target} = {text}{joined(step) if last else ''}")
        operands.append(_Operand(target, out, kind))


def _product(module: Module, step: Contract, chosen: list[_Operand], out: Axes, kind: str, cut: _Cut | None,
             helpers: set[str]) -> tuple[str, str]:
    """The product of some operands of a step, formed in a type or in a wider one, and in which. Changes `helpers`."""
    given = [one.to(kind) for one in chosen]
    if _by_points([one.axes for one in chosen], out):
        return _points(given, out, kind != "wide"), "wide" if len(chosen) > 1 else kind
    letters = lettered(a for _, o in step.operands for a in o)
    spec = ",".join("".join(letters[a] for a in axes) for _, axes in given) + "->" + "".join(letters[a] for a in out)
    plain = f'torch.einsum("{spec}", {", ".join(text for text, _ in given)})'
    data = [(one.text, one.axes) for one in chosen if kind == "ranged" and one.kind == "dtype"]
    if len(data) == len(chosen) and (text := _matrices(data, out, "", "_in_range({}, {}, ranged)")):
        helpers.add("_in_range")
        return text, kind
    text = _matrices(given, out, plain) or plain
    return (_of_codes(module, step, out, cut, helpers) if len(step.path) == 1 else "") or text, kind


def _scaled_next(step: Contract) -> list[bool]:
    """For each product of the planned order whether the next one multiplies scales to it: numbers that could have been
    multiplied to an operand, and may bring its sums back into the range of the data."""
    left: list[tuple[Axes, int | None]] = [(axes, None) for _, axes in step.operands]  # the product that made each
    found = [False] * len(step.path)
    for n, (pair, out) in enumerate(_steps(step)):
        chosen, left = [left[p] for p in pair], [one for m, one in enumerate(left) if m not in pair]
        for axes, made in chosen:
            if made is not None:
                found[made] = len(chosen) > 1 and all({*other} <= {*axes} for other, _ in chosen)
        left.append((out, n))
    return found


def _sliced(buffer: Buffer, view: tuple[Subscript, ...], axes: Axes, cut: _Cut | None, helpers: set[str]) -> str:
    """An operand, or a slice of it, in which each number has a byte of its own at least."""
    if not buffer.element.shared:
        text = viewed(buffer.name, view)
        return text if cut is None else cut.of(text, axes)
    *before, last = view
    sets = last.sets if isinstance(last, Flatten) else (buffer.sets[-1],)
    extents, own = [sized(one.extent) for one in sets], axes[len(axes) - len(sets):]
    text, first, count = viewed(buffer.name, (*before,)), "0", sized(buffer.sets[-1].extent)
    if cut is not None and cut.letter == own[0]:
        extents[0] = cut.count
        first, count = (" * ".join([x, *(sized(one.extent, tight=True) for one in sets[1:])])
                        for x in (cut.low, cut.count))
        cut = None
    elif cut is not None and cut.letter not in own:
        text, cut = cut.of(text, axes), None
    text = from_bytes(buffer, text, helpers, first, count)
    text += f".unflatten(-1, ({', '.join(extents)}))" if len(extents) > 1 else ""
    return text if cut is None else cut.of(text, axes)


def _operands(module: Module, step: Contract, known: Collection[str], cut: _Cut | None,
              helpers: set[str]) -> Iterator[_Operand]:
    """Each operand as it lies."""
    for (name, axes), view in zip(step.operands, step.views, strict=True):
        buffer = module.buffers[name]
        if cut is None and not buffer.element.shared:
            text = viewed(name, view)
        else:
            text = _sliced(buffer, view, axes, None if name in known else cut, helpers)
        yield _Operand(text, axes, element(buffer))


def joined(step: Contract) -> str:
    """What makes of the axes of a result its slots."""
    return "".join(f".flatten({n}, {n + count - 1})" for n, count in enumerate(step.slots) if count > 1)


def _of_codes(module: Module, step: Contract, out: Axes, cut: _Cut | None, helpers: set[str]) -> str:
    """The product of two matrices of numbers of few bits, which a processor may have an instruction for; empty where a
    step is something else. Changes `helpers`."""
    found = [few for name, _ in step.operands if (few := module.buffers[name].element.narrow) is not None]
    if not len(found) == len(step.operands) == 2 or len({few.whole for few in found}) == 2:
        return ""
    helper = "_whole_product" if found[0].whole else "_product_of_codes"
    pairs = zip(step.operands, step.views, strict=True)
    given = [(_sliced(module.buffers[name], view, axes, cut, helpers), axes) for (name, axes), view in pairs]
    made = _matrices(given, out, "", f"{helper}({{}}, {{}}, {element(module.buffers[step.out])})")
    helpers |= {helper} if made else set()
    return made


def _steps(step: Contract) -> Iterator[tuple[tuple[int, ...], Axes]]:
    """Which of the operands left are taken in turn, and the axes of their product, which
    is then the last of those left."""
    left = [axes for _, axes in step.operands]
    for n, pair in enumerate(step.path):
        chosen = [left[p] for p in pair]
        left = [o for m, o in enumerate(left) if m not in pair]
        needed = {*step.axes, *(a for o in left for a in o)}
        out = tuple(a for a in dict.fromkeys(a for o in chosen for a in o) if a in needed)
        left.append(step.axes if n == len(step.path) - 1 else out)
        yield tuple(pair), left[-1]


def _by_points(chosen: list[Axes], out: Axes) -> bool:
    """Whether it is a sum, or best formed point by point."""
    if len(chosen) == 1:
        return set(out) <= set(chosen[0])
    first, *others = sorted(chosen, key=len, reverse=True)
    return len(others) == 1 and within(first, others[0], out)


FEW = 64  # rows for which it does not pay to lay the matrices of a batch side by side first


def _matrices(chosen: list[tuple[str, Axes]], out: Axes, plain: str, product: str = "torch.matmul({}, {})") -> str:
    """Rows times one matrix, as it lies or turned: torch's einsum forms that in a batch of one, which may be slow.

    Of a batch of matrices it makes one first, by a copy: few rows take them as they lie, if there is a `plain` way for
    many.
    """
    for (left, mine), (right, theirs) in (chosen, chosen[::-1]) if len(chosen) == 2 else ():
        over = tuple(a for a in theirs if a not in out)
        rows, columns = mine[: len(mine) - len(over)], tuple(a for a in theirs if a in out)
        if not over or mine != (*rows, *over) or out != (*rows, *columns) or not columns:
            continue
        left = _flat(left, len(rows), len(over))
        before = theirs.index(over[0])
        if theirs[before : before + len(over)] != over:
            continue
        right = _flat(right, before, len(over))
        if before in (0, len(columns)):
            turned = before == len(columns)
            matrix = f"{_flat(right, 0 if turned else 1, len(columns))}{'.mT' if turned else ''}"
            return f"{product.format(left, matrix)}{_split(right, len(columns), turned)}"
        if before == 1 and len(columns) == 2 and rows and plain:
            return f"({_one_by_one(left, right, len(rows))} else {plain})"
    return ""


def _one_by_one(left: str, right: str, rows: int) -> str:
    """Few rows times each matrix of a batch, and when they are few."""
    if rows == 1:
        return f"torch.matmul({left}, {right}).transpose(0, 1) if {left}.shape[0] <= {FEW}"
    shape = f"{left}.shape[:{rows}]"
    flat = _flat(left, 0, rows)
    return f"torch.matmul({flat}, {right}).transpose(0, 1).unflatten(0, {shape}) if {shape}.numel() <= {FEW}"


def _flat(text: str, first: int, count: int) -> str:
    """So many axes from the first one as one."""
    return text if count == 1 else f"{text}.flatten({first}, {first + count - 1})"


def _split(matrix: str, columns: int, turned: bool) -> str:
    """The columns of a product as the axes that they were."""
    if columns == 1:
        return ""
    return f".unflatten(-1, {matrix}.shape[{f':{columns}' if turned else '1:'}])"


def _points(chosen: list[tuple[str, Axes]], out: Axes, widened: bool) -> str:
    """A sum, or a product that is formed in the wide type and summed."""
    (text, axes), *others = sorted(chosen, key=lambda o: len(o[1]), reverse=True)
    if others:
        kind = ".to(wide)" if widened and set(axes) != set(out) else ""
        text = f"({' * '.join(f'{aligned(t, a, axes)}{kind}' for t, a in ((text, axes), *others))})"
    return summed(text, axes, out)


def viewed(text: str, view: tuple[Subscript, ...]) -> str:
    """A buffer with its parts cut out and its pairs split, a view."""
    cuts = [":" for _ in view]
    splits: list[str] = []
    for at, sub in reversed(list(enumerate(view))):
        if isinstance(sub, Slice):
            low, high = sized(sub.before), sized(sub.before + sub.extent)
            cuts[at] = f"{low if sub.before.terms else ''}:{high}"
            sub = sub.item
        splits += _splits(sub, at)
    while cuts and cuts[-1] == ":":
        cuts.pop()
    return text + (f"[{', '.join(cuts)}]" if cuts else "") + "".join(splits)


def _splits(sub: Subscript, at: int) -> list[str]:
    """A split of a slot in what it is a pair of, and cuts and splits of these."""
    match sub:
        case Flatten(parts, sets):
            found = [f".unflatten({at}, ({', '.join(sized(s.extent) for s in sets)}))"]
            return found + [x for n, part in reversed(list(enumerate(parts))) for x in _splits(part, at + n)]
        case Slice(item, before, extent):
            return [f".narrow({at}, {sized(before)}, {sized(extent)})", *_splits(item, at)]
    return []
