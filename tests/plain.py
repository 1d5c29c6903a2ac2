"""What the specs of the gallery compute, each in a few lines of torch: rows of logits, a
mask that is stored, no fold in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log

import torch
from torch.nn import functional

Tensor = torch.Tensor
Tensors = dict[str, Tensor]
STEPS, WIDTH, HEAD = 11, 24, 8


@dataclass
class Trial:
    """Inputs of a spec, what comes out of another implementation, and the sizes that the spec asks for."""

    inputs: Tensors
    outputs: Tensors
    sizes: dict[str, int] = field(default_factory=dict)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def qkv(queries: int = STEPS, keys: int = STEPS) -> Tensors:
    return {"Q": 1.5 * normal(2, 3, queries, HEAD), "K": normal(2, 3, keys, HEAD, seed=1),
            "V": normal(2, 3, keys, HEAD, seed=2)}


AWAY = torch.arange(STEPS)[:, None] - torch.arange(STEPS)  # t - s
PAST = AWAY >= 0


def logits(x: Tensors) -> Tensor:
    return x["Q"] @ x["K"].mT / HEAD**0.5


def weighted(scores: Tensor, v: Tensor, mask: Tensor = PAST) -> Tensor:
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ v


def biased(bias: Tensor, more: Tensors, mask: Tensor = PAST, scale: float = HEAD**-0.5, **sizes: int) -> Trial:
    """Logits with something added to them."""
    x = qkv()
    return Trial({**x, **more}, {"Y": weighted(x["Q"] @ x["K"].mT * scale + bias, x["V"], mask)}, sizes)


def weighed(weights: Callable[[Tensor], Tensor]) -> Trial:
    """Each logit's weight by itself, without what is to come."""
    x = qkv()
    return Trial(x, {"Y": torch.where(PAST, weights(logits(x)), 0) @ x["V"]})


# the queries and keys


def qk_norm() -> Trial:
    x, c = qkv(), normal(3)
    q, k = (functional.rms_norm(x[name], (HEAD,), eps=1e-6) for name in "QK")
    return Trial({**x, "c": c}, {"Y": weighted(c[:, None, None] * (q @ k.mT), x["V"])})


def cosine() -> Trial:
    """One temperature above the bound and two below."""
    x, tau = qkv(), torch.tensor([0.5, 2.0, 7.0], dtype=torch.float64)
    scores = functional.cosine_similarity(x["Q"][:, :, :, None], x["K"][:, :, None], dim=-1)
    y = torch.softmax(scores * tau.clamp(max=log(100)).exp()[:, None, None], -1) @ x["V"]
    return Trial({**x, "tau": tau}, {"Y": y})


def log_n() -> Trial:
    x, c = qkv(), 1 + 0.3 * normal(3)
    scale = c[:, None, None] * torch.arange(1, STEPS + 1).double().log()[:, None]
    return Trial({**x, "c": c}, {"Y": weighted(logits(x) * scale, x["V"])})


# the bias


def relative_table() -> Trial:
    b = normal(3, 2 * 4 + 1)
    return biased(b[:, AWAY.clamp(-4, 4) + 4], {"b": b}, torch.ones_like(PAST), W=4)


def t5_bias() -> Trial:
    """The ranges by search: distance n ≥ 3 is in range k where 3 (7/3)^{k/3} ≤ n."""
    b = normal(3, 6)
    ends = [0.0, 1.0, 2.0, 3.0, *(3 * (7 / 3) ** (k / 3) for k in (1, 2))]
    return biased(b[:, torch.searchsorted(torch.tensor(ends), AWAY.clamp(min=0), right=True) - 1], {"b": b}, scale=1.0,
                  E=3, D=7)


def kerple() -> Trial:
    a, c = normal(3), normal(3, seed=1)
    return biased(-a.abs()[:, None, None] * torch.log1p(c.abs()[:, None, None] * AWAY.clamp(min=0)), {"a": a, "c": c})


def fire() -> Trial:
    """The threshold is crossed within the length."""
    one, two, (c, length) = normal(2, 6), normal(6, 3, seed=1), torch.tensor([0.7, -3.5], dtype=torch.float64)
    up = torch.arange(1, STEPS + 1).double().clamp(min=3.5)
    x = torch.log1p(c * AWAY.clamp(min=0)) / torch.log1p(c * up)[:, None]
    bias = functional.linear(functional.linear(x[..., None], one[0][:, None], one[1]).relu(), two.mT)
    return biased(bias.permute(2, 0, 1), {"c": c, "L": length, "W_1": one[0], "b_1": one[1], "W_2": two})


# the weights


def softmax1() -> Trial:
    """A key of zeros, whose value is zero."""
    x = qkv()
    k, v = (functional.pad(x[name], (0, 0, 1, 0)) for name in "KV")
    mask = functional.pad(PAST, (1, 0), value=True)
    return Trial(x, {"Y": functional.scaled_dot_product_attention(x["Q"], k, v, attn_mask=mask)})


