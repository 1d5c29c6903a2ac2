"""The plans of stages -> the text of a file that all ranks run: for each kind of stage a class of its weights, which of
these a rank has, and the schedule of torch that it works in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einc.backends.host.described import told
from einc.backends.host.loops import Dialect
from einc.backends.host.module import below, library, named_tuple, signature
from einc.backends.host.module_class import Staged
from einc.backends.host.naming import Named, class_name
from einc.backends.host.per_rank import NEEDED, Chained, File, operators, write_per_rank
from einc.backends.writer import Names, Writer, folded
from einc.ir.indices import LAYER
from einc.ir.plan import ModuleClass, PerRank, Stages

ORDERS = {"GPipe": "ScheduleGPipe", "1F1B": "Schedule1F1B"}  # as torch calls them


@dataclass(frozen=True)
class _Kind:
    """A kind of stage, written: its tables, and the lines of its function, its class, and what these call."""

    shown: Named
    placed: Mapping[str, str | None]
    lines: Sequence[str]
    made: Chained


def write_ranks(plan: PerRank, dialect: Dialect, module_class: ModuleClass | None = None) -> str:
    """The whole file of what ranks do; with a module class, the class that holds the weights too."""
    return write_per_rank(plan, dialect, module_class) if plan.stages is None else write_stages(plan.stages, dialect)


def write_stages(plan: Stages, dialect: Dialect) -> str:
    """The text of the whole file of a program in stages: its head and entry, a part for each kind of stage, then the
    helpers that they need and the operators."""
    helpers = {*NEEDED, "_stage", "_of_stage", "_schedule", "partial"}
    taken, stems = set[str](), Names(set())
    kinds = [_kind(one, module_class, plan, dialect, helpers, taken, stems) for one, module_class in plan.kinds]
    known, levels = library(dialect), [level for one in kinds for level in one.made.levels]
    needed = known.needed(helpers)
    out = Writer()
    _head(plan, kinds, dialect, out, known.imports(needed))
    _entries(plan, kinds, out)
    for one in kinds:
        out.lines += ["", "", *one.lines]
    out.lines += dialect.definitions()
    out.lines += below(known.texts(needed))
    out.lines += [line for level in levels for line in level.shapes]
    digest = hashlib.sha256(out.text.encode()).hexdigest()[:16]
    out.lines += operators(plan.name, digest, levels)
    out.lines += [line for one in kinds for line in one.made.last]
    out.lines += ["", "", f'_FILE = "{digest}"']
    return out.text


def _kind(one: PerRank, module_class: ModuleClass, plan: Stages, dialect: Dialect, helpers: set[str], taken: set[str],
          stems: Names) -> _Kind:
    """One kind of stage. Changes `helpers`, `taken` and `stems`."""
    made = Chained(one, dialect, helpers, taken, stems)
    file, body, head = File(one, made.shown, True, helpers, "WITHIN"), Writer(depth=1), Writer()
    asked = file.entry(body, made.call())
    signature(made.shown, head, asked, made.decorator, file.mesh if one.axes else "")
    handed = [key for key in file.inputs if file.old[key] in plan.handed]
    handed.sort(key=lambda key: plan.handed.index(file.old[key]))
    weights = file.weights(module_class, asked, Staged(tuple(handed)))
    return _Kind(made.shown, file.lying(), [*head.lines, *body.lines, *weights, *made.lines, *(
        line for level in made.levels for line in level.functions)], made)


def _head(plan: Stages, kinds: Sequence[_Kind], dialect: Dialect, out: Writer, imports: Sequence[str]) -> None:
    """Writes what the file is, its imports, and the classes of results."""
    (first, _), *_ = plan.kinds
    source = first.forward.source.replace("\\", "/").replace('"', "'")
    axes = ((plan.axis, plan.ranks), *first.axes)
    mesh, count = ", ".join(f"{name} = {ranks}" for name, ranks in axes), 1
    for _, ranks in axes:
        count *= ranks
    out(f'"""{plan.name}: written by einc from {" ".join(source.split())}. It needs {dialect.needs}.')
    out()
    out(f"Each of {count} ranks, {mesh}, runs it: torchrun --nproc-per-node {count} PROGRAM.py. The rounds are stages "
        f"over {plan.axis}:")
    out("`stage` makes that of a rank, a class of its weights, and `schedule` the order of torch in which it works on")
    out(f"{plan.parts} parts of the data, {plan.schedule}. A stage hands on to the next what the next is given first.")
    for word, one in zip(("first", "between", "last") if len(kinds) > 2 else ("first", "last"), kinds, strict=True):
        out()
        out(f"{word}:" if word != "between" else "those between:")
        out.lines += [f"  {line}" for line in told(one.shown)]
    out('"""')
    out()
    own = [line for line in imports if line not in dialect.imports]
    own += ["from typing import NamedTuple"] if any(len(one.shown.module.outputs) > 1 for one in kinds) else []
    own += [f"from torch.distributed.pipelining import {ORDERS[plan.schedule]}"]
    out.lines += [*own, "", *dialect.imports]
    for one in kinds:
        named_tuple(one.shown, out)
    out()
    whole, inner = (", ".join(f'"{name}": {ranks}' for name, ranks in some) for some in (axes, first.axes))
    out(f"MESH = {{{whole}}}")
    out.lines += [f"WITHIN = {{{inner}}}  # the ranks of one stage", "PLACEMENTS = {  # on each axis of these"] if (
        first.axes) else []
    tables = {name: text for one in kinds for name, text in one.placed.items()}
    out.lines += [*(f'    "{name}": {text},' for name, text in tables.items()), "}"] if first.axes else []
    weights = {one.shown.public[t.key]: next((n for n, s in enumerate(t.slots) if s.set.cls == LAYER), None)
               for one in kinds for t in one.shown.module.inputs if t.role == "weight"}
    layers = ", ".join(f'"{name}": {at}' for name, at in weights.items() if at is not None)
    out.lines += folded(f"WEIGHTS = [{', '.join(repr(name) for name in weights)}]  # of all stages")
    out.lines += folded(f"LAYERS = {{{layers}}}  # where a weight has an axis of rounds")


