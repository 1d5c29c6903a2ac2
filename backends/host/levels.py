"""What lies between two collectives as one operator of torch: a function that is traced sees the operators and, between
them, the collectives, which may go on beside other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from einc.backends.host.cache_views import reads
from einc.backends.host.contractions import element
from einc.backends.host.hops import hops
from einc.backends.host.loops import Dialect, Page, repeat
from einc.backends.host.module import step as write_step
from einc.backends.host.moves import move as write_move
from einc.backends.host.naming import named, rows_counted
from einc.backends.host.operators import LIST, Operator, operator, registered
from einc.backends.host.wanted import Asked
from einc.backends.writer import folded, sized
from einc.ir.elements import REAL
from einc.ir.indices import Extent
from einc.ir.plan import Buffer, Hops, Kernel, Loop, Module, Move, RowBlocks, Step, makes, within
from einc.ir.programs import Slot, Tensor


@dataclass
class Levels:
    """Writes the steps of a page, and keeps the operators that it makes for that. `stem` begins their names; what
    elements hold has been `checked` in the second half of a gradient.
    """

    stem: str
    helpers: set[str]
    taken: set[str]
    checked: bool = False
    made: list[Operator] = field(default_factory=list)

    def write(self, page: Page, dialect: Dialect, asked: Asked | None = None) -> None:
        """Writes the calls of the operators of a page, and its moves. `asked` are the results that may be left out."""
        module, unchecked = page.module, set() if self.checked else {key for key, _ in page.module.keys}
        bits = asked.bits if asked is not None else (0,) * len(module.steps)
        for first, some_steps in _grouped(module.steps):
            page.body()
            here = bits[first : first + len(some_steps)]
            (one, *_) = some_steps
            if isinstance(one, Hops | Move):
                self.move(one, here[0], page, dialect, asked)
            elif _moves(one):
                assert isinstance(one, Loop)
                repeat(one, page, dialect, self.write)
            else:
                level = _level(module, first, some_steps, len(self.made), unchecked)
                unchecked -= {key for key, _ in level.keys}
                self.call(level, page, dialect, replace(asked, bits=tuple(here)) if asked is not None else None)

    def move(self, one: Hops | Move, some: int, page: Page, dialect: Dialect, asked: Asked | None) -> None:
        """Writes a move, or hops, under a condition where not every result is for it. Tensors in one message that are
        for different results have a condition each."""
        needed = {key: asked.needed.get(key, 0) or asked.every for key in one.writes} if asked is not None else {}
        if isinstance(one, Move) and len({*needed.values()}) > 1:
            assert asked is not None
            write_move(one, page.module, page.body, page.helpers, {
                key: (f"wanted & {bits}", _nothing(page.module.buffers[key]))
                for key, bits in needed.items() if bits != asked.every})
            return
        apart = asked is not None and some not in (0, asked.every)
        if asked is not None and apart:
            for key in one.writes:
                page.body(f"{key} = {_nothing(page.module.buffers[key])}")
            page.body.open(f"if wanted & {some}:  # {', '.join(asked.of(some))}")
        if isinstance(one, Hops):
            hops(one, page, dialect, self.write)
        else:
            write_step(one, page, dialect)
        if apart:
            page.body.close()

    def call(self, level: Module, page: Page, dialect: Dialect, asked: Asked | None) -> None:
        """Writes the call of one level into the page, and adds the operator that it calls to `self.made`. A result of
        which a level makes a part alone is nothing where that part is not wanted."""
        naming = named(level, {LIST, "wanted"})
        told = f"{', '.join(key for _, key in level.outputs)}."
        made = operator(naming, f"{self.stem}_{len(self.made)}", told, dialect, self.helpers, self.taken,
                        asked=asked)
        self.made.append(made)
        inner = dict(zip((key for _, key in naming.module.outputs), (key for _, key in level.outputs), strict=True))
        sizes = [naming.declared[x] for x in made.given] + ["wanted"] * bool(made.chosen)
        called = made.called([t.key for t in level.inputs], sizes)
        indent = "    " * page.body.depth
        page.body.lines += folded(f"{indent}{', '.join(inner[key] for key in made.results)} = {called}")
        shown = {key for _, key in page.module.outputs}
        for key, some in zip(made.results, made.chosen, strict=False):
            if some != made.every and (name := inner[key]) not in shown:
                page.body(f"{name} = {name} if wanted & {some} else {_nothing(page.module.buffers[name])}")

    @property
    def functions(self) -> list[str]:
        """The lines of the functions of the operators."""
        return [line for one in self.made for line in (*one.lines, *one.functions)]

    @property
    def shapes(self) -> list[str]:
        """The lines of what torch knows of their results."""
        return [line for one in self.made for line in one.shapes()]

    @property
    def registered(self) -> list[str]:
        """The statements that make operators of the functions."""
        return [line for one in self.made for line in registered(one, one.name, [])]


def _nothing(buffer: Buffer) -> str:
    """What stands for a tensor that is not computed: it has the shape, of which levels may read sizes, and no memory.
    """
    shape = ", ".join(sized(s.extent) for s in buffer.sets)
    kind = element(buffer, named=False)
    return f"torch.empty((), dtype={kind}, device=device)" + (f".expand({shape})" if shape else "")


def _moves(step: Step) -> bool:
    """Whether a step is a collective, or has one in its rounds."""
    return isinstance(step, Hops | Move) or (isinstance(step, Loop) and any(map(_moves, step.body.steps)))


def _grouped(steps: Sequence[Step]) -> Iterator[tuple[int, list[Step]]]:
    """Each collective, and rounds with one, by itself, and what stands between two; with the number of its first step.
    """
    group: list[Step] = []
    for n, one in enumerate(steps):
        if _moves(one):
            if group:
                yield n - len(group), group
            yield n, [one]
            group = []
        else:
            group.append(one)
    if group:
        yield len(steps) - len(group), group


def _level(whole: Module, first: int, steps: Sequence[Step], number: int, unchecked: Iterable[str]) -> Module:
    """Some steps of a module as one of their own: what they read and do not make is its input, what others read of them
    its output.
    """
    made = frozenset[str]().union(*map(makes, steps))
    needed = list(dict.fromkeys(key for one in steps for key in _needed(one) if key not in made))
    given = {t.key: t for t in whole.inputs}
    inputs = [given.get(key) or _tensor(whole.buffers[key]) for key in needed]
    if all(t.element != REAL for t in inputs):  # one that tells the type of the data
        real = [t for t in whole.inputs if t.element == REAL] or list(whole.inputs)
        inputs += [t for t in real[:1] if t.key not in needed]
    later = {key for one in whole.steps[first + len(steps):] for key in _needed(one)}
    later |= {key for _, key in whole.outputs}
    outputs = tuple((key, key) for key in dict.fromkeys(key for one in steps for key in _made(one)) if key in later)
    buffers = {key: b for key, b in whole.buffers.items() if key in made or key in {t.key for t in inputs}}
    sizes = _sizes((tuple(steps), buffers))
    keys = tuple((key, of) for key, of in whole.keys if key in needed and key in unchecked)
    sets = tuple(one for one in whole.sets if one.extent.sizes <= sizes)
    return replace(whole, name=f"{whole.name}_{number}", inputs=tuple(inputs), outputs=outputs, buffers=buffers,
                   steps=tuple(steps), sizes=(whole.sizes | rows_counted(whole)) & sizes, sets=sets, keys=keys)


def _made(step: Step) -> list[str]:
    """The buffers that a step makes, in a fixed order."""
    return [*step.writes, *sorted(makes(step) - {*step.writes})]


def _needed(step: Step) -> list[str]:
    """The buffers that have to be there before a step, in a fixed order."""
    searched = {key for one in within((step,)) if isinstance(one, Kernel) for key in one.searched}
    found = reads(step) | searched
    if isinstance(step, Loop):
        found = (found - {*step.writes}) | {*step.reads[len(step.given):]}
    return [*(key for key in dict.fromkeys(step.reads) if key in found), *sorted(found - {*step.reads})]


def _tensor(buffer: Buffer) -> Tensor:
    """A buffer as an input."""
    slots = tuple(Slot(of, "label", name) for name, of in zip(buffer.axes, buffer.sets, strict=True))
    return Tensor(buffer.name, buffer.name, slots, "input", buffer.element)


def _sizes(value: Any) -> frozenset[str]:
    """The sizes that a value of a plan names."""
    match value:
        case Extent():
            return frozenset(value.sizes)
        case Hops():
            return _sizes(value.around) - {value.around.part} | {name for _, name in value.sizes}
        case Loop():
            return _sizes(value.index) | {name for _, name in value.sizes}
        case RowBlocks():
            return _sizes(value.rows) | {name for _, name in value.sizes}
        case Mapping():
            return _sizes(tuple(value.values()))
        case tuple():
            return frozenset[str]().union(*map(_sizes, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _sizes(tuple(getattr(value, one.name) for one in fields(value) if one.name != "cost"))
    return frozenset()
