"""Weights of other models by written maps: the same results as theirs, and what is said where a map does not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from helpers import typed
from programs import FILES, SPECS
from safetensors.torch import load_file, save_file
from test_oracles import HEADS, KEYS, captured, decoder, doubled, given_to, ids, spiced, zoo

import einc
from einc.driver.cli import main
from einc.driver.decoding.weights import entries, mapped
from einc.errors.problems import WrongData
from einc.errors.report import EincError, render

__all__ = ["zoo"]
MAPS = sorted(path.stem for path in (SPECS / "maps").glob("*.toml"))
TEXT = """index t : time(T)
index l : feature(N)
index h : head(H)
index f, g : feature(D)
index d : feature(d_k)
input X_t^f
weight W_{l h f}^d, b_l^f, V_f^g
output Y_t^g = Σ_{h l} X_t^f W_{l h f}^d W_{l h g' d} V_{g'}^g + Σ_l b_l^g
"""


def gpt2_layer(zoo: Any) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A GPT-2 of two layers, and what goes into and comes out of its second."""
    config = zoo.GPT2Config(vocab_size=50, n_embd=24, n_layer=2, n_head=HEADS, n_inner=32, attn_implementation="sdpa")
    model = spiced(zoo.GPT2Model(config).double(), biases=0.3)
    given, output = captured(model, model.h[1], input_ids=ids(2), use_cache=False)
    return model, given_to(given), output


def llama_layer(zoo: Any, part: str) -> tuple[Any, torch.Tensor, torch.Tensor]:
    model = decoder(zoo, "Llama", KEYS)
    target = model.layers[0].self_attn if part else model.layers[0]
    given, output = captured(model, target, input_ids=ids(2), use_cache=False)
    return model, given_to(given), output[0] if isinstance(output, tuple) else output


def test_every_map_is_of_a_spec_and_every_map_is_tried() -> None:
    assert set(MAPS) <= {case.name for case in FILES}
    assert set(MAPS) == {"gpt2_block", "attention_dropout", "llama_attention", "swiglu_block", "decoder_lm", "llama_lm"}


@pytest.mark.parametrize("name", ["decoder_lm", "llama_lm"])
def test_a_whole_model_goes_on_as_its_own_does(zoo: Any, name: str) -> None:
    """Every layer's weights by one map, and the tokens that transformers takes."""
    if name == "decoder_lm":
        model = zoo.GPT2LMHeadModel(zoo.GPT2Config(vocab_size=50, n_positions=16, n_embd=24, n_layer=2, n_head=HEADS,
                                                   n_inner=32))
    else:
        model = zoo.LlamaForCausalLM(zoo.LlamaConfig(
            vocab_size=50, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=HEADS,
            num_key_value_heads=1, head_dim=8))
    model, tokens = spiced(model.double()), ids(2)[:, :5]
    made, weights = einc.compile(name), einc.load_weights(name, model.state_dict(), H=HEADS, G=1)
    want = model.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)
    assert einc.generate(lambda one: made(w=one, **weights), tokens, 6).tolist() == want.tolist()


def test_a_weight_that_is_another_one(zoo: Any) -> None:
    """A file of a tied model has no head."""
    model = spiced(zoo.LlamaForCausalLM(zoo.LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=HEADS,
        num_key_value_heads=1, head_dim=8)))
    state = dict(model.state_dict())
    head = state.pop("lm_head.weight")
    tied = einc.load_weights("llama_lm", state, H=HEADS)
    assert torch.equal(tied["W_lm"], state["model.embed_tokens.weight"].T)
    own = einc.load_weights("llama_lm", {**state, "lm_head.weight": head}, H=HEADS)
    assert torch.equal(own["W_lm"], head.T) and not torch.equal(own["W_lm"], tied["W_lm"])


@pytest.mark.parametrize("name", ["gpt2_block", "attention_dropout"])
def test_gpt2(zoo: Any, name: str) -> None:
    """One line of Python from its weights to its layer."""
    with doubled():
        model, x, want = gpt2_layer(zoo)
        part = model.h[1].attn
        if name == "attention_dropout":
            given, (want, *_) = captured(model, part, input_ids=ids(2), use_cache=False)
            x = given_to(given)
        made = einc.compile(name, module=True)
        prefix = "h.1." if name == "gpt2_block" else "h.1.attn."
        weights = einc.load_weights(made, model.state_dict(), prefix=prefix, H=HEADS)
        sizes = ({"H": HEADS, "d_k": 4, "d_model": 24, "d_ff": 32} if name == "gpt2_block"
                 else {"H": HEADS, "d_k": 4, "d_model": 24})
        layer = made.module(**sizes, dtype=torch.float64)
        layer.load_state_dict(weights)
        assert torch.allclose(layer.eval()(x), want, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["llama_attention", "swiglu_block"])
def test_llama(zoo: Any, name: str) -> None:
    with doubled():
        model, x, want = llama_layer(zoo, "attention" * (name == "llama_attention"))
        prefix = "layers.0." + "self_attn." * (name == "llama_attention")
        weights = einc.load_weights(name, model.state_dict(), prefix=prefix, H=HEADS, G=KEYS)
        assert all(w.is_contiguous() for w in weights.values())
        layer = einc.compile(name)
        got = (layer(X=x, **weights) if name == "llama_attention"
               else torch.stack([layer(H=one, **weights) for one in x]))
        assert torch.allclose(got, want, atol=1e-10, rtol=0)


