"""Sixty more excerpts in the styles of papers: what is read agrees with functions that nobody here wrote, and no
slip is read as if it were not there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from torch import Tensor

from einc.documents.sections import Paper
from einc.driver import papers
from einc.driver.reports.coverage import returns, section_of
from einc.errors.report import Report, Source
from einc.meaning.interpret import interpret

sys.path.insert(0, str(Path(__file__).parent))
from papers import second

FOLDER = Path(__file__).parent / "papers" / "second"
# What is not read, and which class of reason it has.
UNREAD = {
    "glu_variants": "a function that nothing says", "cosformer": "a function of rows of two matrices",
    "set_transformer": "a parameter behind a semicolon that is a function",
    "relative_positions": "letters of pairs that nothing counts",
    "sigmoid_attention": "an arrow that defines a function", "lora": "a difference sign that belongs to a name",
    "rwkv": "a name of three letters in italics", "windowed_bias": "a size that is a power",
    "sign_of_the_outer_product": "a sign with another meaning", "bits": "logarithms to another base",
    "norm_along_the_first_axis": "an axis in other words", "sigma_is_the_softmax": "a function of lines under a letter",
    "bars_are_the_first_norm": "a sign with another meaning", "weight_norm": "vectors that may lie either way",
}


def drawn(name: str) -> dict[str, Tensor]:
    """The inputs of an excerpt; numbers lie between 0 and 1."""
    out: dict[str, Tensor] = {}
    for one in second.TAKES[name][1].split():
        key, _, axes = one.partition(":")
        sizes = [x.split("*") for x in axes.split(",") if x]
        shape = [int(np.prod([second.SIZES[y] if y in second.SIZES else int(y) for y in x])) for x in sizes]
        random = torch.Generator().manual_seed(crc32(key.encode()))
        out[key] = (torch.randn(shape, generator=random, dtype=torch.float64) if shape
                    else torch.rand((), generator=random, dtype=torch.float64) * 0.8 + 0.1)
    return out


def outputs(text: str, given: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """What the programs of an excerpt return."""
    paper: Paper = papers.paper(Source("paper.md", text), Report())
    found: dict[str, np.ndarray] = {}
    for n in paper.sections:
        program = section_of(paper, n).program if returns(paper, n) else None
        if program is None or not program.outputs:
            continue
        names = {x for t in program.tensors.values() for slot in t.slots for x in slot.set.extent.sizes}
        sizes = {x: many for x, many in second.SIZES.items() if x in names}
        made = interpret(program, {t.key: given[t.key].numpy() for t in program.inputs()}, sizes)
        found |= {key: np.asarray(x) for key, x in made.items()}
    return found


def compared(text: str, given: dict[str, Tensor], wanted: dict[str, Tensor]) -> set[str]:
    """The outputs that are read of those that are wanted, each of which has to be what is wanted."""
    found = outputs(text, given)
    for key in found.keys() & wanted.keys():
        right = wanted[key].numpy().reshape(found[key].shape)
        np.testing.assert_allclose(found[key], right, rtol=1e-9, atol=1e-11, err_msg=key)
    return found.keys() & wanted.keys()


@pytest.mark.parametrize("name", second.TAKES)
def test_what_is_read_is_what_the_function_computes(name: str) -> None:
    given = drawn(name)
    wanted = second.TAKES[name][0](**given)
    read = compared((FOLDER / f"{name}.md").read_text(encoding="utf-8"), given, wanted)
    assert (read == wanted.keys()) is (name not in UNREAD)


def averaged(y: Tensor, W_i: Tensor, W_f: Tensor) -> Tensor:
    """Means over all tokens by numbers that grow, mixed by gates."""
    g = y.sum(0) / torch.arange(1, len(y) + 1, dtype=y.dtype)[:, None]
    return torch.sigmoid(y @ W_i.T) * y + torch.sigmoid(g @ W_f.T) * g


# Slips: what stands in an excerpt, what is put in its place, and the output that may not be read then.
SLIPS = [
    ("judged_multi_head", "QK^T", "QK", "MultiHead"),
    ("judged_feed_forward", r"W_1 \in \mathbb{R}^{d_{\text{model}} \times d_{ff}}",
     r"W_1 \in \mathbb{R}^{d_{ff} \times d_{\text{model}}}", "y"),
    ("judged_feed_forward", "W_2 + b_2", "W_3 + b_2", "y"),
    ("judged_linearized", r"\phi(K_j)V_j^T}{", r"\phi(K_j)V_j}{", "V_prime"),
    ("judged_mixing", r"\mathbf{W}_2\,\sigma(\mathbf{W}_1", r"\mathbf{W}_1\,\sigma(\mathbf{W}_2", "Y"),
    ("judged_mixed_heads", "(P_l)_{ab}", "(P_l)_{ba}", "Y"),
    ("linear_attention", r"\phi(Q_i)^T \phi(K_j) V_j", r"\phi(Q_i) \phi(K_j) V_j", "V_prime"),
    ("gated_linear_attention", r"k_t^\top v_t", r"k_t v_t", "o"), ("gated_linear_attention", "q_t S_t", "S_t q_t", "o"),
    ("delta_rule", r"\boldsymbol{v}_t \boldsymbol{k}_t^\top,", r"\boldsymbol{k}_t \boldsymbol{v}_t^\top,", "o"),
    ("layer_norm", r"\gamma, \beta \in \mathbb{R}^{d}", r"\gamma, \beta \in \mathbb{R}^{m}", "LayerNorm"),
    ("cross_attention", "QK^T", "QK", "Attention"), ("talking_heads", r"{K^{(h)}}^\top", "K^{(h)}", "O"),
    ("multi_query", r"(M W^K)^\top", "(M W^K)", "Y"),
    ("multi_query", r"\mathbb{R}^{hv \times d}", r"\mathbb{R}^{d \times hv}", "Y"),
    ("cosine_attention", r"along each row", "along each row and each column", "O"),
    ("perceiver", r"Q K^\top", "Q K", "Z_prime"),
    ("perceiver", r"W_O \in \mathbb{R}^{F \times D}", r"W_O \in \mathbb{R}^{D \times F}", "Z_prime"),
    ("linformer", r"(E_i K W_i^K)^T", "(E_i K W_i^K)", "head_bar"),
    ("synthesizer", "b_2, \\qquad", "b_1, \\qquad", "Y"),
    ("gmlp", r"f_{W,b}(Z) = W Z + b", r"f_{W,b}(Z) = Z W + b", "Y"),
    ("gmlp", r"U \in \mathbb{R}^{d \times 2e}", r"U \in \mathbb{R}^{d \times 3e}", "Y"),
    ("mlp_mixer", r"\mathbf{W}_1 \mathbf{X}_{*,i}", r"\mathbf{W}_1 \mathbf{X}_{i,*}", "Y"),
    ("hopfield", r"X \, \mathrm{softmax}(\beta X^T \xi)", r"X \, \mathrm{softmax}(\beta X \xi)", "xi_new"),
    ("parallel_layers", r"(\mathrm{LN}(X W^K))^T", r"\mathrm{LN}(X W^K)", "y"),
    ("qk_norm", r"\hat{K}^\top", r"\hat{K}", "O"),
    ("efficient_attention", r"\rho_k(\mathbf{K})^\mathsf{T}", r"\rho_k(\mathbf{K})", "E"),
    ("attention_free", r"w \in \mathbb{R}^{T \times T}", r"w \in \mathbb{R}^{T \times d}", "Y"),
    ("differential_attention", "Q_1 K_1^T", "Q_1 K_1", "DiffAttn"),
    ("differential_attention", r"W^V \in \mathbb{R}^{d_{\text{model}} \times 2d}",
     r"W^V \in \mathbb{R}^{d_{\text{model}} \times d}", "DiffAttn"),
    ("soft_mixture", r"\mathbf{D}^\top \mathbf{X}", r"\mathbf{D} \mathbf{X}", "Y"),
    ("soft_cap", r"QK^\top", "QK", "O"), ("gated_retention", r"\gamma^{n-2}", r"\gamma^{n-3}", "O"),
    ("causal_linear", r"\phi(K)^\top", r"\phi(K)", "O"),
    ("nystrom_iteration", r"A_S \in \mathbb{R}^{m \times m}", r"A_S \in \mathbb{R}^{m \times d}", "Z_1"),
]
SLIPS += [
    ("judged_gated_layers", r"W_2 \in \mathbb{R}^{d_{ff} \times d_{\text{model}}}",
     r"W_2 \in \mathbb{R}^{d_{\text{model}} \times d_{ff}}", "FFN_SwiGLU"),
    ("gated_values", r"\odot A V", r"\odot V A", "Y"), ("gated_values", "Q K^\\top", "Q K", "Y"),
    ("tokens_are_columns", r"W_2\, \mathrm{ReLU}\bigl(W_1", r"W_1\, \mathrm{ReLU}\bigl(W_2", "Y"),
    ("slots_compete", "A_{il}}. $$", "A_{li}}. $$", "U"),
    ("batch_norm", r"(X_{ij} - \mu_j)^2", r"(X_{ij} - \mu_i)^2", "Y"),
    ("info_nce", "U V^\\top", "U V", "L_cal"), ("mask_of_the_past", r"K^\top}{\sqrt{d}} + M", r"K}{\sqrt{d}} + M", "O"),
    ("keys_are_stored_transposed", r"\frac{Q K}", r"\frac{Q K^\top}", "O"),
    ("highway", "c + (1 - t)", "c + (1 - s)", "y"),
    ("gru", "W_z x_t", "x_t W_z", "h"), ("gru", r"U_z, U_r, U_h \in \mathbb{R}^{h \times h}",
     r"U_z, U_r, U_h \in \mathbb{R}^{h \times d}", "h"),
    ("e_is_an_embedding", "\\exp(u^\\top e_i)", "\\exp(u e_i)", "y"),
    ("squeeze_excite", "W_2\\,", "W_2^\\top", "Y"), ("columns_sum_to_one", "A^\\top V", "A V", "Y"),
]
# What means another thing, with what it means.
OTHERS = [
    ("gated_retention", r"D) V", r"D^\top) V", lambda x: {"O": (x["Q"] @ x["K"].T * torch.triu(x["gamma"] ** (
        torch.arange(7.0)[None, :] - torch.arange(7.0)[:, None]).double())) @ x["V"]}),
    ("efficient_attention", r"\mathrm{softmax}_{\mathrm{col}}", r"\mathrm{softmax}_{\mathrm{row}}",
     lambda x: {"E": second.rows(x["Q"]) @ (second.rows(x["K"]).T @ x["V"])}),
    ("talking_heads", "is taken over each row", "is taken over each column", lambda x: {"O": torch.einsum(
        "gh,gnm->hnm", x["P_w"], torch.softmax(torch.einsum(
            "gh,gnm->hnm", x["P_ell"], x["Q"] @ x["K"].transpose(1, 2)), 1)) @ x["V"]}),
    ("causal_linear", r"\mathrm{tril}(", r"\mathrm{triu}(", lambda x: {"O": torch.triu(
        x["Q"].relu() @ x["K"].relu().T) @ x["V"] / torch.tril(x["Q"].relu() @ x["K"].relu().T).sum(1, keepdim=True)}),
    ("average_attention", r"\sum_{k=1}^{t} y_k", r"\sum_{k=1}^{T} y_k", lambda x: {"h": averaged(**x)}),
    ("focal_loss", r"(1 - p_i)^\gamma", r"(1 + p_i)^\gamma", lambda x: {"L_cal": -(
        (1 + torch.sigmoid(x["z"])) ** x["gamma"] * torch.log(torch.sigmoid(x["z"]))).mean()}),
    ("mask_of_the_past", r"i \le j \\ -\infty & i > j", r"i \ge j \\ -\infty & i < j", lambda x: {
        "O": torch.nn.functional.scaled_dot_product_attention(x["Q"], x["K"], x["V"], is_causal=True)}),
    ("hopfield", r"\beta X^T \xi", r"2 \beta X^T \xi", lambda x: {"xi_new": x["X"] @ torch.softmax(
        2 * x["beta"] * x["X"].T @ x["xi"], 0)}),
]


@pytest.mark.parametrize(("name", "old", "new", "spoiled"), SLIPS)
def test_a_slip_without_meaning_is_not_read(name: str, old: str, new: str, spoiled: str) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text.count(old) == 1
    try:
        found = outputs(text.replace(old, new), drawn(name))
    except KeyError:  # it asks for what the excerpt does not have
        return
    assert spoiled not in found


@pytest.mark.parametrize(("name", "old", "new", "meaning"), OTHERS)
def test_a_slip_with_a_meaning_is_read_as_it_stands(name: str, old: str, new: str, meaning: object) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text.count(old) == 1 and callable(meaning)
    given = drawn(name)
    assert compared(text.replace(old, new), given, meaning(given))
