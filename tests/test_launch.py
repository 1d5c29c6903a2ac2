"""How kernels of emitted Triton files are started, without a device: what a repeated call does, what a call of other
sizes compiles, and that the host never waits for the device, so that a graph can capture the call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from helpers import plan_of
from programs import FILES, Case
from test_backends import case
from test_offline import QUICK, extents, shapes

sys.path.append(str(Path(__file__).parent.parent))  # the bench is no part of the package

import einc
from bench import launch, offline, record
from bench.carried.cases import GQA_DECODE
from bench.cli import main
from bench.stub import Noted, SynchronisedError, path, refusing, space, stubbed
from einc.backends.host.runtime import checks
from einc.backends.triton.load import load
from einc.backends.triton.offline import TARGETS
from einc.backends.triton.record import hold
from einc.driver import front

HALF = torch.bfloat16


def emitted(one: Case) -> Callable[..., Any]:
    plan = plan_of(one)
    return load(front.emit(plan, "triton"), plan.name)


@pytest.fixture
def decode() -> Callable[..., Any]:
    module = einc.compile(GQA_DECODE, backend="triton", own=True)
    return load(module.source, module.plan.name)


def over(past: int, width: int = 128) -> dict[str, torch.Tensor]:
    return {"Q": torch.zeros(1, 32, 1, width, dtype=HALF), "K": torch.zeros(1, 8, past, width, dtype=HALF),
            "V": torch.zeros(1, 8, past, width, dtype=HALF)}


# a repeated call


def test_a_repeated_call_looks_up_and_launches(decode: Callable[..., Any]) -> None:
    """Nothing is chosen again; what the kernel is given is the same but for the addresses."""
    names, asked = space(decode), list[str]()
    choose, spread = names["_tile"], names["_parts"]

    def tile(name: str, *rest: Any, **named: Any) -> Any:
        asked.append(name)
        return choose(name, *rest, **named)

    def parts(*given: Any) -> Any:
        asked.append("parts")
        return spread(*given)

    names |= {"_tile": tile, "_parts": parts}
    with stubbed(decode) as noted:
        decode(**over(4096))
        first, told = list(noted.launched), list(asked)
        decode(**over(4096))
    assert told == asked == ["Y", "parts"]
    assert [one.kernel for one in first] == ["_Y_kernel", "_Y_join"] and len(noted.launched) == 4
    for one, again in zip(first, noted.launched[2:], strict=True):
        assert one.grid == again.grid
        numbers = [[x for x in launch.arguments if not isinstance(x, torch.Tensor)] for launch in (one, again)]
        assert numbers[0] == numbers[1] and len(numbers[0]) > 10
    assert len(noted.binaries) == 2


def test_what_is_kept_goes_by_layout_type_and_precision(decode: Callable[..., Any]) -> None:
    """The same sizes with other strides, of another type or of another precision are another start."""
    given = over(256)
    turned = {**given, "K": given["K"].mT.contiguous().mT}
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        with stubbed(decode) as noted:
            decode(**given)
            decode(**turned)
            decode(**{name: x.half() for name, x in given.items()})
            decode(**{name: x.float() for name, x in given.items()})
            torch.backends.cuda.matmul.allow_tf32 = not before
            decode(**{name: x.float() for name, x in given.items()})
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    main = [one.arguments for one in noted.launched if one.kernel == "_Y_kernel"]
    assert [sorted(x[9:13]) for x in main[:2]] == [sorted(x["K"].stride()) for x in (given, turned)]
    assert len({tuple(map(str, x[5:])) for x in main}) == len(main) == 5
    assert {"tf32", "tf32x3"} <= {str(x) for one in main for x in one}


def test_other_tiles_are_taken_from_then_on(decode: Callable[..., Any]) -> None:
    """What tuning found takes the place of what earlier calls found."""
    tiles = {("Y", 4, 4096): (16, 32, 8, 3)}  # four heads of one query share their keys
    with stubbed(decode) as noted:
        decode(**over(4096))
        hold(space(decode), tiles)
        decode(**over(4096))
        hold(space(decode), dict(tiles))
        decode(**over(4096))
    blocks = [one.arguments[-8:-4] for one in noted.launched if one.kernel == "_Y_kernel"]
    assert blocks[0] != blocks[1] == blocks[2], blocks


@pytest.mark.parametrize("name", ["causal", "decode-gqa"])
def test_ours_is_less_than_half_of_a_launch(name: str) -> None:
    """Counted in instructions of Python, which no other process disturbs."""
    ((row,), (again,)) = (list(launch.measured([name], 0)) for _ in range(2))
    assert row == again and "figures" not in row
    assert row["instructions"] <= launch.AIM * row["triton_instructions"], row
    assert row["calls"] <= launch.AIM * row["triton_calls"], row


def test_the_command_counts_and_keeps(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["launch", "--case", "causal", "--rounds", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "The aim is ours" in done.output
    (row,) = record.read(tmp_path / "launch.jsonl")
    assert row["launches"] == 1 and row["figures"]["ratio"] > 0


# growth


def binaries(noted: Noted) -> list[str]:
    return [name for name, _ in noted.binaries]


def test_a_past_that_grows_compiles_nothing_anew(decode: Callable[..., Any]) -> None:
    """From 1 to 4,096 positions: a kernel for tiles of 16, 32 and 64 of them, and once there are enough for several
    programs a kernel that shares its pass, and the one that joins: Triton's own keys, five in all."""
    seen, memory = dict[int, list[str]](), over(4096)
    with stubbed(decode) as noted:
        for past in range(1, 4097):
            before = len(noted.binaries)
            decode(Q=memory["Q"], K=memory["K"][:, :, :past], V=memory["V"][:, :, :past])
            if len(noted.binaries) > before:
                seen[past] = binaries(noted)[before:]
    assert seen == {1: ["_Y_kernel"], 17: ["_Y_kernel"], 33: ["_Y_kernel"], 513: ["_Y_kernel", "_Y_join"]}


