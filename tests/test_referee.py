"""sympy as an independent referee at small concrete sizes: of `prove`, of every law, of derived recurrences, of
counted work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import pytest
import sympy
from helpers import examples, normal_of, typed
from hypothesis import strategies as st
from programs import CLAIMS, FILES
from referee import DIGITS, Element, Referee, UndecidedError, equal, rationals, small, symbols
from test_prove import FALSE_ONES, LETTERS, SLOTS, TRUE_ONES, one, spoiled, stirred, terms, verdicts

from einc.driver import front
from einc.driver.reports.recurrence import _BLOCK, Line, Recurrence, recurrences
from einc.ir.claimed import Claim
from einc.ir.indices import Index
from einc.ir.plan import Contract, leaves
from einc.ir.programs import Equation, NormalProgram, Program, Slot, Tensor, TypedProgram, slot_of
from einc.ir.terms import TRUE, Apply, Fold, Position, Term, free_indices
from einc.meaning.equality import equal as same_form
from einc.meaning.prove import Proved, Refuted
from einc.planning.contractions.materialise import peeled
from einc.transforms.laws import ALL, RULES, exponentials
from einc.transforms.laws.rule import TENSORS, I, J, K, Rule, a, mul, u, v, w

FEW = 12  # points of a tensor that are looked at
ROTATION = (("3/5", "-4/5"), ("4/5", "3/5"))


# claims


def rotated(claim: Claim, sizes: dict[str, int], element: Element) -> Element:
    """`U` is orthogonal."""
    if not claim.given:
        return element
    (size,) = {n for slot in claim.program.tensors["U"].slots for n in slot.set.extent.sizes}
    sizes[size] = 2
    return lambda key, at: sympy.Rational(ROTATION[at[0] - 1][at[1] - 1]) if key == "U" else element(key, at)


def shared(claim: Claim, sizes: dict[str, int], element: Element) -> Element:
    """`M` is W_Q W_Kᵀ for all heads, whose projections differ by a scale for each
    feature, which cancels in the product."""
    def found(key: str, at: tuple[int, ...]) -> Any:
        if key in ("W_Q", "W_K"):
            head, *rest = at
            scale = sympy.Integer(1 + (head - 1) * rest[1])
            return element(key, (1, *rest)) * (scale if key == "W_Q" else 1 / scale)
        if key.rstrip("0123456789") != "M":  # each claim has one of its own
            return element(key, at)
        return sum(found("W_Q", (1, at[0], d)) * found("W_K", (1, at[1], d)) for d in range(1, sizes["d_k"] + 1))

    return found


# inputs for which what is assumed is so
HONOURED = {"claims/indexer_rotation": rotated, "claims/smoothing": rotated, "lemma_collapse": shared}


def holds(claim: Claim, sizes: Mapping[str, int], seed: int, honoured: Callable[..., Element] | None = None) -> bool:
    """Whether the sides are equal at the first points at which both exist, for random rational inputs."""
    program, at_sizes = claim.program, dict(sizes)
    element = rationals(seed, [t.key for t in program.inputs() if t.integer])
    element = honoured(claim, at_sizes, element) if honoured else element
    referee = Referee(program, at_sizes, element, DIGITS)
    for pair in claim.given:
        assert all(equal(*(referee.read(key, at) for key in pair)) for at in points(referee, pair[0]))
    pair = (claim.left, claim.right)
    return all(equal(*(referee.read(key, at) for key in pair)) for at in points(referee, claim.left))


def points(referee: Referee, key: str) -> Iterator[tuple[int, ...]]:
    """Some elements of a tensor that exist."""
    equation = next(e for e in referee.program.equations if e.target == key)
    for here in islice(referee.points(equation.indices, equation.domain, {}), FEW):
        yield tuple(int(referee.value(axis, here)) for axis in equation.axes)


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_the_specs(name: str) -> None:
    """What is proved holds at two small sizes; what is refuted does not at those of the counterexample."""
    honoured = HONOURED.get(name)
    for claim, verdict in verdicts(name):
        assert honoured or not claim.given, "no inputs are known for which what is assumed is so"
        if isinstance(verdict, Refuted):
            sizes = {**claim.program.sizes, **verdict.example.sizes}
            assert not all(holds(claim, sizes, seed, honoured) for seed in range(4)), claim.text
            continue
        assert isinstance(verdict, Proved)
        assert all(holds(claim, small(claim.program, seed, 2), seed, honoured) for seed in (0, 1)), claim.text


@pytest.mark.parametrize("text", [t for t in TRUE_ONES if "assuming" not in t])
def test_what_is_proved_holds(text: str) -> None:
    """At two small sizes; where it can be written in symbols, for all values."""
    claim = one(f"claim {text}")
    assert holds(claim, {"T": 3, "H": 1, "D": 2, "M": 4}, 0) and holds(claim, {"T": 2, "H": 2, "D": 1, "M": 2}, 1)


@pytest.mark.parametrize("text", [t for t in FALSE_ONES if "assuming" not in t])
def test_what_is_refuted_does_not_hold(text: str) -> None:
    claim = one(f"claim {text}")
    assert any(not holds(claim, {"T": size, "H": 1, "D": 2, "M": 4}, seed) for size in (2, 3, 4) for seed in (0, 1))


def program_of(*terms_: Term) -> Program:
    """A program of some terms over the letters of the random claims."""
    axes = tuple(map(Position, LETTERS.values()))
    tensors = {n: Tensor(n, n, tuple(slot_of(Index(f"a{m}", x)) for m, x in enumerate(over)), "input")
               for n, over in SLOTS.items()}
    names = [f"side{n}" for n in range(len(terms_))]
    tensors |= {key: Tensor(key, key, tuple(slot_of(i) for i in LETTERS.values()), "local") for key in names}
    equations = tuple(Equation(key, axes, TRUE, term) for key, term in zip(names, terms_, strict=True))
    return TypedProgram("p", tensors, equations, tuple((k, k) for k in names), {}, {})


@examples(15, 40, st.data())
def test_a_random_claim_that_is_proved_holds(data: Any) -> None:
    """A term, and itself stirred, perhaps with one thing changed: where their forms are equal, so are the two."""
    term = data.draw(terms(depth=2))
    other = stirred(term, data.draw)
    other = spoiled(other, data.draw) if data.draw(st.booleans()) else other
    if not same_form(term, other):
        return
    referee = Referee(program_of(term, other), {"D": 2, "T": 2}, rationals(0), DIGITS)
    for at in [(1, 2, 1), (2, 2, 2), (1, 1, 2)]:
        left, right = (referee.read(key, at) for key in ("side0", "side1"))
        assert left.has(sympy.oo, sympy.nan, sympy.zoo) or equal(left, right)


# laws


EVERY: tuple[Rule, ...] = tuple(dict.fromkeys((*RULES, *ALL, *exponentials.RULES)))
SAMPLES = [pytest.param(rule, n, id=f"{rule.name}-{n}") for rule in EVERY for n in range(len(rule.samples))]


def law_fails(before: Term, after: Term) -> list[str]:
    """The points at which two sides of a law differ, in symbols that are real and not 0; in numbers where symbols
    cannot be compared."""
    axes = tuple(i for i in (I, J, K) if i in free_indices(before) | free_indices(after))
    out = Tensor("out", "out", tuple(Slot(i.set, "lower", i.name) for i in axes), "local")
    program = Program("law", {**TENSORS, "out": out}, (), (), {}, {})
    wrong = []
    for n in (1, 2, 3):
        for element, digits in ((symbols(), 0), (rationals(n), DIGITS)):
            referee = Referee(program, {"n": n}, element, digits)
            try:
                found = [(str(at), *(referee.value(side, at) for side in (before, after)))
                         for at in referee.points(axes, TRUE, {})]
            except UndecidedError:
                continue
            wrong += [text for text, left, right in found if not equal(left, right)]
            break
    return wrong


@pytest.mark.parametrize(("rule", "n"), SAMPLES)
def test_both_sides_of_a_law(rule: Rule, n: int) -> None:
    found = rule.apply(rule.samples[n])
    assert found is not None
    assert law_fails(rule.samples[n], found) == []


FALSE_LAWS = {
    "a factor leaves a maximum": (Fold("max", (I,), TRUE, mul(v, u)), mul(v, Fold("max", (I,), TRUE, u))),
    "a sum of products": (Fold("sum", (I,), TRUE, mul(u, w)),
                          mul(Fold("sum", (I,), TRUE, u), Fold("sum", (I,), TRUE, w))),
    "log of a sum": (Apply("log", (Apply("add", (Apply("exp", (u,)), Apply("exp", (v,)))),)), Apply("add", (u, v))),
    "one rescale too few": (Apply("exp", (Apply("sub", (u, a)),)), mul(Apply("exp", (u,)), Apply("exp", (a,)))),
}


@pytest.mark.parametrize("name", FALSE_LAWS)
def test_a_false_law_is_seen(name: str) -> None:
    assert law_fails(*FALSE_LAWS[name])


# recurrences


class Unrolled:
    """A recurrence run block by block for fixed indices; what its lines give is known before the equations of the
    program.
    """

    def __init__(self, found: Recurrence, program: Program, sizes: Mapping[str, int],
                 fixed: Mapping[Index, int]) -> None:
        self.found, self.fixed, self.block = found, dict(fixed), frozenset[int]()
        self.referee = Referee(program, sizes, self._element, DIGITS)
        inputs = {t.key for t in program.inputs() if t.integer}
        self.inputs = rationals(0, inputs)

    def _element(self, key: str, at: tuple[int, ...]) -> Any:
        return sympy.Integer(at[0] in self.block) if key == _BLOCK else self.inputs(key, at)

    def line(self, line: Line) -> None:
        """Gives the left side its values, all of them from what was known before."""
        letters = tuple(sorted(free_indices(line.left) - self.fixed.keys(), key=str))
        made = {}
        for here in self.referee.points(letters, line.domain, self.fixed):
            if self.found.index in letters and here[self.found.index] not in self.block:
                continue
            at = tuple(int(self.referee.value(sub, here)) for sub in line.left.subs)
            made[line.left.tensor, at] = self.referee.value(line.right, here)
        self.referee.known.update(made)

    def run(self, cut: int) -> None:
        """All lines, for the domain in blocks of so many elements."""
        for line in self.found.start:
            self.line(line)
        index = self.found.index
        places = [here[index] for here in self.referee.points((index,), self.found.domain, self.fixed)]
        for first in range(0, len(places), cut):
            self.block = frozenset(places[first : first + cut])
            self.referee.known = {k: x for k, x in self.referee.known.items() if k[0] != _BLOCK}
            for line in self.found.block:
                self.line(line)
        for line in self.found.finish:
            self.line(line)


@pytest.mark.parametrize("name", ["sdpa", "attention", "alibi", "sliding_window", "softcap", "softmax1", "variance",
                                  "linear_cross_entropy", "sinks_window", "mla_decode", "entropy"])
@pytest.mark.parametrize("cut", [1, 2])
def test_a_derived_recurrence_is_the_fold(name: str, cut: int) -> None:
    """Unrolled over blocks of one and of two elements, every result is what the equations say of it directly."""
    program: NormalProgram = normal_of(next(c for c in FILES if c.name == name))
    sizes = {n: 3 if n in ("T", "S", "V") else x for n, x in small(program, 0, 2).items()}
    checked = 0
    for found in (r for r in recurrences(program) if not r.note):
        made = peeled(program)
        direct = Referee(made, sizes, rationals(0, [t.key for t in made.inputs() if t.integer]), DIGITS)
        for fixed in [*direct.points(found.fixed, TRUE, {})][-2:]:
            run = Unrolled(found, made, sizes, fixed)
            run.run(cut)
            for line in found.finish:
                for key, at in [k for k in run.referee.known if k[0] == line.left.tensor and made.equation(k[0])]:
                    assert equal(run.referee.known[key, at], direct.read(key, at)), (key, at)
                    checked += 1
    assert checked


# work


HEAD = "index t, s : time(T)\nindex d : feature(D)\ninput A_{t s}, V_s^d\n"


@pytest.mark.parametrize("domain", ["s ≤ t", "s < t", "t ≤ s", "t < s", "s ≤ T", "s ≤ t + 0"])
@pytest.mark.parametrize("sizes", [{"T": 1, "D": 1}, {"T": 4, "D": 3}, {"T": 7, "D": 2}])
def test_multiply_adds_of_a_domain(domain: str, sizes: dict[str, int]) -> None:
    """Two flops for each point of the fold, counted one by one, and each feature."""
    program = typed(f"{HEAD}output Y_t^d = Σ_{{{domain}}} A_{{t s}} V_s^d : all")
    points = _counted(program, sizes)
    assert _multiply_adds(program, sizes) == 2 * points


def _multiply_adds(program: TypedProgram, sizes: Mapping[str, int]) -> Any:
    """The flops of the plan that are done for each feature, which are those of products."""
    terms = [term for s in leaves(front.plan(program).steps) for term in s.cost.flops.terms]
    return sum(c * _at(m, sizes) for m, c in terms if "D" in dict(m))


def _at(mono: tuple[tuple[str, int], ...], sizes: Mapping[str, int]) -> int:
    out = 1
    for name, power in mono:
        out *= sizes[name] ** power
    return out


def _counted(program: TypedProgram, sizes: Mapping[str, int]) -> int:
    """The points of the fold at the root of each equation, for every element of its target."""
    referee = Referee(program, sizes, rationals(0))
    count = 0
    for equation in program.equations:
        assert isinstance(equation.body, Fold)
        for here in referee.points(equation.indices, equation.domain, {}):
            count += sum(1 for _ in referee.points(equation.body.bound, equation.body.domain, here))
    return count


@pytest.mark.parametrize("window", [1, 2, 4])
def test_an_interval_counts_whole_in_every_row(window: int) -> None:
    """Of s ∈ (t - W, t] the formula has W points in each row, also in the first ones, which have fewer."""
    program = typed(f"{HEAD}dim W\noutput Y_t^d = Σ_{{s ∈ (t - W, t]}} A_{{t s}} V_s^d")
    sizes = {"T": 6, "D": 2, "W": window}
    assert _multiply_adds(program, sizes) == 2 * (_counted(program, sizes) + sizes["D"] * window * (window - 1) // 2)


@examples(10, 25, st.sets(st.sampled_from("abc"), min_size=1), st.sets(st.sampled_from("abc"), min_size=1), st.data())
def test_multiply_adds_of_a_random_contraction(left: set[str], right: set[str], data: Any) -> None:
    """Of two factors with any indices, and any of these left over: two flops for each point of all of them."""
    letters = sorted(left | right)
    kept = data.draw(st.lists(st.sampled_from(letters), unique=True, max_size=len(letters) - 1))
    x, y, z = (f"{name}_{{{' '.join(sorted(over))}}}" for name, over in (("x", left), ("y", right), ("z", kept)))
    text = "".join(f"index {n} : feature({n.upper()})\n" for n in letters) + f"input {x}, {y}\n"
    summed = " ".join(n for n in letters if n not in kept)
    program = typed(f"{text}output {z if kept else 'z'} = Σ_{{{summed}}} {x} {y}")
    sizes = {n.upper(): extent for n, extent in zip(letters, (2, 3, 4), strict=False)}
    steps = front.plan(program).steps
    if [type(step) for step in steps] == [Contract]:
        assert steps[0].cost.flops.at(sizes) == 2 * _counted(program, sizes)
