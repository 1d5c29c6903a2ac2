"""The modules whose source stands in emitted files: each definition with what it needs, and what each of them does."""

from __future__ import annotations

import ast
import builtins
import dis
import importlib.util
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

import einc
from einc.backends.host.module import library
from einc.backends.host.runtime import checks, folding, groups, operators, values
from einc.backends.host.runtime.cache import Cache
from einc.backends.host.runtime.exhausted import Exhausted
from einc.backends.host.runtime.pool import Pool
from einc.backends.host.runtime.requests import _cuts, _joined, _only, _requests, _Turned
from einc.backends.host.source import Definition, Generated, Library, Source, defines, definition, outline
from einc.backends.torch import emit as torch_emit
from einc.backends.torch.runtime import chance, folds, powers
from einc.backends.triton import emit as triton_emit
from einc.backends.triton.runtime import launch, tiles
from tests.triton_modes import interpreted

DIALECTS = {"torch": torch_emit.Torch(), "triton": triton_emit._Triton()}
LIBRARIES = {name: library(dialect) for name, dialect in DIALECTS.items()}
CLASS_BODY = {"__name__", "__module__", "__qualname__"}  # what Python itself reads in the body of a class
LATER = {"_operator": {"_library"}}  # what a file makes only after its functions: who reads it


def defined(known: Library) -> dict[str, Definition]:
    return {name: definition(part, name) for part in known.parts for name in defines(part)}


def modules(backend: str) -> list[Source]:
    return [part for part in LIBRARIES[backend].parts if isinstance(part, Source)]


def text(backend: str, names: frozenset[str]) -> str:
    """A file of some definitions."""
    known, dialect = LIBRARIES[backend], DIALECTS[backend]
    imports = [*known.imports(names), *dialect.imports]
    return "\n\n\n".join(["\n".join(dict.fromkeys(imports)), *known.texts(names)]) + "\n"


def module(path: Path, source: str) -> ModuleType:
    """The source as a module with a file, which Triton reads its functions in."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def global_reads(code: CodeType) -> Iterator[str]:
    """The names that compiled code loads from its globals, those of the functions in it among them."""
    yield from (str(one.argval) for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from global_reads(inner)


# what a definition needs


@pytest.mark.parametrize("backend", LIBRARIES)
def test_names_are_defined_once(backend: str) -> None:
    found = [name for part in LIBRARIES[backend].parts for name in defines(part)]
    assert sorted(found) == sorted(set(found)) and len(found) > 40


@pytest.mark.parametrize("backend", LIBRARIES)
def test_each_stands_alone(backend: str, tmp_path: Path) -> None:
    """With what it needs, each definition parses and runs, and has no undefined name and
    no import that nothing reads."""
    known = LIBRARIES[backend]
    for name in defined(known):
        source = text(backend, known.needed([name]))
        made = module(tmp_path / f"alone{name}.py", source)
        assert hasattr(made, name)
        always = [line.split()[-1] for line in DIALECTS[backend].imports]
        (tmp_path / f"alone{name}.py").write_text(f"{source}\n__all__ = {always}\n", encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F", "--output-format", "concise"]
    found = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False).stdout.splitlines()
    assert [line for line in found[:-1] if "F821 Undefined name `_library`" not in line] == []
    assert found


@pytest.mark.parametrize("backend", LIBRARIES)
def test_exactly_what_is_needed_is_taken(backend: str) -> None:
    """By the names that the compiled code loads, another way to find them than the one by which they are taken."""
    known = LIBRARIES[backend]
    mine, loads = defined(known), dict[str, set[str]]()
    for name, one in mine.items():
        loads[name] = set(global_reads(compile(one.text, name, "exec", dont_inherit=True)))
    imported = {name for source in modules(backend) for name in outline(source).imports} - mine.keys()
    for name in mine:
        reached, left = set[str](), [name]
        while left:
            if (one := left.pop()) not in reached:
                reached.add(one)
                left += loads[one] & mine.keys()
        read = set().union(*(loads[one] for one in reached))
        assert known.needed([name]) == reached | (read & imported), name
        later = set().union(*(LATER.get(one, set()) for one in reached))
        assert read - mine.keys() - imported - set(dir(builtins)) - CLASS_BODY == later, name


@pytest.mark.parametrize("backend", LIBRARIES)
def test_the_text_is_that_of_the_module(backend: str) -> None:
    """A definition and its text have the same statements, but for annotations,
    declarations and docstrings of helpers."""
    for source in modules(backend):
        spec = importlib.util.find_spec(source.module)
        assert spec is not None and spec.origin is not None
        nodes = {plain_name(node): node for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body}
        for name in outline(source).statements:
            found = definition(source, name).text
            assert "# type:" not in found and "noqa" not in found and "\n\n\n" not in found
            (node,) = ast.parse(found).body
            wanted = undocumented(nodes[name]) if name.startswith("_") else nodes[name]
            assert ast.dump(Bare().visit(node)) == ast.dump(Bare().visit(wanted)), name


def undocumented(definition: ast.stmt) -> ast.stmt:
    """The definition without the docstrings in it; one that is a body of its own stays. Changes the definition."""
    for node in ast.walk(definition):
        if (isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None
            and len(node.body) > 1):
            del node.body[0]
    return definition


def plain_name(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            return name
    return ""


class Bare(ast.NodeTransformer):
    """A tree without annotations."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return ast.Assign([node.target], node.value, lineno=0) if node.value is not None else None


