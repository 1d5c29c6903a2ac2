"""What a command loads: a library or a wing that it has no use for would be paid for by every call."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = {"sympy", "rich", "numpy", "torch", "triton", "safetensors", "transformers", "opt_einsum", "markdown_it",
         "pylatexenc",
         "latex2mathml", "tokenizers", "matplotlib", "pygls", "lsprotocol", "pygments", "http"}
WINGS = {"errors", "ir", "syntax", "checking", "transforms", "meaning", "driver"}
CALLED = """
import sys
from click.testing import CliRunner
from einc.driver.cli import main
done = CliRunner().invoke(main, sys.argv[1:])
assert done.exit_code == 0, done.output
print(*sys.modules)
"""


@cache
def loaded(*words: str) -> frozenset[str]:
    """The modules that a process has loaded when a command is done."""
    done = subprocess.run([sys.executable, "-c", CALLED, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def wings(*words: str) -> set[str]:
    """The wings that a module is loaded from; a package that is only listed is none."""
    return {name.split(".")[1] for name in loaded(*words) if name.startswith("einc.") and name.count(".") > 1}


@pytest.mark.parametrize("words", [("check", "specs/attention.ein"), ("compile", "specs/attention.ein")])
def test_heavy_libraries_are_not_loaded(words: tuple[str, ...]) -> None:
    assert {name.split(".")[0] for name in loaded(*words)} & HEAVY == set()


def test_checking_loads_no_plans_back_ends_or_papers() -> None:
    assert wings("check", "specs/attention.ein") <= WINGS
    assert not any(name.startswith("einc.transforms.") and name.split(".")[2] in ("gradients", "serving")
                   for name in loaded("check", "specs/attention.ein"))


def test_compiling_loads_what_the_file_needs() -> None:
    words = ("compile", "specs/attention.ein")
    assert wings(*words) <= WINGS | {"planning", "backends"}
    assert not any(name.startswith(("einc.transforms.gradients", "einc.transforms.serving",
                                    "einc.backends.triton.emit"))
                   for name in loaded(*words))
