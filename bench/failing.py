"""Which tests of a checkout fail: pytest in a process that is forked from one that has imported torch and pytest, so
that the tests of hundreds of small changes, one after another, do not wait for these again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import pytest

SECONDS = 900  # the wall time after which tests that do not end are stopped
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["hypothesis", "torch", __name__])


class Failures:
    """A plugin of pytest: the test LIKELY runs first; `names` are tests that fail and files that cannot be read."""

    def __init__(self, likely: str) -> None:
        self.likely, self.names = likely, list[str]()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.nodeid != self.likely)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.names += [report.nodeid] if report.failed else []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.names += [report.nodeid] if report.failed else []


def failing(checkout: Path, words: Sequence[str], likely: str = "") -> list[str]:
    """The tests that fail in a checkout whose folder `import` has it as the package einc, under these WORDS of pytest's
    command line, without repetition. A run that ends without a test that failed, but not well, fails under a name that
    says how it ended; `output.txt` in the checkout has what pytest printed last."""
    here, there = _FORKS.Pipe(False)
    process = _FORKS.Process(target=_run, args=(there, checkout, [*words], likely))
    process.start()
    assert process.pid
    there.close()
    try:
        found = here.recv() if here.poll(SECONDS) else [f"no end after {SECONDS} seconds"]
    except EOFError:
        found = ["the process of the tests crashed"]
    with suppress(ProcessLookupError):  # what the tests have started ends with them
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return list(dict.fromkeys(found))


def _run(out: Connection, checkout: Path, words: list[str], likely: str) -> None:
    """Runs pytest in this process, a leader of its own group, as if it had been started in CHECKOUT."""
    os.setsid()
    Thread(target=_end_with_parent, daemon=True).start()
    os.chdir(checkout)
    for stream in (1, 2):
        os.dup2(os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.environ["PYTHONPATH"] = str(checkout / "import")
    sys.path[:0] = [str(checkout / "import"), str(checkout)]
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in ("bench", "einc")]:
        del sys.modules[name]  # those of the checkout are meant
    failures = Failures(likely)
    ended = int(pytest.main(["-n", "0", "-p", "no:cacheprovider", *words], plugins=[failures]))
    well = ended in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # a file may leave all to --whole
    out.send(failures.names or ([] if well else [f"pytest ended with status {ended}"]))


def _end_with_parent() -> None:
    """Ends this process and what the tests have started where the one that asked for them is gone."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)
