"""Specs as the attention of models of transformers: outputs, gradients and tokens as its
own, and nothing that is dropped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from einc.errors.report import EincError

sys.modules.setdefault("fla", None)  # type: ignore[arg-type]  # it would replace some layers by kernels for a GPU
theirs = pytest.importorskip("transformers", reason="the integration is with transformers, of the extra `test`")
from test_oracles import spiced  # noqa: E402

from einc.driver.integrations.transformers import register  # noqa: E402

VOCABULARY, WIDTH, LENGTH = 50, 48, 11
SMALL = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 6,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": None,
         "pad_token_id": 0}
LATENT = {"num_key_value_heads": 6, "q_lora_rank": 20, "kv_lora_rank": 16, "qk_nope_head_dim": 12,
          "qk_rope_head_dim": 8,
          "v_head_dim": 10, "n_routed_experts": 4, "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1}
WINDOW = 'use "gqa"\ndim W\noverride mask L_{t s}^{(h)} : s ∈ (t - W, t]'
SLOPES = 'use "gqa"\nm_h = 2^{-8 h / H}\noverride L_{t s}^{(h)} = 1/√d_k Q_hat_{t h}^k K_hat_{s, π(h)}_k - m_h (t - s)'
CAPPED = 'use "gqa"\ninput c\noverride L_{t s}^{(h)} = softcap(1/√d_k Q_hat_{t h}^k K_hat_{s, π(h)}_k, c)'
SINKS = f'{WINDOW}\nweight sink_h\noverride A_{{t s}}^{{(h)}} = softmax_sink_s(L_{{t s}}^{{(h)}}, sink_h)'
PLACED = f'{WINDOW}\noverride L_{{t s}}^{{(h)}} = 1/√d_k log(t) Q_hat_{{t h}}^k K_hat_{{s, π(h)}}_k'
MODELS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "llama": ("Llama", {}, "gqa", {}),
    "llama, no groups": ("Llama", {"num_key_value_heads": 6}, "attention", {}),
    "llama, heads repeated": ("Llama", {}, "attention", {}),
    "mistral": ("Mistral", {"sliding_window": 4}, WINDOW, {"W": "sliding_window"}),
    "mistral, a number": ("Mistral", {"sliding_window": 4}, WINDOW, {"W": 4}),
    "mistral, all positions": ("Mistral", {"sliding_window": None}, WINDOW, {"W": "sliding_window"}),
    "deepseek": ("DeepseekV3", LATENT, "deepseek_attention", {}),
}
ids = torch.randint(2, VOCABULARY, (3, LENGTH), generator=torch.Generator().manual_seed(3))
LEFT, RIGHT = torch.ones_like(ids), torch.ones_like(ids)
LEFT[0, :4], LEFT[2, :1], RIGHT[0, -3:], RIGHT[1, -5:] = 0, 0, 0, 0


def model_of(kind: str, **more: Any) -> Any:
    config = getattr(theirs, f"{kind}Config")(**SMALL | more)
    return spiced(getattr(theirs, f"{kind}For{'MaskedLM' if kind == 'Bert' else 'CausalLM'}")(config).double())


@pytest.fixture(scope="module", params=MODELS)
def trial(request: pytest.FixtureRequest) -> SimpleNamespace:
    kind, more, spec, given = MODELS[request.param]
    register(spec, f"einc {request.param}", **given)
    return SimpleNamespace(model=model_of(kind, **more), name=f"einc {request.param}")


def ran(trial: SimpleNamespace, what: Callable[[Any], torch.Tensor],
        oracle: str = "sdpa") -> tuple[torch.Tensor, torch.Tensor]:
    """What a model does with its own attention, and with the spec's."""
    out = []
    for name in (oracle, trial.name):
        trial.model.set_attn_implementation(name)
        out.append(what(trial.model))
    return out[0], out[1]


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Norms and angles of these models are computed in float32, whatever the weights are."""
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("present", [None, LEFT, RIGHT], ids=["whole", "left", "right"])
@torch.no_grad()
def test_a_model_gives_what_it_gave(trial: SimpleNamespace, present: torch.Tensor | None) -> None:
    want, got = ran(trial, lambda model: model(ids, attention_mask=present).logits)
    there = torch.ones_like(ids) if present is None else present
    assert close(got[there == 1], want[there == 1]) and bool(got.isfinite().all())


@pytest.mark.drawn(3)
def test_gradients_are_its_own(trial: SimpleNamespace) -> None:
    def step(model: Any) -> torch.Tensor:
        model.zero_grad()
        model(ids, attention_mask=LEFT, labels=ids.masked_fill(LEFT == 0, -100)).loss.backward()
        return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])

    want, got = ran(trial, step)
    assert close(got, want) and bool(want.abs().max() > 0.1)


@torch.no_grad()
def test_the_same_tokens_are_generated(trial: SimpleNamespace) -> None:
    want, got = ran(trial, lambda model: model.generate(ids, attention_mask=LEFT, max_new_tokens=9, do_sample=False))
    assert torch.equal(got, want) and len(set(got[:, LENGTH:].flatten().tolist())) > 2


@torch.no_grad()
def test_another_kernel_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    register("gqa", "einc sabotaged")
    kernel = theirs.AttentionInterface()["einc sabotaged"].__self__
    trial = SimpleNamespace(model=model_of("Llama"), name="einc sabotaged")
    right = kernel.function
    monkeypatch.setattr(kernel, "function",
                        lambda *how: lambda **given: right(*how)(**given | {"V": given["V"].roll(1, 1)}))
    want, got = ran(trial, lambda model: model(ids, attention_mask=RIGHT).logits)
    assert not close(got[RIGHT == 1], want[RIGHT == 1])


LONE = """index t, s : time(T)
index k, d : feature(D), feature(E)
input Q_t^k, K_s^k, V_s^d
mask L_{t s} : s ≤ t
L_{t s} = Q_t^k K_{s k}
output Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d"""
SHARED = """index t, s : time(T)
index h : head(H)
index k, d : latent(r), feature(D)
input Q_{h t}^k, K_s^k, V_s^d
mask L_{h t s} : s ≤ t
L_{h t s} = (Q_{h t}^k K_{s k}) / 3
output Y_{t h}^d = Σ_s softmax_s(2 L_{h t s}) V_s^d"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("spec", "heads"), [("sdpa", 4), ("sdpa", 2), (LONE, 2), (LONE, 4), (SHARED, 1)])
def test_axes_heads_and_scales_are_the_models(spec: str, heads: int) -> None:
    """Whatever the order of a spec's axes, whether it has heads, and whatever it multiplies by itself."""
    register(spec, "einc laid")
    attend, draw = theirs.AttentionInterface()["einc laid"], torch.Generator().manual_seed(1)
    given = [torch.randn(3, n, t, d, generator=draw, dtype=torch.float64, requires_grad=True)
             for n, t, d in ((4, 3, 8), (heads, 7, 8), (heads, 7, 8 if spec == "sdpa" else 5))]
    for scaling, first in ((None, (0, 0, 0)), (0.3, (0, 0, 0)), (0.3, (0, 2, 6))):
        there = torch.arange(7) >= torch.tensor(first)[:, None]
        got, _ = attend(torch.nn.Module(), *given, there if any(first) else None, scaling=scaling)
        seen = torch.ones(3, 7, dtype=torch.bool).tril(4) & there[:, None, None]
        want = (torch.nn.functional.scaled_dot_product_attention(
            *given, seen, scale=scaling, enable_gqa=True).transpose(1, 2))
        whole = seen.any(-1).expand(3, 4, 3).transpose(1, 2)
        assert torch.allclose(got[whole], want[whole]) and bool((got[~whole] == 0).all())
        gradients = [torch.autograd.grad(y[whole].square().sum(), given) for y in (got, want)]
        assert all(torch.allclose(a, b) for a, b in zip(*gradients, strict=True))


