"""Sections of well-known papers with the words that stand around their formulas: these say nothing unusual, so
nothing is a question, and what is read is what a function of torch computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812, its usual name

from tests.test_sections import returned

SIZES = {"n": 4, "d": 6, "m": 5, "k": 3, "T": 4, "e": 6}


@dataclass(frozen=True)
class Section:
    """A text, its arrays by the letters of their sizes, and the outputs that are wanted of them."""

    text: str
    takes: Mapping[str, str]
    wanted: Callable[..., dict[str, Tensor]]


SECTIONS = {
    "attention": Section(r"""
We compute the dot products of the query with all keys, divide each by $\sqrt{d}$, and apply a softmax function to
obtain the weights on the values. In practice, we compute the attention function on a set of queries simultaneously,
packed together into a matrix $Q \in \mathbb{R}^{n \times d}$. The keys and values are also packed together into
matrices $K \in \mathbb{R}^{m \times d}$ and $V \in \mathbb{R}^{m \times k}$. We compute the matrix of outputs as:

$$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}(\frac{QK^T}{\sqrt{d}})V $$

Dot-product attention is identical to our algorithm, except for the scaling factor of $\frac{1}{\sqrt{d}}$. We
suspect that for large values of $d$, the dot products grow large in magnitude, pushing the softmax function into
regions where it has extremely small gradients. To counteract this effect, we scale the dot products by
$\frac{1}{\sqrt{d}}$.""",
        {"Q": "nd", "K": "md", "V": "mk"},
        lambda Q, K, V: {"Attention": F.scaled_dot_product_attention(Q, K, V)}),
    "gpt_2": Section(r"""
Layer normalization was moved to the input of each sub-block, similar to a pre-activation residual network, and an
additional layer normalization was added after the final self-attention block. Layer normalization has a learned gain
and bias. We scale the weights of residual layers at initialization by a factor of $1/\sqrt{N}$ where $N$ is the
number of residual layers. Let $X \in \mathbb{R}^{n \times d}$ and $W \in \mathbb{R}^{d \times d}$. $$ Y = X +
\mathrm{LN}(X) W $$""",
        {"X": "nd", "W": "de"}, lambda X, W: {"Y": X + F.layer_norm(X, X.shape[-1:]) @ W}),
    "bert": Section(r"""
We use a gelu activation rather than the standard relu, following OpenAI GPT. We denote the number of layers as $L$
and the number of self-attention heads as $A$. Let $X \in \mathbb{R}^{n \times d}$, $W \in \mathbb{R}^{d \times m}$
and $U \in \mathbb{R}^{m \times d}$. $$ Y = \mathrm{gelu}(X W) U $$""",
        {"X": "nd", "W": "dm", "U": "md"}, lambda X, W, U: {"Y": F.gelu(X @ W) @ U}),
    "t5": Section(r"""
We use a simplified version of layer normalization where the activations are only rescaled and no additive bias is
applied. Dropout is applied within the feed-forward network, on the skip connection and on the attention weights. The
feed-forward network comprises a dense layer with an output dimensionality of $d_{\text{ff}} = 3072$ followed by a
ReLU nonlinearity and another dense layer, where ReLU is $\max(0, x)$. Let $X \in \mathbb{R}^{n \times d}$,
$W_i \in \mathbb{R}^{d \times m}$ and $W_o \in \mathbb{R}^{m \times d}$. $$ Y = X + \mathrm{ReLU}(X W_i) W_o $$""",
        {"X": "nd", "W_i": "dm", "W_o": "md"}, lambda X, W_i, W_o: {"Y": X + F.relu(X @ W_i) @ W_o}),
    "llama": Section(r"""
To improve the training stability, we normalize the input of each transformer sub-layer, instead of normalizing the
output. We replace the ReLU non-linearity by the SwiGLU activation function, introduced by Shazeer (2020) to improve
the performance. With $Y \in \mathbb{R}^{n \times d}$, $W, V \in \mathbb{R}^{d \times m}$ and
$U \in \mathbb{R}^{m \times d}$, $$ Z = (\mathrm{Swish}(Y W) \odot Y V) U $$
where $\odot$ is the element-wise product and $\mathrm{Swish}(x) = x \sigma(x)$ with the sigmoid function
$\sigma$.""",
        {"Y": "nd", "W": "dm", "V": "dm", "U": "md"}, lambda Y, W, V, U: {"Z": (F.silu(Y @ W) * (Y @ V)) @ U}),
    "linformer": Section(r"""
We add two linear projection matrices $E, F \in \mathbb{R}^{k \times n}$ when computing key and value. Let
$Q, K, V \in \mathbb{R}^{n \times d}$. $$ H = \mathrm{softmax}\left(\frac{Q (E K)^T}{\sqrt{d}}\right) F V $$
Note the above operations only require $O(nk)$ time and space complexity.""",
        {"E": "kn", "F": "kn", "Q": "nd", "K": "nd", "V": "nd"}, lambda **x: {
            "H": torch.softmax(x["Q"] @ (x["E"] @ x["K"]).T / x["Q"].shape[1] ** 0.5, -1) @ x["F"] @ x["V"]}),
    "performer": Section(r"""
