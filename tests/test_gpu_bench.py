"""What is carried to a GPU, without one: the prepared folder by itself on tiny sizes in Triton's interpreter, the
supervisor with a clock and processes that are told what to do, the report from figures that are given."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from click.testing import CliRunner

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

from bench import gpu, gpu_report, record
from bench.carried import cases, clock, cubins, run, supervise, warm
from bench.carried.record import Record
from bench.carried.tiles import Carried, PastError, worth
from bench.stub import kernels, space, stubbed
from einc.backends.triton.load import load
from einc.driver.timing.judge import judge

ROOT = Path(__file__).parent.parent

# The folder's own main with a clock that counts: every sample is a thousandth more than the one before, and each
# reading of
# the time a hundredth later.
DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
import run

class Counted:
    reading = taken = 0
    def now(self):
        self.reading += 1
        return self.reading / 100
    def sample(self, call):
        call()
        self.taken += 1
        return self.taken / 1000
    whole = sample
    def captured(self, call):
        return call

print([name for name in sys.modules if name.split(".")[0] in ("einc", "lark", "click", "rich")])
sys.exit(run.main(sys.argv[2:], folder=run.folder, clock=Counted()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("prepared")
    done = CliRunner().invoke(gpu.main, ["prepare", str(found)])
    assert done.exit_code == 0, done.output
    return found


def carried(folder: Path, out: Path, *words: str, driver: bool = True) -> subprocess.CompletedProcess[str]:
    """The prepared folder in a process that finds nothing of this project beside it."""
    head = ["-c", DRIVER, str(folder)] if driver else [str(folder / "run.py")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TRITON_INTERPRET": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OUT": str(out)}
    command = [sys.executable, *head, "--device", "cpu", "--tiny", *words]
    return subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)


# what is carried


def test_what_is_carried_imports_torch_and_triton_alone(folder: Path) -> None:
    allowed = {"torch", "triton", "bench", *sys.stdlib_module_names}
    files = sorted(folder.rglob("*.py"))
    assert {file.stem for file in files if file.parent.name == "kernels"} == {case.kernel for case in cases.CASES}
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name.split(".")[0] for name in found} <= allowed, file.name
        inner = {name for name in found if name.split(".")[0] == "bench"}
        assert all((folder / f"{name.replace('.', '/')}.py").exists() for name in inner if name != "bench"), file.name


@pytest.mark.whole
def test_what_was_prepared_before_is_replaced(folder: Path) -> None:
    (folder / "kernels" / "old.py").write_text("", encoding="utf-8")
    gpu.prepare(folder)
    assert not (folder / "kernels" / "old.py").exists()


def test_names_of_cases_differ() -> None:
    assert len(cases.BY_NAME) == len(cases.CASES)


# a run


@pytest.mark.whole
def test_a_run_checks_tries_tiles_and_times(folder: Path, tmp_path: Path) -> None:
    names = ("causal-8192", "mla-decode-16384", "cross-entropy-4096", "retention-16384", "paged-16384")
    done = carried(folder, tmp_path, "--part", "measure", *(word for name in names for word in ("--case", name)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("[]\n"), "the project is not imported"
    rows = record.read(tmp_path / "gpu.jsonl")
    assert [row["name"] for row in rows if row["kind"] == "gpu-end"] == list(names)
    assert {row["status"] for row in rows if row["kind"] == "gpu" and row["rival"].startswith("einc")} == {"ok"}
    by = {row["rival"]: row for row in rows if row["kind"] == "gpu" and row["case"] == "causal"}
    assert by["flex"]["note"] == "is compiled on a GPU alone"
    assert by["sdpa"]["status"] == "ok"
    assert by["einc"]["tiles"]["Y"]
    assert set(by["einc"]["ratios"]) == {"sdpa", "sdpa-flash"}
    assert all(by[name]["eager"] > 0 and by[name]["graph"] > 0 for name in ("einc", "sdpa"))
    assert by["einc"]["clocks"] == {} and {"cuda", "triton", "torch"} <= by["einc"]["machine"].keys()
    tiles = [row for row in rows if row["kind"] == "gpu-tile" and row["case"] == "causal"]
    assert [row["own"] for row in tiles] == [True, False]
    assert all(row["seconds"] > 0 and row["tile"] for row in tiles)
    assert [set(row["flops"]) for row in rows if row["kind"] == "gpu-ceiling"] == [{"bfloat16", "float32"}]


@pytest.mark.whole
def test_the_whole_path(folder: Path, tmp_path: Path) -> None:
    """Processes that fill caches, one that measures: kernels that are wrong or raise are told, and the rest goes on."""
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    for kernel, before, after in (("window", "Y2 = ", "Y2 = 1.5 * "), ("full", "tl.exp2(", "tl.no_such(")):
        file = broken / "kernels" / f"{kernel}.py"
        text = file.read_text(encoding="utf-8")
        assert before in text
        file.write_text(text.replace(before, after), encoding="utf-8")
    words = [word for name in ("window-8192", "full-4096", "rotary-8192") for word in ("--case", name)]
    done = carried(broken, tmp_path, *words, "--workers", "1", driver=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warm 0/1:" in done.stdout
    rows = [row for row in record.read(tmp_path / "gpu.jsonl") if row["kind"] == "gpu" and row["rival"] == "einc"]
    assert [(row["case"], row["status"]) for row in rows] == [("window", "wrong"), ("full", "failed"), ("rotary", "ok")]
    assert "no_such" in rows[1]["note"]


@pytest.mark.whole
def test_three_calls_measure_everything_and_go_on_where_they_ended(folder: Path, tmp_path: Path) -> None:
    """Each case is of one call. What an earlier call ended is left out; the first call checks all kernels before."""
    assert sorted(name for names in cases.CALLS.values() for name in names) == sorted(cases.BY_NAME)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    ended = Record(tmp_path / "gpu.jsonl", manifest["commit"], {})
    for name in cases.CALLS[2]:
        if name != "softcap-8192":
            ended.write("gpu-end", name=name)
    done = carried(folder, tmp_path, "--call", "2", "--workers", "0", driver=False)
    assert done.returncode == 0, done.stdout + done.stderr
    begun = [row["name"] for row in record.read(tmp_path / "gpu.jsonl") if row["kind"] == "gpu-begin"]
    assert begun == ["softcap-8192"]


@pytest.mark.whole
def test_all_kernels_are_checked_before_anything_is_timed(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    file = broken / "kernels" / "window.py"
    text = file.read_text(encoding="utf-8")
    assert "Y2 = " in text
    file.write_text(text.replace("Y2 = ", "Y2 = 1.5 * "), encoding="utf-8")
    words = [word for name in ("window-8192", "rotary-8192") for word in ("--case", name)]
    done = carried(broken, tmp_path, "--part", "check", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = [row for row in record.read(tmp_path / "gpu.jsonl") if row["kind"] == "gpu-check"]
    assert [(row["case"], row["status"]) for row in rows] == [("window", "wrong"), ("rotary", "ok")]


@pytest.mark.whole
def test_without_a_gpu_the_command_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, str(folder / "run.py"), "--device", "cpu"], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "set TRITON_INTERPRET=1" in done.stderr


def test_every_case_has_the_exact_answer_of_eager_torch(tmp_path: Path) -> None:
    """The references of what only GPUs are asked agree with the ways that a person writes."""
    place = run.Place(tmp_path, {}, torch.device("cpu"), clock.HostClock(), Record(tmp_path, "", {}), 0.0, True)
    for case in cases.CASES:
        if "eager" not in case.rivals or case.case.name == "decode":
            continue
        ready = run.prepared(place, case.shrunk())
        far = judge(case.case.picked(case.case.eager(ready.task).call(), ready.rows), ready.exact, ready.eager,
                    "float32")
        assert far.error < 1e-6, case.name


def test_a_result_is_held_against_eager_torch() -> None:
    exact = torch.linspace(1, 2, 100, dtype=torch.float64)
    eager = exact.float() * (1 + 1e-6)
    assert judge(exact.float(), exact, eager, "float32").status == "ok"
    near = judge(exact.float() * (1 + 5e-6), exact, eager, "float32")
    assert (near.status, near.note[:13]) == ("inexact", "largest error")
    assert judge(exact.float() * 1.1, exact, eager, "float32").status == "wrong"
    assert judge(exact.float() * float("nan"), exact, eager, "float32").note == "holds what is not a number"
    assert judge(exact.float()[:3], exact, eager, "float32").status == "wrong"
    half = exact.bfloat16()
    assert judge(half, exact, half, "bfloat16").beside == 1.0


def test_tiles_are_tried_and_held(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text("""
_PRODUCTS = ((128, 128, 8, 2), (64, 64, 4, 3))
_POINTS = ((1024, 1, 4, 1), (16, 1, 4, 1))
def _fitting(shapes, rows, columns, device, registers):
    return (x for x in shapes if x[0] <= rows and registers(x[0], x[1]) < 10000)
