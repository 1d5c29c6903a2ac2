"""Each spec against an implementation that nobody here wrote: layers of transformers, functions of torch; in float64.

Weights are drawn anew with logits of spread 1 to 3, since small ones hide errors. transformers computes angles and some
softmaxes in float32; here its own code is run with the name `torch.float32` meaning float64.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import called, distance, meaning, module_of, typed_of
from programs import FILES, SPECS, Case
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from einc.cli import main

Tensors = dict[str, torch.Tensor]
STEPS, WIDTH, HEADS, KEYS, HEAD = 11, 24, 6, 2, 8


@dataclass
class Trial:
    """Inputs of a spec, what comes out of another implementation, and the sizes that the spec asks for."""

    inputs: Tensors
    outputs: Tensors
    sizes: dict[str, int] = field(default_factory=dict)


# the layers of transformers, in float64


@pytest.fixture(scope="session")
def zoo() -> SimpleNamespace:
    """The modelling files that are used; fla would replace some layers by kernels for a GPU."""
    sys.modules.setdefault("fla", None)  # type: ignore[arg-type]
    transformers = importlib.import_module("transformers")
    classes = [f"{name}{kind}" for name in ("Llama", "Mistral", "Bloom") for kind in ("Model", "Config")]
    files = {"gptj": module("gptj"), "llama": module("llama"), "deepseek": module("deepseek_v3")}
    return SimpleNamespace(**files, **{name: getattr(transformers, name) for name in classes})


def module(name: str) -> ModuleType:
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """float64 wherever code says float32 by name."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch, "float32", torch.float64)
    yield
    monkeypatch.undo()
    torch.set_default_dtype(usual)


def spiced(model: Any, seed: int = 0) -> Any:
    """Every parameter drawn anew, in the order of names: matrices with spread 1.4 / √fan_in, no biases."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            new = torch.randn(weight.shape, generator=random, dtype=torch.float64)
            if weight.ndim >= 2:
                weight.copy_(new * 1.4 / weight.shape[-1] ** 0.5)
            else:
                weight.copy_(1 + 0.2 * new if "norm" in name and name.endswith("weight") else 0 * new)
    return model.eval()


def captured(model: Any, target: Any, **inputs: Any) -> tuple[dict[str, Any], Any]:
    """What goes into and comes out of a part of a model, arguments by name or number, while the model runs."""
    box: dict[str, Any] = {}

    def seen(_: Any, args: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        box["in"], box["out"] = {**dict(enumerate(args)), **named}, result

    hook = target.register_forward_hook(seen, with_kwargs=True)
    with torch.no_grad():
        model(**inputs)
    hook.remove()
    return box["in"], box["out"]


def ids(batch: int = 1) -> torch.Tensor:
    return torch.randint(0, 50, (batch, STEPS), generator=torch.Generator().manual_seed(3))


def heads(weight: torch.Tensor, paired: bool = False) -> torch.Tensor:
    """A projection (heads · width, model) as (heads, model, width); halves laid side by side in pairs where that is asked."""
    split = weight.detach().unflatten(0, (-1, HEAD)).transpose(1, 2)
    return split.unflatten(2, (2, HEAD // 2)).transpose(2, 3).flatten(2) if paired else split


def weights(layer: Any, paired: bool) -> Tensors:
    """The projections of a layer; turning pairs instead of halves is an exchange of the features of queries and keys."""
    q, k, v, o = (getattr(layer, f"{name}_proj").weight for name in "qkvo")
    return {"W_Q": heads(q, paired), "W_K": heads(k, paired), "W_V": heads(v), "W_O": o.detach().T.unflatten(0, (-1, HEAD))}


def decoder(zoo: SimpleNamespace, name: str, keys: int, **more: Any) -> Any:
    config = getattr(zoo, f"{name}Config")(
        vocab_size=50, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=1, num_attention_heads=HEADS,
        num_key_value_heads=keys, head_dim=HEAD, attn_implementation="sdpa", **more)
    return spiced(getattr(zoo, f"{name}Model")(config).double())


def layer(zoo: SimpleNamespace, name: str, keys: int, **more: Any) -> Trial:
    """The attention of the first layer of a whole model, without its batch, in the pairs of the paper."""
    model = decoder(zoo, name, keys, **more)
    given, (output, *_) = captured(model, model.layers[0].self_attn, input_ids=ids(), use_cache=False)
    inputs = {"X": given["hidden_states"][0], **weights(model.layers[0].self_attn, paired=True)}
    return Trial(inputs, {"A": output[0]})


def llama(zoo: SimpleNamespace) -> Trial:
    """Two sequences, in Llama's own halves."""
    model = decoder(zoo, "Llama", KEYS)
    given, (output, *_) = captured(model, model.layers[0].self_attn, input_ids=ids(2), use_cache=False)
    return Trial({"X": given["hidden_states"], **weights(model.layers[0].self_attn, paired=False)}, {"A": output})


