"""The command line: what each subcommand prints, its exit status, and that nothing gives a traceback."""

from __future__ import annotations

import errno
import gc
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

import einc
from einc.checking.edits import apply, certain
from einc.driver import compiling, front
from einc.driver.cli import COMMANDS, main
from einc.driver.commands import explain
from einc.errors.report import Help, Problem, Source, Span
from einc.ir.verify import _require

LINEAR = """index t, s : time(T)
index f : feature(d_model)
index d : feature(d_k)
input X_t^f
weight W_f^d
y_t^d = sum_{s <= t} X_s^f W_f^d
"""
GATHER = """index t, s : time(T)
index v : vocab(0..V-1)
index d : feature(d_k)
dim n
input w_t : int
input c
weight E_v^d
y_t^d = c sum_{s in (t-n, t]} E_{w_s}^d
"""
IMPLICIT = "index t, s : time(T)\ninput A_{t s}, V_s\ny_t = A_{t s} V_s\n"
SAME_LEVEL = "index h : head(H)\nindex t : time(T)\ninput a_{t h}, b_{t h}\ny_t = a_{t h} b_{t h}\n"
STRAY = "index t : time(T)\ninput x_t\ny_t = x_t)\n"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with a few specs."""
    monkeypatch.chdir(tmp_path)
    texts = {"linear": LINEAR, "gather": GATHER, "implicit": IMPLICIT, "same": SAME_LEVEL, "stray": STRAY}
    for name, text in texts.items():
        Path(f"{name}.ein").write_text(text, encoding="utf-8")
    return tmp_path


def einc_(*args: str, status: int = 0) -> Result:
    """The result of a command, which ended with the status and without a traceback."""
    result = CliRunner().invoke(main, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


def error(*args: str) -> str:
    """What a command that fails says, on the stream for it."""
    return einc_(*args, status=1).stderr


# the group


def test_help_lists_every_command() -> None:
    said = einc_("--help").stdout
    assert all(f"  {name}" in said for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    assert "Usage: " in einc_(name, "--help").stdout


def test_version() -> None:
    assert einc.__version__ in einc_("--version").stdout


def test_an_unknown_command_is_a_line() -> None:
    assert "bogus" in einc_("bogus", status=2).stderr


def test_python_m() -> None:
    done = subprocess.run([sys.executable, "-m", "einc", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert einc.__version__ in done.stdout


def test_help_imports_no_command(tmp_path: Path) -> None:
    code = "import sys\nfrom einc.driver.cli import main\nmain(['--help'], standalone_mode=False)\n"
    code += "print([m for m in sys.modules if m.startswith('einc.driver.commands') or m == 'rich'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.rstrip().endswith("[]")


# files that are none


@pytest.mark.parametrize("command", ["check", "compile", "run", "show"])
@pytest.mark.parametrize(("name", "said"), [
    ("nope.ein", "no such file"),
    (".", "is a directory"),
    ("binary.ein", "not UTF-8"),
    ("empty.ein", "nothing to read"),
    ("comment.ein", "no statement"),
    ("large.ein", "characters"),
    ("deep.ein", "nested"),
])
def test_a_file_that_is_no_spec_is_an_error(room: Path, command: str, name: str, said: str) -> None:
    Path("binary.ein").write_bytes(b"index t : time(T)\n\xff\xfe")
    Path("empty.ein").write_text("")
    Path("comment.ein").write_text("# nothing\n")
    Path("large.ein").write_text("# " + "x" * 10_000_000)
    Path("deep.ein").write_text("y = " + "(" * 1000 + "1" + ")" * 1000)
    assert said in error(command, name)


def test_an_unreadable_file_is_an_error(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "permission denied" in error("check", "linear.ein")


# check


def test_check_says_ok(room: Path) -> None:
    result = einc_("check", "linear.ein")
    assert result.stdout == "ok: linear, 1 equation\n"
    assert result.stderr == ""


def test_check_shows_the_text_and_counts(room: Path) -> None:
    result = einc_("check", "implicit.ein", status=1)
    assert result.stdout == ""
    assert "error[E0306]" in result.stderr
    assert "implicit.ein:3:" in result.stderr
    assert "y_t = A_{t s} V_s" in result.stderr
    assert result.stderr.endswith("1 error\n")


def test_check_strict_refuses_warnings(room: Path) -> None:
    result = einc_("check", "same.ein")
    assert "W0301" in result.stderr
    assert "1 warning" in result.stdout
    einc_("check", "same.ein", "--strict", status=1)


def test_check_json(room: Path) -> None:
    page = json.loads(einc_("check", "implicit.ein", "--format", "json", status=1).stdout)
    assert (page["errors"], page["warnings"]) == (1, 0)
    assert page["problems"][0]["code"] == "E0306"
    assert page["problems"][0]["span"]["line"] == 3
    assert json.loads(einc_("check", "linear.ein", "--format",
                            "json").stdout) == {"problems": [], "errors": 0, "warnings": 0}


def test_fix_rewrites_the_file_and_says_so(room: Path) -> None:
    result = einc_("check", "stray.ein", "--fix")
    assert Path("stray.ein").read_text() == STRAY.replace("x_t)", "x_t")
    assert "fixed stray.ein:3:10: remove it (removed `)`)" in result.stdout
    assert "ok: stray" in result.stdout


def test_fix_keeps_line_ends_and_byte_order_mark(room: Path) -> None:
    Path("stray.ein").write_bytes(b"\xef\xbb\xbf" + STRAY.replace("\n", "\r\n").encode())
    einc_("check", "stray.ein", "--fix")
    assert Path(
        "stray.ein").read_bytes() == b"\xef\xbb\xbf" + STRAY.replace("x_t)", "x_t").replace("\n", "\r\n").encode()


def test_fix_leaves_a_good_file_alone(room: Path) -> None:
    before = Path("linear.ein").stat().st_mtime_ns
    assert "fixed" not in einc_("check", "linear.ein", "--fix").stdout
    assert Path("linear.ein").stat().st_mtime_ns == before


def test_fix_in_json(room: Path) -> None:
    page = json.loads(einc_("check", "stray.ein", "--fix", "--format", "json").stdout)
    assert page["errors"] == 0
    assert len(page["fixed"]) == 1


def problem(source: Source, *edits: tuple[int, int, str]) -> Problem:
    return Problem("p", Span(source, 0, 1), helps=tuple(Help("h", Span(source, a, b), new) for a, b, new in edits))


def test_fixes_do_not_overlap_and_leave_choices_alone() -> None:
    source, other = Source("a.ein", "0123456789"), Source("b.ein", "0123456789")
    problems = [
        problem(source, (6, 8, "X")),
        problem(source, (1, 3, "YY")),
        problem(source, (2, 4, "overlaps")),
        problem(source, (1, 3, "YY")),
        problem(source, (5, 5, "one"), (5, 5, "other")),
        problem(source),
        problem(other, (9, 10, "elsewhere")),
        problem(source, (8, 8, "Z")),
    ]
    edits = certain(problems, "a.ein")
    assert apply(source, edits) == "0YY345XZ89"


# compile


def test_compile_prints_a_python_file(room: Path) -> None:
    text = einc_("compile", "linear.ein").stdout
    compile(text, "linear.py", "exec")
    assert "einc" not in [line.split()[1].split(".")[0] for line in text.splitlines()
                          if line.startswith(("import ", "from "))]


def test_compile_writes_a_python_file(room: Path) -> None:
    assert einc_("compile", "linear.ein", "-o", "out.py").stdout == ""
    assert Path("out.py").read_text(encoding="utf-8") == einc_("compile", "linear.ein").stdout


def test_compile_does_not_overwrite_the_spec(room: Path) -> None:
    assert "is the spec itself" in error("compile", "linear.ein", "-o", "./linear.ein")
    assert Path("linear.ein").read_text() == LINEAR


def test_compile_into_no_folder(room: Path) -> None:
    assert "no such file or directory" in error("compile", "linear.ein", "-o", "nowhere/out.py")


def test_compile_of_a_bad_spec_writes_nothing(room: Path) -> None:
    assert "E0306" in error("compile", "implicit.ein", "-o", "out.py")
    assert not Path("out.py").exists()


def test_compile_for_an_unknown_back_end(room: Path) -> None:
    assert "'torch'" in einc_("compile", "linear.ein", "--backend", "abacus", status=2).stderr


# run


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["linear", "gather"])
def test_run_verifies_random_inputs(room: Path, name: str, dtype: str) -> None:
    said = einc_("run", f"{name}.ein", "--dtype", dtype, "--sizes", "T=24,d_k=8", "--verify", "--repeat", "1").stdout
    assert "24 × 8" in said
    assert dtype in said
    assert "time  " in said
    assert "peak memory" in said
    assert "ok (bound" in said


def test_run_of_no_steps_is_empty(room: Path) -> None:
    assert "0 × 64" in einc_("run", "linear.ein", "--sizes", "T=0", "--verify").stdout


def test_run_seeds(room: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        einc_("run", "linear.ein", "--seed", seed, "-o", f"{name}.npz", "--repeat", "1")
    a, b, c = (np.load(f"{name}.npz")["y"] for name in "abc")
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_run_fails_beyond_the_bound(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = front.compile("linear.ein")
    monkeypatch.setattr(compiling, "built", lambda *_, **__: lambda **inputs: right(**inputs) * 1.01)
    assert "TOO FAR" in einc_("run", "linear.ein", "--verify", status=1).stdout
    einc_("run", "linear.ein")


def test_run_asks_no_more_than_rounding_leaves(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates near 1 / 0 make this recurrence lose four digits in eager torch, too; a wrong number is told as before."""
    said = einc_("run", "recurrent/longhorn", "--verify", "--repeat", "1").stdout
    assert re.search(r"error +o: relative .+; ok \(bound .+ relative: 4 times that of eager float32\)", said)
    right = front.compile("recurrent/longhorn")
    monkeypatch.setattr(compiling, "built", lambda *_, **__: lambda **inputs: right(**inputs) * 1.01)
    assert "TOO FAR" in einc_("run", "recurrent/longhorn", "--verify", "--repeat", "1", status=1).stdout


