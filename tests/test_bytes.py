"""Numbers of 4 bits, two in a byte: inputs and weights in three back ends, loaded, saved, counted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import called, meaning, typed
from safetensors.torch import load_file, save_file
from triton_modes import interpreted

import einc
from einc.backends.host.runtime.bytes import _from_bytes, _in_bytes
from einc.driver import compiling, front
from einc.driver.cli import main
from einc.driver.commands import data
from einc.driver.commands.sizes import asked
from einc.driver.options import Options
from einc.driver.timing import rivals
from einc.errors.report import EincError
from einc.ir.narrow import Narrow
from einc.ir.plan import Module, Repack
from einc.meaning import bytes as packing
from einc.planning.analysis.cost import size_of

HEAD = "index t : time(T)\nindex b : feature(N)\nindex u : feature(P)\nindex f : feature(N P) = (b u)\n" \
       "index e : feature(D)\ninput X_t^f\n"
USES = {
    "groups": "weight w_f^e : int4\nweight ω^{(b) e}\noutput Y_t^e = Σ_b ω^{(b) e} Σ_u X_t^{(b u)} w_{(b u)}^e",
    "groups of columns": "weight w_e^f : int4\nweight ω_e^{(b)}\n"
                         "output Y_{t e} = Σ_b ω_e^{(b)} Σ_u X_t^{(b u)} w_e^{(b u)}",
    "columns": "weight w_f^e : int4\nweight ω^e\noutput Y_t^e = ω^e X_t^f w_f^e",
    "rows": "weight w_e^f : int4\nweight ω_e\noutput Y_{t e} = ω_e X_t^f w_{e f}",
    "both few": "weight w_f^e : int4\ninput v_t^f : int4\nweight ω^e\noutput Y_t^e = ω^e v_t^f w_f^e + Σ_f X_t^f ω^e",
    "no product": "weight w_f^e : int4\nweight ω^e\noutput Y_t^f = X_t^f + Σ_e tanh(w_f^e / 8) ω^e",
    "a vector": "weight w_f : int4\nweight ω_e\noutput Y_t^e = Σ_f X_t^f w_f ω_e",
}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
@pytest.mark.parametrize("use", USES)
def test_what_is_stored_two_in_a_byte_is_read(use: str, backend: str) -> None:
    program = typed(HEAD + USES[use])
    run = front.built(program, backend=backend)
    for sizes in ({"T": 5, "N": 3, "P": 5, "D": 7}, {"T": 1, "N": 1, "P": 1, "D": 1}, {"T": 2, "N": 2, "P": 4, "D": 6}):
        given = data.randoms(program, sizes, "float32", 3)
        assert given["w"].dtype == torch.uint8
        want = meaning(program, {key: data.exact(x) for key, x in given.items()}, sizes)["Y"]
        got = called(run, program, given, sizes)["Y"].double().numpy()
        assert np.abs(got - want).max() <= 4e-6 * max(1, np.abs(want).max())


@pytest.mark.parametrize("word", ["int4", "int8", "e4m3"])
@pytest.mark.parametrize("use", [use for use in USES if use not in ("no product", "both few")])
def test_tiles_widen_what_a_product_reads(use: str, word: str) -> None:
    """Of a product of few bits with data no statement widens the few bits: its kernel for a GPU does, tile by tile.
    Where products of all blocks are more than the few bits themselves, they are made slice by slice instead."""
    source = front.emit(front.plan(typed((HEAD + USES[use]).replace("int4", word))), "triton")
    entry = source[source.index("@torch.no_grad()") : source.index("_kernel(\n")]
    entry = entry.split("\n    else:\n")[0]
    assert "_S_kernel" in entry and "einsum" not in entry.split("_S_kernel")[0]
    assert "_from_bytes" not in entry and "w.to(" not in entry


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("use", ["groups", "rows"])
def test_products_of_few_bits_in_other_types(use: str, dtype: str) -> None:
    program, sizes = typed(HEAD + USES[use]), {"T": 19, "N": 3, "P": 40, "D": 33}
    given = data.randoms(program, sizes, dtype, 3)
    want = meaning(program, {key: data.exact(x) for key, x in given.items()}, sizes)["Y"]
    got = called(front.built(program, backend="triton"), program, given, sizes)["Y"].double().numpy()
    assert np.abs(got - want).max() <= (1e-12 if dtype == "float64" else 2e-3) * np.abs(want).max()


def test_large_ones_are_read_slice_by_slice() -> None:
    """Slices that begin within a byte: an odd number of columns in each."""
    torch.manual_seed(5)
    codes, x, omega = torch.randint(-8, 8, (131, 300 * 65)), torch.randn(3, 300 * 65), torch.rand(131, 300)
    run = einc.compile(HEAD + USES["groups of columns"])
    y = run(X=x, w=einc.in_bytes(codes), omega=omega, P=65)
    want = torch.einsum("tbu,ebu,eb->te", x.double().unflatten(1, (300, 65)), codes.double().unflatten(1, (300, 65)),
                        omega.double())
    assert (y - want).abs().max() <= 4e-6 * want.abs().max()


def test_every_byte_is_two_numbers() -> None:
    pairs = torch.cartesian_prod(torch.arange(-8, 8), torch.arange(-8, 8))
    packed = einc.in_bytes(pairs)
    assert packed.shape == (256, 1) and packed.unique().numel() == 256
    assert torch.equal(einc.from_bytes(packed, 2).long(), pairs)
    assert torch.equal(einc.from_bytes(einc.in_bytes(pairs[:5].T), 5).long(), pairs[:5].T)
    run = einc.compile("index t : time(T)\nindex d : feature(2)\ninput x_t^d : int4\ninput y_t\n"
                       "output z_t^d = x_t^d + y_t")
    assert torch.equal(run(x=packed, y=torch.zeros(256)), pairs.float())


def test_a_slice_of_bytes_begins_at_either_half() -> None:
    numbers = torch.arange(-8, 3, dtype=torch.int8)
    packed = _in_bytes(numbers, 2)
    for first in range(5):
        for count in range(len(numbers) - first + 1):
            assert torch.equal(_from_bytes(packed, first, count, 2), numbers[first : first + count])


@pytest.mark.parametrize("each", [2, 4, 8])
def test_bytes_of_as_many_numbers_as_a_row_says(each: int) -> None:
    """The bytes of a file and those of the interpreter, beside numbers that Python writes in two's complement."""
    bits = 8 // each
    row = Narrow("few", bits - 1, bits - 1, -2 ** (bits - 1), 2 ** (bits - 1) - 1, "uint8", together=each)
    numbers = torch.randint(row.low, row.high + 1, (3, 13), generator=torch.Generator().manual_seed(each))
    packed = _in_bytes(numbers, each)
    assert packed.numpy().tolist() == packing.in_bytes(numbers.numpy(), row).tolist()
    for line, found in zip(numbers.tolist(), packed.tolist(), strict=True):
        text = "".join(format(x % 2**bits, f"0{bits}b") for x in reversed(line)).zfill(8 * len(found))
        assert [int(text[at : at + 8], 2) for at in range(len(text) - 8, -1, -8)] == found
    assert packing.from_bytes(packed.numpy(), 13, row).tolist() == numbers.tolist()
    for first in range(each + 1):
        assert torch.equal(_from_bytes(packed, first, 13 - first, each).long(), numbers[:, first:])