@torch.no_grad()
def test_halves_stay_halves() -> None:
    register("gqa", "einc halves")
    trial = SimpleNamespace(model=model_of("Llama").bfloat16(), name="einc halves")
    exact = model_of("Llama")(ids, attention_mask=RIGHT).logits
    want, got = ran(trial, lambda model: model(ids, attention_mask=RIGHT).logits)
    errors = [(x.double() - exact)[RIGHT == 1].square().mean().sqrt() for x in (got, want)]
    assert got.dtype == torch.bfloat16 and errors[0] <= 1.2 * errors[1]


def test_torch_compiles_a_layer_as_one_graph() -> None:
    """Of a model, all but what compares masks."""
    register("gqa", "einc compiled")
    attend = theirs.AttentionInterface()["einc compiled"]
    attend.__self__.function(True, True)
    draw = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(3, n, 7, 8, generator=draw, requires_grad=True) for n in (4, 2, 2))
    there = torch.arange(7) >= torch.tensor([0, 2, 6])[:, None]
    traced = torch.compile(lambda *given: attend(torch.nn.Module(), *given, scaling=0.5)[0], backend="eager",
                           fullgraph=True)
    want, got = attend(torch.nn.Module(), q, k, v, there, scaling=0.5)[0], traced(q, k, v, there)
    gradients = [torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (got, want)]
    assert torch.allclose(got, want, atol=1e-6) and all(torch.allclose(a, b, atol=1e-5)
                                                        for a, b in zip(*gradients, strict=True))


# what a model says besides


def test_a_bias_is_that_of_the_spec() -> None:
    """Slopes as in a Bloom on the body of a Llama, beside its own attention with the same numbers added."""
    register(SLOPES, "einc slopes")
    trial = SimpleNamespace(model=model_of("Llama"), name="einc slopes")
    slopes = 2.0 ** (-8 * torch.arange(1, 7, dtype=torch.float64) / 6)
    distance = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).double()
    seen = (distance >= 0) & (LEFT[:, None, None] == 1)
    bias = torch.where(seen, -slopes[:, None, None] * distance, torch.finfo(torch.float64).min)
    biased = {"sdpa": bias, "einc slopes": LEFT}
    with torch.no_grad():
        want, got = ran(trial, lambda model: model(ids, attention_mask=biased[model.config._attn_implementation],
                                                   position_ids=torch.arange(LENGTH)[None]).logits)
    assert close(got[LEFT == 1], want[LEFT == 1])


