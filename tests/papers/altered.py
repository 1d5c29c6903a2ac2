"""Three slips for each excerpt, each a replacement of a text that stands in it once, and what may come of them.

A slip is either `REFUSED`, since the shapes that the excerpt says cannot meet, or it has another meaning, for which a
function is given. `spoiled` are the outputs that have no meaning left, in a refused one, or that change, in the other;
the outputs beside them keep the meaning of the excerpt. `clash` are two extents that a refused slip would make equal.
A reader may always refuse. It must never give a refused output a value, nor read a slip as if it were not there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from papers import references
from papers.references import Reference, Tensors
from torch import Tensor

REFUSED: Final = "refused"


@dataclass(frozen=True)
class Altered:
    """A slip in an excerpt and what is expected of a reader."""

    name: str
    alteration: str
    old: str
    new: str
    expected: Reference | str
    spoiled: tuple[str, ...]
    clash: tuple[str, str] | None = None

    def reference(self) -> Reference:
        """What the outputs mean after the slip; in a refused one that holds for those that are not spoiled."""
        return references.REFERENCES[self.name] if isinstance(self.expected, str) else self.expected


def keys_from_values(
        Q: Tensor, K: Tensor, V: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Multi-head attention whose keys are projected from V; K itself is unused."""
    return references.attention_is_all_you_need(Q, V, V, W_Q, W_K, W_V, W_O)


def softmax_by_columns(
        Q: Tensor, K: Tensor, V: Tensor, S_1: Tensor, S_2: Tensor, V_1: Tensor, V_2: Tensor) -> Tensors:
    """FlashAttention-2 where every column of P sums to one; the online softmax is as it was."""
    found = references.flash_attention_2(Q, K, V, S_1, S_2, V_1, V_2)
    P = torch.exp(found["S"]) / torch.exp(found["S"]).sum(dim=0, keepdim=True)
    return {**found, "P": P, "O": P @ V}


