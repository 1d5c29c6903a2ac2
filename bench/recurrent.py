"""Layers that keep one state a head, in plain torch: one position after the other, and in chunks.

Written from the published formulas, the chunks as a careful engineer writes them. Gates come as logarithms, and decays
are exponentials of differences of cumulated ones, none above 0 where nothing bounds them. Tensors are (T, H, d), gates
(T, H) or (T, H, d); the result is (T, H, e). Every layer begins with a state of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch.linalg import solve_triangular
from torch.nn.functional import pad

Tensors = dict[str, torch.Tensor]
Layer = Callable[[Tensors], torch.Tensor]

BLOCK = 4  # the most positions of a part that is computed pair by pair


# one position after the other


def _loop(x: Tensors, step: Callable[..., torch.Tensor], gate: torch.Tensor, *names: str) -> torch.Tensor:
    """step(S, gate, …) gives the next state (H, d, e), and the query q reads it."""
    like = x["v"]
    state, out = like.new_zeros(like.shape[1], x["q"].shape[-1], like.shape[-1]), []
    for query, *given in zip(*(x[name].unbind() for name in ("q", *names)), gate.exp().unbind(), strict=True):
        state = step(state, given[-1], *given[:-1])
        out.append((query[..., None, :] @ state)[..., 0, :])
    return torch.stack(out)


def _delta(S: torch.Tensor, gate: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """S = (I - β k kᵀ) gate S + β k vᵀ."""
    S = gate * S
    error = v - (k[:, None] @ S)[:, 0]
    return torch.baddbmm(S, (beta[:, None] * k)[:, :, None], error[:, None])


def gated_delta_loop(x: Tensors) -> torch.Tensor:
    return _loop(x, _delta, x["g"][..., None, None], "k", "v", "beta")


def kda_loop(x: Tensors) -> torch.Tensor:
    return _loop(x, _delta, x["g"][..., None], "k", "v", "beta")


def _added(S: torch.Tensor, gate: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """S = gate S + k vᵀ."""
    return gate * S + k[..., :, None] * v[:, None]


def gla_loop(x: Tensors) -> torch.Tensor:
    return _loop(x, _added, x["g"][..., None], "k", "v")


def ssd_loop(x: Tensors) -> torch.Tensor:
    """The keys and queries (T, d) are those of all heads."""
    return _loop(x, _added, x["g"][..., None, None], "k", "v")


def _rwkv7(S: torch.Tensor, gate: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kappa: torch.Tensor,
           a: torch.Tensor) -> torch.Tensor:
    """S = (diag(gate) - (a κ) κᵀ) S + k vᵀ."""
    removed = kappa[:, None] @ S
    return torch.baddbmm(torch.baddbmm(gate * S, (a * kappa)[:, :, None], removed, alpha=-1), k[:, :, None], v[:, None])


def rwkv7_loop(x: Tensors) -> torch.Tensor:
    return _loop(x, _rwkv7, x["g"][..., None], "k", "v", "kappa", "a")


# chunks


class Parts(NamedTuple):
    """What a chunk of L positions is, by (H, chunks, …), before its state is known.

    New values are U + W S; the state after it is `whole` S + `added` + `write` (U + W S); the result is `read` S +
    `attention` (U + W S) + `known`.
    """

    whole: torch.Tensor
    read: torch.Tensor
    known: torch.Tensor | None = None
    added: torch.Tensor | None = None
    U: torch.Tensor | None = None
    W: torch.Tensor | None = None
    write: torch.Tensor | None = None
    attention: torch.Tensor | None = None


def _cut(x: torch.Tensor, size: int) -> torch.Tensor:
    """(T, H, …) -> (H, chunks, L, …), with zeros after the end: they neither write nor decay."""
    x = pad(x, (0, 0) * (x.ndim - 1) + (0, -len(x) % size))
    return x.transpose(0, 1).unflatten(1, (-1, size))


def _apart(y: torch.Tensor, count: int) -> torch.Tensor:
    return y.flatten(1, 2)[:, :count].transpose(0, 1)


def _decay(G: torch.Tensor) -> torch.Tensor:
    """exp(G_c - G_s) for s ≤ c, else 0, of cumulated logarithms (…, L)."""
    return (G[..., :, None] - G[..., None, :]).tril().exp().tril()


def _solved(system: torch.Tensor, U: torch.Tensor, W: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Both sides by a system that is read below its diagonal, where ones stand. The inverse is as exact here, and on a
    processor with a product after it faster than a solution for as many columns."""
    eye = torch.eye(system.shape[-1], dtype=system.dtype).expand_as(system)
    inverse = solve_triangular(system, eye, upper=False, unitriangular=True)
    return (inverse @ torch.cat((U, W), -1)).split((U.shape[-1], W.shape[-1]), -1)


