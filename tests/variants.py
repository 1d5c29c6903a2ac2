"""Variants of attention by other implementations: a loop over positions or a mask that is stored, from the formula of
the paper, in plain torch. None of it comes from einc or from the specs."""

from __future__ import annotations

import math

import torch
from recurrent import HEADS, KEYS, VALUES, Layer, Tensors, drawn
from torch import Tensor
from torch.nn import functional

BATCH, BLOCK, CHOSEN, WINDOW = 2, 4, 2, 6
FAR = 1000.0


def past(steps: int) -> Tensor:
    return torch.ones(steps, steps, dtype=torch.bool).tril()


def shape(steps: int) -> tuple[int, ...]:
    return BATCH, HEADS, steps, KEYS


def given(steps: int, **more: tuple[int, ...]) -> Tensors:
    """Queries, keys and values of some heads in a batch."""
    return drawn(Q=shape(steps), K=shape(steps), V=shape(steps), **more)


def logits(Q: Tensor, K: Tensor) -> Tensor:
    return Q @ K.mT / Q.shape[-1] ** 0.5


def attended(scores: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ V


# what is added to logits


def selective(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Row by row: what the rows before have taken away is added up."""
    scores = logits(Q, K)
    taken, rows = torch.zeros_like(scores[:, 0, 0]), []
    for t in range(Q.shape[2]):
        rows.append(scores[:, :, t] - taken[:, None])
        others = (torch.arange(Q.shape[2]) < t) & (torch.arange(Q.shape[2]) > 0)
        taken = taken + scores[:, 0, t].relu() * others
    return attended(torch.stack(rows, 2), V, past(Q.shape[2]))


def forgetting(Q: Tensor, K: Tensor, V: Tensor, x: Tensor) -> Tensor:
    """Row by row: the gate of a position is added to all that the row before it had."""
    scores, fallen, rows = logits(Q, K), torch.zeros_like(x), []
    for t in range(Q.shape[2]):
        before = torch.arange(Q.shape[2]) < t
        fallen = fallen + before * functional.logsigmoid(x[:, :, t, None])
        rows.append(scores[:, :, t] + fallen)
    return attended(torch.stack(rows, 2), V, past(Q.shape[2]))


# other weights


def breaking(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """The stick of each position, from the latest one before it backwards."""
    share, rest = torch.sigmoid(logits(Q, K)), torch.sigmoid(-logits(Q, K))
    out = []
    for t in range(Q.shape[2]):
        stick, found = torch.ones_like(Q[:, :, t, :1]), torch.zeros_like(V[:, :, t])
        for s in reversed(range(t)):
            found = found + stick * share[:, :, t, s, None] * V[:, :, s]
            stick = stick * rest[:, :, t, s, None]
        out.append(found)
    return torch.stack(out, 2)


def pick(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """What a logit gives above that of 0, over all that differs from it; both in units of the largest logit."""
    scores, mask = logits(Q, K), past(Q.shape[2])
    top = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    more = torch.where(mask, torch.exp(scores - top) - torch.exp(-top), 0)
    return more.relu() @ V / (more.abs().sum(-1, keepdim=True) + 1e-6)


def performer(Q: Tensor, K: Tensor, V: Tensor, omega: Tensor) -> Tensor:
    """The T × T products of features."""
    q, k = (x / Q.shape[-1] ** 0.25 for x in (Q, K))
    one, two = (torch.exp(x @ omega.T - x.square().sum(-1, keepdim=True) / 2) for x in (q, k))
    weights = (one @ two.mT).tril()
    return weights / weights.sum(-1, keepdim=True) @ V


def simplicial(Q: Tensor, K: Tensor, V: Tensor, K_prime: Tensor, V_prime: Tensor) -> Tensor:
    """Each position with all pairs in its windows on one axis."""
    out = []
    for t in range(Q.shape[2]):
        s, u = range(max(t + 1 - WINDOW, 0), t + 1), range(max(t + 1 - BLOCK, 0), t + 1)
        keys, values = (x[:, :, s, None] * y[:, :, None, u] for x, y in ((K, K_prime), (V, V_prime)))
        scores = torch.einsum("nhd,nhsud->nhsu", Q[:, :, t], keys) / Q.shape[-1] ** 0.5
        weights = torch.softmax(scores.flatten(-2), -1)
        out.append((weights[:, :, None] @ values.flatten(2, 3))[:, :, 0])
    return torch.stack(out, 2)


# positions


def distances(steps: int) -> Tensor:
    return (torch.arange(steps)[:, None] - torch.arange(steps)).clamp(0, WINDOW)


def shaw(Q: Tensor, K: Tensor, V: Tensor, a_K: Tensor, a_V: Tensor) -> Tensor:
    """Keys and values of each pair, which are stored."""
    away = distances(Q.shape[2])
    keys, values = K[:, :, None] + a_K[away], V[:, :, None] + a_V[away]
    scores = torch.einsum("nhtd,nhtsd->nhts", Q, keys) / Q.shape[-1] ** 0.5
    return attended(scores[:, :, :, None], values, past(Q.shape[2])[:, None])[:, :, :, 0]


def counting(Q: Tensor, K: Tensor, V: Tensor, e: Tensor) -> Tensor:
    """Positions are the gates from s to t added up, and vectors of positions are mixed before they meet the query."""
    mask = past(Q.shape[2])
    gates = torch.where(mask, torch.sigmoid(Q @ K.mT), 0)
    place = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(e) - 1)
    share = (place - place.floor())[..., None]
    vectors = (1 - share) * e[place.floor().long()] + share * e[place.ceil().long()]
    return attended(logits(Q, K) + torch.einsum("nhtd,nhtsd->nhts", Q, vectors), V, mask)


# blocks


def blocks(steps: int) -> int:
    return math.ceil(steps / BLOCK)


def pieces(x: Tensor, steps: int) -> list[Tensor]:
    """The positions, the axis before the last, in blocks; the last one may be short."""
    return [x[..., j * BLOCK:min((j + 1) * BLOCK, steps), :] for j in range(blocks(steps))]


def moba(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Query by query: the blocks that have ended before its own, the best of them by their mean key, and its own."""
    steps, rows = Q.shape[2], torch.zeros(*Q.shape[:3], Q.shape[2], dtype=torch.bool)
    means = torch.stack([piece.mean(-2) for piece in pieces(K, steps)], -2)
    for n in range(Q.shape[0]):
        for h in range(Q.shape[1]):
            for t in range(steps):
                own = t // BLOCK
                scores = means[n, h, :own] @ Q[n, h, t]
                for j in [own, *scores.argsort(descending=True)[:CHOSEN].tolist()]:
                    rows[n, h, t, j * BLOCK:(j + 1) * BLOCK] = True
    return attended(logits(Q, K), V, rows & past(steps))


def native(q: Tensor, K_1: Tensor, V_1: Tensor, K_2: Tensor, V_2: Tensor, K_3: Tensor, V_3: Tensor, x_1: Tensor,
           x_2: Tensor, x_3: Tensor, phi: Tensor, psi: Tensor) -> Tensor:
    """Position by position, group by group: what the branches find, weighed by their gates."""
    steps, scale = len(q), q.shape[-1] ** -0.5
    out = []
    for t in range(steps):
        done = (t + 1) // BLOCK
        groups = []
        for g in range(q.shape[1]):
            query = q[t, g] * scale
            keys, values = ([torch.einsum("id,idk->k", x[j * BLOCK:(j + 1) * BLOCK, g], w) for j in range(done)]
                            for x, w in ((K_1, phi), (V_1, psi)))
            near = {t // BLOCK, max(t // BLOCK - 1, 0), 0}
            found = [torch.zeros(len(query), V_1.shape[-1], dtype=q.dtype)]
            if done:
                shares = torch.softmax(query @ torch.stack(keys).T, -1)
                found = [shares @ torch.stack(values)]
                near |= set(shares.sum(0).argsort(descending=True)[:CHOSEN].tolist())
            seen = [s for s in range(t + 1) if s // BLOCK in near]
            for x, v, at in ((K_2, V_2, seen), (K_3, V_3, range(max(t + 1 - WINDOW, 0), t + 1))):
                found.append(torch.softmax(query @ x[list(at), g].T, -1) @ v[list(at), g])
            gates = [torch.sigmoid(x[t, g])[:, None] for x in (x_1, x_2, x_3)]
            groups.append(torch.stack([gate * one for gate, one in zip(gates, found, strict=True)]).sum(0))
        out.append(torch.stack(groups))
    return torch.stack(out)


def native_inputs(steps: int) -> Tensors:
    groups, shared = 2, 3
    keys, values = (steps, groups, KEYS), (steps, groups, VALUES)
    found = drawn(q=(steps, groups, shared, KEYS), K_1=keys, V_1=values, K_2=keys, V_2=values, K_3=keys, V_3=values,
                  **{f"x_{c}": (steps, groups, shared) for c in (1, 2, 3)}, phi=(BLOCK, KEYS, KEYS),
                  psi=(BLOCK, VALUES, VALUES))
    return {**found, "phi": found["phi"] / BLOCK**0.5, "psi": found["psi"] / BLOCK**0.5}


VARIANTS = {
    "selective_attention": Layer("Y", given, selective, {"Q": (0.0, 100.0)}),
    "forgetting_transformer": Layer("Y", lambda steps: given(steps, x=(BATCH, HEADS, steps)), forgetting,
                                    {"x": (-FAR, FAR)}),
    "stick_breaking": Layer("Y", given, breaking, {"Q": (-FAR, FAR)}),
    "softpick": Layer("Y", given, pick, {"Q": (0.0, 100.0)}),
    "performer": Layer("Y", lambda steps: given(steps, omega=(7, KEYS)), performer, {}),
    "simplicial": Layer("Y", lambda steps: given(steps, K_prime=shape(steps), V_prime=shape(steps)), simplicial,
                        {"Q": (0.0, 100.0)}, lambda steps: {"W_1": WINDOW, "W_2": BLOCK}),
    "shaw": Layer("Y", lambda steps: given(steps, a_K=(WINDOW + 1, KEYS), a_V=(WINDOW + 1, KEYS)), shaw, {},
                  lambda steps: {"W": WINDOW}),
    "cope": Layer("Y", lambda steps: given(steps, e=(WINDOW + 1, KEYS)), counting, {"Q": (0.0, 100.0)},
                  lambda steps: {"M": WINDOW}),
    "moba": Layer("Y", given, moba, {}, lambda steps: {"B": BLOCK, "n": CHOSEN}),
    "nsa": Layer("y", native_inputs, native, dict.fromkeys(("x_1", "x_2", "x_3"), (-FAR, FAR)),
                 lambda steps: {"B": BLOCK, "n": CHOSEN, "W": WINDOW}),
}