def bloom(zoo: SimpleNamespace) -> Trial:
    """ALiBi for a number of heads that is a power of two; the module adds the residual, and its scores are translated by row."""
    config = zoo.BloomConfig(vocab_size=50, hidden_size=4 * HEAD, n_layer=1, n_head=4, attention_dropout=0.0, hidden_dropout=0.0)
    model = spiced(zoo.BloomModel(config).double())
    part = model.h[0].self_attention
    given, (output, *_) = captured(model, part, input_ids=ids(), use_cache=False)
    q, k, v = part.query_key_value.weight.detach().unflatten(0, (4, 3, HEAD)).transpose(2, 3).unbind(1)
    inputs = {"X": given[0][0], "W_Q": q, "W_K": k, "W_V": v, "W_O": part.dense.weight.detach().T.unflatten(0, (4, HEAD))}
    return Trial(inputs, {"A": (output - given[1])[0]})


def latents(zoo: SimpleNamespace, asking: int | None = None) -> Trial:
    """DeepSeek-V3 without its turned features and its norm; or what some last rows ask of its latents, head by head."""
    config = zoo.deepseek.DeepseekV3Config(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS, q_lora_rank=None, kv_lora_rank=5,
        qk_nope_head_dim=HEAD, qk_rope_head_dim=0, v_head_dim=HEAD, attn_implementation="sdpa")
    part = spiced(zoo.deepseek.DeepseekV3Attention(config, 0).double())
    part.kv_a_layernorm = nn.Identity()
    x, none = normal(STEPS, WIDTH), normal(1, STEPS, 0)
    mixed, output = captured(part, part.o_proj, hidden_states=x[None], position_embeddings=(none, none), attention_mask=None)
    down, q, o = part.kv_a_proj_with_mqa.weight.detach().T, heads(part.q_proj.weight), part.o_proj.weight.detach().T
    keys, values = part.kv_b_proj.weight.detach().unflatten(0, (HEADS, 2, HEAD)).transpose(2, 3).unbind(1)
    up = {"P": keys, "Q": values}
    if asking is None:
        return Trial({"H_tilde": x, "W_Q": q, "U": down, **up, "W_O": o.unflatten(0, (HEADS, HEAD))}, {"A": output[0]})
    asked = torch.einsum("tf,hfd->thd", x[-asking:], q)
    return Trial({"q": asked, "L": x @ down, **up}, {"Y": mixed[0][0, -asking:].unflatten(1, (HEADS, HEAD))})


