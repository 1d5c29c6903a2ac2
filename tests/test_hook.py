"""`import my_spec` finds `my_spec.ein`."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import einc

SPEC = """index t, s : time(T)
input x_t
y_t = sum_{s <= t} x_s
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, with the hook in place while the test lasts."""
    before = list(sys.meta_path)
    monkeypatch.syspath_prepend(tmp_path)
    einc.install_hook()
    yield tmp_path
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name.startswith("hooked")]:
        del sys.modules[name]


def test_a_spec_imports_as_its_module(room: Path) -> None:
    (room / "hooked_sum.ein").write_text(SPEC, encoding="utf-8")
    module = importlib.import_module("hooked_sum")
    assert torch.equal(module.hooked_sum(x=torch.tensor([1.0, 2.0, 4.0])), torch.tensor([1.0, 3.0, 7.0]))
    assert module.__loader__.get_source("hooked_sum") == einc.compile(room / "hooked_sum.ein", "torch").source


def test_a_spec_imports_from_a_package(room: Path) -> None:
    (room / "hooked_package").mkdir()
    (room / "hooked_package" / "__init__.py").touch()
    (room / "hooked_package" / "inner.ein").write_text(SPEC, encoding="utf-8")
    assert importlib.import_module("hooked_package.inner").inner is not None


def test_a_python_file_of_the_name_comes_first(room: Path) -> None:
    (room / "hooked_both.ein").write_text(SPEC, encoding="utf-8")
    (room / "hooked_both.py").write_text("who = 'python'\n", encoding="utf-8")
    assert importlib.import_module("hooked_both").who == "python"


def test_errors_are_shown_by_the_import(room: Path) -> None:
    (room / "hooked_bad.ein").write_text(SPEC.replace("sum_{s <= t} x_s", "x_s"), encoding="utf-8")
    with pytest.raises(ImportError, match=r"E0306|E0301") as caught:
        importlib.import_module("hooked_bad")
    assert "y_t = x_s" in str(caught.value)
    assert caught.value.name == "hooked_bad"


def test_a_missing_module_is_still_missing(room: Path) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hooked_nowhere")


def test_tracebacks_show_the_emitted_lines(room: Path) -> None:
    (room / "hooked_trace.ein").write_text(SPEC, encoding="utf-8")
    module = importlib.import_module("hooked_trace")
    with pytest.raises((TypeError, ValueError)) as caught:
        module.hooked_trace(x=torch.zeros(2, 2))
    lines = "".join(traceback.format_exception(caught.value))
    assert "hooked_trace.ein.py" in lines
    assert "raise" in lines


def test_a_second_call_installs_nothing(room: Path) -> None:
    before = list(sys.meta_path)
    einc.install_hook()
    assert sys.meta_path == before
