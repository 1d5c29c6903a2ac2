"""Claims: every verdict of the specs, what is proved and refuted, that nothing false is
proved, and what `einc prove` says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers import examples
from hypothesis import assume
from hypothesis import strategies as st
from programs import CLAIMS
from test_check import SMALL, expressions
from texts import INDICES

from einc.driver import pipeline
from einc.driver.cli import main
from einc.errors.report import Report, Source, render
from einc.ir.claimed import Claim
from einc.ir.indices import Index, IndexSet, size
from einc.ir.programs import Equation, Tensor, TypedProgram, slot_of
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    children,
    const,
    rebuild,
    substitute,
    transform,
    walk,
)
from einc.meaning.equality import equal
from einc.meaning.interpret import interpret
from einc.meaning.prove import Open, Proved, Refuted, by_form, compared, prove, prove_each, same

HEAD = """index t, s, u : time(T)
index h : head(H)
index i, j, k : feature(D)
index a, b : feature(2)
index m : feature(M) = (i a)
index e : feature = i ⊕ a
input x_t, y_t, A_i^j, B_i^j, v^i, L_{t s}, q_{t h}^i, k_{s h}^i, p^m, z^m, r^e, o^e, n^a
"""
LINE = HEAD.count("\n") + 1


def claims(text: str, name: str = "<text>") -> tuple[Claim, ...]:
    report = Report()
    found = pipeline.claims(Source(name, text), report)
    assert not report.errors, "\n".join(map(render, report.sorted()))
    return found


def one(text: str) -> Claim:
    (claim,) = claims(HEAD + text)
    return claim


# the specs

DENIED = {"lemma_collapse": 3, "claims/indexer_rotation": 1, "claims/mla_rope_absorption": 1, "claims/rope_relative": 1,
          "claims/rope_half_relative": 1, "claims/window_readings": 2,
          "claims/smoothing": 2, "claims/scales_outside": 1}
CACHE: dict[str, list[tuple[Claim, Any]]] = {}


def verdicts(name: str) -> list[tuple[Claim, Any]]:
    """Every claim of a spec with what was found."""
    if name not in CACHE:
        report = Report()
        CACHE[name] = [(c, prove(c)) for c in pipeline.claims(pipeline.read_source(name, report), report)]
        assert not report.errors, "\n".join(map(render, report.sorted()))
    return CACHE[name]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_of_the_specs_holds(name: str) -> None:
    found = verdicts(name)
    assert found
    assert [type(v) for c, v in found] == [Refuted if c.negated else Proved for c, _ in found]
    assert sum(c.negated for c, _ in found) == DENIED.get(name, 0)


def test_the_lemma_breaks_off_the_diagonal() -> None:
    """Where t = s neither RoPE nor ALiBi does anything."""
    for claim, verdict in verdicts("lemma_collapse"):
        if claim.negated and "softmax" not in claim.text:
            letters = verdict.example.letters
            places = [dict(zip(letters, at, strict=True)) for at, _, _ in verdict.example.points]
            assert letters == ("t", "s", "h", "h'") and all(at["t"] != at["s"] and at["h"] != at["h'"] for at in places)


def test_the_window_that_keeps_one_more() -> None:
    (_, verdict), *_ = verdicts("claims/window_readings")
    sizes, points = verdict.example.sizes, verdict.example.points
    assert all(t - s == sizes["W"] and (left, right) == (0, 1) for (t, s), left, right in points)


# what is proved, and what is not

TRUE_ONES = [
    "x_t y_t = y_t x_t", "(x_t + y_t)(x_t - y_t) = x_t x_t - y_t y_t", "A_i^j B_j^k v^i = v^i A_i^j B_j^k",
    "Σ_s x_s (Σ_u y_u L_{u s}) = Σ_u y_u (Σ_s L_{u s} x_s)", "(Σ_s x_s) (Σ_u y_u) = Σ_s Σ_u y_s x_u",
    "Σ_{s ≤ t} x_s = Σ_{s < t + 1} x_s", "Σ_{s ≤ t} x_s = Σ_s 𝟙[s ≤ t] x_s", "Σ_{s ≤ t, s ≤ t + 1} x_s = Σ_{s ≤ t} x_s",
    "Σ_{s = t} x_s = x_t", "𝟙[s ≤ t] 𝟙[s ≤ t] x_s = 𝟙[s ≤ t] x_s", "Σ_{s = t - 1} x_s = Σ_{s = t - 1, t ≥ 2} x_s",
    "Σ_s (Σ_u L_{s u})^2 = Σ_s Σ_u Σ_{u'} L_{s u} L_{s u'}",
    "Σ_s y_s (Σ_u L_{s u})^2 = Σ_{u'} Σ_s Σ_u L_{s u'} L_{s u} y_s",
    "δ_i^j v^i = v^j", "ε_a^b ε_{a' b} = δ_{a a'}", "p^m z_m = p^{(i a)} z_{(i a)}",
    "r^e o_e = r^i o_i + r^a o_a", "Σ_s softmax_{s ≤ t}(L_{t s}) = 1",
    "softmax_{s ≤ t}(L_{t s} + x_t) = softmax_{s ≤ t}(L_{t s})",
    "log(Σ_s e^{x_s + y_t}) = y_t + log(Σ_s e^{x_s})", "cos(x_t + y_t) = cos(x_t) cos(y_t) - sin(x_t) sin(y_t)",
    "cos(2 x_t) = 1 - 2 sin(x_t)^2", "sin(x_t)^2 + cos(x_t)^2 = 1", "sin(x_t - x_t) = 0",
    "√(1 + x_t x_t) √(1 + x_t x_t) = 1 + x_t^2", "Σ_{s ≤ t} x_s + Σ_{s > t} x_s = Σ_s x_s",
    "max(x_t, y_t) + 1 = max(y_t + 1, x_t + 1)", "max_s (x_s + y_t) = y_t + max_s x_s", "𝟙[s ≤ t] + 𝟙[s > t] = 1",
    "𝟙[s ≤ t or s > t] x_s = x_s", "Σ_a n^a = n^1 + n^2",
    "Σ_s 1 = T", "Σ_{s ≤ t} 1 = t", "Σ_{t - 2 < s ≤ t, t ≥ 2} 1 = 2 𝟙[t ≥ 2]",
    "Σ_{s ≤ t} Σ_{u ≤ s} x_u = Σ_{u ≤ t} (t - u + 1) x_u", "Σ_{u ≤ s, u ≤ t} 1 = Σ_{u ≤ t, u ≤ s} 1",
    "Σ_{s > t} 1 = T - t",
    "abs(x_t)^2 = x_t^2", "√4 = 2", "e^{x_t} e^{-x_t} = 1", "x_t = x_s, t = s",
    "L_{t s} = L_{s t}, s = t", "x_{s + 1} = x_t, t = s + 1", "1 / (1 + e^{-x_t}) = e^{x_t} / (1 + e^{x_t})",
    "A_i^j A_{k j} = M_{i k} assuming M_{i k} = A_i^j A_{k j}",
    "A_i^j A_{i' j} v^{i'} = v_i assuming A_i^j A_{i' j} = δ_{i i'}",
    "y_t = 2 x_t assuming y_t = x_t + x_t", "P_t = 2 x_t with P_t := x_t + x_t",
    "x_t y_t x_t = x_t assuming x_t y_t = 1 for all t",
    "Σ_u 𝟙[-∞ < max_{s ≤ u} L_{t s}] e^{L_{t u}} y_u = Σ_u e^{L_{t u}} y_u",
    "Σ_s 𝟙[D (s - 1) < x_t, x_t ≤ D s] y_t = 𝟙[0 < x_t, x_t ≤ D T] y_t",
    "Σ_s 𝟙[x_t < D s, D (s - 1) ≤ x_t] y_t = 𝟙[0 ≤ x_t, x_t < D T] y_t",
    "Σ_s 𝟙[D (s - 1) < min(max(1, x_t), D T), min(max(1, x_t), D T) ≤ D s] y_t = y_t",
]  # fmt: skip
FALSE_ONES = [
    "Σ_{s < t} 1 = t", "Σ_{t - 2 < s ≤ t} 1 = 2", "Σ_{t ≤ u ≤ s} 1 = s - t + 1",
    "Σ_{s ≤ t + 1} 1 = t + 1", "Σ_{s < t} Σ_{u ≤ s} x_u = Σ_{u ≤ t} (t - u + 1) x_u",
    "Σ_{s = t - 1} 1 = 1", "Σ_s y_s (Σ_u L_{s u})^2 = Σ_s y_s (Σ_u L_{s u})",
    "Σ_s (Σ_u L_{s u})^2 = Σ_s Σ_u L_{s u} L_{s u}",
    "x_t y_t = x_t x_t", "A_i^j v^i = A_{i}^{j} v^i + 0.01 v^j", "A_i^j B_j^k = B_i^j A_j^k",
    "Σ_{s ≤ t} x_s = Σ_{s < t} x_s",
    "Σ_s x_s y_s = (Σ_s x_s) (Σ_s y_s)", "ε_a^b ε_b^{a'} = δ_a^{a'}", "r^e o_e = r^i o_i",
    "cos(x_t + y_t) = cos(x_t) cos(y_t) + sin(x_t) sin(y_t)", "max(x_t, y_t) = x_t", "L_{t s} = L_{s t}",
    "x_t = x_s, t ≤ s",
    "Σ_s 1 = 4", "𝟙[s ≤ t] = 𝟙[s < t]", "√(x_t x_t) = x_t", "x_t y_t = y_t assuming x_t y_t = 1",
    "A_i^j A_{i' j} = A_j^i A^j_{i'} assuming A_i^j A_{i' j} = B_{i i'}", "log(e^{x_t} + e^{y_t}) = x_t + y_t",
    "Σ_u 𝟙[-∞ < max_{s < u} L_{t s}] e^{L_{t u}} y_u = Σ_u e^{L_{t u}} y_u",
    "Σ_s 𝟙[D (s - 1) < x_t, x_t ≤ D s] y_t = y_t", "Σ_s 𝟙[s - 1 < x_t, x_t ≤ s + 1] y_t = y_t",
    "Σ_s 𝟙[D (s - 1) < x_t, x_t ≤ D s] (s + 1) y_t = 𝟙[0 < x_t, x_t ≤ D T] y_t",
]


@pytest.mark.parametrize("text", TRUE_ONES)
def test_what_is_so_is_proved(text: str) -> None:
    claim = one(f"claim {text}")
    assert by_form(claim)[0]
    assert isinstance(prove(claim), Proved)


@pytest.mark.parametrize("text", FALSE_ONES)
def test_what_is_not_so_is_refuted(text: str) -> None:
    claim = one(f"claim {text}")
    assert not by_form(claim)[0]
    found = prove(claim)
    assert isinstance(found, Refuted)
    assert all(abs(left - right) > 0 for _, left, right in found.example.points)


def test_a_row_over_nothing_is_what_the_language_says() -> None:
    """By the laws of quotients Σ softmax = 1; a row without a point gives 0, and the numbers tell."""
    claim = one("claim Σ_s softmax_{s < t}(L_{t s}) = 1")
    assert by_form(claim)[0]
    found = prove(claim)
    assert isinstance(found, Refuted) and {at for at, _, _ in found.example.points} == {(1,)}


def test_what_is_true_and_not_seen_is_open() -> None:
    found = prove(one("claim max(x_t, y_t) + min(x_t, y_t) = x_t + y_t"))
    assert isinstance(found, Open) and found.trials > 0 and "max(x_{t}, y_{t}) + min" in found.why


def test_a_gate_of_other_data_is_not_idle() -> None:
    """These may be -∞ where what is summed is not."""
    claim = one("claim Σ_u 𝟙[-∞ < max_{s ≤ u} L_{s t}] e^{L_{t u}} y_u = Σ_u e^{L_{t u}} y_u")
    assert not by_form(claim)[0]


def test_an_assumption_holds_at_the_counterexample() -> None:
    claim = one("claim A_i^j v^i = v^j assuming A_i^j A_{k j} = δ_{i k}")
    found = prove(claim)
    assert isinstance(found, Refuted)
    assert claim.given


def test_two_tensors_of_a_program() -> None:
    report = Report()
    text = HEAD + """a_t = Σ_{s ≤ t} x_s
