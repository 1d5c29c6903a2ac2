"""What is done more than once, round after round or for each request: a function of its
own that is called in a loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from einc.backends.host.cache_views import CacheViews, reads
from einc.backends.host.contractions import element, stored
from einc.backends.host.naming import named
from einc.backends.host.source import Part
from einc.backends.writer import Names, Writer, folded, sized
from einc.ir.indices import IndexSet, number
from einc.ir.plan import (
    LEAST_ROWS,
    PAIRS,
    Contract,
    InSlices,
    Kernel,
    Loop,
    Module,
    PerRequest,
    Recurrence,
    RowBlocks,
    StateScan,
    makes,
)


@dataclass
class Page:
    """The function being written: its lines, the names in it, the helpers it calls, whole
    axes that have a variable already."""

    module: Module
    body: Writer
    names: Names
    helpers: set[str]  # and what the statements import
    places: dict[tuple[str, IndexSet], str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    laid: CacheViews | None = None
    # what is read of the past as a whole, by the name of its object
    wholes: dict[str, str] = field(default_factory=dict)
    beside: bool = False  # whether calls of the function for all requests run side by side, if it waits for them
    waits: set[str] = field(default_factory=set)  # the helper that runs them so, where it waits

    @cached_property
    def passed(self) -> frozenset[str]:
        """Products of matrices that are made by one step and read by one."""
        steps = self.module.steps
        touched = Counter(name for step in steps for name in reads(step) | makes(step))
        return frozenset(s.out for s in steps
                         if isinstance(s, Contract) and len(s.operands) > 1 and touched[s.out] == 2)


class Dialect(Protocol):
    """What a back end adds to the function that callers see."""

    @property
    def needs(self) -> str:
        """What the file imports, for its first line."""
        ...

    @property
    def imports(self) -> tuple[str, ...]:
        """The lines of a file that import what the text of this dialect needs."""
        ...

    @property
    def runtime(self) -> tuple[Part, ...]:
        """Where its own helpers come from, in the order in which these stand in a file."""
        ...

    def types(self, module: Module) -> list[str]:
        """Statements that stand behind those that set `device` and `dtype`, where a dialect needs more of types."""
        ...

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """Writes the statements that run a kernel."""
        ...

    def contracted(self, step: Contract | InSlices, page: Page) -> bool:
        """Writes statements of its own for contractions of stored tensors; False where it has none."""
        ...

    def recurrence(self, step: Recurrence | StateScan, work: str) -> tuple[str, ...]:
        """The helper that runs a recurrence of so many operations, and its first arguments."""
        ...

    def ahead(self, kernel: Kernel, page: Page) -> str:
        """A condition, as an expression of the file, under which the kernel is called in place of a library's;
        empty for never.
        """
        ...

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        """Whether a kernel takes a buffer tile by tile along the axis, and no more of it at a time."""
        ...

    def definitions(self) -> list[str]:
        """Lines after the entry: what the statements call."""
        ...


Steps = Callable[[Page, Dialect], None]  # writes the steps of a page


def repeat(step: Loop, page: Page, dialect: Dialect, write: Steps) -> None:
    """Writes a loop that calls the body, which stands after the entry as a function of its own."""
    module, body, over = page.module, page.body, step.index.set
    name = page.names.fresh("_round")
    place = page.names.fresh(step.index.name)
    for state, first, _ in step.states:
        body(f"{state} = {stored(module, first, state)}")
    parts = {buffer: page.names.fresh(f"{buffer}_parts") for buffer, _, _ in step.kept}
    for listed in parts.values():
        body(f"{listed} = []")
    body.open(f"for {place} in range({over.start}, {sized(over.extent + number(over.start))}):")
    at = f"{place} - {over.start}" if over.start else place
    values: dict[str, str] = {}
    apart = {name for one in module.steps if isinstance(one, PerRequest) for name, _, share in one.outputs
             if share == "own"}  # each request has one of its own
    for key, buffer, axis in step.inputs:
        kept = axis is not None and module.buffers[buffer].role == "cache"
        part = (f"[one[{at}] for one in {buffer}]" if kept else f"[one.select({axis}, {at}) for one in {buffer}]"
                if buffer in apart else f"{buffer}[{at}]" if axis == 0 else f"{buffer}.select({axis}, {at})")
        values[key] = buffer if axis is None else part
    if step.counter:
        values[step.counter] = f"torch.full((), {place}, device=device)"
    new = {buffer: page.names.fresh(f"{buffer}_part") for buffer in parts}
    results = ", ".join([*(state for state, _, _ in step.states), *new.values()])
    wanted = [*(key for _, _, key in step.states), *(part for _, part, _ in step.kept)]
    tensors, sizes, _ = function(step.body, name, f"One round: {', '.join(step.writes)}.", wanted, page, dialect, write)
    given = [f"{mine}={values[key]}" for key, mine in tensors.items()]
    given += [f"{mine}={dict(step.sizes)[key]}" for key, mine in sizes.items()]
    given += ["requests=requests"] * _shared(step.body)
    body.lines += folded(f"{'    ' * body.depth}{results} = "
                         f"{name}({', '.join([*given, 'device=device', 'dtype=dtype'])})")
    for buffer, listed in parts.items():
        body(f"{listed}.append({new[buffer]})")
    body.close()
    own = {key for one in step.body.steps if isinstance(one, PerRequest) for key, share in one.made if share == "own"}
    for buffer, part, axis in step.kept:
        body(stacked(module, buffer, parts[buffer], axis, page.helpers, part in own))


def stacked(module: Module, buffer: str, parts: str, axis: int, helpers: set[str], own: bool = False) -> str:
    """The statement that lays the parts that rounds made one after the other, for each request where each has its
    `own`; adds the helper that it calls.
    """
    helpers.add("_stacked")
    shape = ", ".join(sized(s.extent) for s in module.buffers[buffer].sets)
    end = f"{axis}, [{shape}], {element(module.buffers[buffer], named=False)}, device)"
    if own:
        return f"{buffer} = [_stacked([one[n] for one in {parts}], {end} for n in range(len(requests))]"
    return f"{buffer} = _stacked({parts}, {end}"


def _shared(module: Module) -> bool:
    """Whether some of it is done for each request."""
    return any(isinstance(step, PerRequest) for step in module.steps)


def each(step: PerRequest, page: Page, dialect: Dialect, write: Steps) -> None:
    """Writes a loop over requests that calls the body, which stands after the entry as a function of its own."""
    body, fresh = page.body, page.names.fresh
    name, made, n, one, first, last = map(fresh, ("_request", "made", "n", "one", "first", "last"))
    ours = ", ".join(step.writes)
    tensors, sizes, waits = function(step.body, name, f"Of one request: {ours}.", [key for key, _ in step.made], page,
                                     dialect, write, beside=True)
    values: dict[str, str] = {}
    for key, buffer, share in step.inputs:
        cut = f"{buffer}[{':, ' * (share or 0)}{first}:{last}]" if isinstance(share, int) else ""
        values[key] = cut or (f"{buffer}[{n}]" if share == "own" else buffer)
    counts = {"new": f"{last} - {first}", "past": f"{one}.length - {one}.dropped", "dropped": f"{one}.dropped"}
    known = dict(step.sizes) | {key: counts[which] for key, which in step.own}
    given = [f"{mine}={values[key]}" for key, mine in tensors.items()]
    given += [f"{mine}={known[key]}" for key, mine in sizes.items()]
    body("# For each request, from its own positions:")
    body(f"{made} = []")
    body.open(f"for {n}, ({one}, {first}, {last}) in enumerate(requests):")
    body.lines += (
        folded(f"{'    ' * body.depth}{made}.append({name}({', '.join([*given, 'device=device', 'dtype=dtype'])}))"))
    body.close()
    if waits:
        page.helpers.add(waits)
        body(f"{made} = {waits}({made})")
    for at, (buffer, _, share) in enumerate(step.outputs):
        parts = made if len(step.made) == 1 else f"[{one}[{at}] for {one} in {made}]"
        if isinstance(share, int):
            page.helpers.add("_joined")
            parts = f"_joined({parts}, {share})"
        body(f"{buffer} = {parts}")


def in_blocks(step: RowBlocks, page: Page, dialect: Dialect, write: Steps) -> None:
    """Writes a loop over blocks of rows that calls the body, which stands after the entry as a function of its own."""
    body, fresh, rows = page.body, page.names.fresh, step.rows
    name, count, first, last, total = map(fresh, ("_rows", "count", "first", "last", "total"))
    tensors, sizes, _ = function(step.body, name, f"Of one block of rows: {', '.join(step.writes)}.",
                                 [key for key, _ in step.made], page, dialect, write)
    made = {buffer: fresh(f"{buffer}_{'share' if axis is None else 'part'}") for buffer, _, axis in step.outputs}
    parts = {buffer: fresh(f"{buffer}_parts") for buffer, _, axis in step.outputs if axis is not None}
    body(f"# Pairs are stored for one block of rows at a time: of {2**PAIRS} elements, or of {LEAST_ROWS} rows.")
    body(f"{total} = {sized(rows.over.extent)}")
    body(f"{count} = max({LEAST_ROWS}, {2**PAIRS} // max(1, {sized(rows.each)}))")
    for listed in parts.values():
        body(f"{listed} = []")
    body.open(f"for {first} in range(0, max(1, {total}), {count}):")
    body(f"{last} = min({first} + {count}, {total})")
    values = {key: buffer if axis is None else f"{buffer}[{':, ' * axis}{first}:{last}]"
              for key, buffer, axis in step.inputs}
    known = {**dict(step.sizes), rows.count: f"{last} - {first}", rows.before: first}
    given = [f"{mine}={values[key]}" for key, mine in tensors.items()]
    given += [f"{mine}={known[key]}" for key, mine in sizes.items()]
    body.lines += folded(f"{'    ' * body.depth}{', '.join(made.values())} = "
                         f"{name}({', '.join([*given, 'device=device', 'dtype=dtype'])})")
    for buffer, _, axis in step.outputs:
        body(f"{buffer} = {made[buffer]} if {first} == 0 else {buffer} + {made[buffer]}" if axis is None
             else f"{parts[buffer]}.append({made[buffer]})")
    body.close()
    for buffer, _, axis in step.outputs:
        if axis is not None:
            body(f"{buffer} = torch.cat({parts[buffer]}, {axis})")


def function(plan: Module, name: str, told: str, results: Sequence[str], page: Page, dialect: Dialect, write: Steps,
             beside: bool = False) -> tuple[dict[str, str], dict[str, str], str]:
    """Writes a module as a function of its own, beside the entry; its tensors and its sizes by what the plan calls
    them, and the helper that runs the function `beside` its likes, where it waits for them.
    """
    naming = named(plan, ("requests",) if _shared(plan) else ())
    module, body = naming.module, Writer(depth=1)
    own = Page(module, body, Names(set(naming.taken) | page.names.taken), page.helpers, beside=beside)
    inner = dict(zip((t.key for t in plan.inputs), (t.key for t in module.inputs), strict=True))
    sizes = {old: new for new, old in naming.declared.items() if old in plan.sizes}
    out = Writer(["", ""])
    given = ["*", *inner.values(), *sizes.values(), *(["requests"] if _shared(plan) else ()), "device", "dtype"]
    out.lines += folded(f"def {name}({', '.join(given)}):")
    out.lines.append(f'    """{told}"""')
    for line in dialect.types(module):
        body(line)
    write(own, dialect)
    made = dict(zip(dict(plan.outputs), (key for _, key in module.outputs), strict=True))
    body()
    body(f"return {', '.join(made[key] for key in results)}")
    page.names.taken.update(own.names.taken)
    words = set(re.findall(r"\w+", "\n".join(body.lines)))
    out.lines += [f"    {key} = {value}" for key, value in module.fixed.items() if key in words]
    page.functions += [*out.lines, *body.lines, *own.functions]
    return inner, sizes, "".join(own.waits)
