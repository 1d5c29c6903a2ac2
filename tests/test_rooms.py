"""The floor plan, enforced: who imports whom, how long things are, and what no one may know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from bench import house
from einc.driver.moved import CLASSES, MOVED

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.always  # a house that is not looked at decays
HOUSE = {"compiler": "einc", "backends": "einc.backends", "grammar": "einc.grammar", "specs": "einc.specs"}

# The wings of compiler/ from the foundation up: each may import what stands before it, and itself.
ORDER = ["errors", "ir", "syntax", "checking", "documents", "transforms", "meaning", "planning", "driver", "__main__"]
# Modules are loaded by name at the doors, and where a library takes long to load and is needed for a few specs alone.
DOORS = ("compiler/__init__.py", "compiler/driver/", "compiler/planning/contractions/order.py")

# Where each library may be imported; a name ending in a slash is a whole folder.
LIBRARIES = {
    "lark": ("compiler/syntax/parse.py", "compiler/syntax/tables.py", "compiler/syntax/plan_lines.py"),
    "numpy": ("compiler/meaning/", "compiler/driver/", "backends/"),
    "sympy": ("compiler/driver/reports/formulas.py",),
    "opt_einsum": ("compiler/planning/contractions/order.py",),
    "click": ("compiler/driver/",),
    "rich": ("compiler/driver/", "backends/triton/progress.py"),
    "safetensors": ("compiler/driver/",),
    "markdown_it": ("compiler/documents/",),
    "mdit_py_plugins": ("compiler/documents/",),
    "pylatexenc": ("compiler/documents/",),
    "latex2mathml": ("compiler/documents/",),
    "torch": ("backends/", "compiler/driver/integrations/", "compiler/driver/commands/data.py",
              "compiler/driver/timing/judge.py"),
    "triton": ("backends/",),
    "matplotlib": ("compiler/driver/drawing/pictures.py",),
    "tokenizers": ("compiler/driver/commands/prompts.py",),
    "transformers": ("compiler/driver/integrations/transformers.py",),
    "pygments": ("compiler/driver/highlight.py",),
    "pygls": ("compiler/driver/integrations/language_server.py", "compiler/driver/integrations/protocol.py"),
    "lsprotocol": ("compiler/driver/integrations/language_server.py", "compiler/driver/integrations/protocol.py"),
}
BACKENDS_SEE = {"ir", "errors"}
# The statements of torch are what a back end falls back to where it cannot write a kernel: see
# `backends/host/mixed.py`.
BACKENDS_SHARE = ("einc.backends.host", "einc.backends.writer", "einc.backends.torch.emit")
RUNTIME = "runtime"  # the folders of a back end's modules that emitted files have the source of
LAWS_SEE = ("einc.ir.", "einc.errors.", "einc.transforms.laws.rule")

FILE_LINES, FUNCTION_LINES, MOSTLY = 400, 60, 40
EXAMPLES = ("compiler/errors/problems/",)  # texts of users, in their words
FORBIDDEN = re.compile(r"(?<![A-Za-z])(attention|softmax|causal|window|lse|query|flash)(?![A-Za-z])", re.IGNORECASE)


def files(*rooms: str) -> list[Path]:
    return sorted(file for room in rooms for file in (ROOT / room).rglob("*.py"))


def short(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Every node of a file; several tests look through all of them."""
    return tuple(ast.walk(tree(file)))


@cache
def built() -> tuple[house.File, ...]:
    """The files of the house as `bench house` reads them, without those whose text is written into other files."""
    return tuple(file for file in house.read(ROOT) if not file.is_runtime)


def module(file: Path) -> str:
    room, *inner = file.relative_to(ROOT).with_suffix("").parts
    return ".".join([HOUSE[room], *(part for part in inner if part != "__init__")])


MODULES = {module(file): file for file in files(*HOUSE)}