@pytest.mark.parametrize(("name", "backend", "how"), [
    ("gqa", "torch", {"plan": "serve"}), ("alibi", "triton", {"plan": "serve"}), ("gallery/documents", "torch", {}),
    ("deepseek_moe", "torch", {}),
    ("attention", "triton", {"grad": True})])
def test_a_file_has_what_it_reads(name: str, backend: str, how: dict[str, Any]) -> None:
    """Nothing more, of helpers and imports: the emitters say which they use, and do not look for them in the text."""
    source = einc.compile(name, backend=backend, **how).source
    read = set(global_reads(compile(source, name, "exec", dont_inherit=True)))
    nodes = ast.parse(source).body
    statements = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {(one.asname or one.name) for node in statements for one in node.names}
    here = {plain_name(node) for node in nodes} | imported
    assert read - here - set(dir(builtins)) - CLASS_BODY == set()
    assert (here & defined(LIBRARIES[backend]).keys()) - read == set()
    assert imported - read - {"torch", "triton", "tl"} == set()


SAMPLE = '''"""A module of a runtime."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import triton.language as tl

if TYPE_CHECKING:
    _later = 1

Alias = Sequence[int]

# The table,
# in two lines.
TABLE: dict[str, int] = {}  # what is known


def _first(x: Any, *, bisect_left: int = 2**3, WIDTH: tl.constexpr) -> Alias:  # noqa: N803
    """Über all."""
    made: list[int]
    made, _third = [], math.pi  # type: ignore[assignment]
    _second = [x for _unused in made]
    return _second + [_third, bisect_left]


@staticmethod
def _second(
    a: Alias, *rest: int,
    **more: "dict[str, int]",
) -> None:
    def inner() -> int:
        return _first(a, WIDTH=len(TABLE))

    inner()


class _Third(dict):
    """A class."""

    size: int  # of it
    part: Sequence[int] | None

    unit = os.sep

    def put(self, at: int, value: Any = None) -> "_Third":
        return self if value is None else _Fourth(bisect_left([], at))


class _Fourth(_Third):
    """Another."""
'''