def _tile(name, shapes, rows, columns, device, registers):
    return next(_fitting(shapes, rows, columns, device, registers))
def made(rows):
    _tile("before", _POINTS, 16, 1, None, registers=lambda rows, columns: 1)
    return _tile("Y", _PRODUCTS, rows, 64, None, registers=lambda rows, columns: rows * columns)
""", encoding="utf-8")
    module = Carried(file, "made")
    assert module(rows=64) == (64, 64, 4, 3)
    assert module.kernels() == ["Y", "before"]
    assert module.seen["before"] == ((16, 1, 4, 1),)
    assert module.seen["Y"][:2] == ((64, 64, 4, 3), (64, 128, 4, 3)), "its own, then the largest"
    assert {tile[0] for tile in module.seen["Y"]} == {64, 32, 16}
    assert (16, 32, 4, 4) in module.seen["Y"]
    assert worth((128, 128, 8, 2),
                 [(16, 64, 4, 2), (16, 256, 8, 3), (32, 64, 4, 3)]) == ((128, 128, 8, 2), (32, 64, 4, 3))
    module.held = {"Y": (64, 64, 4, 2)}
    assert module(rows=64) == (64, 64, 4, 2)
    module.turn = 1
    assert module(rows=64) == (64, 128, 4, 3), "a kernel that has no other tile keeps its own"
    module.turn = len(module.seen["Y"])
    with pytest.raises(PastError):
        module(rows=64)


def test_each_part_of_the_warming_is_done_once() -> None:
    kept = warm.unlike(cases.CASES)
    assert [case.name for case in kept
            if case.kernel == "causal"] == ["causal-8192", "causal-8192-d64", "causal-4096-float32"]


def test_rounds_are_interleaved_and_fit_their_time() -> None:
    order: list[str] = []

    class Fixed(clock.HostClock):
        def sample(self, call: clock.Call) -> float:
            call()
            return 0.1

    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    taken = clock.interleaved(Fixed(), calls, 2.0)
    assert {name: len(times) for name, times in taken.items()} == {"a": 10, "b": 10}
    assert "".join(order[2:8]) == "abbaab"
    assert len(clock.interleaved(Fixed(), calls, 0.1)["a"]) == 2, "slow calls get fewer rounds"


def test_a_device_is_timed_by_its_own_events_after_the_cache_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            done.append("record")

        def synchronize(self) -> None:
            done.append("synchronize")

        def elapsed_time(self, other: Event) -> float:
            return 2.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: done.append("sleep") if cycles > 0 else None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: done.append("wait"))
    monkeypatch.setattr(clock, "FLUSHED", 8)
    device = clock.DeviceClock(torch.device("cpu"))
    device.junk.fill_(1)
    assert device.sample(lambda: done.append(f"call, {int(device.junk.sum())} left")) == 0.002
    assert done == ["sleep", "record", "call, 0 left", "record", "synchronize"], "the host runs ahead meanwhile"
    done.clear()
    device.junk.fill_(1)
    assert device.whole(lambda: done.append(f"call, {int(device.junk.sum())} left")) == 0.002
    assert done == ["wait", "record", "call, 0 left", "record", "synchronize"], "the host begins with the device"


def test_a_device_that_answers_nothing_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("illegal memory access")

    place = run.Place(tmp_path, {}, torch.device("cpu"), clock.HostClock(), Record(tmp_path / "x", "", {}), 0.0, True)
    monkeypatch.setattr(run, "measure", fails)
    assert not run.attempt(place, clock.Ceilings({}, 1.0), cases.CASES[0], "a", 1.0)
    monkeypatch.setattr(run, "finish", fails)
    with pytest.raises(run.LostError, match="illegal memory access"):
        run.attempt(place, clock.Ceilings({}, 1.0), cases.CASES[0], "b", 1.0)
    kinds = [(row["kind"], row.get("name")) for row in record.read(tmp_path / "x")]
    assert kinds == [("gpu-begin", "a"), ("gpu", None), ("gpu-end", "a"), ("gpu-begin", "b"), ("gpu", None)]


# machine code


@dataclass
class Library:
    """In place of NVIDIA's driver: notes what it is asked for."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *given: self.asked.append((name, *given)) or 0  # type: ignore[func-returns-value]


