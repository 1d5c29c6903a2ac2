"""What a model of transformers gives besides queries, keys and values: gates, slopes, biases, documents, each found by
its indices; caches of a fixed length; whole models under `torch.compile`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from einc.errors.report import EincError

sys.modules.setdefault("fla", None)  # type: ignore[arg-type]  # it would replace some layers by kernels for a GPU
theirs = pytest.importorskip("transformers", reason="the integration is with transformers, of the extra `test`")
from test_transformers import LEFT, LENGTH, RIGHT, WIDTH, close, ids, model_of  # noqa: E402
from transformers.models.llama.modeling_llama import LlamaAttention, apply_rotary_pos_emb  # noqa: E402

from einc.driver.integrations.transformers import register  # noqa: E402

GATES = """use "gqa"
index u : time(T)
input f_{s h}
override L_{t s}^{(h)} = 1/√d_k Q_hat_{t h}^k K_hat_{s, π(h)}_k + Σ_{u ∈ (s, t]} f_{u h}"""
LOGIT = "override L_{t s}^{(h)} = 1/√d_k Q_hat_{t h}^k K_hat_{s, π(h)}_k"
BATCH, HEADS, GROUPS, KEYS = 3, 4, 2, 7


def falls(gates: Tensor, new: int) -> Tensor:
    """The sum of the gates of a head between a key and each of the last queries, by a loop."""
    count = gates.shape[1]
    out = gates.new_zeros(len(gates), gates.shape[2], new, count)
    for t in range(new):
        for s in range(count - new + t):
            out[:, :, t, s] = gates[:, s + 1:count - new + t + 1].sum(1)
    return out


SLOPES = f'use "gqa"\nweight m_h\n{LOGIT} - m_h (t - s)'
KINDS: dict[str, tuple[str, dict[str, str], dict[str, tuple[int, ...]], Callable[..., Tensor]]] = {
    "forget gates": (GATES, {}, {"f": (BATCH, KEYS, HEADS)}, lambda new, f: falls(f, new)),
    "slopes of heads": (SLOPES, {"m": "slopes"}, {"slopes": (HEADS,)}, lambda new, slopes: -slopes[:, None, None] * (
        torch.arange(KEYS - new, KEYS)[:, None] - torch.arange(KEYS))),
    "a bias of keys": (f'use "gqa"\ninput b_s\n{LOGIT} + b_s', {}, {"b": (BATCH, KEYS)},
                       lambda new, b: b[:, None, None]),
    "a bias of groups": (f'use "gqa"\ninput b_{{s g}}\n{LOGIT} + b_{{s, π(h)}}', {}, {"b": (BATCH, KEYS, GROUPS)},
                         lambda new, b: b.repeat_interleave(HEADS // GROUPS, 2).mT[:, :, None]),
    "a bias of groups where the spec has heads": (
        'use "sdpa"\ninput b_{n s h}\noverride L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n h s k} + b_{n s h}', {},
        {"b": (BATCH, KEYS, GROUPS)}, lambda new, b: b.repeat_interleave(HEADS // GROUPS, 2).mT[:, :, None]),
    "a number of queries": (f'use "gqa"\ninput a_{{t h}}, b_t\n{LOGIT} - (exp(a_{{t h}}) + b_t) (t - s)', {},
                            {"a": (BATCH, 3, HEADS), "b": (BATCH, 3)},
                            lambda new, a, b: -(a.mT.exp() + b[:, None])[..., None] * (
                                torch.arange(KEYS - new, KEYS)[:, None] - torch.arange(KEYS))),
    "biases of pairs": (f'use "gqa"\ninput b_{{h t s}}\n{LOGIT} + b_{{h t s}}', {}, {"b": (BATCH, HEADS, 3, KEYS)},
                        lambda new, b: b),
    "both": (f'{GATES} + c_s\ninput c_s', {"c": "falls_by"}, {"f": (BATCH, KEYS, HEADS), "falls_by": (BATCH, KEYS)},
             lambda new, f, falls_by: falls(f, new) + falls_by[:, None, None]),
}
DOCUMENTS = 'use "gqa"\ninput doc_t : int\nmask L_{t s}^{(h)} : doc_t = doc_s'
ONE_HEAD = """use "sdpa"
input f_{n h s}
override L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n h s k} + f_{n h s}"""


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def expected(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, seen: Tensor) -> Tensor:
    """Attention with a bias, by torch; rows of padding are left out by whoever compares."""
    mask = bias.expand(len(q), q.shape[1], q.shape[2], k.shape[2]).masked_fill(~seen, -torch.inf)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).transpose(1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_further_tensors_are_found_by_their_indices(kind: str) -> None:
    """Results and gradients, with and without padding, in a step of three queries after four keys."""
    spec, words, shapes, bias = KINDS[kind]
    register(spec, "einc further", **words)
    attend = theirs.AttentionInterface()["einc further"]
    q, k, v = drawn(BATCH, HEADS, 3, 8), drawn(BATCH, GROUPS, KEYS, 8, seed=2), drawn(BATCH, GROUPS, KEYS, 8, seed=3)
    further = {name: drawn(*shape, seed=4 + n) for n, (name, shape) in enumerate(shapes.items())}
    for first in ((0, 0, 0), (0, 2, 5)):
        there = torch.arange(KEYS) >= torch.tensor(first)[:, None]
        seen = torch.ones(BATCH, KEYS, dtype=torch.bool).tril(KEYS - 3)[:3] & there[:, None, None]
        made = {name: x * there[..., None] if name == "f" else x for name, x in further.items()}
        got, _ = attend(torch.nn.Module(), q, k, v, there if any(first) else None, **made)
        want = expected(q, k, v, bias(3, **made), seen)
        rows = seen.any(-1).expand(BATCH, HEADS, 3).transpose(1, 2)
        assert torch.allclose(got[rows], want[rows], rtol=1e-10, atol=1e-12)
        asked = [q, k, v, *further.values()]
        gradients = [torch.autograd.grad(y[rows].square().sum(), asked, retain_graph=True) for y in (got, want)]
        assert all(torch.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(*gradients, strict=True))


@torch.no_grad()
def test_whole_numbers_may_restrict_what_is_read() -> None:
    """Documents in one row: a number of each position, read as a query's and as a key's, of any type of whole numbers;
    the same for all rows where it has none of its own.
    """
    register(DOCUMENTS, "einc documents")
    attend = theirs.AttentionInterface()["einc documents"]
    q, k, v = drawn(BATCH, HEADS, 3, 8), drawn(BATCH, GROUPS, KEYS, 8, seed=2), drawn(BATCH, GROUPS, KEYS, 8, seed=3)
    documents = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 1], [4, 4, 4, 3, 3, 3, 3]])
    for given in (documents, documents[2], documents.int()):
        same = given[..., -3:, None] == given[..., None, :]
        seen = (torch.ones(3, KEYS, dtype=torch.bool).tril(KEYS - 3) & same).reshape(-1, 1, 3, KEYS)
        got, _ = attend(torch.nn.Module(), q, k, v, doc=given)
        assert torch.allclose(got, expected(q, k, v, torch.zeros(1, dtype=q.dtype), seen), rtol=1e-10, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("each", [True, False], ids=["one for each head", "one for all heads"])
def test_of_a_spec_of_one_head_every_head_is_a_row(each: bool) -> None:
    spec = """index t, s : time(T)
