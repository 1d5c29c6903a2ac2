"""The records of the back ends: complete, cheap to read, and true in what they say can be written."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from helpers import plan_of, typed
from programs import FILES

from einc.backends import BACK_ENDS
from einc.backends.host.code import POSITIVE, Code
from einc.backends.host.legal import Unspelled, legal
from einc.backends.host.loops import Dialect, Page
from einc.backends.host.mixed import Mixed, writes
from einc.backends.host.module import write
from einc.backends.host.scalars import scalar_map
from einc.backends.host.source import Generated, Part, defines
from einc.backends.torch.emit import Torch
from einc.driver import back_ends, front
from einc.errors.report import EincError
from einc.ir import backend as records
from einc.ir.backend import Spells, Writable
from einc.ir.elements import Kind
from einc.ir.folds import FOLDS, FoldRow
from einc.ir.plan import Dot, Kernel, Let, Map, Module, Op, Reduce, Step, leaves
from einc.ir.primitives import PRIMITIVES, Primitive

ROOT = Path(__file__).parent.parent
ALONE = ("torch", "triton")  # they write every kernel themselves, and leave none to another dialect
PARTS = {"emit": records.Emitter, "load": records.Loader, "tune": records.Tuner, "offline": records.Builder,
         "beside": records.Binder}
POINTS = "index i : feature(n)\ninput a_i\ninput b_i\noutput y_i = a_i + b_i\n"
WHOLE = "index i : feature(n)\ninput a_i : int\ninput b_i : int\noutput y_i = hash(a_i, b_i)\n"
OVER = "index i : feature(n)\ninput a_i\noutput y = max_i a_i\n"


# the records


@pytest.mark.parametrize("name", BACK_ENDS)
def test_a_record_is_complete(name: str) -> None:
    record = back_ends.record(name)
    assert record.name == name and callable(record.spells)
    assert bool(record.offline) + bool(record.beside) == bool(record.devices), "what has targets compiles for them"
    for part, protocol in PARTS.items():
        if module := getattr(record, part):
            wanted = [word for word, value in vars(protocol).items() if callable(value) and word[0] != "_"]
            assert wanted and [word for word in wanted
                               if not callable(getattr(import_module(module), word, None))] == [], module
    for target in record.devices:
        assert target.forms and target.binary <= set(target.forms)


def test_every_package_with_a_record_is_in_the_list() -> None:
    packages = [path.parent for path in (ROOT / "backends").glob("*/__init__.py")]
    assert {path.name for path in packages
            if "BACKEND = " in (path / "__init__.py").read_text("utf-8")} == set(BACK_ENDS)


def test_targets_are_unique_and_lead_to_their_back_end() -> None:
    rows = [(target.name, name) for name in BACK_ENDS for target in back_ends.record(name).devices]
    assert len({target for target, _ in rows}) == len(rows)
    assert {target: back_ends.targeted(target)[0] for target, _ in rows} == dict(rows)


def test_a_target_that_is_not_known() -> None:
    with pytest.raises(EincError, match=r"`sm_91` is no target; did you mean `sm_\d+`\?(.|\n)*the targets are .*sm_80"):
        back_ends.targeted("sm_91")


@pytest.mark.parametrize("name", BACK_ENDS)
def test_a_record_is_read_without_libraries(name: str) -> None:
    lines = f"import sys, einc.backends.{name} as one; assert one.BACKEND.name == '{name}'"
    heavy = "print([x for x in ('torch', 'triton', 'numpy', 'sympy', 'rich') if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{lines}; {heavy}"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# what they can write


@cache
def planned(text: str) -> Module:
    return front.plan(typed(text))


def with_lets(module: Module, made: list[Let]) -> Module:
    """The module of one kernel with other lets after its loads."""
    (kernel,) = module.steps
    assert isinstance(kernel, Kernel)
    loads = [let for let in kernel.lets if let.op.__class__.__name__ == "Load"]
    return replace(module, steps=(replace(kernel, lets=(*loads, *made)),))


def of_primitive(row: Primitive, kind: Kind) -> Module:
    """A program of one line: the primitive on two inputs, or on comparisons of these."""
    module = planned(WHOLE if kind == "integer" or row.whole else POINTS)
    (kernel,) = module.steps
    assert isinstance(kernel, Kernel)
    last = kernel.lets[-1]
    args = ("_0", "_1")[: row.arity or 2]
    if row.kind == "value":
        return with_lets(module, [replace(last, kind=kind, op=Map(row.name), args=args)])
    compared = [Let(name, last.axes, "truth", Map(op), ("_0", "_1")) for name, op in (("p", "le"), ("q", "lt"))]
    args = args if row.kind == "relation" else ("p", "q")[: row.arity or 2]
    truth = Let("r", last.axes, "truth", Map(row.name), args)
    return with_lets(module, [*compared, truth, replace(last, kind="real", op=Map("real"), args=("r",))])


def of_fold(row: FoldRow) -> Module:
    (kernel,) = planned(OVER).steps
    assert isinstance(kernel, Kernel)
    last, over = kernel.lets[-1], ("i",)
    assert isinstance(last.op, Reduce)
    op = Dot(over) if row.name == "sum" else replace(last.op, fold=row.name)
    return with_lets(planned(OVER), [replace(last, op=op)])


def emitted(module: Module, name: str) -> str | None:
    """The file, which Python can read; None where the back end can neither write nor
    expand what the module computes."""
    try:
        text = back_ends.emit(module, name)
    except (EincError, KeyError, Unspelled):
        return None
    ast.parse(text)
    return text


KINDS: Mapping[str, tuple[Kind, ...]] = {"value": ("real", "integer"), "relation": ("real", "integer"),
                                         "logic": ("truth",)}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("row", PRIMITIVES.values(), ids=PRIMITIVES)
def test_a_primitive_is_written_where_the_record_says_so(row: Primitive, name: str) -> None:
    spells = back_ends.record(name).spells
    for kind in KINDS[row.kind]:
        fits = ((kind == "integer") == row.exact if row.whole else kind != "integer" or row.exact
                or row.kind == "relation")
        if fits:
            written = spells(row, kind) or row.expansion is not None
            assert written == (emitted(of_primitive(row, kind), name) is not None), kind
        else:
            assert not spells(row, kind), f"{row.name} gives no {kind}"


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("row", PRIMITIVES.values(), ids=PRIMITIVES)
def test_numbers_are_written_where_the_record_says_so(row: Primitive, name: str) -> None:
    codes = [Code("2", sign=POSITIVE, finite=True), Code("3", sign=POSITIVE, finite=True)][: row.arity or 2]
    try:
        written = bool(scalar_map(row.name, codes).text)
    except EincError:
        written = False
    assert back_ends.record(name).spells(row, "scalar") == written


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("row", FOLDS.values(), ids=FOLDS)
def test_a_fold_is_written_where_the_record_says_so(row: FoldRow, name: str) -> None:
    spelled = back_ends.record(name).spells(row, "real")
    assert spelled == (not row.ordered) and (row.ordered or emitted(of_fold(row), name) is not None)


@pytest.mark.parametrize("name", ALONE)
def test_the_kernels_of_specs_are_said_to_be_written(name: str) -> None:
    """And every operation and step, which `host` and the back ends match without a rest."""
    spells = back_ends.record(name).spells
    assert all(spells(kind, "real") for kind in (*get_args(Op), *get_args(Step)))
    some = [case for case in FILES if case.name in ("moe", "rope", "sdpa", "requests_packed", "linear_cross_entropy")]
    kernels = [step for case in some for step in leaves(plan_of(case).steps) if isinstance(step, Kernel)]
    assert kernels and [kernel.name for kernel in kernels if not writes(kernel, spells)] == []


# a kernel that one back end cannot write


@dataclass
class Marked:
    """Another dialect, which says where it has written a kernel, and has no exponential."""

    torch: Torch
    needs: str = "nothing"
    imports: tuple[str, ...] = ("import toy",)
    runtime: tuple[Part, ...] = (Generated("_toy", "def _toy():\n    return 0"),)

    def types(self, module: Module) -> list[str]:
        return self.torch.types(module)

    def kernel(self, kernel: Kernel, page: Page) -> None:
        page.body("# written by the toy")
        self.torch.kernel(kernel, page)

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        return self.torch.streams(module, kernel, buffer, axis)

    def definitions(self) -> list[str]:
        return []


def without_exp(what: Writable, kind: Kind) -> bool:
    return what != PRIMITIVES["exp"] and back_ends.record("torch").spells(what, kind)


@pytest.mark.parametrize(("told", "toy"), [("exp(a_i)", 0), ("cos(a_i)", 1), ("cos(exp(a_i))", 0), ("abs(a_i)", 1)])
def test_a_kernel_that_cannot_be_written_is_written_by_the_other(told: str, toy: int) -> None:
    plan = planned(f"index i : feature(n)\ninput a_i\noutput y_i = {told}\n")
    mixed: Dialect = Mixed(Marked(Torch()), Torch(), lambda kernel: writes(kernel, without_exp))
    text = write(plan, mixed)
    assert text.count("# written by the toy") == toy
    assert "import torch\n" in text and "import toy\n" in text and "_toy" not in text
    assert text.replace("    # written by the toy\n", "").split("@torch")[1] == back_ends.emit(plan).split("@torch")[1]


def without(names: frozenset[str]) -> Spells:
    """A back end that spells what torch does, apart from some primitives."""
    torch = back_ends.record("torch").spells
    return lambda what, kind: torch(what, kind) and not (isinstance(what, Primitive) and what.name in names)


@pytest.mark.parametrize("seed", range(6))
def test_a_kernel_is_written_where_its_expansion_can_be(seed: int) -> None:
    """What is asked is what would be written: the kernel after expansion, of primitives drawn at random."""
    draw = random.Random(seed)
    called = sorted(row.name for row in PRIMITIVES.values()
                    if row.arity == 1 and "callable" in row.traits and not row.whole)
    told = "a_i"
    for name in draw.sample(called, 3):
        told = f"{name}({told})"
    (kernel,) = planned(f"index i : feature(n)\ninput a_i\noutput y_i = {told} + log1p(b_i)\ninput b_i\n").steps
    assert isinstance(kernel, Kernel)
    for _ in range(20):
        spells = without(frozenset(draw.sample(sorted(PRIMITIVES), draw.randint(0, 6))))
        try:
            made = [PRIMITIVES[let.op.op] for let in legal(kernel, spells).lets
                    if isinstance(let.op, Map) and let.op.op in PRIMITIVES]
        except Unspelled:
            made = None
        assert writes(kernel, spells) == (made is not None)
        assert all(spells(row, "truth" if row.kind == "logic" else "real") for row in made or ())
    assert writes(kernel, without(frozenset({"log1p", "erfc", "expm1", "abs",
                                             "ceil"}))), "each of them has an expansion"


def test_two_helpers_of_one_name_are_refused() -> None:
    name = next(iter(defines(Torch.runtime[0])))
    other = Marked(Torch(), runtime=(Generated(name, "another"),))
    with pytest.raises(AssertionError, match=f"two helpers have one name: {name}"):
        Mixed(Torch(), other, lambda kernel: True)