def test_bytes_of_nothing() -> None:
    program = typed(HEAD + USES["groups"])
    given = {"X": np.zeros((2, 0)), "w": np.zeros((0, 2), dtype=np.uint8), "omega": np.zeros((0, 3))}
    assert meaning(program, given, {"T": 2, "N": 0, "P": 4, "D": 3})["Y"].tolist() == [[0, 0, 0]] * 2


def test_other_arrays_are_told() -> None:
    run = einc.compile(HEAD + USES["columns"])
    x, omega = torch.ones(2, 4), torch.ones(3)
    with pytest.raises(TypeError, match=r"torch\.uint8 is expected: bytes, as einc\.in_bytes makes them"):
        run(X=x, w=torch.ones(4, 3, dtype=torch.int8), omega=omega, N=2, P=2)
    with pytest.raises(ValueError, match="w has shape"):
        run(X=x, w=torch.ones(4, 3, dtype=torch.uint8), omega=omega, N=2, P=2)
    for wrong in (torch.tensor([8]), torch.tensor([0.5]), torch.tensor(3)):
        with pytest.raises(EincError, match="whole numbers from -8 to 7"):
            einc.in_bytes(wrong)
    with pytest.raises(EincError, match="7 numbers do not lie in bytes"):
        einc.from_bytes(torch.zeros(3, dtype=torch.uint8), 7)


LINEAR = """index t : time(T)
index f : feature(F)
index e : feature(D)
input X_t^f
weight W_f^e
output Y_t^e = X_t^f W_f^e
plan few:
    products of W by int4 per row
"""