def test_what_is_cut_and_what_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_runtime").mkdir()
    (tmp_path / "a_runtime" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "a_runtime" / "sample.py").write_text(SAMPLE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = Library((Source("a_runtime.sample"),))
    assert known.texts(known.needed(["_second"])) == [
        "# The table,\n# in two lines.\nTABLE = {}  # what is known",
        "def _first(x, *, bisect_left=2**3, WIDTH: tl.constexpr):\n"
        "    made, _third = [], math.pi\n"
        "    _second = [x for _unused in made]\n    return _second + [_third, bisect_left]",
        "@staticmethod\ndef _second(a, *rest, **more):\n"
        "    def inner():\n        return _first(a, WIDTH=len(TABLE))\n\n    inner()",
    ]
    assert known.imports(known.needed(["_second"])) == ["import math", "import triton.language as tl"]
    needed = known.needed(["_Third"])
    assert needed == {"_Third", "_Fourth", "os", "bisect_left"} == known.needed(["_Fourth"])
    assert known.imports(needed) == ["import os", "from bisect import bisect_left"]
    annotated = Library((Source("a_runtime.sample", annotated=True),))
    assert annotated.texts(frozenset({"_Third"})) == [
        'class _Third(dict):\n    unit = os.sep\n\n'
        '    def put(self, at: int, value=None) -> "_Third":\n'
        "        return self if value is None else _Fourth(bisect_left([], at))",
    ]
    with pytest.raises(KeyError):
        known.needed(["_fifth"])


# checks and values


def misfit(*rows: tuple[str, tuple[int, ...], str, torch.dtype]) -> str:
    """What is said of inputs of these shapes and types, of which the sizes were read from the first that has each."""
    sizes = dict[str, int]()
    for _, shape, axes, _ in rows:
        for axis, n in zip(axes[1:-1].split(", "), shape, strict=False):
            sizes.setdefault(axis, n)
    with pytest.raises((TypeError, ValueError)) as raised:
        checks._expect(torch.device("cpu"), tuple(
            (name, torch.zeros(shape, dtype=kind), axes, tuple(sizes[a] for a in axes[1:-1].split(", ")), rows[0][3])
            for name, shape, axes, kind in rows))
    return str(raised.value)


def test_the_input_is_blamed_that_most_others_do_not_fit() -> None:
    real, half = torch.float32, torch.float16
    said = misfit(("X", (4, 3), "(T, D)", real), ("U", (2, 5), "(H, D)", real), ("V", (5, 2), "(D, H)", real))
    assert said == "X has shape (4, 3), (T, D) with D = 5 is expected, as U and V have it"
    said = misfit(("X", (4, 5), "(T, D)", real), ("U", (2, 6), "(H, D)", real), ("V", (5, 2), "(D, H)", real))
    assert said == "U has shape (2, 6), (H, D) with D = 5 is expected, as X and V have it"
    # two inputs cannot outvote each other: the sizes of the first hold
    assert misfit(("X", (4, 3), "(T, D)", real), ("U", (5, 2), "(D, H)", real)) == (
        "U has shape (5, 2), (D, H) = (3, 2) is expected")
    # an input with other axes has no vote
    said = misfit(("X", (4, 3), "(T, D)", real), ("U", (3, 2), "(D, H)", real), ("V", (5,), "(D, H)", real),
                  ("W", (5,), "(D, H)", real))
    assert said == "V has shape (5,), (D, H) = (3, 2) is expected"
    assert misfit(("X", (4, 3), "(T, D)", half), ("U", (3, 2), "(D, H)", real), ("V", (3, 2), "(D, H)", real)) == (
        "X holds torch.float16, torch.float32 is expected")


def test_what_an_input_must_be() -> None:
    x, cpu = torch.zeros(2, 3), torch.device("cpu")
    assert checks._shape("x", x, "(T, D)", 2) == (2, 3)
    checks._expect(cpu, (("x", x, "(T, D)", (2, 3), torch.float32),))
    checks._expect(cpu, (("x", x.int(), "(T, D)", (2, 3), None),))
    checks._whole("T", 0, 0)
    checks._within("x", torch.tensor([1, 3]), 1, 3)
    checks._within("x", torch.tensor([]), 1, 3)
    checks._add_up("L", torch.tensor([1, 0, 2]), 3)
    for error, said, call in [
        (TypeError, "x is a list", lambda: checks._shape("x", [], "(T, D)", 2)),
        (ValueError, r"3 axes are expected: \(B, T, D\)", lambda: checks._shape("x", x, "(B, T, D)", 3)),
        (TypeError, "x is a float", lambda: checks._expect(cpu, (("x", 1.0, "()", (), None),))),
        (ValueError, r"\(T\) = \(6,\)", lambda: checks._expect(cpu, (("x", x, "(T)", (6,), torch.float32),))),
        (TypeError, "whole numbers", lambda: checks._expect(cpu, (("x", x, "(T, D)", (2, 3), None),))),
        (TypeError, "torch.float64 is expected",
         lambda: checks._expect(cpu, (("x", x, "(T, D)", (2, 3), torch.float64),))),
        (TypeError, "real numbers", lambda: checks._expect(cpu, (("x", x, "(T, D)", (2, 3), torch.int64),))),
        (ValueError, "on meta, the others are on cpu", lambda: checks._expect(cpu, tuple(
            (n, y, "(T, D)", (2, 3), torch.float32) for n, y in (("a", x), ("x", x.to("meta")), ("b", x))))),
        (ValueError, "T = True", lambda: checks._whole("T", True, 0)),
        (ValueError, "T = 0, a whole number from 1", lambda: checks._whole("T", 0, 1)),
        (IndexError, "from 1 to 4", lambda: checks._within("x", torch.tensor([1, 4]), 1, 3)),
        (ValueError, "lengths from 0", lambda: checks._add_up("L", torch.tensor([4, -1]), 3)),
        (ValueError, "adds up to 3", lambda: checks._add_up("L", torch.tensor([1, 2]), 4)),
    ]:
        with pytest.raises(error, match=said):
            call()


NUMBERS = [0.0, -0.0, 1.0, -2.5, 3, 0, math.inf, -math.inf]


@pytest.mark.parametrize("n", NUMBERS)
def test_a_quotient_where_0_over_0_is_0(n: float) -> None:
    with np.errstate(all="ignore"):
        right = [0.0 if x == 0 and n == 0 else float(np.float64(x) / np.float64(n)) for x in NUMBERS]
    found = [values._over(x, n) for x in NUMBERS]
    # A whole 0 has no sign, and neither has what is divided by it.
    np.testing.assert_equal([float(x) for x in found], right)
    np.testing.assert_equal(values._over(torch.tensor(NUMBERS, dtype=torch.float64), n).numpy(), right)


def test_functions_of_numbers_refuse_nothing() -> None:
    assert math.isnan(values._number(torch.log, -1))
    assert values._number(torch.exp, 1000) == math.inf
    assert values._number(torch.pow, 2, 10) == 1024


def test_the_last_axis_is_made_dense() -> None:
    x = torch.arange(6.0).view(2, 3)
    assert values._dense(x) is x
    assert values._dense(x.mT).stride(-1) == 1 and torch.equal(values._dense(x.mT), x.mT)


# what rows choose


ROW = st.lists(st.sampled_from([-math.inf, 0.0, 1.0, 2.0, math.inf]), min_size=4, max_size=4)


@given(rows=st.lists(ROW, min_size=1, max_size=3),
       count=st.integers(1, 6), first=st.integers(0, 1))
@settings(max_examples=20, deadline=None)
def test_the_largest(rows: list[list[float]], count: int, first: int) -> None:
    right = []
    for row in rows:
        order = [n + first for n in sorted(range(4), key=lambda n: (-row[n], n)) if row[n] > -math.inf][:count]
        right.append(order + [first - 1] * (count - len(order)))
    assert groups._largest(torch.tensor(rows), count, first).tolist() == right


@given(ids=st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 4)), min_size=0, max_size=8))
@settings(max_examples=20, deadline=None)
def test_rows_that_name_an_element(ids: list[tuple[int, int]]) -> None:
    """Of two ranges, 0 to 2 and 1 to 3; other numbers name none."""
    a, b = (torch.tensor([pair[n] for pair in ids], dtype=torch.long) for n in (0, 1))
    numbered = groups._numbered((a, 3, 0), (b, 3, 1))
    right = [1 + x * 3 + y - 1 if 0 <= x < 3 and 1 <= y < 4 else 0 for x, y in ids]
    assert numbered.tolist() == right
    (places,), ends = groups._sorted(numbered, 9)
    for n in range(9):
        assert places[ends[n] : ends[n + 1]].tolist() == [at for at, x in enumerate(right) if x == n + 1]
    named = {n: at.tolist() for n, (at,) in groups._groups(numbered, 9)}
    assert named == {n: found for n in range(9) if (found := [at for at, x in enumerate(right) if x == n + 1])}


