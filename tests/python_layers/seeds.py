"""The functions of the papers, as they print them; the pieces of `CausalSelfAttention` in their order."""

from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812, as the notes call it

d_k = 4


def attention_step(Q_th_d, K_sh_d, V_sh_d):
    # L_{ts}^{(h)} = (1/√d_k) * Q_{th}^k * K_{sh}_k
    logits = torch.einsum('thd,shd->tsh', Q_th_d, K_sh_d) / sqrt(d_k)
    # A_{ts}^{(h)} = softmax_s(L_{ts}^{(h)})
    weights = torch.softmax(logits, dim=1)  # softmax over s
    # Y_{th}^d = Σ_s A_{ts}^{(h)} * V_{sh}^d
    return torch.einsum('tsh,shd->thd', weights, V_sh_d)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float, max_seq_len: int):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads  # per-head dimensionality

        # Single projection that produces query, key, and value in one matmul
        self.qkv = nn.Linear(d_model, 3 * d_model)
        # Final projection after concatenating heads
        self.proj = nn.Linear(d_model, d_model)
        self.attn_dropout = nn.Dropout(dropout)
        self.resid_dropout = nn.Dropout(dropout)

        mask = torch.tril(torch.ones(max_seq_len, max_seq_len))
        mask = mask.view(1, 1, max_seq_len, max_seq_len)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.size()  # batch, time, channels
        qkv = self.qkv(x)
        q, k, v = qkv.split(C, dim=2)  # each of shape (B, T, C)

        def reshape_heads(t: torch.Tensor) -> torch.Tensor:
            # Reshape to (B, n_heads, T, head_dim) for parallel head computation
            return t.view(B, T, self.n_heads, self.head_dim).transpose(1, 2)

        # (B, n_heads, T, head_dim)
        q = reshape_heads(q)
        k = reshape_heads(k)
        v = reshape_heads(v)
        att = (q @ k.transpose(-2, -1))  # (B, n_heads, T, T)
        att = att / (self.head_dim ** 0.5)
        # Apply causal mask so position t cannot attend to positions > t
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float('-inf'))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        # Weighted sum of values
        y = att @ v  # (B, n_heads, T, head_dim)
        # (B, n_heads, T, head_dim) -> (B, T, n_heads, head_dim)
        y = y.transpose(1, 2)
        y = y.contiguous()
        # Reassemble heads: (B, T, C)
        y = y.view(B, T, C)
        return self.resid_dropout(self.proj(y))