@pytest.mark.whole
def test_machine_code_of_here_is_started_through_the_driver(tmp_path: Path) -> None:
    """Compiled by this Triton, started as any kernel of the module is: with its programs, threads, shared memory, and
    the arguments that the code reads, in order."""
    done = CliRunner().invoke(gpu.main, ["prepare", str(tmp_path), "--carry", "sm_90", "--case", "causal-512"])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["compiled"] == {"triton": triton.__version__, "target": "sm_90"}
    assert {row["kernel"] for row in manifest["cubins"]} == {"_Y_kernel", "_Y_join"}
    assert sum(row["kernel"] == "_Y_kernel" for row in manifest["cubins"]) == 2, "alone, and with others"
    source = (tmp_path / "kernels" / "causal.py").read_text(encoding="utf-8")
    function, library = load(source, manifest["entries"]["causal"]), Library()
    case = cases.BY_NAME["causal-512"]
    q, k, v = (torch.zeros([case.sizes[name] for name in "BHTD"], dtype=torch.bfloat16) for _ in range(3))
    with stubbed(function) as noted:
        function(Q=q, K=k, V=v)
        (want,) = noted.launched
        names = SimpleNamespace(**{name: kernel for name, kernel in kernels(function).items()})
        rows = [row for row in manifest["cubins"] if row["module"] == "causal"]
        cubins.load(names, rows, tmp_path, cubins.Driver(library))
        space(function).update(vars(names))
        function(Q=q, K=k, V=v)
    told = [name for name, *_ in library.asked]
    assert told == ["cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel"]
    (row,) = [row for row in rows if row["symbol"].encode() == library.asked[1][3] and row["kernel"] == want.kernel
              and "SHARED=False" in row["key"]]
    _, _, programs, _, _, threads, _, _, shared, _, places, _ = library.asked[-1]
    assert (programs, threads, shared) == (want.grid[0], row["threads"], row["shared"])
    read = [(p, x) for p, x in zip(names._Y_kernel.parameters, want.arguments, strict=True) if not p.is_constexpr]
    read = [(p, x) for p, x in read if x is not None and (p.do_not_specialize or isinstance(x, torch.Tensor) or x != 1)]
    sent = cubins.packed(*zip(*read, strict=True))
    assert [x.value for x in sent] == [x.data_ptr() if isinstance(x, torch.Tensor) else x for _, x in read] + [None] * 2
    assert len(places) == len(sent) > 20
    assert ("T", 512) in [(p.name, x) for p, x in read]
    odd = q.flatten()[1:].view(torch.bfloat16)
    with pytest.raises(cubins.MissingError, match="_Y_kernel"):
        names._Y_kernel[(1,)](odd)