def differential() -> Trial:
    x = {f"{name}_{i}": normal(2, 3, STEPS, HEAD, seed=i) for name in "QK" for i in (1, 2)}
    a = {f"{name}_{i}": 0.4 * normal(HEAD, seed=i + 5) for name in "qk" for i in (1, 2)}
    v, w = normal(2, 3, STEPS, 2 * HEAD), normal(2 * HEAD)
    one, two = (functional.scaled_dot_product_attention(x[f"Q_{i}"], x[f"K_{i}"], v, is_causal=True) for i in (1, 2))
    factor = torch.exp(a["q_1"] @ a["k_1"]) - torch.exp(a["q_2"] @ a["k_2"]) + 0.8
    y = 0.2 * functional.rms_norm(one - factor * two, (2 * HEAD,), w, eps=1e-6)
    return Trial({**x, **a, "V": v, "w": w}, {"Y": y})


def entropy_penalty() -> Trial:
    x = qkv()
    p = torch.distributions.Categorical(logits=logits(x).masked_fill(~PAST, -1e9))
    return Trial(x, {"Y": p.probs @ x["V"], "E": p.entropy()})


# the domain


def head_windows() -> Trial:
    widths = torch.tensor([1, 4, 20])
    return biased(torch.zeros(()), {"W": widths}, PAST & (widths[:, None, None] > AWAY))


def local_global() -> Trial:
    first = torch.arange(STEPS) < 2
    return biased(torch.zeros(()), {}, first | first[:, None] | (AWAY.abs() <= 1), G=2, W=1)


def neighbourhood() -> Trial:
    """Three rows of five, and every pair by its two distances."""
    x = {name: normal(2, 3, 15, HEAD, seed=i) for i, name in enumerate("QKV")}
    place = torch.cartesian_prod(torch.arange(3), torch.arange(5))
    near = (place[:, None] - place).abs().amax(-1) <= 1
    return Trial(x, {"Y": weighted(logits(x), x["V"], near)}, {"C": 5, "W": 1})


# layers


def projections(model: int, heads: int) -> Tensors:
    w = {f"W_{name}": normal(heads, model, HEAD, seed=i) / model**0.5 for i, name in enumerate("QKV")}
    return {**w, "W_O": normal(heads, HEAD, model) / model**0.5}


def across(x: Tensor, memory: Tensor, w: Tensors) -> Tensor:
    """Queries of x, keys and values of a memory, the heads merged."""
    q, k, v = (a @ w[name] for a, name in ((x, "W_Q"), (memory, "W_K"), (memory, "W_V")))
    return (functional.scaled_dot_product_attention(q[None], k[None], v[None])[0] @ w["W_O"]).sum(0)


def perceiver() -> Trial:
    x, z, w = normal(7, WIDTH), normal(4, WIDTH), projections(WIDTH, 3)
    return Trial({"X": x, "Z": z, **w}, {"A": z + across(z, x, w)})


def tanh_gate() -> Trial:
    x, memory, w, gate = normal(STEPS, WIDTH), normal(7, WIDTH), projections(WIDTH, 3), normal(1)[0]
    named = {f"{name}_x": weight for name, weight in w.items()}
    return Trial({"H_tilde": x, "E": memory, "alpha": gate, **named},
                 {"H": x + torch.tanh(gate) * across(x, memory, w)})


def rope_2d() -> Trial:
    """Complex numbers: feature pairs of every unit vector, turned by the row's angle or the column's."""
    angles = 10000.0 ** (-torch.arange(0, 12, 2, dtype=torch.float64) / 12)
    y, x = torch.meshgrid(torch.arange(3), torch.arange(5), indexing="ij")
    turned = torch.cat([y[..., None] * angles[:3], x[..., None] * angles[3:]], -1)
    turn = torch.polar(torch.ones_like(turned), turned)
    units = torch.view_as_complex(torch.eye(12, dtype=torch.float64).unflatten(-1, (6, 2)))
    return Trial({}, {"R": torch.view_as_real(units * turn[:, :, None]).flatten(-2)}, {"R": 3, "C": 5, "d_k": 12})


# norms, gates, losses


def norm(name: str) -> Trial:
    x, g, b = 2 + normal(5, 7), normal(7), normal(7, seed=1)
    if name == "rms_norm":
        return Trial({"x": x, "g": g}, {"y": functional.rms_norm(x, (7,), g, eps=1e-6)})
    return Trial({"x": x, "g": g, "b": b}, {"y": functional.layer_norm(x, (7,), g, b, eps=1e-5)})


def group_norm() -> Trial:
    x, g, b = 2 + normal(2, 5, 6), normal(6), normal(6, seed=1)
    y = functional.group_norm(x.mT, 3, g, b, eps=1e-5).mT
    return Trial({"x": x, "gamma": g, "beta": b}, {"y": y}, {"G": 3, "C": 2})


def glu(gate: Callable[[Tensor], Tensor]) -> Trial:
    x, w = normal(5, 7), {f"W_{i}": normal(*shape, seed=i) for i, shape in ((1, (7, 13)), (2, (7, 13)), (3, (13, 7)))}
    return Trial({"x": x, **w}, {"y": (gate(x @ w["W_1"]) * (x @ w["W_2"])) @ w["W_3"]})