# operators


def test_what_operators_are_made_with() -> None:
    x = torch.zeros(3, requires_grad=True)
    y = torch.arange(4.0).view(2, 2)
    assert operators._asked(y, x) and not operators._asked(y)
    with torch.no_grad():
        assert not operators._asked(x)
    own = operators._own((y,), (y, y.mT.clone(), y[0]))
    assert all(torch.equal(a, b) for a, b in zip(own, (y, y.mT, y[0]), strict=True))
    assert all(a.is_contiguous() for a in own)
    assert len({a.untyped_storage().data_ptr() for a in (y, *own)}) == 4
    assert operators._wanted(SimpleNamespace(needs_input_grad=(True, False)), x, y) == (x, None)
    assert operators._filled(y, (y.shape, y.dtype, y.device)) is y
    assert torch.equal(operators._filled(None, (y.shape, y.dtype, y.device)), torch.zeros(2, 2))
    assert operators._free("no_such_operator") == "no_such_operator"
    with pytest.raises(RuntimeError, match="not derived"):
        operators._once(None, y)


def test_autocast_is_taken_over_once() -> None:
    x, wide, whole = torch.zeros(2), torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.long)
    assert operators._cast(x, 3, wide) == (x, 3, wide)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = operators._cast(x, wide, whole)
        inside = operators._uncast("cpu", lambda: torch.is_autocast_enabled("cpu"))()
    assert [y.dtype for y in found] == [torch.bfloat16, torch.float64, torch.int64] and not inside


# folds, chance and powers of torch


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_extremes_of_nothing(dim: int | tuple[int, ...]) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(folds._amax(x, dim), x.amax(dim)) and torch.equal(folds._amin(x, dim), x.amin(dim))
    none = x[:0, :0]
    assert (folds._amax(none, dim) == -math.inf).all() and (folds._amin(none, dim) == math.inf).all()


