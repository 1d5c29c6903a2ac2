"""Where a read at what was computed leaves its range: an error that names it, where
somebody reads it and nowhere else."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from helpers import examples
from hypothesis import strategies as st
from torch.export import export

import einc
from einc.errors.problems import WrongData
from einc.meaning.interpret import interpret

HEAD = """index t, s : time(T)
index v : vocab(RANGE)
index f : feature(D)
input x_t, n
input E_v^f
"""
TEXTS = {
    "bare": "output H_t^f = E_{floor(x_t)}^f",
    "summed": "output H_t^f = Σ_{s ≤ t} E_{floor(x_s)}^f cos(t)",
    "of two": "output H_t^f = Σ_{s ≤ t} E_{floor(x_s + x_t)}^f",
    "guarded": "output H_t^f = 1[t ≤ n] E_{ceil(x_t)}^f",
    "declared": "k_t = floor(x_t)\noutput H_t^f = E_{k_t}^f",
    "within a domain": "output H_t^f = Σ_{s ≤ t, s ≤ n} E_{floor(x_s x_t)}^f",
    "a softmax": "output H_t^f = Σ_{s ≤ t} softmax_{s ≤ t}(x_s E_{floor(x_t - x_s)}^f) x_s",
    "held": "output H_t^f = E_{min(max(floor(x_t), LOW), HIGH)}^f",
    "of whole numbers": "k_t = floor(x_t)\noutput H_t^f = Σ_{s ≤ t} E_{k_t - k_s + LOW}^f",
}
RANGES = {"0..V-1": (0, 4), "V": (1, 5)}


@cache
def made(name: str, range_: str, grad: bool = False) -> Any:
    low, high = ("0", "V - 1") if range_ == "0..V-1" else ("1", "V")
    text = HEAD.replace("RANGE", range_) + TEXTS[name].replace("LOW", low).replace("HIGH", high)
    return einc.compile(text + "\n", grad=grad)


NUMBERS = st.one_of(st.floats(0, 5.9), st.floats(1, 4.9),
                    st.sampled_from([-1.0, -0.5, 0.0, 7.0, 1e30, -1e30, math.nan, math.inf]))


@examples(40, 100, case=st.sampled_from([(name, False) for name in TEXTS]
                            + [(name, True) for name in ("guarded", "summed", "held")]),
       data=st.data())
def test_the_definition_and_the_kernel_agree_on_what_is_out_of_range(
    case: tuple[str, bool], data: st.DataObject) -> None:
    """Whatever the numbers are, where somebody reads and where nobody does; with and without gradients. Of what is held
    in range by the spec NaN alone is no place, and torch says so itself."""
    (name, grad), range_ = case, "V" if len(case[0]) % 2 else "0..V-1"
    x = np.array(data.draw(st.lists(NUMBERS, min_size=1, max_size=5)))
    drawn = {"x": x, "n": np.array(float(data.draw(st.integers(0, 5)))), "E": np.arange(10.0).reshape(5, 2)}
    function = made(name, range_, grad)
    given_ = {t.key: drawn[t.key] for t in function.program.inputs()}
    tensors = {key: torch.from_numpy(one).requires_grad_(grad) for key, one in given_.items()}
    try:
        want = interpret(function.program, given_)["H"]
    except WrongData as error:
        assert "outside" in str(error) or "not a whole number" in str(error)
        with pytest.raises(IndexError,
                           match=r"E_\{.*\}.* is read at .*, [01] to [45] are expected|^index -\d+ is out of bounds"):
            function(**tensors)
    else:
        np.testing.assert_allclose(function(**tensors).detach().numpy(), want, rtol=1e-9, atol=1e-12)


def test_what_is_held_in_range_is_not_checked() -> None:
    """A check stands where it is needed alone."""
    for name in TEXTS:
        assert ("_reached(" in made(name, "V" if len(name) % 2 else "0..V-1").source) == (name != "held"), name


def test_a_compiled_graph_and_an_exported_program_have_the_check() -> None:
    function, given_ = made("bare", "0..V-1"), {"x": torch.tensor([0.0, 4.9]), "E": torch.arange(10.0).view(5, 2)}

    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor, E: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = function(x=x, E=E)
            return y

    want, wrong = function(**given_), {**given_, "x": torch.tensor([0.0, math.nan])}
    for call in (torch.compile(Reads(), fullgraph=True, backend="aot_eager"),
                 export(Reads(), tuple(given_.values())).module()):
        assert torch.equal(call(*given_.values()), want)
        # A graph of torch.compile that raises leaves gradients off, which `enable_grad` undoes.
        with torch.enable_grad(), pytest.raises(RuntimeError, match="out of range: 0 to 4 are expected"):
            call(*wrong.values())


@pytest.mark.parametrize("range_", ["V", "0..V-1"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e30, -1e30])
def test_what_is_no_whole_number_is_told_as_that(wrong: float, range_: str) -> None:
    """No text names a number that the data does not have, whatever the first position is."""
    text = f"""index t : time(T)
index v : vocab({range_})
index d : feature(D)
input x_t, E_v^d
output y_t^d = E_{{floor(x_t)}}^d
"""
    with pytest.raises(IndexError, match="is read at what is no whole number of 64 bits"):
        einc.compile(text)(x=torch.tensor([1.0, wrong]), E=torch.zeros(5, 2))
