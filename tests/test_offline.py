"""Kernels of the specs compiled without a device: every one compiles, and what each needs is there on the device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from inspect import unwrap

import pytest
import torch
import triton_modes
from helpers import arrays, assert_close, called, extent, meaning, plan_of, tensors, typed, typed_of
from programs import FILES, MODELS, Case
from test_backends import case
from triton_modes import interpreted, tiled

from bench import sass
from bench.rounded import ROWS as ROUNDED
from einc.backends.triton.load import load
from einc.backends.triton.offline import TARGETS, Binary, Launch, built, compiled, kernels, launches
from einc.driver import front
from einc.ir.elements import WIDE
from einc.ir.indices import classes

TARGET = TARGETS["sm_90"]
SIZES = {"T": 2048, "T_sum": 2048, "S": 2048, "U": 2048, "N": 2048, "V": 4096, "W": 256, "P": 512, "H": 8, "G": 2,
         "B": 2,
         "R": 2, "C": 1024, "M": 128, "E": 16, "L": 512, "n": 4, "d_model": 512, "d_ff": 1408, "d_c": 64, "d_h": 64,
         "r": 512,
         "r_Q": 384, "w": 32, "d_s": 1408, "H_I": 64, "d_I": 128, "d_x": 64, "m": 4, "J": 1024, "W_1": 256, "W_2": 64}
WIDTHS = ("d", "d_k", "d_v", "D")
BLOCKS = {"N": 32, "M": 32, "P": 64, "d_out": 1024}  # of numbers with one scale, and how many of them there are
STATES = ("N", "P")  # the sides of a state where an axis of features has them, and counts of positions elsewhere


def extents(one: Case, width: int) -> dict[str, int]:
    """The sizes of a spec: its widths are `width`, those of a state 64, the others are of the kind that it is for."""
    slots = [s.set for x in typed_of(one).inputs() for s in x.slots]
    sides = {name for s in slots if s.cls in classes(lambda row: row.width) for name in s.extent.sizes} & {*STATES}
    known = SIZES | (BLOCKS if one.name in ROUNDED else {})
    return {name: width if name in WIDTHS else 64 if name in sides else known[name] for name in one.sizes}


def shapes(one: Case, sizes: Mapping[str, int], dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    """Inputs that have no data."""
    out = {}
    for tensor in typed_of(one).inputs():
        shape = [extent(slot.set.extent, sizes) for slot in tensor.slots]
        out[tensor.key] = torch.empty(shape, dtype=torch.int64 if tensor.integer else dtype, device="meta")
    return out


@cache
def started(one: Case, width: int, parts: int = 1) -> list[Launch]:
    """What a call of the spec starts, at sizes of the kind that it is for."""
    sizes = extents(one, width)
    return launches(front.emit(plan_of(one), "triton"), plan_of(one).name, shapes(one, sizes), sizes, TARGET, parts)


def multiplies(launch: Launch) -> bool:
    return "tl.dot(" in launch.function.src


MADE: dict[str, Binary] = {}  # kernels with one text are compiled once


def binary(launch: Launch) -> Binary:
    if launch.key not in MADE:
        ((_, made),) = built([launch], TARGET)
        assert isinstance(made, Binary), made
        MADE[launch.key] = made
    return MADE[launch.key]


def test_numbers_of_the_host_have_64_bits() -> None:
    """Triton reads the annotation of a parameter; without one a number is of float32, in float64 kernels too."""
    function = load(front.emit(plan_of(case("sdpa")), "triton"), plan_of(case("sdpa")).name)
    (kernel,) = (x for name, x in unwrap(function).__globals__.items() if name.endswith("_kernel"))
    assert {p.name: p.annotation_type for p in kernel.params if p.name.startswith("scale")} == {"scale": "fp64"}


def test_no_product_of_float32_is_rounded_more_than_was_asked() -> None:
    """Triton takes some sums of products for products of matrices, whose operands it rounds to tf32: those have no
    precision in its intermediate text."""
    plan = front.gradient(typed_of(case("requests"))).backward
    sizes = {**case("requests").sizes, "T": 64}
    given = {t.key: torch.empty([extent(s.set.extent, sizes) for s in t.slots], device="meta") for t in plan.inputs}
    found = launches(front.emit(plan, "triton"), plan.name, given, {**sizes, "wanted": -1}, TARGET, 1)
    (launch,) = (one for one in found if "dV" in one.function.fn.__name__)
    products = re.findall(r"tt\.dot .*", str(binary(launch).asm["ttir"]))
    assert "tl.fma(" in launch.function.src and len(products) == 6
    assert all("inputPrecision = tf32x3" in one for one in products), products


@pytest.mark.whole
def test_what_is_wide_compiles_beside_half_precision() -> None:
    """A statistic that the caller gives, and one that the program makes, in float32 beside data in bfloat16."""
    program = typed_of(case("attention_backward"))
    tensors_ = {key: replace(tensor, element=WIDE if key == "lse" else tensor.element)
                for key, tensor in program.tensors.items()}
    plan = front.plan(replace(program, tensors=tensors_))
    assert [b.element for b in plan.buffers.values() if b.name in ("lse", "Delta")] == [WIDE, WIDE]
    made = kernels(plan, front.emit(plan, "triton"), {"T": 256, "H": 2, "d_k": 64}, "bfloat16", TARGET.name)
    elements = {value.dtype for one in made for value in one.launch.arguments if isinstance(value, torch.Tensor)}
    assert elements == {torch.bfloat16, torch.float32} and all(one.binary.spills == 0 for one in made)


FEW = """index t, s : time(T)
index d : feature(D)
input q_t^d : TYPE
input k_s^d : TYPE
input V_s^d, σ_s
mask L_{t s} : s ≤ t
L_{t s} = 1/√D q_t^d σ_s k_{s d}
output Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d"""


@pytest.mark.parametrize(("word", "unit"), [("int8", "IGMMA"), *(
    pytest.param(*row, marks=pytest.mark.whole) for row in (("e4m3", "QGMMA"), ("int4", "IGMMA")))])
@pytest.mark.parametrize("width", [64, pytest.param(128, marks=pytest.mark.whole)])
def test_products_of_few_bits_run_on_the_unit_for_them(word: str, unit: str, width: int) -> None:
    plan = front.plan(typed(FEW.replace("TYPE", word)))
    (made,) = kernels(plan, front.emit(plan, "triton"), {"T": 4096, "D": width}, "bfloat16", TARGET.name)
    assert made.binary.counts[unit] > 0 and (made.binary.spills == 0 or steady(made.binary))


BYTES = FEW.replace("q_t^d : TYPE", "q_t^d").replace("V_s^d, σ_s", "V_s^d : int4\ninput σ_s")


@pytest.mark.whole
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_numbers_come_out_of_bytes_in_registers(width: int, dtype: str) -> None:
    """Of two in a byte both are wanted where rows are loaded as they lie: no more registers than rows of bytes need."""
    plan = front.plan(typed(BYTES.replace("TYPE", "int4")))
    (made,) = kernels(plan, front.emit(plan, "triton"), {"T": 4096, "D": width}, dtype, TARGET.name)
    assert made.binary.counts["HGMMA"] > 0 and made.binary.spills == 0


LINEAR = """index t : time(T)
index f : feature(F)
index e : feature(D)
input X_t^f
weight LETTERS : int4
output Y_{t e} = Σ_f X_t^f w_READ"""


@pytest.mark.whole
@pytest.mark.parametrize("letters", ["w_f^e", "w_e^f"])
@pytest.mark.parametrize("rows", [1, 2048])
def test_weights_of_few_bits_are_widened_in_tiles(letters: str, rows: int) -> None:
    """For one row and for many; the weights lie along either axis."""
    plan = front.plan(typed(LINEAR.replace("LETTERS", letters).replace("w_READ", letters)))
    (made,) = kernels(plan, front.emit(plan, "triton"), {"T": rows, "F": 4096, "D": 4096}, "bfloat16", TARGET.name)
    assert made.binary.counts["HGMMA" if rows > 16 else "HMMA"] > 0 and made.binary.spills == 0


# One of each kind: bounds of every form, scans, sums, losses, choices, shared heads. The others run with `--whole`.
QUICK = """sdpa alibi gqa sliding_window documents softcap mla_rope cross_attention t5_bias retention
linear_cross_entropy moe sigmoid linear top_keys entropy_penalty two_domains variance prefix decode
layer_norm sinks_window dilated"""
SPILLS = "registers found no place in a product of matrices"
WHOLE = "a tile holds all positions: sums of what pairs have, or both windows of a pair"
ALONE = "a product of one tile, which no loop reads ahead for"
BROKEN = {"based": SPILLS, "simplicial": WHOLE, "stick_breaking": ALONE}


def specs() -> list[pytest.param]:
    marks = {name: [pytest.mark.xfail(strict=True, reason=why)] for name, why in BROKEN.items()}
    return [pytest.param(one, id=one.name, marks=marks.get(one.name, []) + [pytest.mark.whole] * (
            one.name not in QUICK.split())) for one in FILES if one.name not in MODELS]


def steady(made: Binary) -> bool:
    """Whether the loop over whole tiles keeps all in registers; what finds no place around it costs once a program."""
    found = sass.loops(made.disassembled)
    return bool(found) and "spill" not in min(found, key=lambda loop: loop.all).kinds


def suits(launch: Launch, made: Binary) -> None:
    """A product of matrices runs from registers and shared memory that are there, on the
    units for products of matrices."""
    assert made.shared <= TARGET.shared and made.registers <= 255
    if multiplies(launch):
        assert made.spills == 0 or steady(made), (made.kernel, launch.tile, made.spills)
        assert made.counts["HGMMA"] + made.counts["HMMA"] > 0
        assert made.counts["HGMMA"] > 0 or min(launch.tile.values()) < 64
        assert made.counts["LDGSTS"] > 0 or made.stages < 2


@pytest.mark.drawn(8)
@pytest.mark.parametrize("one", specs())
def test_every_kernel_compiles_and_suits_the_device(one: Case) -> None:
    for launch in started(one, 64):
        suits(launch, binary(launch))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["gqa", "decode", *(pytest.param(name, marks=pytest.mark.whole)
                                                     for name in ("sage1", "sage2", "fp8_attention"))])
def test_wider_heads_suit_the_device(name: str) -> None:
    for launch in started(case(name), 128):
        if multiplies(launch):
            suits(launch, binary(launch))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["decode", "gqa", "two_domains"])
def test_kernels_that_join_parts_suit_the_device(name: str) -> None:
    joins = [launch for launch in started(case(name), 64, parts=4) if launch.kernel.endswith("_join")]
    assert joins
    for launch in joins:
        suits(launch, binary(launch))


@pytest.mark.drawn(6)
@pytest.mark.parametrize(("name", "heads", "page"), [
    ("gqa", 8, 0), ("gqa", 8, 16), ("mla_rope", 8, 0), ("mla_rope", 8, 16),
    pytest.param("mla_rope", 128, 0, marks=pytest.mark.xfail(strict=True, reason="the tile that an H100 showed to be "
                 "fastest for latents without a rotary part spills, here more than there")),
    ("sliding_window", 8, 0),
])
def test_a_step_over_a_cache_suits_the_device(name: str, heads: int, page: int) -> None:
    """One position after many: heads fill the rows of a tile, programs that share the
    pass are joined, pages are read in place."""
    one, made = case(name), front.generation(typed_of(case(name)), front.choices(own=True, backend="triton"))
    sizes = extents(one, 64) | {"H": heads}
    first, new = shapes(one, sizes), shapes(one, {**sizes, "T": 1})
    found = launches(front.emit(made, "triton"), "step", new, sizes, TARGET, parts=8, first=first, page=page)
    passes = [launch for launch in found if multiplies(launch)]
    joins = [launch for launch in found if launch.kernel.endswith("_join")]
    assert all(launch.named["PAGE"] == page for launch in passes)
    assert len(passes) == len(joins) == 1 and passes[0].programs == 8 * joins[0].programs
    for launch in (*passes, *joins):
        suits(launch, binary(launch))


# what is compiled


TINY = {"B": 1, "H": 2, "T": 64, "d_k": 16}


def tiny(target: str = "sm_90", width: int = 16, dtype: torch.dtype = torch.bfloat16) -> list[Launch]:
    sizes = {**TINY, "d_k": width}
    return launches(front.emit(plan_of(case("sdpa")), "triton"), "sdpa", shapes(case("sdpa"), sizes, dtype), sizes,
                    TARGETS[target])


@pytest.mark.parametrize("target", [pytest.param(x, marks=[pytest.mark.whole] * (x == "gfx942")) for x in TARGETS])
def test_every_target(target: str) -> None:
    """A product stands on the units for it, wherever the file is to run."""
    units = {"sm_80": "HMMA", "sm_90": "HGMMA", "sm_100": "UTCHMMA", "gfx942": "v_mfma"}
    ((launch, made),) = built(tiny(target, 64), TARGETS[target])
    assert isinstance(made, Binary), made
    assert (made.target, made.kernel) == (target, "Y") and launch.programs == 1 * 2
    assert made.counts[units[target]] + made.counts.get("HMMA", 0) > 0 and 0 < made.registers <= 512
    assert made.shared <= TARGETS[target].shared
    assert ("amdgcn" in made.asm) == (target == "gfx942") and ("cubin" in made.asm) != (target == "gfx942")


def test_equal_texts_have_one_key() -> None:
    """Names and what a kernel says of itself make no difference; types, tiles and the text do."""
    (first,), (again,), (wider,), (single,) = tiny(), tiny(), tiny(width=32), tiny(dtype=torch.float32)
    assert first.key == again.key
    assert len({first.key, wider.key, single.key}) == 3
    renamed = front.emit(plan_of(case("sdpa")), "triton").replace("Σ", "sum")
    renamed = re.sub(r"\bN\b", "total", renamed)
    (other,) = launches(renamed, "sdpa", shapes(case("sdpa"), TINY), TINY, TARGET)
    assert other.key == first.key


def test_strides_are_those_of_the_call() -> None:
    """What no vector can load makes another kernel, as it does on the device."""
    sizes = {**TINY, "d_k": 16}
    usual = shapes(case("sdpa"), sizes)
    odd = {name: torch.empty(1, 2, 64, 17, dtype=x.dtype, device="meta")[..., :16] for name, x in usual.items()}
    source = front.emit(plan_of(case("sdpa")), "triton")
    (one,), (other,) = (launches(source, "sdpa", given, sizes, TARGET) for given in (usual, odd))
    assert one.key != other.key


@pytest.mark.parametrize("name", ["linear", "variance"])
@pytest.mark.parametrize("steps", [1, 64])
def test_offsets_of_64_bits_compile(name: str, steps: int) -> None:
    """Types that go round a loop stay what they are; an extent of 1 is a constant of the text."""
    one = case(name)
    sizes = {**one.sizes, "T": steps}
    nested = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"  # what stands in the parentheses of a call
    source = re.sub(rf"OFFSET=_offset\({nested}\)", "OFFSET=tl.int64", front.emit(plan_of(one), "triton"))
    assert "OFFSET=tl.int64" in source
    for _, made in built(launches(source, plan_of(one).name, shapes(one, sizes), sizes, TARGET), TARGET):
        assert isinstance(made, Binary), made


def test_what_does_not_fit_is_refused() -> None:
    inputs = shapes(case("sdpa"), TINY)
    with pytest.raises(ValueError, match="K has shape"):
        compiled(front.emit(plan_of(case("sdpa")), "triton"), "sdpa", {**inputs, "K": inputs["K"][..., :3]}, TINY,
                 TARGET)


def test_errors_of_the_compiler_are_told() -> None:
    source = front.emit(plan_of(case("sdpa")), "triton").replace("tl.exp2(", "tl.no_such(")
    ((_, found),) = built(launches(source, "sdpa", shapes(case("sdpa"), TINY), TINY, TARGET), TARGET)
    assert isinstance(found, Exception) and "no_such" in str(found)
    with pytest.raises(Exception, match="no_such"):
        compiled(source, "sdpa", shapes(case("sdpa"), TINY), TINY, TARGET)


def test_compiling_and_interpreting_take_turns() -> None:
    """One process does both, any number of times; in the interpreter nothing is compiled."""
    one, source = case("sdpa"), front.emit(plan_of(case("sdpa")), "triton")
    inputs = arrays(typed_of(one), one.sizes, {})
    for width in (16, 32):
        ((_, made),) = built(tiny(width=width), TARGET)
        assert isinstance(made, Binary)
        with interpreted():
            got = called(tiled(source, "sdpa"), typed_of(one), tensors(inputs), one.sizes)
            assert_close(got, meaning(typed_of(one), inputs, one.sizes), 1e-9)
            with pytest.raises(RuntimeError, match="TRITON_INTERPRET"):
                tiny()


# half precision in the interpreter


HALF = """
import torch
import triton
import triton.language as tl

