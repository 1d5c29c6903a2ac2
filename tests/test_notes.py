"""The notes on transformers with PyTorch, whose formulas are matrices, most of them written out: with the side file
that says what their words leave open, what is compiled is what independent functions make of it, and how much is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from einc.documents.coverage import Account
from einc.documents.sections import Paper
from einc.driver import papers
from einc.driver.reports.coverage import account, returns, section_of
from einc.errors.report import Report, Source
from einc.meaning.interpret import interpret

NOTES = Path(__file__).parents[2] / "shared" / "seeds" / "transformer-with-pytorch.md"
SIDE = Path(__file__).parents[1] / "specs" / "transformer_with_pytorch.ein"
pytestmark = pytest.mark.skipif(not NOTES.is_file(), reason="the papers are not beside this repository")
SIZES = {"n": 3, "m": 7, "d_k": 4, "d_v": 4, "T": 5, "d_model": 8, "h": 2, "d_h": 4, "N": 6, "H_I": 2, "d": 3, "d_C": 3}
Given = Mapping[str, Tensor]


@lru_cache(maxsize=1)
def notes() -> Paper:
    """The notes with their side file."""
    side = Source(SIDE.name, SIDE.read_text(encoding="utf-8"))
    return papers.paper(Source(NOTES.name, NOTES.read_text(encoding="utf-8")), Report(), side)


@lru_cache(maxsize=1)
def accounted() -> Account:
    """What became of their equations."""
    return account(notes(), kernels=False)


def attention(x: Given) -> dict[str, Tensor]:
    q = x["q"] if "q" in x else x["Q"]
    scale = 1.0 if "q" in x else x["Q"].shape[-1] ** -0.5
    return {"A": torch.softmax(scale * q @ x["K"].T, -1) @ x["V"]}


def heads(x: Given) -> dict[str, Tensor]:
    """Scaled dot-product attention of each head, the heads side by side."""
    found = []
    for w_q, w_k, w_v in zip(x["W_Q_i"], x["W_K_i"], x["W_V_i"], strict=True):
        q, k, v = x["X"] @ w_q, x["X"] @ w_k, x["X"] @ w_v
        found.append(torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v)
    return {**projected(x), "Y": torch.cat(found, -1) @ x["W_O"]}


def projected(x: Given) -> dict[str, Tensor]:
    return {name: x["X"] @ x[f"W_{name}"] for name in "QKV"}


def beside(x: Given) -> dict[str, Tensor]:
    joined = {name: torch.cat([x["X"] @ w for w in x[f"W_{name}"]], -1) for name in "QK"}
    return {**joined, "value_2": torch.tril(torch.ones(5, 5, dtype=torch.float64))}


def cached(x: Given) -> dict[str, Tensor]:
    """Each row is attention of a query to the keys and values up to its own."""
    rows = [torch.softmax(q @ x["k"][: n + 1].T, -1) @ x["v"][: n + 1] for n, q in enumerate(x["q"])]
    return {"value_11": torch.stack(rows)}


def step(x: Given) -> dict[str, Tensor]:
    scores = [q @ k.T for q, k in zip(x["Q_i"], x["K_i"], strict=True)]
    scale = x["Q_i"].shape[-1] ** -0.5
    later = torch.ones_like(scores[0]).triu(1).bool()
    masked = [(scale * s).masked_fill(later, -torch.inf) for s in scores]
    values = [torch.softmax(scale * s, -1) @ v for s, v in zip(scores, x.get("V_i", ()), strict=False)]
    return {**projected(x), "value_3": torch.cat(scores, -1), "value_4": torch.cat(masked, -1),
            "value_5": torch.cat([torch.softmax(s, -1) for s in masked], -1),
            **({"value_6": torch.cat(values, -1)} if values else {}), "value_7": x["o"].flatten(1) @ x["W_O"]}


def rotary(x: Given) -> dict[str, Tensor]:
    """The tables and the rotation of the code of the notes; its frequencies fall by θ^{2 / d_h}."""
    many = x["q"].shape[-1]
    steps = torch.arange(0, many, 2, dtype=torch.float64)
    freqs = 1.0 / x["theta"] ** (steps / many)
    angles = torch.outer(torch.arange(len(x["q"]), dtype=torch.float64), freqs)
    even, odd = x["q"][:, 0::2], x["q"][:, 1::2]
    return {"i": steps, "freqs": freqs, "angles": angles, "value_14": torch.cos(angles), "value_15": torch.sin(angles),
            "Q_even": even, "Q_odd": odd, "Q_prime_even": even * torch.cos(angles) - odd * torch.sin(angles)}


def seq2seq(x: Given) -> dict[str, Tensor]:
    return {"a": torch.softmax(x["h"] @ x["z"].T, -1)}


def latent(x: Given) -> dict[str, Tensor]:
    known = x["x"][:-1]  # all rows but the one that is new
    common = known @ x["w"]
    return {"C_K_V": common, "V": common @ x["W_V_uparrow"], "K": common @ x["W_uparrow_K_i"],
            "W_K": x["w"] @ x["W_uparrow_K_i"], "value_10": known @ x["W_Q"] @ x["W_K_uparrow"].T, "value_11": common}


def decoupled(x: Given) -> dict[str, Tensor]:
    """Keys and values of each head, of the latent of each token."""
    common = x["x"] @ x["W_K_V_downarrow"].T
    keys, values = (torch.einsum("hpc,tc->thp", x[f"W_{name}_uparrow"], common) for name in "KV")
    return {"o_out": x["o"].flatten(1), "k_C": keys, "v_C": values}


def indexer(x: Given) -> dict[str, Tensor]:
    dots = torch.relu(torch.einsum("tjd,sd->tsj", x["q_I"], x["k_I"]))
    return {"I": torch.einsum("tj,tsj->ts", x["w_I"], dots)}


def sums(x: Given) -> dict[str, Tensor]:
    d = torch.cumsum(torch.exp(x["x"] - x["m"][-1]), 0)
    own = torch.stack([torch.exp(x["x"][: i + 1] - x["m"][i]).sum() for i in range(len(x["x"]))])
    return {"d": d, "d_prime": own, "a": torch.exp(x["x"] - x["m"][-1]) / d[-1]}


def online(x: Given) -> dict[str, Tensor]:
    """The maximum and the sum of the first loop, in order."""
    scores = x["x"] if "x" in x else (x["Q"] * x["K"]).sum(-1)
    m, d = torch.tensor(-torch.inf, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    out = []
    for score in scores:
        before, m = m, torch.maximum(m, score)
        d = d * torch.exp(before - m) + torch.exp(score - m)
        out.append(d)
    return {"d": torch.stack(out)}


def one_query(x: Given) -> dict[str, Tensor]:
    """`o` is attention of one query, `o'` the sum up to i relative to the reference of i."""
    whole = torch.softmax(x["q"] @ x["K"].T, -1) @ x["V"]
    parts = [(torch.exp(x["x"][: i + 1] - x["m"][i]) / x["d_prime"][i]) @ x["V"][: i + 1] for i in range(len(x["x"]))]
    return {"o": whole, "o_prime": torch.stack(parts)}


def second_loop(x: Given) -> dict[str, Tensor]:
    shares = sums(x)["a"]
    return {"a": shares, "o": torch.cumsum(shares[:, None] * x["V"], 0)}


ORACLES: dict[str, Callable[[Given], dict[str, Tensor]]] = {
    "1.1 single": attention, "1.2 Scaled": attention, "2 Self-attention": heads, "2.1.1 class": beside,
    "1.3 in the case": seq2seq, "2.1.3": lambda x: {"GELU": torch.nn.functional.gelu(x["x"])}, "3.3 Rotary": rotary,
    "1.4 multiple": lambda x: {"O": torch.softmax(x["Q"] @ x["K"].T, -1) @ x["V"]},
    "2.1.2 Step": step, "2.1.4 class": lambda x: {"value_8": torch.arange(5, dtype=torch.float64)},
    "3.1": cached, "3.2 Multi-head": latent, "3.4 Decoupled": decoupled, "3.5 Lightening": indexer,
    "4.2 online softmax algorithm": sums, "4.2 online softmax algorithm (80)": online,
    "4.2 online softmax algorithm (81)": sums, "4.3 online attention": one_query, "4.3 online attention (83)": online,
    "4.3 online attention (84)": second_loop,
}


def program(title: str) -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    """Drawn inputs of the program of a section, and what it returns."""
    found = section_of(notes(), notes().find(title)).program
    assert found is not None
    torch.manual_seed(3)
    given = {t.key: torch.randn([int(slot.set.extent.at(SIZES)) for slot in t.slots], dtype=torch.float64)
             for t in found.inputs()}
    given |= {"theta": 1 + given["theta"].abs()} if "theta" in given else {}
    names = {x for t in found.tensors.values() for slot in t.slots for x in slot.set.extent.sizes}
    made = interpret(found, {k: v.numpy() for k, v in given.items()}, {x: SIZES[x] for x in names})
    return given, {key: np.asarray(value) for key, value in made.items()}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("title", ORACLES)
def test_what_is_compiled_is_what_the_notes_mean(title: str) -> None:
    given, made = program(title)
    right = ORACLES[title](given)
    assert made
    for key, value in made.items():
        np.testing.assert_allclose(value, right[key].numpy().reshape(value.shape), rtol=1e-9, atol=1e-12, err_msg=key)


def test_every_program_of_the_notes_has_such_a_function() -> None:
    read = {notes().find(title) for title in ORACLES}
    others = [n for n in notes().sections if returns(notes(), n) and n not in read]
    made = {notes().document.title(n): section_of(notes(), n).program for n in others}
    assert [title for title, x in made.items() if x is None or x.outputs] == ["4.3.1 final algorithm (87)"]


def test_the_last_algorithm_is_read_as_it_is_printed() -> None:
    """Its quotient of exponentials stands upside down, so that with m_0 = −∞ every row is 0 · ∞."""
    _, made = program("4.3.1 final algorithm (87)")
    assert np.isnan(made["o"]).all()


def test_so_many_displays_of_the_notes_are_read_whole() -> None:
    by_display: dict[tuple[int, int], list[str]] = {}
    for entry in accounted().entries:
        if entry.display and entry.reason != "a shape":
            by_display.setdefault((entry.formula.start, entry.formula.end), []).append(entry.status)
    whole = [statuses for statuses in by_display.values() if "skipped" not in statuses]
    assert (len(whole), len(by_display)) == (61, 87)


def test_the_steps_of_its_arguments_are_proved() -> None:
    """Sides that are equal without a name: products written out, softmax as a sum, the projection that is absorbed."""
    proved = {e.span.source.place(e.span.start).line: e.reason for e in accounted().entries
              if e.reason.startswith("both sides are proved equal")}
    assert {49, 88, 257, 509, 513, 550, 558, 565, 766} <= proved.keys()
    assert proved[766] == "both sides are proved equal, with `U^⊤ U = I_d`"
