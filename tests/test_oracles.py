"""Each spec against an implementation that nobody here wrote: layers of transformers, functions of torch; in float64.

Weights are drawn anew with logits of spread 1 to 3, since small ones hide errors. transformers computes angles and some
softmaxes in float32; here its own code is run with the name `torch.float32` meaning float64.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import called, distance, each, meaning, module_of, typed, typed_of
from plain import HEAD, PLAIN, STEPS, WIDTH, Tensors, Trial, normal, qkv
from programs import DRAWN, SPECS, Case
from programs import FILES as EVERY
from recurrent import LAYERS, Layer, language_model, stack_inputs
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from variants import VARIANTS

from bench.rounded import ROWS as ROUNDED
from einc.driver.cli import main

HEADS, KEYS = 6, 2

FILES = [case for case in EVERY if case.name not in ROUNDED]  # those of precision: test_precision.py


# the layers of transformers, in float64


@pytest.fixture(scope="session")
def zoo() -> SimpleNamespace:
    """The modelling files that are used; fla would replace some layers by kernels for a GPU."""
    sys.modules.setdefault("fla", None)  # type: ignore[arg-type]
    transformers = importlib.import_module("transformers")
    models = ("Llama", "Mistral", "Bloom", "GPTNeoX", "GPT2", "Bart")
    classes = [*(f"{name}{kind}" for name in models for kind in ("Model", "Config")), "GPT2LMHeadModel",
               "LlamaForCausalLM"]
    files = {"gptj": module("gptj"), "llama": module("llama"), "deepseek": module("deepseek_v3"),
             "bloom": module("bloom"),
             "sparse": module("deepseek_v32"), "mixtral": module("mixtral")}
    return SimpleNamespace(**files, **{name: getattr(transformers, name) for name in classes})


def module(name: str) -> ModuleType:
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


@contextmanager
def doubled() -> Iterator[None]:
    """float64 wherever code says float32 by name."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield
    torch.set_default_dtype(usual)


@pytest.fixture
def double() -> Iterator[None]:
    with doubled():
        yield


def spiced(model: Any, seed: int = 0, biases: float = 0.0) -> Any:
    """Every parameter drawn anew, in the order of names: matrices with spread 1.4 / √fan_in, biases with that
    spread, norms about 1 with shifts about 0."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            new = torch.randn(weight.shape, generator=random, dtype=torch.float64)
            if weight.ndim >= 2:
                weight.copy_(new * 1.4 / weight.shape[-1] ** 0.5)
            else:
                norm = "norm" in name or "ln_" in name
                weight.copy_(1 + 0.2 * new if name.endswith("weight") else (0.2 if norm else biases) * new)
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
    """A projection (heads · width, model) as (heads, model, width); halves laid side by
    side in pairs where that is asked."""
    split = weight.detach().unflatten(0, (-1, HEAD)).transpose(1, 2)
    return split.unflatten(2, (2, HEAD // 2)).transpose(2, 3).flatten(2) if paired else split


def weights(layer: Any, paired: bool) -> Tensors:
    """The projections of a layer; turning pairs instead of halves is an exchange of the
    features of queries and keys."""
    q, k, v, o = (getattr(layer, f"{name}_proj").weight for name in "qkvo")
    return {"W_Q": heads(q, paired), "W_K": heads(k, paired), "W_V": heads(v),
            "W_O": o.detach().T.unflatten(0, (-1, HEAD))}


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


def bloom(zoo: SimpleNamespace, count: int = 4) -> Trial:
    """Bloom's attention; the module adds the residual, and its scores are translated by row."""
    config = zoo.BloomConfig(
        vocab_size=50, hidden_size=count * HEAD, n_layer=1, n_head=count, attention_dropout=0.0, hidden_dropout=0.0)
    model = spiced(zoo.BloomModel(config).double())
    part = model.h[0].self_attention
    given, (output, *_) = captured(model, part, input_ids=ids(), use_cache=False)
    q, k, v = part.query_key_value.weight.detach().unflatten(0, (count, 3, HEAD)).transpose(2, 3).unbind(1)
    inputs = {"X": given[0][0], "W_Q": q, "W_K": k, "W_V": v,
              "W_O": part.dense.weight.detach().T.unflatten(0, (count, HEAD))}
    return Trial(inputs, {"A": (output - given[1])[0]})