def _pairs(x: torch.Tensor, y: torch.Tensor, G: torch.Tensor) -> torch.Tensor:
    """Σ_d x_c^d y_s^d exp(G_c^d - G_s^d) for s ≤ c: products of matrices between the quarters of a chunk, relative to
    where that of c begins, in a quarter between its quarters, and pair by pair in those. Above the diagonal it is of no
    meaning. Several x stand along an axis in front."""
    count = x.shape[-2]
    out, part = x.new_zeros(*x.shape[:-1], count), count // 4
    for start in range(part, count, part):
        rows, columns, middle = slice(start, start + part), slice(start), G[..., start - 1 : start, :]
        left = x[..., rows, :] * (G[..., rows, :] - middle).exp()
        right = y[..., columns, :] * (middle - G[..., columns, :]).exp()
        out[..., rows, columns] = left @ right.mT
    x, y, G = (each.unflatten(-2, (-1, part)) for each in (x, y, G))
    if part > BLOCK:
        inside = _pairs(x, y, G)
    else:
        decays = ((G - G[..., s : s + 1, :]).clamp(max=0).exp() * y[..., s : s + 1, :] for s in range(part))
        inside = torch.stack([(x * decay).sum(-1) for decay in decays], -1)
    for n, start in enumerate(range(0, count, part)):
        out[..., start : start + part, start : start + part] = inside[..., n, :, :]
    return out


def gated_delta_inside(x: Tensors, size: int) -> Parts:
    """The WY form: (I + strictly lower β k kᵀ decay) (U, -W) = (β v, β k decay)."""
    q, k, v, beta, g = (_cut(x[name], size) for name in ("q", "k", "v", "beta", "g"))
    G = g.cumsum(-1)
    decay, beta, since = _decay(G), beta[..., None], G.exp()[..., None]
    system = (beta * k) @ k.mT * decay
    U, W = _solved(system, beta * v, -beta * since * k)
    write = k * (G[..., -1:] - G).exp()[..., None]
    return Parts(G[..., -1, None, None].exp(), q * since, None, None, U, W, write.mT, (q @ k.mT) * decay)


def kda_inside(x: Tensors, size: int) -> Parts:
    """The same with a gate for each channel of the keys."""
    q, k, v, beta, g = (_cut(x[name], size) for name in ("q", "k", "v", "beta", "g"))
    G, beta = g.cumsum(-2), beta[..., None]
    since, write = G.exp(), k * (G[..., -1:, :] - G).exp()
    system, attention = _pairs(torch.stack((beta * k, q)), k, G)
    U, W = _solved(system, beta * v, -beta * since * k)
    return Parts(since[..., -1, :, None], q * since, None, None, U, W, write.mT, attention.tril())


