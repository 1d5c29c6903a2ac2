"""Whole models of transformers with mechanisms that they do not have, each beside the model's own eager attention with
the same term: in float64, with padding, gradients, caches of both kinds and `torch.compile`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

sys.modules.setdefault("fla", None)  # type: ignore[arg-type]  # it would replace some layers by kernels for a GPU
theirs = pytest.importorskip("transformers", reason="the integration is with transformers, of the extra `test`")
from test_oracles import spiced  # noqa: E402
from test_transformers import LEFT, LENGTH, RIGHT, SMALL, ids, model_of  # noqa: E402

from einc.driver.integrations.transformers import register  # noqa: E402

HEADS = 6
MODELS: dict[str, dict[str, Any]] = {
    "Llama": {}, "Qwen3": {"head_dim": 8}, "GPT2": {"n_embd": 48, "n_head": HEADS, "n_layer": 2, "n_positions": 64,
             "num_key_value_heads": HEADS},
    "Gemma2": {"head_dim": 8, "query_pre_attn_scalar": 20, "layer_types": ["full_attention"] * 2,
               "attn_logit_softcapping": 2.0}}
LOGIT = "1/√d_k Q_hat_{t h}^k K_hat_{s, π(h)}_k"


@dataclass(frozen=True)
class Kind:
    """A mechanism: its lines beside `gqa` with `LOGITS` in place of the logits, what `register` is told, and the term
    that it adds to the logits, of a layer, what the model is passed, and how far apart positions are; `passed` is what
    the model is passed.
    """

    lines: str
    told: dict[str, str]
    term: Callable[[Any, dict[str, Any], Tensor], Tensor]
    passed: dict[str, Tensor]


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(8), dtype=torch.float64)


DOCUMENTS = torch.arange(LENGTH)[None].expand(3, -1) // torch.tensor([3, 4, 6])[:, None]
KINDS = {
    "slopes": Kind("weight m_h\noverride L_{t s}^{(h)} = LOGITS - m_h (t - s)", {"m": "slopes"},
                   lambda layer, _, apart: -layer.slopes[:, None, None] * apart, {}),
    "logits and slopes of a learned decay": Kind(
        "weight m_h, r_h\noverride L_{t s}^{(h)} = LOGITS - m_h^2 log(1 + r_h^2 (t - s))",
        {"m": "slopes", "r": "rates"}, lambda layer, _, apart: -layer.slopes[:, None, None] ** 2 * torch.log1p(
            layer.rates[:, None, None] ** 2 * apart.clamp(min=0)), {}),
    "a bias of keys": Kind("input b_s\noverride L_{t s}^{(h)} = LOGITS + b_s", {"b": "key_bias"},
                           lambda _, passed, apart: passed["key_bias"][:, None, None], {"key_bias": draw(3, LENGTH)}),
    "documents": Kind(
        "input doc_t : int\nmask L_{t s}^{(h)} : doc_t = doc_s\noverride L_{t s}^{(h)} = LOGITS", {"doc": "documents"},
        lambda _, passed, apart: torch.where(
            (passed["documents"][:, :, None] == passed["documents"][:, None])[:, None], 0.0, -torch.inf),
        {"documents": DOCUMENTS}),
}


def theirs_of(name: str) -> Any:
    """The eager attention of a model's own file."""
    return import_module(f"transformers.models.{name.lower()}.modeling_{name.lower()}").eager_attention_forward


def made(name: str) -> Any:
    """A model in float64, norms too, whose layers have slopes and rates of heads."""
    if name == "GPT2":
        model = spiced(theirs.GPT2LMHeadModel(theirs.GPT2Config(**SMALL | MODELS[name])).double())
    else:
        model = model_of(name, **MODELS[name])
    for module in list(model.modules()):
        for key, child in list(module.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                norm = torch.nn.RMSNorm(child.weight.shape, child_eps(child), dtype=torch.float64)
                setattr(module, key, norm)
    for number, layer in enumerate(x for x in model.modules() if type(x).__name__.endswith("Attention")):
        for key in ("slopes", "rates"):
            setattr(layer, key, torch.nn.Parameter(draw(HEADS).abs() / (1 + number)))
    return model.eval()


def child_eps(norm: Any) -> float:
    """The number that a norm adds, by either of its names."""
    return float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6)))