@pytest.mark.parametrize(("value", "status", "said"), [
    ("Q=3", 1, "the sizes that can be given: `T`, `d_model`, `d_k`"),
    ("T", 2, "`T` is not of the form NAME=NUMBER"),
    ("T=-3", 2, "NAME=NUMBER"),
    ("T=1.5", 2, "NAME=NUMBER"),
    ("T=1,T=2", 2, "`T` is given twice"),
])
def test_run_with_bad_sizes(room: Path, value: str, status: int, said: str) -> None:
    assert said in einc_("run", "linear.ein", "--sizes", value, status=status).stderr


def test_run_with_a_size_that_the_spec_fixes(room: Path) -> None:
    Path("fixed.ein").write_text("dim d_k = 8\n" + LINEAR)
    assert "fixed at 8" in error("run", "fixed.ein", "--sizes", "d_k=9")
    assert "256 × 8" in einc_("run", "fixed.ein", "--sizes", "d_k=8", "--repeat", "1").stdout


def gather_data() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {"w": random.integers(0, 5, 10), "c": np.array(2.0), "E": random.normal(size=(5, 4))}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_run_reads_and_writes_data(room: Path, suffix: str) -> None:
    data = gather_data()
    expected = np.stack([2 * sum(data["E"][data["w"][s]] for s in range(max(t - 2, 0), t + 1)) for t in range(10)])
    if suffix == ".npz":
        np.savez("in.npz", **data)
    else:
        save_file({name: torch.from_numpy(array) for name, array in data.items()}, "in.safetensors")
    said = einc_("run", "gather.ein", "--data", f"in{suffix}", "--sizes", "n=3", "-o", f"out{suffix}",
                 "--verify").stdout
    assert f"wrote out{suffix}" in said
    got = np.load("out.npz")["y"] if suffix == ".npz" else load_file("out.safetensors")["y"].numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_run_converts_data(room: Path) -> None:
    np.savez("in.npz", **{**gather_data(), "E": gather_data()["E"].astype(">f4")})
    options = ["--data", "in.npz", "--sizes", "n=3", "--dtype", "bfloat16", "-o", "out.npz", "--verify"]
    assert "bfloat16" in einc_("run", "gather.ein", *options).stdout
    assert np.load("out.npz")["y"].dtype == np.float32


