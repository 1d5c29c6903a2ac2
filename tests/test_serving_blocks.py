"""What is made of blocks of positions, of which there are ⌈T/B⌉, is made again in each step: any cut of the positions
gives what the whole gives, and a block that was begun before is gone on with."""

from __future__ import annotations

from inspect import signature, unwrap

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, meaning, typed, typed_of
from programs import FILES
from test_serving import stepwise

from einc.driver import front
from einc.errors.report import EincError
from einc.ir.programs import TypedProgram
from einc.transforms.serving.cached import growing

HEAD = ("index t, s : time(T)\nindex j : time(⌈T/B⌉)\nindex d, e : feature(D)\ndim B\n"
        "input q_t^d, k_s^d, v_s^d\n")
TEXTS = {
    "means": f"{HEAD}C_j^d = 1/B Σ_{{s ∈ (B j - B, B j]}} k_s^d\n"
             "output y_t^d = v_t^d + Σ_{j, B j ≤ t} (q_t^e C_{j e}) C_j^d",
    "softmax over blocks": f"{HEAD}C_j^d = Σ_{{s ∈ (B j - B, B j]}} k_s^d\n"
                           "output y_t^d = v_t^d + Σ_{j, B j < t} softmax_{j, B j < t}(q_t^e C_{j e}) C_j^d",
    "blocks of blocks": f"{HEAD}C_j^d = Σ_{{s ∈ (B j - B, B j]}} tanh(k_s^d)\nindex i : time(⌈T/B⌉)\n"
                        "G_j^d = C_j^d + Σ_{i, i < j} tanh(C_i^e C_{j e}) C_i^d\n"
                        "output y_t^d = v_t^d + Σ_{j, B j ≤ t} G_j^d",
    "blocks of each position": f"{HEAD}X_{{t j}} = tanh(q_t^d k_{{t d}} / j)\n"
                               "output y_t^d = Σ_{s ≤ t} (Σ_{j, B j ≤ s} X_{s j}) v_s^d",
}


def programs() -> dict[str, tuple[TypedProgram, dict[str, int]]]:
    """Specs whose blocks are chosen, and short texts."""
    cases = {case.name: case for case in FILES if case.name in ("moba", "nsa")}
    found = {name: (typed_of(case), dict(case.sizes)) for name, case in cases.items()}
    return found | {name: (typed(text), {"T": 9, "D": 3, "B": 2}) for name, text in TEXTS.items()}


NAMES = ["moba", "nsa", *TEXTS]


@pytest.mark.parametrize("cuts", [[4, 1, 1, 3], [1] * 9, [5, 4, 2]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_steps_give_what_the_whole_gives(name: str, cuts: list[int]) -> None:
    program, sizes = programs()[name]
    sizes["T"] = sum(cuts)
    given = arrays(program, sizes, {}, len(cuts))
    got = stepwise(front.built(program, plan="serve"), given, sizes, cuts)
    for key, want in meaning(program, given, sizes).items():
        np.testing.assert_allclose(got[key], want, rtol=0, atol=1e-12)


def told(made: front.Compiled, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes that no tensor tells, which a caller gives."""
    return {name: n for name, n in sizes.items() if name in signature(unwrap(made.function)).parameters}


def parts(program: TypedProgram, given: Arrays, first: int, count: int) -> dict[str, torch.Tensor]:
    """Some positions of what is given."""
    along, out = growing(program), dict[str, torch.Tensor]()
    for tensor in program.inputs():
        x = torch.as_tensor(given[tensor.key])
        at = [n for n, slot in enumerate(tensor.slots) if slot.set == along]
        out[tensor.key] = x.narrow(at[0], first, count) if at else x
    return out


@pytest.mark.parametrize("name", ["nsa", "means"])
def test_requests_of_unequal_pasts_share_a_step(name: str) -> None:
    program, sizes = programs()[name]
    made, along = front.built(program, plan="serve"), growing(program)
    asked = told(made, sizes)
    assert made.prefill is not None
    shared = arrays(program, {**sizes, "T": 1}, {}, 0)
    fixed = {t.key: shared[t.key] for t in program.inputs() if not any(s.set == along for s in t.slots)}
    lengths, more = (3, 8, 1), (2, 1, 4)
    drawn = [{**arrays(program, {**sizes, "T": a + b}, {}, a), **fixed} for a, b in zip(lengths, more, strict=True)]
    caches = [made.prefill(**parts(program, one, 0, n), **asked)[1] for one, n in zip(drawn, lengths, strict=True)]
    news = [parts(program, one, n, m) for one, n, m in zip(drawn, lengths, more, strict=True)]
    new = {key: x if key in fixed else torch.cat([one[key] for one in news]) for key, x in news[0].items()}
    got = made(caches, **new, **asked, lengths=list(more))
    want = [next(iter(meaning(program, one, {**sizes, "T": n + m}).values()))[n:]
            for one, n, m in zip(drawn, lengths, more, strict=True)]
    np.testing.assert_allclose(got.numpy(), np.concatenate(want), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["nsa", "means"])
def test_a_fork_goes_its_own_way(name: str) -> None:
    program, sizes = programs()[name]
    made = front.built(program, plan="serve")
    assert made.prefill is not None
    asked = told(made, sizes)
    one, other = (arrays(program, {**sizes, "T": 9}, {}, seed) for seed in (0, 1))
    along = growing(program)
    for tensor in program.inputs():  # the same first five positions
        at = [n for n, slot in enumerate(tensor.slots) if slot.set == along]
        other[tensor.key] = one[tensor.key] if not at else np.concatenate([one[tensor.key][:5], other[tensor.key][5:]])
    cache = made.prefill(**parts(program, one, 0, 5), **asked)[1]
    fork = cache.fork()
    for given, mine in ((one, cache), (other, fork)):
        want = next(iter(meaning(program, given, {**sizes, "T": 9}).values()))
        got = [made(mine, **parts(program, given, n, 1), **asked) for n in range(5, 9)]
        np.testing.assert_allclose(torch.cat(got).numpy(), want[5:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("line", "said"), [
    ("input w_j^d\noutput y_t^d = v_t^d + Σ_{j, B j ≤ t} w_j^d", "changes with the number of positions"),
    ("C_j^d = Σ_{s ∈ (B j - B, B j]} k_s^d\noutput y_t^d = v_t^d + Σ_j C_j^d : all", "reads later positions")])
def test_what_a_step_could_not_go_on_with_is_refused(line: str, said: str) -> None:
    with pytest.raises(EincError, match=said):
        front.built(typed(f"{HEAD}{line}"), plan="serve")