@given(index=st.lists(st.integers(-2, 6), min_size=0, max_size=9), rows=st.integers(1, 3), seed=st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_sums_by_an_index(index: list[int], rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, at = random.standard_normal((rows, len(index))), np.array(index, dtype=np.int64)
    each = np.stack([random.permutation(at) for _ in range(rows)])
    for ids in (np.broadcast_to(at, x.shape), each):
        right = np.ones((rows, 5))
        for r, n in np.ndindex(x.shape):
            if 0 <= ids[r, n] < 5:
                right[r, ids[r, n]] += x[r, n]
        given_index = torch.from_numpy(at) if ids is not each else torch.from_numpy(each)
        found = folds._tally(torch.ones(rows, 5).double(), given_index, torch.from_numpy(x))
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-12)


@pytest.mark.parametrize("shift", [-3, 0, 2])
@pytest.mark.parametrize("extent", [1, 6])
def test_running_values_are_moved(shift: int, extent: int) -> None:
    x = torch.arange(1.0, 5.0)
    ahead = [9.0 if n + shift < 0 else x[min(n + shift, 3)].item() for n in range(extent)]
    back = [9.0 if n + shift > 3 else x[max(n + shift, 0)].item() for n in range(extent)]
    assert folds._upto(x, 0, shift, extent, 9.0).tolist() == ahead
    assert folds._from(x, 0, shift, extent, 9.0).tolist() == back


@given(count=st.integers(0, 9), dims=st.sampled_from([(0,), (1,), (0, 1)]))
@settings(max_examples=20, deadline=None)
def test_folds_by_their_step(count: int, dims: tuple[int, ...]) -> None:
    """For any number of values: in pairs, and running."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    found = folding._folded(torch.logaddexp, x, dims, -math.inf)
    torch.testing.assert_close(found, x.logsumexp(dims) if count else torch.full(found.shape, -math.inf).double())
    assert found.shape == x.sum(dims).shape
    torch.testing.assert_close(folding._running(torch.logaddexp, x, dims[0]), x.logcumsumexp(dims[0]))


@pytest.mark.parametrize("backend", LIBRARIES)
def test_a_generated_definition_brings_what_it_reads(backend: str) -> None:
    known, text = LIBRARIES[backend], "def _made(x):\n    return _numbered(x) * math.inf"
    more = Library((*known.parts, Generated("_made", text)), known.others)
    assert more.needed(["_made"]) == known.needed(["_numbered"]) | {"_made", "math"}
    assert more.texts(frozenset({"_made"})) == [text]


def mixed(x: int) -> int:
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    return x ^ (x >> 15)


def hashed(a: int, b: int) -> int:
    a, b = ((n ^ (n >> 32)) & 0xFFFFFFFF for n in (a, b))
    return mixed(a ^ mixed((b + 0x5851F42D) & 0xFFFFFFFF))


PAIRS = [(0, 0), (1, 2), (2, 1), (-1, 5), (2**40 + 3, -(2**35)), (2**31, 2**32 - 1), (123456789, 987654321), (7, -7)]


def test_chance_is_made_of_whole_numbers() -> None:
    a, b = torch.tensor(PAIRS).unbind(1)
    right = [hashed(*pair) for pair in PAIRS]
    assert chance._hash(a, b).tolist() == right
    assert chance._chance(a, b, torch.float64).tolist() == [(x >> 8) / 2**24 for x in right]


def test_powers_that_are_no_normal_numbers() -> None:
    small = torch.tensor([0.0, -126.0, -126.5, -1000.0])
    assert powers._normal(small).tolist() == [0.0, -math.inf, -math.inf, -math.inf]
    assert powers._normal(torch.tensor([-125.5])).tolist() == [-125.5]


# what the host of Triton kernels computes


def test_what_a_kernel_is_started_with() -> None:
    cpu = torch.device("cpu")
    assert [launch._padded(n) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]
    assert launch._padded(3, 16) == 16 and launch._padded(1000, 1, 256) == 256
    assert launch._tl_type(torch.bfloat16) is tl.bfloat16
    with pytest.raises(TypeError, match="no element type"):
        launch._tl_type(torch.int32)
    assert launch._offset(((2**31 - 1,), (0,)), ((0, 2**31), (2**31, 1))) is tl.int32 and launch._offset() is tl.int32
    assert launch._offset(((2**31, 2), (2, 1))) is tl.int64
    for shape in ((), (3,), (2, 3, 4), (2, 0, 4)):
        assert launch._contiguous(shape) == torch.empty(shape).stride()
    assert launch._precision(cpu) == "ieee"
    assert (launch._twofold(torch.float32, 2.2), launch._twofold(torch.float16, 2.2)) == (2.2, 1)
    assert (launch._spread(16, 4), launch._spread(64, 4)) == (5.6 * 4, 0)
    with pytest.raises(RuntimeError, match="the tensors are on the CPU"):
        launch._ready(cpu, torch.float32)


def test_the_first_tile_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, shapes = torch.device("cpu"), ((64, 64, 4, 3), (16, 64, 4, 2), (16, 16, 4, 1))
    given_ = ("x", shapes, 1000, 1000, cpu)

    def product(rows: int, columns: int, warps: int) -> int:
        return 2 * rows * columns * warps

    assert tiles._tile(*given_, lambda r, c, w: 1, lambda r, c, s: 1) == (64, 64, 4, 3)
    assert tiles._tile("x", shapes, 10, 20, cpu, lambda r, c, w: 1, lambda r, c, s: 1) == (16, 32, 4, 2)
    assert tiles._tile(*given_, product, lambda r, c, s: 1) == (16, 64, 4, 2)
    monkeypatch.setattr(tiles, "_room", lambda device: 3000)
    assert tiles._tile(*given_, lambda r, c, w: 1, lambda r, c, s: r * c * s) == (16, 64, 4, 2)
    assert tiles._tile(*given_, lambda r, c, w: 2**19, lambda r, c, s: r * c * s) == (16, 16, 4, 1)
    with pytest.raises(ValueError, match="no tile of x fits"):
        tiles._tile(*given_, lambda r, c, w: 1, lambda r, c, s: 4000)
    monkeypatch.setitem(tiles.TILES, ("x", 1024, 1024), (1, 2, 3, 4))
    assert tiles._tile(*given_, product, lambda r, c, s: 1) == (1, 2, 3, 4)


def test_a_tile_that_nearly_fills_the_registers_has_twice_the_rows_and_warps() -> None:
    cpu, shapes = torch.device("cpu"), ((64, 64, 4, 3), (128, 64, 8, 3), (16, 16, 4, 1))
    room = 4 * 32 * (178 - 64 // 4)  # numbers of four warps
    for part, tile in ((0.6, (64, 64, 4, 3)), (0.8, (128, 64, 8, 3))):
        given_ = ("x", shapes, 1000, 1000, cpu, lambda r, c, w, part=part: part * room * r / 64)
        assert tiles._tile(*given_, lambda r, c, s: 1) == tile
    assert tiles._tile("x", shapes[::2], 1000, 1000, cpu, lambda r, c, w: 0.8 * room, lambda r, c, s: 1) == shapes[0]


def test_rows_in_one_table_are_handed_over_as_pages() -> None:
    pool = Pool(4, 2)
    cache_ = Cache(pool=pool)
    laid = [cache_[name].append(torch.ones(3, 2), 0, (0, 1)) for name in ("k", "v")]
    rows, other, pages, page = launch._pages(*laid)
    assert rows is laid[0].rows and other is laid[1].rows and pages.tolist() == cache_.table.pages and page == 2
    other = Cache()
    alone = other["k"].append(torch.ones(3, 2), 0, (0, 1))
    assert [x.shape for x in launch._pages(laid[0], alone)[:2]] == [(3, 2), (3, 2)]
    assert launch._pages(laid[0], alone)[2:] == (None, 0)


# device functions, in Triton's interpreter


KERNELS = '''

@triton.jit
def one(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, {name}(tl.load(x + at)))


@triton.jit
def two(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, {name}(tl.load(x + at), tl.load(y + at)))


@triton.jit
def fold(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out, tl.reduce(tl.load(x + at), 0, {name}))


@triton.jit
def chance(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, _chance(tl.load(x + at), tl.load(y + at), tl.float32))


@triton.jit
def count(rising, keys, out, n, N: tl.constexpr):
    for k in range(N):
        tl.store(out + k, _count(rising, 2, n, tl.load(keys + k)))


@triton.jit
def counts(rising, keys, inside, out, n, N: tl.constexpr):
    at = tl.arange(0, N)
    held = tl.load(inside + at) != 0
    tl.store(out + at, _counts(rising, 2, n, tl.load(keys + at), held))


@triton.jit
def tally(index, x, rows, out, N: tl.constexpr, M: tl.constexpr, C: tl.constexpr):
    at, m, c = tl.arange(0, N), tl.arange(0, M), tl.arange(0, C)
    ids, each = tl.load(index + at), tl.load(x + m[:, None] * N + at[None, :])
    tl.store(out + c, _tally(tl.zeros((C,), tl.float32), c, 5, ids, tl.load(x + at)))
    total = _tally_rows(tl.zeros((M, C), tl.float32), c, 5, ids[None, :], each)
    tl.store(rows + m[:, None] * C + c[None, :], total)


@triton.jit
def deep(a, b, out, depth, N: tl.constexpr):
    at = tl.arange(0, N)
    inside = (at < N)[:, None]
    x = a + at[:, None] * depth + at[None, :]
    y = b + at[:, None] * depth + at[None, :]
    made = _deep(x, 1, inside, y, 1, inside, depth, N, "ieee", tl.float32)
    tl.store(out + at[:, None] * N + at[None, :], made)


@triton.jit
def read(x, out, N: tl.constexpr, NEAR: tl.constexpr, INSIDE: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, _read(x + at, at < 3, at != 1, NEAR, INSIDE))


@triton.jit
def moved(pages, out, N: tl.constexpr, PAGE: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, at + _moved(pages, at, at < N, PAGE, tl.int64))
'''


@cache
def device(room: Path, name: str) -> ModuleType:
    """The kernels above, which call the device function of that name, loaded for the interpreter."""
    known = LIBRARIES["triton"]
    wanted = {name, "_chance", "_count", "_counts", "_tally", "_tally_rows", "_deep", "_read", "_moved"}
    source = text("triton", known.needed(wanted)) + KERNELS.replace("{name}", name)
    with interpreted():
        return module(room / f"kernels{name}.py", source)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def run(room: Path, name: str, kernel: str, *tensors: torch.Tensor, **constants: Any) -> torch.Tensor:
    """What a kernel above writes into the last tensor that is given."""
    made = device(room, name)
    with interpreted():
        getattr(made, kernel)[(1,)](*tensors, **constants)
    return tensors[-1]


REALS = torch.tensor([0.0, 0.1, -0.2, 0.3, -1.0, 5.0, -60.0, 0.24])
EXPONENTS = torch.tensor([0.0, 2.0, 3.0, 0.5, 5.0, -1.0, 2.0, -0.5])
REAL_DIVISORS = torch.tensor([3.0, math.inf, math.inf, -math.inf, -3.0, math.nan, 7.0, -9.0])
WHOLE, DIVISORS = torch.tensor([7, -7, 7, -7, 0, 6, -6, 1]), torch.tensor([3, 3, -3, -3, 5, 3, 3, -9])


@pytest.mark.parametrize(("name", "right"), [
    ("_floordiv", lambda: WHOLE // DIVISORS), ("_mod", lambda: WHOLE % DIVISORS),
    ("_hash", lambda: chance._hash(*torch.tensor(PAIRS).unbind(1))),
    ("_beyond", lambda: torch.remainder(REALS, REAL_DIVISORS)), ("_power", lambda: REALS**EXPONENTS),
    ("_times", lambda: REALS * EXPONENTS)])
def test_device_functions_of_two(name: str, right: Any, room: Path) -> None:
    operands = {"_hash": torch.tensor(PAIRS).unbind(1), "_beyond": (REALS, REAL_DIVISORS),
                "_power": (REALS, EXPONENTS), "_times": (REALS, EXPONENTS)}
    x, y = (one.contiguous() for one in operands.get(name, (WHOLE, DIVISORS)))
    want = right()
    found = run(room, name, "two", x, y, torch.empty_like(want), N=8)
    torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(("name", "right"), [("_tanh", torch.tanh), ("_square", torch.square)])
def test_device_functions_of_one(name: str, right: Any, room: Path) -> None:
    torch.testing.assert_close(run(room, name, "one", REALS, torch.empty(8), N=8), right(REALS), rtol=2e-6, atol=0)


@pytest.mark.parametrize(("name", "right"), [("_times", torch.prod), ("_larger", torch.max), ("_smaller", torch.min)])
def test_device_functions_that_fold(name: str, right: Any, room: Path) -> None:
    torch.testing.assert_close(run(room, name, "fold", REALS + 2, torch.empty(1), N=8)[0], right(REALS + 2))
    if name != "_times":
        assert run(room, name, "fold", torch.tensor([1.0, math.nan]), torch.empty(1), N=2).isnan().all()


def test_chance_on_the_device_is_that_of_torch(room: Path) -> None:
    a, b = (x.contiguous() for x in torch.tensor(PAIRS).unbind(1))
    assert torch.equal(run(room, "_times", "chance", a, b, torch.empty(8), N=8), chance._chance(a, b, torch.float32))


@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_how_many_are_below(n: int, room: Path) -> None:
    rising = torch.arange(0, max(n, 1)).repeat_interleave(2)  # read in steps of two
    keys = torch.tensor([-1, 0, 1, 3, 4, 200, 299, 1000])
    right = torch.searchsorted(torch.arange(0, n), keys)
    made, out = device(room, "_times"), torch.empty(8, dtype=torch.int64)
    inside = torch.tensor([1, 1, 1, 0, 1, 1, 1, 1])
    with interpreted():
        made.count[(1,)](rising, keys, out, n, N=8)
        assert torch.equal(out, right)
        made.counts[(1,)](rising, keys, inside, out, n, N=8)
        assert torch.equal(out, right * inside)


def test_sums_by_an_index_on_the_device(room: Path) -> None:
    index, x = torch.tensor([0, 4, 4, 6, -1, 2, 2, 0]), torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    out, rows = torch.empty(8), torch.empty(2, 8)
    with interpreted():
        device(room, "_times").tally[(1,)](index, x, rows, out, N=8, M=2, C=8)
    inside = (index >= 0) & (index < 5)
    right = torch.zeros(2, 8).index_add_(1, index[inside], x[:, inside])
    torch.testing.assert_close(rows, right)
    torch.testing.assert_close(out, right[0])


def test_a_deep_product_on_the_device(room: Path) -> None:
    a, b = torch.randn(2, 16, 40, generator=torch.Generator().manual_seed(2))
    out = torch.empty(16, 16)
    with interpreted():
        device(room, "_times").deep[(1,)](a.contiguous(), b.contiguous(), out, 40, N=16)
    torch.testing.assert_close(out, a @ b.mT, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_masks_that_are_asked(near: bool, inside: bool, room: Path) -> None:
    found = run(room, "_times", "read", torch.arange(1.0, 5.0), torch.empty(4), N=4, NEAR=near, INSIDE=inside)
    assert found.tolist() == [0.0 if (near and n >= 3) or (inside and n == 1) else n + 1.0 for n in range(4)]


def test_where_positions_lie_in_pages(room: Path) -> None:
    pages = torch.tensor([5, 0, 7, 1], dtype=torch.int32)
    found = run(room, "_times", "moved", pages, torch.empty(8, dtype=torch.int64), N=8, PAGE=2)
    assert found.tolist() == [10, 11, 0, 1, 14, 15, 2, 3]
    found = run(room, "_times", "moved", pages, torch.empty(8, dtype=torch.int64), N=8, PAGE=0)
    assert found.tolist() == list(range(8))


# the cache and the pool


def rows(first: int, count: int) -> torch.Tensor:
    """Rows of which each has its own number in all elements."""
    return torch.arange(first, first + count, dtype=torch.float32)[None, :, None].expand(2, count, 3)


def appended(state: Cache, count: int, mark: int) -> Any:
    laid = state["k"].append(rows(mark, count), 1, (0, 1, 2))
    state.length += count
    return laid


OPERATION = st.tuples(st.sampled_from(["append", "fork", "forget", "free"]), st.integers(0, 3), st.integers(1, 7))


@given(steps=st.lists(OPERATION, max_size=12), paged=st.booleans(), page=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_a_cache_holds_what_was_appended(steps: list[tuple[str, int, int]], paged: bool, page: int) -> None:
    """Whatever was forked, dropped and freed, beside other caches of the same pool."""
    pool = Pool(200, page) if paged else None
    caches: list[tuple[Cache, list[float]]] = [(Cache(4, pool), [])]
    for mark, (what, which, count) in enumerate(steps):
        state, held = caches[which % len(caches)]
        match what:
            case "append":
                laid = appended(state, count, 100 * mark)
                held += [100.0 * mark + n for n in range(count)]
                mine = torch.tensor(held[state.dropped :])[None, :, None].expand(2, -1, 3)
                assert torch.equal(laid.whole(), mine)
                parts = [laid.tile(*at) for at in laid.tiles(((0, laid.upto),), 3)]
                assert torch.equal(torch.cat([part.clone() for part in parts], 1), mine) or not laid.single
            case "fork":
                upto = state.length if state.dropped else min(count, state.length)
                caches.append((state.fork(upto), held[:upto]))
            case "forget":
                state.forget(count)
            case "free":
                state.free()
                held.clear()
    if pool is not None:
        used = [page for state, _ in caches for page in state.table.pages]
        assert [used.count(n) for n in range(len(pool.counts))] == pool.counts
        assert pool.free == len(pool.counts) - len(set(used))


def test_a_pool_is_saved_and_loaded(tmp_path: Path) -> None:
    pool = Pool(9, 2)
    state = Cache(pool=pool)
    appended(state, 5, 10)
    other = state.fork(3)
    pool.save(str(tmp_path / "pool"))
    found = Pool.load(str(tmp_path / "pool"))
    assert found.counts == pool.counts and sorted(found.caches) == [state.number, other.number]
    for mine in (state, other):
        again = found.caches[mine.number]
        laid = appended(again, 1, 50)
        assert again.length == mine.length + 1
        assert laid.whole()[0, :, 0].tolist() == [10.0 + n for n in range(mine.length)] + [50.0]


def test_a_pool_without_room_changes_nothing() -> None:
    pool = Pool(3, 2)
    state, other = Cache(pool=pool), Cache(pool=pool)
    appended(state, 4, 0)
    before = list(pool.counts)
    with pytest.raises(Exhausted, match="2 more pages are needed, 1 of 3 are free"):
        other.reserve(3)
    assert pool.counts == before and other.table.pages == []
    state.free()
    other.reserve(3)
    assert pool.free == 1


def test_whose_the_new_positions_are() -> None:
    one, two = Cache(), Cache()
    assert _only(one) is one
    assert _requests(one, None, 3) == [(one, 0, 3)]
    assert _requests([one, two], [2, 1], 3) == [(one, 0, 2), (two, 2, 3)]
    assert _requests((one, two), [0, 3], 3) == [(two, 0, 3)]
    assert torch.equal(_joined([torch.ones(2, 1), torch.zeros(2, 2)], 1), torch.tensor([[1.0, 0, 0]] * 2))
    wrong: Mapping[str, tuple[type[Exception], Any]] = {
        "give its cache alone": (ValueError, lambda: _only([one])),
        "of such caches": (TypeError, lambda: _requests([1], [1], 1)),  # type: ignore[list-item]
        "no new position": (ValueError, lambda: _requests(one, None, 0)),
        "one is expected for each": (ValueError, lambda: _requests([one, two], None, 2)),
        "add up to the 3": (ValueError, lambda: _requests([one, two], [1, 1], 3)),
        "stands twice": (ValueError, lambda: _requests([one, one], [1, 1], 2)),
        "give one cache": (ValueError, lambda: _joined([torch.ones(1, 2), torch.ones(2, 2)], 1)),
    }
    for said, (error, call) in wrong.items():
        with pytest.raises(error, match=said):
            call()


def test_rows_with_their_axes_in_another_order() -> None:
    laid = appended(Cache(pool=Pool(9, 2)), 5, 0)
    turned = _Turned(laid, (1, 0, 2))
    assert torch.equal(turned.whole(), rows(0, 5).transpose(0, 1))
    assert torch.equal(turned.tile(1, 3), rows(1, 2).transpose(0, 1))
    gap = Cache(pool=Pool(9, 2), table=[4, 0, 2], length=0)
    scattered = appended(gap, 5, 0)
    assert not scattered.single
    assert [at for span in _cuts(laid, scattered) for at in range(*span)] == list(range(5))
