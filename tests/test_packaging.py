"""The wheel holds everything, the top level is the floor plan's, and starting is light."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import einc

ROOT = Path(__file__).parent.parent
ROOMS = {"compiler": "einc", "backends": "einc/backends", "grammar": "einc/grammar", "specs": "einc/specs"}
TOP_LEVEL = {*ROOMS, "tests", "bench", "pyproject.toml", "README.md", "LICENSE", "constraints.txt"}
HEAVY = ("torch", "triton", "sympy", "numpy")

# Modules for which a library of an extra is needed, which may not be installed.
EXTRAS = {"einc.driver.integrations.language_server": "pygls", "einc.driver.integrations.protocol": "pygls"}
IMPORT_ALL = f"EXTRAS = {EXTRAS}\n" + """
import importlib, importlib.resources, importlib.util, json, sys
from pathlib import Path
room = Path(sys.argv[1])
sys.path.insert(0, str(room))
out = {"modules": [], "texts": 0}
for file in sorted(room.rglob("*.py")):
    parts = file.relative_to(room).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if name in EXTRAS and importlib.util.find_spec(EXTRAS[name]) is None:
        continue
    module = importlib.import_module(name)
    assert Path(module.__file__) == file, (module.__file__, file)
    out["modules"].append(module.__name__)
for file in sorted([*room.rglob("*.ein"), *room.rglob("*.lark")]):
    package, *inner = [".".join(file.relative_to(room).parts[:2]), *file.relative_to(room).parts[2:]]
    assert importlib.resources.files(package).joinpath(*inner).read_text(encoding="utf-8"), file
    out["texts"] += 1
print(json.dumps(out))
"""


def python(*args: str, cwd: Path) -> str:
    """What a fresh interpreter prints, run away from the project's folder."""
    done = subprocess.run([sys.executable, *args], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built without a network from a copy, so that nothing an earlier build left gets in."""
    room = tmp_path_factory.mktemp("wheel")
    copy = room / "project"
    for name in TOP_LEVEL - {"tests", "bench"}:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(room), str(copy), cwd=room)
    return zipfile.ZipFile(next(room.glob("*.whl")))


def test_the_wheel_holds_every_file_of_the_rooms(wheel: zipfile.ZipFile) -> None:
    wanted = {f"{inside}/{file.relative_to(ROOT / room).as_posix()}" for room, inside in ROOMS.items()
              for pattern in ("*.py", "*.ein", "*.lark", "py.typed") for file in (ROOT / room).rglob(pattern)}
    assert sorted(wanted - set(wheel.namelist())) == [], "pyproject.toml lists the packages by hand"
    assert len(wanted) > 20
    pages = {f"einc/{path}" for path in ("documents/page.css", "driver/playground/page.css",
                                         "driver/playground/page.html", "driver/playground/page.js")}
    assert pages - set(wheel.namelist()) == set()
    assert "einc/grammar/README.md" in wheel.namelist(), "the reference that errors cite comes with the package"


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    roots = {name.split("/")[0] for name in wheel.namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"einc"}


def test_every_module_of_the_wheel_imports(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "room")
    found = json.loads(python("-c", IMPORT_ALL, str(tmp_path / "room"), cwd=tmp_path))
    assert {"einc", "einc.driver.cli", "einc.driver.commands.check", "einc.backends.torch"} <= set(found["modules"])
    assert found["texts"] >= 2


def test_the_top_level_is_the_floor_plan() -> None:
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    found = {name for name in found if not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)}
    assert found == TOP_LEVEL


def test_the_project_says_where_it_is_and_which_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == einc.__version__
    assert f"### {einc.__version__}" in (ROOT / "compiler/README.md").read_text(encoding="utf-8")
    assert {"Homepage", "Documentation", "Changelog"} <= project["urls"].keys()
    assert project["keywords"] and "Typing :: Typed" in project["classifiers"]


def test_every_dependency_is_pinned() -> None:
    pinned = [line.split("==")[0] for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
              if "==" in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (entry for extra in project["optional-dependencies"].values() for entry in extra)
    needed = [re.split("[<>=;]", entry)[0] for entry in (*project["dependencies"], *extras)]
    assert len(needed) > 10
    assert {plain(name) for name in needed} - {plain(name) for name in pinned} == set()


def plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def loaded(code: str, cwd: Path) -> list[str]:
    """The heavy modules that a piece of code loads."""
    text = python("-c", f"import sys\n{code}\nprint(*(m for m in {HEAVY!r} if m in sys.modules))", cwd=cwd)
    return text.split("\n")[-2].split()


def test_import_is_light(tmp_path: Path) -> None:
    assert loaded("import einc; assert einc.__version__", tmp_path) == []


def test_check_is_light(tmp_path: Path) -> None:
    (tmp_path / "s.ein").write_text("index t : time(T)\ninput x_t\ny_t = 2 x_t\n", encoding="utf-8")
    assert loaded("from einc.cli import main\nmain(['check', 's.ein'], standalone_mode=False)", tmp_path) == []


def test_compile_loads_no_framework(tmp_path: Path) -> None:
    (tmp_path / "s.ein").write_text("index t : time(T)\ninput x_t\ny_t = 2 x_t\n", encoding="utf-8")
    assert set(loaded("from einc.cli import main\nmain(['compile', 's.ein'], standalone_mode=False)",
                      tmp_path)) <= {"numpy"}


def test_the_front_door_is_functions_whatever_is_imported(tmp_path: Path) -> None:
    """A function may have the name that a module had: importing that module is an error, and the function stays."""
    code = "import einc\ntry: import einc.interpret\n"
    code += "except ModuleNotFoundError as error: assert 'einc.meaning.interpret' in str(error)\n"
    code += "import einc.meaning.interpret, einc.front\n"
    code += "print(*(callable(getattr(einc, name)) for name in einc.__all__ if name != '__version__'))"
    assert set(python("-W", "ignore", "-c", code, cwd=tmp_path).split()) == {"True"}
