"""Every stage means the same: typed and normal programs by the interpreter, and both
again after their text is read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import reduce

import pytest
from helpers import assert_close, each, inputs_at, meaning, normal_of, plan_of, source_of, turn, typed, typed_of, wanted
from programs import CASES, DRAWN, FILES, SPEC_SIZES, WITH_ROUNDS, Case

from einc.driver import pipeline
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.plan import Contract, Kernel, Leaf, Let, Map, Module, leaves
from einc.ir.programs import Equation, Program
from einc.ir.terms import ONE, TRUE, Apply, Fold, Position, Read, walk
from einc.planning.contractions.choose import taken
from einc.syntax.printing.show import show
from einc.transforms.normal.normalise import is_normal

UNFOLDED: dict[str, str] = {}
NORMAL = {
    **UNFOLDED,
    "unread": "an input that is simplified away is refused when it is given",
    "shift_restricted": "a factor with an index expression gets an equation without the restriction that keeps it in "
                        "range",
}
SHOWN_TYPED: dict[str, str] = {}
SHOWN_NORMAL = {
    **NORMAL,
    **UNFOLDED,
    "shift_restricted": "E0601: see NORMAL",
}
SHOWN = pytest.mark.parametrize("explicit", [False, True], ids=["plain", "explicit"])


def assert_same(program: Program, case: Case, every: bool = True) -> None:
    """A program means what the case's own means: at its sizes and at one of its other trials, or at `every` one."""
    trials = case.trials()
    for n in range(len(trials)) if every else {0, turn(case, len(trials))}:
        assert_close(meaning(program, inputs_at(case, n), trials[n]), wanted(case, n))