@cache
def imports(file: Path) -> tuple[str, ...]:
    """The modules a file imports, by their full names; `from einc.a import b` is `einc.a.b` where that is a module, and
    a text that is given to `import_module` counts.
    """
    found: list[str] = []
    for node in nodes(file):
        match node:
            case ast.Import(names):
                found += [name.name for name in names]
            case ast.ImportFrom(of, names, 0):
                found += [f"{of}.{name.name}" if f"{of}.{name.name}" in MODULES else str(of) for name in names]
            case ast.ImportFrom():
                found.append("." * node.level + (node.module or ""))
            case ast.Call(func, [ast.Constant(str(name)),
                                 *_]) if ast.unparse(func).endswith(("import_module", "__import__")):
                found.append(name)
    return tuple(dict.fromkeys(found))


def room_of(name: str) -> str:
    """The room of compiler/ that a module of einc stands in; the empty text for einc itself."""
    return name.split(".")[1] if "." in name else ""


def within(file: Path, places: tuple[str, ...]) -> bool:
    return any(short(file) == place or (place.endswith("/") and short(file).startswith(place)) for place in places)


def called(file: Path) -> Iterator[ast.Call]:
    return (node for node in nodes(file) if isinstance(node, ast.Call))


# who imports whom


def test_compiler_imports_go_one_way() -> None:
    wrong = []
    for file in files("compiler"):
        mine = room_of(module(file))
        if not mine:
            continue
        if mine not in ORDER:
            wrong.append(f"{short(file)} has no place in the order of the rooms")
            continue
        for name in imports(file):
            theirs = room_of(name) if name.split(".")[0] == "einc" else ""
            if theirs == "backends" and mine == "driver":
                continue  # by name alone, which another test sees to
            if theirs and theirs != mine and (theirs not in ORDER or ORDER.index(theirs) >= ORDER.index(mine)):
                wrong.append(f"{short(file)} imports {name}, which does not stand before it")
    assert wrong == []


