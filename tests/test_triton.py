"""The Triton back end under Triton's interpreter: the language's meaning at any sizes,
tiles, strides and element types."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from helpers import (
    Arrays,
    arrays,
    assert_close,
    called,
    distance,
    each,
    each_in_turn,
    examples,
    inputs_at,
    meaning,
    module_of,
    pairs_in_turn,
    plan_of,
    tensors,
    turn,
    typed,
    typed_of,
    wanted,
)
from hypothesis import given, note, settings
from hypothesis import strategies as st
from programs import CASES, DRAWN, FILES, MODELS, Case
from random_programs import cascades, contractions
from test_backends import (
    EAGER,
    KINDS,
    OPERANDS,
    OPERATIONS,
    OPERATORS,
    PLACES_OF_NAMES,
    QUICK,
    TYPES,
    case,
    distances,
    expanded,
    ignoring,
    inputs_of,
    overlapping,
    plain,
    possible,
    strided,
    transposed,
)
from triton_modes import Tiling, interpreted, tiled

from einc.backends.triton.kernel import _pruned
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.ir.choices import Choices

NEAR = 1e-9  # sums in another order, and exponentials by powers of two
SMALL = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}
UNEVEN = {"_PRODUCTS": (32, 16, 4, 1), "_SUMS": (2, 8, 4, 1), "_POINTS": (16, 1, 4, 1)}
BROKEN: dict[str, str] = {}
LAYERS = [one for one in FILES if one.name not in MODELS]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def choice(tiles: Mapping[str, Tiling] | None) -> Callable[[str, int, int], Tiling] | None:
    return None if tiles is None else lambda kind, rows, columns: tiles[kind]


@cache
def triton_of(case: Case) -> str:
    return front.emit(plan_of(case), "triton")


def kernel_of(case: Case, tiles: Mapping[str, Tiling] | None = None) -> Callable[..., Any]:
    """The emitted function; with `tiles`, those whatever the sizes."""
    return tiled(triton_of(case), plan_of(case).name, choice(tiles))


# the same as the interpreter


def means(case: Case, every: bool) -> None:
    """The kernels against the interpreter: in two ways of tiles at the case's own sizes and in one at another of
    its trials, or at `every` one of these."""
    functions, trials = [kernel_of(case, tiles) for tiles in (SMALL, None)], case.trials()
    for n in range(len(trials)) if every else {0, turn(case, len(trials))}:
        if possible(case, trials[n]):
            for function in functions if not n else [functions[n % 2]]:
                got = called(function, typed_of(case), tensors(inputs_at(case, n)), trials[n])
                assert_close(got, wanted(case, n), NEAR)


@each(CASES, BROKEN, few=DRAWN, always="bias softcap")
def test_kernels_mean_what_the_interpreter_says(case: Case) -> None:
    """One function for all sizes, whatever the tiles."""
    means(case, every=False)


@pytest.mark.whole
@each(CASES, BROKEN)
def test_kernels_mean_it_at_all_sizes(case: Case) -> None:
    means(case, every=True)


@each([one for one in CASES if one.name not in MODELS], BROKEN, every=3, few=DRAWN)
def test_any_strides_will_do_and_inputs_stay(case: Case) -> None:
    program = typed_of(case)
    usual = tensors(arrays(program, case.sizes, case.ranges))
    ways = itertools.cycle((strided, transposed, expanded))
    inputs = {tensor.key: laid(usual[tensor.key]) for tensor, laid in zip(program.inputs(), ways, strict=False)}
    before = {key: x.clone() for key, x in inputs.items()}
    want = meaning(program, {key: x.numpy() for key, x in inputs.items()}, case.sizes)
    assert_close(called(kernel_of(case, UNEVEN), program, inputs, case.sizes), want, NEAR)
    assert all(torch.equal(inputs[key], before[key]) for key in inputs)


@each(LAYERS, {}, every=2, few=DRAWN)
def test_no_result_shares_memory(case: Case) -> None:
    program = typed_of(case)
    inputs = overlapping(tensors(arrays(program, case.sizes, case.ranges)))
    want = meaning(program, {key: x.numpy() for key, x in inputs.items()}, case.sizes)
    got = called(kernel_of(case), program, inputs, case.sizes)
    assert_close(got, want, NEAR)
    given = {x.untyped_storage().data_ptr() for x in inputs.values()}
    own = [y.untyped_storage().data_ptr() for y in got.values() if y.numel()]
    assert len(set(own)) == len(own) and not set(own) & given


@pytest.mark.drawn(2)
@each_in_turn(LAYERS, "dtype", TYPES, few=DRAWN)
def test_a_narrower_type_is_as_near_as_with_torch(case: Case, dtype: torch.dtype) -> None:
    """In the type of the data, and not much farther from the meaning than what torch's own operations reach in it."""
    program = typed_of(case)
    inputs = tensors(arrays(program, case.sizes, case.ranges), dtype)
    want = meaning(program, {key: (x.double() if x.is_floating_point() else x).numpy() for key, x in inputs.items()},
                   case.sizes)
    floats = any(x.is_floating_point() for x in inputs.values())
    got = called(kernel_of(case, SMALL), program, inputs, case.sizes)
    assert all(y.dtype in (dtype, torch.int64) or not floats for y in got.values())
    other = called(module_of(case), program, inputs, case.sizes)
    least = 10 * torch.finfo(dtype).eps
    for key, y in got.items():
        far, allowed = (distance(x.double().numpy(), want[key], 1e-3) for x in (y, other[key]))
        assert far <= max(3 * allowed, least), (key, far, allowed)