def softmax_over_targets(X: Tensor, M: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Grouped-query attention whose weights sum to one over the target positions."""
    found = references.gqa(X, M, W_Q, W_K, W_V, W_O)
    share = W_Q.shape[0] // W_K.shape[0]
    K, V = found["K"].repeat_interleave(share, dim=0), found["V"].repeat_interleave(share, dim=0)
    weights = torch.softmax(found["Q"] @ K.transpose(1, 2) / math.sqrt(K.shape[2]), dim=1)
    head = weights @ V
    return {**found, "head": head, "Y": torch.cat(list(head), dim=1) @ W_O}


def softmax_over_heads(
        h: Tensor, W_DKV: Tensor, W_UK: Tensor, W_UV: Tensor, W_DQ: Tensor, W_UQ: Tensor, W_QR: Tensor, W_KR: Tensor,
        R: Tensor, W_O: Tensor) -> Tensors:
    """Latent attention whose weights sum to one over the heads, for each pair of tokens."""
    found = references.deepseek_v2(h, W_DKV, W_UK, W_UV, W_DQ, W_UQ, W_QR, W_KR, R, W_O)
    q, k = found["q"], found["k"]
    tokens, heads, size = found["o"].shape
    weights = torch.softmax(torch.einsum("tid,jid->tji", q, k) / math.sqrt(q.shape[2]), dim=2)
    weights = weights * torch.ones(tokens, tokens, dtype=h.dtype).tril()[:, :, None]
    o = torch.einsum("tji,jid->tid", weights, found["v_C"].reshape(tokens, heads, size))
    return {**found, "o": o, "u": o.reshape(tokens, heads * size) @ W_O.T}


def one_factor_more(X: Tensor, a: Tensor, B: Tensor, C: Tensor) -> Tensors:
    """The dual form whose entries below the diagonal have the factors a_i to a_j; the recurrence is as it was."""
    found = references.mamba_2(X, a, B, C)
    L = torch.eye(X.shape[0], dtype=X.dtype)
    for i in range(X.shape[0]):
        for j in range(i):
            L[i, j] = a[j:i + 1].prod()
    return {**found, "L": L, "Y": (L * (C @ B.T)) @ X}


def near_keys_penalized(q: Tensor, K: Tensor, V: Tensor, m: Tensor) -> Tensors:
    """ALiBi whose first key has no penalty and whose own position has the largest."""
    scores = q @ K.T - m * torch.arange(q.shape[0], dtype=q.dtype)[None, :]
    future = torch.ones(q.shape[0], q.shape[0]).triu(1).bool()
    return {"o": torch.softmax(scores.masked_fill(future, -math.inf), dim=1) @ V}


def distance_turned(Q: Tensor, K: Tensor, V: Tensor, b: Tensor) -> Tensors:
    """T5 whose distance is that into the future, which is 0 for all that the mask lets through."""
    E, D = references.SIZES["t5"]["E"], references.SIZES["t5"]["D"]
    T = Q.shape[1]
    buckets = torch.tensor([[references.bucket(max(j - i, 0), b.shape[1], E, D) for j in range(T)] for i in range(T)])
    B = b[:, buckets]
    mask = torch.full((T, T), -math.inf, dtype=Q.dtype).triu(1)
    return {"B": B, "O": torch.softmax(Q @ K.transpose(1, 2) + B + mask, dim=2) @ V}


def sum_over_queries(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensors:
    """RoFormer whose weights sum to one over the queries, for each key."""
    found = references.roformer(x, W_q, W_k, W_v)
    a = torch.softmax(found["q"] @ found["k"].T / math.sqrt(W_q.shape[0]), dim=0)
    return {**found, "a": a, "o": a @ found["v"]}


def softmax_along_columns(X: Tensor, W_s_Q: Tensor, W_s_K: Tensor, W_s_V: Tensor) -> Tensors:
    """Longformer whose weights sum to one over the queries of a window."""
    found = references.longformer(X, W_s_Q, W_s_K, W_s_V)
    scores = found["Q_s"] @ found["K_s"].T / math.sqrt(W_s_Q.shape[1])
    scores = scores.masked_fill(~references.band(X.shape[0]), -math.inf)
    return {**found, "O": torch.softmax(scores, dim=0) @ found["V_s"]}


def outside_the_window(X: Tensor, W_s_Q: Tensor, W_s_K: Tensor, W_s_V: Tensor) -> Tensors:
    """Longformer which attends to the tokens at least half a window away; both edges of the window stay."""
    found = references.longformer(X, W_s_Q, W_s_K, W_s_V)
    place = torch.arange(X.shape[0])
    far = (place[:, None] - place[None, :]).abs() >= references.SIZES["longformer"]["w"] / 2
    scores = (found["Q_s"] @ found["K_s"].T / math.sqrt(W_s_Q.shape[1])).masked_fill(~far, -math.inf)
    return {**found, "O": torch.softmax(scores, dim=1) @ found["V_s"]}


def growth_for_decay(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, gamma: Tensor) -> Tensors:
    """Retention in parallel whose weights grow with the distance; the recurrence decays as it did."""
    found = references.retnet(X, W_Q, W_K, W_V, gamma)
    place = torch.arange(X.shape[0], dtype=X.dtype)
    D = torch.tril(gamma ** (place[None, :] - place[:, None]))
    return {**found, "D": D, "Retention": ((found["Q"] @ found["K"].T) * D) @ found["V"]}


def divided_by_columns(Q: Tensor, K: Tensor, V: Tensor, omega: Tensor) -> Tensors:
    """Performer whose row i of exact attention is divided by the sum of column i; the others are as they were."""
    found = references.performer(Q, K, V, omega)
    normal = found["A"].sum(dim=0)
    return {**found, "D": torch.diag(normal), "Att_leftrightarrow": found["A"] @ V / normal[:, None]}


def keys_first(
        x_class: Tensor, x_p: Tensor, E: Tensor, E_pos: Tensor, U_qkv: Tensor, U_msa: Tensor, W_1: Tensor, b_1: Tensor,
        W_2: Tensor, b_2: Tensor) -> Tensors:
    """ViT where the first third of the columns of U_qkv makes keys and the second makes queries."""
    first, second, third = U_qkv.chunk(3, dim=2)
    turned = torch.cat([second, first, third], dim=2)
    return references.vit(x_class, x_p, E, E_pos, turned, U_msa, W_1, b_1, W_2, b_2)


ALTERED: tuple[Altered, ...] = (
    # Projected queries are n × d_k and projected keys m × d_k: their product needs d_k = m. So do the arguments of
    # Attention itself, by the text above it.
    Altered("attention_is_all_you_need", "the transpose of K forgotten", r"\frac{QK^T}{", r"\frac{QK}{",
            REFUSED, ("head", "MultiHead"), ("d_k", "m")),
    # V and K are both m × d_model: the keys are now made of V, and K is named but not used.
    Altered("attention_is_all_you_need", "keys projected from the values", r"KW^K_i", r"VW^K_i",
            keys_from_values, ("head", "MultiHead")),
    # V is m × d_model, and W^V_i is now d_v × d_model: the product needs d_model = d_v.
    Altered("attention_is_all_you_need", "the shape of a head's W^V swapped",
            r"$W^V_i \in \mathbb{R}^{\dmodel \times d_v}$", r"$W^V_i \in \mathbb{R}^{d_v \times \dmodel}$",
            REFUSED, ("head", "MultiHead"), ("d_model", "d_v")),

    # Q and K are both N × d: their product needs d = N. The online softmax has scores of its own.
    Altered("flash_attention_2", "the transpose of K forgotten",
            r"\mathbf{Q} \mathbf{K}^\top", r"\mathbf{Q} \mathbf{K}", REFUSED, ("S", "P", "O"), ("d", "N")),
    # S is square, so either axis fits; the text now says the columns. `rowmax` and `rowsum` still say rows.
    Altered("flash_attention_2", "softmax over the other axis", "softmax taken row-wise", "softmax taken column-wise",
            softmax_by_columns, ("P", "O")),
    # The exponentials are B_r × B_c and the values now d × B_c: their product needs B_c = d.
    Altered("flash_attention_2", "the shape of the blocks of values swapped",
            r"$\mathbf{V}^{(1)}, \mathbf{V}^{(2)} \in \mathbb{R}^{B_c \times d}$",
            r"$\mathbf{V}^{(1)}, \mathbf{V}^{(2)} \in \mathbb{R}^{d \times B_c}$",
            REFUSED, ("O_tilde_1", "O_tilde_2", "O_2"), ("B_c", "d")),

    # A query head is n × d_h and a key head m × d_h: their product needs d_h = m.
    Altered("gqa", "the transpose of K forgotten", r"K_{g(i)}^\top", r"K_{g(i)}",
            REFUSED, ("head", "Y"), ("d_h", "m")),
    # The scores are n × m, and the text now says that each column of them sums to one.
    Altered("gqa", "softmax over the other axis", "over the $m$ source positions", "over the $n$ target positions",
            softmax_over_targets, ("head", "Y")),
    # H heads with d_h columns each are H d_h columns side by side, and W^O now has G d_h rows.
    Altered("gqa", "as many rows in W^O as groups have", r"W^O \in \mathbb{R}^{H d_h \times d}",
            r"W^O \in \mathbb{R}^{G d_h \times d}", REFUSED, ("Y",), ("H*d_h", "G*d_h")),

    # W^{DKV} is now d × d_c and h_t has d entries: the product needs d_c = d. All keys and values hang on it.
    Altered("deepseek_v2", "the shape of W^{DKV} swapped", r"W^{DKV} \in \mathbb{R}^{d_c \times d}",
            r"W^{DKV} \in \mathbb{R}^{d \times d_c}", REFUSED, ("c_KV", "k_C", "v_C", "k", "o", "u"), ("d_c", "d")),
    # Two columns of d_h + d_h^R entries have no matrix product: the one on the left has one column. Nor does it help to
    # multiply them entry by entry: d_h + d_h^R weights do not go with a value that has d_h entries.
    Altered("deepseek_v2", "the transpose of q forgotten", r"\mathbf{q}_{t,i}^T \mathbf{k}_{j,i}",
            r"\mathbf{q}_{t,i} \mathbf{k}_{j,i}", REFUSED, ("o", "u"), ("1", "d_h+d_h_R")),
    # The scores have t, j and the head i: the weights now sum to one over the heads, and the sum still runs over j.
    Altered("deepseek_v2", "softmax over the other axis", r"\operatorname{Softmax}_j", r"\operatorname{Softmax}_i",
            softmax_over_heads, ("o", "u")),

    # C and B are both T × N: their product needs N = T. The recurrence does not use it.
    Altered("mamba_2", "the transpose of B forgotten", r"C B^\top", r"C B", REFUSED, ("Y",), ("N", "T")),
    # The state is N × P and C_t has N entries: their product needs P = N. The dual form does not use it.
    Altered("mamba_2", "the transpose of the state forgotten", r"h_t^\top C_t", r"h_t C_t",
            REFUSED, ("y",), ("P", "N")),
    # The product now takes in a_j too, and for i > j it has one factor more. The diagonal has its own line.
    Altered("mamba_2", "one factor more in the mask", r"a_i \cdots a_{j+1}", r"a_i \cdots a_j",
            one_factor_more, ("L", "Y")),

    # The query is 1 × d and the keys i × d: their product needs d = i for every i, up to L.
    Altered("alibi", "the transpose of K forgotten", r"\mathbf{K}^\top", r"\mathbf{K}", REFUSED, ("o",), ("d", "L")),
    # A row with i entries as before, from 0 down to -(i - 1): the farthest key has no penalty.
    Altered("alibi", "the biases in the other direction", r"[-(i-1), \ldots, -2, -1, 0]",
            r"[0, -1, -2, \ldots, -(i-1)]", near_keys_penalized, ("o",)),
    # A row from -i to 0 has i + 1 entries, and there are i scores. For the last query that is L + 1 and L.
    Altered("alibi", "one bias too many", r"[-(i-1), \ldots, -2, -1, 0]", r"[-i, \ldots, -2, -1, 0]",
            REFUSED, ("o",), ("L+1", "L")),

    # Q_h and K_h are both T × d_k: their product needs d_k = T. The biases B are as they were.
    Altered("t5", "the transpose of K forgotten", r"Q_h K_h^\top", r"Q_h K_h", REFUSED, ("O",), ("d_k", "T")),
    # max(j - i, 0) is 0 for every j that the mask lets through, and counts into the future elsewhere: another B.
    Altered("t5", "the distance turned round", r"\max(i - j, 0)", r"\max(j - i, 0)", distance_turned, ("B", "O")),
    # The weights are T × T and V_h is now d_v × T: their product needs T = d_v.
    Altered("t5", "the shape of a head's V swapped", r"$V_h \in \mathbb{R}^{T \times d_v}$",
            r"$V_h \in \mathbb{R}^{d_v \times T}$", REFUSED, ("O",), ("T", "d_v")),

    # Two columns of d entries have no matrix product: the one on the left has one column. Nor does it help to multiply
    # them entry by entry: a weight with d entries does not go with a value that has d_v. The denominator is as it was.
    Altered("roformer", "the transpose of q forgotten", r"\mathbf{q}_m^\top \mathbf{k}_n", r"\mathbf{q}_m \mathbf{k}_n",
            REFUSED, ("a", "o"), ("1", "d")),
    # The denominator now sums over the queries j against the key n: each column of a sums to one.
    Altered("roformer", "softmax over the other axis",
            r"\mathbf{q}_m^\top \mathbf{k}_j", r"\mathbf{q}_j^\top \mathbf{k}_n", sum_over_queries, ("a", "o")),
    # W_q and W_k are now D × d and x_m has D entries: the product needs d = D. The values are as they were.
    Altered("roformer", "the shape of W_q and W_k swapped",
            r"$\mathbf{W}_q, \mathbf{W}_k \in \mathbb{R}^{d \times D}$",
            r"$\mathbf{W}_q, \mathbf{W}_k \in \mathbb{R}^{D \times d}$", REFUSED, ("q", "k", "a", "o"), ("d", "D")),

    # Q_s and K_s are both n × d_k: their product needs d_k = n.
    Altered("longformer", "the transpose of K forgotten", "Q_s K_s^T", "Q_s K_s", REFUSED, ("O",), ("d_k", "n")),
    # The scores are square, and the band is the same on either side: the text now says the columns.
    Altered("longformer", "softmax over the other axis", "along each row", "along each column",
            softmax_along_columns, ("O",)),
    # The mask now lets through what is at least half a window away. Every row still has such a token, since n > w.
    Altered("longformer", "the window turned inside out", r"|i - j| \leq", r"|i - j| \geq", outside_the_window, ("O",)),

    # Q and K are both |x| × d: their product needs d = |x|. The recurrence does not use it.
    Altered("retnet", "the transpose of K forgotten", r"Q K^\top", r"Q K", REFUSED, ("Retention",), ("d", "x_len")),
    # K_n is a row with d entries, and the transposed V_n a column with d_v: their product needs d = d_v.
    Altered("retnet", "the wrong one of two rows transposed", r"K_n^\top V_n", r"K_n V_n^\top",
            REFUSED, ("S", "Retention_n"), ("d", "d_v")),
    # The exponent is negative below the diagonal: the weights grow with the distance. The recurrence is as it was.
    Altered("retnet", "the exponent of the decay turned round", r"\gamma^{n-m}", r"\gamma^{m-n}",
            growth_for_decay, ("D", "Retention")),

    # Q and K are both L × d: their product needs d = L. Both exact forms hang on A; the approximation does not.
    Altered("performer", "the transpose of K forgotten", r"\mathbf{Q} \mathbf{K}^\top", r"\mathbf{Q} \mathbf{K}",
            REFUSED, ("A", "D", "Att_leftrightarrow", "A_tilde", "D_tilde", "Att_rightarrow"), ("d", "L")),
    # A is square: its transpose times ones are the sums of the columns, so row i is divided by the sum of column i.
    Altered("performer", "the sums over the other axis", r"\mathrm{diag}(\mathbf{A} \mathbf{1}_L)",
            r"\mathrm{diag}(\mathbf{A}^\top \mathbf{1}_L)", divided_by_columns, ("D", "Att_leftrightarrow")),
    # K' is L × m and V is L × d: their product needs m = L. The normalizer keeps its own transpose.
    Altered("performer", "the transpose of the features forgotten", r"(\mathbf{K}')^\top \mathbf{V}",
            r"(\mathbf{K}') \mathbf{V}", REFUSED, ("Att_leftrightarrow_hat",), ("m", "L")),

    # q_i and k_i are both (N + 1) × D_h: their product needs D_h = N + 1.
    Altered("vit", "the transpose of k forgotten", r"\mathbf{q}_i \mathbf{k}_i^\top", r"\mathbf{q}_i \mathbf{k}_i",
            REFUSED, ("z_1_prime", "z_1", "y"), ("D_h", "N+1")),
    # q and k have one shape: the first third of the columns is now the keys, and the scores are those turned round.
    Altered("vit", "queries and keys in the other order", r"[\mathbf{q}_i, \mathbf{k}_i, \mathbf{v}_i]",
            r"[\mathbf{k}_i, \mathbf{q}_i, \mathbf{v}_i]", keys_first, ("z_1_prime", "z_1", "y")),
    # k heads side by side are k D_h columns, and U_msa now has D rows. One below another they would be D_h columns,
    # which does not fit either, and no reading of `;` gives D columns.
    Altered("vit", "the shape of U_msa swapped",
            r"\mathbb{R}^{k \cdot D_h \times D}", r"\mathbb{R}^{D \times k \cdot D_h}",
            REFUSED, ("z_1_prime", "z_1", "y"), ("k*D_h", "D")),
)