def for_types(file: Path) -> set[str]:
    """What a runtime module imports for its annotations alone: its classes know each
    other's types, as those of one file may."""
    if file.parent.name != RUNTIME:
        return set()
    blocks = [node for node in tree(file).body
              if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {str(inner.module) for node in blocks for inner in node.body if isinstance(inner, ast.ImportFrom)}


def test_imports_have_no_cycle() -> None:
    graph = {name: {other for other in imports(file) if other in MODULES and other != "einc"} - for_types(file)
             for name, file in MODULES.items() if name != "einc"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_few_entries_at_the_first_look() -> None:
    entries = {path.name for path in (ROOT / "compiler").iterdir()} - {"README.md", "__pycache__"}
    assert len(entries) <= 12, entries
    assert entries == {*(name for name in ORDER if name != "__main__"), "__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("wing", ORDER[:-1])
def test_a_wing_says_what_it_imports(wing: str) -> None:
    """What goes in, what comes out, and what the wing may import: exactly what it does import."""
    text = ast.get_docstring(tree(ROOT / "compiler" / wing / "__init__.py")) or ""
    said = re.search(r"\nIn: .+\nOut: .+\nMay import: (.+)\.\n?$", text)
    assert said is not None
    seen = {room_of(name) for file in files(f"compiler/{wing}") for name in imports(file) if name.startswith("einc.")}
    assert set(said[1].replace("nothing of einc",
                               "").split(", ")) - {""} == seen - {wing, "backends", "specs", "grammar"}


def test_former_classes_are_there_by_the_former_names_of_their_modules() -> None:
    """An import of 0.1.0 gives the class of today, with a warning that names it."""
    by_former = {now: former for former, now in MOVED.items()}
    script = ["import importlib, warnings", "warnings.simplefilter('ignore')"]
    script += [f"getattr(importlib.import_module('einc.{by_former[now]}'), {name!r})"
               for now, names in CLASSES.items() for name in names]
    done = subprocess.run([sys.executable, "-c", "; ".join(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_former_names_lead_to_modules_that_are_there() -> None:
    assert [name for name, now in MOVED.items() if f"einc.{now}" not in MODULES] == []
    assert [name for name in MOVED if f"einc.{name}" in MODULES] == [], "a former name that is in use again"


def test_the_package_itself_imports_nothing_of_its_own() -> None:
    """It names, as a text, the module of former names, and imports that where one is asked for."""
    assert [name for name in imports(ROOT / "compiler/__init__.py") if name.startswith("einc")] == ["einc.driver.moved"]


def test_libraries_stay_in_their_rooms() -> None:
    wrong = [f"{short(file)} imports {name}" for file in files(*HOUSE) for name in imports(file)
             if (places := LIBRARIES.get(name.split(".")[0])) is not None and not within(file, places)]
    assert wrong == []


def test_the_compiler_imports_only_libraries_of_the_plan() -> None:
    known = {*LIBRARIES, "einc", *sys.stdlib_module_names}
    wrong = [f"{short(file)} imports {name}" for file in files(*HOUSE) for name in imports(file)
             if name.split(".")[0] not in known]
    assert wrong == []


def test_the_compiler_does_not_know_the_back_ends() -> None:
    stated = [short(file) for file in files("compiler") for node in nodes(file)
              if isinstance(node, ast.Import | ast.ImportFrom) and "einc.backends" in ast.unparse(node)]
    assert stated == []
    loads = [short(file) for file in files("compiler") for call in called(file)
             if ast.unparse(call.func).endswith(("import_module", "__import__")) and not within(file, DOORS)]
    assert loads == [], "only the doors may load a module by name"


def test_back_ends_see_the_plan_and_not_each_other() -> None:
    wrong = []
    for file in files("backends"):
        mine = module(file)
        home = ".".join(mine.split(".")[:3])
        for name in imports(file):
            if not name.startswith("einc") or name.startswith(BACKENDS_SHARE) or room_of(name) in BACKENDS_SEE:
                continue
            inside = home != mine or file.name == "__init__.py"
            if not (inside and (name == home or name.startswith(home + "."))):
                wrong.append(f"{short(file)} imports {name}")
    assert wrong == []


def test_emit_is_text_only() -> None:
    emitters = sorted((ROOT / "backends").glob("*/emit*"))
    found = [file for path in emitters for file in ([path] if path.suffix == ".py" else sorted(path.rglob("*.py")))]
    assert found, "a back end has an emit.py"
    heavy = ("torch", "triton", "numpy")
    wrong = [f"{short(file)} imports {name}" for file in found for name in imports(file) if name.split(".")[0] in heavy]
    assert wrong == []


def test_the_runtime_is_read_and_not_imported() -> None:
    """So that writing a file loads no framework. What stands in files knows nothing of the emitters."""
    found = files("backends")
    wrong = [f"{short(file)} imports {name}" for file in found for name in imports(file)
             if name.startswith("einc.") and (f".{RUNTIME}." in name) != (file.parent.name == RUNTIME)]
    assert wrong == []
    rooms = {path.parent.name for path in (ROOT / "backends").glob(f"*/{RUNTIME}/")}
    assert {file.parent.parent.name for file in found if file.parent.name == RUNTIME} == rooms >= {"host", "torch"}


def test_laws_see_only_terms() -> None:
    laws = ("algebra.py", "exponentials.py", "gates.py", "linear.py")
    wrong = [f"{short(file)} imports {name}" for file in files("compiler/transforms/laws") if file.name in laws
             for name in imports(file) if name.startswith("einc") and not name.startswith(LAWS_SEE)]
    assert wrong == []


def test_the_bench_uses_the_front_door() -> None:
    """And the one module that compiles without a device: what it finds is what `bench.offline` measures. The algebra
    that is compared with sympy's is imported where it stands, and the clock and the judge of `einc bench` are those of
    the bench. The mutation suite takes its places from the words and the tree of a text, and reads its rules itself: of
    the checker it sees the report alone."""
    def seen(file: Path) -> set[str]:
        mutating = {"einc.driver.pipeline", "einc.syntax.tree", "einc.syntax.tokens", "einc.errors.report",
                    "einc.ir.terms",
                    "einc.ir.programs"}
        measured = {"einc.ir.domains", "einc.ir.indices", "einc.ir.terms", "einc.meaning.polynomial_form",
                    "einc.transforms.laws",
                    "einc.transforms.laws.simplify"}
        if short(file) == "bench/algebra.py":
            return measured
        timing = {"einc.driver.timing.judge", "einc.backends.triton.offline"}
        measures = {"einc.driver.timing.clock", "einc.driver.commands.measure"}
        timing |= measures if short(file) == "bench/measure.py" else set()
        return mutating if short(file).startswith("bench/mutations/") else timing

    inner = [f"{short(file)} imports {name}" for file in files("bench") for name in imports(file)
             if (name.startswith("einc.") and name not in seen(file)) or name.split(".")[0] in HOUSE]
    assert inner == []
    referee = [ROOT / "bench/mutations" / name for name in ("reading.py", "referee.py", "future.py")]
    assert [name for file in referee for name in imports(file) if name.startswith("einc.ir.")] == []


def test_imports_stand_at_the_top() -> None:
    def indented(node: ast.AST) -> bool:
        return isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset > 0

    wrong = [f"{short(file)}:{node.lineno}" for file in files(*HOUSE, "tests", "bench")
             if any(map(indented, nodes(file)))
             for function in nodes(file) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
             for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert wrong == []


def test_imports_name_the_one_root() -> None:
    """`import compiler` also works from the project's folder, and is another module; relative imports hide the way."""
    wrong = [f"{short(file)} imports {name}" for file in files(*HOUSE, "tests", "bench") for name in imports(file)
             if name.split(".")[0] in (*HOUSE, "")]
    assert wrong == []


def test_grammar_and_specs_hold_no_logic() -> None:
    wrong = [short(file) for file in files("grammar", "specs")
             if file.name != "__init__.py" or any(not isinstance(node, ast.Expr) for node in tree(file).body)]
    assert wrong == []


# how long things are


def test_files_are_short() -> None:
    lengths = {short(file): len(file.read_text(encoding="utf-8").splitlines())
               for file in files("compiler", "backends")}
    assert {name: n for name, n in lengths.items() if n > FILE_LINES} == {}


def functions() -> Iterator[tuple[str, int]]:
    for file in files("compiler", "backends"):
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{short(file)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_are_short() -> None:
    lengths = dict(functions())
    assert {name: n for name, n in lengths.items() if n > FUNCTION_LINES} == {}
    long = {name: n for name, n in lengths.items() if n >= MOSTLY}
    assert len(long) <= len(lengths) / 10, long


def test_classes_have_few_fields() -> None:
    """Twelve at most, those of their bases among them: what belongs together is a record of its own."""
    counted = house.fields(list(built()))
    assert {name: count for name, count in counted.items() if count > house.FIELDS} == {}


# what stands in a file


def test_every_file_says_what_it_is() -> None:
    texts = [file for file in files(*HOUSE, "tests", "bench") if file.read_text(encoding="utf-8").strip()]
    assert [short(file) for file in texts if not ast.get_docstring(tree(file))] == []


def test_functions_say_what_they_do() -> None:
    """Every one that others may call, and every other one of more than ten lines; `bench house` counts them."""
    silent = [one.place for file in built() for one in house.functions(file)
              if not one.described and (one.public or one.lines > house.LONG)]
    assert silent == []


def test_no_code_knows_a_layer_by_name() -> None:
    """A feature is a sentence in the language: the compiler and the back ends have no
    word for one; an integration translates."""
    wrong = [f"{short(file)}:{number}: {line.strip()}" for file in files("compiler", "backends")
             if not within(file, (*EXAMPLES, "compiler/driver/integrations/"))
             for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if FORBIDDEN.search(line)]
    assert wrong == []


def test_a_pyproject_package_for_every_folder() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = {module(file) for file in files(*HOUSE) if file.name == "__init__.py"}
    wanted |= {module(file.parent / "__init__.py") for file in files("compiler", "backends")}
    assert [name for name in sorted(wanted) if f'"{name}"' not in text] == []


# tools


def test_ruff() -> None:
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--output-format", "concise", "."], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy(tmp_path: Path) -> None:
    """Mypy does not follow the editable install, so it gets a view with the package in its one place."""
    view = tmp_path / "einc"
    view.mkdir()
    for entry in (ROOT / "compiler").iterdir():
        (view / entry.name).symlink_to(entry)
    for room in ("backends", "grammar", "specs"):
        (view / room).symlink_to(ROOT / room)
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    command = [sys.executable, "-m", "mypy", *options, "-p", "einc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