def rotation(zoo: SimpleNamespace, halves: bool) -> Trial:
    """The rotations of Llama and of GPT-J, of every unit vector."""
    model = decoder(zoo, "Llama", KEYS)
    units = torch.eye(HEAD)[None, :, None].expand(1, HEAD, STEPS, HEAD)
    cos, sin = model.rotary_emb(units, torch.arange(STEPS)[None])
    if halves:
        turned, _ = zoo.llama.apply_rotary_pos_emb(units, units, cos, sin)
        return Trial({}, {"R": turned[0].transpose(0, 1)}, {"T": STEPS, "d_k": HEAD})
    turned = zoo.gptj.apply_rotary_pos_emb(units.transpose(1, 2), *(x[..., : HEAD // 2] for x in (sin, cos)))
    return Trial({}, {"R": turned[0]}, {"T": STEPS, "d_k": HEAD})


# the functions of torch


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def qkv(queries: int = STEPS, keys: int = STEPS) -> Tensors:
    return {"Q": 1.5 * normal(2, 3, queries, HEAD), "K": normal(2, 3, keys, HEAD, seed=1), "V": normal(2, 3, keys, HEAD, seed=2)}


def sdpa(_: SimpleNamespace) -> Trial:
    x = qkv()
    return Trial(x, {"Y": functional.scaled_dot_product_attention(x["Q"], x["K"], x["V"], is_causal=True)})


def row(_: SimpleNamespace, **options: bool) -> Trial:
    """One head: what the row of the library calls, by torch itself."""
    x = {name: tensor[0, 0] for name, tensor in qkv().items()}
    y = functional.scaled_dot_product_attention(*(tensor[None, None] for tensor in x.values()), **options)
    return Trial(x, {"Y": y[0, 0]})


Mask = Callable[[Any, Any, Any, Any], Any]


def flex(mask: Mask, more: Tensors | None = None, score: Any = None, keys: int = STEPS, **sizes: int) -> Trial:
    """FlexAttention, not compiled, which takes masks and scores as functions of positions, from 0."""
    x = qkv(keys=keys)
    block = create_block_mask(mask, None, None, STEPS, keys, device="cpu")
    return Trial({**x, **(more or {})}, {"Y": flex_attention(x["Q"], x["K"], x["V"], score_mod=score, block_mask=block)}, sizes)


def causal(_b: Any, _h: Any, t: Any, s: Any) -> Any:
    return s <= t


def documents(_: SimpleNamespace) -> Trial:
    doc = torch.tensor([1, 1, 1, 2, 2, 5, 5, 5, 5, 1, 1])
    return flex(lambda b, h, t, s: (s <= t) & (doc[t] == doc[s]), {"doc": doc})


def decode(_: SimpleNamespace) -> Trial:
    x = qkv(queries=4)
    return Trial(x, {"Y": functional.scaled_dot_product_attention(x["Q"], x["K"], x["V"], attn_mask=causal_lower_right(4, STEPS))})


def shared(_: SimpleNamespace) -> Trial:
    """torch's own kernel with the same scores for every head."""
    x, m = normal(STEPS, WIDTH), 0.2 * normal(WIDTH, WIDTH)
    v, o = normal(3, WIDTH, HEAD), normal(3, HEAD, WIDTH)
    q, k = (a.expand(1, 3, STEPS, WIDTH) for a in (x @ m, x))
    y = functional.scaled_dot_product_attention(q, k, (x @ v)[None], is_causal=True, scale=HEAD**-0.5)[0]
    return Trial({"X": x, "M": m, "W_V": v, "W_O": o}, {"A": (y @ o).sum(0)})


def cross(_: SimpleNamespace) -> Trial:
    other = spiced(nn.MultiheadAttention(3 * HEAD, 3, bias=False, batch_first=True, dtype=torch.float64))
    x, memory = normal(STEPS, 3 * HEAD), normal(7, 3 * HEAD)
    with torch.no_grad():
        output, _weights = other(x[None], memory[None], memory[None])
    q, k, v = map(heads, other.in_proj_weight.chunk(3))
    o = other.out_proj.weight.detach().T.unflatten(0, (3, HEAD))
    return Trial({"H_tilde": x, "E": memory, "W_Q_x": q, "W_K_x": k, "W_V_x": v, "W_O_x": o}, {"A_x": output[0]})


def backward(_: SimpleNamespace) -> Trial:
    """The gradients that autograd finds, and the log-sum-exp of torch's own kernel."""
    q, k, v = (x[0].requires_grad_() for x in qkv().values())
    y = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    dy = normal(3, STEPS, HEAD, seed=5)
    grads = torch.autograd.grad(y, (q, k, v), dy)
    _y, lse, *_rest = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q[None], k[None], v[None], 0.0, True)
    inputs = {"Q": q, "K": k, "V": v, "Y": y, "dY": dy, "lse": lse[0].reshape(3, STEPS)}
    return Trial({key: x.detach() for key, x in inputs.items()}, dict(zip(("dQ", "dK", "dV"), grads, strict=True)))


def cross_entropy(_: SimpleNamespace) -> Trial:
    x, w, target = normal(STEPS, 5), normal(5, 9), torch.randint(0, 9, (STEPS,), generator=torch.Generator().manual_seed(0))
    return Trial({"X": x, "W": w, "w": target + 1}, {"L_cal": functional.cross_entropy(x @ w, target, reduction="none")})


def two_domains(_: SimpleNamespace) -> Trial:
    q, k, v = (x[0, 0] for x in qkv().values())
    away = torch.arange(STEPS)[:, None] - torch.arange(STEPS)
    masks = away >= 0, (away >= 0) & (away < 4)
    y, z = (functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0) for mask in masks)
    return Trial({"Q": q, "K": k, "V": v}, {"Y": y, "Z": z}, {"W": 4})


def distributions(name: str) -> Trial:
    x, y = 2 * normal(4, 9), normal(4, 9, seed=1)
    p, q = (torch.distributions.Categorical(logits=logits) for logits in (x, y))
    match name:
        case "collision":
            return Trial({"x": x}, {"c": p.probs.square().sum(-1)})
        case "entropy":
            return Trial({"x": x}, {"H": p.entropy()})
    return Trial({"x": x, "y": y}, {"D": torch.distributions.kl_divergence(p, q)})


def layer_norm(_: SimpleNamespace) -> Trial:
    x, w = normal(4, 9), normal(9, 5)
    return Trial({"x": x, "W": w}, {"y": functional.layer_norm(x, (9,), eps=1e-5) @ w})


def moments(_: SimpleNamespace) -> Trial:
    x = normal(STEPS)
    found = [torch.var_mean(x[: n + 1], correction=0) for n in range(STEPS)]
    return Trial({"x": x}, {"mu": torch.stack([m for _v, m in found]), "sigma": torch.stack([v for v, _m in found])})


def nearest(_: SimpleNamespace) -> Trial:
    q, k, v = (x[0, 0] for x in qkv().values())
    best = torch.argmax((q @ k.mT).masked_fill(~torch.ones(STEPS, STEPS).tril().bool(), -torch.inf), -1)
    return Trial({"Q": q, "K": k, "V": v}, {"Y": v[best]})


def cheapest(_: SimpleNamespace) -> Trial:
    x, c = normal(STEPS, 3), normal(STEPS)
    return Trial({"X": x, "c": c}, {"y": torch.stack([torch.amin(x[: t + 1] @ x[t] + c[: t + 1]) for t in range(STEPS)])})


def decayed(_: SimpleNamespace) -> Trial:
    """A leaky sum is a convolution with the powers of the leak."""
    x, g = normal(STEPS, 3), torch.tensor(0.6, dtype=torch.float64)
    kernel = torch.exp(-g * g) ** torch.arange(STEPS - 1, -1, -1, dtype=torch.float64)
    y = functional.conv1d(x.T[:, None], kernel[None, None], padding=STEPS - 1)[:, 0, :STEPS].T
    return Trial({"X": x, "g": g}, {"Y": y})


def faded(_: SimpleNamespace) -> Trial:
    """A mask of powers times the scores."""
    (q, k, v), g = (x[0] for x in qkv().values()), torch.rand(len(qkv()["Q"][0]), dtype=torch.float64)
    away = torch.arange(STEPS)[:, None] - torch.arange(STEPS)
    return Trial({"Q": q, "K": k, "V": v, "gamma": g}, {"Y": torch.tril(g[:, None, None] ** away) * (q @ k.mT) @ v})


def gated(_: SimpleNamespace) -> Trial:
    """Step by step: the state is multiplied by the gate, then grows."""
    (q, k, v), x = (x[0] for x in qkv().values()), normal(*qkv()["Q"][0].shape)
    state, out = torch.zeros(*k[:, 0].shape, v.shape[-1], dtype=torch.float64), []
    for t in range(STEPS):
        state = torch.sigmoid(x[:, t])[..., None] * state + k[:, t, :, None] * v[:, t, None]
        out.append((q[:, t, None] @ state)[:, 0])
    return Trial({"Q": q, "K": k, "V": v, "x": x}, {"Y": torch.stack(out, 1)})


def features(_: SimpleNamespace) -> Trial:
    """Running sums of outer products."""
    q, k, v = (x[0] for x in qkv().values())
    state = torch.cumsum(k.exp()[..., None] * v[..., None, :], 1)
    y = torch.einsum("htd,htde->hte", q.exp(), state) / torch.einsum("htd,htd->ht", q.exp(), torch.cumsum(k.exp(), 1))[..., None]
    return Trial({"Q": q, "K": k, "V": v}, {"Y": y})


def norms(_: SimpleNamespace) -> Trial:
    x = normal(4, 9)
    return Trial({"x": x}, {"y": torch.linalg.vector_norm(x, dim=-1)})


def windowed(zoo: SimpleNamespace) -> Trial:
    trial = layer(zoo, "Mistral", HEADS, sliding_window=5)
    return Trial(trial.inputs, trial.outputs, {"W": 5})


def online(_: SimpleNamespace) -> Trial:
    x = {name: value[0].transpose(0, 1) for name, value in qkv().items()}
    bias = normal(STEPS, STEPS, 3)
    later = torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1)
    mask = bias.permute(2, 0, 1).masked_fill(later, -torch.inf)
    y = functional.scaled_dot_product_attention(*(v.transpose(0, 1)[None] for v in x.values()), attn_mask=mask[None])
    return Trial({"Q_hat": x["Q"], "K_hat": x["K"], "V": x["V"], "b": bias}, {"Y": y[0].transpose(0, 1)})


