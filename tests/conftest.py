"""For every test: one thread per worker, the same examples in every run, which tests run, and in which order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
import torch
from hypothesis import settings
from programs import Case
from seconds import Seconds

sys.path.append(str(Path(__file__).parent.parent))  # the bench and the tests are no part of the package
torch.set_num_threads(1)
# numpy has its own threads: those of the workers, which start after this
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples in every run: a red run is about the change at hand. `--hypothesis-seed=…` looks further.
settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")

Share = tuple[int, int]


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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: runs with `--whole` alone, beside others of its kind that always run")
    if config.getoption("--whole") not in (None, "all"):
        share(config.getoption("--whole"))
    if config.getoption("--cpu") is not None:
        config.pluginmanager.register(Seconds(config, config.getoption("--cpu")))


def chosen(name: str, marked: bool, asked: str | None) -> bool:
    """Whether a test runs, by its name, whether it is marked `whole`, and the value of `--whole`.

    A share is chosen by a hash of the name, so a test stays in its share whatever is added beside it.
    """
    if asked in (None, "all"):
        return asked == "all" or not marked
    part, parts = share(asked)
    return marked and crc32(name.encode()) % parts == part - 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what does not run. The tests of one program stand side by side, so that
    one worker compiles it, once."""
    asked = config.getoption("--whole")
    runs = {item: chosen(item.nodeid, item.get_closest_marker("whole") is not None, asked) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not runs[item]])
    places = {item: (_program(item), n) for n, item in enumerate(items)}
    items[:] = sorted((item for item in items if runs[item]), key=places.__getitem__)


def _program(item: pytest.Item) -> str:
    """The name of the program that a test is about, empty where it is about none in particular."""
    parameters = (item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec")
                  else ())
    return next((value.name for value in parameters if isinstance(value, Case)), "")


@pytest.fixture(scope="module")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is compiled is kept for all tests of a file, in a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EINC_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        patch.delenv("EINC_NATIVE", raising=False)
        patch.delenv("EINC_SKIP_CACHE", raising=False)
        yield
