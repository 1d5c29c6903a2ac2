"""einc in a notebook: the cells of one, run by the shell that notebooks run, and what they show."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from latex2mathml.converter import convert

import einc

testing = pytest.importorskip("IPython.testing.globalipapp", reason="IPython is not installed")
CELL = """index t, s : time(T)
input x_t
output y_t = Σ_{s ≤ t} x_s
"""


@pytest.fixture
def shell() -> Iterator[Any]:
    """A shell with the extension."""
    found = testing.start_ipython() or testing.get_ipython()
    found.display_formatter.active_types = found.display_formatter.format_types  # as in a notebook
    found.run_line_magic("load_ext", "einc")
    yield found
    found.run_line_magic("unload_ext", "einc")
    found.user_ns.pop("f", None)


def shown(shell: Any, value: Any) -> dict[str, str]:
    """What a notebook shows of a value, by kind."""
    return {kind: shell.display_formatter.formatters[kind](value) for kind in ("text/plain", "text/html")}


def test_a_cell_becomes_a_function_and_its_equations_are_shown(shell: Any) -> None:
    result = shell.run_cell(f"%%ein f --backend torch\n{CELL}")
    assert result.success
    f = shell.user_ns["f"]
    assert torch.equal(f(torch.tensor([1.0, 2.0])), torch.tensor([1.0, 3.0]))
    assert "y_{t} = Σ_{s, s ≤ t} x_{s}" in shown(shell, result.result)["text/plain"]
    assert "<pre>" in shown(shell, result.result)["text/html"]
    assert pickle.loads(pickle.dumps(f)).program.equations == f.program.equations


@pytest.mark.parametrize(("line", "text", "said"), [
    ("f", CELL.replace("{s ≤ t} x_s", "s ≤ t} x_s"), "error["), ("2f", CELL, "no name of a function"),
    ("", CELL, "write %%ein name"), ("f --bogus", CELL, "--bogus"),
])
def test_problems_are_shown_with_their_place_and_no_traceback(shell: Any, line: str, text: str, said: str,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell(f"%%ein {line}\n{text}")
    assert result.success
    assert said in capsys.readouterr().out
    assert "f" not in shell.user_ns


def test_programs_plans_and_problems_are_shown_as_people_read_them(shell: Any) -> None:
    made = einc.compile("gqa", backend="torch")
    for value in (made.plan, made.program):
        assert len(shown(shell, value)["text/plain"]) < 6000
        assert "<pre>" in shown(shell, value)["text/html"]
    assert "flops" in shown(shell, made.plan)["text/plain"]
    for spec in ("sdpa", "gpt2_block", "decoder_lm"):  # halves, and pieces for rounds
        plan = einc.compile(spec, backend="torch", grad=True).plan
        table = shown(shell, plan)["text/plain"]
        assert table.count("plan of ") >= 2 and len(table.splitlines()) < 200
        assert "<pre>" in shown(shell, plan)["text/html"]
    (problem, *_) = einc.check(CELL.replace("Σ_{s ≤ t} x_s", "x_s x_s"))
    assert 'color:#c22' in shown(shell, problem)["text/html"]
    assert "<figure>" in shown(shell, made.draw("mask", T=4))["text/html"]


def test_programs_and_derivations_are_written_as_a_paper_writes_them(shell: Any) -> None:
    """For LaTeX, as a notebook is exported to it: displays that MathJax and latex2mathml read."""
    latex = shell.display_formatter.formatters["text/latex"]
    made = einc.compile("sdpa", backend="torch")
    for value in (made, made.program):
        assert latex(value).startswith("$$\\begin{aligned}\nL_{n h t s} &= \\sum")
    found = made.derive()
    assert "m' = max(m, max_{s ∈ C} L_{n h t s})" in str(found) == repr(found)
    assert "\\subseteq" in latex(found) and r"\begin{aligned}" in latex(found)
    for text in (latex(made), latex(found)):
        assert "<math" in convert("\n".join(x for x in text.strip("$\n").splitlines() if not x.startswith("%")))
    assert einc.compile(CELL, "torch").derive()._repr_latex_() is None
    shell.run_line_magic("unload_ext", "einc")
    assert latex(made.program) is None
    shell.run_line_magic("load_ext", "einc")


def test_help_and_signature_say_names_shapes_and_types() -> None:
    made = einc.compile("gqa", backend="torch")
    assert "W_Q: torch.Tensor" in str(inspect.signature(made)).replace("'", "")
    assert "weight W_Q  (H, d_model, d_k)" in (made.__doc__ or "")
    said = pydoc.render_doc(made, renderer=pydoc.plaintext)
    assert "gqa(X: torch.Tensor" in said.replace("'", "")
    assert "output A  (T, d_model)" in said


@pytest.mark.parametrize("options", [{"backend": "cpp", "grad": True}, {"backend": "triton"}, {"plan": "serve"},
                                     {"module": True}], ids=str)
def test_every_function_has_names_shapes_and_types(options: dict[str, Any]) -> None:
    """Whatever writes it; so have the first call of one that serves, and the class that holds the weights."""
    made = einc.compile("llama_attention", **options)
    functions = [made, *([made.prefill] if "plan" in options else [])]
    for one in functions:
        names = inspect.signature(one).parameters
        assert {"X", "W_Q", "W_K", "W_V", "W_O"} <= names.keys()
        assert names["X"].annotation is torch.Tensor
    assert "weight W_K  (G, d_model, d_k)" in (inspect.getdoc(made) or "")
    assert inspect.getdoc(made) in inspect.cleandoc(pydoc.render_doc(made, renderer=pydoc.plaintext).split("\n", 3)[3])
    if "module" in options:
        assert [*inspect.signature(made.module).parameters] == ["G", "H", "d_k", "d_model", "device", "dtype"]
        assert [*inspect.signature(made.module.forward).parameters] == ["self", "X"]
        assert "weights of llama_attention" in (made.module.__doc__ or "")


def test_what_was_not_asked_for_is_said_with_how_to_ask_for_it() -> None:
    made = einc.compile("gqa", backend="torch")
    assert not hasattr(made, "module") and not hasattr(made, "prefill")
    with pytest.raises(AttributeError, match=r"gqa: .* without a class of its weights: compile it with module=True"):
        made.module(H=2)
    with pytest.raises(AttributeError, match=r'keeps nothing .* compile it with plan="serve"'):
        made.prefill(torch.ones(2))
    with pytest.raises(TypeError, match="keeps nothing"):
        made.cache()


NOTEBOOK = {
    "%load_ext einc": "", f"%%ein f --backend torch\n{CELL}": "y_{t} = Σ", "import torch\nf(torch.ones(4))": "4.",
    "f.plan": "flops", "f.draw('mask', T=4)": "<svg", "f.derive()": "no pass",
    f"%%ein g\n{CELL.replace('{s ≤ t} x_s', 's ≤ t} x_s')}": "error["}
# The shell that a kernel runs cells with, and what a notebook would show of each.
RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
shell.display_formatter.active_types = shell.display_formatter.format_types
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    with capture_output() as shown:
        done = shell.run_cell("".join(cell["source"]))
    made = () if done.result is None else (shell.display_formatter.format(done.result)[0],)
    cell["outputs"] = [shown.stdout, *(one.data for one in shown.outputs), *made]
    print(json.dumps(dict(cell, done=done.success)))
"""