index k, d : feature(D), feature(E)
input Q_t^k, K_s^k, V_s^d, b_s
mask L_{t s} : s ≤ t
L_{t s} = Q_t^k K_{s k} + b_s
output Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d"""
    register(spec, "einc one head")
    attend = theirs.AttentionInterface()["einc one head"]
    q, k, v = drawn(BATCH, HEADS, 3, 8), drawn(BATCH, GROUPS, KEYS, 8, seed=2), drawn(BATCH, GROUPS, KEYS, 8, seed=3)
    bias = drawn(BATCH, *[HEADS] * each, KEYS, seed=4)
    got, _ = attend(torch.nn.Module(), q, k, v, b=bias)
    seen = torch.ones(3, KEYS, dtype=torch.bool).tril(KEYS - 3)
    want = expected(q, k, v, bias[:, :, None] if each else bias[:, None, None], seen)
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("given", "said"), [
    ({}, "the model passes no `f`, which `text` takes for its `f`"),
    ({"f": None}, "the model passes no `f`"),
    ({"f": drawn(BATCH, 3, HEADS)}, "it has one value for each key, those in the model's cache too"),
    ({"f": drawn(BATCH, HEADS, KEYS)},
     "`f` has the shape (3, 4, 7), and `text` takes [batch = 3, keys = 7, heads = 4]"),
    ({"f": drawn(KEYS)}, "`f` has the shape (7,), and `text` takes [batch = 3, keys = 7, heads = 4]"),
    ({"f": 1.0}, "`f` has the shape (), and"),
    ({"f": drawn(BATCH, KEYS, HEADS).float()}, "`f` holds torch.float32, and `text` takes torch.float64"),
    ({"f": drawn(BATCH, KEYS, HEADS), "slopes": drawn(HEADS)},
     "the model passes further numbers (`slopes`), and `text` does not take them"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_not_as_the_spec_says_is_refused(given: dict[str, Any], said: str) -> None:
    register(GATES, "einc refusing")
    attend = theirs.AttentionInterface()["einc refusing"]
    q, k, v = drawn(BATCH, HEADS, 3, 8), drawn(BATCH, GROUPS, KEYS, 8), drawn(BATCH, GROUPS, KEYS, 8)
    with pytest.raises(EincError) as told:
        attend(torch.nn.Module(), q, k, v, **given)
    assert said in str(told.value) and "help: " in str(told.value)


@pytest.mark.parametrize(("value", "said"), [
    ("x", "`forget_gate` of the model is 'x', which is no number, and `text` takes it for its `f`"),
    ([["x"]], "is no number"), ({"x": 1}, "is no number"),
])
def test_what_is_passed_for_a_tensor_and_is_no_number_is_refused(value: Any, said: str) -> None:
    register(GATES, "einc refusing", f="forget_gate")
    q, k = drawn(BATCH, HEADS, 3, 8), drawn(BATCH, GROUPS, KEYS, 8)
    with pytest.raises(EincError) as told:
        theirs.AttentionInterface()["einc refusing"](torch.nn.Module(), q, k, k, forget_gate=value)
    assert said in str(told.value) and "help: " in str(told.value)


@pytest.mark.parametrize(("value", "said"), [
    (3, "`f` is given as 3, and `text` takes [batch, keys, heads]"), (0.5, "`f` is given as 0.5"),
    ("", "`f` of `text` is given as '', which is neither a number nor a name"), (None, "given as None"),
    ([1.0], "neither a number nor a name"),
])
def test_what_register_is_given_for_a_tensor_is_one_or_its_name(value: Any, said: str) -> None:
    with pytest.raises(EincError) as told:
        register(GATES, "einc refusing", f=value)
    assert said in str(told.value) and "help: " in str(told.value)


# a model with gates


class Forgetful(LlamaAttention):  # type: ignore[misc]
    """The attention of a Llama with a forget gate for each key and head, which the cache keeps as columns of values."""

    def __init__(self, config: Any, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.forget = torch.nn.Linear(config.hidden_size, config.num_attention_heads)

    def forward(self, hidden_states: Tensor, position_embeddings: Any = None, attention_mask: Tensor | None = None,
                past_key_values: Any = None, **kwargs: Any) -> tuple[Tensor, None]:
        """The forward of a Llama's attention, with the gates beside its values."""
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q, k, v = (p(hidden_states).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        gates = torch.nn.functional.logsigmoid(self.forget(hidden_states))
        v = torch.cat([v, gates.unflatten(2, (v.shape[1], -1)).transpose(1, 2)], -1)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        gates = v[..., self.head_dim:].transpose(1, 2).flatten(2)
        attention = theirs.AttentionInterface().get_interface(self.config._attn_implementation, None)
        out, _ = attention(self, q, k, v[..., :self.head_dim], attention_mask, scaling=self.scaling, forget_gate=gates,
                           **kwargs)
        return self.o_proj(out.flatten(2)), None


def by_torch(module: Any, q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None = None, *,
             scaling: float, forget_gate: Tensor, **_: Any) -> tuple[Tensor, None]:
    """The same attention by torch, with a mask as transformers' `eager` has it."""
    assert attention_mask is not None
    real = attention_mask[:, :, -1:, :] == 0  # padding has no gate
    totals = (forget_gate.mT * real[:, 0]).cumsum(-1)
    at = (attention_mask == 0).int().mul(torch.arange(1, k.shape[2] + 1)).argmax(-1, keepdim=True)
    bias = totals.gather(2, at.expand(-1, q.shape[1], -1, -1)[..., 0])[..., None] - totals[:, :, None]
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attention_mask + bias, scale=scaling,
                                                            enable_gqa=True).transpose(1, 2), None


