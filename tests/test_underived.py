"""What was compiled without its gradient says so where it is differentiated, and all else stays as it was; a pickle of
what is compiled has the texts that it is compiled of.
"""

from __future__ import annotations

import copy
import io
import pickle
import pickletools
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
from einc.driver import checking, front, restoring

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


def loaded(thing: Any) -> Any:
    """What torch reads of what it has saved."""
    file = io.BytesIO()
    torch.save(thing, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("back", [lambda x: pickle.loads(pickle.dumps(x)), loaded,
                                  lambda x: pickle._loads(pickle._dumps(x))])
def test_what_is_compiled_is_compiled_again_from_a_pickle(back: Any) -> None:
    """A function, its class and a layer within others, with its weights and its gradient."""
    layer, x = HERE.module(D=3), torch.randn(5, 3)
    function, kind, inside = back(HERE), back(HERE.module), back(torch.nn.Sequential(torch.nn.Linear(3, 3), layer))
    assert function.source == HERE.source
    assert (function.origin.version, dict(function.origin.options)["grad"]) == (einc.__version__, True)
    assert torch.equal(inside[1](x), layer(x))
    assert kind(D=3).extra_repr() == "D=3"
    inside[1](x).sum().backward()
    assert inside[1].M.grad is not None
    again = pickle.loads(pickle.dumps(inside))
    assert torch.equal(again[1](x), layer(x))


def test_a_pickle_has_the_texts_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the files are gone, and others of their names are there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/base.ein").write_text(ONE, encoding="utf-8")
    (tmp_path / "sub/mine.ein").write_text('use "base"\n', encoding="utf-8")
    (tmp_path / "paper.md").write_text("# A\n\n$$ z_t = 2 x_t $$\n", encoding="utf-8")
    (tmp_path / "side.ein").write_text("index t : time(T)\ninput x_t\n", encoding="utf-8")
    x, M = torch.randn(5, 3), torch.randn(3)
    both = [einc.compile("sub/mine.ein"), einc.compile("paper.md", section="A", side="side.ein")]
    texts = pickle.dumps(both)
    want = both[0](x, M), both[1](x[:, 0])
    for file in ("sub/base.ein", "sub/mine.ein", "paper.md", "side.ein"):
        (tmp_path / file).unlink()
    (tmp_path / "base.ein").write_text("index t : time(T)\ninput x_t\noutput y_t = 0\n", encoding="utf-8")
    restoring.restored.cache_clear()
    spec, paper = pickle.loads(texts)
    assert torch.equal(spec(x, M), want[0])
    assert torch.equal(paper(x[:, 0]), want[1])
    assert str(tmp_path).encode() not in texts


def test_a_pickle_of_another_version_is_refused_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pickle.dumps(HERE)
    monkeypatch.setattr(restoring, "__version__", "9.9.9")
    with pytest.raises(einc.EincError, match=rf"saved by einc {einc.__version__}, and this is einc 9.9.9"):
        pickle.loads(text)


def test_nothing_of_a_pickle_is_executed() -> None:
    """It names one function of einc, which is given texts; those are checked as any text of the language is."""
    named = [arg for op, arg, _ in pickletools.genops(pickle.dumps(HERE, 2)) if op.name == "GLOBAL"]
    assert named == ["einc.driver.restoring restored"]
    text = pickle.dumps(HERE, 2).replace(b"output y", b"import y")
    with pytest.raises(einc.EincError):
        pickle.loads(text)


def test_torch_reads_one_where_weights_alone_are_read() -> None:
    """By default it refuses, and names the one function of einc that has to be allowed; with that it executes no
    other, and what stands in a module is its weights."""
    file, state = io.BytesIO(), io.BytesIO()
    torch.save({"f": HERE, "steps": 3}, file)
    torch.save(HERE.module(D=3).state_dict(), state)
    with pytest.raises(pickle.UnpicklingError, match=r"safe_globals\(\[einc\.driver\.restoring\.restored\]\)"):
        torch.load(io.BytesIO(file.getvalue()))
    with torch.serialization.safe_globals([restoring.restored]):
        found = torch.load(io.BytesIO(file.getvalue()))
    assert (found["f"].source, found["steps"]) == (HERE.source, 3)
    assert torch.load(io.BytesIO(state.getvalue()), weights_only=True).keys() == HERE.module(D=3).state_dict().keys()


def test_what_was_made_of_no_text_is_not_pickled() -> None:
    built = front.built(checking.typed(TEXT))
    with pytest.raises(pickle.PicklingError, match="write it to a file with einc compile -o"):
        pickle.dumps(built)


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