@each(LAYERS, {}, every=2, few=DRAWN)
def test_narrow_products_are_as_near(case: Case) -> None:
    module = front.plan(typed_of(case), Choices(narrow=True))
    function = tiled(front.emit(module, "triton"), module.name, choice(SMALL))
    inputs = tensors(arrays(typed_of(case), case.sizes, case.ranges), torch.bfloat16)
    wide = {k: (x.double() if x.is_floating_point() else x).numpy() for k, x in inputs.items()}
    want = meaning(typed_of(case), wide, case.sizes)
    got, other = (called(f, typed_of(case), inputs, case.sizes) for f in (function, module_of(case)))
    for key, y in got.items():
        far, allowed = (distance(x.double().numpy(), want[key], 1e-3) for x in (y, other[key]))
        assert far <= max(3 * allowed, 0.02)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("name", "dtype", "fudge"), [
    pytest.param(name, dtype, fudge, marks=[pytest.mark.whole] * ((n + m) % 2))
    for n, name in enumerate(EAGER) for m, (dtype, fudge) in enumerate([(torch.float32, 10), (torch.bfloat16, 1.3)])
])
def test_rounding_is_no_worse_than_written_out(name: str, dtype: torch.dtype, fudge: float) -> None:
    eager, sizes = EAGER[name]
    inputs = inputs_of(case(name), sizes, dtype)
    gold = eager({key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}, sizes)
    (got,) = called(kernel_of(case(name)), typed_of(case(name)), inputs, sizes).values()
    assert got.dtype == dtype
    error, allowed = ((y.double() - gold).abs().mean() for y in (got, eager(inputs, sizes)))
    assert error <= fudge * allowed + 1e-9


def test_large_logits_do_not_overflow() -> None:
    """Exponents are taken relative to the largest, also where tiles come in the worst order."""
    n = {"B": 1, "H": 1, "T": 40, "d_k": 2}
    for ramp in (torch.linspace(-1e3, 1e3, 40), torch.linspace(1e3, -1e3, 40)):
        inputs = {"Q": torch.ones(1, 1, 40, 2), "K": ramp[:, None].expand(1, 1, 40, 2).clone(),
                  "V": torch.randn(1, 1, 40, 2)}
        for tiles in (SMALL, None):
            (got,) = called(kernel_of(case("sdpa"), tiles), typed_of(case("sdpa")), inputs, n).values()
            assert torch.allclose(got, plain(inputs, distances(40) >= 0), atol=1e-6)


# sizes that kernels are known to fail at


def agrees(one: Case, sizes: dict[str, int], tiles: Mapping[str, Tiling] | None = None,
           seed: int = 0) -> dict[str, torch.Tensor]:
    """The outputs, which are what the interpreter says."""
    inputs = arrays(typed_of(one), sizes, one.ranges, seed)
    got = called(kernel_of(one, tiles), typed_of(one), tensors(inputs), sizes)
    assert_close(got, meaning(typed_of(one), inputs, sizes), NEAR)
    return got


@pytest.mark.drawn(5)
@pytest.mark.parametrize("width", [1, 17, 64, 80, 96, 192])
@pytest.mark.parametrize("name", ["sdpa", "decode", "online_softmax", "linear", "attention_backward"])
def test_any_width(name: str, width: int) -> None:
    """A width is padded to a power of two; what lies beyond it must not count."""
    sizes = {**case(name).sizes, "T": 18, "S": 21, "d_k": width, "d_v": width, "H": 2, "B": 1}
    agrees(case(name), sizes)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("sizes", [(0, 5), (1, 1), (1, 40), (5, 33), (33, 33), (17, 64), (16, 16)], ids=str)