@pytest.fixture(scope="module")
def forgetful() -> SimpleNamespace:
    """A model of two layers in float64, norms too, with gates that differ."""
    register(GATES, "einc forgets", f="forget_gate")
    theirs.AttentionInterface.register("by torch", by_torch)
    theirs.AttentionMaskInterface.register("by torch", theirs.AttentionMaskInterface()["eager"])
    model = model_of("Llama")
    for n, layer in enumerate(model.model.layers):
        torch.manual_seed(n)
        weights = layer.self_attn.state_dict()
        layer.self_attn = Forgetful(model.config, n).double()
        layer.self_attn.load_state_dict(weights, strict=False)
        layer.input_layernorm = layer.post_attention_layernorm = torch.nn.RMSNorm(WIDTH, dtype=torch.float64)
    model.model.norm = torch.nn.RMSNorm(WIDTH, dtype=torch.float64)
    return SimpleNamespace(model=model.eval())


def both(model: Any, what: Callable[[Any], Tensor]) -> tuple[Tensor, Tensor]:
    """What a model does with the attention by torch, and with the spec's."""
    out = []
    for name in ("by torch", "einc forgets"):
        model.set_attn_implementation(name)
        out.append(what(model))
    return out[0], out[1]


def stepped(model: Any, present: Tensor | None = None, **more: Any) -> Tensor:
    """Logits and all gradients of a step of training."""
    model.zero_grad()
    there = torch.ones_like(ids) if present is None else present
    logits = model(ids, attention_mask=present, **more).logits[there == 1]
    logits.square().mean().backward()
    return torch.cat([logits.flatten(), *(w.grad.flatten() for w in model.parameters())])


