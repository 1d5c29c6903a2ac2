"""The recurrent layers of specs/recurrent by other implementations: functions of transformers where it has the
recurrence, else a loop over positions from the formula of the paper. None of it comes from einc or from the specs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

Tensors = dict[str, Tensor]
HEADS, KEYS, VALUES, FEATURES = 2, 3, 4, 5


@dataclass(frozen=True)
class Layer:
    """A recurrent layer: its one output, inputs for a number of positions and what its implementation makes of them.

    `gates` names the inputs that decide how much a state keeps, each with the values at which it keeps nothing, keeps
    everything, or takes nothing in. `sizes` has what no input fixes, for a number of positions.
    """

    output: str
    draw: Callable[[int], Tensors]
    result: Callable[..., Tensor]
    gates: dict[str, tuple[float, ...]]
    sizes: Callable[[int], dict[str, int]] = lambda steps: {}

    def inputs(self, steps: int, extreme: bool = False) -> Tensors:
        """Random inputs; with `extreme`, of each gate a third of the values, here and there, are those of its ends."""
        found = self.draw(steps)
        for place, (name, ends) in enumerate(self.gates.items() if extreme else ()):
            flat = found[name].flatten()
            chosen = torch.rand(len(flat), generator=torch.Generator().manual_seed(place)) < 0.35
            chosen[place % len(flat)] = True
            turns = torch.arange(len(flat)) + place + (torch.arange(len(flat)) // 7)
            flat[chosen] = torch.tensor(ends, dtype=torch.float64)[turns[chosen] % len(ends)]
            found[name] = flat.unflatten(0, found[name].shape) if found[name].ndim else flat[0]
        return found


def drawn(**shapes: tuple[int, ...]) -> Tensors:
    """Normal values, other ones for each name."""
    return {name: torch.randn(shape, generator=torch.Generator().manual_seed(n + 1), dtype=torch.float64)
            for n, (name, shape) in enumerate(shapes.items())}


def modelling(name: str) -> ModuleType:
    """A modelling file of transformers; fla would replace its functions by kernels for a GPU."""
    sys.modules.setdefault("fla", None)  # type: ignore[arg-type]
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def positions(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """What the tensors hold, position by position."""
    return list(zip(*(x.unbind(0) for x in tensors), strict=True))


# one number for each feature


def mega(x: Tensor, alpha: Tensor) -> Tensor:
    """The moving average as a sum: the share α of each position, faded by 1 - α for each position since."""
    away = torch.arange(len(x))[:, None] - torch.arange(len(x))
    weights = torch.where((away >= 0)[..., None], alpha * (1 - alpha) ** away.clamp(min=0)[..., None], 0)
    return torch.einsum("tsd,sd->td", weights, x)


def gemma(x: Tensor, W_a: Tensor, W_x: Tensor, b_a: Tensor, b_x: Tensor, Lambda: Tensor) -> Tensor:
    """The module of transformers. Its parameter is -Λ, and positions count from 1 here: at a position 0 it forgets."""
    blocks, width = Lambda.shape
    layer = modelling("recurrent_gemma").RecurrentGemmaRglru(
        SimpleNamespace(num_attention_heads=blocks, lru_width=blocks * width))
    weights = {"recurrent_param": -Lambda.flatten(), "input_gate_weight": W_x, "input_gate_bias": b_x,
               "recurrent_gate_weight": W_a, "recurrent_gate_bias": b_a}
    places = torch.arange(1, len(x) + 1)[None]
    return functional_call(layer, weights, (x.flatten(1)[None], places))[0].reshape(x.shape)


def selective(x: Tensor, W_B: Tensor, W_C: Tensor, W_Delta: Tensor, V: Tensor, b: Tensor, A: Tensor,
              D: Tensor) -> Tensor:
    """The scan of transformers after three linear maps."""
    step, B, C = ((x @ weight).T[None] for weight in (W_Delta @ V, W_B, W_C))
    scan = modelling("mamba").mamba_selective_scan
    return scan(x.T[None], step, A, B, C, D=D, delta_bias=b, delta_softplus=True)[0].T


def longhorn(q: Tensor, k: Tensor, x: Tensor, beta: Tensor) -> Tensor:
    """Channel by channel: a step of the rate β / (1 + β |k|²) towards the value, the key's coordinates taken apart."""
    out = []
    state = torch.zeros(x.shape[1], k.shape[1], dtype=x.dtype)
    for query, key, value, rate in positions(q, k, x, beta):
        step = rate / (1 + rate * (key @ key))
        state = torch.stack([row + e * (v - key * row) * key for row, e, v in zip(state, step, value, strict=True)])
        out.append(state @ query)
    return torch.stack(out)


