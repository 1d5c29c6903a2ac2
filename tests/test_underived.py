"""What was compiled without its gradient says so where it is differentiated, and cannot
be pickled; all else stays as it was."""

from __future__ import annotations

import copy
import io
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import examples
from hypothesis import strategies as st
from torch.export import export
from torch.utils.checkpoint import checkpoint

import einc

TEXT = """index t, s : time(T)
index d : feature(D)
input x_t^d
input w_t : int
weight M_d
output z_t = w_t + 1
output y_t = Σ_{s ≤ t} exp(x_s^d M_d)
output l_t = x_t^d M_d
"""
ONE = TEXT.replace("output z_t = w_t + 1\n", "").replace("input w_t : int\n",
                                                         "").replace("output l_t = x_t^d M_d\n", "")
TOLD = "was compiled without its gradient: compile its spec with grad=True, or einc compile --grad"


def made(text: str = ONE, **options: Any) -> Any:
    return einc.compile(text, module=True, **options)


MANY, SINGLE = made(TEXT), made()
GIVEN = {"x": torch.randn(4, 3), "M": torch.randn(3), "w": torch.arange(4)}


@examples(15, 40, asking=st.sets(st.sampled_from(["x", "M"])), on=st.booleans(),
          used=st.sets(st.sampled_from("zyl"), min_size=1),
       wide=st.booleans(), whole=st.booleans())
def test_who_differentiates_is_told(asking: set[str], on: bool, used: set[str], wide: bool, whole: bool) -> None:
    """Whichever inputs ask for gradients and whichever results are used; where none asks results are as they were."""
    given_ = {key: x.clone().requires_grad_(key in asking) for key, x in GIVEN.items()}
    if wide:
        given_ = {key: x.double().detach().requires_grad_(key in asking) if key != "w" else x
                  for key, x in given_.items()}
    with torch.set_grad_enabled(on):
        out = MANY(**given_) if whole else MANY(**given_)._asdict()
    out = out._asdict() if whole else out
    told = on and bool(asking)
    assert {key for key, x in out.items() if x.requires_grad} == ({"y", "l"} if told else set())
    with torch.no_grad():
        want = MANY(**given_)
    assert all(torch.equal(out[key], getattr(want, key)) for key in out) and out["y"].dtype == given_["x"].dtype
    if told and used - {"z"}:
        total = sum(out[key].sum() for key in sorted(used))
        with pytest.raises(RuntimeError, match=TOLD):
            total.backward()  # type: ignore[union-attr]
        assert all(x.grad is None for x in given_.values())


def residual(layer: Any, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = layer(x)
    y += 1
    return x.sum(-1) + y


def test_a_module_in_a_residual_model() -> None:
    """A call is silent, also where the result is written to; what trains beside it would train alone."""
    layer, x = SINGLE.module(D=3), torch.randn(5, 3)
    beside = torch.nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match=f"`text` {TOLD}"):
        residual(layer, beside(x)).sum().backward()
    assert all(p.grad is None for p in layer.parameters())
    assert not layer.requires_grad_(False)(x).requires_grad
    einc_grad = made(grad=True).module(D=3)
    residual(einc_grad, beside(x)).sum().backward()
    assert all(p.grad is not None for p in [*einc_grad.parameters(), *beside.parameters()])


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.whole)])
def test_a_compiled_graph_tells_in_its_second_half(backend: str) -> None:
    layer, x = made(ONE.replace("Σ_{s ≤ t} exp(x_s^d M_d)", "x_t^d M_d")).module(D=3), torch.randn(5, 3)
    compiled = torch.compile(lambda x: residual(layer, x), fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), residual(layer, x))
    with pytest.raises(RuntimeError, match=TOLD):
        compiled(x.clone().requires_grad_()).sum().backward()
    with torch.no_grad():
        assert not compiled(x).requires_grad


def test_what_torch_makes_of_a_function() -> None:
    """Exported, mapped, copied, checkpointed."""
    layer, x = SINGLE.module(D=3), torch.randn(5, 3)
    want = layer(x)
    for strict in (True, False):
        assert torch.equal(export(layer, (x,), strict=strict).module()(x), want)
    several = torch.stack([x, x + 1])
    mapped = torch.func.vmap(layer)(several)
    torch.testing.assert_close(mapped, torch.stack([layer(one) for one in several]))
    with pytest.raises(RuntimeError, match=TOLD):
        mapped.sum().backward()
    with pytest.raises(RuntimeError, match=TOLD):
        torch.func.grad(lambda x: layer(x).sum())(x)
    copied = copy.deepcopy(layer)
    assert torch.equal(copied(x), want) and copied.M is not layer.M
    again = checkpoint(layer, x, use_reentrant=False)
    assert torch.equal(again, want)
    with pytest.raises(RuntimeError, match=TOLD):
        again.sum().backward()


def test_a_step_that_serves_says_it_too() -> None:
    served = einc.compile(ONE, plan="serve")
    given_ = {"x": GIVEN["x"], "M": GIVEN["M"].clone().requires_grad_()}
    y, kept = served.prefill(**given_)
    with pytest.raises(RuntimeError, match=TOLD):
        y.sum().backward()
    assert not any(rows.store.requires_grad for rows in kept.kept.values() if rows.store is not None)
    assert served(kept, **given_).grad_fn is not None


# pickles

HERE = made(grad=True)


class Mine(HERE.module):  # type: ignore[misc, name-defined]
    """A class in a file of one's own."""


@pytest.mark.parametrize("save", [pickle.dumps, lambda x: torch.save(x, io.BytesIO()), pickle._dumps])
@pytest.mark.parametrize("name", ["function", "module", "class", "inside"])
def test_what_stands_in_no_file_is_not_pickled(name: str, save: Any) -> None:
    """The error says what to do; reading a pickle would have to execute emitted text."""
    layer = HERE.module(D=3)
    what = {"function": HERE, "module": layer, "class": HERE.module,
            "inside": torch.nn.Sequential(torch.nn.Linear(3, 3), layer)}
    with pytest.raises(pickle.PicklingError,
                       match="stands in no file that a pickle could name: write it to one with einc compile"):
        save(what[name])


def test_what_can_be_saved_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, a class in a file, one's own class; and copies are copies."""
    layer, x = HERE.module(D=3), torch.randn(5, 3)
    want, file = layer(x), io.BytesIO()
    torch.save(layer.state_dict(), file)
    other = HERE.module(D=3)
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    (tmp_path / "own_layer.py").write_text(HERE.source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    written = import_module("own_layer").Text(D=3)
    written.load_state_dict(layer.state_dict())
    mine = Mine(D=3)
    mine.load_state_dict(layer.state_dict())
    found = [other, *(pickle.loads(pickle.dumps(x)) for x in (written, mine)), copy.deepcopy(layer), copy.copy(layer)]
    assert all(torch.equal(one(x), want) for one in found)
    assert copy.deepcopy({"f": HERE})["f"] is HERE is copy.copy(HERE)