@pytest.mark.parametrize(("change", "said"), [
    ({"E": None}, "has no `E`"),
    ({"extra": np.ones(3)}, "has `extra`, and the spec asks for `w`, `c`, `E`"),
    ({"E": np.ones((5, 4, 1))}, "`E` in in.npz has 3 axes, and"),
    ({"E": np.ones((5, 4), int)}, "`E` in in.npz has elements of type int64"),
    ({"w": np.ones(10)}, "`w` in in.npz has elements of type float64"),
    ({"w": np.ones(10, bool)}, "elements of type bool"),
    ({"E": np.ones((5, 4), complex)}, "elements of type complex128"),
    ({"E": np.array(["a"])}, "no type of torch"),
    ({"E": np.array([None, 1])}, "cannot be read as .npz"),
    ({"w": np.full(10, 99)}, "error"),
])
def test_run_refuses_data_that_does_not_fit(room: Path, change: dict[str, np.ndarray | None], said: str) -> None:
    data = {name: array for name, array in {**gather_data(), **change}.items() if array is not None}
    np.savez("in.npz", **data)  # type: ignore[arg-type]
    assert said in error("run", "gather.ein", "--data", "in.npz", "--sizes", "n=3", "--verify")


def test_run_tells_everything_that_does_not_fit(room: Path) -> None:
    np.savez("in.npz", X=np.ones(3), Z=np.ones(3))
    said = error("run", "linear.ein", "--data", "in.npz")
    assert said.count("error: ") == 3