@pytest.mark.drawn(3, 1)
@pytest.mark.parametrize("present", [None, LEFT, RIGHT], ids=["whole", "left", "right"])
def test_a_model_that_forgets_is_what_it_is_by_torch(forgetful: SimpleNamespace, present: Tensor | None) -> None:
    want, got = both(forgetful.model, lambda model: stepped(model, present))
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-10) and bool((want[-30:].abs() > 1e-6).any())


@torch.no_grad()
@pytest.mark.parametrize("cache", [None, "static"], ids=["a cache that grows", "a cache of a fixed length"])
def test_it_generates_with_its_cache(forgetful: SimpleNamespace, cache: str | None) -> None:
    def written(model: Any) -> Tensor:
        model.generation_config.cache_implementation = cache
        made = model.generate(ids, attention_mask=LEFT, max_new_tokens=9, do_sample=False)
        model.generation_config.cache_implementation = None
        return made

    want, got = both(forgetful.model, written)
    assert torch.equal(got, want) and len(set(got[:, LENGTH:].flatten().tolist())) > 2


@pytest.mark.drawn(2)
@pytest.mark.parametrize("present", [LEFT, None], ids=["left", "whole"])
def test_torch_compiles_the_whole_model_as_one_graph(forgetful: SimpleNamespace, present: Tensor | None) -> None:
    """A step of training; the same as without torch.compile, and as by torch."""
    torch._dynamo.reset()
    want, got = both(forgetful.model, lambda model: stepped(model, present, use_cache=False))
    compiled = torch.compile(forgetful.model, backend="aot_eager", fullgraph=True)
    traced = stepped(compiled, present, use_cache=False)
    assert torch.allclose(traced, want, rtol=1e-10, atol=1e-10) and torch.allclose(traced, got, rtol=1e-10, atol=1e-10)


