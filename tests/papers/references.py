"""What each excerpt of this folder means: one plain function in float64 for each, with its sizes and inputs.

Names are those of the excerpt, transliterated: fonts and braces are dropped, a prime is `_prime`, a hat is `_hat`, a
tilde is `_tilde`, the label `(1)` is `_1`, ℓ is `l`, and |x| is `x_len`. An index of a family, such as
the head or the position, is no part of the name; it is the first axis of the tensor, and the rows and columns of the
matrix follow it. A vector has one axis, whether the paper makes it a row or a column. None of it comes from einc.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from zlib import crc32

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
Shape = tuple[str, ...]
Reference = Callable[..., Tensors]

# Odd and pairwise different, so that no swapped axis fits; `d` of RoFormer and `w` of Longformer are halved in the
# papers, so these two are even. T5's E and D, and Longformer's w, are numbers and no axes.
SIZES: dict[str, dict[str, int]] = {
    "attention_is_all_you_need": {"n": 5, "m": 13, "d_model": 11, "h": 3, "d_k": 7, "d_v": 9},
    "flash_attention_2": {"N": 9, "d": 5, "B_r": 3, "B_c": 7},
    "gqa": {"n": 7, "m": 11, "d": 13, "H": 15, "G": 5, "d_h": 9},
    "deepseek_v2": {"T": 5, "d": 23, "n_h": 3, "d_h": 7, "d_h_R": 9, "d_c": 11, "d_c_prime": 13},
    "mamba_2": {"T": 9, "N": 5, "P": 7},
    "alibi": {"L": 9, "d": 5, "d_v": 7},
    "t5": {"T": 13, "H": 5, "N": 7, "d_k": 9, "d_v": 11, "E": 3, "D": 17},
    "roformer": {"N": 5, "D": 9, "d": 6, "d_v": 7},
    "longformer": {"n": 11, "d_model": 9, "d_k": 5, "d_v": 7, "w": 4},
    "retnet": {"x_len": 9, "d_model": 11, "d": 5, "d_v": 7},
    "performer": {"L": 7, "d": 5, "m": 9},
    "vit": {"N": 9, "P": 3, "C": 5, "k": 7, "D": 11, "D_h": 13, "D_m": 17},
}

# The axes of what each excerpt takes. An axis is a sum of products of sizes.
INPUT_SHAPES: dict[str, dict[str, Shape]] = {
    "attention_is_all_you_need": {
        "Q": ("n", "d_model"), "K": ("m", "d_model"), "V": ("m", "d_model"), "W_Q": ("h", "d_model", "d_k"),
        "W_K": ("h", "d_model", "d_k"), "W_V": ("h", "d_model", "d_v"), "W_O": ("h*d_v", "d_model")},
    "flash_attention_2": {
        "Q": ("N", "d"), "K": ("N", "d"), "V": ("N", "d"), "S_1": ("B_r", "B_c"), "S_2": ("B_r", "B_c"),
        "V_1": ("B_c", "d"), "V_2": ("B_c", "d")},
    "gqa": {
        "X": ("n", "d"), "M": ("m", "d"), "W_Q": ("H", "d", "d_h"), "W_K": ("G", "d", "d_h"),
        "W_V": ("G", "d", "d_h"), "W_O": ("H*d_h", "d")},
    "deepseek_v2": {
        "h": ("T", "d"), "W_DKV": ("d_c", "d"), "W_UK": ("n_h*d_h", "d_c"), "W_UV": ("n_h*d_h", "d_c"),
        "W_DQ": ("d_c_prime", "d"), "W_UQ": ("n_h*d_h", "d_c_prime"), "W_QR": ("n_h*d_h_R", "d_c_prime"),
        "W_KR": ("d_h_R", "d"), "R": ("T", "d_h_R", "d_h_R"), "W_O": ("d", "n_h*d_h")},
    "mamba_2": {"X": ("T", "P"), "a": ("T",), "B": ("T", "N"), "C": ("T", "N")},
    "alibi": {"q": ("L", "d"), "K": ("L", "d"), "V": ("L", "d_v"), "m": ()},
    "t5": {"Q": ("H", "T", "d_k"), "K": ("H", "T", "d_k"), "V": ("H", "T", "d_v"), "b": ("H", "N")},
    "roformer": {"x": ("N", "D"), "W_q": ("d", "D"), "W_k": ("d", "D"), "W_v": ("d_v", "D")},
    "longformer": {
        "X": ("n", "d_model"), "W_s_Q": ("d_model", "d_k"), "W_s_K": ("d_model", "d_k"), "W_s_V": ("d_model", "d_v")},
    "retnet": {
        "X": ("x_len", "d_model"), "W_Q": ("d_model", "d"), "W_K": ("d_model", "d"), "W_V": ("d_model", "d_v"),
        "gamma": ()},
    "performer": {"Q": ("L", "d"), "K": ("L", "d"), "V": ("L", "d"), "omega": ("m", "d")},
    "vit": {
        "x_class": ("D",), "x_p": ("N", "P*P*C"), "E": ("P*P*C", "D"), "E_pos": ("N+1", "D"),
        "U_qkv": ("k", "D", "3*D_h"), "U_msa": ("k*D_h", "D"), "W_1": ("D", "D_m"), "b_1": ("D_m",),
        "W_2": ("D_m", "D"), "b_2": ("D",)},
}

# The axes of what each excerpt defines, but for masks, which are not finite, and for functions.
OUTPUT_SHAPES: dict[str, dict[str, Shape]] = {
    "attention_is_all_you_need": {"head": ("h", "n", "d_v"), "MultiHead": ("n", "d_model")},
    "flash_attention_2": {
        "S": ("N", "N"), "P": ("N", "N"), "O": ("N", "d"), "m_1": ("B_r",), "l_1": ("B_r",), "O_tilde_1": ("B_r", "d"),
        "m_2": ("B_r",), "l_2": ("B_r",), "O_tilde_2": ("B_r", "d"), "O_2": ("B_r", "d")},
    "gqa": {
        "Q": ("H", "n", "d_h"), "K": ("G", "m", "d_h"), "V": ("G", "m", "d_h"), "head": ("H", "n", "d_h"),
        "Y": ("n", "d")},
    "deepseek_v2": {
        "c_KV": ("T", "d_c"), "k_C": ("T", "n_h*d_h"), "v_C": ("T", "n_h*d_h"), "c_Q": ("T", "d_c_prime"),
        "q_C": ("T", "n_h*d_h"), "q_R": ("T", "n_h*d_h_R"), "k_R": ("T", "d_h_R"), "q": ("T", "n_h", "d_h+d_h_R"),
        "k": ("T", "n_h", "d_h+d_h_R"), "o": ("T", "n_h", "d_h"), "u": ("T", "d")},
    "mamba_2": {"h": ("T", "N", "P"), "y": ("T", "P"), "L": ("T", "T"), "Y": ("T", "P")},
    "alibi": {"o": ("L", "d_v")},
    "t5": {"B": ("H", "T", "T"), "O": ("H", "T", "d_v")},
    "roformer": {
        "R": ("N", "d", "d"), "q": ("N", "d"), "k": ("N", "d"), "v": ("N", "d_v"), "a": ("N", "N"), "o": ("N", "d_v")},
    "longformer": {"Q_s": ("n", "d_k"), "K_s": ("n", "d_k"), "V_s": ("n", "d_v"), "O": ("n", "d_v")},
    "retnet": {
        "Q": ("x_len", "d"), "K": ("x_len", "d"), "V": ("x_len", "d_v"), "D": ("x_len", "x_len"),
        "Retention": ("x_len", "d_v"), "S": ("x_len", "d", "d_v"), "Retention_n": ("x_len", "d_v")},
    "performer": {
        "A": ("L", "L"), "D": ("L", "L"), "Att_leftrightarrow": ("L", "d"), "A_tilde": ("L", "L"),
        "D_tilde": ("L", "L"), "Att_rightarrow": ("L", "d"), "Q_prime": ("L", "m"), "K_prime": ("L", "m"),
        "D_hat": ("L", "L"), "Att_leftrightarrow_hat": ("L", "d")},
    "vit": {"z_0": ("N+1", "D"), "z_1_prime": ("N+1", "D"), "z_1": ("N+1", "D"), "y": ("D",)},
}

# The outputs that the excerpt is about: what it defines and uses for nothing else.
FINAL: dict[str, tuple[str, ...]] = {
    "attention_is_all_you_need": ("MultiHead",),
    "flash_attention_2": ("O", "O_2"),
    "gqa": ("Y",),
    "deepseek_v2": ("u",),
    "mamba_2": ("y", "Y"),
    "alibi": ("o",),
    "t5": ("O",),
    "roformer": ("o",),
    "longformer": ("O",),
    "retnet": ("Retention", "Retention_n"),
    "performer": ("Att_leftrightarrow", "Att_rightarrow", "Att_leftrightarrow_hat"),
    "vit": ("y",),
}

# What the excerpt leaves open, as its paper does, and how the reference takes it. A reader may ask about these.
OPEN: dict[str, tuple[str, ...]] = {
    "attention_is_all_you_need": (
        "Q, K and V name the arguments of Attention and the wider inputs of MultiHead; the inputs are the wider ones.",
        "No axis of the softmax is named; the weights are on the values, so it runs over the m keys, along the rows.",
        "Concat puts the heads side by side in their order, which hd_v confirms."),
    "flash_attention_2": (
        "Vectors in ℝ^{B_r} are taken from matrices: entry r is taken from row r. Two such vectors side by side are "
        "multiplied entry by entry.",
        "S^{(1)}, S^{(2)}, V^{(1)} and V^{(2)} are given; they are not blocks of the S and V of the first display."),
    "gqa": (
        "Heads and groups are counted from 1, so group g has the H/G heads whose i/(H/G) rounds up to g.",
        "G = 1 and G = H name special cases; they are no facts about the sizes of this excerpt."),
    "deepseek_v2": (
        "The sizes are written d_h n_h, and the parts of the heads follow one another: head 1 first, with d_h entries.",
        "[a; b] stacks columns. q_t^C is the whole vector and q_{t,i}^C a part of it, although both are named q^C.",
        "R_t is an input, any matrix; RoPE reads the position from its argument, which is only said in words.",
        "Softmax_j runs over the j of the sum, 1 to t."),
    "mamba_2": (
        "x_t, B_t, C_t are the rows of X, B, C, as columns; y_t is said to be the row of Y, and is computed apart.",
        "a_i ⋯ a_{j+1} counts down from i to j + 1, so for i = j + 1 it is a_i alone; a_1 is read only with h_0 = 0."),
    "alibi": (
        "K and V have as many rows as the query's position: they are the first i rows of tensors with L rows.",
        "The list in brackets is a row with i entries, so that it has the one entry 0 for i = 1."),
    "t5": (
        "No axis of the softmax is named; the mask, which is causal, leaves only the rows: it runs over j.",
        "The subscript h is the head, and B_h is a matrix of that family; the last index of b counts from 0.",
        "log is natural, which cancels."),
    "roformer": (
        "The superscript d of R is its size and no power; its subscript Θ is a set that the position m goes with.",
        "The general block on the diagonal is that of θ_i; rows and columns are 2i - 1 and 2i.",
        "Positions count from 1."),
    "longformer": (
        "w is a number, and an even one.",
        "The subscript s says `sliding` and is no index, as the subscript `model` of d."),
    "retnet": (
        "|x| is a length and no absolute value.",
        "K_n and V_n are rows, so that K_n^⊤ V_n is a matrix; in the papers that write columns it would be a scalar.",
        "Retention is defined twice, of X and of its rows X_n; the second is called Retention_n here and must agree."),
    "performer": (
        "The vector x of φ is a column, and the i-th rows q_i and k_i are rows.",
        "A / √d divides each entry, and exp acts on each entry: it is not the exponential of a matrix.",
        "D, A and their kin with marks are six different tensors."),
    "vit": (
        "`;` stacks rows in z_0 and puts columns side by side in MSA; the sizes of E_pos and U_msa decide.",
        "[q, k, v] cuts the 3 D_h columns into three runs of D_h.",
        "No axis of the softmax is named; it runs along the rows.",
        "The superscript of x_p^i, U_qkv^i and z_1^0 is an index, that of P^2 and σ^2 a power; rows of z count from 0.",
        "A_i is used in SA_i(z) and depends on its argument z.",
        "LN is defined for a row and applied to matrices, and z W_1 + b_1 adds b_1 to each row.",
        "GELU is the exact one, with erf."),
}


def extent(name: str, axis: str) -> int:
    """The length of an axis of an excerpt at its sizes, from a sum of products of sizes and numbers."""
    sizes = SIZES[name]
    return sum(math.prod(int(factor) if factor.isdecimal() else sizes[factor] for factor in term.split("*"))
               for term in axis.split("+"))


def draw(name: str, seed: int = 0) -> Tensors:
    """The inputs of an excerpt, normal in float64; what is a parameter is scaled so that no softmax is nearly one-hot.

    Decays lie between zero and one, and the slope of ALiBi is positive, since the papers say or imply so.
    """
    generator = torch.Generator().manual_seed(crc32(name.encode()) + seed)
    drawn = {}
    for key, axes in INPUT_SHAPES[name].items():
        shape = [extent(name, axis) for axis in axes]
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        if (name, key) in {("mamba_2", "a"), ("retnet", "gamma")}:
            value = 0.5 + 0.5 * torch.sigmoid(value)
        elif (name, key) == ("alibi", "m"):
            value = 0.3 + 0.2 * torch.sigmoid(value)
        elif key[:2] in {"W_", "U_"} or key in {"E", "R", "omega"}:
            # The axis that a product sums over is the last where the paper's vectors are columns.
            summed = shape[-1] if name in {"deepseek_v2", "roformer", "performer"} else shape[-2]
            value = 1.2 * value / math.sqrt(summed)
        drawn[key] = value
    return drawn


INPUTS: dict[str, Callable[..., Tensors]] = {name: partial(draw, name) for name in SIZES}


def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """The function Attention of "Attention Is All You Need", over any leading axes."""
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    return torch.softmax(scores, dim=-1) @ V


def attention_is_all_you_need(
        Q: Tensor, K: Tensor, V: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Multi-head attention from n queries to m keys, without a mask."""
    heads = [attention(Q @ W_Q[i], K @ W_K[i], V @ W_V[i]) for i in range(W_Q.shape[0])]
    return {"head": torch.stack(heads), "MultiHead": torch.cat(heads, dim=1) @ W_O}