The regular attention is a mapping which accepts matrices $Q, K, V \in \mathbb{R}^{n \times d}$ as input where $d$ is
the hidden dimension. $$ A = \exp(Q K^\top / \sqrt{d}), \quad D = \mathrm{diag}(A 1_n) $$ $$ Y = D^{-1} A V $$
Here $\exp(\cdot)$ is applied elementwise, and $1_n$ is the all-ones vector of length $n$.""",
        {"Q": "nd", "K": "nd", "V": "nd"}, lambda Q, K, V: {"Y": F.scaled_dot_product_attention(Q, K, V)}),
    "gemma": Section(r"""
We cap logits in each attention layer and the final layer such that the value of the logits stays between $-c$ and
$+c$, with a scalar $c$. More specifically, we cap the logits $Z \in \mathbb{R}^{n \times m}$ with the following
function: $$ L = c \tanh(Z / c) $$ We set $c$ to 50 for the self-attention layers and to 30 for the final layer.""",
        {"Z": "nm", "c": ""}, lambda Z, c: {"L": c * torch.tanh(Z / c)}),
    "retnet": Section(r"""
For positions $t = 1, \dots, T$ let $Q, K, V \in \mathbb{R}^{T \times d}$ and a scalar decay $\gamma$. We add a
causal decay mask $D \in \mathbb{R}^{T \times T}$: $$ D_{nm} = \begin{cases} \gamma^{n-m}, & n \ge m \\ 0, & n < m
\end{cases} $$ $$ O = (Q K^\top \odot D) V $$ where $D$ combines causal masking and exponential decay along relative
distance as one matrix.""",
        {"Q": "Td", "K": "Td", "V": "Td", "gamma": ""}, lambda Q, K, V, gamma: {"O": (Q @ K.T * torch.tril(
            gamma ** (torch.arange(4.0).double()[:, None] - torch.arange(4.0).double()))) @ V}),
    "deepseek_v2": Section(r"""
Let $d$ be the embedding dimension and $h_t \in \mathbb{R}^{d}$ be the attention input of the $t$-th token at an
attention layer, for $t = 1, \dots, T$. $$ c_t^{KV} = W^{DKV} h_t $$ $$ k_t^C = W^{UK} c_t^{KV} $$
where $c_t^{KV} \in \mathbb{R}^{k}$ is the compressed latent vector for keys and values,
$W^{DKV} \in \mathbb{R}^{k \times d}$ is the down-projection matrix, and $W^{UK} \in \mathbb{R}^{m \times k}$ is the
up-projection matrix for keys. During inference, MLA only needs to cache $c_t^{KV}$.""",
        {"h": "Td", "W_DKV": "kd", "W_UK": "mk"}, lambda h, W_DKV, W_UK: {"k_C": h @ W_DKV.T @ W_UK.T}),
    "qwen": Section(r"""
We replace the traditional layer normalization technique with RMSNorm. Biases are removed from most layers, but added
in the QKV layer of attention. With $X \in \mathbb{R}^{n \times d}$, $W \in \mathbb{R}^{d \times k}$ and
$b \in \mathbb{R}^{k}$ the queries are $$ Q = \mathrm{RMSNorm}(X) W + b $$ where RMSNorm has a learnable gain.""",
        {"X": "nd", "W": "dk", "b": "k"}, lambda X, W, b: {"Q": F.rms_norm(X, X.shape[-1:], eps=1e-6) @ W + b}),
    "vit": Section(r"""
Layernorm (LN) is applied before every block, and residual connections after every block. The MLP contains two layers
with a GELU non-linearity. Let $z \in \mathbb{R}^{n \times d}$ be the tokens, $U_1 \in \mathbb{R}^{d \times m}$ and
$U_2 \in \mathbb{R}^{m \times d}$. $$ y = \mathrm{GELU}(\mathrm{LN}(z) U_1) U_2 + z $$""",
        {"z": "nd", "U_1": "dm", "U_2": "md"},
        lambda z, U_1, U_2: {"y": F.gelu(F.layer_norm(z, z.shape[-1:]) @ U_1) @ U_2 + z}),
    "switch": Section(r"""
The router variable $W_r \in \mathbb{R}^{d \times m}$ produces logits which are normalized via a softmax distribution
over the available $m$ experts at that layer, for tokens $x \in \mathbb{R}^{n \times d}$. $$ p = \mathrm{softmax}(x
W_r) $$ The hyper-parameter $\alpha$ is a multiplicative coefficient for these auxiliary losses; throughout this work
we use $\alpha = 10^{-2}$.""", {"x": "nd", "W_r": "dm"}, lambda x, W_r: {"p": torch.softmax(x @ W_r, -1)}),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_of_a_paper_with_its_words_is_read(name: str) -> None:
    random = np.random.default_rng(7)
    section = SECTIONS[name]
    given = {key: random.uniform(0.1, 1.0, [SIZES[x] for x in sizes]) for key, sizes in section.takes.items()}
    found = returned(section.text, "", given)
    wanted = section.wanted(**{key: torch.from_numpy(np.asarray(x)) for key, x in given.items()})
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value.numpy(), rtol=1e-9, atol=1e-12, err_msg=key)
