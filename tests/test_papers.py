"""Twelve excerpts in the notation of well-known papers: what is read agrees with functions that nobody here wrote, and
no slip is read as if it were not there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from einc.documents.sections import Paper
from einc.driver import papers
from einc.driver.reports.coverage import account, returns, section_of
from einc.errors.report import Report, Source
from einc.ir.programs import TypedProgram
from einc.meaning.interpret import interpret

sys.path.insert(0, str(Path(__file__).parent))
from papers import altered, references

FOLDER = Path(__file__).parent / "papers"
TEXTS = {path.stem: path for path in sorted(FOLDER.iterdir()) if path.stem in references.SIZES}
# Of a parameter here, its name in the references.
NAMES = {"ell_1": "l_1", "ell_2": "l_2", "Att_hat_leftrightarrow": "Att_leftrightarrow_hat",
         "R_Theta_d": "R"}
# The same, of what a section names as another one does.
OWN_NAMES = {("The recurrent representation.", "Retention"): "Retention_n"}


# What a side file says of an excerpt whose words do not give every symbol a shape.
SIDES = {
    "attention_is_all_you_need": "matrix Q : n × d_model\nmatrix K, V : m × d_model\n",
}


def programs(name: str, text: str, side: str = "") -> dict[str, TypedProgram]:
    """The programs of the sections of an excerpt, by the names of their sections."""
    beside = Source("side.ein", side) if side else None
    paper: Paper = papers.paper(Source(TEXTS[name].name, text), Report(), beside)
    found = {n: section_of(paper, n).program for n in paper.sections if returns(paper, n)}
    return {paper.document.title(n): x for n, x in found.items() if x is not None and x.outputs}


def known(key: str, title: str = "") -> str:
    """The name of a tensor in the references."""
    return OWN_NAMES.get((title, key), NAMES.get(key, key))


def said(name: str, wanted: references.Reference) -> dict[str, Tensor]:
    """What an excerpt says in words and a program takes as an input, or computes of an example that it gives."""
    if name == "vit":  # a row of which the excerpt says what mean and variance are, and what is made of them
        row, small = references.draw(name)["x_class"], torch.tensor(1e-6, dtype=torch.float64)
        return {"u": row, "epsilon": small, "ownLN": torch.nn.functional.layer_norm(row, row.shape, eps=1e-6)}
    if name == "longformer":
        return {"w": torch.tensor(references.SIZES[name]["w"], dtype=torch.float64)}
    return {}


def outputs(name: str, text: str, wanted: references.Reference, side: str = "") -> dict[str, tuple[np.ndarray, Tensor]]:
    """What the programs of an excerpt return, each beside what the reference returns."""
    drawn = references.INPUTS[name]()
    right = wanted(**drawn)
    given = right = {**right, **drawn, **said(name, wanted)}
    found: dict[str, tuple[np.ndarray, Tensor]] = {}
    for title, program in programs(name, text, side).items():
        inputs = {t.key: given[known(t.key)].numpy() for t in program.inputs()}
        names = {x for t in program.tensors.values() for slot in t.slots for x in slot.set.extent.sizes}
        sizes = {x: n for x, n in references.SIZES[name].items() if x in names}
        for key, value in interpret(program, inputs, sizes).items():
            found[known(key, title)] = (np.asarray(value), right[known(key, title)])
    return found


# The outputs that are read of each excerpt, of those that it is about.
READ = {
    "attention_is_all_you_need": {"MultiHead"},
    "flash_attention_2": {"O", "O_2"},
    "longformer": {"O"},
    "deepseek_v2": {"u"},
    "gqa": {"Y"},
    "mamba_2": {"y", "Y"},
    "retnet": {"Retention", "Retention_n"},
    "performer": {"Att_leftrightarrow", "Att_rightarrow", "Att_leftrightarrow_hat"},
    "roformer": {"o"},
    "vit": {"ownLN"},
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_read_of_an_excerpt_is_what_its_paper_means(name: str) -> None:
    found = outputs(name, TEXTS[name].read_text(encoding="utf-8"), references.REFERENCES[name])
    for key, (got, right) in found.items():
        np.testing.assert_allclose(got, right.numpy().reshape(got.shape), rtol=1e-9, atol=1e-12, err_msg=key)
    assert set(found) == READ.get(name, set())


# Of each excerpt how many equations of its displays are read, and how many there are.
DISPLAYS = {
    "alibi": (0, 1), "attention_is_all_you_need": (3, 3), "deepseek_v2": (12, 12), "flash_attention_2": (10, 10),
    "gqa": (6, 6), "longformer": (4, 4), "mamba_2": (4, 4), "performer": (8, 9), "retnet": (8, 8), "roformer": (6, 6),
    "t5": (0, 2), "vit": (3, 14),
}


@pytest.mark.parametrize("name", TEXTS)
def test_so_many_equations_of_an_excerpt_are_read(name: str) -> None:
    paper = papers.paper(Source(TEXTS[name].name, TEXTS[name].read_text(encoding="utf-8")), Report())
    displays = {x.span for x in paper.said if x.formula.display}
    found = [e for e in account(paper, kernels=False).entries if e.span in displays and e.status != "fact"]
    assert (sum(e.status != "skipped" for e in found), len(found)) == DISPLAYS[name]


def test_with_two_lines_beside_it_the_first_of_them_is_read_whole() -> None:
    name = "attention_is_all_you_need"
    found = outputs(name, TEXTS[name].read_text(encoding="utf-8"), references.REFERENCES[name], SIDES[name])
    assert set(found) == {"MultiHead"}
    np.testing.assert_allclose(*found["MultiHead"], rtol=1e-9, atol=1e-12)


@pytest.mark.drawn(9)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "with a side file"])
@pytest.mark.parametrize("slip", altered.ALTERED, ids=lambda x: f"{x.name}: {x.alteration}")
def test_a_slip_is_refused_or_read_as_it_stands(slip: altered.Altered, beside: bool) -> None:
    if beside and slip.name not in SIDES:
        return
    text = TEXTS[slip.name].read_text(encoding="utf-8")
    assert text.count(slip.old) == 1
    side = SIDES[slip.name] if beside else ""
    found = outputs(slip.name, text.replace(slip.old, slip.new), slip.reference(), side)
    if isinstance(slip.expected, str):
        assert not set(found) & set(slip.spoiled)
    for key, (got, right) in found.items():
        np.testing.assert_allclose(got, right.numpy().reshape(got.shape), rtol=1e-9, atol=1e-12, err_msg=key)
