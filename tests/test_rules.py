"""Every law on its own samples and on random terms: what a term is worth never changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from helpers import Array, arrays, assert_close, distance, each, examples, meaning, normal_of, typed_of
from hypothesis import given, note, settings
from hypothesis import strategies as st
from programs import DRAWN, FILES, Case

from einc.ir.indices import Index, size
from einc.ir.programs import Equation, NormalProgram, Program, Slot, Tensor
from einc.ir.sums import added
from einc.ir.terms import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    canonical,
    children,
    const,
    free_indices,
    rebuild,
    substitute,
    transform,
    walk,
)
from einc.meaning.interpret import interpret
from einc.syntax.printing.show import text
from einc.transforms import laws
from einc.transforms.laws import ALL, RULES, exponentials
from einc.transforms.laws.rule import TENSORS, I, J, K, Rule, a, add, eq, i, j, le, mul, u, v, w
from einc.transforms.normal.normalise import normalise, simplify

N = 4
FREE = (I, J, K)
EVERY = (*RULES, *exponentials.RULES)
SAMPLES = [pytest.param(rule, n, id=f"{rule.name}-{n}") for rule in EVERY for n in range(len(rule.samples))]


def worth(term: Term, seed: int, axes: tuple[Index, ...] = FREE, exact: bool = False) -> Array:
    """The term at every point of the axes, on random values that are never 0; the exact ones are ±1/2, ±1 and ±2."""
    out = Tensor("out", "out", tuple(Slot(index.set, "lower", index.name) for index in axes), "local")
    law = Equation("out", tuple(map(Position, axes)), TRUE, term)
    made = Program("law", {**TENSORS, "out": out}, (law,), (("out", "out"),), {}, {})
    values = np.random.default_rng(seed)
    arrays = {}
    for tensor in TENSORS.values():
        shape = [N] * len(tensor.slots)
        sizes = values.choice([0.5, 1, 2], shape) if exact else values.uniform(0.5, 2, shape)
        arrays[tensor.key] = np.asarray(sizes * values.choice([-1, 1], shape))
    return interpret(made, {tensor.key: arrays[tensor.key] for tensor in made.inputs()}, {"n": N})["out"]


def trial(rule: Rule, term: Term, seeds: Iterable[int] = range(8)) -> None:
    """The law holds on the term for each of the seeds: bit for bit where it says so."""
    found = rule.apply(term)
    assert found is not None, "the law does not apply"
    assert found != term, "the law changes nothing"
    for seed in seeds:
        before, after = worth(term, seed), worth(found, seed)
        if rule.holds == "floats":
            np.testing.assert_array_equal(after, before)
        else:
            assert distance(after, before) <= 1e-12


@pytest.mark.parametrize(("rule", "n"), SAMPLES)
def test_a_law_holds_on_its_samples(rule: Rule, n: int) -> None:
    trial(rule, rule.samples[n])


def test_the_table_of_contents() -> None:
    families = [getattr(module, "RULES") for module in vars(laws).values() if hasattr(module, "RULES")]  # noqa: B009
    assert {rule for family in families for rule in family} == set(EVERY) >= set(ALL) >= set(RULES)
    assert len({rule.name for rule in EVERY}) == len(EVERY)
    assert all(rule.samples and rule.law and rule.holds in ("floats", "reals") for rule in EVERY)


# sabotage: laws that are none are seen


def _max_is_linear(term: Term) -> Term | None:
    match term:
        case Fold("max", bound, domain, Apply("mul", (c, y))) if not free_indices(c) & set(bound):
            return mul(c, Fold("max", bound, domain, y))
    return None


def _forgets_the_range(term: Term) -> Term | None:
    """Σ_{i : i = j + 1} f(i) = f(j + 1), also where j + 1 is beyond the last."""
    match term:
        case Fold("sum", (index,), Apply("eq", (Position(here), value)), Read("u", (_,))) if here == index:
            return Read("u", (Apply("min", (value, Size(size("n")))),))
    return None


def _captures(term: Term) -> Term | None:
    match term:
        case Fold(op, bound, domain, Fold(inner, more, narrower, body)) if op == inner:
            return Fold(op, tuple(dict.fromkeys(bound + more)), both(domain, narrower), body)
    return None


def _sum_of_products(term: Term) -> Term | None:
    match term:
        case Fold("sum", bound, domain, Apply("mul", (p, q))):
            return mul(Fold("sum", bound, domain, p), Fold("sum", bound, domain, q))
    return None


def _counts_all(term: Term) -> Term | None:
    match term:
        case Fold("sum", (index,), _, body) if index not in free_indices(body):
            return mul(Size(index.set.extent), body)
    return None


def _commutes(term: Term) -> Term | None:
    match term:
        case Apply("mul", args):
            return mul(*reversed(args))
    return None


def _reassociates(term: Term) -> Term | None:
    match term:
        case Apply("add", (p, Apply("add", (q, s)))):
            return add(add(p, q), s)
    return None


FALSE_LAWS = [
    Rule("a factor leaves a maximum", "", "reals", _max_is_linear, (Fold("max", (I,), TRUE, mul(v, u)),)),
    Rule("a gate beyond the range", "", "floats", _forgets_the_range, (Fold("sum", (I,), eq(i, add(j, ONE)), u),)),
    Rule("an index captured", "", "reals", _captures, (Fold("sum", (I,), le(i, j), Fold("sum", (J,), TRUE, w)),)),
    Rule("a sum of products", "", "reals", _sum_of_products, (Fold("sum", (I,), TRUE, mul(u, w)),)),
    Rule("a restricted count", "", "reals", _counts_all, (Fold("sum", (I,), le(i, j), v),)),
    Rule("not bit for bit", "", "floats", _reassociates, (add(u, add(v, w)),)),
    Rule("does not apply", "", "reals", _commutes, (add(u, v),)),
    Rule("changes nothing", "", "reals", _commutes, (mul(u, u),)),
]


@pytest.mark.parametrize("rule", FALSE_LAWS, ids=lambda rule: rule.name)
def test_a_false_law_is_seen(rule: Rule) -> None:
    with pytest.raises(AssertionError):
        trial(rule, rule.samples[0])


def test_simplify_uses_the_table() -> None:
    wrong = next(rule for rule in FALSE_LAWS if rule.name == "a sum of products")
    assert not np.array_equal(worth(simplify(wrong.samples[0], (*RULES, wrong)), 0), worth(wrong.samples[0], 0))


# random terms


BOUND = tuple(Index(name, I.set) for name in "pqyz")
SHAPES = {key: len(tensor.slots) for key, tensor in TENSORS.items()}
NUMBERS = [const(n) for n in (-2, -1, 0, 1, 1, 2)] + [const(Fraction(1, 2))]
KINDS = ["leaf", "mul", "mul", "add", "sub", "neg", "div", "quotient", "where", "pow", "floor",
         "sum", "sum", "gate", "gate", "spread", "fold", "nest"]
Scope = tuple[Index, ...]


@dataclass(frozen=True)
class Chooser:
    """Random terms of dyadic rationals, so that float64 is exact; binders are new names, denominators are not 0."""

    draw: Callable[[st.SearchStrategy[Any]], Any]

    def one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def place(self, scope: Scope) -> Position:
        return Position(self.one(*scope))

    def read(self, scope: Scope) -> Read:
        key = self.one(*sorted(SHAPES))
        return Read(key, tuple(self.place(scope) for _ in range(SHAPES[key])))

    def whole(self, scope: Scope) -> Term:
        """Index arithmetic that may leave the range."""
        match self.one("place", "place", "next", "number", "mirror", "min"):
            case "place":
                return self.place(scope)
            case "next":
                return add(self.place(scope), ONE)
            case "number":
                return const(self.one(*range(N + 2)))
            case "mirror":
                return Apply("sub", (add(Size(size("n")), ONE), self.place(scope)))
        return Apply("min", (self.place(scope), self.place(scope)))

    def condition(self, scope: Scope, kind: str = "") -> Term:
        match kind or self.one("atom", "atom", "and", "or", "not", "true", "false"):
            case "atom":
                return Apply(self.one("eq", "eq", "le", "lt", "ne"), (self.whole(scope), self.whole(scope)))
            case "gate":
                return eq(self.place(scope[-1:]), self.whole(scope[:-1]))
            case "and":
                return both(self.condition(scope, "atom"), self.condition(scope))
            case "or":
                return Apply("or", (self.condition(scope, "atom"), self.condition(scope)))
            case "not":
                return Apply("not", (self.condition(scope, "atom"),))
            case "true":
                return TRUE
        return FALSE

    def below(self, scope: Scope) -> Term:
        return self.one(const(-2), const(4), self.read(scope), self.read(scope),
                        mul(self.read(scope), self.read(scope)))

    def term(self, scope: Scope, depth: int) -> Term:
        kind = self.one(*KINDS) if depth else "leaf"
        if kind in ("sum", "gate", "spread", "fold", "nest"):
            return self.fold(scope, depth, kind)
        if kind == "leaf":
            return self.one(self.read(scope), self.read(scope), self.one(*NUMBERS), self.place(scope), Size(size("n")))
        first = self.term(scope, depth - 1)
        match kind:
            case "mul" | "add":
                return Apply(kind, (first, *(self.term(scope, depth - 1) for _ in range(self.one(1, 2)))))
            case "sub":
                return Apply("sub", (first, self.term(scope, depth - 1)))
            case "div":
                return Apply("div", (first, self.below(scope)))
            case "quotient":
                return Apply("div", (first, Apply("div", (self.below(scope), self.below(scope)))))
            case "where":
                return Where(self.condition(scope), first)
            case "pow":
                return Apply("pow", (first, ONE))
        return Apply(kind, (first,))

    def fold(self, scope: Scope, depth: int, kind: str) -> Term:
        bound = tuple(index for index in BOUND if index not in scope)[: self.one(1, 1, 2)]
        if not bound:
            return self.read(scope)
        inside = (*scope, *bound)
        match kind:
            case "sum":
                return Fold("sum", bound, self.condition(inside), self.term(inside, depth - 1))
            case "gate":
                gate = Where(self.condition(inside, "gate"), self.term(inside, depth - 1))
                return Fold("sum", bound, self.condition(inside), mul(self.read(inside), gate))
            case "spread":
                gated = [Where(self.condition(inside, "gate"), self.term(inside, depth - 1)) for _ in range(2)]
                return Fold("sum", bound, TRUE, mul(self.read(inside), Apply(self.one("add", "sub"), tuple(gated))))
        op = self.one("max", "min") if kind == "nest" else self.one("max", "min", "prod")
        body = mul(self.read(inside), self.read(inside)) if op == "prod" else self.term(inside, depth - 1)
        made: Term = Fold(op, bound[-1:], self.condition(inside), body)
        for index in reversed(bound[:-1]):
            made = Fold(op, (index,), self.condition((*scope, index)), made)
        return Apply("max", (Apply("min", (made, const(64))), const(-64)))


@st.composite
def terms(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Term:
    return Chooser(draw).term(FREE, 3)


TERM = terms()


def spelled(term: Term) -> str:
    return text(Program("law", TENSORS, (), (), {}, {}), term)


def axes_of(term: Term) -> tuple[Index, ...]:
    return tuple(sorted(free_indices(term), key=str)) or (I,)


@examples(50, 150, TERM, st.integers(0, 99))
def test_a_law_holds_wherever_it_applies(term: Term, seed: int) -> None:
    for inner in dict.fromkeys(walk(term)):
        for rule in RULES:
            found = rule.apply(inner)
            if found is not None:
                note(f"{rule.name}: {spelled(inner)}   ->   {spelled(found)}")
                axes = axes_of(inner)
                assert free_indices(found) <= set(axes), rule.name
                np.testing.assert_array_equal(worth(found, seed, axes, exact=True),
                                              worth(inner, seed, axes, exact=True), rule.name)


def test_simplify_keeps_values() -> None:
    """Whatever the order of the rules; and each rule comes to be used."""
    used: Counter[str] = Counter()

    def watched(rule: Rule) -> Rule:
        def apply(term: Term) -> Term | None:
            found = rule.apply(term)
            used[rule.name] += found is not None
            return found
        return replace(rule, apply=apply)

    @settings(max_examples=200, deadline=None)
    @given(TERM, st.integers(0, 99))
    def attempt(term: Term, seed: int) -> None:
        rules = Random(seed).sample(RULES, len(RULES))
        simple = simplify(term, tuple(map(watched, rules)))
        note(f"{spelled(term)}   ->   {spelled(simple)}")
        np.testing.assert_array_equal(worth(simple, seed, exact=True), worth(term, seed, exact=True))
        assert simplify(simple, tuple(rules)) == simple

    attempt()
    assert set(used) == {rule.name for rule in RULES}
    assert min(used.values()) > 0


def test_what_leaves_a_sum_stays_in_range() -> None:
    p, q = BOUND[:2]
    shifted = Fold("sum", (p, q), eq(Position(p), add(i, ONE)),
                   mul(Read("u", (Position(p),)), Read("v", (Position(q),))))
    np.testing.assert_array_equal(worth(simplify(shifted), 0, exact=True), worth(shifted, 0, exact=True))


# terms with exponentials: equal to rounding


EXPONENTIAL = st.recursive(
    st.sampled_from([a, u, v, w, ZERO, ONE, const(2), Apply("neg", (u,)), Apply("abs", (v,)), Apply("abs", (a,))]),
    lambda inner: st.one_of(
        inner.map(lambda y: Apply("exp", (Apply("max", (Apply("min", (y, const(3))), const(-3))),))),
        st.sampled_from([a, u, w, Apply("neg", (u,)), add(u, v)]).map(exponentials.exp),
        inner.map(lambda y: Apply("log", (add(Apply("abs", (y,)), ONE),))),
        inner.map(lambda y: Apply("log", (mul(exponentials.exp(u), add(Apply("abs", (y,)), ONE)),))),
        st.builds(mul, inner, inner), st.builds(add, inner, inner),
        st.builds(lambda y, z: Apply("sub", (y, z)), inner, inner),
        st.builds(lambda y, z: Apply("div", (y, exponentials.exp(z))), inner, st.sampled_from([a, u, w])),
        st.builds(lambda y, z, e: Apply("div", (mul(y, e), add(Apply("abs", (z,)), mul(const(3), e)))),
                  inner, inner, st.sampled_from([exponentials.exp(a), exponentials.exp(u)])),
        st.sampled_from([u, a, w]).map(lambda y: Apply("pow", (const(2), y))),
    ), max_leaves=8)


def near(got: Array, want: Array) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * abs(want).max())


@examples(60, 200, EXPONENTIAL, st.integers(0, 99))
def test_laws_of_exponentials_keep_values(term: Term, seed: int) -> None:
    before = worth(term, seed)
    for inner in dict.fromkeys(walk(term)):
        for rule in EVERY:
            found = rule.apply(inner)
            if found is not None:
                note(f"{rule.name}: {spelled(inner)}   ->   {spelled(found)}")
                near(worth(found, seed), worth(inner, seed))
    for rules in (EVERY, Random(seed).sample(EVERY, len(EVERY))):
        simple = simplify(term, tuple(rules))
        note(f"{spelled(term)}   ->   {spelled(simple)}")
        near(worth(simple, seed), before)


# the order of the table does not matter


def opened(program: Program, term: Term) -> Term:
    """The term with every definition in it written out."""
    def change(inner: Term) -> Term:
        equation = program.equation(inner.tensor) if isinstance(inner, Read) else None
        if (not isinstance(inner, Read) or equation is None
            or not all(isinstance(axis, Position) for axis in equation.axes)):
            return inner
        return substitute(opened(program, equation.body), dict(zip(equation.indices, inner.subs, strict=True)))

    return transform(term, change)


def ordered(term: Term) -> Term:
    """The term with what may be exchanged in one order."""
    match term:
        case Apply("add" | "mul" | "and" | "or", args):
            return Apply(term.op, tuple(sorted(map(ordered, args), key=lambda arg: repr(canonical(arg)))))
        case Fold(op, bound, domain, body):
            return Fold(op, tuple(sorted(bound, key=str)), ordered(domain), ordered(body))
    return rebuild(term, tuple(map(ordered, children(term))))


def shape(program: NormalProgram) -> tuple[object, ...]:
    """The outputs with everything written out, and how many equations of each kind there are: the same up to names."""
    bodies = [equation.body for equation in program.equations]
    kinds = Counter((b.op, len(b.bound)) if isinstance(b, Fold) else type(b).__name__ for b in bodies)
    results = [e for _, key in program.outputs if (e := program.equation(key)) is not None]
    return (kinds, *(canonical(ordered(opened(program, e.body)), e.indices) for e in results))


# in another order of the rules their texts take seconds to compare
LONG = ("deepseek_sparse", "deepseek_moe", "gpt2_block")


@pytest.mark.drawn(2)
@each([c for c in FILES if c.name not in LONG], {}, few=DRAWN)
def test_the_order_of_the_rules_does_not_matter(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = normal_of(case)
    sizes = case.sizes
    given_ = arrays(usual, sizes, case.ranges)
    want = meaning(usual, given_, sizes)
    for seed in range(4):
        rules = RULES[::-1] if seed == 0 else tuple(Random(seed).sample(RULES, len(RULES)))
        monkeypatch.setattr(simplify, "__defaults__", (rules,))
        shuffled = normalise(typed_of(case))
        assert_close(meaning(shuffled, given_, sizes), want)
        assert shape(shuffled) == shape(usual)


def test_a_sum_of_no_terms_is_0() -> None:
    assert [added(parts) for parts in ((), (v,), (v, w))] == [ZERO, v, Apply("add", (v, w))]