def test_weights_are_packed_once(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(LINEAR)
    (tmp_path / "a.toml").write_text('W = "up"\n')
    torch.manual_seed(3)
    x, w = torch.randn(3, 8), torch.randn(8, 5)
    made = einc.load_weights(tmp_path / "a.ein", {"up": w}, map=str(tmp_path / "a.toml"), plan="few")
    assert {key: (x.dtype, tuple(x.shape)) for key, x in made.items()} == {
        "W_int4": (torch.uint8, (8, 3)), "W_scale": (torch.float32, (5,))}
    save_file(made, tmp_path / "w.safetensors")
    rest = einc.compile(tmp_path / "a.ein", plan="few,rest")
    whole = einc.compile(tmp_path / "a.ein", plan="few")
    assert torch.equal(rest(X=x, **load_file(tmp_path / "w.safetensors")), whole(X=x, W=w))


def test_layers_have_bytes_of_their_own() -> None:
    program = typed("""index t : time(T)
index f, g : feature(D)
input x_t^f
y_t^f = x_t^f
for ℓ in 1..3:
    weight w_f^g : int4
    y_t^g ← tanh(y_t^f w_f^g / 8)
output z_t^f = y_t^f
""")
    given = data.randoms(program, {"T": 2, "D": 5}, "float32", 3)
    want = meaning(program, {key: data.exact(x) for key, x in given.items()}, {"T": 2, "D": 5})["z"]
    got = called(front.built(program), program, given, {"T": 2, "D": 5})["z"].numpy()
    assert given["w"].dtype == torch.uint8 and np.abs(got - want).max() <= 1e-5


def test_a_class_has_bytes() -> None:
    layer = einc.compile(HEAD + USES["columns"], module=True).module(N=2, P=3, D=5)
    assert layer.w.shape == (6, 3) and layer.w.dtype == torch.uint8 and layer.half().w.dtype == torch.uint8


def test_bytes_are_half_as_many() -> None:
    texts = [HEAD + USES["groups"].replace("int4", word) for word in ("int8", "int4")]
    plans = [compiling.planned(typed(text), Options()) for text in texts]
    counted = [size_of(plan.buffers["w"]) for plan in plans if isinstance(plan, Module)]
    assert [int(x.at({"N": 4, "P": 8, "D": 6})) for x in counted] == [192, 96]
    assert all(not isinstance(step, Repack) for plan in plans if isinstance(plan, Module) for step in plan.steps)


def test_a_cache_has_a_byte_for_each() -> None:
    text = """index t, s : time(T)
index d : feature(D)
input Q_t^d, K_s^d
k_s^d = int4(K_s^d)
mask L_{t s} : s ≤ t
L_{t s} = Q_t^d k_{s d}
output Y_t = Σ_s softmax_s(L_{t s}) k_s^1
plan serve:
    cache k
    store k as int4
"""
    with pytest.raises(EincError, match="`k` is kept of each position") as told:
        einc.compile(text, plan="serve")
    assert any(x.helps[0].text.endswith("`store k as int8`") for x in told.value.problems)
    serving = einc.compile(text.replace("store k as int4", "store k as int8"), plan="serve")
    _, cache = serving.prefill(Q=torch.randn(3, 4), K=torch.randn(3, 4))
    assert cache.kept["k"].store.dtype == torch.int8


def test_what_reads_bytes_as_numbers_is_refused_and_a_size_that_bytes_do_not_tell_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "few.ein"
    file.write_text(HEAD + "weight w_f^e : int4\noutput Y_t^e = X_t^f w_f^e\n", encoding="utf-8")
    told = CliRunner().invoke(main, ["to", "einsum", str(file)])
    assert told.exit_code == 1 and "several numbers of `w` lie in each byte" in told.output
    program = typed(file.read_text(encoding="utf-8"))
    assert rivals.eager(program).function is None and "D" in asked(program)


@pytest.mark.parametrize("wrong", [[1, 2], torch.tensor([True]), torch.tensor([1j]), torch.tensor(3),
                                   torch.tensor([8])])
def test_what_is_no_tensor_of_small_whole_numbers_is_refused(wrong: Any) -> None:
    with pytest.raises(EincError):
        einc.in_bytes(wrong)
    with pytest.raises(EincError):
        einc.from_bytes(wrong, 1)


def test_bytes_of_any_type_of_whole_numbers() -> None:
    for dtype in (torch.uint8, torch.int8, torch.int64, torch.float64):
        assert einc.from_bytes(einc.in_bytes(torch.tensor([1, 7, 5], dtype=dtype)), 3).tolist() == [1, 7, 5]


def test_one_graph_takes_bytes() -> None:
    """Contractions and kernels, under `torch.compile` with sizes that change."""
    run = einc.compile(HEAD + "weight w_f^e : int4\nweight ω^e\noutput Y_t^e = ω^e tanh(X_t^f w_f^e / 9)\n"
                       "output Z_f^e = ω^e tanh(w_f^e)")
    graph = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, columns in ((6, 5), (8, 7), (4, 2)):
        given = {"X": torch.randn(rows, rows), "omega": torch.randn(columns), "N": 2, "P": rows // 2,
                 "w": einc.in_bytes(torch.randint(-8, 8, (rows, columns)))}
        assert all(torch.equal(one, other) for one, other in zip(graph(**given), run(**given), strict=True))


@pytest.mark.whole
@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
def test_a_type_is_a_row(backend: str) -> None:
    """A type of which four numbers lie in a byte, in all texts above and in kernels, with nothing but its row."""
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, str(here / "one_more_type.py"), backend], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(here)}, check=False)
    assert done.stdout.splitlines()[-1:] == ["18 of 18"], done.stdout + done.stderr
