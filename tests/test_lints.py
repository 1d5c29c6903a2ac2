"""What is told of texts that could be sound: domains without a point, and what looks like a slip."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import codes, problems, typed

from einc.checking.programs import slips
from einc.driver import pipeline
from einc.errors.report import Report, Source
from einc.ir.domains import empty
from einc.ir.indices import Index, IndexSet, size
from einc.ir.terms import Apply, Position, Read, Term, both, const, reads
from einc.meaning.interpret import interpret

SHIPPED = [x for x in sorted((Path(__file__).parent.parent / "specs").rglob("*.ein"))
           if "\nsection " not in x.read_text("utf-8")]

# domains

T, S = (Index(name, IndexSet("time", size("T"))) for name in "ts")
LEAVES = st.sampled_from([Position(T), Position(S), const(1), const(3)])
LINES = st.tuples(LEAVES, st.integers(-2, 2)).map(lambda x: Apply("add", (x[0], const(x[1]))))
ATOMS = st.tuples(st.sampled_from(["le", "lt", "eq", "ne"]), LINES, LINES).map(lambda x: Apply(x[0], x[1:]))
DOMAINS = st.lists(ATOMS | st.lists(ATOMS, min_size=2, max_size=2).map(lambda x: Apply("or", tuple(x))), min_size=1,
                   max_size=4)


def holds(term: Term, at: dict[Index, int]) -> bool:
    def of(x: Term) -> int:
        match x:
            case Position(index):
                return at[index]
            case Apply("add", args):
                return sum(map(of, args))
        return int(x.value)  # type: ignore[union-attr]

    assert isinstance(term, Apply)
    match term.op:
        case "and":
            return all(holds(a, at) for a in term.args)
        case "or":
            return any(holds(a, at) for a in term.args)
    a, b = map(of, term.args)
    return {"le": a <= b, "lt": a < b, "eq": a == b, "ne": a != b}[term.op]


@settings(max_examples=300, deadline=None)
@given(DOMAINS)
def test_a_domain_called_empty_has_no_point(atoms: list[Apply]) -> None:
    domain = both(*atoms)
    if empty(domain) and isinstance(domain, Apply):
        for extent in (1, 2, 5):
            points = itertools.product(range(1, extent + 1), repeat=2)
            assert not any(holds(domain, {T: t, S: s}) for t, s in points)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_values_in_a_circle_have_no_point(count: int) -> None:
    """x < y < … < x, among conditions on values of which nothing else is said; without one of them there are points."""
    names = [Read(f"x_{n}", (Position(T),)) for n in range(count)]
    circle = [Apply("lt", pair) for pair in zip(names, [*names[1:], names[0]], strict=True)]
    more = [Apply("le", (Read(f"y_{n}", (Position(T),)), names[0])) for n in range(9)]
    assert empty(both(*more, *circle))
    assert not any(empty(both(*more, *circle[:n], *circle[n + 1:])) for n in range(count))


@pytest.mark.parametrize("under",
                         ["s ≤ t, s > t", "s < t, t < s", "s < 1", "s > T", "s ∈ (t, t]", "s = t, s < t", "s ≤ t - T",
                                   "s ∈ (t - 4, t], s > t + 1", "(s > t or s < 1), s ≤ t", "s = t, s ≠ t"])
def test_a_sum_over_nothing(under: str) -> None:
    assert "E0504" in codes(f"input x_s\noutput y_t = Σ_{{{under}}} x_s x_t : all")


@pytest.mark.parametrize("under",
                         ["s ≤ t", "s < t", "s ∈ (t - W, t]", "s > t - W, s ≤ t", "s = t", "s ≤ 3", "s > 4, s ≤ t",
                                   "(s > t - 2 or s < 3), s ≤ t", "doc_s = doc_t", "s ≤ t - W"])
def test_a_sum_with_empty_rows_is_fine(under: str) -> None:
    assert codes(f"dim W\ninput x_s\ninput doc_t : int\noutput y_t = Σ_{{{under}}} x_s x_t : all") == []


def test_masks_that_exclude_each_other() -> None:
    text = "input L_{t s}\nmask L_{t s} : s ≤ t\nmask L_{t s} : s > t\noutput y_t = Σ_s L_{t s} : all"
    (problem,) = problems(text)
    assert problem.code == "E0504"
    assert [x.span.text for x in problem.labels] == ["mask L_{t s} : s > t"]
    (problem,) = problems(text.replace("Σ_s L_{t s}", "Σ_s softmax_s(L_{t s})"))
    assert problem.code == "E0504"
    assert problem.span is not None
    assert problem.span.source.name == "spec.ein", "what a definition runs over is told where it is applied"


# slips


@pytest.mark.drawn(7)
@pytest.mark.parametrize("file", SHIPPED, ids=lambda x: x.stem)
def test_the_specs_that_come_with_einc_have_no_slip(file: Path) -> None:
    report = Report()
    assert pipeline.check(pipeline.read_source(file, report), report, strict=True) is not None, report.problems


@pytest.mark.parametrize(("line", "under"), [
    ("input z_t", "z_t"), ("weight W_f", "W_f"), ("dim N", "N"), ("dim N = 4", "N"), ("map π(h) = h : h", "π"),
    ("def twice(x) = 2 x", "twice"), ("set S_t = topk_{s ≤ t}(x_s + x_t, 2)", "S_t"),
])
def test_what_is_declared_and_not_used(line: str, under: str) -> None:
    (problem,) = problems(f"{line}\ninput x_t\noutput y_t = 2 x_t")
    assert problem.code == "W0903"
    assert problem.span is not None
    assert problem.span.text == under


@pytest.mark.parametrize("text", [
    "input x_t\noutput y_t = x_t",
    "input x_t, z_t\nu_t = z_t\noutput y_t = x_t u_t",
    "input x_s\ninput doc_t : int\nmask A_{t s} : s ≤ t, doc_t = doc_s\nA_{t s} = x_t x_s\noutput y_t = Σ_s A_{t s}",
    "dim N\ninput x_s\noutput y_t = Σ_{s ∈ (t - N, t]} x_s",
    "dim N\nindex i : feature(2 N)\ninput x^i\noutput y = Σ_i x^i",
    "dim n\ninput x_s, v_s\nset S_t = topk_{s ≤ t}(x_s x_t, n)\noutput y_t = Σ_{s ∈ S_t} v_s",
    "map π(h) = ceil(h G / H) : g\ninput x_g\noutput y_h = x_{π(h)}",
    "def twice(x) = 2 x\ndef four(x) = twice(twice(x))\ninput x_t\noutput y_t = four(x_t)",
    "input x_t, z_t\nclaim x_t z_t = z_t x_t\noutput y_t = x_t",
    "index q : time(T_r)\ninput x_{r q}\noutput y_{r q} = x_{r q}",
    'use "attention"\ninput b_t\noutput B_t^f = X_t^f b_t',
    "input x_s\nz = 0\nfor s in 1..T:\n    z ← z + x_s\noutput z",
])
def test_what_is_used_is_not_told(text: str) -> None:
    assert [p.code for p in problems(text, "" if "use" in text
                                     else "index t, s : time(T)\nindex h : head(H)\nindex g : head(G)\n"
                                     "index r : request(R)\n")] == []


def test_a_slip_is_no_second_problem_of_an_error() -> None:
    assert [p.code for p in problems("input x_t, z_t\noutput y_t = 2 x_t z_q")] == ["E0204"]


def test_slips_are_told_of_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "base.ein").write_text("index t : time(T)\ninput x_t, z_t\noutput y_t = 2 x_t\n", encoding="utf-8")
    top = tmp_path / "top.ein"
    top.write_text('use "base"\noutput u_t = 3 y_t\n', encoding="utf-8")
    report = Report()
    pipeline.check(pipeline.read_source(top, report), report)
    assert report.problems == []


def test_a_delta_of_one_index() -> None:
    assert codes("input x_t\noutput y_t = δ_t^t x_t") == ["W0905"]
    assert codes("input x_f\noutput y_f = δ_{(f)}^{(f)} x_f") == ["W0905"]
    assert codes("input x_f\noutput y_f = δ_f^{f'} x_{f'}") == []
    assert codes("input x_t\noutput y_t = δ_d^d x_t") == [], "a trace"


def test_strict_refuses_a_slip() -> None:
    report = Report()
    source = Source("a.ein", "index t : time(T)\ninput x_t, z_t\noutput y_t = x_t\n")
    assert pipeline.check(source, report, strict=True) is None


# slips that are seen in equations

RULES = ("W0906", "W0907", "W0908", "W0909")


def told(text: str, indices: str = "") -> list[str]:
    return [p.code for p in problems(text, indices) if p.code in RULES]


@pytest.mark.parametrize("seed", range(12))
def test_an_equation_that_nothing_reads(seed: int) -> None:
    """A chain of equations, of which one at random is left out of the next: it is told, with the weights behind it."""
    random = Random(seed)
    count = random.randint(2, 5)
    left = random.randrange(count)
    lines = ["index t : time(T)", "index f : feature(D)", "input x_t^f"]
    last = "x_t^f"
    for n in range(count):
        lines.append(f"weight W_{{{n} f}}\ny_{{{n} t}}^f = W_{n}^{{(f)}} {last}")
        last = last if n == left else f"y_{{{n} t}}^f"
    found = [p for p in problems("\n".join([*lines, f"output z_t^f = 2 {last}"]), "") if p.code == "W0906"]
    assert [p.code for p in found] == ["W0906"]
    assert found[0].span is not None and found[0].span.text.startswith(f"y_{{{left} t}}")
    assert any(f"{left}" in note and "W" in note for note in found[0].notes)
    whole = "\n".join([*lines, f"output z_t^f = {last} + y_{{{left} t}}^f"])
    assert told(whole) == []


@pytest.mark.parametrize("seed", range(12))
def test_weights_summed_along_another_index(seed: int) -> None:
    """Random forms of attention: with the softmax over the summed index nothing is told, over another one it is."""
    random = Random(seed)
    first, second = random.sample(["t", "s", "u"], 2)
    named = random.random() < 0.5
    scale = random.choice(["", "2 ", "1/√D "])
    values = random.choice([f"V_{second}^d", f"(V_{second}^d + 1)", f"V_{second}^d exp(-{second})"])
    for over, wanted in ((second, []), (first, ["W0907"])):
        share = f"softmax_{over}({scale}L_{{{first} {second}}})"
        lines = [f"index {first}, {second} : time(T)", "index d : feature(D)",
                 f"input L_{{{first} {second}}}, V_{second}^d",
                 f"mask L_{{{first} {second}}} : all"]
        if named:
            lines.append(f"A_{{{first} {second}}} = {share}")
        lines.append(f"output Y_{first}^d = Σ_{second} {f'A_{{{first} {second}}}' if named else share} {values}")
        assert told("\n".join(lines)) == wanted, "\n".join(lines)


@pytest.mark.parametrize("text", [
    "index t : time(T)\nindex e : expert(E)\ninput L_t^e\noutput p^e = 1/T Σ_t softmax_e(L_t^e)",
    "index t : time(T)\nindex f : feature(D)\ninput x_t^f, a_t\noutput y^f = Σ_t a_t RMSNorm(x_t^f)",
    "index t : time(T)\nindex e : expert(E)\nindex f : feature(D)\ninput L_t^e, F_t^{(e) f}\n"
    "output y_t^f = Σ_e softmax_e(L_t^e) F_t^{(e) f}",
])
def test_shares_that_are_averaged_are_no_slip(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize(("right", "wrong", "codes_"), [
    ("V_{s, π(h)}^d", "V_{s h}^d", ["W0908"]), ("V_{s, π(h)}^d", "X_s^f W_{V h f}^d", ["W0906"]),
    ("K_hat_{s, π(h)}_k", "K_hat_{s h k}", ["W0908"]),
])
def test_a_tensor_of_the_spec_that_is_used(right: str, wrong: str, codes_: list[str]) -> None:
    text = (Path(__file__).parent.parent / "specs" / "gqa.ein").read_text(encoding="utf-8")
    assert told(text) == []
    assert told(text.replace(right, wrong)) == codes_


@pytest.mark.parametrize("seed", range(8))
def test_a_size_that_is_anothers_extent(seed: int) -> None:
    """Extents of used specs at random, and names that are none of theirs."""
    random = Random(seed)
    name, mask, sizes = random.choice([("sdpa", "L_{n h t s}", ["B", "H", "T", "d_k"]),
                                       ("attention", "L_{t s}^{(h)}", ["H", "T", "d_k", "d_model"])])
    size = random.choice([*sizes, "W", "q"])
    text = f'use "{name}"\ndim {size}\nmask {mask} : s > t - {size}'
    found = [p for p in problems(text, "") if p.code in RULES]
    assert [p.code for p in found] == ["W0909"] * (size in sizes), text
    assert all(p.labels and p.labels[0].span.source.name.endswith(".ein") for p in found)
    assert told(text.replace(f"dim {size}", f"dim {size} = 4")) == [], "a size that is fixed is no other one"


# indices that only a mask has


@pytest.mark.parametrize("seed", range(12))
def test_an_index_that_a_mask_alone_has(seed: int) -> None:
    """Random logits under random restrictions: no term has s, so it is E0302; with a term
    that has it the text is sound."""
    random = Random(seed)
    restriction = random.choice(["s ≤ t", "s < t", "s ∈ (t - 3, t]", "s ≤ t and s ≥ 1", "t - s ≤ 4, s ≤ t"])
    masked = random.random() < 0.5
    terms = [random.choice(["Q_t^d K_{t d}", "exp(x_t)", "x_t", "2 x_t x_t"]) for _ in range(random.randint(1, 3))]
    for more, wanted in (([], ["E0302"]),
                         ([random.choice(["x_s", "Q_t^d K_{s d}", "1[s = s] x_t", "(t - s) x_t"])], [])):
        body = " + ".join([*terms, *more])
        lines = ["input Q_t^d, K_t^d, x_t", f"mask L_{{t s}} : {restriction}" * masked,
                 f"L_{{t s}} = {body}" + f", {restriction}" * (not masked), "output Y_t = Σ_s softmax_s(L_{t s}) x_s"]
        assert codes("\n".join(filter(None, lines))) == wanted, lines


# a number beside an index


@pytest.mark.parametrize("seed", range(12))
def test_a_number_beside_an_index_in_parentheses(seed: int) -> None:
    """Pairs and products in slots of composites: side by side they are refused, and both
    ways to say which are compiled."""
    random = Random(seed)
    number, label = random.randint(1, 2), random.choice(["", "2 ", "1 "])
    text = ("index t : time(T)\nindex y : head(2)\nindex l : head(J)\nindex h : head(2 J) = (y l)\ninput A_t^h\n"
            f"output B_{{{label}t}}^l = A_t^{{{{0}}}}")
    (problem,) = problems(text.replace("{0}", f"({number} l)"), "")
    assert problem.code == "E0203"
    ways = {help_.new for help_ in problem.helps}
    assert ways == {f"({number}, l)", f"{number}·l"}
    given = np.arange(1.0, 13.0).reshape(2, 6)
    pair, product = given[:, 3 * number - 3:3 * number], given[:, number - 1:3 * number:number]
    for way, wanted in ((f"({number}, l)", pair), (f"{number}·l", product)):
        program = typed(text.replace("{0}", way), "")
        (found,) = interpret(program, {"A": given}).values()
        assert np.array_equal(found, wanted), way


def test_equations_that_nothing_reads_are_told_in_time_that_grows_with_the_text(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is being written has many: the reads of its lines are looked at once, and not once for each."""
    counted: list[int] = []
    for lines in (20, 80):
        looked: list[object] = []
        monkeypatch.setattr(slips, "reads", lambda term, looked=looked: looked.append(term) or reads(term))
        text = "index t : time(T)\ninput x_t\n" + "".join(f"a{n}_t = {n} x_t\n" for n in range(lines))
        report = Report()
        pipeline.check(Source("<text>", f"{text}output y_t = x_t\n"), report)
        assert sum(problem.code == "W0906" for problem in report.problems) == lines
        counted.append(len(looked))
    assert counted[1] <= 4 * counted[0]


@pytest.mark.parametrize("written", ["q", "q_t"])
def test_a_mask_with_other_indices_is_told_those_of_the_tensor(written: str) -> None:
    """Nothing says that the tensor is not there, and what is offered is sound."""
    text = "index t, s : time(T)\ninput q_{t s}, x_t\nmask %s : all\noutput y_t = Σ_s softmax_s(q_{t s}) x_s"
    told = next(p for p in problems(text % written, "") if p.code == "E0213")
    assert f"`{written}` has other indices than the tensor of that name, `q_{{t s}}`" in told.message
    assert "`mask q_{t s} : …`" in told.helps[-1].text and not problems(text % "q_{t s}", "")
    assert "nothing defines" in next(p for p in problems(text % "p_t", "") if p.code == "E0213").message