@pytest.mark.parametrize("name", ["decode", "mla_decode", "full"])
def test_rows_and_columns_of_any_number(name: str, sizes: tuple[int, int]) -> None:
    agrees(case(name), {**case(name).sizes, "T": sizes[0], "S": sizes[1]}, SMALL)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("groups", [(8, 8), (8, 2), (8, 1), (5, 2), (1, 1)], ids=str)
@pytest.mark.parametrize("steps", [1, 20])
def test_heads_in_groups(groups: tuple[int, int], steps: int) -> None:
    heads, shared = groups
    agrees(case("gqa"), {**case("gqa").sizes, "T": steps, "H": heads, "G": shared},
           {**SMALL, "_POINTS": (256, 1, 4, 1)})


EMPTY = """index t, s : time(T)
index d : feature(D)
input q_t^d, k_s^d, v_s^d
mask L_{t s} : s < t - 2
L_{t s} = q_t^d k_{s d}
output y_t^d = Σ_s softmax_s(L_{t s}) v_s^d
output z_t = logsumexp_{s < t - 2}(q_t^d k_{s d})
"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("steps", [1, 3, 4, 20, 50])
def test_rows_without_a_point(steps: int) -> None:
    """Their sum is 0 and the logarithm of it is minus infinity."""
    one = Case("empty", EMPTY, {"T": steps, "D": 5})
    for tiles in (SMALL, UNEVEN, None):
        got = agrees(one, dict(one.sizes), tiles)
        assert (got["y"][:3] == 0).all() and (got["z"][:3]
                                              == float("-inf")).all() and torch.isfinite(got["z"][3:]).all()


@pytest.mark.parametrize("name", ["sdpa", "linear", "prefix", "variance", "gated"])
def test_offsets_beyond_32_bits(name: str) -> None:
    """An input whose elements lie gigabytes apart: memory that is never touched is never there."""
    one = case(name)
    usual = tensors(arrays(typed_of(one), one.sizes, one.ranges), torch.float16)
    key, x = next((key, x) for key, x in usual.items() if x.ndim)
    axis = max(range(x.ndim), key=lambda n: x.shape[n])
    step = 2**31 // (x.shape[axis] - 1) + 1
    far = torch.empty(step * (x.shape[axis] - 1) + x.numel(), dtype=torch.float16)
    strides = [step if n == axis else x.stride(n) // (x.shape[axis] if n < axis else 1) for n in range(x.ndim)]
    given = {**usual, key: far.as_strided(x.shape, strides).copy_(x)}
    got, want = (called(kernel_of(one), typed_of(one), inputs, one.sizes) for inputs in (given, usual))
    assert all(torch.equal(got[name], want[name]) for name in want)


# every operation on every kind of operand


def attempt(one: Case, bound: float, choices: tuple[Mapping[str, Tiling] | None, ...] = (SMALL,)) -> None:
    program = typed(one.text)
    source = front.emit(front.plan(program), "triton")
    want = meaning(program, inputs := arrays(program, one.sizes, one.ranges), one.sizes)
    for tiles in choices:
        got, expected = ignoring(called(tiled(source, "text", choice(tiles)), program, tensors(inputs), one.sizes),
                                 want)
        assert_close(got, expected, bound, least=1.0)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("fold", ["Σ", "max"])
@pytest.mark.parametrize("up", ["h ≤ s", "s ≤ h", "s < h"])
@pytest.mark.parametrize("rows", ["s ≥ t", "s ≤ t", "doc_s = doc_t", "s ≠ t"])
def test_running_folds_along_an_axis_of_another_length(fold: str, up: str, rows: str) -> None:
    """Where the axis of the results ends, what is folded may go on, and where that ends the results may."""
    text = (f"index t, s : time(T)\nindex h : head(H)\ninput x_t\ninput doc_t : int\n"
            f"m_{{t h}} = {fold}_{{s, {up}, {rows}}} x_s\noutput y_{{t h}} = max(m_{{t h}}, -9) : all")
    for sizes in ({"T": 5, "H": 1}, {"T": 3, "H": 7}, {"T": 11, "H": 4}):
        attempt(Case("scan", text, sizes, {"doc": ("1", "2")}), NEAR)


def failure(bodies: Sequence[str]) -> str:
    """What goes wrong with a program of these right sides; empty where nothing does."""
    lines = [f"y{chr(97 + n)}_t = x_t + {body}\noutput y{chr(97 + n)}_t : all" for n, body in enumerate(bodies)]
    text = "\n".join([OPERANDS, *lines])
    if pipeline.check(Source("<text>", text), Report()) is None:
        return "refused"
    try:
        attempt(Case("operation", text, {"T": 5}, {"i": ("1", "4"), "n": ("2", "3")}), NEAR)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    return ""


@pytest.mark.drawn(8)
@each(OPERATORS, {})
def test_every_operation_on_every_kind_of_operand(case: Case) -> None:
    """On its own, and along an index that is folded: reals, whole numbers, positions,
    numbers, sizes and single elements."""
    bodies = []
    pairs: Iterator[tuple[str, ...]] = itertools.product(KINDS, KINDS if case.name in OPERATIONS else [""])
    if case.name in ("add", "mul", "max", "min", "eq"):  # the other half is the same
        pairs = itertools.combinations_with_replacement(KINDS, 2)
    pairs = itertools.islice(pairs, len(case.name) % 3, None, 3)  # the torch back end is asked for all of them
    for n, pair in enumerate(pairs):
        inner = case.text.format(*(kind.replace("t", "s") for kind in pair)).replace("x_t", "x_s")
        maximum = n % 2 and "1[" not in case.text  # an indicator under a maximum is refused
        bodies += [case.text.format(*pair), f"max_{{s ≤ t}} (({inner}) z_t)" if maximum
                   else f"Σ_{{s ≤ t}} z_s ({inner})"]
    some = [bodies[n : n + 24] for n in range(0, len(bodies), 24)]
    found = {body: failure([body]) for part in some if failure(part) for body in part}
    wrong = [f"{body}: {said}" for body, said in found.items() if said]
    assert not wrong, "\n".join(wrong)


# random programs


@examples(6, 15, cascades(), phases=QUICK)
def test_random_cascades(case: Case) -> None:
    note(f"{case.text}\n{case.sizes}")
    attempt(case, NEAR)


@examples(4, 10, contractions(), phases=QUICK)
def test_random_contractions(case: Case) -> None:
    note(f"{case.text}\n{case.sizes}")
    attempt(case, NEAR, (SMALL, None))


@pytest.mark.whole
@settings(max_examples=200, deadline=None, phases=QUICK)
@given(st.one_of(cascades(), contractions()))
def test_many_random_programs(case: Case) -> None:
    note(f"{case.text}\n{case.sizes}")
    attempt(case, NEAR)


# statements that nothing reads

NAMES = st.sampled_from("abcde")
BREAKS = st.sampled_from(["", " ", "\n    ", "\n"])


def bracketed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts in brackets, on one line or on several."""
    parts = st.lists(st.tuples(BREAKS, inner).map("".join), max_size=3).map(",".join)
    around = st.sampled_from(["({}{})", "[{}{}]", "{{{}{}}}"])
    return st.tuples(around, parts, BREAKS).map(lambda x: x[0].format(*x[1:]))


