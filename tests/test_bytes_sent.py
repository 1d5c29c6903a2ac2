"""What emitted files send on a group of 1,024 ranks of which one is there, against formulas of the plan, to the byte.

The group is torch's fake one: every collective returns at once, so what is sent is counted, and no number is right.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from helpers import arrays, extent, typed_of
from placing_cases import BY_NAME, CUT, axes, cases, programs
from programs import Case

from bench.collectives import Counting, fake
from einc.driver import back_ends, pipeline
from einc.driver.commands.sizes import names
from einc.ir.choices import PLAIN
from einc.planning.placing import Axis, Placed, traffic
from einc.planning.placing.modules import per_rank, per_rank_gradient
from einc.planning.placing.states import cut_slots

MANY = 1024
ALWAYS = ("sdpa", "linear_cross_entropy", "swiglu")
MESHES = {"one": ("gpt2_block", {"p": 16, "q": 8, "r": 8}, {"p": "n", "q": "t", "r": "he"}),
          "other": ("swiglu_block", {"p": 4, "q": 256}, {"p": "t", "q": "hge"})}


def sizes_of(case: Case, mesh: tuple[Axis, ...]) -> dict[str, int] | None:
    """Sizes that the ranks divide: what is cut has an element for each rank; None where there are none."""
    fixed = typed_of(case).sizes
    sizes = {**case.sizes, **fixed}
    for axis in mesh:
        for one in axis.sets:
            if not one.extent.sizes or one.extent.sizes & fixed.keys() or not one.extent.sizes <= sizes.keys():
                return None
            name = min(one.extent.sizes)
            sizes[name] = axis.ranks * max(1, sizes[name] // axis.ranks)
            if one.extent.at(sizes) % axis.ranks:
                return None
    return sizes


def loaded(source: str, folder: Path) -> ModuleType:
    """An emitted file, imported."""
    path = folder / "emitted.py"
    path.write_text(source, encoding="utf-8")
    spec = spec_from_file_location("emitted", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.pop("emitted", None)
    spec.loader.exec_module(module)
    return module


def wire(placed: Placed, sizes: Mapping[str, int]) -> int:
    """The bytes that a rank sends by the plan, the data in float64."""
    return round(sum(one.wire.at(sizes) * one.move.element.size(8) for one in traffic.sent(placed, sizes)))


def sent(case: Case, mesh: tuple[Axis, ...], sizes: Mapping[str, int], folder: Path, grad: bool) -> list[int]:
    """The bytes that the first rank sends forward and, with `grad`, for the gradient; beside each what the plan says.
    """
    program = typed_of(case)
    known = {name: n for name, n in sizes.items() if name in names(program)}
    if grad:
        plan, one, two = per_rank_gradient(program, mesh, known, PLAIN)
    else:
        (plan, one), two = per_rank(pipeline.normal(program), mesh, known, PLAIN), None
    module = loaded(back_ends.emit(plan), folder)
    given: dict[str, Any] = {}
    for key, x in arrays(program, sizes, case.ranges).items():
        slots = cut_slots(program.tensors[key].slots, one.states(key), mesh)
        mine = torch.from_numpy(np.array(x[tuple(slice(extent(s.set.extent, sizes)) for s in slots)]))
        given[key] = mine.requires_grad_(grad and mine.is_floating_point())
    function = getattr(module, program.name)
    asked = {name: sizes[name.removesuffix("_size")] for name in signature(function).parameters
             if name not in (*given, "mesh")}
    with fake(**{axis.name: axis.ranks for axis in mesh}), Counting() as counting:
        made = function(**given, **asked)
        out = [round(counting.sent.bytes), wire(one, {**program.sizes, **sizes})]
        if two is not None:
            counting.sent.bytes = 0
            results = [x for x in (made if isinstance(made, tuple) else (made,)) if x.requires_grad]
            torch.autograd.backward(results, [torch.ones_like(x) for x in results])
            out += [round(counting.sent.bytes), wire(two, {**program.sizes, **sizes})]
    return out


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=() if case.name in ALWAYS else
                                               pytest.mark.whole) for case in CUT])
def test_every_spec_sends_what_its_plan_says(case: Case, tmp_path: Path) -> None:
    """Of 1,024 ranks, by a letter that the name of the spec draws among those that can be cut in so many parts."""
    grad = programs(case)[1] is not None
    some = [(Axis("p", MANY, (one,)),) for one in cases(case, False)]
    fit = [(mesh, sizes) for mesh in some if (sizes := sizes_of(case, mesh)) is not None]
    if not fit:
        pytest.skip("no extent of it is a size")
    mesh, sizes = Random(case.name).choice(fit)
    found = sent(case, mesh, sizes, tmp_path, grad)
    assert found[::2] == found[1::2]


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "one" else pytest.mark.whole)
                                  for name in MESHES])
def test_a_mesh_of_several_axes_sends_what_its_plan_says(name: str, tmp_path: Path) -> None:
    spec, ranks, cut = MESHES[name]
    case = BY_NAME[spec]
    mesh = axes(typed_of(case), ranks, cut)
    sizes = sizes_of(case, mesh)
    assert sizes is not None
    found = sent(case, mesh, sizes, tmp_path, True)
    assert found[::2] == found[1::2] and min(found) > 0