@pytest.mark.parametrize("page", [0, 16])
def test_steps_over_a_cache_compile_nothing_anew(page: int) -> None:
    module = einc.compile("gqa", backend="triton", own=True, plan="serve")
    step = load(module.source, "step")
    names = space(step)
    width = {"W_Q": (8, 64, 64), "W_O": (8, 64, 64), "W_K": (2, 64, 64), "W_V": (2, 64, 64)}
    weights = {name: torch.zeros(shape, dtype=HALF) for name, shape in width.items()}
    seen = dict[int, list[str]]()
    with stubbed(step) as noted:
        _, cache = names["prefill"](X=torch.zeros(40, 64, dtype=HALF), **weights,
                                    **({"pool": names["Pool"](60, page)} if page else {}))
        for past in range(40, 700):
            before = len(noted.binaries)
            names["step"](cache, X=torch.zeros(1, 64, dtype=HALF), **weights)
            if len(noted.binaries) > before:
                seen[past] = binaries(noted)[before:]
    assert set(seen) == {40, 512} and seen[512] == ["_Y_kernel", "_Y_join"], seen


def test_what_a_kernel_is_compiled_for_is_what_decides_its_loads() -> None:
    """The extent of a last axis: of others, no number is known to the compiler."""
    for name in ("layer_norm", "sdpa", "gqa"):
        for text in front.emit(plan_of(case(name)), "triton").split("\n@triton.jit")[1:]:
            grown = text[: text.index("\n")]
            if name == "layer_norm":
                assert '"d_model"' not in grown and "T" in grown
    with stubbed(function := emitted(case("layer_norm"))) as noted:
        for rows in (1, 2, 15, 16, 17, 4096):
            function(**{key: torch.zeros(x.shape, dtype=HALF) for key, x in
                        shapes(case("layer_norm"), {"T": rows, "d_model": 512, "D": 512}).items()})
    assert len({key for _, key in noted.binaries}) == len(noted.binaries)


# nothing waits for the device


# What an expert computes has as many rows as data says, and the host reads how many.
WAITS = ("moe", "moe_shared", "moe_swiglu", "deepseek_moe")
# What torch says of a tensor without data that is read, and the stub of copies.
REFUSED = (SynchronisedError, NotImplementedError, RuntimeError, TypeError)
LARGE = {"cope", "selective_attention", "simplicial"}  # a tile holds all positions


def test_what_would_wait_is_refused_and_torch_stays_what_it_is() -> None:
    """torch.compile makes a table of the functions of torch, once: one that stands in for another for a while would
    be in it for good."""
    own = torch.tensor
    with refusing(TARGETS["sm_90"]):
        assert torch.tensor is own and torch.tensor([1.0]).device.type == "meta"
        with pytest.raises(SynchronisedError, match="copies from the host"):
            torch.tensor([1.0], device="cuda")
        with pytest.raises(SynchronisedError, match="copies between"):
            torch.zeros(2, device="cpu").to("meta")
        with pytest.raises(SynchronisedError, match="waits"):
            torch.cuda.synchronize()