def latents(zoo: SimpleNamespace, asking: int | None = None) -> Trial:
    """DeepSeek-V3 without its turned features and its norm; or what some last rows ask of its latents, head by head."""
    config = zoo.deepseek.DeepseekV3Config(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS, q_lora_rank=None, kv_lora_rank=5,
        qk_nope_head_dim=HEAD, qk_rope_head_dim=0, v_head_dim=HEAD, attn_implementation="sdpa")
    part = spiced(zoo.deepseek.DeepseekV3Attention(config, 0).double())
    part.kv_a_layernorm = nn.Identity()
    x, none = normal(STEPS, WIDTH), normal(1, STEPS, 0)
    mixed, output = captured(part, part.o_proj, hidden_states=x[None], position_embeddings=(none, none),
                             attention_mask=None)
    down, q, o = part.kv_a_proj_with_mqa.weight.detach().T, heads(part.q_proj.weight), part.o_proj.weight.detach().T
    keys, values = part.kv_b_proj.weight.detach().unflatten(0, (HEADS, 2, HEAD)).transpose(2, 3).unbind(1)
    up = {"P": keys, "Q": values}
    if asking is None:
        return Trial({"H_tilde": x, "W_Q": q, "U": down, **up, "W_O": o.unflatten(0, (HEADS, HEAD))}, {"A": output[0]})
    asked = torch.einsum("tf,hfd->thd", x[-asking:], q)
    return Trial({"q": asked, "L": x @ down, **up}, {"Y": mixed[0][0, -asking:].unflatten(1, (HEADS, HEAD))})


