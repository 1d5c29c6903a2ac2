"""For every test: one thread per worker, the same examples in every run, and the options of pytest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from seconds import Seconds

sys.path.append(str(Path(__file__).parent.parent))  # the bench and the tests are no part of the package
torch.set_num_threads(1)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy has its own threads: those of the workers, which start after this

# The same examples in every run: a red run is about the change at hand. `--hypothesis-seed=…` looks further.
settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is found as the golden text of each stage")
    parser.addoption("--whole", action="store_true", help="the kernels of every gradient, at every size and in several tiles")
    parser.addoption("--cpu", nargs="?", const="", metavar="FILE", help="print CPU seconds by file; write each test's to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cpu") is not None:
        config.pluginmanager.register(Seconds(config, config.getoption("--cpu")))
    config.addinivalue_line("markers", "whole: runs with `--whole` alone, beside others of its kind that always run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--whole"):
        for item in items:
            if item.get_closest_marker("whole"):
                item.add_marker(pytest.mark.skip(reason="`--whole` has it"))