output y_{t}^{\\text{b}} = Σ_s 𝟙[s ≤ t] x_s
output y_{t}^{\\text{c}} = a_t
output y_{t}^{\\text{d}} = Σ_{s < t} x_s
output w_h = Σ_t q_{t h}^i v_i
"""
    program = pipeline.check(Source("<text>", text), report)
    assert program is not None, [p.message for p in report.problems]
    assert isinstance(same(program, "y_b", "y_c"), Proved)
    assert isinstance(same(program, "y_b", "y_d"), Refuted)
    assert compared(program, "y_b", "w") is None and isinstance(same(program, "y_b", "w"), Open)


# claims as they are written


@pytest.mark.parametrize(("text", "code"), [
    ("x_t", "E0210"), ("x_t = y_t = x_t", "E0210"), ("x_t = y_t for all Q", "E0215"), ("x_t = y_t for all h", None),
    ("x_t = y_t, s ≤ u", None), ("x_t = y_t assuming not x_t = 1", "E0210"), ("x_t = x_{t + 1}", "E0601"),
    ("x_t = x_{t + 1}, t + 1 ≤ T", ""), ("nothing_t = x_t", "E0201"), ("x_t = y_t assuming K_t = nothing_t", "E0201"),
    ("not (x_t = y_t)", ""), ("x_t = y_t with P_t := x_t, Q_t := y_t", ""),
])
def test_what_is_wrong_with_a_claim_is_told(text: str, code: str | None) -> None:
    report = Report()
    pipeline.claims(Source("<text>", f"{HEAD}claim {text}"), report)
    found = [p.code for p in report.errors]
    assert found == [] if code == "" else len(found) == 1 and (code is None or found == [code])


def test_a_softmax_in_a_claim_runs_over_the_first_index_it_names() -> None:
    assert by_form(one("claim Σ_s softmax_{s ≤ t}(L_{t s}) y_s = Z_t with Z_t := Σ_s softmax_{s ≤ t}(L_{t s}) y_s"))[0]


def test_claims_are_no_part_of_a_module() -> None:
    report = Report()
    text = HEAD + "output Y_t = Σ_{s ≤ t} x_s"
    plain, with_claims = (pipeline.check(Source("a.ein", x), report)
                          for x in (text, text + "\nclaim Y_t = Y_t + Σ_{s < 1} y_s"))
    assert plain is not None and with_claims is not None
    assert (plain.tensors.keys(), plain.equations, plain.outputs) == (
        with_claims.tensors.keys(), with_claims.equations, with_claims.outputs)


# the command


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    def call(text: str, *options: str, command: str = "prove") -> Any:
        (tmp_path / "a.ein").write_text(HEAD + text, encoding="utf-8")
        return CliRunner().invoke(main, [command, str(tmp_path / "a.ein"), *options])

    return call


def test_the_command_says_what_holds(run: Callable[..., Any]) -> None:
    done = run("claim x_t + y_t = y_t + x_t\nclaim not x_t = y_t")
    assert done.exit_code == 0, done.output
    assert f"a.ein:{LINE}: proved: x_t + y_t = y_t + x_t" in done.output
    assert "refuted by example, as claimed: not x_t = y_t" in done.output
    assert "2 claims of 2 hold" in done.output


@pytest.mark.parametrize(("claim", "words"), [
    ("x_t = y_t", ["refuted: x_t = y_t", "where the sides differ"]), ("not x_t = x_t", ["wrong, the sides are equal"]),
    ("max(x_t, y_t) + min(x_t, y_t) = x_t + y_t", ["open:", "no difference in"]),
])
def test_status_1_where_a_claim_does_not_hold(run: Callable[..., Any], claim: str, words: list[str]) -> None:
    done = run(f"claim {claim}")
    assert done.exit_code == 1 and all(word in done.output for word in words) and "0 claims of 1" in done.output


def test_the_command_as_data(run: Callable[..., Any]) -> None:
    done = run("claim x_t = y_t\nclaim x_t = x_t\nclaim max(x_t, y_t) = x_t + y_t - min(x_t, y_t)", "--format", "json")
    page = json.loads(done.stdout)
    assert [x["verdict"] for x in page["claims"]] == ["refuted", "proved",
                                                      "open"] and not page["holds"] and done.exit_code == 1
    assert page["claims"][0]["line"] == LINE and page["claims"][0]["points"][0].keys() == {"at", "left", "right"}


def test_a_proof_says_where_a_divisor_of_0_makes_sides_differ(run: Callable[..., Any]) -> None:
    done = run("claim x_t y_t / x_t = y_t\nclaim y_t / (1 + x_t^2) = y_t / (x_t^2 + 1)\nclaim 1 / exp(x_t) = exp(-x_t)")
    assert done.exit_code == 0 and "3 claims of 3 hold" in done.output
    assert done.output.count("but not where a divisor is 0") == 1
    assert done.output.count("wherever no divisor is 0") == 2  # 1 + x^2 may be 0 for all that is known, exp(x) not
    page = json.loads(run("claim x_t y_t / x_t = y_t + 1 - 1\nclaim x_t / x_t = 1", "--format", "json").stdout)
    points = page["claims"][1]["but"]["points"]
    assert all(x["left"] == 0 and x["right"] == 1 for x in points) and page["holds"]


def test_a_text_without_claims_is_told(run: Callable[..., Any]) -> None:
    done = run("output z_t = x_t")
    assert done.exit_code == 1 and "claims nothing" in done.output and "claim LEFT = RIGHT" in done.output


def test_a_text_of_claims_alone_is_compiled_to_nothing(run: Callable[..., Any]) -> None:
    done = run("claim x_t = x_t", command="compile")
    assert done.exit_code == 1 and "has no output" in done.output and "einc prove" in done.output
    done = run("claim x_t = x_t", command="check")
    assert done.exit_code == 0 and "no output" in done.output


# random identities

D, TIME = IndexSet("feature", size("D")), IndexSet("time", size("T"))
LETTERS = {"i": Index("i", D), "j": Index("j", D), "t": Index("t", TIME)}
SLOTS = {"A": (D, D), "B": (D, D), "v": (D,), "w": (D,), "x": (TIME,), "L": (TIME, TIME), "G": (TIME, D)}


def positions(draw: Any, over: IndexSet, scope: list[Index]) -> Term:
    return Position(draw(st.sampled_from([i for i in scope if i.set == over])))


@st.composite
def terms(draw: Any, scope: tuple[Index, ...] = tuple(LETTERS.values()), depth: int = 4) -> Term:
    """A term over the letters, sums over fresh ones inside."""
    kinds = ["mul", "mul", "add", "sum", "sum", "read", "exp", "where", "cos", "max"]
    kind = draw(st.sampled_from(kinds if depth else ["read"]))
    inner = terms(scope=scope, depth=depth - 1) if depth else st.nothing()
    match kind:
        case "read":
            name = draw(st.sampled_from(sorted(SLOTS)))
            return Read(name, tuple(positions(draw, over, list(scope)) for over in SLOTS[name]))
        case "mul" | "add":
            return Apply(kind, (draw(inner), draw(inner)))
        case "exp" | "cos":
            small = terms(scope=scope, depth=min(depth - 1, 1))  # what is large has no cosine that two ways agree on
            return Apply(kind, (Apply("mul", (const(Fraction(1, 4)), draw(small))),))
        case "where":
            return Where(condition(draw, scope), draw(inner))
    fresh = Index(f"{'d' if (over := draw(st.sampled_from([D, TIME]))) == D else 's'}{len(scope)}", over)
    domain = condition(draw, (*scope, fresh), True) if kind == "sum" else TRUE
    return Fold(kind, (fresh,), domain, draw(terms(scope=(*scope, fresh), depth=depth - 1)))


def condition(draw: Any, scope: tuple[Index, ...], maybe: bool = False) -> Term:
    over = draw(st.sampled_from([D, TIME]))
    pair = (positions(draw, over, list(scope)), positions(draw, over, list(scope)))
    options = [Apply(op, pair)
               for op in ("le", "lt", "eq", "ne")] + [Apply("le", (pair[0], Apply("add", (pair[1], ONE))))]
    return draw(st.sampled_from([TRUE, *options] if maybe else options))


def stirred(term: Term, draw: Any) -> Term:
    """An equal term: factors and addends in another order, products distributed or not,
    sums in another order, other letters."""
    used = {i.name for x in walk(term) if isinstance(x, Fold) for i in x.bound}
    names = (name for name in (f"q{n}" for n in range(1_000, 9_999)) if name not in used)

    def change(here: Term) -> Term:
        match here:
            case Apply("mul", (a, Apply("add", (b, c)))) if draw(st.booleans()):
                return Apply("add", (Apply("mul", (c, a)), Apply("mul", (a, b))))
            case Apply("mul" | "add" as op, args):
                return Apply(op, tuple(draw(st.permutations(args))))
            case Fold("sum", bound, domain, Fold("sum", inner, where, body)) if domain == TRUE == where:
                return Fold("sum", inner, TRUE, Fold("sum", bound, TRUE, body))
            case Fold("sum", bound, domain, body) if domain != TRUE and draw(st.booleans()):
                return Fold("sum", bound, TRUE, Where(domain, body))
            case Fold(op, (index,), domain, body):
                other = Index(next(names), index.set)
                by: dict[Index, Term] = {index: Position(other)}
                return Fold(op, (other,), substitute(domain, by), substitute(body, by))
        return here

    return transform(term, change)


def spoiled(term: Term, draw: Any) -> Term:
    """The term with one thing changed in it."""
    places = [x for x in walk(term) if isinstance(x, Read) or (isinstance(x, Apply) and x.op in ("le", "lt", "add"))]
    assume(places)
    chosen = draw(st.sampled_from(places))
    match chosen:
        case Read("A" | "B" as name, (a, b)):
            new: Term = Read(name, (b, a)) if draw(st.booleans()) else Read("B" if name == "A" else "A", (a, b))
        case Read("L", (a, b)):
            new = Read("L", (b, a))
        case Read():
            new = Apply("add", (chosen, const(Fraction(1, 8))))
        case Apply("le" | "lt" as op, args):
            new = Apply("lt" if op == "le" else "le", args)
        case _:
            new = Apply("sub", chosen.args[:2])
    done = [False]

    def change(here: Term) -> Term:
        if here is chosen and not done[0]:
            done[0] = True
            return new
        return rebuild(here, tuple(map(change, children(here))))

    return change(term)


def values(*sides: Term) -> list[np.ndarray[Any, Any]]:
    """The terms at random inputs, over every letter."""
    axes = tuple(map(Position, LETTERS.values()))
    tensors = {n: Tensor(n, n, tuple(slot_of(Index(f"a{m}", x)) for m, x in enumerate(over)), "input")
               for n, over in SLOTS.items()}
    outputs = {f"left{n}": Equation(f"left{n}", axes, TRUE, side) for n, side in enumerate(sides)}
    tensors |= {key: Tensor(key, key, tuple(slot_of(i) for i in LETTERS.values()), "local") for key in outputs}
    program = TypedProgram("p", tensors, tuple(outputs.values()), tuple((k, k) for k in outputs), {}, {})
    random = np.random.default_rng(0)
    sizes = {"D": 3, "T": 4}
    given_ = {t.key: random.standard_normal([s.set.extent.at(sizes).numerator for s in t.slots])
              for t in program.inputs()}
    used = {n for t in program.inputs() for s in t.slots for n in s.set.extent.sizes}
    found = interpret(program, given_, {n: v for n, v in sizes.items() if n not in used})
    return [found[key] for key in outputs]


def close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    fine = np.isfinite(a) & np.isfinite(b)
    return bool(np.allclose(a[fine], b[fine], rtol=1e-6, atol=1e-9 * (1 + np.abs(a[fine]).max(initial=0))))


@examples(60, 150, st.data())
def test_terms_that_are_stirred_are_proved_equal(data: Any) -> None:
    term = data.draw(terms())
    other = stirred(stirred(term, data.draw), data.draw)
    assert close(*values(term, other))
    assert equal(term, other)


@examples(80, 250, st.data())
def test_nothing_false_is_proved(data: Any) -> None:
    term = data.draw(terms())
    other = spoiled(stirred(term, data.draw), data.draw)
    if equal(term, other):
        assert close(*values(term, other))


@examples(12, 40, expressions(),
       st.sampled_from(["", ", s ≤ t", ", t = s", " assuming A_{t s} = A_{s t}", " assuming Q_t = A_{t s}"]))
def test_whatever_can_be_claimed_has_a_verdict(text: str, tail: str) -> None:
    for claim in pipeline.claims(Source("<text>", f"{INDICES}{SMALL}claim {text} + 0 = {text}{tail}"), Report()):
        found = prove(claim)
        assert isinstance(found, Proved) or (isinstance(found, Open) and "infinite" in found.why)


def test_the_forms_of_many_pairs_alike_take_no_long() -> None:
    """Σ over six indices of a product that is the same for all of them: every order of the names is as good."""
    bound = tuple(Index(f"d{n}", D) for n in range(6))
    pairs = [Read("A", (Position(a), Position(b))) for a in bound for b in bound if a != b]
    one_way = Fold("sum", bound, TRUE, Apply("mul", tuple(pairs)))
    other = Fold("sum", bound[::-1], TRUE, Apply("mul", tuple(pairs[::-1])))
    assert equal(one_way, other)
    assert not equal(one_way, replace(other, body=Apply("mul", (*pairs[1:], Read("v", (Position(bound[0]),))))))


def test_a_tensor_that_is_proved_to_be_another_is_read_as_that() -> None:
    """Each by the other is no circle: what is read in its place does not come to it."""
    text = "index t : time(T)\nindex f : feature(D)\ninput x_t^f, y_t^f\n" + "".join(
        f"{name}_t = Σ_f {product}\n{name}'_t = exp({name}_t)\noutput {name}''_t = {name}'_t {name}_t\n"
        for name, product in (("a", "x_t^f y_t^f"), ("b", "y_t^f x_t^f")))
    found = prove_each(claims(text + "claim a_t = b_t\nclaim b_t = a_t\nclaim a'_t = b'_t\nclaim a''_t = b''_t\n"))
    assert len(found) == 4 and all(isinstance(verdict, Proved) for _, verdict in found)
