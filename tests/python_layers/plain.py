"""Plain functions of torch, each a way to write something: what `einc from` reads is held against what they compute."""

import math

import torch
import torch.nn.functional as F  # noqa: N812, as everybody calls it
from torch import einsum, nn
from torch.nn.functional import softmax


def deck(x, W_Q, W_K, W_V, W_O, mask, d_h):
    # Input: x[B, L, d]; weights W_Q[d, H, d_h], W_K[d, H, d_h], W_V[d, H, d_h], W_O[H, d_h, d], mask[L, L]
    q = einsum("bld,dhk->bhlk", x, W_Q)              # q[B, H, L, d_h]
    k = einsum("bld,dhk->bhlk", x, W_K)              # k[B, H, L, d_h]
    v = einsum("bld,dhk->bhlk", x, W_V)              # v[B, H, L, d_h]
    scores = einsum("bhlk,bhmk->bhlm", q, k) / math.sqrt(d_h)   # scores[B, H, L, L]
    attn = softmax(scores + mask, dim=-1)                  # attn[B, H, L, L]
    out = einsum("bhlm,bhmk->bhlk", attn, v)            # out[B, H, L, d_h]
    y = einsum("bhlk,hkd->bld", out, W_O)              # y[B, L, d]
    return y


def implicit(A, B):
    return einsum("ij,jk", A, B)


def alphabetical(A, B):
    return einsum("cb,ba", A, B)


def trace(A):
    return einsum("ii->", A)


def diagonal(A, x):
    return einsum("ii,i->i", A, x)


def outer(x, y):
    return einsum("i,j->ji", x, y)


def sums(x):
    # x: (B, T, C)
    return x.sum(-1) + x.mean(dim=2) * 2 - x.amax(-1)


def norm(x, g):
    # x: (B, T, C), g: (C)
    rms = torch.sqrt((x ** 2).mean(-1, keepdim=True) + 1e-6)
    return x / rms * g


def feed_forward(x, W_1, W_2, W_3):
    # x: (B, T, C), W_1: (C, F), W_2: (F, C), W_3: (C, F)
    return (F.silu(x @ W_1) * (x @ W_3)) @ W_2


def activations(x):
    # x: (T, C)
    return F.gelu(x) + F.gelu(x, approximate="tanh") * torch.sigmoid(x) - torch.tanh(x).exp() + F.relu(x).abs()


