"""The plan of one rank of a mesh -> the text of a file that all ranks run.

The caller's function takes DTensors, or of each tensor what the rank has, and says how its results lie. What it calls
is a function of the rank's own tensors, and its gradient another one, so that nothing differentiates a collective.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from textwrap import wrap

from einc.backends.host.gradient import slopes
from einc.backends.host.inputs import check_shapes
from einc.backends.host.levels import Levels
from einc.backends.host.loops import Dialect
from einc.backends.host.module import below, head, library, result, signature
from einc.backends.host.module_class import Spread, Staged, write_class
from einc.backends.host.naming import Named, entry_name, named
from einc.backends.host.operators import Operator, Steps, operator
from einc.backends.host.pair import Apart, Pair
from einc.backends.host.segmented import SegmentWriter
from einc.backends.writer import Names, Writer, folded, identifier, sized
from einc.errors.report import EincError, Help, Problem
from einc.ir.indices import Extent, number
from einc.ir.plan import Gradient, Module, ModuleClass, PerRank, SegmentedModule
from einc.ir.plan.gradients import group_of
from einc.ir.programs import Slot, Tensor

# What a file of ranks calls, whatever it computes.
NEEDED = ("_expect", "_mesh", "_agree", "_held", "_as_dtensor", "_ranks_of", "_place", "DTensor", "DeviceMesh", "Shard",
          "Replicate")
_NAMES = ("mesh", "given", "spread", "MESH", "PLACEMENTS", "DeviceMesh", "DTensor", "Shard", "Replicate", "dist",
          "WITHIN", "stage", "schedule")


def write_per_rank(plan: PerRank, dialect: Dialect, module_class: ModuleClass | None = None) -> str:
    """The whole file; with a module class, the class that holds the weights too."""
    helpers = {*NEEDED}
    derived, body = not isinstance(plan.body, Module), Writer(depth=1)
    made = (_Plain(plan, dialect, helpers) if isinstance(plan.body, Module) else _Derived(plan, dialect, helpers)
            if isinstance(plan.body, Gradient) else Chained(plan, dialect, helpers, set(), Names(set())))
    file = File(plan, made.shown, derived, helpers)
    asked, tables = file.entry(body, made.call()), file.tables()
    weights = [] if module_class is None else file.weights(module_class, asked)
    known = library(dialect)
    needed = known.needed(helpers)
    out = Writer()
    head(made.shown, dialect, out, known.imports(needed), file.notes())
    out.lines[-1:] = [*tables, "", ""]
    signature(made.shown, out, asked, made.decorator, file.mesh)
    out.lines += [*body.lines, *weights]
    out.lines += [*made.lines, *(line for one in made.levels for line in one.functions), *dialect.definitions()]
    out.lines += below(known.texts(needed))
    out.lines += [line for one in made.levels for line in one.shapes]
    digest = hashlib.sha256(out.text.encode()).hexdigest()[:16]
    out.lines += operators(plan.name, digest, made.levels)
    out.lines += [*made.last, "", "", f'_FILE = "{digest}"']
    return out.text


def operators(name: str, digest: str, levels: Sequence[Levels]) -> list[str]:
    """The statements that make operators of torch of all levels."""
    made = [one for level in levels for one in level.made]
    if not made:
        return []
    lines = ["", "", '_library = torch.library.Library("einc", "FRAGMENT")',
             f'_name = _free("{identifier(name)}_{digest[:8]}", "{made[0].name}")']
    return [*lines, *(line for level in levels for line in level.registered)]


class _Plain:
    """One function without its gradient."""

    decorator = "@torch.no_grad()"

    def __init__(self, plan: PerRank, dialect: Dialect, helpers: set[str]) -> None:
        """Writes the function; adds the helpers that it calls to `helpers`."""
        helpers |= {"_underived", "_operator", "_free"}
        naming, taken = named(plan.forward, _NAMES), set[str]()
        level = Levels("_forward", helpers, taken)
        self.made = operator(naming, "_forward", "What a rank computes.", dialect, helpers, taken, written=level.write)
        self.levels = [level]
        self.shown = naming
        self.lines = [*self.made.lines, *self.made.functions]
        entry = entry_name(plan.name)
        self.last = ["", "", f"{entry} = _underived({entry})"]
        _checked(plan, self.made)

    def call(self) -> list[str]:
        """The statements that call it."""
        given = ", ".join(self.made.parameters)
        return folded(f"{', '.join(self.made.results)} = _forward({given})", 122)


class _Derived:
    """The two halves of a gradient, one the derivative of the other."""

    decorator = ""

    def __init__(self, plan: PerRank, dialect: Dialect, helpers: set[str]) -> None:
        """Writes both halves; adds the helpers that they call to `helpers`."""
        assert isinstance(plan.body, Gradient)
        self.levels, taken = list[Levels](), set[str]()
        self.plan, self.pair = plan.body, Pair(plan.body, "", dialect, helpers, taken, _NAMES,
                                               _apart(self.levels, helpers, taken))
        helpers |= {"_function", "_cast"}
        naming, count = self.pair.forward.naming, len(plan.body.shown)
        self.shown = replace(naming, module=replace(naming.module, outputs=naming.module.outputs[:count]),
                             outputs=naming.outputs[:count])
        self.lines = self.pair.functions()
        _checked(plan, self.pair.forward)
        self.last = _glued(self.pair, helpers)

    def call(self) -> list[str]:
        """The statements that call the first half."""
        targets = {key: inner for (_, key), (_, inner) in zip(self.plan.shown, self.shown.module.outputs, strict=True)}
        sizes = {declared: inner for inner, declared in self.shown.declared.items()}
        return self.pair.call(self.pair.forward.tensors, sizes, targets)


class Chained:
    """The pieces of a program with rounds, each with its gradient, and what is done between them."""

    decorator = ""

    def __init__(self, plan: PerRank, dialect: Dialect, helpers: set[str], taken: set[str], stems: Names) -> None:
        """Writes the halves of all pieces; adds the helpers that they call to `helpers`, and names to `taken` and
        `stems`.
        """
        assert isinstance(plan.body, SegmentedModule)
        helpers |= {"_cast"}
        self.levels, self.shown, body = list[Levels](), named(plan.body.whole, _NAMES), Writer()
        links = SegmentWriter(plan.body, self.shown, dialect, helpers, body, _apart(self.levels, helpers, taken),
                              taken, stems)
        links.write(plan.body)
        self.statements = ["", *body.lines, ""]
        self.lines = [line for pair in links.pairs for line in pair.functions()]
        for pair in links.pairs:
            _checked(plan, pair.forward)
        self.last = [line for pair in links.pairs for line in _glued(pair, helpers)]

    def call(self) -> list[str]:
        """The statements that call the pieces of the program in their order."""
        return self.statements


def _apart(levels: list[Levels], helpers: set[str], taken: set[str]) -> Apart:
    """What writes the steps of a half as calls of operators, which it notes among `levels`."""
    def apart(stem: str, checked: bool) -> Steps:
        levels.append(Levels(stem, helpers, taken, checked))
        return levels[-1].write
    return apart


def _glued(pair: Pair, helpers: set[str]) -> list[str]:
    """What makes a function with a gradient of the two halves; of one half a function without."""
    stem = pair.stem
    if pair.backward is None:
        return ["", "", f"{stem}_forward_op = torch.no_grad()({stem}_forward)"]
    helpers.add("_function")
    return [*pair.rules(), "", "", f"{stem}_backward_op = {stem}_backward",
            f"{stem}_forward_op = _function({stem}_forward, {stem}_save, {stem}_derive)"]


def _checked(plan: PerRank, made: Operator) -> None:
    """Refuses more tensors than a function may have."""
    if made.listed:
        raise EincError([Problem(f"`{plan.name}` has more tensors than a function on a mesh may have", helps=(
            Help("cut the text in several specs"),))])


class File:
    """The caller's function and the tables above it."""

    def __init__(self, plan: PerRank, shown: Named, derived: bool, helpers: set[str], axes: str = "MESH") -> None:
        """Notes how each tensor lies, by its name in the file; `axes` is what that calls the axes of the mesh."""
        self.axes = axes
        self.plan, self.shown, self.derived, self.helpers = plan, shown, derived, helpers
        module, cuts = shown.module, dict(plan.cuts)
        self.inputs = [t.key for t in module.inputs]
        self.outputs = [key for _, key in module.outputs]
        old = [*(t.key for t in plan.forward.inputs), *(key for _, key in plan.forward.outputs)]
        self.cuts = {new: tuple(None if cut is None else (cut[0], shown.inside(cut[1])) for cut in cuts[key])
                     for key, new in zip(old, [*self.inputs, *self.outputs], strict=False)}
        self.old = dict(zip([*self.inputs, *self.outputs], old, strict=False))
        self.names = {**shown.public, **dict(zip(self.outputs, shown.outputs, strict=True))}

    @property
    def mesh(self) -> str:
        """The parameter for the device mesh: `mesh`, or `device_mesh` where a tensor has that name."""
        return "device_mesh" if "mesh" in {*self.shown.public.values(), *self.shown.declared.values()} else "mesh"

    def entry(self, body: Writer, call: list[str]) -> list[str]:
        """Writes the caller's function; returns the sizes that it is given."""
        told = {self.inside(name): name for name in self.plan.told}
        checks = Writer(depth=1)
        module = self.shown.module
        naming = replace(self.shown, module=replace(module, sizes=module.sizes - told.keys()))
        asked, _ = check_shapes(naming, checks, self.helpers, [])
        if self.plan.axes:
            self._taken(body, asked)
        floats = ", ".join(t.key for t in module.inputs if not t.integer)
        if self.derived and floats:
            body.lines += folded(f"    {floats}{'' if ', ' in floats else ','} = _cast({floats})")
        for inside, name in told.items():
            group = next((axes for axes in self.plan.groups if name == group_of(axes)), ())
            axes = ", ".join(f'"{axis}"' for axis in group or (name.rpartition(".")[0],))
            body(f"{inside} = {'_ranks_of' if group else '_place'}(mesh, {axes})")
        body.lines += [*checks.lines, *(f"    {line}" for line in call)]
        if self.plan.axes:
            body("if spread:")
            for x in self.outputs:
                lies = f'PLACEMENTS["{self.names[x]}"]' if self.known(x) else self.placed(x)
                body(f"    {x} = _as_dtensor({x}, mesh, {lies})")
        body(f"return {result(module)}")
        return asked

    def _taken(self, body: Writer, asked: list[str]) -> None:
        """Writes how the mesh is found and what the rank has of each input."""
        given = [*(f'"{self.names[x]}": {x}' for x in self.inputs), *(f'"{self.shown.size(x)}": {x}' for x in asked)]
        body.lines += folded(f"    given = {{{', '.join(given)}}}", 126)
        body(f"mesh = _mesh({self.axes}, mesh, given)")
        body("_agree(mesh, _FILE, given)")
        body("spread = any(isinstance(x, DTensor) for x in given.values())")
        for x in self.inputs:
            parts = "".join(f", ({axis}, {count})" for axis, count in self.parts(x).items())
            body(f'{x} = _held("{self.names[x]}", {x}, mesh, PLACEMENTS["{self.names[x]}"]'
                 f'{parts and f", ({parts[2:]},)"})')

    def parts(self, key: str) -> dict[int, int]:
        """The axes of a tensor that are cut, each with the number of its parts, on all axes of the mesh together."""
        out = dict[int, int]()
        for cut, (_, ranks) in zip(self.cuts[key], self.plan.axes, strict=True):
            if cut is not None:
                out[cut[0]] = out.get(cut[0], 1) * ranks
        return out

    def inside(self, name: str) -> str:
        """The name that a declared size has in the emitted file."""
        return next(inner for inner, declared in self.shown.declared.items() if declared == name)

    def placed(self, key: str) -> str:
        """The placements of a tensor, as an expression of the file. Changes `self.helpers`."""
        out = []
        for cut in self.cuts[key]:
            if cut is None:
                out.append("Replicate()")
            elif cut[1] == number(1):
                out.append(f"Shard({cut[0]})")
            else:
                self.helpers.add("_StridedShard")
                out.append(f"_StridedShard({cut[0]}, split_factor={sized(cut[1])})")
        return f"({', '.join(out)}{',' * (len(out) == 1)})"

    def weights(self, module_class: ModuleClass, asked: list[str], staged: Staged | None = None) -> list[str]:
        """The class of the weights, of which a rank has its parts. EincError where one is cut as no DTensor can be.
        Changes `self.helpers`."""
        if not self.plan.axes:
            return write_class(self.shown, module_class, asked, self.derived, staged=staged)
        self.helpers.update(("_parted", "distribute_tensor"))
        module, apart, placed = self.shown.module, dict[str, tuple[int, Extent]](), dict[str, str]()
        inputs = [replace(tensor, slots=self.whole(tensor)) for tensor in module.inputs]
        for tensor in (t for t in inputs if t.role == "weight"):
            behind = [cut for cut in self.cuts[tensor.key] if cut is not None and cut[1] != number(1)]
            for at, first in behind:
                if len(behind) > 1 or tensor.slots[at].set.extent.over(first) is None:
                    said = f"`{self.names[tensor.key]}` is cut within one of its axes in a way that no DTensor can be"
                    raise EincError([Problem(f"{said}, so it is no parameter on several devices", helps=(
                        Help("declare it with an axis for each letter"),))])
                apart[tensor.key] = at, first
            at, _ = apart.get(tensor.key, (len(tensor.slots), None))
            where = ["Replicate()" if cut is None else f"Shard({cut[0] + (cut[0] > at or cut in behind)})"
                     for cut in self.cuts[tensor.key]]
            placed[tensor.key] = f"({', '.join(where)}{',' * (len(where) == 1)})"
        naming = replace(self.shown, module=replace(module, inputs=tuple(inputs)))
        spread = Spread(placed, apart, self.mesh, self.axes)
        return write_class(naming, module_class, asked, self.derived, spread, staged)

    def whole(self, tensor: Tensor) -> tuple[Slot, ...]:
        """The slots of a tensor as all ranks have it together."""
        slots = list(tensor.slots)
        for cut, (_, ranks) in zip(self.cuts[tensor.key], self.plan.axes, strict=True):
            if cut is not None:
                of = slots[cut[0]].set
                slots[cut[0]] = replace(slots[cut[0]], set=replace(of, extent=of.extent * number(ranks)))
        return tuple(slots)

    def known(self, key: str) -> bool:
        """Whether the placements of a tensor are known before a call."""
        return all(cut is None or cut[1].constant is not None for cut in self.cuts[key])

    def tables(self) -> list[str]:
        """The axes of the mesh, and how each tensor lies on it. What is cut in a composite behind a part of which the
        extent is not known lies as no table says.
        """
        axes = ", ".join(f'"{name}": {ranks}' for name, ranks in self.plan.axes)
        return [f"MESH = {{{axes}}}", "PLACEMENTS = {  # on each axis of the mesh",
                *(f'    "{name}": {lies},' for name, lies in self.lying().items()), "}"]

    def lying(self) -> dict[str, str | None]:
        """The placements of inputs and outputs by their names, where they are known before a call."""
        return {self.names[key]: self.placed(key) if self.known(key) else None for key in (*self.inputs, *self.outputs)}

    def notes(self) -> list[str]:
        """The lines of the file's docstring that say how many ranks there are and how to start them."""
        mesh = ", ".join(f"{name} = {ranks}" for name, ranks in self.plan.axes)
        count = prod(ranks for _, ranks in self.plan.axes)
        lines = ["", f"Each of {count} ranks, {mesh}, runs it: torchrun --nproc-per-node {count} PROGRAM.py. A DTensor "
                 "is taken as it lies, or moved",
                 "to where PLACEMENTS has it; a plain tensor is what the rank has, whose shape stands above:"]
        body, by = self.plan.body, dict[str, list[str]]()
        lines[1:1] = [] if isinstance(body, Module) else slopes(body)
        for key in (*self.inputs, *self.outputs):
            by.setdefault(self.said(key), []).append(self.names[key])
        return [*lines, *(line for said, names in by.items() for line in wrap(
            f"{said}: {', '.join(names)}", 116, initial_indent="  ", subsequent_indent="    "))]

    def said(self, key: str) -> str:
        """Words for how a tensor lies on the ranks: by which letter over which axis, or whole."""
        letters = self.shown.module.buffers[key].axes
        said = [f"by {letters[cut[0]]} over {axis}" for cut, (axis, _) in zip(self.cuts[key], self.plan.axes,
                                                                              strict=True) if cut is not None]
        return ", ".join(said) or "whole"
