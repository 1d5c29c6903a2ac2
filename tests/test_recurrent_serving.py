"""What a recurrence leaves is kept between steps: any cut of the positions gives what the whole gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import unwrap
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, distance, meaning, typed
from programs import FILES, Case
from recurrent import LAYERS, Tensors
from test_recurrent import BOUND, error, wanted
from test_sequences import DRAW, made, read
from test_sequences import SIZES as DRAWN
from test_serving import served, stepwise
from triton_modes import interpreted

from einc.driver import front
from einc.errors.report import EincError
from einc.transforms.serving.cached import growing

pytestmark = pytest.mark.usefixtures("doubles")
UNSERVED = ("path", "deltaformer")  # a state has a value for each position
CASES = [case for case in FILES if case.name in LAYERS and case.name not in UNSERVED]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
REFUSED = "has no position|has a value for each position while|no positions that a generation"

HYBRID = """
# A state beside an attention whose values are what the recurrence gives.
index t, s : time(T)
index d, e : feature(D)
input x_t^d, q_t^e, k_t^e, a_t
S^d = 0
for t in 1..T:
    S'^d = a_t S^d + x_t^d
    v_t^d = tanh(S'^d)
    S^d ← S'^d
mask L_{t s} : s ≤ t
L_{t s} = q_t^e k_{s e}
output y_t^d = Σ_s softmax_s(L_{t s}) v_s^d
"""


def cut(total: int, seed: int) -> list[int]:
    """Numbers of positions that add up to the total."""
    random, cuts = Random(seed), list[int]()
    while sum(cuts) < total:
        cuts.append(min(random.choice([1, 1, 2, 5]), total - sum(cuts)))
    return cuts


def at(run: front.Compiled, inputs: Tensors, first: int, count: int) -> Tensors:
    """What is given for some of the positions."""
    return {key: x if (axis := places(run, key)) is None else x.narrow(axis, first, count) for key, x in inputs.items()}


def places(run: front.Compiled, key: str) -> int | None:
    """The axis of positions of a tensor, if it has one."""
    along = growing(run.program)
    return next((n for n, s in enumerate(run.program.tensors[key].slots) if s.set == along), None)


def joined(run: front.Compiled, parts: list[torch.Tensor]) -> torch.Tensor:
    """The only output of steps one after the other."""
    return torch.cat(parts, place(run))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("prefill", [1, 2, 37])
@each
def test_a_layer_goes_on_step_by_step(case: Case, prefill: int) -> None:
    """A prefill of any length, and a hundred steps of one position each, are what others compute of the whole."""
    steps = prefill + 100
    inputs = LAYERS[case.name].inputs(steps)
    run, want = served(case), wanted(case, inputs)
    assert run.prefill is not None
    found, state = run.prefill(**at(run, inputs, 0, prefill))
    parts = [found, *(run(state, **at(run, inputs, n, 1)) for n in range(prefill, steps))]
    assert state.length == steps and (state.states or state.kept)
    assert error(joined(run, parts), want) <= BOUND


@pytest.mark.parametrize("name", UNSERVED)
def test_what_is_not_served_is_refused(name: str) -> None:
    with pytest.raises(EincError, match="has a value for each position while positions are taken in order"):
        served(next(case for case in FILES if case.name == name))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.whole) for n in range(12, 120))])
def test_a_drawn_text_goes_on(kind: str, seed: int) -> None:
    """Against the loop over all positions that the draw brings, or the program is refused in one statement."""
    found, program = made(kind, seed)
    try:
        run = front.built(program, plan="serve")
    except EincError as refused:
        assert any(word in str(refused) for word in REFUSED.split("|"))
        return
    sizes = {**DRAWN, "T": 11}
    inputs = found.inputs(sizes, seed)
    want = {key: x.detach().numpy() for key, x in found.means(inputs, sizes).items()}
    given = {key: x.numpy() for key, x in read(program, inputs).items()}
    for name, x in stepwise(run, given, sizes, cut(11, seed)).items():
        assert distance(x, want[name], 1.0) <= 1e-9, name


@pytest.mark.drawn(3)
@each
def test_requests_of_unequal_pasts_share_a_step(case: Case) -> None:
    lengths, more = (3, 8, 1), (2, 1, 4)
    run = served(case)
    assert run.prefill is not None
    drawn = [LAYERS[case.name].inputs(a + b) for a, b in zip(lengths, more, strict=True)]
    shared = {key: x for key, x in drawn[0].items() if places(run, key) is None}
    drawn = [{**one, **shared} for one in drawn]
    caches = [run.prefill(**at(run, one, 0, n))[1] for one, n in zip(drawn, lengths, strict=True)]
    news = [at(run, one, n, m) for one, n, m in zip(drawn, lengths, more, strict=True)]
    new = {key: shared[key] if key in shared else torch.cat([one[key] for one in news], places(run, key) or 0)
           for key in drawn[0]}
    got = run(caches, **new, lengths=list(more))
    want = [wanted(case, one).narrow(place(run), n, m) for one, n, m in zip(drawn, lengths, more, strict=True)]
    assert error(got, torch.cat(want, place(run))) <= BOUND


def place(run: front.Compiled) -> int:
    """The axis of positions of the only output."""
    ((_, key),) = run.program.outputs
    found = places(run, key)
    assert found is not None
    return found


@cache
def hybrid(backend: str = "torch") -> front.Compiled:
    return front.built(typed(HYBRID), plan="serve")


def drawn() -> tuple[Arrays, dict[str, int], np.ndarray]:
    program, sizes = typed(HYBRID), {"T": 23, "D": 5}
    given = arrays(program, sizes, {}, 1)
    return given, sizes, meaning(program, given, sizes)["y"]


def test_packed_requests_are_refused_with_a_way_out() -> None:
    """A step has a past for each request, and no axis of all positions."""
    text = ("index r : request(R)\nindex t : time(T_r)\ninput x_{r t}\nz_r = 0\nfor t in 1..T_r:\n"
            "    output y_{r t} = z_r\n    z_r ← z_r + x_{r t}\n")
    with pytest.raises(EincError, match="the positions of all requests one after the other"):
        front.built(typed(text), plan="serve")
    alone = text.replace("index r : request(R)\n", "").replace("_{r t}", "_t").replace("T_r", "T").replace("_r", "")
    assert front.built(typed(alone), plan="serve").prefill is not None


def part(given: Arrays, first: int, count: int) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(x)[first : first + count] for key, x in given.items()}


def test_a_state_stands_beside_rows_in_pages() -> None:
    given, sizes, want = drawn()
    run = hybrid()
    pool = unwrap(run.function).__globals__["Pool"](8, 4)
    got = stepwise(run, given, sizes, cut(23, 5), pool)
    np.testing.assert_allclose(got["y"], want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("paged", [False, True])
def test_a_fork_goes_its_own_way(paged: bool) -> None:
    given, _, want = drawn()
    run = hybrid()
    assert run.prefill is not None
    _, first = run.prefill(**part(given, 0, 9), pool=unwrap(run.function).__globals__["Pool"](16, 4) if paged else None)
    other = first.fork()
    run(other, **{key: x + 1 for key, x in part(given, 9, 4).items()})
    got = run(first, **part(given, 9, 14))
    np.testing.assert_allclose(got.numpy(), want[9:], rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="a state is that of all 23 positions"):
        first.fork(7)
    empty = first.fork(0)
    np.testing.assert_allclose(run(empty, **part(given, 0, 23)).numpy(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("paged", [False, True])
def test_what_is_saved_goes_on(paged: bool, tmp_path: Path) -> None:
    given, _, want = drawn()
    run, file = hybrid(), str(tmp_path / "saved.pt")
    assert run.prefill is not None
    pool = unwrap(run.function).__globals__["Pool"](16, 4) if paged else None
    _, kept = run.prefill(**part(given, 0, 9), pool=pool)
    if pool is None:
        kept.save(file)
        again = unwrap(run.function).__globals__["Cache"].load(file)
    else:
        with pytest.raises(ValueError, match="save the pool"):
            kept.save(file)
        pool.save(file)
        (again,) = unwrap(run.function).__globals__["Pool"].load(file).loaded.values()
    np.testing.assert_allclose(run(again, **part(given, 9, 14)).numpy(), want[9:], rtol=1e-9, atol=1e-9)
    assert again.nbytes > 0


@pytest.mark.parametrize("change", [
    lambda told: (-1, *told[1:]), lambda told: (*told[:4], {"S": 3}, told[5]), lambda told: told[:4],
    lambda told: (told[0] + 1, *told[1:]), lambda told: (*told[:3], 0, *told[4:]),
])
def test_a_file_that_is_no_cache_is_refused(change: Callable[[Any], Any], tmp_path: Path) -> None:
    given, _, _ = drawn()
    run, file = hybrid(), str(tmp_path / "saved.pt")
    assert run.prefill is not None
    run.prefill(**part(given, 0, 9))[1].save(file)
    torch.save(change(torch.load(file, weights_only=True)), file)
    with pytest.raises(ValueError, match="is no saved cache"):
        unwrap(run.function).__globals__["Cache"].load(file)


def test_a_step_that_fails_leaves_the_state() -> None:
    given, _, want = drawn()
    run = hybrid()
    assert run.prefill is not None
    _, kept = run.prefill(**part(given, 0, 9))
    with pytest.raises((TypeError, ValueError)):
        run(kept, **{**part(given, 9, 2), "x": torch.zeros(2, 6, dtype=torch.float64)})
    np.testing.assert_allclose(run(kept, **part(given, 9, 14)).numpy(), want[9:], rtol=1e-9, atol=1e-9)


def test_states_alone_lie_in_no_pages() -> None:
    case = next(case for case in CASES if case.name == "gla")
    run = served(case)
    assert run.prefill is not None
    inputs = LAYERS["gla"].inputs(3)
    with pytest.raises(ValueError, match="lie in no pages"):
        run.prefill(**inputs, pool=unwrap(run.function).__globals__["Pool"](4, 4))


def test_a_state_of_another_kind_is_refused() -> None:
    run = served(next(case for case in CASES if case.name == "gla"))
    assert run.prefill is not None
    inputs = LAYERS["gla"].inputs(3)
    _, kept = run.prefill(**inputs)
    with pytest.raises(ValueError, match="the cache keeps a state S of"):
        run(kept, **{key: x.float() for key, x in inputs.items()})
    other = unwrap(run.function).__globals__["Cache"]()
    other.length = 4
    with pytest.raises(ValueError, match="has 4 positions and no state S"):
        run(other, **inputs)


def test_half_precision_keeps_wide_states() -> None:
    run = served(next(case for case in CASES if case.name == "gated_deltanet"))
    assert run.prefill is not None
    inputs = {key: x.bfloat16() for key, x in LAYERS["gated_deltanet"].inputs(64).items()}
    whole, _ = run.prefill(**inputs)
    found, kept = run.prefill(**at(run, inputs, 0, 1))
    parts = [found, *(run(kept, **at(run, inputs, n, 1)) for n in range(1, 64))]
    assert {x.dtype for x in kept.states.values()} == {torch.float32}
    assert error(joined(run, parts), whole.double()) <= 1e-2


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["gla", "gated_deltanet", "mlstm", "rg_lru"])
def test_triton_goes_on(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    with interpreted():
        run = front.built(typed(case.text), plan="serve", backend="triton")
        inputs = LAYERS[name].inputs(9)
        assert run.prefill is not None
        found, kept = run.prefill(**at(run, inputs, 0, 4))
        got = joined(run, [found, run(kept, **at(run, inputs, 4, 5))])
    assert error(got, wanted(case, inputs)) <= BOUND
