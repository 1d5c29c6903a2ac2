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
CHECKING = {"driver", "driver.commands", "errors", "errors.problems", "ir", "syntax", "syntax.printing", "checking",
            "checking.declarations", "checking.expressions", "checking.programs"}
WINGS = {"errors", "ir", "syntax", "checking", "transforms", "driver", "planning", "backends"}
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


def folders(*words: str) -> set[str]:
    """The folders that modules are loaded from, each with its wing: `checking.programs`."""
    return {".".join(name.split(".")[1:-1]) for name in loaded(*words) if name.startswith("einc.")} - {""}


@pytest.mark.parametrize("words", [("check", "specs/attention.ein"), ("compile", "specs/attention.ein")])
def test_heavy_libraries_are_not_loaded(words: tuple[str, ...]) -> None:
    assert {name.split(".")[0] for name in loaded(*words)} & HEAVY == set()


def test_checking_loads_the_checker_alone() -> None:
    """Of a sound text in index notation: no other notation, no edits, no proofs, no passes, no plans and back ends. Of
    matrices the one module that tells whether there are any.
    """
    assert folders("check", "specs/attention.ein") <= CHECKING | {"checking.matrices"}
    assert {name for name in loaded("check", "specs/attention.ein") if name.startswith("einc.checking.matrices.")} == {
        "einc.checking.matrices.shapes"}
    assert "einc.checking.fixits" not in loaded("check", "specs/attention.ein")


def test_compiling_loads_what_the_file_needs() -> None:
    words = ("compile", "specs/attention.ein")
    assert wings(*words) <= WINGS
    assert not any(name.startswith(("einc.transforms.gradients", "einc.transforms.serving", "einc.checking.fixits",
                                    "einc.checking.arrays", "einc.backends.triton.emit"))
                   for name in loaded(*words))


MATRICES = "dim T, D\nmatrix X : T × D\nvector w : D\noutput y = X w\n"
STRINGS = 'tensor x : T × D\noutput y = einsum("td->t", x)\n'


@pytest.mark.parametrize(("text", "needs"), [
    (MATRICES, "einc.checking.matrices.elaborate"),
    (STRINGS, "einc.checking.arrays.elaborate"),
    ((ROOT / "specs/online_softmax.ein").read_text(encoding="utf-8"), "einc.meaning.proof"),
], ids=["matrices", "strings", "rounds"])
def test_what_few_texts_need_is_loaded_where_one_needs_it(text: str, needs: str, tmp_path: Path) -> None:
    file = tmp_path / "a.ein"
    file.write_text(text, encoding="utf-8")
    assert needs in loaded("check", str(file))