def test_run_refuses_extents_that_differ(room: Path) -> None:
    np.savez("in.npz", X=np.ones((3, 1)), W=np.ones((4, 2)))
    said = error("run", "linear.ein", "--data", "in.npz")
    assert "d_model" in said
    assert "`W`" in said


def test_run_asks_for_a_size_that_no_tensor_fixes(room: Path) -> None:
    np.savez("in.npz", **gather_data())
    assert "--sizes n=…" in error("run", "gather.ein", "--data", "in.npz")


def test_run_refuses_sizes_that_data_contradict(room: Path) -> None:
    np.savez("in.npz", X=np.ones((3, 4)), W=np.ones((4, 2)))
    assert "`T`" in error("run", "linear.ein", "--data", "in.npz", "--sizes", "T=5")


@pytest.mark.parametrize(("name", "content", "said"), [
    ("nope.npz", None, "no such file"),
    ("nope.safetensors", None, "no such file"),
    ("text.npz", b"hello", "no .npz archive"),
    ("text.safetensors", b"hello", "cannot be read as .safetensors"),
    ("data.csv", b"1,2", "neither in .npz nor in .safetensors"),
])
def test_run_refuses_what_is_no_data_file(room: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    assert said in error("run", "linear.ein", "--data", name)


def test_run_refuses_a_corrupt_archive(room: Path) -> None:
    np.savez("in.npz", X=np.ones((3, 4)), W=np.ones((4, 2)))
    data = bytearray(Path("in.npz").read_bytes())
    data[data.index(b"NUMPY") + 150] ^= 0xFF
    Path("in.npz").write_bytes(bytes(data))
    assert "cannot be read as .npz" in error("run", "linear.ein", "--data", "in.npz")


@pytest.mark.parametrize(("name", "said"), [("out.txt", "neither in .npz"), ("nowhere/out.npz", "there is no folder")])
def test_run_refuses_an_output_before_it_works(room: Path, name: str, said: str) -> None:
    result = einc_("run", "linear.ein", "-o", name, status=1)
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("kind", [ValueError, ZeroDivisionError, OverflowError])
def test_run_tells_what_the_module_refuses(room: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    def refuse(**_: object) -> None:
        raise kind("no")

    monkeypatch.setattr(compiling, "built", lambda *_, **__: refuse)
    assert "the module refused or failed: no" in error("run", "linear.ein")


def test_a_size_that_makes_no_whole_extent(room: Path) -> None:
    Path("half.ein").write_text("index i : feature(d / 2)\nindex e : feature(d)\ninput x^i, z^e\ny^i = x^i\nu^e = "
                                "z^e\n")
    assert "7/2" in error("run", "half.ein", "--sizes", "d=7")


# show and explain


@pytest.mark.parametrize("stage", ["syntax", "typed", "normal", "plan", "source"])
def test_show_prints_every_stage(room: Path, stage: str) -> None:
    assert len(einc_("show", "linear.ein", "--stage", stage).stdout) > 20


def test_show_explicit(room: Path) -> None:
    assert len(einc_("show", "linear.ein", "--stage", "typed", "--explicit").stdout) > 20
    assert "--explicit is for the stages typed and normal" in error(
        "show", "linear.ein", "--stage", "plan", "--explicit")


def test_show_a_plan_with_numbers(room: Path) -> None:
    plain = einc_("show", "linear.ein", "--stage", "plan").stdout
    numbers = einc_("show", "linear.ein", "--stage", "plan", "--sizes", "T=128,d_model=64,d_k=32").stdout
    assert plain != numbers
    assert "the sizes that can be given" in error("show", "linear.ein", "--stage", "plan", "--sizes", "Q=1")
    assert "--sizes is for the stage plan" in error("show", "linear.ein", "--sizes", "T=1")


def test_show_a_plan_in_full(room: Path) -> None:
    short = einc_("show", "linear.ein", "--stage", "plan").stdout
    full = einc_("show", "linear.ein", "--stage", "plan", "--full").stdout
    assert "Σ_{" in full and "Σ_{" not in short
    assert "--full is for the stage plan" in error("show", "linear.ein", "--full")


def test_show_of_a_bad_spec(room: Path) -> None:
    assert "E0102" in error("show", "stray.ein", "--stage", "syntax")
    assert "E0306" in error("show", "implicit.ein", "--stage", "typed")


def test_explain_lists_every_code() -> None:
    assert [line.split()[0] for line in einc_("explain").stdout.splitlines()] == sorted(Problem.registry)


@pytest.mark.parametrize("code", sorted(Problem.registry))
def test_explain_teaches_every_code(code: str) -> None:
    kind = Problem.registry[code]
    said = einc_("explain", code).stdout
    assert said.startswith(f"{code}: {kind.title}\n")
    assert " ".join(kind.explanation.split()[:5]) in said
    read = bool(kind.example) and kind.example_name.endswith(".ein")
    assert not read or f"[{code}]" in said, "the example gives the message"


def test_explain_reads_a_code_as_it_is_pasted() -> None:
    assert explain.page(Problem.registry["E0306"]) == einc_("explain", "[e0306]").stdout.rstrip("\n")


def test_explain_of_an_unknown_code_lists_near_ones() -> None:
    said = error("explain", "E306")
    assert "there is no error `E306`" in said
    assert "E0306" in said
    assert "`einc explain` lists all codes" in error("explain", "zzz")


@pytest.fixture
def faulty(room: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, where a command that reads a text meets a fault of einc."""
    def broken(*_: object, **__: object) -> None:
        raise KeyError("no such\nplace")

    monkeypatch.delenv("EINC_TRACEBACK", raising=False)
    monkeypatch.setattr(compiling, "plan", broken)
    return room


def test_a_fault_of_einc_is_told_with_a_way_to_report_it(faulty: Path) -> None:
    said = einc_("show", "linear.ein", "--stage", "plan", status=70).stderr
    assert said.startswith("error: a fault of einc, not of the text: KeyError at line ")
    assert "'no such\\nplace'" in said and "driver/" in said
    assert "note: the command was `einc show linear.ein --stage plan`" in said
    urls = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert f"report it at {urls['Issues']} with this command, linear.ein and what `einc doctor` prints" in said


def test_a_fault_of_einc_shows_its_traceback_where_that_is_asked_for(
        faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINC_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(main, ["show", "linear.ein", "--stage", "plan"]).exception, KeyError)


def test_a_plan_that_breaks_a_rule_is_a_fault_of_einc(faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "plan", lambda *_, **__: _require(False, "nothing is made"))
    said = einc_("show", "linear.ein", "--stage", "plan", status=70).stderr
    assert ": the plan breaks a rule that back ends rely on: nothing is made\n" in said and said.count("error") == 1


def test_how_often_garbage_is_looked_for_is_as_before() -> None:
    before = gc.get_threshold()
    einc_("check", "sdpa")
    assert gc.get_threshold() == before