def rotation(zoo: SimpleNamespace, halves: bool = False, **rope: Any) -> Trial:
    """The rotations of Llama and of GPT-J, of every unit vector; `rope` tells how transformers scales the angles."""
    model = decoder(zoo, "Llama", KEYS, **({"rope_parameters": {"rope_theta": 10000.0, **rope}} if rope else {}))
    units = torch.eye(HEAD)[None, :, None].expand(1, HEAD, STEPS, HEAD)
    cos, sin = model.rotary_emb(units, torch.arange(STEPS)[None])
    if halves:
        turned, _ = zoo.llama.apply_rotary_pos_emb(units, units, cos, sin)
        return Trial({}, {"R": turned[0].transpose(0, 1)}, {"T": STEPS, "d_k": HEAD})
    turned = zoo.gptj.apply_rotary_pos_emb(units.transpose(1, 2), *(x[..., : HEAD // 2] for x in (sin, cos)))
    return Trial({}, {"R": turned[0]}, {"T": STEPS, "d_k": HEAD})


# experts, and chosen positions


def experts(part: Any, gate: torch.Tensor) -> Tensors:
    """The matrices of gated experts, as MixtralExperts and DeepseekV3Experts hold them, and of their router."""
    up, down = part.gate_up_proj.detach(), part.down_proj.detach()
    first, third = up.mT.chunk(2, -1)
    return {"W_gate": gate.detach().T, "W_1": first, "W_3": third, "W_2": down.mT}


def mixture(zoo: SimpleNamespace) -> Trial:
    """Experts and router as lists: position by position, the largest first."""
    x, w = normal(STEPS, WIDTH), {"W_gate": normal(WIDTH, 7) / WIDTH**0.5, "b": normal(7),
                                  "W_1": normal(7, WIDTH, 13) / 4,
                                  "W_2": normal(7, 13, WIDTH)}
    rows = []
    for row in x:
        best, places = torch.topk(row @ w["W_gate"] + w["b"], 3)
        parts = [functional.gelu(row @ w["W_1"][i]) @ w["W_2"][i] for i in places.tolist()]
        rows.append(functional.softmax(best, -1) @ torch.stack(parts))
    return Trial({"H_prime2": x, **w}, {"F": torch.stack(rows)}, {"n": 3})


def mixtral(zoo: SimpleNamespace) -> tuple[Any, torch.Tensor, Tensors]:
    """The experts of a Mixtral, what they get, and their matrices."""
    config = zoo.mixtral.MixtralConfig(hidden_size=WIDTH, intermediate_size=13, num_local_experts=7,
                                       num_experts_per_tok=3)
    part, x = spiced(zoo.mixtral.MixtralSparseMoeBlock(config).double()), normal(STEPS, WIDTH)
    return part, x, {"H_prime2": x, **experts(part.experts, part.gate.weight)}


def swiglu_experts(zoo: SimpleNamespace) -> Trial:
    part, x, inputs = mixtral(zoo)
    return Trial(inputs, {"F": part(x[None])[0].detach()}, {"n": 3})


def shared_expert(zoo: SimpleNamespace) -> Trial:
    """The feed-forward of a Llama beside the experts of a Mixtral."""
    part, x, inputs = mixtral(zoo)
    config = zoo.LlamaConfig(hidden_size=WIDTH, intermediate_size=9, num_attention_heads=HEADS)
    beside = spiced(zoo.llama.LlamaMLP(config).double(), seed=1)
    return Trial({**inputs, **shared_matrices(beside)}, {"F": (part(x[None])[0] + beside(x)).detach()}, {"n": 3})


def shared_matrices(mlp: Any) -> Tensors:
    return {f"W_{n}_s": getattr(mlp, f"{name}_proj").weight.detach().T
            for n, name in ((1, "gate"), (2, "down"), (3, "up"))}


def grouped_experts(zoo: SimpleNamespace) -> Trial:
    """DeepSeek-V3: 2 of 4 groups of 3 experts, of which 4."""
    config = zoo.deepseek.DeepseekV3Config(
        hidden_size=WIDTH, moe_intermediate_size=13, num_local_experts=12, n_routed_experts=12, num_experts_per_tok=4,
        n_group=4,
        topk_group=2, n_shared_experts=2, routed_scaling_factor=2.5, norm_topk_prob=True)
    part, x = spiced(zoo.deepseek.DeepseekV3MoE(config).double()), normal(STEPS, WIDTH)
    bias = part.gate.e_score_correction_bias.copy_(0.3 * normal(12)).detach()
    inputs = {"H_prime2": x, **experts(part.experts, part.gate.weight), **shared_matrices(part.shared_experts),
              "b": bias,
              "alpha": torch.tensor(2.5, dtype=torch.float64)}
    return Trial(inputs, {"F": part(x[None])[0].detach()}, {"n": 4, "m": 2, "N": 4})


def balance(zoo: SimpleNamespace) -> Trial:
    _part, x, inputs = mixtral(zoo)
    want = zoo.mixtral.load_balancing_loss_func((x @ inputs["W_gate"],), 7, 3)
    return Trial({name: inputs[name] for name in ("H_prime2", "W_gate")}, {"L_cal": want}, {"n": 3})


def indexing(zoo: SimpleNamespace, queries: int) -> Any:
    """The indexer of a DeepSeek-V3.2 whose features turn for nobody, without a norm of its keys."""
    config = zoo.sparse.DeepseekV32Config(
        hidden_size=WIDTH, q_lora_rank=queries, index_n_heads=16, index_head_dim=HEAD, index_topk=4, qk_rope_head_dim=0)
    part = spiced(zoo.sparse.DeepseekV32Indexer(config, 0).double())
    part.k_norm = nn.Identity()
    return part


def future() -> torch.Tensor:
    return torch.zeros(1, STEPS, STEPS).masked_fill(torch.ones(STEPS, STEPS).triu(1).bool(), -torch.inf)


def found_by(part: Any, x: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """The matrices of an indexer, and what it finds of what is past."""
    none = normal(1, STEPS, 0)
    places = part(x[None], x[None], (none, none), future(), None).long()
    chosen = torch.zeros(STEPS, STEPS).scatter(1, places[0], 1).tril()
    turn = torch.linalg.qr(normal(HEAD, HEAD))[0]
    return {"W_Q_I": heads(part.wq_b.weight), "W_K_I": part.wk.weight.detach().T,
            "W_I": part.weights_proj.weight.detach(),
            "U": turn}, chosen


def indexer(zoo: SimpleNamespace) -> Trial:
    x = normal(STEPS, WIDTH)
    inputs, chosen = found_by(indexing(zoo, WIDTH), x)
    return Trial({"X": x, **inputs}, {"S": chosen}, {"n": 4})


def sparse(zoo: SimpleNamespace) -> Trial:
    """The attention of a Llama given what an indexer finds as its mask."""
    model = decoder(zoo, "Llama", HEADS)
    part, x = model.layers[0].self_attn, normal(STEPS, WIDTH)
    inputs, chosen = found_by(indexing(zoo, WIDTH), x)
    mask = torch.zeros(STEPS, STEPS).masked_fill(chosen == 0, -torch.inf)
    with torch.no_grad():
        output, *_ = part(x[None], model.rotary_emb(x[None], torch.arange(STEPS)[None]), mask[None, None])
    return Trial({"X": x, **inputs, **weights(part, paired=True)}, {"A": output[0]}, {"n": 4})


def deepseek_sparse(zoo: SimpleNamespace, count: int = 4) -> Trial:
    """The whole of it; the indexer of transformers turns halves, which are laid in pairs here."""
    turned, narrow = 6, 7
    config = zoo.sparse.DeepseekV32Config(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS, q_lora_rank=narrow, kv_lora_rank=5,
        qk_nope_head_dim=HEAD, qk_rope_head_dim=turned, v_head_dim=HEAD, attn_implementation="sdpa", index_n_heads=16,
        index_head_dim=turned + 4, index_topk=count)
    part = spiced(zoo.sparse.DeepseekV32Attention(config, 0).double(), biases=0.3)
    part.indexer.k_norm.eps = 1e-5
    x = normal(STEPS, WIDTH)
    angles = zoo.sparse.DeepseekV32RotaryEmbedding(config)(x, torch.arange(STEPS)[None])
    with torch.no_grad():
        output, *_ = part(hidden_states=x[None], position_embeddings=angles, attention_mask=future()[None])

    def pairs(weight: torch.Tensor) -> torch.Tensor:
        return torch.cat([paired(weight[..., :turned]), weight[..., turned:]], -1)

    own = part.indexer
    inputs = {"X": x, **latent_matrices(part, turned), "gamma_Q": part.q_a_layernorm.weight.detach(),
              "gamma_KV": part.kv_a_layernorm.weight.detach(),
              "W_Q_I": pairs(own.wq_b.weight.detach().unflatten(0, (16, -1)).transpose(1, 2)),
              "W_K_I": pairs(own.wk.weight.detach().T), "W_I": own.weights_proj.weight.detach(),
              "gamma_I": pairs(own.k_norm.weight.detach()), "beta_I": pairs(own.k_norm.bias.detach())}
    return Trial(inputs, {"A": output[0]}, {"n": count})


# the systems of the papers: whole layers, and positions


def paired(weight: torch.Tensor) -> torch.Tensor:
    """The last axis with its halves laid side by side in pairs."""
    return weight.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


def given_to(inputs: dict[Any, Any]) -> torch.Tensor:
    hidden: torch.Tensor = inputs[0] if 0 in inputs else inputs["hidden_states"]
    return hidden


def neox(zoo: SimpleNamespace, part: str, act: str = "gelu",
         share: float = 1.0) -> tuple[Any, dict[Any, Any], Any, Tensors]:
    """A GPT-NeoX with norms and feed-forward one after the other; what its layer gets and
    gives, and its projections."""
    config = zoo.GPTNeoXConfig(
        vocab_size=50, hidden_size=HEADS * HEAD, intermediate_size=32, num_hidden_layers=1, num_attention_heads=HEADS,
        hidden_act=act, attention_bias=False, use_parallel_residual=False, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": share})
    model = spiced(zoo.GPTNeoXModel(config).double())
    layer = model.layers[0]
    given, output = captured(model, layer if part == "layer" else layer.attention, input_ids=ids(), use_cache=False)
    q, k, v = layer.attention.query_key_value.weight.detach().unflatten(0, (HEADS, 3, HEAD)).transpose(2, 3).unbind(1)
    o = layer.attention.dense.weight.detach().T.unflatten(0, (HEADS, HEAD))
    return layer, given, output, {"W_Q": q, "W_K": k, "W_V": v, "W_O": o}


def preblock(zoo: SimpleNamespace, act: str) -> Trial:
    """The layer of a GPT-NeoX that turns all features, in pairs."""
    layer, given, output, weights = neox(zoo, "layer", act)
    weights |= {name: paired(weights[name]) for name in ("W_Q", "W_K")}
    norms = {f"{name}_{n}": getattr(part, kind).detach() for name, kind in (("gamma", "weight"), ("beta", "bias"))
             for n, part in ((1, layer.input_layernorm), (2, layer.post_attention_layernorm))}
    up, down = layer.mlp.dense_h_to_4h.weight.detach().T, layer.mlp.dense_4h_to_h.weight.detach().T
    return Trial({"H": given_to(given)[0], **weights, **norms, "W_1": up, "W_2": down}, {"H_out": output[0]})


def partial(zoo: SimpleNamespace) -> Trial:
    """The attention of a GPT-NeoX that turns three quarters of the features, in its own halves."""
    _layer, given, (output, *_), weights = neox(zoo, "attention", share=0.75)
    return Trial({"X": given_to(given)[0], **weights}, {"A": output[0]}, {"d_k": 6, "d_c": HEAD - 6})


def swiglu(zoo: SimpleNamespace) -> Trial:
    """The layer of a Llama with grouped keys, in the pairs of the paper."""
    model = decoder(zoo, "Llama", KEYS)
    layer = model.layers[0]
    given, output = captured(model, layer, input_ids=ids(), use_cache=False)
    norms = {"gamma_1": layer.input_layernorm.weight.detach(),
             "gamma_2": layer.post_attention_layernorm.weight.detach()}
    mlp = {key: getattr(layer.mlp, name).weight.detach().T
           for key, name in (("W_1", "gate_proj"), ("W_2", "down_proj"), ("W_3", "up_proj"))}
    inputs = {"H": given_to(given)[0], **weights(layer.self_attn, paired=True), **norms, **mlp}
    return Trial(inputs, {"H_out": output[0]})


def gpt2(zoo: SimpleNamespace) -> Trial:
    """The layer of a GPT-2 with all its biases; its matrices are (in, out), so queries
    and keys need a larger spread."""
    config = zoo.GPT2Config(vocab_size=50, n_embd=HEADS * HEAD, n_layer=1, n_head=HEADS, n_inner=32,
                            attn_implementation="sdpa")
    model = spiced(zoo.GPT2Model(config).double(), biases=0.3)
    layer = model.h[0]
    with torch.no_grad():
        layer.attn.c_attn.weight *= 3**0.5
    given, output = captured(model, layer, input_ids=ids(2), use_cache=False)
    return Trial({"H": given_to(given), **block(layer)}, {"H_out": output})


def block(layer: Any) -> Tensors:
    """The parameters of a layer of GPT-2."""
    named = {"gamma_1": layer.ln_1.weight, "beta_1": layer.ln_1.bias, "gamma_2": layer.ln_2.weight,
             "beta_2": layer.ln_2.bias,
             "W_qkv": layer.attn.c_attn.weight, "b_qkv": layer.attn.c_attn.bias, "b_O": layer.attn.c_proj.bias,
             "W_O": layer.attn.c_proj.weight.unflatten(0, (HEADS, HEAD)), "W_1": layer.mlp.c_fc.weight,
             "b_1": layer.mlp.c_fc.bias, "W_2": layer.mlp.c_proj.weight, "b_2": layer.mlp.c_proj.bias}
    return {key: x.detach() for key, x in named.items()}


def stacked(layers: list[Tensors]) -> Tensors:
    """The same parameters of all layers, the layer as their first axis."""
    return {key: torch.stack([one[key] for one in layers]) for key in layers[0]}


def gpt2_lm(zoo: SimpleNamespace) -> Trial:
    """A whole GPT-2: its logits for two sequences."""
    config = zoo.GPT2Config(vocab_size=50, n_positions=STEPS, n_embd=HEADS * HEAD, n_layer=3, n_head=HEADS, n_inner=32,
                            attn_implementation="sdpa")
    model = spiced(zoo.GPT2LMHeadModel(config).double(), biases=0.3)
    body, tokens = model.transformer, ids(2)
    with torch.no_grad():
        for layer in body.h:
            layer.attn.c_attn.weight *= 3**0.5
        logits = model(input_ids=tokens, use_cache=False).logits
    ends = {"E": body.wte.weight, "P": body.wpe.weight, "gamma": body.ln_f.weight, "beta": body.ln_f.bias}
    inputs = {"w": tokens, **{key: x.detach() for key, x in ends.items()}, **stacked([block(x) for x in body.h])}
    return Trial(inputs, {"O": logits})


def llama_lm(zoo: SimpleNamespace) -> Trial:
    """A whole Llama: its logits for two sequences."""
    config = zoo.LlamaConfig(
        vocab_size=50, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=3, num_attention_heads=HEADS,
        num_key_value_heads=KEYS, head_dim=HEAD, attn_implementation="sdpa")
    model, tokens = spiced(zoo.LlamaForCausalLM(config).double()), ids(2)
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits
    layers = [{"gamma_1": x.input_layernorm.weight, "gamma_2": x.post_attention_layernorm.weight,
               **weights(x.self_attn, paired=False), "W_1": x.mlp.gate_proj.weight.T, "W_2": x.mlp.up_proj.weight.T,
               "W_3": x.mlp.down_proj.weight.T} for x in model.model.layers]
    ends = {"E": model.model.embed_tokens.weight, "gamma": model.model.norm.weight, "W_lm": model.lm_head.weight.T}
    inputs = {"w": tokens, **{key: x.detach() for key, x in {**ends, **stacked(layers)}.items()}}
    return Trial(inputs, {"O": logits})


def gpt2_attention(zoo: SimpleNamespace) -> Trial:
    """The attention of a GPT-2 with its biases, in evaluation."""
    config = zoo.GPT2Config(vocab_size=50, n_embd=HEADS * HEAD, n_layer=1, n_head=HEADS, attn_implementation="sdpa")
    model = spiced(zoo.GPT2Model(config).double(), biases=0.3)
    part = model.h[0].attn
    with torch.no_grad():
        part.c_attn.weight *= 3**0.5
    given, (output, *_) = captured(model, part, input_ids=ids(2), use_cache=False)
    named = {"W_qkv": part.c_attn.weight, "b_qkv": part.c_attn.bias, "b_O": part.c_proj.bias,
             "W_O": part.c_proj.weight.unflatten(0, (HEADS, HEAD))}
    numbers = {"p": torch.tensor(0.0, dtype=torch.float64), "seed": torch.tensor(5)}
    return Trial({"X": given_to(given), **{key: x.detach() for key, x in named.items()}, **numbers}, {"O": output})


def decoupled(zoo: SimpleNamespace, norms: bool) -> Trial:
    """DeepSeek-V3's attention, also without the norms of its latents, which the notes do not have."""
    turned, narrow = 6, 7
    config = zoo.deepseek.DeepseekV3Config(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS, q_lora_rank=narrow, kv_lora_rank=5,
        qk_nope_head_dim=HEAD, qk_rope_head_dim=turned, v_head_dim=HEAD, attn_implementation="sdpa")
    part = spiced(zoo.deepseek.DeepseekV3Attention(config, 0).double())
    scales = ({"gamma_Q": part.q_a_layernorm.weight.detach(), "gamma_KV": part.kv_a_layernorm.weight.detach()} if norms
              else {})
    if not norms:
        part.q_a_layernorm = part.kv_a_layernorm = nn.Identity()
    x = normal(STEPS, WIDTH)
    angles = zoo.deepseek.DeepseekV3RotaryEmbedding(config)(x, torch.arange(STEPS)[None])
    with torch.no_grad():
        output, *_ = part(hidden_states=x[None], position_embeddings=angles, attention_mask=None)
    inputs = {"X": x, **scales, **latent_matrices(part, turned)}
    return Trial(inputs, {"A": output[0]})


def latent_matrices(part: Any, turned: int) -> Tensors:
    """The projections of latent attention whose last features of queries turn."""
    q = part.q_b_proj.weight.detach().unflatten(0, (HEADS, -1)).transpose(1, 2)
    down, key = part.kv_a_proj_with_mqa.weight.detach().T.split((5, turned), -1)
    keys, values = part.kv_b_proj.weight.detach().unflatten(0, (HEADS, 2, HEAD)).transpose(2, 3).unbind(1)
    return {"W_DQ": part.q_a_proj.weight.detach().T, "W_UQ": q[..., :HEAD], "W_QR": q[..., HEAD:], "W_D": down,
            "W_UK": keys,
            "W_UV": values, "W_KR": key, "W_O": part.o_proj.weight.detach().T.unflatten(0, (HEADS, HEAD))}


def crossed(zoo: SimpleNamespace) -> Trial:
    """GPT-J's rotation of queries by t and of keys by u, then torch's own kernel."""
    x, memory = normal(STEPS, WIDTH), normal(7, WIDTH)
    q, k, v = (1.4 * normal(3, WIDTH, HEAD, seed=n) / WIDTH**0.5 for n in range(3))
    o = normal(3, HEAD, WIDTH)
    rotary = decoder(zoo, "Llama", KEYS).rotary_emb

    def turned(rows: torch.Tensor) -> torch.Tensor:
        angles = rotary(rows, torch.arange(rows.shape[1])[None])
        cos, sin = (part[..., : HEAD // 2] for part in angles)
        out: torch.Tensor = zoo.gptj.apply_rotary_pos_emb(rows, sin, cos)
        return out.transpose(1, 2)

    queries, keys = (turned(torch.einsum("tf,hfd->thd", *pair)[None]) for pair in ((x, q), (memory, k)))
    y = functional.scaled_dot_product_attention(queries, keys, (memory @ v)[None])[0]
    return Trial({"H_tilde": x, "E": memory, "W_Q_x": q, "W_K_x": k, "W_V_x": v, "W_O_x": o}, {"A_x": (y @ o).sum(0)})


def requested(_: SimpleNamespace) -> Trial:
    """Each request alone."""
    q, k, v = (x.transpose(1, 2) for x in qkv().values())
    alone = [functional.scaled_dot_product_attention(*(x[r].transpose(0, 1) for x in (q, k, v)), is_causal=True)
             for r in (0, 1)]
    return Trial({"Q": q, "K": k, "V": v}, {"Y": torch.stack(alone).transpose(1, 2)})


def packed(_: SimpleNamespace) -> Trial:
    """Each request alone, one after the other; some have no positions."""
    lengths = [STEPS // 3, 0, STEPS - 2 * (STEPS // 3), STEPS // 3, 0]
    q, k, v = (normal(STEPS, 3, HEAD, seed=n) for n in range(3))
    alone = [functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in one), is_causal=True).transpose(0, 1)
             for one in zip(*(x.split(lengths) for x in (q, k, v)), strict=True)]
    return Trial({"Q": q, "K": k, "V": v, "T": torch.tensor(lengths)}, {"Y": torch.cat(alone)})


def several_tokens(_: SimpleNamespace) -> Trial:
    """Heads one after the other; those for which no token is left count as 0."""
    x, w = normal(STEPS, 5), normal(3, 5, 9)
    tokens = torch.randint(0, 9, (STEPS,), generator=torch.Generator().manual_seed(0))
    losses = [functional.cross_entropy((x @ w[j - 1])[:-j], tokens[j:]) for j in (1, 2, 3) if j < STEPS]
    return Trial({"H_final": x, "w": tokens, "W_O": w}, {"L_cal": torch.stack([*losses, torch.zeros(())]).sum() / 3})


def pages(zoo: SimpleNamespace) -> Trial:
    """Position by position, over lists, of queries and keys that Llama turned."""
    trial = layer(zoo, "Llama", HEADS)
    x, size, before = trial.inputs, 4, 2
    turn = rotation(zoo).outputs["R"]
    q, k, v = (torch.einsum("tf,hfd->thd", x["X"], x[f"W_{name}"]) for name in "QKV")
    q, k = (torch.einsum("thd,tdk->thk", part, turn) for part in (q, k))
    rows = []
    for t in range(STEPS):
        seen = [s for s in range(STEPS) if max(t // size * size - before, 0) <= s <= t]
        p = functional.softmax(torch.einsum("hd,shd->hs", q[t], k[seen]) / HEAD**0.5, -1)
        rows.append(torch.einsum("hs,shd,hdf->f", p, v[seen], x["W_O"]))
    return Trial(x, {"A": torch.stack(rows)}, {"P": size, "N": before})


# the functions of torch


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
    return Trial({**x, **(more or {})},
                 {"Y": flex_attention(x["Q"], x["K"], x["V"], score_mod=score, block_mask=block)}, sizes)


def causal(_b: Any, _h: Any, t: Any, s: Any) -> Any:
    return s <= t


def documents(_: SimpleNamespace) -> Trial:
    doc = torch.tensor([1, 1, 1, 2, 2, 5, 5, 5, 5, 1, 1])
    return flex(lambda b, h, t, s: (s <= t) & (doc[t] == doc[s]), {"doc": doc})


def decode(_: SimpleNamespace) -> Trial:
    x = qkv(queries=4)
    return (Trial(x, {
        "Y": functional.scaled_dot_product_attention(x["Q"], x["K"], x["V"], attn_mask=causal_lower_right(4, STEPS))}))


def latest(_: SimpleNamespace) -> Trial:
    x = {name: tensor[0, 0] for name, tensor in qkv(queries=4).items()}
    q, k, v = (tensor[None, None] for tensor in x.values())
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(4, STEPS))
    return Trial(x, {"Y": y[0, 0]}, {"P": STEPS - 4})


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
    x, w, target = (normal(STEPS, 5), normal(5, 9),
                    torch.randint(0, 9, (STEPS,), generator=torch.Generator().manual_seed(0)))
    return Trial({"X": x, "W": w, "w": target + 1},
                 {"L_cal": functional.cross_entropy(x @ w, target, reduction="none")})


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
    return Trial({"X": x, "c": c},
                 {"y": torch.stack([torch.amin(x[: t + 1] @ x[t] + c[: t + 1]) for t in range(STEPS)])})


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
    y = torch.einsum("htd,htde->hte", q.exp(),
                     state) / torch.einsum("htd,htd->ht", q.exp(), torch.cumsum(k.exp(), 1))[..., None]
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
    "latest": latest,
    "attention_backward": backward,
    "linear_cross_entropy": cross_entropy,
    "softcap": lambda _: flex(causal, score=lambda x, b, h, t, s: 50 * torch.tanh(x / 50)),
    "prefix_lm": lambda _: flex(lambda b, h, t, s: (s <= t) | (s < 4), P=4),
    "documents": documents,
    "block_diagonal": lambda _: flex(lambda b, h, t, s: t // 4 == s // 4, W=4),
    "blocks_before": lambda _: flex(lambda b, h, t, s: (s + 1) * 2 <= t + 1, keys=7, B=2),
    "dilated": lambda _: flex(lambda b, h, t, s: (s <= t) & ((t - s) % 2 == 0) & (t - s < 6), W=3, D=2),
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
    **{name: lambda _, plain=plain: plain() for name, plain in PLAIN.items()},
}


def scaled(zoo: SimpleNamespace, ratio: float, given: bool = True, **more: Any) -> Trial:
    """Angles scaled by transformers' own rules, `linear` where no other is named."""
    trial = rotation(zoo, **{"rope_type": "linear", "factor": ratio, **more})
    return Trial({"alpha": torch.tensor(ratio, dtype=torch.float64)} if given else {}, trial.outputs, trial.sizes)


def deltas() -> Trial:
    """The logits of a language model of gated delta layers, by loops; `test_stacks` tries more of it."""
    inputs = stack_inputs(STEPS)
    return Trial(inputs, {"O": language_model(**inputs).detach()}, {})


def drawn(layer: Layer) -> Callable[[SimpleNamespace], Trial]:
    """A layer of specs/recurrent or a variant, of which test_recurrent.py and test_variants.py try more."""
    def trial(_: SimpleNamespace) -> Trial:
        inputs = layer.inputs(STEPS)
        return Trial(inputs, {layer.output: layer.result(**inputs).detach()}, layer.sizes(STEPS))
    return trial


PAPERS: dict[str, Callable[[SimpleNamespace], Trial]] = {
    "preblock": lambda zoo: preblock(zoo, "gelu"),
    "preblock_relu": lambda zoo: preblock(zoo, "relu"),
    "preblock_silu": lambda zoo: preblock(zoo, "silu"),
    "swiglu_block": swiglu,
    "gpt2_block": gpt2,
    "attention_dropout": gpt2_attention,
    "decoder_lm": gpt2_lm,
    "llama_lm": llama_lm,
    "gated_deltanet_lm": lambda zoo: deltas(),
    "requests": requested,
    "requests_packed": packed,
    "partial_rotary": partial,
    "yarn": lambda zoo: scaled(zoo, 2.5),
    "yarn_dynamic": lambda zoo: with_sizes(scaled(zoo, max(STEPS / 7, 1.0), given=False), L=7),
    "yarn_parts": lambda zoo: with_sizes(
        scaled(zoo, 2.5, rope_type="yarn", original_max_position_embeddings=1024), L=1024),
    "alibi_any_heads": lambda zoo: bloom(zoo, 6),
    "mtp": several_tokens,
    "cross_attention_rope": crossed,
    "mla_rope": lambda zoo: decoupled(zoo, norms=False),
    "deepseek_attention": lambda zoo: decoupled(zoo, norms=True),
    "paged_window": pages,
    "moe": mixture,
    "moe_swiglu": swiglu_experts,
    "moe_shared": shared_expert,
    "moe_balance": balance,
    "deepseek_moe": grouped_experts,
    "indexer": indexer,
    "sparse_attention": sparse,
    "deepseek_sparse": deepseek_sparse,
}
ORACLES |= PAPERS | {name: drawn(layer) for name, layer in {**LAYERS, **VARIANTS}.items()}


def with_sizes(trial: Trial, **sizes: int) -> Trial:
    return Trial(trial.inputs, trial.outputs, {**trial.sizes, **sizes})


def test_every_spec_has_an_oracle() -> None:
    assert {case.name for case in FILES} == set(ORACLES)


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.usefixtures("double")
def test_a_spec_is_what_others_compute(case: Case, zoo: SimpleNamespace) -> None:
    """By the interpreter: every text, in every run."""
    trial = ORACLES[case.name](zoo)
    meant = meaning(typed_of(case), {key: x.numpy() for key, x in trial.inputs.items()}, trial.sizes)
    assert set(trial.outputs) == set(meant)
    for name, want in trial.outputs.items():
        assert distance(meant[name], want.detach().numpy()) <= 1e-10, name


@each(FILES, {}, few=DRAWN)
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.usefixtures("double")
def test_a_module_is_what_others_compute(case: Case, zoo: SimpleNamespace) -> None:
    trial = ORACLES[case.name](zoo)
    inputs = {key: x.contiguous() for key, x in trial.inputs.items()}
    made = called(module_of(case), typed_of(case), inputs, trial.sizes)
    assert set(trial.outputs) == set(made)
    for name, want in trial.outputs.items():
        assert distance(made[name].numpy(), want.detach().numpy()) <= 1e-10, name


@pytest.mark.parametrize("steps", [STEPS, 1])
@each([case for case in FILES if case.name in PAPERS], {}, few=DRAWN)
def test_a_paper_in_single_precision_and_of_one_step(
    case: Case, steps: int, zoo: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One position in float64 by the interpreter and the module; any number in float32 by the module."""
    monkeypatch.setattr(sys.modules[__name__], "STEPS", steps)
    with doubled():
        trial = ORACLES[case.name](zoo)
    program = typed_of(case)
    meant = meaning(program, {key: x.numpy() for key, x in trial.inputs.items()}, trial.sizes)
    for kind, bound in ((torch.float64, 1e-10), (torch.float32, 2e-5)):
        inputs = {key: x.to(kind) if x.is_floating_point() else x for key, x in trial.inputs.items()}
        for name, got in called(module_of(case), program, inputs, trial.sizes).items():
            want = trial.outputs[name].detach().numpy()
            assert got.dtype == kind or not inputs
            assert distance(got.double().numpy(), want) <= bound, f"{name}, {kind}"
            assert distance(meant[name], want) <= 1e-10, f"interpreter: {name}"


@pytest.mark.usefixtures("double")
def test_slopes_for_every_number_of_heads(zoo: SimpleNamespace) -> None:
    text = 'use "alibi_any_heads"\nindex h : head(H)\noutput m_h'
    for count in range(1, 20):
        want = zoo.bloom.build_alibi_tensor(torch.ones(1, 2), count, torch.float64)[:, 0, 1]
        assert distance(meaning(typed(text), {}, {"H": count})["m"], want.numpy()) <= 1e-12


@pytest.mark.parametrize("steps", [3, 40, 5000, 10**6])
@pytest.mark.usefixtures("double")
def test_the_parts_of_yarn_at_other_lengths(zoo: SimpleNamespace, steps: int) -> None:
    """From a length within which nothing turns often to one within which almost all does."""
    trial = with_sizes(scaled(zoo, 4.0, rope_type="yarn", original_max_position_embeddings=steps), L=steps)
    program = typed_of(next(case for case in FILES if case.name == "yarn_parts"))
    meant = meaning(program, {key: x.numpy() for key, x in trial.inputs.items()}, trial.sizes)
    assert distance(meant["R"], trial.outputs["R"].numpy()) <= 1e-10


@pytest.mark.usefixtures("double")
def test_a_layer_turns_by_what_is_used_beside_it(zoo: SimpleNamespace) -> None:
    """Two lines make the attention of a Llama with YaRN."""
    rope = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.5, "original_max_position_embeddings": 1024}
    trial = layer(zoo, "Llama", HEADS, rope_parameters=rope)
    inputs = {**{key: x.numpy() for key, x in trial.inputs.items()}, "alpha": np.asarray(2.5)}
    meant = meaning(typed('use "attention"\nuse "yarn_parts"'), inputs, {"L": 1024})
    assert distance(meant["A"], trial.outputs["A"].numpy()) <= 1e-10


@pytest.mark.usefixtures("double")
def test_the_cross_attention_of_a_bart(zoo: SimpleNamespace) -> None:
    part = spiced(module("bart").BartAttention(WIDTH, WIDTH // HEAD, config=zoo.BartConfig(attn_implementation="sdpa")))
    x, memory = normal(STEPS, WIDTH), normal(7, WIDTH)
    with torch.no_grad():
        want, *_ = part(x[None], key_value_states=memory[None])
    named = {f"W_{name.upper()}_x": heads(getattr(part, f"{name}_proj").weight) for name in "qkv"}
    out = part.out_proj.weight.detach().T.unflatten(0, (-1, HEAD))
    inputs = {"H_tilde": x, "E": memory, **named, "W_O_x": out}
    case = next(case for case in FILES if case.name == "cross_attention")
    got = called(module_of(case), typed_of(case), inputs, {})
    assert distance(got["A_x"].numpy(), want[0].numpy()) <= 1e-10


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
    command = ["run", str(SPECS / "llama_attention.ein"), "--data", str(data), "-o", str(out), "--verify", "--repeat",
               "1"]
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
