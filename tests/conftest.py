"""For every test: one thread per worker, and the option that rewrites the golden texts."""

from __future__ import annotations

import pytest
import torch

torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is found as the golden text of each stage")
