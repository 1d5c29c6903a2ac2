"""What several tests need: a text's stages, random arrays for a program, and what it is for two arrays to be equal."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy
from programs import FILES, Case

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.driver.commands.sizes import names
from einc.errors.report import Report, Source, render
from einc.ir.indices import Extent
from einc.ir.plan import Module
from einc.ir.programs import NormalProgram, Program, TypedProgram
from einc.meaning.interpret import interpret

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Function = Callable[..., Any]
Outputs = dict[str, torch.Tensor]
Tiles = tuple[int, int]

EXACT = 1e-12


def turn(case: Case, of: int) -> int:
    """A number below `of` that the name of a case fixes: which of several ways it is
    tried in, where not in all of them."""
    return crc32(case.name.encode()) % of


def each(cases: Sequence[Case], broken: Mapping[str, str], every: int = 1, slow: str = "",
         few: Collection[str] | None = None, always: str = "") -> pytest.MarkDecorator:
    """A test for each case, without `--whole` for one of `every` so many, for none that is `slow` and, where they are
    given, for the `few` alone, but for those of `always` whatever they cost; those that are known to fail are named
    with the reason, in groups: `one two`."""
    reasons = {name: reason for names, reason in broken.items() for name in names.split()}
    assert set(reasons) <= {case.name for case in cases}
    marks: dict[str, list[pytest.MarkDecorator]] = {
        c.name: [pytest.mark.xfail(strict=True, reason=reasons[c.name])] if c.name in reasons else [] for c in cases}
    for n, case in enumerate(c for c in cases if few is None or c.name in few):
        marks[case.name] += [pytest.mark.whole] if n % every or case.name in slow.split() else []
    for case in cases:
        marks[case.name] += [pytest.mark.whole] if few is not None and case.name not in few else []
        if case.name in always.split():
            marks[case.name] = [mark for mark in marks[case.name] if mark.name != "whole"] + [pytest.mark.always]
    return pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=marks[c.name]) for c in cases])


def each_in_turn(cases: Sequence[Case], name: str, ways: Mapping[str, Any], always: Sequence[str] = (),
                 few: Collection[str] | None = None) -> pytest.MarkDecorator:
    """A test for each case and way, the argument `name`. Without `--whole` a case, where `few` are given one of these,
    is tried in those of `always`, and of the others in one that its name fixes."""
    others = [way for way in ways if way not in always]

    def late(one: Case, way: str) -> bool:
        return (few is not None and one.name not in few) or (way in others and way != others[turn(one, len(others))])

    return pytest.mark.parametrize(("case", name), [
        pytest.param(c, value, id=f"{c.name}-{way}", marks=[pytest.mark.whole] * late(c, way))
        for c in cases for way, value in ways.items()])


def pairs_in_turn(names: str, *lists: Iterable[Any], every: int) -> pytest.MarkDecorator:
    """A test for each choice of a value of each list, the arguments `names`. Without `--whole` the places of its values
    add up to a multiple of `every`: of two lists each value is in one of so many pairs, and of three lists of `every`
    values each pair of values is tried."""
    found = [(sum(place for place, _ in row), [value for _, value in row]) for row in product(*map(enumerate, lists))]
    return pytest.mark.parametrize(names, [
        pytest.param(*values, marks=[pytest.mark.whole] * (at % every > 0),
                     id="-".join(str(getattr(value, "name", value)) for value in values)) for at, values in found])


def examples(few: int, many: int, *strategies: SearchStrategy[Any], **how: Any) -> Callable[[Function], Function]:
    """In place of `given` and `settings`: a test of so `few` drawn examples, and with `--whole` one of so `many`."""
    named = {name: value for name, value in how.items() if isinstance(value, SearchStrategy)}
    rest = {name: value for name, value in how.items() if name not in named}

    def of(test: Function) -> Function:
        def run(count: int) -> None:
            settings(max_examples=count, deadline=None, **rest)(given(*strategies, **named)(test))()

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        counts = [few, pytest.param(many, marks=pytest.mark.whole)]
        return pytest.mark.parametrize("count", counts)(run)

    return of


# stages


@cache
def typed(text: str, name: str = "<text>") -> TypedProgram:
    """The program of a text that has no errors."""
    report = Report()
    program = pipeline.check(Source(name, text), report)
    assert program is not None, "\n".join(map(render, report.sorted()))
    return program


@cache
def typed_of(case: Case) -> TypedProgram:
    return typed(case.text, f"specs/{case.name}.ein" if case in FILES else f"<{case.name}>")


@cache
def normal_of(case: Case) -> NormalProgram:
    return pipeline.normal(typed_of(case))


@cache
def plan_of(case: Case) -> Module:
    return front.plan(typed_of(case))


@cache
def source_of(case: Case) -> str:
    return front.emit(plan_of(case))


@cache
def module_of(case: Case, tiles: Tiles | None = None) -> Function:
    """The emitted function; with `tiles` every tiled axis is cut in pieces of so many rows and columns."""
    source = source_of(case)
    return load(cut(source, tiles) if tiles else source, plan_of(case).name)


def cut(source: str, tiles: Tiles) -> str:
    """The emitted text with the steps of its loops as given, whatever the sizes, those of its two halves and of the
    bodies of its rounds too; rounds in order have none."""
    body, *rest = source.split("\n\n\ndef _")
    made = ("round", "forward(", "backward(")
    return "\n\n\ndef _".join([_cut(body, tiles), *(_cut(x, tiles) if x.startswith(made) else x for x in rest)])


def _cut(body: str, tiles: Tiles) -> str:
    loops = re.findall(r"^ *for [\w, ]+ in (?:range\(.*,|_pieces\().*, (\w+)\):$", body, flags=re.MULTILINE)
    for step in dict.fromkeys(loops):
        length = tiles[not step.startswith("rows")]
        body, found = re.subn(rf"^( *){step} = .*$", rf"\g<1>{step} = {length}", body, flags=re.MULTILINE)
        assert found == 1, f"{step} is not set in one place"
    counted = re.findall(r"^ *for \w+ in range\(\d+, [^,]*\):$", body, flags=re.MULTILINE)
    # What is grouped has no tiles, and slices of a sum have a length of their own.
    others = re.findall(r"^ *for (?!.* in _(?:groups|slices)\()", body, flags=re.MULTILINE)
    assert len(others) == len(loops) + len(counted), "a loop without a step: see `cut`"
    return body


# data


def extent(formula: Extent, sizes: Mapping[str, int]) -> int:
    return int(formula.at(sizes))


def value(text: str, sizes: Mapping[str, int]) -> int:
    """`V-1` for the sizes."""
    name, _, less = text.partition("-")
    return (sizes[name] if name in sizes else int(name)) - int(less or 0)


def arrays(program: Program, sizes: Mapping[str, int], ranges: Mapping[str, tuple[str, str]], seed: int = 0) -> Arrays:
    """Random inputs: normal ones, and for integers numbers within the range."""
    random = np.random.default_rng(seed)
    out: Arrays = {}
    for tensor in program.inputs():
        shape = [extent(slot.set.extent, sizes) for slot in tensor.slots]
        packed = (slot.set for given in program.inputs() for slot in given.slots if slot.set.packed is not None)
        total = next((over.extent for over in packed if over.packed and over.packed.lengths == tensor.key), None)
        if total is not None:
            out[tensor.key] = lengths(shape[0], extent(total, sizes), random)
        elif tensor.integer:
            low, high = (value(end, sizes) for end in ranges[tensor.key])
            out[tensor.key] = np.asarray(random.integers(low, max(low, high) + 1, shape))
        else:
            out[tensor.key] = np.asarray(random.standard_normal(shape))
    return out


def lengths(pieces: int, total: int, random: np.random.Generator) -> Array:
    """So many lengths with the sum, some of them 0."""
    return np.diff(np.sort(random.integers(0, total + 1, pieces - 1)), prepend=0, append=total)


def tensors(given: Mapping[str, Array], dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    out = {key: torch.from_numpy(array.copy()) for key, array in given.items()}
    return {key: tensor.to(dtype) if tensor.is_floating_point() else tensor for key, tensor in out.items()}


def meaning(program: Program, given: Mapping[str, Array], sizes: Mapping[str, int]) -> Arrays:
    """The outputs by the interpreter."""
    return interpret(program, given, {name: sizes[name] for name in names(program) if name in sizes})


def called(function: Function, program: Program, given: Mapping[str, torch.Tensor],
           sizes: Mapping[str, int]) -> Outputs:
    """The outputs of an emitted function by name; it gets the sizes it asks for, and
    where it gets no numbers is in float64."""
    asks = inspect.signature(function).parameters.keys() - given.keys()
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        named = {name + "_" * keyword.iskeyword(name): n for name, n in sizes.items()}
        result = function(**given, **{name: n for name, n in named.items() if name in asks})
    finally:
        torch.set_default_dtype(usual)
    keys = (name for name, _ in program.outputs)
    return dict(zip(keys, (result,) if isinstance(result, torch.Tensor) else result, strict=True))


@cache
def inputs_at(case: Case, trial: int = 0) -> Arrays:
    """The inputs of a case at the sizes of one of its trials: the same in every test, which must not write to them."""
    return arrays(typed_of(case), case.trials()[trial], case.ranges, trial)


@cache
def wanted(case: Case, trial: int = 0) -> Arrays:
    """What the interpreter says of a case at one of its trials, worked out once for all tests of the case."""
    return meaning(typed_of(case), inputs_at(case, trial), case.trials()[trial])


# equality


def distance(got: Array, want: Array, least: float = 0.0) -> float:
    """The largest difference in units of the largest value, or of `least`; infinite where
    shapes or what is not finite differ."""
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    finite = np.isfinite(want)
    if got.shape != want.shape or not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    far = np.abs(got[finite] - want[finite]).max()
    return float("inf") if np.isnan(far) else float(far / (max(np.abs(want[finite]).max(), least) or 1))


def assert_close(got: Mapping[str, Any], want: Mapping[str, Any], bound: float = EXACT, least: float = 0.0) -> None:
    """Every output is near; the message names the worst."""
    assert set(got) == set(want)
    far = {name: distance(np.asarray(got[name]), np.asarray(want[name]), least) for name in want}
    assert max(far.values(), default=0) <= bound, far
