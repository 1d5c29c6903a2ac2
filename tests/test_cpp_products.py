"""Products of few rows of data with matrices of few bits, which compiled kernels read once as they lie."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from cpp_driver import checked, recorded
from cpp_texts import NEEDED
from helpers import Function, called, meaning, pairs_in_turn, typed
from test_bytes_in_kernels import WAYS
from test_cpp_driver import ARM, EMULATOR, by_library, sanitized

import einc
from einc.driver import front
from einc.driver.commands import data
from einc.ir.programs import Program

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

WORDS = {"int4": (-8, 8), "int8": (-128, 128), "e4m3": (-8, 9), "e5m2": (-4, 5)}
LETTERS = "abcdefghijklm"
Sizes = dict[str, int]
SIZES = (1, 2, 3, 5, 8, 17, 33)


def drawn(seed: int) -> tuple[Program, list[Sizes]]:
    """A product of some rows, with scales of blocks or without; the matrix has its letters in any order, some of which
    are one axis."""
    turn = random.Random(seed)
    names = iter(LETTERS)
    outer, rows, blocks, terms, columns = ([next(names) for _ in range(n)] for n in (
        turn.choice((0, 0, 1)), turn.choice((1, 1, 2)), turn.choice((0, 1, 1)), 1, turn.choice((1, 1, 2))))
    matrix = [*outer, *blocks, *terms, *columns]
    turn.shuffle(matrix)
    at = turn.randrange(len(matrix))
    together = matrix[at : at + 2] if len(matrix[at : at + 2]) == 2 and turn.random() < 0.6 else []
    slots = [[letter] for letter in matrix if letter not in together]
    if together:
        slots.insert(at, together)
    x, scales = [*outer, *rows, *blocks, *terms], [*blocks, *(c for c in (*outer, *columns) if turn.random() < 0.8)]
    for letters in (x, scales):
        turn.shuffle(letters)
    made = [*outer, *rows, *columns]
    turn.shuffle(made)

    def read(letters: list[str]) -> str:
        return f"^{{{' '.join(f'({letter})' for letter in letters)}}}" if letters else ""

    lines = [f"index {letter} : feature({letter.upper()})" for letter in LETTERS[: len(matrix) + len(rows)]]
    if together:
        lines.append(f"index z : feature({' '.join(c.upper() for c in together)}) = ({' '.join(together)})")
    held = [["z"] if slot == together else slot for slot in slots]
    word = turn.choice(list(WORDS))
    lines += [f"input x{read(x)}", f"input w{read([c for slot in held for c in slot])} : {word}"]
    inside = [f"({' '.join(slot)})" for slot in slots]
    w = f"w^{{{' '.join(inside)}}}"
    inner = f"Σ_{{{' '.join(terms)}}} x{read(x)} {w}"
    if blocks:
        lines.append(f"input σ{read(scales)}")
        inner = f"Σ_{{{' '.join(blocks)}}} σ{read(scales)} {inner}"
    lines.append(f"output y{read(made)} = {inner}")
    program = typed("\n".join(lines) + "\n")
    most = {**dict.fromkeys(rows, 3), **dict.fromkeys(outer, 3)}
    return program, [{letter.upper(): min(turn.choice(SIZES), most.get(letter, 99))
                      for letter in (*matrix, *rows)} for _ in range(2)]


def exact(program: Program, sizes: Sizes, seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Whole numbers of which every sum is exact, and scales that are powers of two."""
    turn = torch.Generator().manual_seed(seed)
    given = data.randoms(program, sizes, "float32", seed)
    for tensor in program.inputs():
        shape = [int(slot.set.extent.at(sizes)) for slot in tensor.slots]
        if tensor.element.narrow is not None:
            numbers = torch.randint(*WORDS[tensor.element.word], shape, generator=turn)
            given[tensor.key] = (einc.in_bytes(numbers) if tensor.element.shared
                                 else numbers.to(torch.float32).to(given[tensor.key].dtype))
            if tensor.element.shared and shape[-1] % 2:
                given[tensor.key][..., -1] |= 0x50  # what lies behind the last number counts for nothing
        elif tensor.key == "sigma":
            given[tensor.key] = torch.exp2(torch.randint(-2, 3, shape, generator=turn).to(dtype))
        else:
            given[tensor.key] = torch.randint(-3, 4, shape, generator=turn).to(dtype)
    return given


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(n, marks=pytest.mark.whole) for n in range(2, 40))])
def test_drawn_products_are_exact(seed: int) -> None:
    """Bit for bit the interpreter's numbers, whatever the letters and their order are."""
    program, some = drawn(seed)
    run = front.built(program, backend="cpp")
    assert "PRODUCT(" in run.source
    for sizes in some:
        given = exact(program, sizes, seed)
        want = meaning(program, {key: data.exact(x) for key, x in given.items()}, sizes)["y"]
        assert np.array_equal(called(run, program, given, sizes)["y"].double().numpy(), want), sizes