@pytest.mark.parametrize(("kind", "more", "spec", "given"), [
    ("Gemma2",
     {"head_dim": 8, "query_pre_attn_scalar": 20, "layer_types": ["full_attention"] * 2, "attn_logit_softcapping": 2.0},
     CAPPED, {"c": "softcap"}),
    ("GptOss", {"head_dim": 8, "num_local_experts": 4, "sliding_window": 3}, SINKS,
     {"sink": "s_aux", "W": "sliding_window"}),
    ("Gemma2", {"head_dim": 8, "query_pre_attn_scalar": 20, "sliding_window": 3, "attn_logit_softcapping": None},
     WINDOW,
     {"W": "sliding_window"}),
], ids=["caps", "sinks and windows", "windows in every second layer"])
def test_what_a_model_says_goes_where_register_says(kind: str, more: dict[str, Any], spec: str,
                                                    given: dict[str, Any]) -> None:
    register(spec, "einc told", **given)
    trial = SimpleNamespace(model=model_of(kind, **more).float(), name="einc told")

    def step(model: Any) -> torch.Tensor:
        model.zero_grad()
        logits = model(ids, attention_mask=RIGHT).logits[RIGHT == 1]
        logits.square().mean().backward()
        return torch.cat([logits.flatten(), *(w.grad.flatten() for w in model.parameters() if w.grad is not None)])

    want, got = ran(trial, step, "eager")
    assert torch.allclose(got, want, rtol=1e-3, atol=1e-4)


LLAMA, SPEC = ("Llama", {}), ("gqa", {})


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("model", "spec", "call", "said"), [
    (("Llama", {"attention_dropout": 0.1}), SPEC, lambda m: m.train()(ids),
     "the model drops weights by chance (`dropout`)"),
    (("Gemma2", {"head_dim": 8}), SPEC, lambda m: m(ids), "the model caps its logits (`softcap`)"),
    (("GptOss", {"head_dim": 8, "num_local_experts": 4, "sliding_window": 64}), SPEC, lambda m: m(ids),
     "the model adds sinks (`s_aux`)"),
    (("Mistral", {"sliding_window": 4}), SPEC, lambda m: m(ids),
     "in the model position 5 does not read position 1, and `gqa` does"),
    (("Mistral", {"sliding_window": 4}), (WINDOW, {"W": 3}), lambda m: m(ids),
     "in the model position 4 reads position 1, and"),
    (LLAMA, (WINDOW, {"W": 3}), lambda m: m(ids), "in the model position 4 reads position 1, and"),
    (LLAMA, (WINDOW, {"W": "windows"}), lambda m: m(ids), "the model has no `windows`, which `W` was to be"),
    (LLAMA, SPEC, lambda m: m(ids, attention_mask=torch.ones(3, 1, LENGTH, LENGTH).tril() - 1),
     "the model's mask is a tensor of shape (3, 1, 11, 11)"),
    (LLAMA, SPEC, lambda m: m(ids, attention_mask=LEFT[:, 3:]),
     "the model's padding has shape (3, 8) for 11 positions"),
    (LLAMA, SPEC, lambda m: m(ids, position_ids=(torch.arange(LENGTH) % 4)[None], use_cache=False),
     "in the model position 5 does not read position 1"),
    (LLAMA, SPEC, lambda m: m(ids, output_attentions=True), "the model asks for the weights"),
    (LLAMA, ("gallery/log_n", {"c": 1}), lambda m: m(ids, attention_mask=LEFT), "the model has padding before a text"),
    (("Mistral", {"sliding_window": 4}), (PLACED, {"W": 4}), lambda m: m.generate(ids, max_new_tokens=3),
     "positions of its past, and `text` counts from the first one"),
    (("Bert", {}), SPEC, lambda m: m(ids), "in the model position 1 reads position 2"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_what_the_spec_has_not_is_refused(model: Any, spec: Any, call: Callable[[Any], Any], said: str) -> None:
    kind, more = model
    register(spec[0], "einc refusing", **spec[1])
    body = model_of(kind, **more)
    body.set_attn_implementation("einc refusing")
    with pytest.raises(EincError) as told:
        call(body)
    assert said in str(told.value) and "help: " in str(told.value)


@pytest.mark.parametrize(("spec", "given", "said"), [
    ("gqa", {"W": 4}, "`gqa` asks for no `W`"),
    ("sliding_window", {}, "`sliding_window` asks for `W`"),
    ("not_attention/swiglu", {}, "no position of `swiglu` reads another"),
    ("llama_lm", {}, "`llama_lm` has rounds"),
    ("gallery/perceiver", {}, "positions"),
    ("no_such_spec", {}, "cannot read"),
    ("gallery/differential", {}, "has 2 results that read the past"),
])
def test_a_spec_without_such_a_part_is_refused(spec: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(EincError) as told:
        register(spec, "einc refused", **given)
    assert said in str(told.value) and "help: " in str(told.value)
