"""CPU seconds of the tests, for `pytest --cpu` and `--update-costs`: other processes on the machine do not
change them much, as they do wall time."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import costs
import pytest

SHOWN = 20


def spent() -> tuple[float, float]:
    """CPU seconds of this process, and of the processes that it started and has waited for."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


class Seconds:
    """A plugin of pytest: workers measure the phases of each test, the controller adds
    them up by test and prints them by file."""

    def __init__(self, config: pytest.Config, out: str) -> None:
        self.config, self.out = config, out
        self.phase = (0.0, 0.0)
        self.tests: defaultdict[str, float] = defaultdict(float)
        self.started: defaultdict[str, float] = defaultdict(float)  # the part of it in processes that a test starts
        self.workers = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        return (yield from self._measured())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None]:
        return (yield from self._measured())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None]:
        return (yield from self._measured())

    def _measured(self) -> Generator[None]:
        before = spent()
        try:
            return (yield)
        finally:
            own, started = spent()
            self.phase = (own - before[0], started - before[1])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        report.cpu = self.phase  # xdist hands a report's attributes to the controller
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        own, started = getattr(report, "cpu", (0.0, 0.0))
        self.tests[report.nodeid] += own + started
        self.started[report.nodeid] += started

    def pytest_sessionfinish(self) -> None:
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["cpu"] = sum(spent())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.workers += getattr(node, "workeroutput", {}).get("cpu", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self.tests.items():
            files[test.partition("::")[0]] += seconds
        inside, started = sum(files.values()), sum(self.started.values())
        total = self.workers + time.process_time()
        terminalreporter.section("CPU seconds")
        for name, seconds in sorted(files.items(), key=lambda pair: -pair[1])[:SHOWN]:
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
        terminalreporter.write_line(f"{inside:8.1f}  in {len(files)} files, {started:.1f} of them in processes that "
                                    f"tests start; {total:.1f} with imports and collection")
        if self.config.getoption("--update-costs"):
            costs.write(costs.updated(costs.read(), self.tests, costs.defined()))
        if self.out:
            found = {"total": total, "tests": self.tests, "started": {k: v for k, v in self.started.items() if v}}
            Path(self.out).write_text(json.dumps(found, indent=1), encoding="utf-8")