def loops(_: SimpleNamespace) -> Trial:
    x = 3 * normal(STEPS)
    return Trial({"x": x}, {"a": functional.softmax(x, -1)})


def pooled(_: SimpleNamespace) -> Trial:
    q, k, v = normal(5), normal(STEPS, 5), normal(STEPS, 3)
    return Trial({"q": q, "k": k, "v": v}, {"o": functional.softmax(k @ q, -1) @ v})


ORACLES: dict[str, Callable[[SimpleNamespace], Trial]] = {
    "attention": lambda zoo: layer(zoo, "Llama", HEADS),
    "gqa": lambda zoo: layer(zoo, "Llama", KEYS),
    "sliding_window": windowed,
    "llama_attention": llama,
    "alibi": bloom,
    "rope": lambda zoo: rotation(zoo, halves=False),
    "rope_half": lambda zoo: rotation(zoo, halves=True),
    "cross_attention": cross,
    "sdpa": sdpa,
    "causal": lambda zoo: row(zoo, is_causal=True),
    "full": row,
    "attention_backward": backward,
    "linear_cross_entropy": cross_entropy,
    "softcap": lambda _: flex(causal, score=lambda x, b, h, t, s: 50 * torch.tanh(x / 50)),
    "prefix_lm": lambda _: flex(lambda b, h, t, s: (s <= t) | (s < 4), P=4),
    "documents": documents,
    "block_diagonal": lambda _: flex(lambda b, h, t, s: t // 4 == s // 4, W=4),
    "blocks_before": lambda _: flex(lambda b, h, t, s: (s + 1) * 2 <= t + 1, keys=7, B=2),
    "dilated": lambda _: flex(lambda b, h, t, s: (s <= t) & ((t - s) % 2 == 0) & (t - s < 6), W=3, D=2),
    "paged_window": lambda _: flex(lambda b, h, t, s: (s <= t) & (t // 3 - s // 3 <= 1), P=3),
    "sinks_window": lambda _: flex(lambda b, h, t, s: (s <= t) & ((s < 4) | (t - s < 3)), W=3),
    "decode": decode,
    "mla": latents,
    "mla_decode": lambda zoo: latents(zoo, 4),
    "shared_logits": shared,
    "two_domains": two_domains,
    "collision": lambda _: distributions("collision"),
    "entropy": lambda _: distributions("entropy"),
    "kl": lambda _: distributions("kl"),
    "norm_projection": layer_norm,
    "variance": moments,
    "argmax_payload": nearest,
    "min_plus": cheapest,
    "prefix": decayed,
    "scaled_norm": norms,
    "retention": faded,
    "gated": gated,
    "linear": features,
    "online_softmax": online,
    "three_loops": loops,
    "two_loops": loops,
    "one_loop": pooled,
}


def test_every_spec_has_an_oracle() -> None:
    assert {case.name for case in FILES} == set(ORACLES)


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.usefixtures("double")
def test_a_spec_is_what_others_compute(case: Case, zoo: SimpleNamespace) -> None:
    """Both the interpreter and the emitted module."""
    trial = ORACLES[case.name](zoo)
    program = typed_of(case)
    inputs = {key: x.contiguous() for key, x in trial.inputs.items()}
    meant = meaning(program, {key: x.numpy() for key, x in inputs.items()}, trial.sizes)
    made = called(module_of(case), program, inputs, trial.sizes)
    assert set(trial.outputs) == set(meant) == set(made)
    for name, want in trial.outputs.items():
        assert distance(meant[name], want.detach().numpy()) <= 1e-10, f"interpreter: {name}"
        assert distance(made[name].numpy(), want.detach().numpy()) <= 1e-10, f"module: {name}"


# the command line, on the tensors of a real layer


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.usefixtures("double")
def test_the_layer_of_a_llama_from_the_command_line(zoo: SimpleNamespace, tmp_path: Path, suffix: str) -> None:
    trial = llama(zoo)
    data, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".npz":
        np.savez(data, **{key: x.numpy() for key, x in trial.inputs.items()})
    else:
        save_file({key: x.contiguous() for key, x in trial.inputs.items()}, data)
    command = ["run", str(SPECS / "llama_attention.ein"), "--data", str(data), "-o", str(out), "--verify", "--repeat", "1"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    got = np.load(out)["A"] if suffix == ".npz" else load_file(out)["A"].numpy()
    assert distance(got, trial.outputs["A"].numpy()) <= 1e-10


def test_the_weights_tell_layers_apart(double: None, zoo: SimpleNamespace) -> None:
    """An oracle is worth something if what is nearly right is far from it: no rotation, and another number of keys."""
    trial = layer(zoo, "Llama", HEADS)
    program = typed_of(next(case for case in FILES if case.name == "alibi"))
    inputs = {key: x.numpy() for key, x in trial.inputs.items()}
    assert distance(meaning(program, inputs, {})["A"], trial.outputs["A"].numpy()) > 0.1
    q, k = (torch.einsum("tf,hfd->htd", trial.inputs["X"], trial.inputs[name]) for name in ("W_Q", "W_K"))
    assert 1 < (q @ k.mT / HEAD**0.5).std() < 4