@pytest.mark.whole
@torch.no_grad()
def test_a_compiled_step_reads_a_cache_of_a_fixed_length(forgetful: SimpleNamespace) -> None:
    """Its offset is data, so no shape tells where the past ends: one graph serves every step."""
    torch._dynamo.reset()

    def written(model: Any, step: Callable[..., Any]) -> Tensor:
        cache, out = theirs.StaticCache(model.config, max_cache_len=LENGTH + 3), []
        model(ids[:, :5], attention_mask=LEFT[:, :5], past_key_values=cache)
        for n in range(5, LENGTH):
            there = torch.nn.functional.pad(LEFT[:, :n + 1], (0, LENGTH + 2 - n))
            out.append(step(ids[:, n:n + 1], attention_mask=there, past_key_values=cache,
                            position_ids=torch.tensor([[n]])).logits)
        return torch.cat(out, 1)

    model = forgetful.model
    model.set_attn_implementation("by torch")
    want = written(model, model)
    model.set_attn_implementation("einc forgets")
    count = CompileCounterWithBackend("aot_eager")
    got = written(model, torch.compile(model, backend=count, fullgraph=True))
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-10) and count.frame_count <= 2


@pytest.mark.whole
def test_a_compiled_model_with_another_mask_is_refused() -> None:
    """Masks are compared where the graph runs: a window of four positions is that of the spec, and one of three is not.
    """
    window = 'use "gqa"\ndim W\noverride mask L_{t s}^{(h)} : s ∈ (t - W, t]'
    model = model_of("Mistral", sliding_window=4)
    model.set_attn_implementation("sdpa")
    want = model(ids, attention_mask=LEFT).logits[LEFT == 1]
    for width in (4, 3):
        torch._dynamo.reset()
        register(window, "einc window", W=width)
        model.set_attn_implementation("einc window")
        step = torch.compile(model, backend="eager", fullgraph=True)
        if width == 4:
            assert close(step(ids, attention_mask=LEFT).logits[LEFT == 1], want)
            continue
        with pytest.raises(EincError, match="in the model position 4 reads position 1, and `text` does not"):
            step(ids, attention_mask=LEFT)


@pytest.mark.whole
def test_what_is_missing_is_said_while_torch_traces() -> None:
    """As eager says it where torch may go back to that, else in torch's own words with these inside."""
    register(GATES, "einc missing")
    model = model_of("Llama")
    model.set_attn_implementation("einc missing")
    for whole, kind in ((False, EincError), (True, torch._dynamo.exc.Unsupported)):
        torch._dynamo.reset()
        with pytest.raises(kind, match="the model passes no `f`, which `text` takes for its `f`"):
            torch.compile(model, backend="eager", fullgraph=whole)(ids)