def heads(x, n_heads: int):
    B, T, C = x.shape
    y = x.view(B, T, n_heads, C // n_heads).transpose(1, 2)
    z = y * y.sum(-1, keepdim=True)
    return z.transpose(1, 2).reshape(B, T, C)


def packed(qkv, n_heads: int):
    B, T, C3 = qkv.shape  # noqa: RUF059, the name is that of a size
    q, k, v = qkv.view(B, T, 3, n_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def chunked(x):
    # x: (T, C)
    a, b = x.chunk(2, dim=-1)
    return a * torch.sigmoid(b)


def rotated(x):
    # x: (T, C)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def triangular(q, k, v):
    # q: (T, D), k: (T, D), v: (T, E)
    scores = q @ k.T
    T = scores.size(-1)
    mask = torch.triu(torch.ones(T, T), diagonal=1).bool()
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


def additive(q, k, v):
    # q: (T, D), k: (T, D), v: (T, E)
    T = q.shape[0]
    bias = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
    return torch.softmax(q @ k.T / 2 + bias, -1) @ v


def by_positions(q, k, v):
    # q: (T, D), k: (T, D), v: (T, E)
    i = torch.arange(q.size(0))
    keep = (i[None, :] <= i[:, None]) & (i[:, None] - i[None, :] < 3)
    return torch.where(keep, q @ k.mT, -math.inf).softmax(-1) @ v


def slopes(q, k, v, m):
    # q: (H, T, D), k: (H, T, D), v: (H, T, E), m: (H)
    T = q.size(1)
    i = torch.arange(T)
    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5 - m[:, None, None] * (i[:, None] - i[None, :])
    scores = scores.masked_fill(torch.ones(T, T).tril() == 0, -1e9)
    return scores.softmax(dim=-1) @ v


def linear_time(q, k, v):
    # q: (T, D), k: (T, D), v: (T, E)
    T = q.size(0)
    return (q @ k.T * torch.tril(torch.ones(T, T))) @ v


def shares(q, k):
    # q: (T, D), k: (T, D)
    T = q.size(0)
    scores = (q @ k.T).masked_fill(torch.ones(T, T).tril() == 0, -math.inf)
    return softmax(scores, dim=-1)


def log_shares(x):
    # x: (N, V)
    return x.log_softmax(-1), torch.logsumexp(x, dim=-1)


def spread(x):
    # x: (N, C)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)


def variance(x):
    # x: (N, C)
    return x.var(-1) + x.std(1)


def batched(a, b):
    # a: (N, I, K), b: (N, K, J)
    return torch.bmm(a, b).transpose(1, 2)


def again(x):
    # x: (T, C)
    x = x + 1
    x = x * x
    x += x.sum(0)
    return x


def flat(x, W):
    # x: (B, I, J), W: (K, IJ)
    return F.linear(x.flatten(1), W)


def gram(x):
    # x: (T, C)
    return x @ x.T + x @ x.transpose(0, 1)


def square(x):
    # x: (T, T)
    return x + x.T


def expanded(x, y):
    # x: (T), y: (C)
    return x[:, None].expand(-1, y.size(0)) + y


def cross(q, k, v):
    # q: (T, D), k: (S, D), v: (S, E)
    T, S = q.size(0), k.size(0)
    scores = q @ k.T
    scores = scores.masked_fill(torch.ones(T, S).tril() == 0, -math.inf)
    return scores.softmax(-1) @ v


def padded(scores, keep):
    # scores: (B, T, S), keep: (B, S)
    return scores.masked_fill(keep[:, None, :] == 0, -math.inf).softmax(-1)


def branch(x, gate=None, scale=2.0):
    # x: (T, C)
    if gate is not None:
        x = x * gate
    return x * scale


def running(x):
    # x: (T, C)
    return x.cumsum(0) / torch.arange(1, x.size(0) + 1)[:, None]


def later(x):
    # x: (T, C)
    i = torch.arange(x.size(0))
    return (i[:, None] <= i[None, :]).double() @ x


def limits(x, y):
    # x, y: (T, C)
    bounded = torch.minimum(x, y).clamp(1, 1) + torch.maximum(x, y).clamp(min=1) * x.clamp(max=1)
    return bounded + x.clamp(min=0) - y.clamp(-0.5, 2) + torch.logaddexp(x, y)


def chosen(x):
    # x: (T, C)
    return torch.where(x > 0, x, 0.1 * x) + F.leaky_relu(x) + F.elu(x, alpha=0.5)


def everything(q, k, v):
    # q: (T, D), k: (T, D), v: (T, E)
    return torch.einsum("td,sd,se->te", q, k, v) * v.mean() + q.sum((0, 1)) / k.max()


def lengths(x):
    # x: (T, C)
    return x / torch.norm(x) + x / x.norm(2, -1, True)


def kept(q, k, v):
    # q: (T, D)
    T = q.shape[0]
    mask = torch.tril(torch.ones(T, T)).bool()
    return (q @ k.T).masked_fill(~mask, -math.inf).softmax(-1) @ v


def shared(q, k, v):
    # q: (H, T, D), k, v: (N, T, D)
    k, v = k.repeat_interleave(2, dim=0), v.repeat_interleave(2, -3)
    return torch.softmax(q @ k.mT, -1) @ v


class Block(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model, bias=False))
        self.scale = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        # x: (B, T, C)
        return x + self.scale * self.net(self.norm(x))  # (B, T, d_model)