def specs(quick: str) -> list[pytest.param]:
    return [pytest.param(one, id=one.name, marks=[pytest.mark.whole] * (one.name not in quick.split()))
            for one in FILES]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("one", specs(f"{QUICK} packed rope rope_2d deepseek_moe embedding decoder_lm"))
def test_the_host_never_waits_for_the_device(one: Case) -> None:
    sizes = extents(one, 64)
    if one.name in LARGE:
        sizes |= {name: 48 for name in sizes if name in ("T", "S", "U", "N")}
    function, given = emitted(one), shapes(one, sizes)
    if one.name in WAITS:
        with pytest.raises(REFUSED):
            path(function, given, sizes)
    else:
        assert path(function, given, sizes) or "_kernel[" not in front.emit(plan_of(one), "triton")


LONG = "at the sizes of the bench a row of all blocks, which a tile holds whole, finds no room"
BROKEN = {"memory_layer": "at the sizes of the bench a row of all keys, which a tile holds whole, finds no room",
          "fp8_step": LONG, "shaw": "at the sizes of the bench a tile that holds all distances finds no room"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[
    *[pytest.mark.whole] * (name not in ("sdpa", "layer_norm")),
    *[pytest.mark.xfail(strict=True, reason=BROKEN[name]) for _ in range(name in BROKEN)]]) for name in offline.SPECS])
def test_no_gradient_waits_for_the_device(name: str) -> None:
    try:
        module = einc.compile(offline.SPECS[name], backend="triton", own=True, grad=True)
    except einc.EincError:
        pytest.skip("has no gradient")
    if not hasattr(module.plan, "backward"):
        pytest.skip("is several pairs")
    for half, entry in ((module.plan.forward, "_forward"), (module.plan.backward, "_backward")):
        sizes = offline.sizes(half.sizes, 64)
        function = load(module.source, entry)
        if name in WAITS:
            continue
        path(function, offline.given(half, sizes), {**sizes, "wanted": -1})


def test_the_stub_refuses_what_waits() -> None:
    """Every way in which Python code waits for a device is an error of the stub."""
    x = torch.zeros(3, device="meta")

    def wait() -> None:
        torch.cuda.synchronize()

    ways: list[Callable[[], Any]] = [
        x.sum().item, x.tolist, x.cpu, x.numpy, x.nonzero, wait, lambda: x.to("cpu"),
        lambda: bool(x.any()), lambda: int(x.min()), lambda: float(x[0]), lambda: x[x > 0],
        lambda: torch.tensor([1, 2], device=x.device), lambda: torch.zeros(3, device="cpu").to(x.device),
        lambda: x.copy_(torch.zeros(3, device="cpu")),
    ]  # fmt: skip
    for n, way in enumerate(ways):
        with refusing(TARGETS["sm_90"]), pytest.raises(REFUSED):
            way()
            pytest.fail(f"way {n} is not refused")


def test_checks_of_elements_are_left_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """There they are statements of torch, which tell what is wrong when they run; on a CPU they raise at once."""
    told: list[tuple[bool, str]] = []
    monkeypatch.setattr(checks, "_told_later", lambda x: True)
    monkeypatch.setattr(torch, "_assert_async", lambda right, text: told.append((bool(right), text)))
    checks._within("x", torch.tensor([1, 4]), 1, 3)
    checks._within("x", torch.tensor([1, 3]), 1, 3)
    checks._within("x", torch.tensor([], dtype=torch.int64), 1, 3)
    checks._add_up("L", torch.tensor([1, 2]), 4)
    checks._add_up("L", torch.tensor([4, -1]), 3)
    checks._add_up("L", torch.tensor([1, 2]), 3)
    assert checks._reached("E_{x}", torch.tensor([0, 5]), 3).tolist() == [0, 2]
    assert [right for right, _ in told] == [False, True, True, False, False, True, False]
    assert told[0][1] == "x holds values that are not from 1 to 3"
    checks._within("x", torch.zeros(2, dtype=torch.int64, device="meta"), 1, 3)
    assert len(told) == 7
