"""For every test: one thread per worker, the same examples in every run, which tests run, and in which order.

`pytest` runs a fixed draw, which is to take five minutes on two quiet cores; `pytest --whole` runs all, and with K/N
one share of what is left out. Four things leave a test out, and each keeps some of its kind: what it costs, by
`costs.py`, for every test that is dear; `@pytest.mark.whole`; `@pytest.mark.drawn(every, first=0)`, for a function
with many parameters; and in tests over all programs the arguments `few` and `every` of `helpers.each`, where
`programs.DRAWN` are the programs that all of these share, so that each is compiled once. The first and the third leave
out nothing that caught a bug when `python -m bench mutants` ran last, and nothing that has the mark `always`. `--cpu`
prints where the time goes. A function that the command line names runs whatever it costs.

Without `--whole` kernels of C++ are compiled without optimisation: they mean the same, and an eighth of the time is
needed for each. The shares of the slow tests compile as users do.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import costs
import pytest
import torch
from compilers import unoptimised
from helpers import typed
from hypothesis import settings
from programs import Case
from seconds import Seconds
from team import Team

sys.path.append(str(Path(__file__).parent.parent))  # the bench and the tests are no part of the package
torch.set_num_threads(1)
# numpy has its own threads: those of the workers, which start after this
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("EINC_TRACEBACK", "1")  # a fault of einc is no status of a command in a test
# Workers and the processes of tests keep what they compile of Python, as they do unless told otherwise
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples in every run: a red run is about the change at hand. `--hypothesis-seed=…` looks further.
settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")

Share = tuple[int, int]
CHECKED = pytest.StashKey[int]()  # how many programs were checked before the first test


def share(text: str) -> Share:
    """`K/N` as two numbers, 1 ≤ K ≤ N."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--whole takes a share K/N, 1 ≤ K ≤ N, or nothing, and not `{text}`: write paths "
                                f"before it")
    return int(part), int(parts)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true",
                     help="write what is found as the golden text of each stage")
    parser.addoption("--whole", nargs="?", const="all", metavar="K/N",
                     help="run the tests marked `whole` too; with K/N, those of them that fall into share K of N and "
                          "no others")
    parser.addoption("--cpu", nargs="?", const="", metavar="FILE",
                     help="print CPU seconds by file; write each test's to FILE")
    parser.addoption("--update-costs", action="store_true",
                     help="write what the tests that run cost into tests/costs.txt, which says how many always run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: runs with `--whole` alone, beside others of its kind that always run")
    config.addinivalue_line("markers", "drawn(every, first=0): of its parameters one of `every` so many always runs, "
                                       "counted from `first`, and the others with `--whole`")
    config.addinivalue_line("markers", "always: runs without `--whole` whatever it costs, drawn or not")
    if config.getoption("--whole") not in (None, "all"):
        share(config.getoption("--whole"))
    if config.getoption("--cpu") is not None or config.getoption("--update-costs"):
        config.pluginmanager.register(Seconds(config, config.getoption("--cpu") or ""))
    if config.getoption("--whole") is None and not hasattr(config, "workerinput"):  # workers inherit what is set here
        unoptimised(config)


def chosen(name: str, marked: bool, asked: str | None) -> bool:
    """Whether a test runs, by its name, whether it is marked `whole`, and the value of `--whole`.

    A share is chosen by a hash of the name, so a test stays in its share whatever is added beside it.
    """
    if asked in (None, "all"):
        return asked == "all" or not marked
    part, parts = share(asked)
    return marked and crc32(name.encode()) % parts == part - 1


def drawn(n: int, count: int, every: int, first: int = 0) -> bool:
    """Whether the n-th of `count` tests of a function, counted from 0, always runs under `drawn(every, first)`.

    One of them does; a test that is named with its parameters is the only one that is collected, and runs.
    """
    return n % every == min(first, count - 1) % every


def left_out(items: Sequence[pytest.Item], named: Sequence[str] = ()) -> set[pytest.Item]:
    """The tests that the marks `whole` and `drawn`, and what they cost, leave to `--whole`; no cost does where the
    command line has NAMED the function."""
    late = {item for item in items if item.get_closest_marker("whole")}
    always = costs.catchers() | {item.nodeid for item in items if item.get_closest_marker("always")}
    functions = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item not in late and item.get_closest_marker("drawn"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for some in functions.values():
        for n, item in enumerate(some):
            mark = item.get_closest_marker("drawn")
            late |= {item} if mark and item.nodeid not in always and not drawn(n, len(some), *mark.args) else set()
    asked = {costs.function(name).rpartition("::")[2] for name in named if "::" in name}
    dear = costs.left_out((item.nodeid for item in items if item not in late), costs.read(), always)
    return late | {item for item in items if item.nodeid in dear and costs.function(item.name) not in asked}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what does not run, before other plugins look at every test. The tests of one program stand side by
    side, so that one worker compiles it, once."""
    asked, late = config.getoption("--whole"), left_out(items, config.args)
    runs = {item: chosen(item.nodeid, item in late, asked) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not runs[item]])
    items[:] = sorted((item for item in items if runs[item]), key=_program)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The tests and their modules stay to the end: Python need not look through them for garbage again and again."""
    session.config.stash[CHECKED] = typed.cache_info().currsize
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _program(item: pytest.Item) -> str:
    """The name of the program that a test is about, empty where it is about none in particular."""
    parameters = (item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec")
                  else ())
    return next((value.name for value in parameters if isinstance(value, Case)), "")


@pytest.fixture
def doubles() -> Iterator[None]:
    """Numbers of the loops that programs are compared with are in float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(usual)


@pytest.fixture(scope="module")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is compiled is kept in a folder of this run, for all files and workers."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EINC_CACHE_DIR", str(folder / "kernels"))
        patch.delenv("EINC_NATIVE", raising=False)
        patch.delenv("EINC_SKIP_CACHE", raising=False)
        yield


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Two processes that are ranks of one another, for all tests of a worker: a start takes seconds."""
    team = Team(2, tmp_path_factory.mktemp("two"))
    yield team
    team.end()


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Four of them."""
    team = Team(4, tmp_path_factory.mktemp("four"))
    yield team
    team.end()