@pytest.mark.whole
@pytest.mark.parametrize("where", ["a shell", "a kernel"])
def test_a_whole_notebook_runs(where: str, tmp_path: Path) -> None:
    """As a reader runs it: the extension, a cell of `ein`, its function, its plan, its mask, and a slip. In a process
    of its own, where a file of cells is JSON, and in a kernel, where the libraries for that are installed.
    """
    cells = [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text}
             for text in NOTEBOOK]
    file = tmp_path / "reader.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    for text, words, outputs in zip(NOTEBOOK, NOTEBOOK.values(), RUNNERS[where](file), strict=True):
        assert words in outputs, text


def in_a_shell(file: Path) -> list[str]:
    """What each cell of a notebook shows."""
    done = subprocess.run([sys.executable, "-c", RUN, str(file)], capture_output=True, text=True, check=True,
                          cwd=file.parent, env={**os.environ, "IPYTHONDIR": str(file.parent)})
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(cell["done"] for cell in cells), done.stdout
    return [" ".join(map(str, cell["outputs"])) for cell in cells]


def in_a_kernel(file: Path) -> list[str]:
    """What each cell of a notebook shows; skips where there is no kernel."""
    for name in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    made = import_module("nbformat").read(file, as_version=4)
    import_module("nbclient").NotebookClient(made, timeout=300, resources={
        "metadata": {"path": str(file.parent)}}).execute()
    return [" ".join(str(one.get("data", one)) for one in cell["outputs"]) for cell in made.cells]


RUNNERS = {"a shell": in_a_shell, "a kernel": in_a_kernel}