# the supervisor


@dataclass
class Time:
    """A clock that only waiting moves."""

    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Told:
    """A process that does one thing after another as the time goes on, and ends after the last."""

    time: Time
    doing: list[tuple[float, Callable[[], None]]]
    killed: bool = False
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.time.now()

    def poll(self) -> int | None:
        while self.doing and self.time.now() - self.began >= self.doing[0][0]:
            self.doing.pop(0)[1]()
        return 0 if self.killed or not self.doing else None

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def world(tmp_path: Path) -> tuple[Time, Path, list[list[str]]]:
    return Time(), tmp_path / "gpu.jsonl", []


def tell(file: Path, kind: str, name: str) -> Callable[[], None]:
    def write() -> None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"kind": kind, "name": name}) + "\n")

    return write


def supervised(world: tuple[Time, Path, list[list[str]]],
               steps: Callable[[list[str]], list[tuple[float, Callable[[], None]]]],
               budget: float, names: list[str], workers: int = 0) -> list[str]:
    time, file, started = world

    def start(words: list[str]) -> Told:
        started.append(words)
        return Told(time, steps(words))

    return supervise.Supervisor(start, time.now, time.wait, file, budget).run(names, workers)


def names_of(words: list[str]) -> list[str]:
    return [words[n + 1] for n, word in enumerate(words) if word == "--case"]