def test_run_with_a_map(zoo: Any, tmp_path: Path) -> None:
    """From a file of a whole model; what is no weight is random, or stands in the file under our name."""
    with doubled():
        model, x, want = gpt2_layer(zoo)
    file, out = str(tmp_path / "model.safetensors"), str(tmp_path / "out.safetensors")
    save_file({**{k: v.clone() for k, v in model.state_dict().items()}, "H": x.contiguous()}, file)
    common = ["run", "gpt2_block", "--data", file, "--prefix", "h.1.", "--repeat", "1", "-o", out]
    done = CliRunner().invoke(main, [*common, "--map", "gpt2_block", "--sizes", f"H={HEADS}", "--verify"])
    assert done.exit_code == 0, done.output
    assert torch.allclose(load_file(out)["H_out"], want, atol=1e-10, rtol=0)
    done = CliRunner().invoke(main, common)
    assert done.exit_code == 1 and "can be cut in several ways" in done.stderr and "`H`" in done.stderr
    done = CliRunner().invoke(main, ["run", "gpt2_block", "--map", "gpt2_block"])
    assert done.exit_code == 1 and "for --data" in done.stderr


# what a map can say


def arrays(layers: int = 3) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = {"V.weight": (5, 5), **{f"m.{n}.a": (5, 6) for n in range(layers)},
              **{f"m.{n}.b": (2, 5) for n in range(layers)}}
    return {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}


def read(written: dict[str, Any], state: dict[str, torch.Tensor], **sizes: int) -> dict[str, torch.Tensor]:
    program = typed(TEXT)
    return mapped(program, entries(program, written, "this map"), state, "", sizes)[0]


GOOD = {"W": {"from": "m.{l}.a", "as": "l f (h d) -> l h f d"},
        "b": {"from": "m.{l}.b", "as": "l c f -> c l f", "take": 1},
        "V": {"from": "V.weight", "as": "g f -> f g"}}


def test_layers_are_stacked_and_parts_are_taken() -> None:
    state = arrays(11)
    made = read(GOOD, state, H=3)
    assert {key: tuple(x.shape) for key, x in made.items()} == {"W": (11, 3, 5, 2), "b": (11, 5), "V": (5, 5)}
    for n in range(11):
        assert torch.equal(made["W"][n, 2, :, 1], state[f"m.{n}.a"][:, 5]), "in the order of numbers, not of their text"
        assert torch.equal(made["b"][n], state[f"m.{n}.b"][1])
    assert torch.equal(made["V"], state["V.weight"].T)


def test_several_are_stacked() -> None:
    state = {**arrays(), **{name: torch.full((5,), float(n)) for n, name in enumerate("pqr")}}
    assert read({**GOOD, "b": {"from": ["p", "q", "r"]}}, state, H=3)["b"][:, 4].tolist() == [0, 1, 2]
    assert read({**GOOD, "b": {"from": ["r", "q", "p"], "as": "l f -> l f"}}, state,
                H=3)["b"][:, 4].tolist() == [2, 1, 0]


WRONG = [
    ({"W": "a", "b": "b"}, "does not say where `V` comes from"),
    ({**GOOD, "Z": "z"}, "speaks of `Z`"),
    ({**GOOD, "V": 3}, "`V` cannot be read"),
    ({**GOOD, "V": {"from": "V.weight", "how": "x"}}, "`V` cannot be read"),
    ({**GOOD, "V": {"from": "m.{l}.b", "or": "V.weight"}}, "`V` cannot be read"),
    ({**GOOD, "V": {"from": "V.weight", "as": "g f -> f"}}, "do not have the same letters"),
    ({**GOOD, "V": {"from": "V.weight", "as": "g f"}}, "do not have the same letters"),
    ({**GOOD, "V": {"from": "V.weight", "as": "g f -> (f g)"}}, "makes 1 axes"),
    ({**GOOD, "V": {"from": "V.weight", "as": "(2 r) f -> (2 r) f"}}, "an axis of 5 elements is not (2 · r)"),
    ({**GOOD, "V": {"from": "V.weight", "as": "c g f -> (c f) g"}}, "an array of 2 axes"),
    ({**GOOD, "V": "W.weight"}, "there is no `W.weight`"),
    ({**GOOD, "V": "m.0.b"}, "would have the shape (2, 5)"),
    ({**GOOD, "V": {"from": "m.{l}.b", "as": "l c f -> l f c", "take": 4}}, "takes part 4 of 3"),
]


@pytest.mark.parametrize(("written", "said"), WRONG, ids=[said for _, said in WRONG])
def test_lessons(written: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongData, match=re.escape(said)) as caught:
        read(written, arrays(), H=3)
    assert len(render(caught.value).splitlines()) < 8


def test_what_is_missing_is_told() -> None:
    state = {name: x for name, x in arrays().items() if name != "m.1.a"}
    with pytest.raises(WrongData, match=re.escape("there is no `m.1.a`")):
        read(GOOD, state, H=3)
    with pytest.raises(WrongData, match="cut in several ways") as caught:
        read(GOOD, arrays())
    assert "`H`, `d_k`" in render(caught.value)
    with pytest.raises(EincError, match="is no map of weights"):
        einc.load_weights("attention", {})
    with pytest.raises(EincError, match="give the prefix of one layer"):
        einc.load_weights("gpt2_block", {"h.0.ln_1.weight": torch.ones(3)})