STATEMENTS = st.tuples(
    st.sampled_from(["", "    "]),
    st.one_of(NAMES.map("{} = read".format), st.just("store")),
    bracketed(st.recursive(st.one_of(NAMES, st.just("1")), bracketed, max_leaves=6)),
).map("".join)


def lines_of(statements: Iterable[str]) -> list[str]:
    return [line for text in statements for line in text.split("\n")]


@settings(max_examples=300)
@given(st.lists(STATEMENTS, max_size=8))
def test_what_is_pruned_goes_as_a_whole(statements: list[str]) -> None:
    """Assignments to what no other statement names go, with all their lines; anything else stays as it is."""
    left, before = statements, [""]
    while left != before:
        before = left
        words = [set(re.findall(r"\w+", text)) for text in before]
        left = [text for n, text in enumerate(before) if " = " not in text
                or any(text.split()[0] in other for m, other in enumerate(words) if m != n)]
    assert _pruned(lines_of(statements)) == lines_of(left)


@pytest.mark.parametrize("reads", ["", "a"])
def test_a_statement_on_several_lines_goes_or_stays(reads: str) -> None:
    statement = ["    a = _read(b + (c", "        + d), [", "        1,", "    ])"]
    others = ["    b = c", f"    tl.store(b, c, d{reads and ', '}{reads})"]
    kept = [*statement, *others] if reads else others
    assert _pruned([*statement, *others]) == kept


# what a file is


@each(FILES, {}, few=DRAWN)
def test_a_module_imports_torch_and_triton_alone(case: Case) -> None:
    tree = ast.parse(triton_of(case))
    found = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    standard = {"bisect", "functools", "math", "operator", "typing"}
    assert "torch" in found <= standard | {"torch", "triton", "triton.language"}
    assert found >= {"triton", "triton.language"}


