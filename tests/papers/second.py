"""What each excerpt of the folder `second` means: a plain function in float64 for each, and the shapes of its inputs.

Each was written before the excerpt was tried; the excerpts `judged_…` were written by someone who had not seen the
reader, for those that it now reads. A function takes the tensors by their names in Python and gives what
the excerpt defines; a name that a program gives its own spelling is in `SPELLED`. None of it comes from einc.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Tensors = dict[str, Tensor]

# Pairwise different and odd, so that no swapped side fits.
SIZES = {"n": 7, "m": 9, "d": 5, "N": 7, "M": 9, "T": 7, "L": 7, "S": 9, "C": 5, "D": 5, "F": 11, "H": 3, "h": 3,
         "k": 5,
         "v": 13, "d_k": 5, "d_v": 11, "d_q": 5, "n_v": 9, "d_ff": 13, "d_z": 15, "d_tau": 11, "d_m": 11, "d_model": 11,
         "e": 13, "ell": 7, "f": 13, "r": 3, "d_x": 11, "d_qk": 5, "d_y": 13, "d_r": 15, "D_S": 11, "D_C": 13, "p": 5,
         "Q_len": 7, "K_len": 9, "h_k": 3, "h_v": 5, "d_X": 11, "d_M": 13, "d_Y": 9}


def rows(x: Tensor) -> Tensor:
    """The softmax of each row."""
    return torch.softmax(x, -1)


def normal(x: Tensor) -> Tensor:
    """Each row less its mean, by its standard deviation, as torch has it unless told."""
    return functional.layer_norm(x, x.shape[-1:])


def linear_attention(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensors:
    """Rows of weighted means whose weights are products of features."""
    q, k, v = functional.elu(x @ W_Q) + 1, functional.elu(x @ W_K) + 1, x @ W_V
    weights = q @ k.T
    return {"V_prime": weights @ v / weights.sum(1, keepdim=True)}


def gated_linear_attention(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor) -> Tensors:
    """A state whose rows decay."""
    state, out = torch.zeros(k.shape[1], v.shape[1], dtype=q.dtype), []
    for t in range(len(q)):
        state = alpha[t][:, None] * state + torch.outer(k[t], v[t])
        out.append(q[t] @ state)
    return {"o": torch.stack(out)}


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensors:
    """A state that forgets what it has under a key before it writes there."""
    state, out = torch.zeros(v.shape[1], k.shape[1], dtype=q.dtype), []
    for t in range(len(q)):
        state = state - beta[t] * torch.outer(state @ k[t], k[t]) + beta[t] * torch.outer(v[t], k[t])
        out.append(state @ q[t])
    return {"o": torch.stack(out)}


def rms_norm(a: Tensor, g: Tensor) -> Tensors:
    """A vector by its root mean square."""
    return {"a_bar": a / a.square().mean().sqrt() * g}


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: Tensor) -> Tensors:
    """A vector less its mean, by its standard deviation."""
    return {"LayerNorm": (x - x.mean()) / (x.var(correction=0) + epsilon).sqrt() * gamma + beta}


def glu_variants(x: Tensor, W: Tensor, V: Tensor, W_2: Tensor) -> Tensors:
    """Feed-forward layers with gates."""
    return {"FFN_GEGLU": (functional.gelu(x @ W) * (x @ V)) @ W_2,
            "FFN_SwiGLU": (functional.silu(x @ W) * (x @ V)) @ W_2}


def cross_attention(z: Tensor, y: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensors:
    """Attention of one array to another."""
    q, k, v = z @ W_Q, y @ W_K, y @ W_V
    return {"Attention": rows(q @ k.T / math.sqrt(q.shape[1])) @ v}


def talking_heads(Q: Tensor, K: Tensor, V: Tensor, P_ell: Tensor, P_w: Tensor) -> Tensors:
    """Heads that are mixed before and after the softmax."""
    logits = torch.einsum("gh,gnm->hnm", P_ell, Q @ K.transpose(1, 2))
    return {"O": torch.einsum("gh,gnm->hnm", P_w, rows(logits)) @ V}


def multi_query(X: Tensor, M: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Heads that share keys and values."""
    heads = rows(X @ W_Q @ (M @ W_K).T / math.sqrt(W_K.shape[1])) @ (M @ W_V)
    return {"Y": heads.transpose(0, 1).reshape(len(X), -1) @ W_O}