def _entries(plan: Stages, kinds: Sequence[_Kind], out: Writer) -> None:
    """Writes the two functions that a caller uses."""
    names = [class_name(one.shown.module.name) for one in kinds]
    public: dict[str, str] = {}
    for one, (of, _) in zip(kinds, plan.kinds, strict=True):
        public |= {t.key: one.shown.public[new.key] for t, new in zip(of.forward.inputs, one.shown.module.inputs,
                                                                     strict=False)}
    along = ", ".join(f'"{public[key]}": {at}' for key, at in plan.along if key in public)
    joined = f"({', '.join(map(str, plan.joined))}{',' * (len(plan.joined) == 1)})"
    out.lines += ["", ""]
    out.open("def stage(mesh=None, *, device=None, dtype=None, **sizes):")
    out(f'"""This rank\'s stage, with new weights: `{plan.rounds[0]}` and the other sizes are those of all stages."""')
    out('mesh = _mesh(MESH, mesh, {"device": torch.empty(0, device=device)})')
    out('made = {"device": device, "dtype": dtype}')
    out("_agree(mesh, _FILE, {**sizes, **made})")
    out.lines += folded(f'    return _stage(({", ".join(names)}{"," * (len(names) == 1)}), mesh, "{plan.axis}", '
                        f'("{plan.rounds[0]}", "{plan.rounds[1]}"), "{plan.before}", sizes, made)')
    out.close()
    out.lines += ["", ""]
    out.open(f"def schedule(made, loss_fn=None, mesh=None, parts={plan.parts}):")
    out(f'"""torch\'s {ORDERS[plan.schedule]} for a rank\'s stage: every rank calls its `step` with the inputs by '
        'their names,')
    out('and with `target=` and `losses=[]` for the loss of the last stage."""')
    out("device = next(made.parameters()).device")
    out('mesh = _mesh(MESH, mesh, {"device": torch.empty(0, device=device)})')
    out('_agree(mesh, f"{_FILE} in order", {"parts": parts})')
    out.lines += folded(f'    return _schedule({ORDERS[plan.schedule]}, made, loss_fn, mesh, "{plan.axis}", parts, '
                        f"{{{along}}}, {joined})")
    out.close()