# a matrix for each head


def chunked(x: Tensor, Delta: Tensor, B: Tensor, C: Tensor, A: Tensor, D: Tensor) -> Tensor:
    """The scan of transformers in chunks of 4 positions, one group of B and C."""
    scan = modelling("mamba2").mamba2_chunk_scan
    return scan(x[None], Delta[None], A, B[None, :, None], C[None, :, None], 4, D=D)[0]


def eagle(r: Tensor, k: Tensor, v: Tensor, x: Tensor, u: Tensor) -> Tensor:
    """The sum over the past: what came at a position has faded by all decays between it and the present one."""
    decay, out = torch.exp(-torch.exp(x)), []
    for t in range(len(r)):
        kept = [decay[s + 1:t].prod(0) * k[s] for s in range(t)]
        keys = torch.stack([*kept, u * k[t]])
        out.append(torch.einsum("hd,shd,she->he", r[t], keys, v[:t + 1]))
    return torch.stack(out)


def goose(r: Tensor, k: Tensor, v: Tensor, kappa: Tensor, a: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
    """With the transition as a matrix for each head and position."""
    decay = torch.exp(-torch.sigmoid(x) / torch.e**0.5)
    key, unit = torch.lerp(k, k * a, alpha), functional.normalize(kappa, dim=-1)
    moves = torch.diag_embed(decay) - unit[..., :, None] * (a * unit)[..., None, :]
    state, out = torch.zeros(*v.shape[1:], k.shape[-1], dtype=v.dtype), []
    for move, brought, asked in positions(moves, v[..., None] @ key[..., None, :], r[..., None]):
        state = state @ move + brought
        out.append((state @ asked)[..., 0])
    return torch.stack(out)


def ungated(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """The gated rule of transformers without a gate, and without its scale of the queries."""
    rule = modelling("qwen3_next").torch_recurrent_gated_delta_rule
    return rule(q[None] * q.shape[-1] ** 0.5, k[None], v[None], torch.zeros_like(beta)[None], beta[None])[0][0]


def gated(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    rule = modelling("qwen3_next").torch_recurrent_gated_delta_rule
    return rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]


def stack_inputs(steps: int, batch: int = 2, layers: int = 3) -> Tensors:
    """Words and weights of a small language model of gated delta layers."""
    width, inner, words = 6, 5, 11
    heads = {key: (layers, width, HEADS, KEYS) for key in ("W_Q", "W_K", "W_V", "W_G")}
    weights = drawn(E=(words, width), gamma=(width,), W_lm=(width, words), **heads, W_alpha=(layers, width, HEADS),
                    W_beta=(layers, width, HEADS), b=(layers, HEADS), A=(layers, HEADS),
                    W_O=(layers, HEADS, KEYS, width), gamma_1=(layers, width), gamma_2=(layers, width),
                    gamma_3=(layers, KEYS), W_1=(layers, width, inner), W_2=(layers, width, inner),
                    W_3=(layers, inner, width))
    random = torch.Generator().manual_seed(steps)
    return {"w": torch.randint(0, words, (batch, steps), generator=random), **{k: x / 2 for k, x in weights.items()}}


def language_model(w: Tensor, E: Tensor, gamma: Tensor, W_lm: Tensor, **layers: Tensor) -> Tensor:
    """The logits: layers one after the other, in each of which the state goes from position to position."""
    def rms(x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    x = E[w]
    for at in range(len(layers["A"])):
        p = {key: each[at] for key, each in layers.items()}
        u = p["gamma_1"] * rms(x)
        q, k, v, gate = (torch.einsum("ntf,fhd->nthd", u, p[key]) for key in ("W_Q", "W_K", "W_V", "W_G"))
        decay = -p["A"].exp() * functional.softplus(u @ p["W_alpha"] + p["b"])
        read = gated(q, k, v, decay, torch.sigmoid(u @ p["W_beta"])) if w.shape[1] else v
        y = x + torch.einsum("nthd,hdf->ntf", p["gamma_3"] * rms(read) * functional.silu(gate), p["W_O"])
        z = p["gamma_2"] * rms(y)
        x = y + (functional.silu(z @ p["W_1"]) * (z @ p["W_2"])) @ p["W_3"]
    return gamma * rms(x) @ W_lm


def gated_in_chunks(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    rule = modelling("qwen3_next").torch_chunk_gated_delta_rule
    return rule(q, k, v, g, beta, chunk_size=8, use_qk_l2norm_in_kernel=True)[0]


def kimi(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    return modelling("kimi_linear").recurrent_kimi_delta_attention(q, k, v, g, beta, None, False)[0]


def gla(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """The state row by row of the keys, with the logarithm of the gate."""
    state, out = torch.zeros(*k.shape[1:], v.shape[-1], dtype=v.dtype), []
    for query, key, value, gate in positions(q, k, v, functional.logsigmoid(x) / 16):
        state = torch.diag_embed(gate.exp()) @ state + key[:, :, None] * value[:, None]
        out.append((query[:, None] @ state)[:, 0])
    return torch.stack(out)


def xlstm(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
    """The recurrent form of transformers, without what it adds to the denominator."""
    run = modelling("xlstm").mlstm_recurrent_sequence_native
    parts = (x.transpose(0, 1)[None] for x in (q, k, v, i, f))
    return run(*parts, eps=0.0, dtype_state=q.dtype)[0].transpose(0, 1)


def titans(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, eta: Tensor, theta: Tensor) -> Tensor:
    """Gradient descent by autograd on the loss of each position."""
    memory = torch.zeros(*v.shape[1:], k.shape[-1], dtype=v.dtype, requires_grad=True)
    surprise, out = torch.zeros_like(memory), []
    for query, key, value, forget, keep, rate in positions(q, k, v, alpha, eta, theta):
        with torch.enable_grad():
            loss = ((memory @ key[..., None])[..., 0] - value).square().sum()
            slope, = torch.autograd.grad(loss, memory, create_graph=True)
        surprise = keep[:, None, None] * surprise - rate[:, None, None] * slope
        memory = (1 - forget)[:, None, None] * memory + surprise
        out.append((memory @ query[..., None])[..., 0])
    return torch.stack(out)


# attention over what a recurrence makes


def path(q: Tensor, k: Tensor, w: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """The matrices I - β w wᵀ, one after the other, on the query on its way back through the past."""
    turns = torch.eye(q.shape[-1], dtype=q.dtype) - (beta[..., None] * w)[..., None] * w[..., None, :]
    out = []
    for t, query in enumerate(q / q.shape[-1] ** 0.5):
        turned, scores = query[..., None], []
        for s in reversed(range(t + 1)):
            scores.append(k[s, :, None] @ turned)
            turned = turns[s] @ turned
        weights = torch.softmax(torch.cat(scores[::-1], -1), -1)
        out.append((weights @ v[:t + 1].transpose(0, 1))[:, 0])
    return torch.stack(out)


def deltaformer(q: Tensor, w: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """The values position by position, each less what the past gives for its key; then attention of torch."""
    written: list[Tensor] = []
    for t in range(len(v)):
        value = v[t]
        if written:
            weights = torch.softmax(torch.einsum("hd,shd->hs", w[t], k[:t]) / k.shape[-1] ** 0.5, -1)
            value = value - beta[t, :, None] * torch.einsum("hs,she->he", weights, torch.stack(written))
        written.append(value)
    parts = (x.transpose(0, 1)[None] for x in (q, k, torch.stack(written)))
    return functional.scaled_dot_product_attention(*parts, is_causal=True)[0].transpose(0, 1)


def taylor(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each weight is the Taylor polynomial of exp to the second power, from the logit itself."""
    x = torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    weights = (1 + x + x**2 / 2).tril()
    return torch.einsum("hts,she->the", weights / weights.sum(-1, keepdim=True), v)


# what they are given


def ema_inputs(steps: int) -> Tensors:
    found = drawn(x=(steps, FEATURES), alpha=(FEATURES,))
    return {**found, "alpha": torch.sigmoid(3 * found["alpha"])}


def gemma_inputs(steps: int) -> Tensors:
    """Blocks of one width; a is between 0.3 and 0.99."""
    block = (HEADS, FEATURES)
    found = drawn(x=(steps, *block), W_a=(*block, FEATURES), W_x=(*block, FEATURES), b_a=block, b_x=block, Lambda=block)
    return {**found, "Lambda": 2 + 1.5 * found["Lambda"]}


def mamba_inputs(steps: int) -> Tensors:
    states, rank = KEYS, 2
    found = drawn(x=(steps, FEATURES), W_B=(FEATURES, states), W_C=(FEATURES, states), W_Delta=(FEATURES, rank),
                  V=(rank, FEATURES), b=(FEATURES,), A=(FEATURES, states), D=(FEATURES,))
    return {**found, "A": -torch.exp(found["A"])}


def longhorn_inputs(steps: int) -> Tensors:
    found = drawn(q=(steps, KEYS), k=(steps, KEYS), x=(steps, FEATURES), beta=(steps, FEATURES))
    return {**found, "beta": torch.exp(2 * found["beta"])}


def ssd_inputs(steps: int) -> Tensors:
    found = drawn(x=(steps, HEADS, VALUES), Delta=(steps, HEADS), B=(steps, KEYS), C=(steps, KEYS), A=(HEADS,),
                  D=(HEADS,))
    return {**found, "Delta": functional.softplus(2 * found["Delta"]), "A": -torch.exp(found["A"])}


def attended(steps: int, *batch: int) -> Tensors:
    """Queries, keys of length 1, and values."""
    found = drawn(q=(*batch, steps, HEADS, KEYS), k=(*batch, steps, HEADS, KEYS), v=(*batch, steps, HEADS, VALUES))
    return {**found, "k": functional.normalize(found["k"], dim=-1)}


def rates(steps: int, *names: str, batch: tuple[int, ...] = (), most: float = 1.0) -> Tensors:
    """Numbers between 0 and `most` for each position and head."""
    found = drawn(**{name: (*batch, steps, HEADS) for name in ("q", "k", *names)})
    return {name: most * torch.sigmoid(2 * found[name]) for name in names}


def wkv_inputs(steps: int, *names: str, **weights: tuple[int, ...]) -> Tensors:
    """Receptances, keys, values, and per channel what is named; and weights."""
    width = (steps, HEADS, KEYS)
    return drawn(r=width, k=width, v=(steps, HEADS, VALUES), **dict.fromkeys(names, width), **weights)


def goose_inputs(steps: int) -> Tensors:
    found = wkv_inputs(steps, "kappa", "a", "x", alpha=(HEADS, KEYS))
    return {**found, "a": torch.sigmoid(found["a"]), "x": 2 * found["x"]}


def delta_inputs(steps: int) -> Tensors:
    return {**attended(steps), **rates(steps, "beta")}


def gated_delta_inputs(steps: int) -> Tensors:
    """Keys that are normalised by the layer."""
    more = rates(steps, "alpha", "beta", batch=(2,))
    found = attended(steps, 2)
    return {**found, "k": 3 * found["k"], "g": more["alpha"].log(), "beta": more["beta"]}


def kimi_inputs(steps: int) -> Tensors:
    gates = drawn(a=(1,), g=(2, steps, HEADS, KEYS))["g"]
    return {**attended(steps, 2), "g": functional.logsigmoid(2 * gates), **rates(steps, "beta", batch=(2,))}


def gla_inputs(steps: int) -> Tensors:
    return {**attended(steps), "x": 20 * drawn(a=(1,), x=(steps, HEADS, KEYS))["x"]}


def xlstm_inputs(steps: int) -> Tensors:
    gates = drawn(i=(steps, HEADS), f=(steps, HEADS))
    return {**attended(steps), "i": 2 * gates["i"], "f": 2 + 3 * gates["f"]}


def titans_inputs(steps: int) -> Tensors:
    return {**attended(steps), **rates(steps, "alpha", "eta"), **rates(steps, "theta", most=0.3)}


def path_inputs(steps: int) -> Tensors:
    """Directions of length 1; β between 0 and 2."""
    way = functional.normalize(drawn(a=(1,), b=(1,), c=(1,), w=(steps, HEADS, KEYS))["w"], dim=-1)
    return {**attended(steps), "w": way, **rates(steps, "beta", most=2.0)}


def deltaformer_inputs(steps: int) -> Tensors:
    asked = drawn(a=(1,), b=(1,), c=(1,), w=(steps, HEADS, KEYS))["w"]
    return {**attended(steps), "w": 2 * asked, **rates(steps, "beta")}


FAR = 1000.0
LAYERS = {
    "ema": Layer("y", ema_inputs, mega, {"alpha": (0.0, 1.0)}),
    "rg_lru": Layer("h", gemma_inputs, gemma, {"b_a": (-FAR, FAR), "Lambda": (FAR, -FAR)}),
    "mamba1": Layer("y", mamba_inputs, selective, {"b": (-FAR, FAR)}),
    "ssd": Layer("y", ssd_inputs, chunked, {"Delta": (0.0, FAR)}),
    "ssd_sum": Layer("y", ssd_inputs, chunked, {"Delta": (0.0, FAR)}),
    "rwkv6": Layer("y", lambda steps: wkv_inputs(steps, "x", u=(HEADS, KEYS)), eagle, {"x": (-FAR, 10.0)}),
    "rwkv7": Layer("y", goose_inputs, goose, {"a": (0.0, 1.0), "x": (-FAR,)}),
    "deltanet": Layer("o", delta_inputs, ungated, {"beta": (0.0, 1.0)}),
    "gated_deltanet": Layer("o", gated_delta_inputs, gated, {"g": (0.0, -FAR), "beta": (0.0, 1.0)}),
    "kda": Layer("o", kimi_inputs, kimi, {"g": (0.0, -FAR), "beta": (0.0, 1.0)}),
    "gla": Layer("o", gla_inputs, gla, {"x": (FAR, -20 * FAR, -800.0)}),
    "mlstm": Layer("y", xlstm_inputs, xlstm, {"i": (-600.0, 0.0, FAR), "f": (FAR, -FAR)}),
    "titans_momentum": Layer("y", titans_inputs, titans, {"alpha": (0.0, 1.0), "eta": (0.0, 1.0), "theta": (0.0,)}),
    "path": Layer("o", path_inputs, path, {"beta": (0.0, 1.0, 2.0)}),
    "deltaformer": Layer("o", deltaformer_inputs, deltaformer, {"beta": (0.0, 1.0)}),
    "based": Layer("o", attended, taylor, {"q": (0.0, FAR)}),
    "longhorn": Layer("o", longhorn_inputs, longhorn, {"beta": (0.0, 1e30)}),
}
