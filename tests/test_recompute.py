"""Rounds that are made again for the gradient: the same numbers, and less that is saved."""

from __future__ import annotations

import pytest
import torch
from helpers import arrays, typed
from placing_cases import BY_NAME
from rank_training import fresh
from test_staging import CARRIED, NUMBERS, RANGES, TEXTS

from einc.driver import front
from einc.driver.compiling import built
from einc.driver.options import Options
from einc.errors.report import EincError

# A part of each round is returned, so what makes rounds again gives such parts, too.
KEPT = """index n : batch(B)
index t : time(T)
index f, g : feature(D)
input x_{n t}^f
weight U_f^g, W_g^f
h_n^g = 0
for t in 1..T:
    u_n^g = x_{n t}^f U_f^g + h_n^g / 2
    v_n^g = exp(-u_n^g u_n^g)
    output y_{n t}^f = v_n^g W_g^f
    h_n^g ← v_n^g
"""


def gradients(text: str, plan: str) -> tuple[dict[str, torch.Tensor], int]:
    """The results and gradients of the class of a text, and how many numbers were saved for these beside weights."""
    program = typed(text)
    given = {key: torch.from_numpy(x) for key, x in arrays(program, NUMBERS, RANGES).items()}
    made = fresh(built(program, Options("torch", grad=True, module=True, plan=plan)).module, NUMBERS)
    made.load_state_dict({key: x for key, x in given.items() if key in made.state_dict()})
    inputs = {key: x for key, x in given.items() if key not in made.state_dict()}
    weights, saved = {x.untyped_storage().data_ptr() for x in made.parameters()}, {}

    def pack(x: torch.Tensor) -> torch.Tensor:
        if x.untyped_storage().data_ptr() not in weights:
            saved[x.untyped_storage().data_ptr()] = x.numel()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = made(**inputs)
    out = out if isinstance(out, tuple) else (out,)
    sum(x.square().sum() for x in out).backward()
    return {**{str(n): x.detach() for n, x in enumerate(out)}, **{key: x.grad for key, x in made.named_parameters()}
            }, sum(saved.values())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("every", ["", " every 2", " every 3", " every 9"])
@pytest.mark.parametrize("name", [*TEXTS, "kept"])
def test_rounds_that_are_made_again_give_the_same_gradients(name: str, every: str) -> None:
    text = {**TEXTS, "kept": KEPT}[name]
    want, most = gradients(text, "")
    letter = "t" if name == "kept" else "ℓ"
    found, saved = gradients(f"{text}\nplan again:\n    recompute {letter}{every}\n", "again")
    assert found.keys() == want.keys()
    assert all(torch.equal(found[key], x) for key, x in want.items())
    assert saved < most or (name == "two states" and not every)  # a round of it saves its states alone


def test_a_round_saves_what_it_begins_with() -> None:
    """Of N rounds the states that N / k of them begin with are saved, and what stands before and after the rounds."""
    text, each = BY_NAME["llama_lm"].text, NUMBERS["B"] * NUMBERS["T"] * NUMBERS["d_model"]
    counts = [gradients(f"{text}\nplan again:\n    recompute ℓ every {every}\n", "again")[1] for every in (1, 2, 4)]
    assert counts[0] - counts[1] == 2 * each and counts[1] - counts[2] == each


@pytest.mark.parametrize(("line", "said"), [
    ("recompute f", "`f` counts no rounds of this spec"), ("recompute ℓ every 0", "from 1 to"),
    ("recompute", "the line stops too early"), ("recompute ℓ\n    recompute ℓ every 2", "two lines say different"),
])
def test_what_cannot_be_made_again_is_told(line: str, said: str) -> None:
    with pytest.raises(EincError, match=said):
        front.compile(f"{CARRIED}\nplan again:\n    {line}\n", "torch", grad=True, plan="again")


def test_without_a_gradient_nothing_changes() -> None:
    text = f"{CARRIED}\nplan again:\n    recompute ℓ\n"
    assert built(typed(text), Options("torch", plan="again")).source == built(typed(text), Options("torch")).source