def test_a_case_that_ends_the_process_is_left_out_of_the_next(world: tuple[Time, Path, list[list[str]]]) -> None:
    _, file, started = world

    def steps(words: list[str]) -> list[tuple[float, Callable[[], None]]]:
        out: list[tuple[float, Callable[[], None]]] = []
        for n, name in enumerate(names_of(words)):
            out.append((10.0 * n + 5, tell(file, "gpu-begin", name)))
            if name == "b":
                return out
            out.append((10.0 * n + 9, tell(file, "gpu-end", name)))
        return out

    assert supervised(world, steps, 440, ["a", "b", "c"]) == ["b"]
    assert [names_of(words) for words in started] == [["a", "b", "c"], ["c"]]


def test_a_case_that_hangs_is_given_up(world: tuple[Time, Path, list[list[str]]]) -> None:
    time, file, started = world

    def steps(words: list[str]) -> list[tuple[float, Callable[[], None]]]:
        (first, *_) = names_of(words)
        return [(1, tell(file, "gpu-begin", first)), (1e9 if first == "a" else 2, tell(file, "gpu-end", first)),
                (3, lambda: None)]

    assert supervised(world, steps, 440, ["a", "b"]) == ["a"]
    assert len(started) == 2
    assert time.now() < supervise.START + supervise.STUCK + 10


def test_the_budget_ends_a_run(world: tuple[Time, Path, list[list[str]]]) -> None:
    time, file, started = world
    steps = [(1.0, tell(file, "gpu-begin", "a")), (1e9, tell(file, "gpu-end", "a"))]
    missed = supervised(world, lambda words: steps, 60, ["a", "b"])
    assert missed == ["a", "b"]
    assert time.now() < 62
    assert len(started) == 1


def test_processes_that_begin_nothing_are_not_started_for_ever(world: tuple[Time, Path, list[list[str]]]) -> None:
    assert supervised(world, lambda words: [(1, lambda: None)], 440, ["a"]) == ["a"]
    assert len(world[2]) == 2


def test_caches_are_filled_in_their_part_of_the_budget(world: tuple[Time, Path, list[list[str]]]) -> None:
    time, file, started = world

    def steps(words: list[str]) -> list[tuple[float, Callable[[], None]]]:
        return ([(1e9, lambda: None)] if "warm" in words
                else [(1, tell(file, "gpu-begin", "a")), (2, tell(file, "gpu-end", "a"))])

    assert supervised(world, steps, 100, ["a"], workers=3) == []
    assert [words[words.index("--share") + 1] for words in started[:3]] == ["0/3", "1/3", "2/3"]
    assert time.now() < 36


# the report


