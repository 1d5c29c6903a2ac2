"""`einc to flex` and `einc to sdpa`: functions that call the library for whole passes, run by torch itself on a CPU and
held against the float64 interpreter."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from helpers import assert_close, meaning

from einc.driver import checking, pipeline
from einc.driver.cli import main
from einc.driver.commands import data
from einc.driver.commands.sizes import default
from einc.driver.reports import calls
from einc.driver.reports.einsums import UnsaidError
from einc.driver.timing.rivals import rivals
from einc.ir.programs import TypedProgram

SMALL = {"T": 11, "S": 9, "U": 7, "B": 2, "H": 4, "G": 2, "d_k": 6, "D": 19}
SPECS = ("gallery/cope", "sdpa", "alibi", "gqa", "mla_rope", "partial_rotary", "requests", "cross_attention",
         "gallery/softcap",
         "gallery/softmax1", "gallery/documents", "gallery/sinks_window", "gallery/head_windows", "gallery/kerple",
         "gallery/log_n", "gallery/relative_table", "gallery/shared_logits", "gallery/differential",
         "gallery/blocks_before", "gallery/t5_bias", "forgetting_transformer")
ADDED = ("sdpa", "alibi", "gqa", "gallery/documents", "gallery/kerple", "gallery/shared_logits",
         "forgetting_transformer")

# Four outer indices, a product of three factors, a condition inside of the score, values with two widths, places from
# 0, an extent that is not that of the rows.
OWN = """index a, b : batch(A)
index c : batch(C)
index h : head(H)
index t : time(T)
index s : time(0..S-1)
index d, e : feature(D)
index f : feature(F)
input Q_{a c h t}^d, K_{a c h s}^d, M_{h d e}, V_{c h s}^{f e}, w_{a s}, g_{c h}
mask L_{a c h t s} : s < 2 t or s = 3
L_{a c h t s} = g_{c h} / 3 (Q_{a c h t}^d M_{h d e} K_{a c h s}^e) + 1[t ≤ s + 2] w_{a s} t / (s + 1) - max(s, 2)
output Y_{a c h t}^{f e} = Σ_s softmax_s(L_{a c h t s}) V_{c h s}^{f e}
"""


def einc_(*args: str, status: int = 0) -> Result:
    """The result of a command, which ended with the status and without a traceback."""
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code == status, result.output
    return result


def function(text: str) -> Any:
    """The function of a text of Python."""
    scope: dict[str, Any] = {}
    exec(compile(text, "<called>", "exec"), scope)
    name = next(line for line in text.splitlines()[::-1] if line.startswith("def "))[4:].partition("(")[0]
    return scope[name]


def agrees(program: TypedProgram, name: str, sizes: dict[str, int]) -> None:
    """The function gives what the interpreter gives."""
    made = function("\n".join(calls.called(pipeline.normal(program), name).texts))
    given = data.randoms(program, sizes, "float64", 0)
    asks = inspect.signature(made).parameters.keys() - given.keys()
    value = made(**given, **{name: sizes[name] for name in asks})
    got = dict(zip((name for name, _ in program.outputs), value if isinstance(value, tuple) else (value,), strict=True))
    assert_close(got, meaning(program, {key: x.numpy() for key, x in given.items()}, sizes), 1e-12)


def sizes_of(program: TypedProgram) -> dict[str, int]:
    """Small sizes, with classes for those that have no number here."""
    return {name: SMALL.get(name, min(n, 6)) for name, n in default(program, {}).items()} | dict(program.sizes)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("spec", SPECS)
def test_what_stands_between_two_products_is_a_function_of_the_score(spec: str) -> None:
    program = checking.typed(spec)
    agrees(program, "flex", sizes_of(program))


@pytest.mark.parametrize("spec", ADDED)
def test_what_is_added_to_scores_is_an_array(spec: str) -> None:
    program = checking.typed(spec)
    agrees(program, "sdpa", sizes_of(program))


def test_four_outer_indices_and_a_start_at_0() -> None:
    agrees(checking.typed(OWN), "flex", {"A": 2, "C": 3, "H": 2, "T": 7, "S": 9, "D": 4, "F": 2})
    with pytest.raises(UnsaidError, match="adds to a score"):
        calls.called(pipeline.normal(checking.typed(OWN)), "sdpa")


@pytest.mark.parametrize(("spec", "said"), [
    ("gallery/sigmoid", "no sums beside a greatest value"), ("gallery/entropy_penalty", "carries 3 sums"),
    ("gallery/shaw", "positions of both sides"),
    ("attention_dropout", "positions of both sides"), ("llama_lm", "it has rounds"), ("swiglu", "no pass of its plan"),
    ("nsa", "changes with what they are relative to")])
def test_what_is_no_call_says_why(spec: str, said: str) -> None:
    spec = f"not_attention/{spec}" if spec == "swiglu" else spec
    assert said in einc_("to", "flex", spec, status=1).stderr
    (rival,) = rivals(checking.typed(spec), ("flex",), (), False)
    assert rival.function is None
    assert said in rival.why


def test_the_score_and_the_mask_are_in_the_reader_s_letters() -> None:
    text = einc_("to", "flex", "alibi").stdout
    assert "    def score_mod(score, b, h, t, s):\n        return score - (m_score[h] * (t - s))\n" in text
    assert "    def mask_mod(b, h, t, s):\n        return s <= t\n" in text
    assert "@cache\ndef block_mask(T, device):" in text
    assert "is_causal=True" in einc_("to", "sdpa", "gqa").stdout


def test_another_plan_of_the_same_mathematics_is_the_same_call() -> None:
    """The weights written out, without a maximum, and a name of a size for a tensor."""
    text = ("index t, s : time(T)\nindex h : head(H)\nindex d, k : feature(D)\n"
            "input H_{t h}^k, K_{s h}^k, V_{s h}^d\nE_{t s h} = exp(tanh(H_{t h}^k K_{s h k}) + 2)\n"
            "output Y_{t h}^d = (Σ_{s ≤ t} E_{t s h} V_{s h}^d) / Σ_{s ≤ t} E_{t s h}\n")
    program = checking.typed(text)
    agrees(program, "flex", {"T": 9, "H": 2, "D": 4})
    assert "torch.tanh(score) + 2" in "\n".join(calls.called(pipeline.normal(program), "flex").texts)


def test_rivals_by_name_are_checked_before_they_are_timed() -> None:
    """What `einc bench` runs; FlexAttention is compiled there, which takes long, so it is not called here."""
    flex, sdpa = rivals(checking.typed("sdpa"), ("flex", "sdpa"), (), False)
    assert flex.function is not None and sdpa.function is not None
    given = {name: torch.randn(1, 2, 5, 4, dtype=torch.float64) for name in "QKV"}
    right = torch.nn.functional.scaled_dot_product_attention(*given.values(), is_causal=True)
    torch.testing.assert_close(sdpa.function(**given), right)