def rwkv7_inside(x: Tensors, size: int) -> Parts:
    """The state is read before its decay: -κ with the logarithms cumulated up to the position before. The logarithms
    are at least -e^(-1/2), so that over half a chunk the exponentials of either sign are small enough to be factors."""
    q, k, v, kappa, a, g = (_cut(x[name], size) for name in ("q", "k", "v", "kappa", "a", "g"))
    G = g.cumsum(-2)
    middle, since, end, b = G[..., size // 2 : size // 2 + 1, :], G.exp(), G[..., -1:, :], a * kappa
    earlier = -kappa * (G - g).exp()
    after = (middle - G).exp()
    left = torch.cat((q * (G - middle).exp(), -kappa * (G - g - middle).exp()), -2)
    scores = left @ torch.cat((b * after, k * after), -2).mT
    of_new, of_known = (each.tril() for each in scores[..., :size, :].split(size, -1))
    system, right = scores[..., size:, :].split(size, -1)
    U, W = _solved(-system, right.tril(-1) @ v, earlier)
    rest = (end - G).exp()
    return Parts(since[..., -1, :, None], q * since, of_known @ v, (k * rest).mT @ v, U, W,
                 (b * rest).mT, of_new)


def gla_inside(x: Tensors, size: int) -> Parts:
    q, k, v, g = (_cut(x[name], size) for name in ("q", "k", "v", "g"))
    G = g.cumsum(-2)
    since, write = G.exp(), k * (G[..., -1:, :] - G).exp()
    return Parts(since[..., -1, :, None], q * since, _pairs(q, k, G).tril() @ v, write.mT @ v)


def _across(parts: Parts) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The state before each chunk and the new values of each: the one part that goes in order."""
    wholes = parts.whole.unbind(1)
    shape = (parts.read.shape[0], parts.read.shape[-1], (parts.U if parts.added is None else parts.added).shape[-1])
    state, states, values = parts.read.new_zeros(shape), [], []
    given = [None if each is None else each.unbind(1) for each in (parts.added, parts.U, parts.W, parts.write)]
    added, U, W, write = given
    for n, whole in enumerate(wholes):
        states.append(state)
        state = whole * state if added is None else torch.addcmul(added[n], whole, state)
        if U is not None:
            values.append(torch.baddbmm(U[n], W[n], states[-1]))
            state = torch.baddbmm(state, write[n], values[-1])
    return torch.stack(states, 1), torch.stack(values, 1) if values else None


def _outside(parts: Parts, states: torch.Tensor, values: torch.Tensor | None, count: int) -> torch.Tensor:
    y = parts.read @ states
    y = y if parts.known is None else y + parts.known
    return _apart(y if values is None else y + parts.attention @ values, count)


def _chunked(inside: Callable[[Tensors, int], Parts], outside: Callable[..., torch.Tensor], x: Tensors,
             size: int) -> torch.Tensor:
    parts = inside(x, size)
    return outside(parts, *_across(parts), len(x["v"]))


def ssd_chunked(x: Tensors, size: int) -> torch.Tensor:
    """The minimal listing of Mamba-2: decays between chunks are a matrix too, so that nothing goes in order. The keys
    and queries, B and C there, are those of all heads."""
    v, G = _cut(x["v"], size), _cut(x["g"], size).cumsum(-1)
    q, k = (_cut(x[name][:, None], size)[0] for name in "qk")
    inside = (q @ k.mT * _decay(G)) @ v
    states = (k.mT * (G[..., -1:] - G).exp()[..., None, :]) @ v
    total = G[..., -1].cumsum(-1)
    between = pad(_decay(total), (0, 0, 1, -1))  # a chunk is read after those before it, so a row down
    before = (between @ states.flatten(2)).unflatten(2, states.shape[2:])
    return _apart(inside + G.exp()[..., None] * (q @ before), len(x["v"]))


LOOPS: dict[str, Layer] = {"gated_delta": gated_delta_loop, "kda": kda_loop, "ssd": ssd_loop, "rwkv7": rwkv7_loop,
                           "gla": gla_loop}
_INSIDE: dict[str, Callable[[Tensors, int], Parts]] = {"gated_delta": gated_delta_inside, "kda": kda_inside,
                                                       "rwkv7": rwkv7_inside, "gla": gla_inside}


def chunked(name: str, size: int) -> Layer:
    """A layer in chunks of so many positions."""
    if name == "ssd":
        return partial(ssd_chunked, size=size)
    return partial(_chunked, _INSIDE[name], _outside, size=size)


def compiled(name: str, size: int) -> Layer:
    """The chunks under torch.compile. The steps from chunk to chunk are products of matrices and stay as they are:
    unrolled they would keep the compiler busy for minutes."""
    if name == "ssd":
        return partial(torch.compile(ssd_chunked, dynamic=False), size=size)
    inside, outside = (torch.compile(part, dynamic=False) for part in (_INSIDE[name], _outside))
    return partial(_chunked, inside, outside, size=size)


RIVALS: dict[str, Callable[[str], Layer]] = {
    "loop": LOOPS.__getitem__, "chunks of 64": lambda name: chunked(name, 64),
    "chunks of 32": lambda name: chunked(name, 32), "compiled": lambda name: compiled(name, 64),
}
