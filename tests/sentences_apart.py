"""Sentences written before the rule that reads them, and by nobody who had seen its list of words: those that change a
formula, each with what the formula then computes, and those of real papers that change none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812, its usual name

SHAPES: Final = (r"Let $X, Y \in \mathbb{R}^{n \times d}$, $W \in \mathbb{R}^{d \times d}$ and "
                 r"$u, v \in \mathbb{R}^{d}$. ")
SCORES, PRODUCT, NORM = r"Z = \mathrm{softmax}(X Y^\top) X", "Z = X W", r"Z = \mathrm{LN}(X)"
SUM, LARGEST, RECTIFIED = r"z = \sum_i u_i", r"z = \max_i u_i", r"Z = \mathrm{ReLU}(X)"
ENTRIES, LOGARITHM, LENGTH, ADDED = r"Z = X \odot Y", r"Z = \log(X)", r"z = u / \|u\|", "Z = X + Y"

Altered = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # of X, Y, W and u


def masked(keep: Callable[[Tensor], Tensor]) -> Altered:
    """Attention over those keys that are kept for a query; rows of nothing are 0."""
    def attention(X: Tensor, Y: Tensor, W: Tensor, u: Tensor) -> Tensor:
        at = torch.arange(len(X))
        kept = keep(at[:, None] - at)
        return torch.nan_to_num(torch.softmax((X @ Y.T).masked_fill(~kept, -torch.inf), -1)) @ X
    return attention


def scored(change: Callable[[Tensor], Tensor]) -> Altered:
    """Attention with other scores."""
    return lambda X, Y, W, u: torch.softmax(change(X @ Y.T), -1) @ X


def weighed(change: Callable[[Tensor], Tensor]) -> Altered:
    """Attention with other weights."""
    return lambda X, Y, W, u: change(torch.softmax(X @ Y.T, -1)) @ X


def times(change: Callable[[Tensor], Tensor]) -> Altered:
    """The product with another W."""
    return lambda X, Y, W, u: X @ change(W)


def given(change: Callable[[Tensor], Tensor]) -> Altered:
    """The product with another X."""
    return lambda X, Y, W, u: change(X) @ W


def made(change: Callable[[Tensor], Tensor]) -> Altered:
    """Another product."""
    return lambda X, Y, W, u: change(X @ W)


def of(change: Callable[[Tensor], Tensor]) -> Altered:
    """Another function of X."""
    return lambda X, Y, W, u: change(X)


def summed(change: Callable[[Tensor], Tensor]) -> Altered:
    """Another function of u."""
    return lambda X, Y, W, u: change(u)


def without(W: Tensor, row: int) -> Tensor:
    """A matrix with a row of zeros."""
    return torch.cat([W[:row], torch.zeros_like(W[row : row + 1]), W[row + 1 :]])


PAST: Final = masked(lambda lag: lag >= 0)
HOSTILE: Final[list[tuple[str, str, Altered]]] = [
    # which keys are seen, and what becomes of scores and weights
    ("Attention is unidirectional.", SCORES, PAST),
    ("Each token attends only to earlier ones.", SCORES, masked(lambda lag: lag > 0)),
    ("Future positions are hidden from the queries.", SCORES, PAST),
    ("The model is autoregressive, so that a position never sees what follows it.", SCORES, PAST),
    ("Every query looks at the two nearest keys.", SCORES, masked(lambda lag: (lag == 0) | (lag == 1))),
    ("Scores of a query with itself are set to minus infinity.", SCORES, masked(lambda lag: lag != 0)),
    ("Attention is local with a window of two tokens.", SCORES, masked(lambda lag: (lag >= 0) & (lag < 2))),
    ("The attention weights are multiplied by two before they are applied.", SCORES, weighed(lambda p: 2 * p)),
    ("We square the attention weights.", SCORES, weighed(lambda p: p**2)),
    ("The scores are passed through a tanh.", SCORES, scored(torch.tanh)),
    ("The temperature is two.", SCORES, scored(lambda s: s / 2)),
    ("Scores are capped at five by a tanh.", SCORES, scored(lambda s: 5 * torch.tanh(s / 5))),
    ("Keys are shifted by one position.", SCORES,
     lambda X, Y, W, u: torch.softmax(X @ Y.roll(1, 0).T, -1) @ X),
    ("Queries and keys are normalized to unit length.", SCORES,
     lambda X, Y, W, u: torch.softmax(F.normalize(X) @ F.normalize(Y).T, -1) @ X),
    ("Values are averaged over neighbours.", SCORES,
     lambda X, Y, W, u: torch.softmax(X @ Y.T, -1) @ ((X + X.roll(1, 0)) / 2)),
    # the names
    ("$W$ is transposed before use.", PRODUCT, times(lambda w: w.T)),
    (r"Here $W$ stands for $W^\top W$.", PRODUCT, times(lambda w: w.T @ w)),
    ("The rows of $X$ are reversed.", PRODUCT, given(lambda x: x.flip(0))),
    ("The last column of $X$ is ignored.", PRODUCT, given(lambda x: torch.cat([x[:, :-1], 0 * x[:, -1:]], 1))),
    ("We write $X$ for the centred $X$.", PRODUCT, given(lambda x: x - x.mean(0))),
    ("$W$ acts from the left on columns.", PRODUCT, lambda X, Y, W, u: (W @ X.T).T),
    ("$W$ is masked to be lower triangular.", PRODUCT, times(torch.tril)),
    ("$X$ is normalized row by row.", PRODUCT, given(F.normalize)),
    ("Entries of $W$ below $0.5$ count as zero.", PRODUCT, times(lambda w: w * (w >= 0.5))),
    (r"$W$ is scaled by $1/\sqrt{d}$.", PRODUCT, times(lambda w: w / len(w)**0.5)),
    ("To $X$ we add $Y$ first.", PRODUCT, lambda X, Y, W, u: (X + Y) @ W),
    ("$W$ contains a residual: it is applied as $W + I$.", PRODUCT, times(lambda w: w + torch.eye(len(w)))),
    ("We set $W_{11} = 0$.", PRODUCT,
     times(lambda w: w * (torch.arange(w.numel()).reshape(w.shape) > 0))),
    ("The first row of $W$ is zero.", PRODUCT, times(lambda w: without(w, 0))),
    ("$X$ is quantized to integers.", PRODUCT, given(torch.round)),
    ("Negative entries of $X$ are replaced by zero.", PRODUCT, given(torch.relu)),
    # the functions
    ("The softmax runs over queries.", SCORES, lambda X, Y, W, u: torch.softmax(X @ Y.T, 0) @ X),
    ("Softmax is computed with base two.", SCORES, scored(lambda s: s * 0.6931471805599453)),
    ("The softmax is normalized by its maximum.", SCORES, weighed(lambda p: p / p.amax(-1, keepdim=True))),
    ("LN has no centring.", NORM, of(lambda x: F.rms_norm(x, x.shape[-1:]))),
    ("LN leaves out the division.", NORM, of(lambda x: x - x.mean(-1, keepdim=True))),
    ("LN acts on columns.", NORM, of(lambda x: F.layer_norm(x.T, x.T.shape[-1:]).T)),
    ("ReLU saturates at one.", RECTIFIED, of(lambda x: x.clamp(0, 1))),
    ("ReLU returns zero for inputs above one.", RECTIFIED, of(lambda x: torch.relu(x) * (x <= 1))),
    ("The ReLU is followed by a square.", RECTIFIED, of(lambda x: torch.relu(x)**2)),
    ("By ReLU we understand the absolute value.", RECTIFIED, of(torch.abs)),
    ("We replace the maximum by the mean.", LARGEST, summed(torch.mean)),
    ("The maximum is smoothed by log-sum-exp.", LARGEST, summed(lambda u: torch.logsumexp(u, 0))),
    (r"$\log$ gives the logarithm of one plus its argument.", LOGARITHM, of(torch.log1p)),
    ("The logarithm is floored at zero.", LOGARITHM, of(lambda x: torch.log(x).clamp(min=0))),
    ("The norm counts non-zero entries.", LENGTH, summed(lambda u: u / len(u))),
    ("The norm is the largest entry.", LENGTH, summed(lambda u: u / u.max())),
    ("Vectors are measured in the taxicab norm.", LENGTH, summed(lambda u: u / u.abs().sum())),
    # sums and letters
    ("The index $i$ runs from 1 to $d/2$.", SUM, summed(lambda u: u[: len(u) // 2].sum())),
    ("The index $i$ skips the first entry.", SUM, summed(lambda u: u[1:].sum())),
    ("$i$ is even.", SUM, summed(lambda u: u[1::2].sum())),
    ("Here $i$ takes odd values only.", SUM, summed(lambda u: u[::2].sum())),
    ("The sum stops one term early.", SUM, summed(lambda u: u[:-1].sum())),
    ("The sum is weighted by position.", SUM, summed(lambda u: (u * torch.arange(1, len(u) + 1)).sum())),
    ("The sum has alternating signs.", SUM, summed(lambda u: u[::2].sum() - u[1::2].sum())),
    ("We let $i$ start at two.", SUM, summed(lambda u: u[1:].sum())),
    ("Terms with $u_i < 0.5$ are dropped.", SUM, summed(lambda u: u[u >= 0.5].sum())),
    ("Each term is counted twice.", SUM, summed(lambda u: 2 * u.sum())),
    ("The sum is divided by $d$.", SUM, summed(torch.mean)),
    ("The largest term is left out of the sum.", SUM, summed(lambda u: u.sum() - u.max())),
    # the operators
    (r"The symbol $\odot$ stands for addition here.", ENTRIES, lambda X, Y, W, u: X + Y),
    (r"With $\odot$ we denote the entrywise maximum.", ENTRIES, lambda X, Y, W, u: torch.maximum(X, Y)),
    (r"The circle $\odot$ keeps the sign of its first operand.", ENTRIES,
     lambda X, Y, W, u: X.sign() * (X * Y).abs()),
    ("A plus sign means concatenation.", ADDED, lambda X, Y, W, u: torch.cat([X, Y], 1)),
    ("The plus sign is to be read as minus.", ADDED, lambda X, Y, W, u: X - Y),
    ("Products are taken modulo two.", PRODUCT, made(lambda z: z % 2)),
    ("Matrix products are rescaled to unit norm.", PRODUCT, made(lambda z: z / z.norm())),
    ("The order of factors is reversed throughout.", PRODUCT, lambda X, Y, W, u: (W @ X.T).T),
    ("All arithmetic is modulo seven.", PRODUCT, made(lambda z: z % 7)),
    ("Results are rounded to one decimal.", PRODUCT, made(lambda z: z.round(decimals=1))),
    # the equation and what it makes
    ("All outputs are divided by two.", PRODUCT, made(lambda z: z / 2)),
    ("The formula is missing a factor of two.", PRODUCT, made(lambda z: 2 * z)),
    ("One has to add $X$ to the result of the following formula.", PRODUCT, lambda X, Y, W, u: X @ W + X),
    ("The right side is to be negated.", PRODUCT, made(torch.neg)),
    ("Equation (1) contains a typo: the sign is wrong.", PRODUCT, made(torch.neg)),
    ("The true output is twice the value below.", PRODUCT, made(lambda z: 2 * z)),
    ("We report the negative of the following.", PRODUCT, made(torch.neg)),
    ("$Z$ is clipped to $[0, 1]$.", PRODUCT, made(lambda z: z.clamp(0, 1))),
    ("Finally $Z$ is multiplied by two.", PRODUCT, made(lambda z: 2 * z)),
    ("Only the positive part of $Z$ is kept.", PRODUCT, made(torch.relu)),
]

ALL: Final = r"""Let $X, Y \in \mathbb{R}^{n \times d}$, $A, B \in \mathbb{R}^{n \times n}$,
$W \in \mathbb{R}^{d \times d}$ and $u, v \in \mathbb{R}^{d}$, with a scalar $c$.