def prepared(name: str, kind: Kind) -> Any:
    """The model, with the mechanism under both names."""
    capped = MODELS[name].get("attn_logit_softcapping")
    logits = f"softcap({LOGIT}, c)" if capped else LOGIT
    text = 'use "gqa"\n' + "input c\n" * bool(capped) + kind.lines.replace("LOGITS", logits)
    register(text, "einc mechanism", **kind.told, **({"c": "softcap"} if capped else {}))
    own = theirs_of(name)

    def eager(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **told: Any) -> Any:
        last = (attention_mask == 0).int().mul(torch.arange(1, key.shape[2] + 1)).argmax(-1)
        apart = last[..., None] - torch.arange(key.shape[2])
        mask = attention_mask + kind.term(module, told, apart)
        with patch.object(torch.nn.functional, "softmax", lambda x, dim, dtype=None: x.softmax(dim)):  # not in float32
            return own(module, query, key, value, mask.clamp(min=torch.finfo(mask.dtype).min), **told)

    theirs.AttentionInterface.register("own mechanism", eager)
    theirs.AttentionMaskInterface.register("own mechanism", theirs.AttentionMaskInterface()["eager"])
    return made(name)


def stepped(model: Any, present: Tensor | None, kind: Kind, step: Any = None) -> Tensor:
    """Logits and all gradients."""
    model.zero_grad()
    there = torch.ones_like(ids) if present is None else present
    called = model if step is None else step
    logits = called(ids, attention_mask=present, use_cache=False, **kind.passed).logits[there == 1]
    logits.square().mean().backward()
    return torch.cat([logits.flatten(), *(w.grad.flatten() for w in model.parameters() if w.grad is not None)])


def both(model: Any, what: Callable[[Any], Tensor]) -> tuple[Tensor, Tensor]:
    """What a model does with its own attention and the term, and with the spec's."""
    out = []
    for name in ("own mechanism", "einc mechanism"):
        model.set_attn_implementation(name)
        out.append(what(model))
    return out[0], out[1]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_a_mechanism_is_its_own_with_the_term(name: str, kind: str) -> None:
    """Results and gradients of all weights, with and without padding, to 1e-10; and the term matters."""
    model = prepared(name, KINDS[kind])
    for present in (None, LEFT, RIGHT):
        want, got = both(model, lambda model, there=present: stepped(model, there, KINDS[kind]))
        assert torch.allclose(got, want, rtol=1e-10, atol=1e-10), (got - want).abs().max()
    model.set_attn_implementation("eager")
    assert not torch.allclose(model(ids, attention_mask=RIGHT).logits[RIGHT == 1], want[:int(RIGHT.sum()) * 50].reshape(
        -1, 50), atol=1e-4)


@pytest.mark.drawn(2)
@torch.no_grad()
@pytest.mark.parametrize("cache", [None, "static"], ids=["a cache that grows", "a cache of a fixed length"])
@pytest.mark.parametrize("kind", ["slopes", "logits and slopes of a learned decay"])
@pytest.mark.parametrize("name", MODELS)
def test_it_generates(name: str, kind: str, cache: str | None) -> None:
    def written(model: Any) -> Tensor:
        model.generation_config.cache_implementation = cache
        return model.generate(ids, attention_mask=LEFT, max_new_tokens=9, do_sample=False)  # type: ignore[no-any-return]

    want, got = both(prepared(name, KINDS[kind]), written)
    assert torch.equal(got, want) and len(set(got[:, LENGTH:].flatten().tolist())) > 2


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_torch_compiles_it_as_one_graph(name: str, kind: str) -> None:
    torch._dynamo.reset()
    model = prepared(name, KINDS[kind])
    want, _ = both(model, lambda model: stepped(model, LEFT, KINDS[kind]))
    got = stepped(model, LEFT, KINDS[kind], torch.compile(model, backend="aot_eager", fullgraph=True))
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-10)