def case(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


def test_every_spec_is_tried() -> None:
    assert {case.name for case in FILES} == set(SPEC_SIZES)


@each(CASES, {}, few=DRAWN)
def test_which_programs_have_rounds(case: Case) -> None:
    assert bool(typed_of(case).repeats) == (case.name in WITH_ROUNDS)


def test_a_condition_is_read_under_those_beside_it() -> None:
    typed("index t, s : time(T)\ninput doc_t : int\noutput y_t = Σ_{s ≤ t, doc_s = doc_t} 1")


# one meaning


@each(CASES, NORMAL, few=DRAWN)
def test_normal_means_what_typed_means(case: Case) -> None:
    assert_same(normal_of(case), case)


@each(CASES, UNFOLDED, few=DRAWN)
def test_normal_is_normal(case: Case) -> None:
    assert all(map(is_normal, normal_of(case).equations))


def test_what_is_not_normal() -> None:
    t = Index("t", IndexSet("time", size("T")))
    x = Read("x", (Position(t),))
    inner = Fold("sum", (t,), TRUE, x)
    bodies = [Apply("exp", (inner,)), Fold("sum", (t,), TRUE, Apply("exp", (x,))),
              Fold("max", (t,), TRUE, Apply("mul", (x, x))),
              Fold("sum", (t,), TRUE, Apply("mul", (x, ONE))), Fold("sum", (t,), Apply("lt", (inner, ONE)), x)]
    assert [is_normal(Equation("y", (), TRUE, body)) for body in bodies] == [False] * len(bodies)
    assert is_normal(Equation("y", (), TRUE, inner))


# text that reads back


@pytest.mark.drawn(6)
@each(CASES, SHOWN_TYPED, few=DRAWN)
@SHOWN
def test_typed_parses_back(case: Case, explicit: bool) -> None:
    assert_same(typed(show(typed_of(case), explicit)), case, every=False)


@each(CASES, SHOWN_NORMAL, every=2, few=DRAWN)
@SHOWN
def test_normal_parses_back(case: Case, explicit: bool) -> None:
    assert_same(typed(show(normal_of(case), explicit)), case, every=False)


# what normalising is for


def lets(steps: Iterable[Leaf]) -> Iterator[tuple[Kernel, Let]]:
    for step in steps:
        if isinstance(step, Kernel):
            yield from ((step, let) for let in step.lets)


def volume(sets: Iterable[IndexSet]) -> Extent:
    return reduce(Extent.__mul__, (one.extent for one in sets), number(1))


def volumes(module: Module) -> list[Extent]:
    """The numbers of elements of everything that is stored or computed."""
    return [*stored(module),
            *(volume(kernel.axis(a).set for a in let.axes) for kernel, let in lets(leaves(module.steps)))]


def stored(module: Module) -> list[Extent]:
    return [volume(buffer.sets) for buffer in module.buffers.values()]


def power(extent: Extent, *names: str) -> int:
    """The highest power of the sizes together."""
    return max((sum(p for name, p in mono if name in names) for mono, _ in extent.terms), default=0)


def operations(module: Module, *ops: str) -> list[list[IndexSet]]:
    """For each operation that the plan does at every point what it runs over; a product of three is two."""
    done = taken(module, dict.fromkeys(module.sizes, 64))
    return [[kernel.axis(a).set for a in let.axes] for kernel, let in lets(done)
            if isinstance(let.op, Map) and let.op.op in ops for _ in let.args[1:] or (None,)]


def times(*names: str) -> Extent:
    return reduce(Extent.__mul__, map(size, names), number(1))


ROTATED = [
    ("rope_pairs", "d", [times("T", "H", "d")] * 2),
    ("rope_halves", "d", [times("T", "H", "d")] * 2),
    ("attention", "d_k", [times("T", "H", "d_k")] * 4),
    ("sliding_window", "d_k", [times("T", "H", "d_k")] * 4),
    ("llama_attention", "d_k", [times("B", "T", "H", "d_k")] * 2 + [times("B", "T", "G", "d_k")] * 2),
]


@pytest.mark.parametrize(("name", "width", "products"), ROTATED, ids=lambda x: x if isinstance(x, str) else "")
def test_a_rotation_is_two_products_per_element(name: str, width: str, products: list[Extent]) -> None:
    module = plan_of(case(name))
    half = size(width) * number(Fraction(1, 2))
    turned = [volume(sets) for sets in operations(module, "mul") if half in {s.extent for s in sets}]
    assert sorted(str(v) for v in turned if power(v, "H", "G")) == sorted(map(str, products))
    assert max(power(v, width) for v in volumes(module)) == 1


LOGITS = {"attention": "T H T", "alibi": "T H T", "gqa": "T H T", "sliding_window": "T H T",
          "llama_attention": "B T H T",
          "sdpa": "B T H T", "cross_attention": "T H U", "sink": "T H T", "mask_prefix": "T H T", "capped": "T T",
          "logsumexp": "T T", "bias_of_positions": "N T T", "fire": "B H T T"}


@pytest.mark.parametrize("name", LOGITS)
def test_one_exponential_per_logit(name: str) -> None:
    """Softmax says it three times; and nothing of the size of the logits is stored."""
    sizes = [volume(i.set for i in e.indices) for e in normal_of(case(name)).equations for term in walk(e.body)
             if isinstance(term, Apply) and term.op == "exp"]
    assert sum(power(extent, "T", "U") == 2 for extent in sizes) == 1
    module = plan_of(case(name))
    done = map(volume, operations(module, "exp", "exp2"))
    assert [v for v in done if power(v, "T", "U") == 2] == [times(*LOGITS[name].split())]
    assert max(power(v, "T", "U") for v in stored(module)) == 1


def test_parts_and_pairs_of_a_slot_are_views_of_a_contraction() -> None:
    """Nothing but products of matrices: a part of a direct sum is read alone, a slot split where it is a pair."""
    module = plan_of(case("direct_weights"))
    assert all(isinstance(step, Contract) for step in module.steps)
    text = source_of(case("direct_weights"))
    assert "W[:, C:C + R]" in text or "W[:, C:R + C]" in text
    assert "x.unflatten(1, (C // 2, 2))" in text
    (y,) = (step.cost.read for step in leaves(module.steps) if isinstance(step, Contract) and step.out == "y")
    assert y == number(4) * (size("T") * size("C") + size("C") * size("R"))


def test_a_place_that_begins_with_a_parenthesis_has_its_comma() -> None:
    """`W_{(s - t) + B, d}` is one place and a letter; without the comma it is none."""
    text = ("index t, s : time(T)\nindex i, d : feature(B), feature(D)\ninput x_t^d\nweight W_{i d}\n"
            "output y_t = Σ_{s ∈ (t - B, t]} W_{s - t + B, d} x_s^d\n")
    shown = show(typed(text))
    assert "W_{(s - t) + B, d}" in shown and show(typed(shown)) == shown


@pytest.mark.parametrize(("related", "left"), [("d = e", set()), ("d ≤ e", {"m"}), ("d < e", {"m"}), ("d ≠ e", {"m"})])
def test_a_gate_goes_where_it_leaves_one_point_of_a_sum(related: str, left: set[str]) -> None:
    """What is 0 but where two indices are equal takes its sum away. A triangle leaves a sum over many points: it stays
    a matrix, with which a product of matrices is formed.
    """
    text = ("index t : time(T)\nindex d, e : feature(D)\ninput x_t^d\n"
            f"m_{{d e}} = 1[{related}]\noutput y_t^e = m_d^e x_t^d\n")
    assert {e.target for e in pipeline.normal(typed(text)).equations} == {"y", *left}