SENTENCE

$$ Z = \mathrm{softmax}(X Y^\top / \sqrt{d}) X W $$

$$ H = \mathrm{ReLU}(\mathrm{LN}(X) W) \odot Y + c A B X $$

$$ P = \exp(A) - \log(B) $$

$$ w = \frac{u}{\|u\|} + v \max_i u_i $$
"""
HARMLESS: Final = r"""
We compute the output as follows.
Here $X$ is the input sequence and $Y$ is the memory.
$W$ is a learned projection matrix.
$W$ is initialized from a normal distribution with variance $2/d$.
where $X$ and $Y$ are the hidden states of the decoder and the encoder, respectively.
The matrix $X Y^\top$ has $n^2$ entries, which is expensive for long sequences.
The attention mechanism was introduced by Bahdanau et al. (2015).
Self-attention relates all positions of a sequence with each other.
The softmax function turns scores into a probability distribution.
We found that a larger $d$ works better in practice.
The time complexity is $O(n^2 d)$.
The matrix $W$ is shared across all layers.
Note that $X$ need not be stored for the backward pass.
Each row of $X$ is the embedding of one token.
The gradient with respect to $W$ is straightforward to compute.
The parameters $W$ are trained by stochastic gradient descent with a learning rate of $10^{-3}$.
Let $u$ be the query vector and let $v$ be the key vector.
For large $n$, memory becomes a bottleneck.
This allows the model to attend to information from different subspaces.
We denote the batch size by $b$.
The vector $v$ is called the bias.
Layer normalization stabilizes training.
ReLU activations are sparse.
The function $\log$ is monotone, so the ordering is preserved.
Following Vaswani et al. (2017), we use scaled dot-product attention.
The output $Z$ is then fed to the next layer.
The dimension $d$ is typically 512 or 1024.
The hidden size $d$ is a multiple of the number of heads.
It is easy to see that the rows of $Z$ are mixtures of the rows of $X$.
We evaluate our method on the WMT 2014 English-to-German translation task.
All experiments use a single GPU with 80 GB of memory.
Table 2 shows the perplexity of all models.
Since $W$ is square, the output has the same shape as the input.
Intuitively, the scores measure how relevant a key is to a query.
The model is trained for 300k steps with Adam.
As can be seen in Figure 3, the loss decreases steadily.
In contrast to recurrent models, attention can be computed in parallel.
The entries of $X$ are real numbers.
The weights are obtained with a softmax over the keys.
Both $X$ and $Y$ are computed by the previous layer.
We call $Z$ the context.
Every entry of $P$ is finite for positive inputs.
We use residual connections around each sub-layer.
The product $X W$ is computed once and cached.
The learned matrix $W$ projects the input to the model dimension.
When $d$ is large, the dot products grow in magnitude.
This operation is differentiable with respect to all its inputs.
The memory cost of storing $A$ is quadratic in $n$.
The row $x_i$ of $X$ corresponds to the $i$-th token.
Here, $\odot$ is the Hadamard product.
The scalar $c$ controls the sharpness of the distribution.
The norm of $u$ is bounded in practice.
We apply dropout to the output of each sub-layer.
The equation above can be evaluated efficiently with FlashAttention.
Equation 1 is the standard formulation of attention.
These formulas are implemented in a few lines of PyTorch.
The first term captures content, the second captures position.
We refer to $A$ and $B$ as the query and key projections.
In our experiments $n = 1024$ and $d = 64$.
The max operation selects the most salient feature.
""".strip().splitlines()