def kernel_bias(q: Tensor, k: Tensor, v: Tensor, r_1: Tensor, r_2: Tensor) -> Tensors:
    """Causal attention with a bias that falls with the logarithm of the distance."""
    place = torch.arange(len(q), dtype=q.dtype)
    apart = (place[:, None] - place[None, :]).clamp(min=0)
    scores = q @ k.T / math.sqrt(q.shape[1]) - r_1 * torch.log(1 + r_2 * apart)
    scores = scores.masked_fill(place[None, :] > place[:, None], -math.inf)
    return {"o": rows(scores) @ v}


def cosine_attention(q: Tensor, k: Tensor, B: Tensor, tau: Tensor, V: Tensor) -> Tensors:
    """Attention whose scores are cosines."""
    return {"O": rows(functional.normalize(q, dim=1) @ functional.normalize(k, dim=1).T / tau + B) @ V}


def cosformer(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Linear attention whose weights fall with the distance as a cosine does."""
    place = torch.arange(len(Q), dtype=Q.dtype)
    weights = Q.relu() @ K.relu().T * torch.cos(math.pi / 2 * (place[:, None] - place[None, :]) / len(Q))
    return {"O": weights @ V / weights.sum(1, keepdim=True)}


def perceiver(Z: Tensor, X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Latents that attend to an array."""
    q, k, v = normal(Z) @ W_Q, normal(X) @ W_K, normal(X) @ W_V
    return {"Z_prime": Z + rows(q @ k.T / math.sqrt(q.shape[1])) @ v @ W_O}


def set_transformer(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Attention without a scale."""
    return {"Att": rows(Q @ K.T) @ V}


def nystrom_iteration(A_S: Tensor, Z_0: Tensor) -> Tensors:
    """One step of third order towards an inverse."""
    one = torch.eye(len(A_S), dtype=A_S.dtype)
    product = A_S @ Z_0
    return {"Z_1": Z_0 @ (13 * one - product @ (15 * one - product @ (7 * one - product))) / 4}


def linformer(E: Tensor, F: Tensor, Q: Tensor, K: Tensor, V: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensors:
    """Attention to keys and values that are mixed over positions."""
    scores = Q @ W_Q @ (E @ K @ W_K).transpose(1, 2) / math.sqrt(W_Q.shape[2])
    return {"head_bar": rows(scores) @ (F @ V @ W_V)}


def synthesizer(X: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, W_G: Tensor) -> Tensors:
    """Weights that each token makes by itself."""
    return {"Y": rows((X @ W_1 + b_1).relu() @ W_2 + b_2) @ (X @ W_G)}


def gmlp(X: Tensor, U: Tensor, V: Tensor, W: Tensor, b: Tensor) -> Tensors:
    """A gate that mixes positions."""
    one, two = functional.gelu(X @ U).chunk(2, 1)
    return {"Y": (one * (W @ two + b.reshape(-1, 1))) @ V}


def mlp_mixer(X: Tensor, W_1: Tensor, W_2: Tensor, W_3: Tensor, W_4: Tensor) -> Tensors:
    """Tokens are mixed for each channel, and channels for each token."""
    mixed = X + W_2 @ functional.gelu(W_1 @ X)
    return {"Y": mixed + (W_4 @ functional.gelu(W_3 @ mixed.T)).T}


def hopfield(
        X: Tensor, xi: Tensor, beta: Tensor, R: Tensor, Y: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensors:
    """One step of retrieval, and the layer of it."""
    return {"xi_new": X @ torch.softmax(beta * (X.T @ xi), 0),
            "Z": rows(beta * (R @ W_Q @ W_K.T @ Y.T)) @ Y @ W_K @ W_V}


def parallel_layers(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_1: Tensor, W_2: Tensor) -> Tensors:
    """Attention and a feed-forward layer side by side."""
    y = normal(x)
    scores = normal(y @ W_Q) @ normal(y @ W_K).T / math.sqrt(x.shape[1])
    return {"y": x + functional.gelu(y @ W_1) @ W_2 + rows(scores) @ (y @ W_V)}


def qk_norm(Q: Tensor, K: Tensor, V: Tensor, g: Tensor) -> Tensors:
    """Attention of rows that have length 1."""
    return {"O": rows(g * (functional.normalize(Q, dim=1) @ functional.normalize(K, dim=1).T)) @ V}


def efficient_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Queries are normalized along features, keys along positions."""
    return {"E": rows(Q) @ (torch.softmax(K, 0).T @ V)}


def attention_free(Q: Tensor, K: Tensor, V: Tensor, w: Tensor) -> Tensors:
    """Weighted means of each feature, with a gate."""
    weights = torch.exp(K[None] + w[:, :, None])
    return {"Y": torch.sigmoid(Q) * (weights * V[None]).sum(1) / weights.sum(1)}


def relative_positions(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, a_V: Tensor, a_K: Tensor) -> Tensors:
    """Attention with vectors for pairs of positions."""
    keys = (x @ W_K)[None] + a_K
    scores = torch.einsum("id,ijd->ij", x @ W_Q, keys) / math.sqrt(W_Q.shape[1])
    return {"z": torch.einsum("ij,ijd->id", rows(scores), (x @ W_V)[None] + a_V)}


def sigmoid_attention(X: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensors:
    """Weights of pairs, each by itself."""
    scores = X @ W_q @ (X @ W_k).T / math.sqrt(W_q.shape[1]) - math.log(len(X))
    return {"SigmoidAttn": torch.sigmoid(scores) @ (X @ W_v)}


def lora(W_0: Tensor, B: Tensor, A: Tensor, x: Tensor) -> Tensors:
    """A matrix and a product of two thin ones."""
    return {"h": W_0 @ x + B @ (A @ x)}


def differential_attention(
        X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, lambda_q_1: Tensor, lambda_k_1: Tensor, lambda_q_2: Tensor,
        lambda_k_2: Tensor, lambda_init: Tensor) -> Tensors:
    """The difference of two maps of attention."""
    (q1, q2), (k1, k2), v = (X @ W_Q).chunk(2, 1), (X @ W_K).chunk(2, 1), X @ W_V
    share = torch.exp(lambda_q_1 @ lambda_k_1) - torch.exp(lambda_q_2 @ lambda_k_2) + lambda_init
    scale = math.sqrt(q1.shape[1])
    return {"DiffAttn": (rows(q1 @ k1.T / scale) - share * rows(q2 @ k2.T / scale)) @ v}


def rwkv(k: Tensor, v: Tensor, r: Tensor, w: Tensor, u: Tensor, W_o: Tensor) -> Tensors:
    """Weighted means of what came before, whose own place has a bonus."""
    out = []
    for t in range(len(k)):
        past = torch.arange(t, dtype=k.dtype)[:, None]
        weights = torch.exp(-(t - 1 - past) * w + k[:t])
        own = torch.exp(u + k[t])
        out.append(((weights * v[:t]).sum(0) + own * v[t]) / (weights.sum(0) + own))
    mean = torch.stack(out)
    return {"wkv": mean, "o": (torch.sigmoid(r) * mean) @ W_o.T}


def windowed_bias(Q: Tensor, K: Tensor, V: Tensor, B: Tensor) -> Tensors:
    """Attention with a bias for each pair."""
    return {"Attention": rows(Q @ K.T / math.sqrt(Q.shape[1]) + B) @ V}


def soft_mixture(X: Tensor, Phi: Tensor, W: Tensor) -> Tensors:
    """Slots that are means of tokens, and tokens that are means of slots."""
    scores = X @ Phi
    slots = functional.gelu(torch.softmax(scores, 0).T @ X @ W)
    return {"Y": torch.softmax(scores, 1) @ slots}


def soft_cap(Q: Tensor, K: Tensor, V: Tensor, c: Tensor) -> Tensors:
    """Causal attention whose logits stay below c."""
    logits = c * torch.tanh(Q @ K.T / (c * math.sqrt(Q.shape[1])))
    later = torch.ones(len(Q), len(Q)).triu(1).bool()
    return {"O": rows(logits.masked_fill(later, -math.inf)) @ V}


def gated_retention(Q: Tensor, K: Tensor, V: Tensor, gamma: Tensor) -> Tensors:
    """Products with the past, less the farther it is."""
    place = torch.arange(len(Q), dtype=Q.dtype)
    return {"O": (Q @ K.T * torch.tril(gamma ** (place[:, None] - place[None, :]))) @ V}


def causal_linear(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Means of the past by products of features."""
    weights = (Q.relu() @ K.relu().T).tril()
    return {"O": weights @ V / weights.sum(1, keepdim=True)}


# What each takes, by the sizes of its axes, after its function.
def multi_head(Q: Tensor, K: Tensor, V: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensors:
    """Heads side by side, each attention of queries, keys and values that are projected for it."""
    heads = [rows(Q @ a @ (K @ b).T / math.sqrt(b.shape[-1])) @ (V @ c) for a, b, c in zip(W_Q, W_K, W_V, strict=True)]
    return {"MultiHead": torch.cat(heads, -1) @ W_O}


def feed_forward(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensors:
    """Two layers of one position, added to it and normalised."""
    inner = functional.relu(x @ W_1 + b_1) @ W_2 + b_2
    return {"FFN": inner, "y": normal(x + inner)}


def linearized(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensors:
    """The same as `linear_attention`, with two forms of one mean."""
    return linear_attention(x, W_Q, W_K, W_V)


def mixing(X: Tensor, W_1: Tensor, W_2: Tensor, W_3: Tensor, W_4: Tensor) -> Tensors:
    """Small networks along the columns, then along the rows."""
    gelu = functional.gelu
    inner = X + W_2 @ gelu(W_1 @ normal(X))
    return {"Y": inner + gelu(normal(inner) @ W_3.T) @ W_4.T}


def mixed_heads(X: Tensor, M: Tensor, P_l: Tensor, P_w: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor,
                W_o: Tensor) -> Tensors:
    """Heads that are mixed before the softmax and after it."""
    logits = torch.einsum("ab,ant->bnt", P_l, (X @ W_q) @ (M @ W_k).transpose(1, 2))
    mixed = torch.einsum("bc,bnt->cnt", P_w, rows(logits))
    return {"Y": (mixed @ (M @ W_v) @ W_o).sum(0)}


def gated_values(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_G: Tensor, W_O: Tensor) -> Tensors:
    """Attention whose result a sigmoid gates."""
    a = torch.softmax((X @ W_Q) @ (X @ W_K).T / math.sqrt(W_Q.shape[1]), -1)
    return {"Y": (torch.sigmoid(X @ W_G) * (a @ (X @ W_V))) @ W_O}


def tokens_are_columns(X: Tensor, W_1: Tensor, W_2: Tensor) -> Tensors:
    """A feed-forward block of tokens that are columns."""
    return {"Y": X + W_2 @ torch.relu(W_1 @ functional.layer_norm(X.T, (X.shape[0],)).T)}


def slots_compete(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Weights normalised over queries, then over keys."""
    a = torch.softmax(Q @ K.T / math.sqrt(Q.shape[1]), 0)
    return {"U": (a / a.sum(1, keepdim=True)) @ V}


def sign_of_the_outer_product(u: Tensor, v: Tensor, x: Tensor) -> Tensors:
    """A matrix from two vectors by a sign that mostly means another product."""
    return {"y": torch.outer(u, v) @ x}


def bits(z: Tensor) -> Tensors:
    """Entropy with logarithms to base 2."""
    p = torch.softmax(z, 0)
    return {"H": -(p * torch.log2(p)).sum()}


def batch_norm(X: Tensor, gamma: Tensor, beta: Tensor, epsilon: Tensor) -> Tensors:
    """Each feature normalised over a batch."""
    mu, var = X.mean(0), X.var(0, unbiased=False)
    return {"Y": gamma * (X - mu) / torch.sqrt(var + epsilon) + beta}


def focal_loss(z: Tensor, gamma: Tensor) -> Tensors:
    """Cross-entropy with less weight where it is small."""
    p = torch.sigmoid(z)
    return {"L_cal": -((1 - p) ** gamma * torch.log(p)).mean()}


def info_nce(U: Tensor, V: Tensor, tau: Tensor) -> Tensors:
    """Cross-entropy of each pair among all."""
    return {"L_cal": functional.cross_entropy(U @ V.T / tau, torch.arange(len(U)))}


def mask_of_the_past(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Attention to what comes later."""
    s = Q @ K.T / math.sqrt(Q.shape[1])
    s = s.masked_fill(torch.ones_like(s).tril(-1).bool(), -math.inf)
    return {"O": torch.softmax(s, -1) @ V}


def norm_along_the_first_axis(X: Tensor, W: Tensor) -> Tensors:
    """A norm over the batch."""
    return {"Y": (X / torch.sqrt((X * X).mean(0, keepdim=True) + 1e-6)) @ W}


def keys_are_stored_transposed(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Attention with one key a column."""
    return {"O": torch.softmax(Q @ K / math.sqrt(Q.shape[1]), -1) @ V}


def highway(x: Tensor, W_T: Tensor, b_T: Tensor, W_H: Tensor, b_H: Tensor) -> Tensors:
    """A layer beside its input, mixed by a gate."""
    t = torch.sigmoid(W_T @ x + b_T)
    return {"y": t * torch.tanh(W_H @ x + b_H) + (1 - t) * x}


def gru(x: Tensor, W_z: Tensor, U_z: Tensor, b_z: Tensor, W_r: Tensor, U_r: Tensor, b_r: Tensor, W_h: Tensor,
        U_h: Tensor, b_h: Tensor) -> Tensors:
    """A recurrence with two gates."""
    h, out = torch.zeros(len(b_z), dtype=x.dtype), []
    for x_t in x:
        z = torch.sigmoid(W_z @ x_t + U_z @ h + b_z)
        r = torch.sigmoid(W_r @ x_t + U_r @ h + b_r)
        h = (1 - z) * h + z * torch.tanh(W_h @ x_t + U_h @ (r * h) + b_h)
        out.append(h)
    return {"h": torch.stack(out)}


def sigma_is_the_softmax(Q: Tensor, K: Tensor, V: Tensor) -> Tensors:
    """Attention whose softmax has another name."""
    return {"O": torch.softmax(Q @ K.T, -1) @ V}


def e_is_an_embedding(e: Tensor, u: Tensor) -> Tensors:
    """A weighted mean of vectors that are called e."""
    return {"y": torch.softmax(e @ u, 0) @ e}


def squeeze_excite(X: Tensor, W_1: Tensor, W_2: Tensor) -> Tensors:
    """Channels scaled by what their means say."""
    return {"Y": torch.sigmoid(W_2 @ torch.relu(W_1 @ X.mean(0))) * X}


def bars_are_the_first_norm(x: Tensor) -> Tensors:
    """A vector by the sum of its sizes."""
    return {"y": x / x.abs().sum()}


def weight_norm(v: Tensor, g: Tensor, x: Tensor, b: Tensor) -> Tensors:
    """A weight of a given length."""
    return {"y": g * v @ x / v.norm() + b}


def columns_sum_to_one(K: Tensor, Q: Tensor, V: Tensor) -> Tensors:
    """Attention with one query a column."""
    return {"Y": torch.softmax(K @ Q.T, 0).T @ V}


def average_attention(y: Tensor, W_i: Tensor, W_f: Tensor) -> Tensors:
    """Means of what came before, mixed by gates."""
    g = torch.cumsum(y, 0) / torch.arange(1, len(y) + 1, dtype=y.dtype)[:, None]
    return {"h": torch.sigmoid(y @ W_i.T) * y + torch.sigmoid(g @ W_f.T) * g}


def judged_gated_layers(x: Tensor, W: Tensor, V: Tensor, W_2: Tensor) -> Tensors:
    """Two feed-forward layers with gates, of one vector."""
    u, v = x @ W, x @ V
    return {"FFN_GEGLU": (functional.gelu(u) * v) @ W_2, "FFN_SwiGLU": (u * torch.sigmoid(u) * v) @ W_2}


TAKES: dict[str, tuple[Callable[..., Tensors], str]] = {
    "judged_multi_head": (multi_head, "Q:n,d_model K:m,d_model V:m,d_model W_Q:h,d_model,d_k W_K:h,d_model,d_k "
                          "W_V:h,d_model,d_v W_O:h*d_v,d_model"),
    "judged_feed_forward": (feed_forward, "x:d_model W_1:d_model,d_ff b_1:d_ff W_2:d_ff,d_model b_2:d_model"),
    "judged_linearized": (linearized, "x:N,F W_Q:F,D W_K:F,D W_V:F,M"),
    "judged_mixing": (mixing, "X:S,C W_1:D_S,S W_2:S,D_S W_3:D_C,C W_4:C,D_C"),
    "judged_mixed_heads": (mixed_heads, "X:n,d_X M:m,d_M P_l:h_k,h P_w:h,h_v W_q:h_k,d_X,d_k W_k:h_k,d_M,d_k "
                           "W_v:h_v,d_M,d_v W_o:h_v,d_v,d_Y"),
    "judged_gated_layers": (judged_gated_layers, "x:d_model W:d_model,d_ff V:d_model,d_ff W_2:d_ff,d_model"),
    "linear_attention": (linear_attention, "x:N,F W_Q:F,D W_K:F,D W_V:F,M"),
    "gated_linear_attention": (gated_linear_attention, "q:L,d_k k:L,d_k v:L,d_v alpha:L,d_k"),
    "delta_rule": (delta_rule, "q:L,d_k k:L,d_k v:L,d_v beta:L"),
    "rms_norm": (rms_norm, "a:n g:n"),
    "layer_norm": (layer_norm, "x:d gamma:d beta:d epsilon:"),
    "glu_variants": (glu_variants, "x:n,d W:d,d_ff V:d,d_ff W_2:d_ff,d"),
    "cross_attention": (cross_attention, "z:N,d_z y:M,d_tau W_Q:d_z,d W_K:d_tau,d W_V:d_tau,d"),
    "talking_heads": (talking_heads, "Q:H,n,d_k K:H,m,d_k V:H,m,d_v P_ell:H,H P_w:H,H"),
    "multi_query": (multi_query, "X:n,d M:m,d W_Q:h,d,k W_K:d,k W_V:d,v W_O:h*v,d"),
    "kernel_bias": (kernel_bias, "q:L,d k:L,d v:L,d_v r_1: r_2:"),
    "cosine_attention": (cosine_attention, "q:n,d k:n,d B:n,n tau: V:n,d"),
    "cosformer": (cosformer, "Q:N,d K:N,d V:N,d"),
    "perceiver": (perceiver, "Z:N,D X:M,C W_Q:D,F W_K:C,F W_V:C,F W_O:F,D"),
    "set_transformer": (set_transformer, "Q:n,d_q K:n_v,d_q V:n_v,d_v"),
    "nystrom_iteration": (nystrom_iteration, "A_S:m,m Z_0:m,m"),
    "linformer": (linformer, "E:h,k,n F:h,k,n Q:n,d_m K:n,d_m V:n,d_m W_Q:h,d_m,d_k W_K:h,d_m,d_k W_V:h,d_m,d_v"),
    "synthesizer": (synthesizer, "X:ell,d W_1:d,d b_1:d W_2:d,ell b_2:ell W_G:d,d"),
    "gmlp": (gmlp, "X:n,d U:d,2*e V:e,d W:n,n b:n"),
    "mlp_mixer": (mlp_mixer, "X:S,C W_1:D_S,S W_2:S,D_S W_3:D_C,C W_4:C,D_C"),
    "hopfield": (hopfield, "X:d,N xi:d beta: R:S,d_r Y:N,d_y W_Q:d_r,d_k W_K:d_y,d_k W_V:d_k,d_v"),
    "parallel_layers": (parallel_layers, "x:n,d W_Q:d,d W_K:d,d W_V:d,d W_1:d,f W_2:f,d"),
    "qk_norm": (qk_norm, "Q:n,d K:n,d V:n,d g:"),
    "efficient_attention": (efficient_attention, "Q:n,d_k K:n,d_k V:n,d_v"),
    "attention_free": (attention_free, "Q:T,d K:T,d V:T,d w:T,T"),
    "relative_positions": (relative_positions, "x:n,d_x W_Q:d_x,d_z W_K:d_x,d_z W_V:d_x,d_z a_V:n,n,d_z a_K:n,n,d_z"),
    "sigmoid_attention": (sigmoid_attention, "X:n,d W_q:d,d_qk W_k:d,d_qk W_v:d,d_v"),
    "lora": (lora, "W_0:d,k B:d,r A:r,k x:k"),
    "differential_attention": (differential_attention, "X:N,d_model W_Q:d_model,2*d W_K:d_model,2*d W_V:d_model,2*d "
                               "lambda_q_1:d lambda_k_1:d lambda_q_2:d lambda_k_2:d lambda_init:"),
    "rwkv": (rwkv, "k:T,d v:T,d r:T,d w:d u:d W_o:d,d"),
    "windowed_bias": (windowed_bias, "Q:m*m,d K:m*m,d V:m*m,d B:m*m,m*m"),
    "soft_mixture": (soft_mixture, "X:m,d Phi:d,p W:d,d"),
    "soft_cap": (soft_cap, "Q:n,d K:n,d V:n,d_v c:"),
    "gated_retention": (gated_retention, "Q:n,d K:n,d V:n,d_v gamma:"),
    "causal_linear": (causal_linear, "Q:n,d K:n,d V:n,d_v"),
    "gated_values": (gated_values, "X:n,d W_Q:d,d_k W_K:d,d_k W_V:d,d_v W_G:d,d_v W_O:d_v,d"),
    "tokens_are_columns": (tokens_are_columns, "X:d,n W_1:d_ff,d W_2:d,d_ff"),
    "slots_compete": (slots_compete, "Q:m,d K:n,d V:n,d_v"),
    "sign_of_the_outer_product": (sign_of_the_outer_product, "u:m v:n x:n"),
    "bits": (bits, "z:n"),
    "batch_norm": (batch_norm, "X:n,d gamma:d beta:d epsilon:"),
    "focal_loss": (focal_loss, "z:n gamma:"),
    "info_nce": (info_nce, "U:n,d V:n,d tau:"),
    "mask_of_the_past": (mask_of_the_past, "Q:n,d K:n,d V:n,d"),
    "norm_along_the_first_axis": (norm_along_the_first_axis, "X:n,d W:d,m"),
    "keys_are_stored_transposed": (keys_are_stored_transposed, "Q:n,d K:d,m V:m,d_v"),
    "highway": (highway, "x:d W_T:d,d b_T:d W_H:d,d b_H:d"),
    "gru": (gru, "x:T,d W_z:h,d U_z:h,h b_z:h W_r:h,d U_r:h,h b_r:h W_h:h,d U_h:h,h b_h:h"),
    "sigma_is_the_softmax": (sigma_is_the_softmax, "Q:n,d K:n,d V:n,d"),
    "e_is_an_embedding": (e_is_an_embedding, "e:n,d u:d"),
    "squeeze_excite": (squeeze_excite, "X:n,d W_1:r,d W_2:d,r"),
    "bars_are_the_first_norm": (bars_are_the_first_norm, "x:d"),
    "weight_norm": (weight_norm, "v:d g: x:d b:"),
    "columns_sum_to_one": (columns_sum_to_one, "K:n,d Q:m,d V:n,d_v"),
    "average_attention": (average_attention, "y:T,d W_i:d,d W_f:d,d"),
}