def words() -> tuple[Tensors, Tensor, Tensor]:
    x, w, target = (normal(STEPS, 5), normal(5, 9),
                    torch.randint(0, 9, (STEPS,), generator=torch.Generator().manual_seed(0)))
    return {"X": x, "W": w, "w": target + 1}, x @ w, target


def z_loss() -> Trial:
    inputs, scores, target = words()
    smooth = functional.cross_entropy(scores, target, reduction="none", label_smoothing=0.1)
    given = {"epsilon": torch.tensor(0.1).double(), "zeta": torch.tensor(0.01).double()}
    return Trial({**inputs, **given}, {"L_cal": smooth + given["zeta"] * torch.logsumexp(scores, -1) ** 2})


def focal() -> Trial:
    inputs, scores, target = words()
    p = torch.softmax(scores, -1)[torch.arange(STEPS), target]
    return Trial(inputs, {"L_cal": -((1 - p) ** 2) * p.log()})


def clip_loss() -> Trial:
    x, y, tau = normal(STEPS, 5), normal(STEPS, 5, seed=1), torch.tensor(1.3, dtype=torch.float64)
    scores = tau.exp() * functional.normalize(x, dim=-1) @ functional.normalize(y, dim=-1).T
    each = [functional.cross_entropy(way, torch.arange(STEPS)) for way in (scores, scores.T)]
    return Trial({"X": x, "Y": y, "tau": tau}, {"L_cal": sum(each) / 2})


def distillation() -> Trial:
    x, y, tau = 2 * normal(4, 9), 2 * normal(4, 9, seed=1), torch.tensor(1.7, dtype=torch.float64)
    p, q = (torch.distributions.Categorical(logits=logits / tau) for logits in (y, x))
    return Trial({"x": x, "y": y, "tau": tau}, {"L_cal": tau**2 * torch.distributions.kl_divergence(p, q)})


# chosen sets


def places(scores: Tensor, count: int) -> Tensor:
    """1 where the largest of the last axis stand."""
    return torch.zeros_like(scores).scatter(-1, scores.topk(count, -1).indices, 1).bool()


def top_keys() -> Trial:
    x = qkv()
    chosen = places(logits(x).masked_fill(~PAST, -torch.inf), 3) & PAST
    return Trial(x, {"Y": weighted(logits(x), x["V"], chosen)}, {"n": 3})


def expert_choice() -> Trial:
    """Expert by expert, which adds its share at the positions that it takes."""
    x, gate, up, down = normal(STEPS, WIDTH), normal(WIDTH, 5) / 4, normal(5, WIDTH, 13) / 4, normal(5, 13, WIDTH)
    share, want = torch.softmax(x @ gate, -1), torch.zeros(STEPS, WIDTH, dtype=torch.float64)
    for n in range(5):
        weights, taken = share[:, n].topk(4)
        want[taken] += weights[:, None] * (functional.gelu(x[taken] @ up[n]) @ down[n])
    return Trial({"X": x, "W_gate": gate, "W_1": up, "W_2": down}, {"F": want}, {"n": 4})


def memory_layer() -> Trial:
    x, down, keys, values = normal(STEPS, WIDTH), normal(WIDTH, HEAD) / WIDTH**0.5, normal(9, HEAD), normal(9, WIDTH)
    best, at = (x @ down @ keys.T).topk(3)
    want = functional.embedding_bag(at, values, per_sample_weights=functional.softmax(best, -1), mode="sum")
    return Trial({"X": x, "W": down, "K": keys, "M": values}, {"Y": want}, {"n": 3})


PLAIN: dict[str, Callable[[], Trial]] = {
    "qk_norm": qk_norm,
    "cosine": cosine,
    "log_n": log_n,
    "relative_table": relative_table,
    "t5_bias": t5_bias,
    "kerple": kerple,
    "fire": fire,
    "sigmoid": lambda: weighed(lambda x: torch.sigmoid(x - log(STEPS))),
    "relu_squared": lambda: weighed(lambda x: torch.relu(x / torch.arange(1, STEPS + 1)[:, None]) ** 2),
    "softmax1": softmax1,
    "differential": differential,
    "entropy_penalty": entropy_penalty,
    "head_windows": head_windows,
    "local_global": local_global,
    "neighbourhood": neighbourhood,
    "perceiver": perceiver,
    "tanh_gate": tanh_gate,
    "rope_2d": rope_2d,
    "rms_norm": lambda: norm("rms_norm"),
    "layer_norm": lambda: norm("layer_norm"),
    "group_norm": group_norm,
    "swiglu": lambda: glu(functional.silu),
    "geglu": lambda: glu(functional.gelu),
    "reglu": lambda: glu(functional.relu),
    "z_loss": z_loss,
    "focal": focal,
    "clip_loss": clip_loss,
    "distillation": distillation,
    "top_keys": top_keys,
    "memory_layer": memory_layer,
    "expert_choice": expert_choice,
}
