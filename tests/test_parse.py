"""The grammar, the three spellings, spans, and where a statement ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib.resources import files
from typing import Any

import lark
import pytest
from lark import Lark
from test_seed import BLOCKS, SPECS
from texts import INDICES, meaning, typed

from einc.driver import pipeline
from einc.errors.report import Report, Source, Span, render
from einc.syntax import parse as parse_module
from einc.syntax import tables
from einc.syntax import tree as s
from einc.syntax.lines import lines
from einc.syntax.spelling import GREEK, MACROS
from einc.syntax.tokens import Word, words


def parsed(text: str) -> s.SyntaxTree:
    report = Report()
    tree = pipeline.syntax(Source("a.ein", text), report)
    assert report.problems == [], "\n".join(map(render, report.problems))
    return tree


def tokens(text: str) -> list[tuple[str, str]]:
    """The words of a text that has no errors, without where they stand."""
    report = Report()
    found = [(w.type, w.value) for w in words(Source("a.ein", text), report) if w.type != "NEWLINE"]
    assert report.problems == []
    return found


def statements(text: str) -> list[str]:
    """The pieces that a text is cut into, as they stand in it."""
    report = Report()
    found = lines(Source("a.ein", text), report)
    return [text[line.words[0].start : line.words[-1].end] for line in found]


# the grammar


def test_the_grammar_has_no_conflict() -> None:
    """Strict mode refuses a grammar in which one word could continue a statement in two ways."""
    grammar = files("einc.grammar").joinpath("ein.lark").read_text(encoding="utf-8")
    assert Lark(grammar, parser="lalr", lexer=parse_module.WordLexer, strict=True)


def test_every_word_of_the_grammar_is_made_and_none_else() -> None:
    """The lexer is hand-written, so the terminals of the grammar and the words of the lexer are held together here."""
    grammar = files("einc.grammar").joinpath("ein.lark").read_text(encoding="utf-8")
    declared = {name for row in grammar.splitlines() if row.startswith("%declare") for name in row.split()[1:]}
    everything = "".join([*SPECS.values(), *BLOCKS.values(), *EXTRA])
    report = Report()
    made = {w.type for w in words(Source("a.ein", everything), report)}
    assert report.problems == []
    assert declared - made == set()
    assert made - declared == {"NEWLINE", "LINEEND", "DISPLAY", "STOP"}


EXTRA = (
    '\nuse "a"\nsection "b":\nignore "c"\ndim W\nmatrix A : T × d\nvector b : d\ntensor C : B × T × d\n'
    'override set S_t = topk_{s}(x_s, 2)\n'
    'claim a = b assuming a and b or not c for all t\n'
    "input x_t as y, x' : int\nplan a:\n    b 1 = 2\nx_hat^ab = 1..3 ∈ 2 * ∞ ⊕ [1]"
    " + \\begin{bmatrix} a & b \\\\ c & d \\end{bmatrix}\\\\"
)


# three spellings


SAME = [
    (r"L_{t s}=\sum_{d}\frac{1}{\sqrt{d_k}} \widehat Q_{t}{}^{d} \widehat K_{s d}",
     "L_{t s} = Σ_d 1/√d_k Q̂_t^d K̂_{s d}", "L_{t s} = sum_{d} 1/sqrt(d_k) Q_hat_t^d K_hat_{s d}"),
    (r"y_t = \max_{s\le t} x_s", "y_t = max_{s ≤ t} x_s", "y_t = max_{s <= t} x_s"),
    (r"y_t = \sum_{s\in\{1, 2\}, s \leq t} x_s", "y_t = ∑_{s∈{1, 2}, s≤t} x_s", "y_t = sum_{s in {1, 2}, s <= t} x_s"),
    (r"y_t=\sum_s \operatorname{softmax}_{s\le t}\!\left(x_s\right) \, \text{relu}(x_t) .",
     "y_t = Σ_s softmax_{s≤t}(x_s) relu(x_t)",
     "y_t = sum_s softmax_{s<=t}(x_s) relu(x_t)"),
    (r"y_t{}^{f} = z_t{}^{e} \delta_{e}{}^{f'} \delta_{f'}{}^{f}", "y_t^f = z_t^e δ_e^{f'} δ_{f'}^f",
     "y_t^f = z_t^e delta_e^{f'} delta_{f'}^f"),
    (r"y_{t a} = \epsilon_a{}^b x_{t}{}_b", "y_{t a} = ε_a^b x_t_b", "y_{t a} = epsilon_a^b x_t_b"),
    (r"y_t := \mathbb{1}[t \ge 2 \land t \ne 5] x_t \cdot \tfrac12", "y_t ≔ 𝟙[t ≥ 2 ∧ t ≠ 5] x_t · 1/2",
     "y_t = 1[t >= 2 and t != 5] x_t * 1/2"),
    (r"q_t{}^{z} = x_t{}^{\kappa} \oplus w_t{}^{\rho}", "q_t^z = x_t^κ ⊕ w_t^ρ", "q_t^z = x_t^kappa (+) w_t^rho"),
    (r"\widetilde H''_t = \mathcal L_t + \bar{x}_t", "H̃″_t = ℒ_t + x̄_t", "H''_tilde_t = ℒ_t + x_bar_t"),
    (r"y_t = -\infty + e^{-x_t} \times \exp(x_t)", "y_t = -∞ + e^{-x_t} × exp(x_t)",
     "y_t = -inf + exp(-x_t) * exp(x_t)"),
    (r"y_t = \sum_{j=1}^{n} w_{\max(t-j, 1)}", "y_t = Σ_{j=1}^n w_{max(t-j, 1)}",
     "y_t = sum_{1 <= j <= n} w_{max(t-j,1)}"),
]
DECLARED = INDICES.replace("index e : feature(E)", "index e : feature(D)") + r"""
index κ : latent(C)
index ρ : feature(R)
index z : feature = κ ⊕ ρ
index j : head(n)
input \widehat Q_t^d, \widehat K_s^d, x_t, w_t, z_t^e, \mathcal L_t, \bar x_t, x_{t a}, x_t^κ as x_k, w_t^ρ as w_r
""".replace("x_{t a}", "x_{t a} as xa")


@pytest.mark.parametrize("spellings", SAME, ids=range(len(SAME)))
def test_one_formula_in_three_spellings_is_one_program(spellings: tuple[str, ...]) -> None:
    first, *others = (
        meaning(typed(f"{DECLARED.replace('index n : batch(B)', '').replace('index r : request(R)', '')}\n{text}\n",
                                    "")) for text in spellings)
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", sorted(GREEK))
def test_greek_letters_have_one_word(name: str) -> None:
    assert tokens(name) == tokens(f"\\{name} ") == tokens(GREEK[name])


@pytest.mark.parametrize(("texts", "word"), [
    (("≤", "<=", "\\le", "\\leq"), ("REL", "<=")), (("≥", ">=", "\\ge"), ("REL", ">=")),
    (("←", "<-", "\\leftarrow"), ("REL", "<-")),
    (("∈", "in", "\\in"), ("IN", "in")), (("⊕", "(+)", "\\oplus"), ("OPLUS", "⊕")), (("−", "-"), ("SIGN", "-")),
    (("·", "*", "\\cdot", "\\times"), ("OP", "*")), (("∞", "inf", "\\infty"), ("INF", "∞")),
    (("≠", "!=", "\\neq"), ("REL", "!=")),
    (("⊆", "\\subseteq"), ("REL", "subset")), (("𝟙", "\\mathbb{1}", "\\mathbb 1", "1"), ("NUMBER", "1")),
    (("µ", "μ"), ("GREEK", "μ")),
    (("ϵ", "ε", "\\varepsilon"), ("GREEK", "ε")), (("Σ", "∑", "\\sum", "sum"), ("WORD", "sum")),
    (("∏", "\\prod"), ("WORD", "prod")),
    (("\\text{ab}", "\\mathrm{ab}", "\\operatorname{ab}", "\\operatorname*{ab}"), ("TEXT", "ab")),
    (("\\text{with }", "with"), ("WITH", "with")),
])
def test_spellings_of_one_word(texts: tuple[str, ...], word: tuple[str, str]) -> None:
    assert {tuple(tokens(text)) for text in texts} == {(word,)}


@pytest.mark.parametrize(("one", "other"), [
    (r"\, \; \! \quad \big \left \right {} & ~", ""), (r"\left( a \right)", "(a)"), (r"\bigl[ a \bigr]", "[a]"),
    (r"\widehat K", "K̂"),
    (r"\hat\rho", "ρ̂"), ("ŵ", "w\u0302"), ("Ñ", "\\tilde N"), (r"\frac12", r"\frac{1}{2}"),
    (r"\frac1n x", r"\frac{1}{n} x"),
    (r"\sqrt2", r"\sqrt{2}"), (r"\frac{1}\rho", r"\frac{1}{ρ}"), (r"\frac{\sqrt2}{3}", r"\frac{\sqrt{2}}{3}"),
    ("x_\\rho", "x_rho"),
    ("x″", "x''"), ("a..b", "a … b"), ("x # a comment", "x"), (r"\exp(x)", "exp(x)"), (r"\ln(x)", "log(x)"),
    ("x,\n", "x\n"),
])
def test_what_carries_no_meaning(one: str, other: str) -> None:
    def plain(text: str) -> list[tuple[str, str]]:
        return [w for w in tokens(text) if w[0] != "STOP"]

    assert plain(one) == plain(other)


def test_macros_are_whole_runs_of_letters() -> None:
    assert tokens(r"\left\le\leq") == [("REL", "<="), ("REL", "<=")]
    assert all(tokens(f"\\{name}") == tokens(f"\\{name} ") for name in MACROS
               if MACROS[name][0] not in ("FRAC", "SQRT"))


def test_a_word_has_the_place_it_was_written_in() -> None:
    text = "K̂_{ab} \\le \\text{cd}  x'"
    found = words(Source("a.ein", text), Report())
    assert [text[w.start : w.end] for w in found[:-1]
            if w.start < w.end] == ["K̂", "_", "{", "ab", "}", "\\le", "\\text{cd}", "x",
                                                                              "'"]


# spans


def nodes(value: Any) -> Iterator[Any]:
    """Every part of a syntax tree."""
    if isinstance(value, tuple):
        for item in value:
            yield from nodes(item)
    elif is_dataclass(value) and not isinstance(value, Span | Source):
        yield value
        for field in fields(value):
            yield from nodes(getattr(value, field.name))


def bare(value: Any) -> Any:
    """A part of a syntax tree without its places."""
    if isinstance(value, tuple):
        return tuple(map(bare, value))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value), *(bare(getattr(value, f.name)) for f in fields(value) if f.name not in ("span", "source")))
    return value


WHOLE = (s.Number | s.Infinity | s.Word | s.Scripted | s.Product | s.Sum | s.Relation | s.Group | s.Fraction | s.Root
         | s.Logic)


@pytest.mark.parametrize("name", [*SPECS, *BLOCKS])
def test_a_span_is_the_text_of_its_node(name: str) -> None:
    """What stands in the span of a node, read alone, is that node."""
    text = {**SPECS, **BLOCKS}[name]
    seen = 0
    for node in nodes(parsed(text).statements):
        if isinstance(node, WHOLE) and not isinstance(node, s.Group):
            (statement,) = parsed(f"$$ {node.span.text} $$").statements
            again = statement.clauses[0].body
            assert bare(again) == bare(node) or isinstance(node, s.Word), node.span.text
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", SPECS)
def test_parts_lie_in_their_whole(name: str) -> None:
    for node in nodes(parsed(SPECS[name]).statements):
        for field in fields(node):
            for part in nodes(getattr(node, field.name)):
                assert node.span.start <= part.span.start <= part.span.end <= node.span.end


# where a statement ends


@pytest.mark.parametrize(("text", "pieces"), [
    ("a = b\nc = d", 2),
    ("a = b +\n  c", 1),
    ("a = b\n  + c", 1),
    ("a = b\n  ≤ c", 1),
    ("a = b\n  ⊕ c", 1),
    ("a = (b\n  c\n d)", 1),
    ("a_{b\n c} = d", 1),
    ("a =\n# a comment\n b", 1),
    ("a = b +\n\nc = d", 2),
    ("a = b\n\n\nc = d", 2),
    ("a = b \\\\ c = d", 2),
    ("a = b,\nc = d.", 2),
    ("a = b\n  with c = d", 1),
    ("$$ a = b $$", 1),
    ("$$\na\n=\nb\n$$", 1),
    ("$$ a = b \\\\ c = d $$", 2),
    ("$$ a = b, \n c = d. $$", 1),
    ("$$ a = b $$ c = d", 2),
    ("a = b $$ c = d $$", 2),
    ("a = (b\nindex t : time(T)", 2),
    ("a = √\n b", 1),
    ("a = b\nnot c", 2),
])
def test_where_a_statement_ends(text: str, pieces: int) -> None:
    assert len(statements(text)) == pieces


def test_a_comma_at_the_end_of_a_line_separates_only_in_a_display() -> None:
    (statement,) = parsed("$$ a = b,\n c = d, $$").statements
    assert len(statement.clauses) == 2
    assert [len(x.clauses) for x in parsed("a = b,\nc = d,").statements] == [1, 1]
    (statement,) = parsed("a = b, c = d").statements
    assert len(statement.clauses) == 2


@pytest.mark.parametrize(("text", "shape"), [
    ("a b / c", ("a", "b", "c")),
    ("1/√d_k Q K", ("1", "√d_k", "Q", "K")),
])
def test_products_and_quotients_are_one_level(text: str, shape: tuple[str, ...]) -> None:
    (statement,) = parsed(f"y = {text}").statements
    relation = statement.clauses[0].body
    assert isinstance(relation, s.Relation)
    product = relation.operands[1]
    assert isinstance(product, s.Product)
    assert tuple(x.span.text for x in product.factors) == shape


@pytest.mark.parametrize(("text", "kind"), [
    ("a + b c", s.Sum), ("a ⊕ b + c", s.DirectSum), ("a < b ⊕ c", s.Relation), ("not a < b", s.Logic),
    ("a < b and c < d or e < f", s.Logic),
    ("-a b", s.Sum), ("√a b", s.Product), ("a_b^c", s.Scripted), ("1..T", s.Range), ("(a, b]", s.Group),
    ("\\frac{a}{b}", s.Fraction),
])
def test_what_binds_tighter(text: str, kind: type) -> None:
    (statement,) = parsed(text).statements
    assert isinstance(statement.clauses[0].body, kind)


def test_or_is_the_loosest() -> None:
    (statement,) = parsed("a < b and c < d or not e < f").statements
    body = statement.clauses[0].body
    assert isinstance(body, s.Logic)
    assert body.operator == "or"
    assert [type(x) for x in body.operands] == [s.Logic, s.Logic]


def test_plan_blocks_are_not_mathematics() -> None:
    text = ("y = 1\nplan serve: cache W\n    dtype bf16, sums fp32\n  # of each\n"
            "    cache K_hat, V paged 16\n\n    fp8 per-tensor $$\nz = 2\n")
    tree = parsed(text)
    assert [x.span.text for x in tree.statements] == ["y = 1", "z = 2"]
    (plan,) = tree.plans
    assert plan.name.text == "serve"
    assert [[w.text for w in line.words] for line in plan.lines] == [
        ["cache", "W"], ["dtype", "bf16", ",", "sums", "fp32"], ["cache", "K_hat", ",", "V", "paged", "16"],
        ["fp8", "per", "-", "tensor", "$$"]]


def test_a_plan_ends_where_a_line_is_not_deeper() -> None:
    text = "for t:\n    plan a:\n        x\n    z = 1\nplan b:\nplan a:\n  y\n"
    tree = parsed(text)
    assert [(x.name.text, [line.span.text for line in x.lines])
            for x in tree.plans] == [("a", ["x"]), ("b", []), ("a", ["y"])]
    assert [x.span.text for x in tree.statements[0].block] == ["z = 1"]


@pytest.mark.parametrize("head", ["plan serve", "plan :", "plan 3:", "plan a b:"])
def test_a_plan_without_a_head_takes_its_lines_along(head: str) -> None:
    """One problem, of the head: what stands below is not read as mathematics."""
    report = Report()
    tree = pipeline.syntax(Source("a.ein", f"y = 1\n{head}\n    dtype bf16\nz = 2\n"), report)
    assert [p.code for p in report.problems] == ["E0103"]
    assert [x.span.text for x in tree.statements] == ["y = 1", "z = 2"] and not tree.plans


def test_blocks_follow_indentation() -> None:
    text = "for t:\n    a = 1\n    for h:\n        b = 2\n    c = 3\nd = 4\n"
    outer, last = parsed(text).statements
    assert [x.span.text for x in outer.block] == ["a = 1", "for h:", "c = 3"]
    assert [x.span.text for x in outer.block[1].block] == ["b = 2"]
    assert last.span.text == "d = 4"


def test_words_grow_with_the_text() -> None:
    """The same equations twice are twice the words and twice the statements: nothing is read again."""
    text = SPECS["layer"]
    once, twice = (words(Source("a.ein", text * n), Report()) for n in (1, 2))
    assert len(twice) - len(once) == len([w for w in once[:-1] if isinstance(w, Word)])
    assert len(parsed(text * 3).statements) == 3 * len(parsed(text).statements)


@pytest.mark.parametrize(("text", "alias"),
                         [("output A_t^f as attn", "attn"), ("input x_t as W_Q_x2", "W_Q_x2"), ("input x_t", None)])
def test_as_takes_a_python_name(text: str, alias: str | None) -> None:
    assert parsed(text).statements[0].clauses[0].alias == alias


@pytest.mark.parametrize("text", [r"\widehat{\mathcal L}_t = 1", r"\widehat\mathcal{L}_t = 1",
                                  r"\widehat{\mathcal{L}}_t = 1"])
def test_accents_stand_over_each_other(text: str) -> None:
    body = parsed(text).statements[0].clauses[0].body
    assert isinstance(body, s.Relation)
    assert isinstance(body.operands[0], s.Scripted)
    assert body.operands[0].accents == ("cal", "hat")
    assert body.operands[0].span.text == text.removesuffix(" = 1")


def test_the_tables_of_the_parser_are_those_of_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m einc.syntax.parse > grammar/ein.json` writes them anew; without them the same parser is built."""
    known, _, version = tables._stored(parse_module.WordLexer)["of"].partition(" lark ")
    assert known == tables._key(
        tables._text("ein.lark")).partition(" lark ")[0], "the grammar has changed since they were written"
    stored = tables.parser(parse_module.WordLexer, parse_module._Build())
    monkeypatch.setattr(tables, "_stored", lambda _: {})
    built = tables.parser(parse_module.WordLexer, parse_module._Build())
    assert {str(rule) for rule in stored.rules} == {str(rule) for rule in built.rules}
    if version == lark.__version__:
        assert len(stored.parser.parser._parse_table.states) == len(built.parser.parser._parse_table.states)