def flash_attention_2(
        Q: Tensor, K: Tensor, V: Tensor, S_1: Tensor, S_2: Tensor, V_1: Tensor, V_2: Tensor) -> Tensors:
    """Attention in three steps, and the online softmax over two blocks of columns, undivided until the end."""
    S = Q @ K.T
    P = torch.softmax(S, dim=1)
    m_1 = S_1.amax(dim=1)
    l_1 = torch.exp(S_1 - m_1[:, None]).sum(dim=1)
    O_tilde_1 = torch.exp(S_1 - m_1[:, None]) @ V_1
    m_2 = torch.maximum(m_1, S_2.amax(dim=1))
    l_2 = torch.exp(m_1 - m_2) * l_1 + torch.exp(S_2 - m_2[:, None]).sum(dim=1)
    O_tilde_2 = torch.diag(torch.exp(m_1 - m_2)) @ O_tilde_1 + torch.exp(S_2 - m_2[:, None]) @ V_2
    return {"S": S, "P": P, "O": P @ V, "m_1": m_1, "l_1": l_1, "O_tilde_1": O_tilde_1, "m_2": m_2, "l_2": l_2,
            "O_tilde_2": O_tilde_2, "O_2": O_tilde_2 / l_2[:, None]}


def gqa(X: Tensor, M: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Cross-attention whose H query heads share G key and value heads."""
    heads, groups = W_Q.shape[0], W_K.shape[0]
    Q = torch.stack([X @ weight for weight in W_Q])
    K = torch.stack([M @ weight for weight in W_K])
    V = torch.stack([M @ weight for weight in W_V])
    head = []
    for i in range(1, heads + 1):
        g = -(-i * groups // heads)  # rounded up
        weights = torch.softmax(Q[i - 1] @ K[g - 1].T / math.sqrt(Q.shape[2]), dim=1)
        head.append(weights @ V[g - 1])
    return {"Q": Q, "K": K, "V": V, "head": torch.stack(head), "Y": torch.cat(head, dim=1) @ W_O}


def deepseek_v2(
        h: Tensor, W_DKV: Tensor, W_UK: Tensor, W_UV: Tensor, W_DQ: Tensor, W_UQ: Tensor, W_QR: Tensor, W_KR: Tensor,
        R: Tensor, W_O: Tensor) -> Tensors:
    """Multi-head latent attention with decoupled positions, one token and one head at a time."""
    tokens, rotated = R.shape[0], R.shape[1]
    heads = W_QR.shape[0] // rotated
    size = W_UK.shape[0] // heads
    c_KV, c_Q = h @ W_DKV.T, h @ W_DQ.T
    k_C, v_C, q_C = c_KV @ W_UK.T, c_KV @ W_UV.T, c_Q @ W_UQ.T
    unrotated = (c_Q @ W_QR.T).reshape(tokens, heads, rotated)
    q_R = torch.stack([torch.cat([R[t] @ unrotated[t, i] for i in range(heads)]) for t in range(tokens)])
    k_R = torch.stack([R[t] @ (W_KR @ h[t]) for t in range(tokens)])
    q = torch.cat([q_C.reshape(tokens, heads, size), q_R.reshape(tokens, heads, rotated)], dim=2)
    k = torch.cat([k_C.reshape(tokens, heads, size), k_R[:, None, :].expand(tokens, heads, rotated)], dim=2)
    v = v_C.reshape(tokens, heads, size)
    o = torch.zeros(tokens, heads, size, dtype=h.dtype)
    for t in range(tokens):
        for i in range(heads):
            scores = k[:t + 1, i] @ q[t, i] / math.sqrt(size + rotated)
            o[t, i] = torch.softmax(scores, dim=0) @ v[:t + 1, i]
    u = o.reshape(tokens, heads * size) @ W_O.T
    return {"c_KV": c_KV, "k_C": k_C, "v_C": v_C, "c_Q": c_Q, "q_C": q_C, "q_R": q_R, "k_R": k_R, "q": q, "k": k,
            "o": o, "u": u}


def mamba_2(X: Tensor, a: Tensor, B: Tensor, C: Tensor) -> Tensors:
    """The state space duality: the recurrence, and the quadratic form with its mask."""
    length = X.shape[0]
    state = torch.zeros(B.shape[1], X.shape[1], dtype=X.dtype)
    h, y = [], []
    for t in range(length):
        state = a[t] * state + torch.outer(B[t], X[t])
        h.append(state)
        y.append(state.T @ C[t])
    L = torch.zeros(length, length, dtype=X.dtype)
    for i in range(length):
        for j in range(i + 1):
            L[i, j] = a[j + 1:i + 1].prod()  # one where the range is empty
    return {"h": torch.stack(h), "y": torch.stack(y), "L": L, "Y": (L * (C @ B.T)) @ X}


def alibi(q: Tensor, K: Tensor, V: Tensor, m: Tensor) -> Tensors:
    """Causal attention of one head with a penalty that is linear in the distance."""
    o = []
    for i in range(1, q.shape[0] + 1):
        bias = torch.arange(-(i - 1), 1, dtype=q.dtype)
        o.append(torch.softmax(q[i - 1] @ K[:i].T + m * bias, dim=0) @ V[:i])
    return {"o": torch.stack(o)}


def bucket(distance: int, N: int, E: int, D: int) -> int:
    """The bucket of a distance that is not negative, in T5."""
    if distance < E:
        return distance
    return min(N - 1, E + math.floor(math.log(distance / E) / math.log(D / E) * (N - E)))


def t5(Q: Tensor, K: Tensor, V: Tensor, b: Tensor) -> Tensors:
    """Causal attention with a learned bias for each head and bucket of distances."""
    E, D = SIZES["t5"]["E"], SIZES["t5"]["D"]
    heads, length, _ = Q.shape
    B = torch.zeros(heads, length, length, dtype=Q.dtype)
    mask = torch.zeros(length, length, dtype=Q.dtype)
    for i in range(length):
        for j in range(length):
            B[:, i, j] = b[:, bucket(max(i - j, 0), b.shape[1], E, D)]
            mask[i, j] = 0 if j <= i else -math.inf
    return {"B": B, "O": torch.softmax(Q @ K.transpose(1, 2) + B + mask, dim=2) @ V}


def rotary(length: int, d: int) -> Tensor:
    """The rotary matrices of RoFormer for the positions 1 to the length."""
    R = torch.zeros(length, d, d, dtype=torch.float64)
    for m in range(1, length + 1):
        for i in range(1, d // 2 + 1):
            angle = m * 10000 ** (-2 * (i - 1) / d)
            even, odd = 2 * i - 2, 2 * i - 1
            R[m - 1, even, even] = R[m - 1, odd, odd] = math.cos(angle)
            R[m - 1, even, odd], R[m - 1, odd, even] = -math.sin(angle), math.sin(angle)
    return R


def roformer(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensors:
    """Attention over all tokens with rotated queries and keys."""
    length, d = x.shape[0], W_q.shape[0]
    R = rotary(length, d)
    q = torch.stack([R[m] @ (W_q @ x[m]) for m in range(length)])
    k = torch.stack([R[n] @ (W_k @ x[n]) for n in range(length)])
    v = torch.stack([W_v @ x[n] for n in range(length)])
    e = torch.exp(q @ k.T / math.sqrt(d))
    a = e / e.sum(dim=1, keepdim=True)
    return {"R": R, "q": q, "k": k, "v": v, "a": a, "o": a @ v}


def band(length: int) -> Tensor:
    """True where two tokens of Longformer are at most half a window apart."""
    w = SIZES["longformer"]["w"]
    return torch.tensor([[abs(i - j) <= w / 2 for j in range(length)] for i in range(length)])


def longformer(X: Tensor, W_s_Q: Tensor, W_s_K: Tensor, W_s_V: Tensor) -> Tensors:
    """Attention within a sliding window."""
    Q_s, K_s, V_s = X @ W_s_Q, X @ W_s_K, X @ W_s_V
    scores = (Q_s @ K_s.T / math.sqrt(Q_s.shape[1])).masked_fill(~band(X.shape[0]), -math.inf)
    return {"Q_s": Q_s, "K_s": K_s, "V_s": V_s, "O": torch.softmax(scores, dim=1) @ V_s}


def retnet(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, gamma: Tensor) -> Tensors:
    """Retention of one head in parallel and as a recurrence."""
    length = X.shape[0]
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    D = torch.zeros(length, length, dtype=X.dtype)
    for n in range(length):
        for m in range(n + 1):
            D[n, m] = gamma ** (n - m)
    state = torch.zeros(K.shape[1], V.shape[1], dtype=X.dtype)
    S, rows = [], []
    for n in range(length):
        state = gamma * state + torch.outer(K[n], V[n])
        S.append(state)
        rows.append(Q[n] @ state)
    return {"Q": Q, "K": K, "V": V, "D": D, "Retention": ((Q @ K.T) * D) @ V, "S": torch.stack(S),
            "Retention_n": torch.stack(rows)}


def performer(Q: Tensor, K: Tensor, V: Tensor, omega: Tensor) -> Tensors:
    """Attention without a mask, attention with a causal one, and the approximation of the first by random features."""
    d, m = Q.shape[1], omega.shape[0]

    def phi(x: Tensor) -> Tensor:
        """The positive random features of one vector."""
        return torch.exp(-(x @ x) / 2) * torch.exp(omega @ x) / math.sqrt(m)

    A = torch.exp(Q @ K.T / math.sqrt(d))
    A_tilde = torch.tril(A)
    Q_prime = torch.stack([phi(row / d ** 0.25) for row in Q])
    K_prime = torch.stack([phi(row / d ** 0.25) for row in K])
    normal, normal_tilde, normal_hat = A.sum(dim=1), A_tilde.sum(dim=1), Q_prime @ K_prime.sum(dim=0)
    return {"A": A, "D": torch.diag(normal), "Att_leftrightarrow": A @ V / normal[:, None],
            "A_tilde": A_tilde, "D_tilde": torch.diag(normal_tilde),
            "Att_rightarrow": A_tilde @ V / normal_tilde[:, None],
            "Q_prime": Q_prime, "K_prime": K_prime, "D_hat": torch.diag(normal_hat),
            "Att_leftrightarrow_hat": Q_prime @ (K_prime.T @ V) / normal_hat[:, None]}


def layer_norm(u: Tensor) -> Tensor:
    """LayerNorm of every row without gain and bias, by the variance that divides by the number of entries."""
    mu = u.mean(dim=-1, keepdim=True)
    variance = ((u - mu) ** 2).mean(dim=-1, keepdim=True)
    return (u - mu) / torch.sqrt(variance + 1e-6)


def gelu(x: Tensor) -> Tensor:
    """The exact GELU."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def vit(x_class: Tensor, x_p: Tensor, E: Tensor, E_pos: Tensor, U_qkv: Tensor, U_msa: Tensor, W_1: Tensor, b_1: Tensor,
        W_2: Tensor, b_2: Tensor) -> Tensors:
    """Patches to tokens, one block of an encoder with its norms first, and the norm of the row of the class."""
    z_0 = torch.cat([x_class[None, :], x_p @ E], dim=0) + E_pos
    z = layer_norm(z_0)
    heads = []
    for weight in U_qkv:
        q, k, v = (z @ weight).chunk(3, dim=1)
        heads.append(torch.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=1) @ v)
    z_1_prime = torch.cat(heads, dim=1) @ U_msa + z_0
    z_1 = gelu(layer_norm(z_1_prime) @ W_1 + b_1) @ W_2 + b_2 + z_1_prime
    return {"z_0": z_0, "z_1_prime": z_1_prime, "z_1": z_1, "y": layer_norm(z_1[0])}


REFERENCES: dict[str, Reference] = {
    "attention_is_all_you_need": attention_is_all_you_need,
    "flash_attention_2": flash_attention_2,
    "gqa": gqa,
    "deepseek_v2": deepseek_v2,
    "mamba_2": mamba_2,
    "alibi": alibi,
    "t5": t5,
    "roformer": roformer,
    "longformer": longformer,
    "retnet": retnet,
    "performer": performer,
    "vit": vit,
}

# Functions that a reader may compile as they stand, with their arguments as inputs.
FUNCTIONS: dict[tuple[str, str], Callable[..., Tensor]] = {("attention_is_all_you_need", "Attention"): attention}