MACHINE = {"gpu": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0", "python": "3.12.3"}


def figures() -> list[record.Row]:
    place = {"case": "causal", "sizes": {"B": 4, "H": 16, "T": 8192, "D": 128}, "dtype": "bfloat16"}
    tail = {"commit": "x", "date": "2026-11-20T12:00Z", "machine": MACHINE}
    flops, moved = 2**40, 2**29
    timed = {"status": "ok", "note": "", "fastest": 2e-3, "rounds": 30, "flops": flops, "bytes": moved, "error": 2e-3}
    tile = {**place, "kind": "gpu-tile", "kernel": "Y", "status": "ok", "note": "", "n_regs": 255, "n_spills": 4,
            **tail}
    return [
        {"kind": "gpu-ceiling", "flops": {"bfloat16": 7.9e14, "float32": 5e13}, "bytes": 4.3e12, **tail},
        {"kind": "gpu", **place, "rival": "einc", "seconds": 3e-3, **timed, "ratios": {"sdpa-flash": 0.6, "flex": 0.9},
         "eager": 3.1e-3, "uncaptured": "RuntimeError: no", **tail},
        {"kind": "gpu", **place, "rival": "einc-tuned", "seconds": 2.5e-3, **timed,
         "ratios": {"sdpa-flash": 0.75, "flex": 1.1}, **tail},
        {"kind": "gpu", **place, "rival": "sdpa-cudnn", "status": "failed", "note": "RuntimeError: a | b", **tail},
        {**tile, "rival": "Y 128 128 8 2", "tile": [128, 128, 8, 2], "own": True, "seconds": 3e-3},
        {**tile, "rival": "Y 128 64 4 3", "tile": [128, 64, 4, 3], "own": False, "seconds": 2.5e-3},
        {"kind": "gpu-begin", "name": "causal-8192", **tail},
    ]


def test_figures_become_a_page(tmp_path: Path) -> None:
    found = tmp_path / "found.jsonl"
    found.write_text("".join(json.dumps(row) + "\n" for row in figures()), encoding="utf-8")
    for _ in range(2):  # the same figures again take the place of the old ones
        done = CliRunner().invoke(gpu.main, ["report", str(found), "--out", str(tmp_path)])
        assert done.exit_code == 0, done.output
    assert len(record.read(tmp_path / "gpu.jsonl")) == len(figures()) - 1
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert page == gpu_report.markdown(record.read(tmp_path / "gpu.jsonl"))
    row = ("| causal | B4 H16 T8192 D128 | bfloat16 | 3 ms | 3.1 ms | – | 367 TF/s | 46% | 1.20 |  | 0.60 | failed |  "
           "| 0.90 |  |  |  |  |")
    assert row in page
    assert "790 TF/s of a product of 8192² in bfloat16, 50 TF/s in float32, 4.30 TB/s of a copy" in page
    assert "| Y | 128×128 8w 2s | 128×64 4w 3s | 2.5 ms | 1.20 | 255, 4 spilled | 128×128 8w 2s 3 ms |" in page
    assert "| sdpa-cudnn | failed | RuntimeError: a / b |" in page
    assert "causal" in done.output
    assert CliRunner().invoke(gpu.main, ["report", "--out", str(tmp_path / "none")]).exit_code == 1


def _around(page: str) -> str:
    """A page without its tables of GPUs."""
    begin = page.find(gpu_report.MARK)
    return page if begin < 0 else page[:begin] + page[page.index("## Tuning\n"):]


def test_one_command_writes_the_tables_into_a_page(tmp_path: Path) -> None:
    found, readme = tmp_path / "found.jsonl", tmp_path / "README.md"
    found.write_text("".join(json.dumps(row) + "\n" for row in figures()), encoding="utf-8")
    text = (ROOT / "backends" / "README.md").read_text(encoding="utf-8")
    readme.write_text(text, encoding="utf-8")
    for _ in range(2):  # again: the same page
        words = ["report", str(found), "--out", str(tmp_path), "--page", str(readme)]
        assert CliRunner().invoke(gpu.main, words).exit_code == 0
        page = readme.read_text(encoding="utf-8")
        assert page.count("| causal | B4 H16 T8192 D128 |") == page.count(gpu_report.MARK) == 1
        assert _around(page) == _around(text)
    readme.write_text("# No place", encoding="utf-8")
    assert CliRunner().invoke(gpu.main, words).exit_code == 1