@triton.jit
def _kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, a + b)
    tl.store(out + N + at, a * b)
    tl.store(out + 2 * N + at, tl.where(a < b, -a, tl.abs(b)))
    tl.store(out + 3 * N + at, tl.maximum(a, b))
    tl.store(out + 4 * N + at, tl.exp(a.to(tl.float32)).to(tl.bfloat16))
    tl.store(out + 5 * N + at, tl.zeros((N,), tl.bfloat16) + tl.max(a, 0))
    square = tl.reshape(a, (16, 16))
    tl.store(out + 6 * N + at, tl.reshape(tl.dot(square, square), (N,)).to(tl.bfloat16))

def half(x, y):
    out = torch.empty(7, x.numel(), dtype=x.dtype)
    _kernel[(1,)](x, y, out, x.numel())
    return out
"""


def test_the_interpreter_computes_in_half_precision_as_torch_does() -> None:
    x, y = (torch.randn(256, generator=torch.Generator().manual_seed(n)).bfloat16() for n in (0, 1))
    with interpreted():
        got = tiled(HALF, "half")(x, y)
    square = x.view(16, 16).float()
    want = [x + y, x * y, torch.where(x < y, -x, y.abs()), torch.maximum(x, y), x.float().exp().bfloat16(),
            x.max().expand(256)]
    for mine, its in zip(got, [*want, (square @ square).flatten().bfloat16()], strict=True):
        torch.testing.assert_close(mine, its, rtol=2**-7, atol=2**-7)
    assert all(torch.equal(mine, its) for mine, its in zip(got, want[:4], strict=False))


def test_a_file_refuses_what_the_interpreter_computes_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Triton has it the interpreter computes with the bits of bfloat16; where that is put right, a file runs."""
    one, source = case("sdpa"), front.emit(plan_of(case("sdpa")), "triton")
    given = arrays(typed_of(one), one.sizes, {})
    half, wide = (tensors(given, dtype) for dtype in (torch.bfloat16, torch.float32))
    with interpreted():
        got = called(tiled(source, "sdpa"), typed_of(one), half, one.sizes)
    assert_close({key: x.double() for key, x in got.items()}, meaning(typed_of(one), given, one.sizes), 0.05)
    monkeypatch.setattr(triton_modes, "_half_precision", lambda: None)
    with interpreted():
        function = tiled(source, "sdpa")
        with pytest.raises(TypeError, match=r"Triton's interpreter, .* computes wrongly in it: give float32"):
            called(function, typed_of(one), half, one.sizes)
        called(function, typed_of(one), wide, one.sizes)


def test_sums_over_sorted_rows_are_laid_out_without_data() -> None:
    """Only their shapes are known; the kernels beside them compile."""
    text = (
        "index t : time(T)\nindex v : vocab(0..V-1)\nindex f, k : feature(D)\ninput X_t^f, Z_t^f\ninput w_t : int\n"
        "output y_v^f = Σ_{t, w_t = v, t > 2} tanh(X_t^f) : all\noutput z_v^{f k} = Σ_{t, w_t = v} X_t^f Z_t^k : all"
    )
    plan = front.plan(typed(text))
    assert kernels(plan, front.emit(plan, "triton"), {"T": 64, "V": 9, "D": 16}, "bfloat16", TARGET.name)
