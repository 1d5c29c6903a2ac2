"""Modules by their former names: an import of one gives the module that it is now, with a warning that names it.

Where a function of the package has the former name of a module, an import of the module
is an error that names the new one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import einc

# Names below `einc.`: those of version 0.1.0, and where each module stands now.
MOVED = {
    "problems": "errors.problems",
    "indices": "ir.indices",
    "primitives": "ir.primitives",
    "folds": "ir.folds",
    "mixing": "ir.mixing",
    "terms": "ir.terms",
    "domains": "ir.domains",
    "plan": "ir.plan",
    "choices": "ir.choices",
    "rounds": "ir.rounds",
    "claimed": "ir.claimed",
    "spelling": "syntax.spelling",
    "tokens": "syntax.tokens",
    "lines": "syntax.lines",
    "texts": "syntax.texts",
    "parse": "syntax.parse",
    "plans": "checking.plans",
    "printing": "syntax.printing",
    "printing.hanging": "syntax.printing.hanging",
    "printing.layout": "syntax.printing.layout",
    "printing.names": "syntax.printing.names",
    "printing.page": "syntax.printing.page",
    "printing.quotients": "syntax.printing.quotients",
    "printing.writer": "syntax.printing.writer",
    "show": "syntax.printing.show",
    "tex": "syntax.printing.tex",
    "unpacking": "syntax.printing.unpacking",
    "declarations": "syntax.printing.declarations",
    "checker": "checking.checker",
    "mending": "checking.fixits",
    "checking.names": "checking.declarations.names",
    "checking.scripts": "checking.declarations.scripts",
    "checking.scope": "checking.declarations.scope",
    "checking.sets": "checking.declarations.sets",
    "checking.slots": "checking.declarations.slots",
    "checking.declare": "checking.declarations.declare",
    "checking.signatures": "checking.declarations.signatures",
    "checking.ragged": "checking.declarations.ragged",
    "checking.misses": "checking.expressions.misses",
    "checking.values": "checking.expressions.values",
    "checking.rules": "checking.expressions.rules",
    "checking.tensors": "checking.expressions.tensors",
    "checking.predicates": "checking.expressions.predicates",
    "checking.calls": "checking.expressions.calls",
    "checking.ordering": "checking.expressions.ordering",
    "checking.chances": "checking.expressions.chances",
    "checking.inferred": "checking.expressions.inferred",
    "checking.members": "checking.expressions.members",
    "checking.splice": "checking.expressions.splice",
    "checking.spec_calls": "checking.expressions.spec_calls",
    "checking.loops": "checking.expressions.loops",
    "checking.collect": "checking.expressions.collect",
    "checking.elaborate": "checking.programs.elaborate",
    "checking.recurs": "checking.programs.recurs",
    "checking.layers": "checking.programs.layers",
    "checking.assemble": "checking.programs.assemble",
    "checking.audit": "checking.programs.audit",
    "checking.emptiness": "checking.programs.emptiness",
    "checking.lints": "checking.programs.lints",
    "checking.packing": "checking.programs.packing",
    "checking.claims": "checking.programs.claims",
    "rewrites.rule": "transforms.laws.rule",
    "rewrites.algebra": "transforms.laws.algebra",
    "rewrites.exponentials": "transforms.laws.exponentials",
    "rewrites.gates": "transforms.laws.deltas",
    "rewrites.linear": "transforms.laws.linear",
    "rewrites": "transforms.laws",
    "simplify": "transforms.laws.simplify",
    "finishing": "transforms.laws.empty_folds",
    "normalise": "transforms.normal.normalise",
    "chosen": "transforms.normal.topk_pushdown",
    "gating": "transforms.normal.delta_elimination",
    "operands": "transforms.normal.operands",
    "repeats": "transforms.slicing.repeats",
    "requests": "transforms.slicing.requests",
    "gradients": "transforms.gradients",
    "gradients.backward": "transforms.gradients.backward",
    "gradients.degrees": "transforms.gradients.homogeneity",
    "gradients.gathering": "transforms.gradients.gathering",
    "gradients.keeping": "transforms.gradients.rematerialise",
    "gradients.means": "transforms.gradients.centred_sums",
    "gradients.pieces": "transforms.gradients.pieces",
    "gradients.places": "transforms.gradients.indexing",
    "gradients.scales": "transforms.gradients.scales",
    "gradients.slopes": "transforms.gradients.slopes",
    "gradients.sweep": "transforms.gradients.reverse_pass",
    "serving": "transforms.serving",
    "serving.facts": "transforms.serving.interface",
    "serving.kept": "transforms.serving.cached",
    "serving.middle": "transforms.serving.core",
    "serving.parts": "transforms.serving.parts",
    "serving.reach": "transforms.serving.lookback",
    "serving.settled": "transforms.serving.append_stable",
    "serving.step": "transforms.serving.step",
    "blocks": "meaning.blocks",
    "interpret": "meaning.interpret",
    "sizes": "meaning.sizes",
    "forms": "meaning.polynomials",
    "forming": "meaning.polynomial_form",
    "conditions": "meaning.conditions",
    "labels": "meaning.labels",
    "leftover": "meaning.leftover",
    "assumptions": "meaning.assumptions",
    "unfolding": "meaning.unfolding",
    "counterexamples": "meaning.counterexamples",
    "prove": "meaning.prove",
    "proof": "meaning.proof",
    "planning.signs": "planning.analysis.signs",
    "planning.fills": "planning.analysis.fills",
    "planning.wholes": "planning.analysis.wholes",
    "planning.ends": "planning.analysis.ends",
    "planning.ranges": "planning.analysis.ranges",
    "planning.cost": "planning.analysis.cost",
    "planning.prefix": "planning.analysis.prefix",
    "planning.tallies": "planning.analysis.scatters",
    "planning.indicators": "planning.analysis.indicators",
    "planning.storage": "planning.analysis.storage",
    "planning.networks": "planning.contractions.networks",
    "planning.orders": "planning.contractions.orders",
    "planning.order": "planning.contractions.order",
    "planning.associate": "planning.contractions.associate",
    "planning.contract": "planning.contractions.contract",
    "planning.grouped": "planning.contractions.grouped",
    "planning.segments": "planning.contractions.segments",
    "planning.choose": "planning.contractions.choose",
    "planning.virtual": "planning.contractions.materialise",
    "planning.nested": "planning.contractions.nested",
    "planning.passes": "planning.streaming.passes",
    "planning.separate": "planning.streaming.separate",
    "planning.basis": "planning.streaming.carried_folds",
    "planning.moments": "planning.streaming.moments",
    "planning.stream": "planning.streaming.stream",
    "planning.chunks": "planning.streaming.chunks",
    "planning.shares": "planning.streaming.partials",
    "planning.base_two": "planning.streaming.exp2",
    "planning.fuse": "planning.fusing.fuse",
    "planning.split": "planning.fusing.split",
    "planning.rows": "planning.fusing.rows",
    "planning.onepass": "planning.fusing.onepass",
    "planning.runs": "planning.fusing.grouped_axes",
    "planning.lower": "planning.fusing.lower",
    "planning.scans": "planning.fusing.scans",
    "planning.renaming": "ir.plan",
    "planning.loose": "planning.fusing.reduced_precision",
    "planning.library": "planning.fusing.library",
    "front": "driver.front",
    "pipeline": "driver.pipeline",
    "hook": "driver.hook",
    "cli": "driver.cli",
    "accounts": "driver.reports.coverage",
    "planning.screen": "driver.reports.screen",
    "planning.table": "driver.reports.table",
    "planning.recurrence": "driver.reports.recurrence",
    "planning.written": "driver.reports.written",
    "generate": "driver.decoding.generate",
    "engine": "driver.decoding.engine",
    "taking": "driver.decoding.sampling",
    "vocabulary": "driver.decoding.vocabulary",
    "weights": "driver.decoding.weights",
    "commands": "driver.commands",
    "commands.binaries": "driver.commands.binaries",
    "commands.cache": "driver.commands.cache",
    "commands.check": "driver.commands.check",
    "commands.common": "driver.commands.common",
    "commands.compile": "driver.commands.compile",
    "commands.configs": "driver.commands.configs",
    "commands.data": "driver.commands.data",
    "commands.derive": "driver.commands.derive",
    "commands.doc": "driver.commands.doc",
    "commands.error_index": "driver.commands.error_index",
    "commands.explain": "driver.commands.explain",
    "commands.fmt": "driver.commands.fmt",
    "commands.generate": "driver.commands.generate",
    "commands.kinds": "driver.commands.kinds",
    "commands.measure": "driver.commands.measure",
    "commands.papers": "driver.commands.papers",
    "commands.prompts": "driver.commands.prompts",
    "commands.prove": "driver.commands.prove",
    "commands.run": "driver.commands.run",
    "commands.show": "driver.commands.show",
    "commands.sizes": "driver.commands.sizes",
    "commands.tex": "driver.commands.tex",
    "commands.tune": "driver.commands.tune",
    "integrations": "driver.integrations",
    "integrations.transformers": "driver.integrations.transformers",
    "planning.apart": "planning.per_request",
    "planning.shell": "planning.module_class",
    "documents.account": "documents.coverage",
    "backends.host.chosen": "backends.host.topk",
    "backends.host.laid": "backends.host.cache_views",
    "backends.host.shell": "backends.host.module_class",
    "backends.host.chained": "backends.host.segmented",
    "backends.triton.room": "backends.triton.resources",
    "backends.triton.frame": "backends.triton.prologue",
    "backends.triton.passes": "backends.triton.loops",
    "backends.triton.stages": "backends.triton.phases",
    "backends.triton.tallies": "backends.triton.scatters",
    "backends.torch.tallies": "backends.torch.scatters",
}

# Names that such modules had, by the present name of the module, and where each stands now.
CLASSES = {
    "ir.indices": {"PLACES": "ir.indices.SEQUENCE", "OPEN": "ir.indices.DATA", "WIDTHS": "ir.indices.WIDTH"},
    "checking.declarations.ragged": {"settled": "checking.declarations.ragged.check_requests"},
    "meaning.conditions": {"settled": "meaning.conditions.normal_condition"},
    "planning.module_class": {"shell": "planning.module_class.class_of"},
    "transforms.serving.append_stable": {
        "Settled": "transforms.serving.append_stable.AppendStability",
        "settled": "transforms.serving.append_stable.append_stability",
    },
    "ir.plan": {
        "Along": "ir.plan.AxisRef", "Packed": "ir.plan.Flatten", "Within": "ir.plan.Slice",
        "Computed": "ir.plan.Gather",
        "Place": "ir.plan.Iota", "Span": "ir.plan.Interval", "Tally": "ir.plan.ScatterAdd",
        "Before": "ir.plan.PreviousCarry",
        "Shell": "ir.plan.ModuleClass", "Turns": "ir.plan.GradientLoop", "Chain": "ir.plan.SegmentedModule",
        "Runs": "ir.plan.BroadcastView", "Pick": "ir.plan.TopK", "Grouped": "ir.plan.GroupedMatmul",
        "Segment": "ir.plan.SegmentSum", "Repeat": "ir.plan.Loop", "Each": "ir.plan.PerRequest",
    },
    "ir.terms": {
        **{name: f"ir.programs.{name}"
           for name in ("Slot", "Tensor", "Equation", "Program", "TypedProgram", "NormalProgram")},
        "slot_of": "ir.programs.slot_of", "Recur": "ir.programs.BlockLoop", "Repeat": "ir.programs.IndexLoop",
    },
    "planning.fusing.fuse": {"Group": "planning.fusing.fuse.FusedGroup"},
    "planning.streaming.passes": {"Carry": "planning.streaming.passes.CarriedFold",
                                  "Chunks": "planning.streaming.passes.ChunkedScan"},
    "planning.streaming.partials": {"Shares": "planning.streaming.partials.PartialReductions"},
    "planning.streaming.moments": {"Moving": "planning.streaming.moments.RunningMoments"},
    "planning.fusing.grouped_axes": {"Run": "planning.fusing.grouped_axes.GroupedAxis"},
    "checking.declarations.scope": {"Account": "checking.declarations.scope.Outcomes"},
    "driver.decoding.engine": {"Text": "driver.decoding.engine.Request"},
    "ir.rounds": {"Turns": "ir.rounds.OrderedLoop"},
    "ir.choices": {"Row": "ir.choices.LibraryKernel"},
    "transforms.gradients.reverse_pass": {"Sweep": "transforms.gradients.reverse_pass.ReversePass"},
    "driver.decoding.sampling": {"Taking": "driver.decoding.sampling.Sampler"},
}


class _Alias(Loader):
    """Loads a module under a second name. The module keeps its own name and its own specification."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        former = CLASSES.get(module.__name__.removeprefix("einc."))
        if former is not None:
            module.__dict__.setdefault("__getattr__", partial(_class, module.__name__, former))


def _class(module: str, former: Mapping[str, str], name: str) -> Any:
    """The class that had this name in a module. Warns with the new name; raises AttributeError where none had it."""
    now = former.get(name)
    if now is None:
        raise AttributeError(f"module `{module}` has no attribute `{name}`")
    warnings.warn(f"`{name}` of `{module}` is now `einc.{now}`", DeprecationWarning, stacklevel=2)
    place, _, new = now.rpartition(".")
    return getattr(import_module(f"einc.{place}"), new)


def find(name: str) -> ModuleSpec | None:
    """The specification of the module that had this name; None where no module had it. Warns with the new name. Raises
    ModuleNotFoundError."""
    now = MOVED.get(name.removeprefix("einc."))
    if now is None:
        return None
    if "." not in name.removeprefix("einc.") and name.removeprefix("einc.") in einc.__all__:
        raise ModuleNotFoundError(f"the module `{name}` is now `einc.{now}`; `{name}` is a function", name=name)
    warnings.warn(f"the module `{name}` is now `einc.{now}`", DeprecationWarning, stacklevel=2)
    return ModuleSpec(name, _Alias(import_module(f"einc.{now}")))
