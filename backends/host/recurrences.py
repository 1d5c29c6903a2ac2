"""States that each position scales and adds to: calls of the helpers that take many positions at once."""

from __future__ import annotations

from collections.abc import Callable

from einc.backends.host.contractions import PROMOTED, element
from einc.backends.writer import Writer, folded, lettered, sized
from einc.ir.indices import Extent
from einc.ir.plan import Module, Recurrence, StateScan

Fresh = Callable[[str], str]  # a name that is not taken
Sized = Callable[[Extent], Extent]  # an extent in the sizes of the function that is written
# The helper that runs a step of so many operations, an expression of the file, and its first arguments.
Run = Callable[[Recurrence | StateScan, str], tuple[str, ...]]


def recur(step: Recurrence | StateScan, module: Module, body: Writer, fresh: Fresh, helpers: set[str], run: Run,
          inside: Sized = lambda extent: extent) -> None:
    """Writes the step; adds the helpers that it calls."""
    for text in step.texts:
        body(f"# {text}")
    letters, sizes = lettered([name for name, _ in step.extents]), fresh("sizes")
    shown = ", ".join(f'"{letters[name]}": {sized(inside(extent))}' for name, extent in step.extents)
    body(f"{sizes} = {{{shown}}}")
    helper, *given = run(step, sized(inside(step.cost.flops)))
    helpers.add(helper)
    called = f"{helper}({''.join(f'{x}, ' for x in given)}"
    if step.ragged:
        apart = "_scans" if isinstance(step, StateScan) else "_affines"
        helpers |= {apart, *["partial"] * bool(given)}
        one = f"partial({', '.join((helper, *given))})" if given else helper
        called = f"{apart}({step.reads[-1]}, {one}, "
    if isinstance(step, StateScan):
        _scan(step, module, _Words(letters, sizes, module, body, fresh), helpers, called)
    else:
        _tiles(step, module, _Words(letters, sizes, module, body, fresh), helpers, called)


def by_torch(step: Recurrence | StateScan, work: str) -> tuple[str, ...]:
    """The names of the helpers that compute the recurrence by statements of torch, where it is no kernel."""
    del work
    return ("_scan",) if isinstance(step, StateScan) else ("_affine",)


class _Words:
    """The letters of axes and the name of their sizes in the lines that are written."""

    def __init__(self, letters: dict[str, str], sizes: str, module: Module, body: Writer, fresh: Fresh) -> None:
        self.letters, self.sizes, self.module, self.body, self.fresh = letters, sizes, module, body, fresh

    def word(self, axes: tuple[str, ...]) -> str:
        """Axes as one word."""
        return "".join(self.letters[a] for a in axes)

    def groups(self, *groups: tuple[str, ...]) -> str:
        """Groups of axes as a tuple of words."""
        words = ", ".join(f'"{self.word(group)}"' for group in groups)
        return f"({words}{',' * (len(groups) == 1)})"

    def given(self, stem: str, operand: tuple[str, tuple[str, ...]], groups: str) -> str:
        """Writes an operand with an axis for each group, whole numbers and few bits as data; returns its name."""
        name, (tensor, axes) = self.fresh(stem), operand
        element = self.module.buffers[tensor].element
        tensor += f".to({PROMOTED})" * (element.kind == "integer" or element.narrow is not None)
        self.lines(f'{name} = _arranged({tensor}, "{self.word(axes)}", {groups}, {self.sizes})')
        return name

    def lines(self, text: str) -> None:
        """Writes a statement, over several lines where it is long."""
        self.body.lines += folded("    " * self.body.depth + text)


def _tiles(step: Recurrence, module: Module, words: _Words, helpers: set[str], called: str) -> None:
    """Writes the call of `_affine`, and its results with the axes of their buffers."""
    helpers |= {"_arranged", "_apart"}
    batch, positions, met, passing = step.groups
    vector, value, state = (words.groups(*groups) for groups in ((batch, positions, met), (batch, positions, passing),
                                                                 (batch, met, passing)))
    gate, first, *rest = zip(step.reads, step.letters, strict=not step.ragged)
    each = met if set(met) & set(gate[1]) else ()
    made = [words.given("gate", gate, words.groups(batch, positions, each)), words.given("first", first, state)]
    for count, kinds in ((step.vectors.known, (("k", vector), ("v", value))),
                         (step.vectors.unknown, (("u", vector), ("w", vector), ("c", value))),
                         (len(step.vectors.after), (("q", vector),))):
        listed = []
        for n in range(count):
            listed.append([words.given(stem, x, groups) for (stem, groups), x in zip(kinds, rest, strict=False)])
            rest = rest[len(kinds):]
            if len(kinds) == 1:
                listed[-1].append(str(step.vectors.after[n]))
        made.append("[" + ", ".join(f"({', '.join(x)})" for x in listed) + "]")
    results = [words.fresh(f"{name}_made") for name in step.writes]
    found = f"({', '.join(results[:-1])}{',' * (len(results) == 2)})" if len(results) > 1 else "_"
    words.lines(f"{found}, {results[-1]} = {called}{', '.join(made)}, {step.tile})")
    for n, (name, axes) in enumerate(zip(step.writes, step.made, strict=True)):
        groups = value if n < len(step.vectors.after) else state
        words.lines(f'{name} = _apart({results[n]}, {groups}, "{words.word(axes)}", {words.sizes}).to('
                    f"{element(module.buffers[name], named=False)})")


def _scan(step: StateScan, module: Module, words: _Words, helpers: set[str], called: str) -> None:
    """Writes the call of `_scan`, and the last state."""
    helpers.add("_arranged")
    gate, first, plus = zip(step.reads, step.letters, strict=not step.ragged)
    each = [(axis,) for axis in step.axes]
    begin = words.given("first", first, words.groups(*each[1:]))
    given = [words.given(stem, x, words.groups(*each)) for stem, x in (("gate", gate), ("added", plus))]
    states = words.fresh("states")
    words.lines(f"{states} = {called}{', '.join(given)}, {begin}, {step.largest})")
    kind = {name: element(module.buffers[name], named=False) for name in step.writes}
    moved = f".movedim(0, {step.axis})" * (step.axis > 0)
    words.lines(f"{step.out} = {states}{moved}.to({kind[step.out]})")
    around = words.fresh("around")
    words.lines(f"{around} = torch.cat(({begin}[None], {states}))")
    words.lines(f"{step.writes[1]} = {around}[-1].to({kind[step.writes[1]]})")
    for before in step.writes[2:]:
        words.lines(f"{before} = {around}[:-1].to({kind[before]})")