WORDS = ["tl", "torch", "rows", "programs", "program", "phase", "first", "DTYPE", "PRECISION", "BLOCK_t", "range",
         "float",
         "s_from", "x_tile", "fold", "T", "t"]


@pytest.mark.drawn(4)
@pairs_in_turn("word, place", WORDS, PLACES_OF_NAMES, every=4)
def test_a_name_hides_nothing_that_the_module_needs(word: str, place: str) -> None:
    text = "index t, s : time(T)\n" + PLACES_OF_NAMES[place].format(word)
    if pipeline.check(Source("<text>", text), Report()) is None:
        return
    sizes = {**({word: 3} if place == "asked" else {word: 7}), "T": 7}
    attempt(Case("names", text, sizes, {key.key: ("1", "2") for key in typed(text).inputs()}), NEAR)


@pytest.mark.parametrize("text", ["max_{s < t} x_s", "min_{s ≤ t} (x_s x_t)", "max(x_t, 0.5)", "min_{s ≤ t} x_s"])
def test_what_is_no_number_stays_none(text: str) -> None:
    """Triton's own maximum leaves such elements out."""
    program = typed(f"index t, s : time(T)\ninput x_t\noutput y_t = {text}")
    x = np.random.default_rng(0).standard_normal(9)
    x[4] = np.nan
    got = called(tiled(front.emit(front.plan(program), "triton"), "text", choice(SMALL)), program, tensors({"x": x}),
                 {"T": 9})
    assert_close(got, meaning(program, {"x": x}, {"T": 9}))


def test_wrong_ids_are_refused() -> None:
    """What stands as a position is one, before a kernel reads there."""
    for wrong in (-1, 5, 2**40):
        one = case("gather_sum")
        inputs = {**tensors(arrays(typed_of(one), {"T": 5, "V": 4, "D": 3}, one.ranges)),
                  "w": torch.tensor([1, 1, wrong, 1, 1])}
        with pytest.raises(IndexError, match=str(wrong)):
            kernel_of(one)(**inputs)


def results(one: Case, tiles: Mapping[str, Tiling]) -> Arrays:
    inputs = arrays(typed_of(one), one.sizes, one.ranges)
    return {key: y.numpy()
            for key, y in called(kernel_of(one, tiles), typed_of(one), tensors(inputs), one.sizes).items()}


def test_tiles_are_really_cut() -> None:
    """Tiles of another shape add in another order, which shows in the last digits."""
    one = Case("long", case("sdpa").text, {"B": 1, "H": 1, "T": 100, "d_k": 5})
    large = {**SMALL, "_PRODUCTS": (128, 128, 4, 1)}
    assert not np.array_equal(results(one, SMALL)["Y"], results(one, large)["Y"])


# many tiles, of which some are whole


@pytest.mark.drawn(2, 1)
@pytest.mark.parametrize(("name", "changes"), [
    ("sdpa", {}), ("alibi", {}), ("softcap", {}), ("documents", {}), ("sliding_window", {"W": 31}),
    ("sliding_window", {"W": 16}), ("sinks_window", {"W": 20}), ("sinks_window", {"W": 33}),
    ("sinks_window", {"W": 90}),
], ids=str)
def test_whole_tiles_and_those_that_are_cut(name: str, changes: dict[str, int]) -> None:
    """Tiles of 16 over 75 positions: some are whole, some are cut on either side or in the midst."""
    one = case(name)
    sizes = {**one.sizes, "T": 75, **changes}
    inputs = arrays(typed_of(one), sizes, one.ranges)
    got = called(kernel_of(one, SMALL), typed_of(one), tensors(inputs), sizes)
    assert_close(got, meaning(typed_of(one), inputs, sizes), NEAR)


WINDOW = """
index t, s : time(T)
index d, k : feature(D)
dim W
input Q_t^k, K_s^k, V_s^d
mask L_{t s} : s ∈ (t - W, t]
L_{t s} = 1/D Q_t^k K_{s k}
output Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d
"""


@pytest.mark.parametrize("width", [31, 32])
def test_a_tile_is_masked_for_one_position_that_one_row_leaves_out(width: int) -> None:
    """Of rows 17 to 32 the last alone leaves out the first position of the first tile of 16, under a window of 31, and
    none under one of 32; no logit is so large that the others do not count.
    """
    agrees(Case(f"window{width}", WINDOW, {"T": 75, "D": 4, "W": width}), {"T": 75, "D": 4, "W": width}, SMALL)
