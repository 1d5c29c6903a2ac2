"""The excerpts of tests/papers by themselves: they are whole, their references run, and their slips are slips."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from papers import references
from papers.altered import ALTERED, REFUSED, Altered
from papers.references import (
    FINAL,
    FUNCTIONS,
    INPUT_SHAPES,
    INPUTS,
    OPEN,
    OUTPUT_SHAPES,
    REFERENCES,
    SIZES,
    Shape,
    Tensors,
    extent,
)
from pylatexenc.latexwalker import LatexWalker
from torch.nn import functional

FOLDER = Path(__file__).parent / "papers"
NAMES = sorted(REFERENCES)
IDS = [f"{one.name}-{one.alteration}" for one in ALTERED]
ODD = {("roformer", "d"), ("longformer", "w")}  # halved in the paper, so they are even

# What an excerpt says of shapes, word for word, and the tensors that it says it of. An index of a family comes first in
# the tables and is not said here.
SAID: dict[str, list[tuple[str, str]]] = {
    "attention_is_all_you_need": [
        (r"$W^Q_i \in \mathbb{R}^{\dmodel \times d_k}$", "W_Q"),
        (r"$W^K_i \in \mathbb{R}^{\dmodel \times d_k}$", "W_K"),
        (r"$W^V_i \in \mathbb{R}^{\dmodel \times d_v}$", "W_V"),
        (r"$W^O \in \mathbb{R}^{hd_v \times \dmodel}$", "W_O")],
    "flash_attention_2": [
        (r"\mathbf{Q}, \mathbf{K}, \mathbf{V} \in \mathbb{R}^{N \times d}", "Q K V"),
        (r"\mathbf{Q} \mathbf{K}^\top \in \mathbb{R}^{N \times N}", "S"),
        (r"\mathrm{softmax}(\mathbf{S}) \in \mathbb{R}^{N \times N}", "P"),
        (r"\mathbf{P} \mathbf{V} \in \mathbb{R}^{N \times d}", "O"),
        (r"\mathbf{S}^{(1)}, \mathbf{S}^{(2)} \in \mathbb{R}^{B_r \times B_c}", "S_1 S_2"),
        (r"\mathbf{V}^{(1)}, \mathbf{V}^{(2)} \in \mathbb{R}^{B_c \times d}", "V_1 V_2"),
        (r"\mathrm{rowmax}(\mathbf{S}^{(1)}) \in \mathbb{R}^{B_r}", "m_1"),
        (r"\mathrm{rowmax}(\mathbf{S}^{(2)})) \in \mathbb{R}^{B_r}", "m_2"),
        (r"\mathrm{rowsum}(e^{\mathbf{S}^{(1)} - m^{(1)}}) \in \mathbb{R}^{B_r}", "l_1"),
        (r"^{-1} \tilde{\mathbf{O}}^{(2)} \in \mathbb{R}^{B_r \times d}", "O_2 O_tilde_2 O_tilde_1")],
    "gqa": [
        (r"$X \in \mathbb{R}^{n \times d}$", "X"), (r"$M \in \mathbb{R}^{m \times d}$", "M"),
        (r"$W_i^Q \in \mathbb{R}^{d \times d_h}$", "W_Q"), (r"$W_g^K \in \mathbb{R}^{d \times d_h}$", "W_K"),
        (r"$W_g^V \in \mathbb{R}^{d \times d_h}$", "W_V"), (r"$W^O \in \mathbb{R}^{H d_h \times d}$", "W_O")],
    "deepseek_v2": [
        (r"$\mathbf{h}_t \in \mathbb{R}^{d}$", "h"), (r"$\mathbf{c}_t^{KV} \in \mathbb{R}^{d_c}$", "c_KV"),
        (r"$\mathbf{c}_t^{Q} \in \mathbb{R}^{d_c'}$", "c_Q"), (r"$W^{DKV} \in \mathbb{R}^{d_c \times d}$", "W_DKV"),
        (r"$W^{DQ} \in \mathbb{R}^{d_c' \times d}$", "W_DQ"),
        (r"$W^{UK}, W^{UV} \in \mathbb{R}^{d_h n_h \times d_c}$", "W_UK W_UV"),
        (r"$W^{UQ} \in \mathbb{R}^{d_h n_h \times d_c'}$", "W_UQ"),
        (r"$W^{QR} \in \mathbb{R}^{d_h^R n_h \times d_c'}$", "W_QR"),
        (r"$W^{KR} \in \mathbb{R}^{d_h^R \times d}$", "W_KR"),
        (r"$R_t \in \mathbb{R}^{d_h^R \times d_h^R}$", "R"), (r"$W^{O} \in \mathbb{R}^{d \times d_h n_h}$", "W_O")],
    "mamba_2": [
        (r"$X \in \mathbb{R}^{\mathtt{(T,P)}}$", "X"), (r"$Y \in \mathbb{R}^{\mathtt{(T,P)}}$", "Y"),
        (r"$B, C \in \mathbb{R}^{\mathtt{(T,N)}}$", "B C"), (r"$h_t \in \mathbb{R}^{\mathtt{(N,P)}}$", "h"),
        (r"$L \in \mathbb{R}^{\mathtt{(T,T)}}$", "L")],
    "alibi": [(r"$\mathbf{q}_i \in \mathbb{R}^{1 \times d}$", "q")],
    "t5": [
        (r"$Q_h, K_h \in \mathbb{R}^{T \times d_k}$", "Q K"), (r"$V_h \in \mathbb{R}^{T \times d_v}$", "V"),
        (r"$b \in \mathbb{R}^{H \times N}$", "b")],
    "roformer": [
        (r"$\mathbf{x}_m \in \mathbb{R}^{D}$", "x"),
        (r"$\mathbf{W}_q, \mathbf{W}_k \in \mathbb{R}^{d \times D}$", "W_q W_k"),
        (r"$\mathbf{W}_v \in \mathbb{R}^{d_v \times D}$", "W_v")],
    "longformer": [
        (r"$X \in \mathbb{R}^{n \times d_{model}}$", "X"),
        (r"$W_s^Q, W_s^K \in \mathbb{R}^{d_{model} \times d_k}$", "W_s_Q W_s_K"),
        (r"$W_s^V \in \mathbb{R}^{d_{model} \times d_v}$", "W_s_V")],
    "retnet": [
        (r"$X \in \mathbb{R}^{|x| \times d_{\mathrm{model}}}$", "X"),
        (r"$W_Q, W_K \in \mathbb{R}^{d_{\mathrm{model}} \times d}$", "W_Q W_K"),
        (r"$W_V \in \mathbb{R}^{d_{\mathrm{model}} \times d_v}$", "W_V"),
        (r"$D \in \mathbb{R}^{|x| \times |x|}$", "D")],
    "performer": [
        (r"$\mathbf{Q}, \mathbf{K}, \mathbf{V} \in \mathbb{R}^{L \times d}$", "Q K V"),
        (r"$\omega_1, \dots, \omega_m \in \mathbb{R}^d$", "omega"),
        (r"$\mathbf{Q}', \mathbf{K}' \in \mathbb{R}^{L \times m}$", "Q_prime K_prime")],
    "vit": [
        (r"$\mathbf{x}_p^i \in \mathbb{R}^{1 \times (P^2 \cdot C)}$", "x_p"),
        (r"$\mathbf{x}_{\text{class}} \in \mathbb{R}^{1 \times D}$", "x_class"),
        (r"\mathbf{E} \in \mathbb{R}^{(P^2 \cdot C) \times D}", "E"),
        (r"\mathbf{E}_{pos} \in \mathbb{R}^{(N + 1) \times D}", "E_pos z_0 z_1_prime z_1"),
        (r"\mathbf{U}_{qkv}^i &\in \mathbb{R}^{D \times 3 D_h}", "U_qkv"),
        (r"\mathbf{U}_{msa} &\in \mathbb{R}^{k \cdot D_h \times D}", "U_msa"),
        (r"$W_1 \in \mathbb{R}^{D \times D_m}$", "W_1"), (r"$b_1 \in \mathbb{R}^{D_m}$", "b_1"),
        (r"$W_2 \in \mathbb{R}^{D_m \times D}$", "W_2"), (r"$b_2 \in \mathbb{R}^{D}$", "b_2")],
}
# Sizes as the excerpts write them and as the tables do.
WRITTEN = {r"\dmodel": "d_model", "d_{model}": "d_model", r"d_{\mathrm{model}}": "d_model", "hd_v": "h*d_v",
           "H d_h": "H*d_h", "d_h n_h": "n_h*d_h", "d_h^R n_h": "n_h*d_h_R", "d_h^R": "d_h_R", "d_c'": "d_c_prime",
           "|x|": "x_len", r"(P^2 \cdot C)": "P*P*C", "(N + 1)": "N+1", "3 D_h": "3*D_h", r"k \cdot D_h": "k*D_h"}


def place(name: str) -> Path:
    """The file of an excerpt, of which there is one."""
    [path] = (path for path in FOLDER.iterdir() if path.stem == name and path.suffix in {".tex", ".md"})
    return path


def text(name: str) -> str:
    """An excerpt."""
    return place(name).read_text(encoding="utf-8")


def shape(name: str, axes: Shape) -> list[int]:
    """The lengths of the axes at the sizes of an excerpt."""
    return [extent(name, axis) for axis in axes]


def unbalanced(excerpt: str) -> str | None:
    """What does not close in an excerpt, if anything; environments, braces, dollars and delimiters that stretch."""
    open_: list[str] = []
    closes = {"}": "{", "\\right": "\\left"}
    excerpt = re.sub(r"(?<!\\)%.*|<!--.*?-->", "", excerpt)
    tokens: list[str] = re.findall(
        r"\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\left(?![a-z])|\\right(?![a-z])|\\.|\$\$?|[{}]", excerpt)
    for token in tokens:
        if token.startswith("\\begin"):
            open_.append(token[6:])
        elif token in {"{", "\\left"} or (token[0] == "$" and token not in open_):
            open_.append(token)
        elif token[0] == "$" or token in closes or token.startswith("\\end"):
            wanted = token[4:] if token.startswith("\\end") else closes.get(token, token)
            if not open_ or open_.pop() != wanted:
                return token
    return open_[-1] if open_ else None


def assert_sound(excerpt: str) -> None:
    """The excerpt is balanced, a strict parser of LaTeX takes it, and no display has an empty line."""
    assert unbalanced(excerpt) is None
    LatexWalker(excerpt, tolerant_parsing=False).get_latex_nodes()
    displays = list(re.finditer(r"\$\$.*?\$\$|\\begin\{(equation|align)(\*?)\}.*?\\end\{\1\2\}", excerpt, re.S))
    assert displays and not any("\n\n" in found.group() for found in displays)


def outputs(reference: references.Reference, name: str, seed: int = 0) -> Tensors:
    """What a reference makes of the inputs of an excerpt."""
    return reference(**INPUTS[name](seed=seed))


def test_there_are_twelve_and_each_has_everything() -> None:
    for table in (SIZES, INPUT_SHAPES, OUTPUT_SHAPES, FINAL, OPEN, INPUTS, SAID):
        assert sorted(table) == NAMES
    assert len(NAMES) == 12
    stems = [path.stem for path in FOLDER.iterdir() if path.suffix in {".tex", ".md"}]
    assert sorted(stems) == sorted([*NAMES, "README"])
    assert sum(place(name).suffix == ".md" for name in NAMES) == 3
    assert Counter(one.name for one in ALTERED) == dict.fromkeys(NAMES, 3)


@pytest.mark.parametrize("name", NAMES)
def test_an_excerpt_is_balanced_and_short(name: str) -> None:
    assert 10 <= len(text(name).splitlines()) <= 40
    assert_sound(text(name))


def test_what_is_not_balanced_is_found() -> None:
    for wrong in (r"\frac{a}{b", r"$a", r"\begin{align} a \end{equation}", r"\left( a", r"$$a$", r"{$a}$", "a}"):
        assert unbalanced(wrong) is not None
    for right in (r"\{a \} \left\{ b \right. \leftrightarrow \$", "$a$ $$b_{c}$$ % {", r"\begin{align*}\\\end{align*}"):
        assert unbalanced(right) is None


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_odd_and_all_axes_differ(name: str) -> None:
    for letter, size in SIZES[name].items():
        assert size % 2 == (0 if (name, letter) in ODD else 1) and size > 1
    axes = {axis for table in (INPUT_SHAPES, OUTPUT_SHAPES) for one in table[name].values() for axis in one}
    lengths = [extent(name, axis) for axis in axes | set(SIZES[name])]  # products and sums differ from their parts too
    assert len(lengths) == len(set(lengths))


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_have_the_shapes_that_the_excerpt_says(name: str) -> None:
    known = {**INPUT_SHAPES[name], **OUTPUT_SHAPES[name]}
    for words, tensors in SAID[name]:
        assert words in text(name)
        said = re.search(r"\\in \\mathbb\{R\}\^(?:\{(.*)\}|(\w))\$?$", words)
        assert said is not None
        inside = said.group(1) or said.group(2)
        tuple_ = re.fullmatch(r"\\mathtt\{\((.*)\)\}", inside)
        parts = tuple_.group(1).split(",") if tuple_ else inside.split(r" \times ")
        axes = [WRITTEN.get(part, part) for part in parts if part != "1"]  # a row has one axis in the tables
        for tensor in tensors.split():
            assert list(known[tensor][-len(axes):]) == axes, tensor
            assert len(known[tensor]) - len(axes) in {0, 1}, tensor


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_runs(name: str) -> None:
    drawn = INPUTS[name]()
    assert {key: list(value.shape) for key, value in drawn.items()} == {
        key: shape(name, axes) for key, axes in INPUT_SHAPES[name].items()}
    found = REFERENCES[name](**drawn)
    assert {key: list(value.shape) for key, value in found.items()} == {
        key: shape(name, axes) for key, axes in OUTPUT_SHAPES[name].items()}
    for value in (*drawn.values(), *found.values()):
        assert value.dtype == torch.float64 and bool(value.isfinite().all())
    assert set(FINAL[name]) <= set(found)
    for key in FINAL[name]:
        assert 0.05 < float(found[key].std()) < 50, key
    again, other = INPUTS[name](), INPUTS[name](seed=1)
    assert all(torch.equal(value, again[key]) and not torch.equal(value, other[key]) for key, value in drawn.items())


@pytest.mark.parametrize("name", NAMES)
def test_every_input_matters(name: str) -> None:
    """An input whose change no final output shows could be left out or misread unseen."""
    plain = outputs(REFERENCES[name], name)
    for key, value in INPUTS[name]().items():
        found = REFERENCES[name](**{**INPUTS[name](), key: value * 1.3})
        assert any((found[one] - plain[one]).abs().max() > 1e-3 for one in FINAL[name]), key


@pytest.mark.parametrize("one", ALTERED, ids=IDS)
def test_a_slip_stands_in_its_excerpt_once(one: Altered) -> None:
    assert text(one.name).count(one.old) == 1 and one.old != one.new
    assert_sound(text(one.name).replace(one.old, one.new))
    assert one.spoiled and set(one.spoiled) <= set(OUTPUT_SHAPES[one.name])
    assert set(one.spoiled) & set(FINAL[one.name])


@pytest.mark.parametrize("one", ALTERED, ids=IDS)
def test_a_slip_is_refused_for_a_reason_or_means_something_else(one: Altered) -> None:
    plain, found = (outputs(reference, one.name) for reference in (REFERENCES[one.name], one.reference()))
    if one.expected == REFUSED:
        assert one.clash is not None
        first, second = one.clash
        assert extent(one.name, first) != extent(one.name, second)
        return
    assert one.clash is None and not isinstance(one.expected, str)
    assert found.keys() == plain.keys()
    for key, value in found.items():
        assert value.shape == plain[key].shape and value.dtype == torch.float64 and bool(value.isfinite().all())
        if key in one.spoiled:
            assert (value - plain[key]).abs().max() > 1e-2, key
        else:
            torch.testing.assert_close(value, plain[key])


def test_slips_of_one_excerpt_differ() -> None:
    assert len({(one.name, one.new) for one in ALTERED}) == len(ALTERED) == len(set(IDS)) == 36


# What is known of each layer beside its formula: another implementation, or a law.


def test_multi_head_attention_is_that_of_torch() -> None:
    name = "attention_is_all_you_need"
    of = INPUTS[name]()
    q, k, v = (torch.einsum("nd,hde->hne", of[key], of[f"W_{key}"]) for key in "QKV")
    heads = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(outputs(REFERENCES[name], name)["head"], heads)
    wanted = torch.einsum("hnv,hvd->nd", heads, of["W_O"].reshape(heads.shape[0], heads.shape[2], -1))
    torch.testing.assert_close(outputs(REFERENCES[name], name)["MultiHead"], wanted)
    function = FUNCTIONS[name, "Attention"]
    torch.testing.assert_close(function(of["Q"], of["K"], of["V"]),
                               functional.scaled_dot_product_attention(of["Q"], of["K"], of["V"]))


def test_online_softmax_is_softmax() -> None:
    of, found = INPUTS["flash_attention_2"](), outputs(REFERENCES["flash_attention_2"], "flash_attention_2")
    weights = torch.softmax(torch.cat([of["S_1"], of["S_2"]], dim=1), dim=1)
    torch.testing.assert_close(found["O_2"], weights @ torch.cat([of["V_1"], of["V_2"]]))
    wanted = functional.scaled_dot_product_attention(of["Q"], of["K"], of["V"], scale=1.0)
    torch.testing.assert_close(found["O"], wanted)


def test_grouped_queries_are_those_of_torch() -> None:
    found = outputs(REFERENCES["gqa"], "gqa")
    heads = functional.scaled_dot_product_attention(
        found["Q"][None], found["K"][None], found["V"][None], enable_gqa=True)[0]
    torch.testing.assert_close(found["head"], heads)


def test_latent_attention_is_causal_attention_of_its_queries_and_keys() -> None:
    found = outputs(REFERENCES["deepseek_v2"], "deepseek_v2")
    q, k = found["q"].transpose(0, 1), found["k"].transpose(0, 1)
    v = found["v_C"].reshape(q.shape[1], q.shape[0], -1).transpose(0, 1)
    wanted = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1)
    torch.testing.assert_close(found["o"], wanted)


def test_dual_forms_agree() -> None:
    found = outputs(REFERENCES["mamba_2"], "mamba_2")
    torch.testing.assert_close(found["y"], found["Y"])
    found = outputs(REFERENCES["retnet"], "retnet")
    torch.testing.assert_close(found["Retention"], found["Retention_n"])


def test_linear_biases_are_a_bias_by_distance() -> None:
    of = INPUTS["alibi"]()
    place_ = torch.arange(of["q"].shape[0], dtype=torch.float64)
    bias = -of["m"] * (place_[:, None] - place_[None, :])
    bias = bias.masked_fill(bias > 0, -math.inf)
    wanted = functional.scaled_dot_product_attention(of["q"], of["K"], of["V"], attn_mask=bias, scale=1.0)
    torch.testing.assert_close(outputs(REFERENCES["alibi"], "alibi")["o"], wanted)


def test_relative_bias_is_one_number_for_a_distance() -> None:
    of, found, sizes = INPUTS["t5"](), outputs(REFERENCES["t5"], "t5"), SIZES["t5"]
    reached = {references.bucket(r, sizes["N"], sizes["E"], sizes["D"]) for r in range(sizes["T"])}
    assert reached == set(range(sizes["N"]))
    for row in range(1, sizes["T"]):
        torch.testing.assert_close(found["B"][:, row, 1:], found["B"][:, row - 1, :-1])
    hidden = torch.ones(sizes["T"], sizes["T"]).triu(1).bool()
    wanted = functional.scaled_dot_product_attention(
        of["Q"], of["K"], of["V"], attn_mask=found["B"].masked_fill(hidden, -math.inf), scale=1.0)
    torch.testing.assert_close(found["O"], wanted)


def test_rotations_are_orthogonal_and_relative() -> None:
    R = outputs(REFERENCES["roformer"], "roformer")["R"]
    for m in range(R.shape[0]):
        torch.testing.assert_close(R[m].T @ R[m], torch.eye(R.shape[1], dtype=torch.float64))
        for n in range(m + 1, R.shape[0]):
            torch.testing.assert_close(R[m].T @ R[n], R[n - m - 1])  # the position of R[0] is 1
    found = outputs(REFERENCES["roformer"], "roformer")
    torch.testing.assert_close(found["o"], functional.scaled_dot_product_attention(found["q"], found["k"], found["v"]))


def test_a_window_wide_enough_is_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    of, found = INPUTS["longformer"](), outputs(REFERENCES["longformer"], "longformer")
    X = of["X"].clone()
    X[0] += 1  # the first token is seen by two more, at half a window of two
    changed = REFERENCES["longformer"](**{**of, "X": X})["O"] - found["O"]
    assert (changed.abs().amax(dim=1) > 1e-6).tolist() == [True] * 3 + [False] * 8
    monkeypatch.setitem(SIZES["longformer"], "w", 2 * SIZES["longformer"]["n"])
    wide = outputs(REFERENCES["longformer"], "longformer")
    wanted = functional.scaled_dot_product_attention(wide["Q_s"], wide["K_s"], wide["V_s"])
    torch.testing.assert_close(wide["O"], wanted)


def test_random_features_approach_attention() -> None:
    of, found = INPUTS["performer"](), outputs(REFERENCES["performer"], "performer")
    for key, causal in (("Att_leftrightarrow", False), ("Att_rightarrow", True)):
        wanted = functional.scaled_dot_product_attention(of["Q"], of["K"], of["V"], is_causal=causal)
        torch.testing.assert_close(found[key], wanted)
    many = torch.randn(300_000, of["Q"].shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    near = REFERENCES["performer"](**{**of, "omega": many})["Att_leftrightarrow_hat"]
    assert (near - found["Att_leftrightarrow"]).abs().max() < 0.05


def test_the_block_of_the_encoder_is_that_of_torch() -> None:
    of, found = INPUTS["vit"](), outputs(REFERENCES["vit"], "vit")
    size = of["E"].shape[1]
    z = functional.layer_norm(found["z_0"], (size,), eps=1e-6)
    parts = torch.einsum("nd,kde->kne", z, of["U_qkv"])
    q, k, v = parts.reshape(*parts.shape[:2], 3, -1).unbind(2)
    heads = functional.scaled_dot_product_attention(q, k, v)
    after = heads.transpose(0, 1).flatten(1) @ of["U_msa"] + found["z_0"]
    torch.testing.assert_close(found["z_1_prime"], after)
    inner = functional.gelu(functional.layer_norm(after, (size,), eps=1e-6) @ of["W_1"] + of["b_1"])
    torch.testing.assert_close(found["z_1"], inner @ of["W_2"] + of["b_2"] + after)
    torch.testing.assert_close(found["y"], functional.layer_norm(found["z_1"], (size,), eps=1e-6)[0])