LAYOUTS = {
    "columns side by side": "w_f^e : {}\nweight ω^{{(b) e}}\n"
                            "output Y_t^e = Σ_b ω^{{(b) e}} Σ_u X_t^{{(b u)}} w_{{(b u)}}^e",
    "terms side by side": "w_e^f : {}\nweight ω_e^{{(b)}}\n"
                          "output Y_t^e = Σ_b ω_e^{{(b)}} Σ_u X_t^{{(b u)}} w_e^{{(b u)}}",
}
HEAD = "index t : time(T)\nindex b : feature(N)\nindex u : feature(P)\nindex f : feature(N P) = (b u)\n" \
       "index e : feature(D)\ninput X_t^f\nweight "
SHAPES = [{"T": 1, "N": 3, "P": 32, "D": 300}, {"T": 7, "N": 2, "P": 33, "D": 131}, {"T": 4, "N": 1, "P": 700, "D": 5},
          {"T": 2, "N": 5, "P": 1, "D": 129}, {"T": 33, "N": 2, "P": 3, "D": 7}]


def built(layout: str, word: str) -> tuple[Program, Function]:
    program = typed(HEAD + LAYOUTS[layout].format(word))
    return program, front.built(program, backend="cpp")


@pairs_in_turn("word, layout", WORDS, LAYOUTS, every=4)
def test_products_run_compiled(word: str, layout: str) -> None:
    program, run = built(layout, word)
    for sizes in SHAPES:
        given = data.randoms(program, sizes, "float32", 3)
        want = meaning(program, {key: data.exact(x) for key, x in given.items()}, sizes)["Y"]
        got = called(run, program, given, sizes)["Y"].double().numpy()
        assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max(), sizes
        assert run.ran == {"k0": sizes["T"] <= 32}, sizes


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_that_do_not_lie_one_after_the_other(layout: str) -> None:
    """Every second row of a larger tensor that begins in it somewhere, and rows of data and scales likewise."""
    program, run = built(layout, "int4")
    sizes = SHAPES[1]
    given = exact(program, sizes, 4)
    want = called(run, program, given, sizes)["Y"]
    for key in given:
        x = given[key]
        wider = torch.full((2 * x.shape[0] + 1, x.shape[1] + 3), 3, dtype=x.dtype)
        wider[1::2, 2:-1] = x
        given[key] = wider[1::2, 2:-1]
    assert torch.equal(called(run, program, given, sizes)["Y"], want) and run.ran == {"k0": True}
    bytes_ = given["w"].T.contiguous().T  # neither columns nor terms lie side by side
    assert torch.equal(called(run, program, {**given, "w": bytes_}, sizes)["Y"], want) and run.ran == {"k0": False}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_sums_are_larger_than_half_types_hold(dtype: torch.dtype, backend: str) -> None:
    text = HEAD + "w_f^e : int8\nweight ω^e\noutput Y_t^e = ω^e X_t^f w_f^e"
    given = {"X": torch.full((2, 896), 9.0), "w": torch.full((896, 5), 127), "omega": torch.full((5,), 1 / 1024)}
    run = einc.compile(text, backend=backend)
    y = run(X=given["X"].to(dtype), w=given["w"].to(torch.int8), omega=given["omega"].to(dtype), N=2, P=448)
    assert torch.equal(y, torch.full((2, 5), 9 * 127 * 896 / 1024).to(dtype))


def test_any_number_of_threads_makes_the_same() -> None:
    program, run = built("terms side by side", "int4")
    given = data.randoms(program, SHAPES[0], "float32", 5)
    before, made = torch.get_num_threads(), list[torch.Tensor]()
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        made.append(called(run, program, given, SHAPES[0])["Y"])
    torch.set_num_threads(before)
    assert all(torch.equal(made[0], one) for one in made[1:]) and run.ran == {"k0": True}


@pytest.mark.whole
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_machines_read_the_same(layout: str, word: str, way: str, tmp_path: Path) -> None:
    """No read outside of the bytes of a tensor."""
    arm = way == "four lanes"
    if (way == "sanitizers" and not sanitized()) or (arm and not (ARM and EMULATOR)):
        pytest.skip("there is no such compiler here")
    program, run = built(layout, word)
    with recorded(run) as calls:
        for sizes in SHAPES[:4]:
            called(run, program, data.randoms(program, sizes, "float32", 3), sizes)
    assert len(calls) == 4
    for some in by_library(calls):
        checked(tmp_path, run, some, list(WAYS[way]), [EMULATOR] if arm else [])


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_sums_of_the_data_are_larger_than_half_types_hold(backend: str) -> None:
    text = HEAD + "w_f^e, ω^e\noutput Y_t^e = ω^e X_t^f w_f^e"
    x, w = torch.full((2, 896), 9.0, dtype=torch.float16), torch.full((896, 5), 9.0, dtype=torch.float16)
    y = einc.compile(text, backend=backend)(X=x, w=w, omega=torch.full((5,), 1 / 64, dtype=torch.float16), N=2, P=448)
    assert torch.isfinite(y).all()
