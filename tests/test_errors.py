"""Errors: each kind by its example, all of a file in one run, and no input that gives a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers import examples
from hypothesis import example
from hypothesis import strategies as st
from test_seed import BLOCKS, SPECS
from texts import INDICES, codes, problems

import einc
from einc.driver import pipeline
from einc.errors.report import Label, Problem, Report, Source, Span, as_json, render, width

SHIPPED = Path(__file__).parent.parent / "specs"
# A document's kinds have documents as their examples: `KINDS` takes them in when `pipeline.check` reads these.
DOCUMENTS = {code for code, kind in Problem.registry.items() if not kind.example_name.endswith(".ein")}
KINDS = [(code, kind) for code, kind in sorted(Problem.registry.items()) if code not in DOCUMENTS]


# each kind


@pytest.mark.parametrize(("code", "kind"), KINDS)
def test_an_example_gives_its_own_error_alone(code: str, kind: type[Problem]) -> None:
    (problem,) = problems(kind.example, "")
    assert problem.code == code
    assert type(problem) is kind
    assert problem.notes or problem.helps, "an error says what could be done"


@pytest.mark.parametrize(("code", "kind"), KINDS)
def test_the_carets_stand_where_the_span_is(code: str, kind: type[Problem]) -> None:
    """What each span is, `tests/test_explain.py` compares with `specs/ERRORS.md`, where the carets of every example
    stand."""
    (problem,) = problems(kind.example, "")
    assert problem.span is not None
    shown = render(problem).splitlines()
    line, column = problem.span.source.position(problem.span.start)
    assert f"--> spec.ein:{line}:{column}" in shown[1]
    if len(kind.example) < 80 and kind.example:
        at = next(n for n, row in enumerate(shown) if row.lstrip().startswith(f"{line} |"))
        below = shown[at + 1].split("| ", 1)[1]
        assert below[width(kind.example.splitlines()[line - 1][:column - 1])] == "^"


@pytest.mark.parametrize(("code", "kind"), KINDS)
def test_a_message_says_one_thing(code: str, kind: type[Problem]) -> None:
    (problem,) = problems(kind.example, "")
    assert re.match(r"[EW]\d{4}$", code)
    assert kind.title
    assert len(kind.explanation) > 20
    for said in (problem.message, kind.title, *problem.notes, *(h.text for h in problem.helps)):
        assert not said.endswith((".", "!")), "messages are no sentences"
        assert "\n" not in said
        assert said[0].islower() or not said[0].isalpha() or said.split()[0].isupper(), said


def test_the_kinds_of_documents_have_documents_as_examples() -> None:
    for code in DOCUMENTS:
        assert code[1:3] == "08"
        kind = Problem.registry[code]
        declares = {"example.md": "```ein\n", "example.tex": "%! ", "example.ipynb": '"cells"'}[kind.example_name]
        assert declares in kind.example and "$$" in kind.example


def test_the_message_of_the_language_page() -> None:
    """§9's own example: both uses marked, the class told, and the sum over the domain
    that is known offered as an edit."""
    text = "mask A_{t s}^{(h)} : s ≤ t\ninput A_{t s}^{(h)}, V_{s h}^d\nY_{t h}^d = A_{t s}^{(h)} V_{s h}^d\n"
    (problem,) = problems(text)
    line = INDICES.count("\n") + 3
    assert render(problem) == f"""error[E0306]: temporal index `s` is repeated but would be summed implicitly
  --> spec.ein:{line}:18
   |
{line} | Y_{{t h}}^d = A_{{t s}}^{{(h)}} V_{{s h}}^d
   |                  ^           ^ second use
   |                  first use
   = note: `s` is of class `time`, which is only summed explicitly
help: sum over the domain of `A` (declared at spec.ein:{line - 2})
   |
{line} | Y_{{t h}}^d = Σ_{{s ≤ t}} A_{{t s}}^{{(h)}} V_{{s h}}^d
   |             +++++++++
"""
    assert problem.helps[0].certain


# all of a file


MANY = """index t : time(T)
index p : moment(T)
input x_t, A_{t t'
y_t = x_t +

z_t = \\fraq{1}{2} x_t
u_t = q_t
v_t = x_t @ 3
w_t = 2 x_t
o_t = w_t w_{t}'
"""


def test_all_errors_of_a_file_in_one_run() -> None:
    found = problems(MANY, "")
    assert [p.code for p in found] == ["E0210", "E0101", "E0103", "E0109", "E0201", "E0112", "E0201"]
    starts = [p.span.start for p in found if p.span]
    assert starts == sorted(starts)


@pytest.mark.parametrize("line", [
    "x_t = = 2", "y_t = (x_t", "y_t = x_t)", "y_t = x_t +\n", "$$ y_t = x_t \\\\ z_t = ) $$", "y_t = @ x_t",
    "index : time(T)",
    "mask x_t", "map π = 2", "y_t = \\foo", "use attention", "for t", "y_t = x_t'", "def f(x", "override", "output",
    ", , ,",
])
def test_a_bad_line_never_hides_the_next(line: str) -> None:
    text = f"input x_t\n{line}\nq_t = nothing_t\n"
    assert codes(text)[-1] == "E0201"
    assert codes(text) != ["E0201"]


@pytest.mark.parametrize("text", [
    "index q : moment(T)\ninput x_q\ny_q = x_q",
    "index q : time(T\ninput x_q\ny_q = x_q\nz = Σ_q x_q",
    "input x_t +\n\ny_t = x_t\nz_t = y_t",
    "input x_t\ny_t = x_t @ 2\nz_t = y_t",
    "input x_t\ny_t = nothing_t\nz_t = y_t\nw_t = z_t",
    "input x_t = 2\ny_t = x_t",
    "set S_t = topk_{s ≤ t}(I_{t s}, 3)\ninput x_s\ny_t = Σ_{s ∈ S_t} x_s\nz_t = softmax_{s ∈ S_t}(x_s)",
    "for t, h:\n    m = -∞\n    N_{t h}^d = 0\ny_t = m + N_{t h}^d",
    'section "FlashAttention":\n    y_t = 2 +\n    z_t = nothing_t',
    "input x_t\ny_t = x_t\ny_t = attention(X = x_t)",
    "def twice(x) = x + c\ninput x_t\ny_t = twice(x_t)",
    "input x_t\nz_t = \\fraq{1}{2} x_t",
])
def test_what_follows_from_an_error_is_not_told(text: str) -> None:
    assert len(codes(text)) == 1


@pytest.mark.parametrize("text", [
    'section "A":\n    index q : moment(Q)\n    y_q = 2',
])
def test_a_construct_of_a_later_release_says_so(text: str) -> None:
    found = problems(text)
    assert {p.code for p in found} <= {"E0116", "E0103"}
    assert [p.code for p in found].count("E0116") == 1
    assert all("document" in p.message for p in found if p.code == "E0116")


def test_problems_of_a_used_spec_stand_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "base.ein").write_text("index t : time(T)\ninput x_t\ny_t = q_t\n", encoding="utf-8")
    (tmp_path / "top.ein").write_text('use "base"\nz_t = x_t x_q\n', encoding="utf-8")
    found = einc.check(tmp_path / "top.ein")
    assert [(Path(p.span.source.name).name, p.code) for p in found
            if p.span] == [("base.ein", "E0201"), ("top.ein", "E0204")]


def test_json_is_the_whole_problem() -> None:
    (problem,) = problems("input A_{t s}, V_s\ny_t = A_{t s} V_s")
    page = json.loads(json.dumps(as_json(problem)))
    assert page["code"] == "E0306"
    assert page["severity"] == "error"
    assert page["span"]["file"] == "spec.ein"
    assert (page["span"]["line"], page["span"]["column"], page["span"]["end_column"]) == (12, 12, 13)
    assert [x["text"] for x in page["labels"]] == ["second use"]
    assert page["helps"][0]["new"] == "Σ_s "
    assert page["helps"][0]["certain"] is False, "nothing says which part of the line is meant"
    assert len(page["notes"]) == 1


# how it is shown


def shown(text: str, *marks: tuple[int, int, str]) -> list[str]:
    source = Source("a.ein", text)
    first, *others = marks
    problem = Problem("m", Span(source, first[0], first[1]), first[2],
                      *(Label(Span(source, a, b), t) for a, b, t in others))
    return render(problem).splitlines()[3:]


def test_carets_count_columns_of_a_terminal() -> None:
    assert shown("K̂漢x", (3, 4, "")) == ["1 | K̂漢x", "  |    ^"]


def test_a_mark_over_several_lines_ends_with_its_first() -> None:
    assert shown("ab\ncd", (1, 5, "here")) == ["1 | ab", "  |  ^ here"]


def test_marks_far_apart_leave_lines_out() -> None:
    assert shown("a\nb\nc", (4, 5, "x"),
                 (0, 1, "declared here")) == ["1 | a", "  | - declared here", "  ⋮", "3 | c", "  | ^ x"]


def test_a_long_line_is_cut_round_the_mark() -> None:
    rows = shown("x" * 5000 + "Y" + "z" * 5000, (5000, 5001, "here"))
    assert len(rows[0]) < 200
    assert rows[0][rows[1].index("^")] == "Y"


def test_a_help_shows_the_line_as_it_would_be() -> None:
    (problem,) = problems("input x_t\ny_t = x_t)\n")
    assert "12 | y_t = x_t\n" in render(problem)


# bad input


def nested(opening: str, inner: str, closing: str, times: int) -> str:
    return opening * times + inner + closing * times


CHAIN = "input x_{1 t}\n" + "\n".join(f"x_{{{n + 1} t}} = 2 x_{{{n} t}}" for n in range(1, 600)) + "\noutput x_{600 t}"
BACKWARDS = "\n".join(["input x_{1 t}", *CHAIN.split("\n")[-2:0:-1], "output x_{600 t}"])
BAD = {
    "unknown macro": ("y_t = \\foo", ["E0109"]),
    "a macro is its whole run": ("y_t = \\leftover", ["E0109"]),
    "unbalanced brace": ("input x_{t", ["E0101"]),
    "the wrong brace": ("input x_{t)}", ["E0101"]),
    "two readings": ("index q, w : feature(Q)\nindex qw : head(K)\ninput C_{q w h d}, C_{qw, h d}\ny = C_{qwhd}",
                     ["E0203"]),
    "summed silently": ("input A_{t s}, V_s\ny_t = A_{t s} V_s", ["E0306"]),
    "three occurrences": ("input a_d, b^d, c_d\ny = a_d b^d c_d", ["E0304"]),
    "nul": ("y_t = 2 \x00 + 1", ["E0112"]),
    "surrogates": ("y_t = 2 \ud800 + \udfff", ["E0112", "E0112"]),
    "line ends": ("input x_t\r\ny_t = x_t\rz_t = y_t\n", []),
    "open display": ("$$\ny_t = 2", ["E0101"]),
    "many displays": ("$$" * 2001, ["E0101"]),
    "deep parentheses": ("y_t = " + nested("(", "1", ")", 1000), ["E0113"]),
    "deep powers": ("input x\ny_t = " + nested("x^{", "2", "}", 1000), ["E0113"]),
    "deep roots": ("y_t = " + "√" * 1000 + "2", ["E0113"]),
    "deep negations": ("input x_t\nmask x_t : " + "not " * 1000 + "t > 1\noutput y = Σ_t x_t", ["E0113"]),
    "powers of powers": ("input x\ny = (x)" + "^2" * 1000, ["E0113"]),
    "sums in sums": ("input x\ny = " + nested("(x - ", "x", ")" + " - x" * 150, 90), ["E0113"]),
    "many binders": ("input x_s\ny = " + " ".join(f"Σ_{{s{chr(39) * n}}}" for n in range(60)) + " x_s", ["E0113"]),
    "a long sum": ("input x_t\ny_t = " + " - ".join(["x_t"] * 3000), ["E0113"]),
    "a long product": ("input x_t\ny_t = " + " ".join(["x_t"] * 3000), ["E0113"]),
    "a long name": ("y_t = " + "x" * 50_000, ["E0201"]),
    "a long script": ("index aa : feature(A)\ninput x_{" + "a" * 2000 + "}\ny = 1", ["W0903"]),
    "a long number": ("y = " + "9" * 5000, ["E0117"]),
    "a power of ten in a fraction": ("y = \\frac 1e9 2", []),
    "a large power of ten": ("dim W = 1e99999999\ny = W", ["E0117"]),
    "a long line": ("y = 1" + " " * 100_000 + "+ 1", []),
    "a long comment": ("# " + "x" * 100_000 + "\ny = 1", []),
    "a chain": (CHAIN, []),
    "a chain, last line first": (BACKWARDS, []),
    "a long circle": ("\n".join(f"x_{{{n} t}} = 2 x_{{{(n + 1) % 300} t}}" for n in range(300)), ["E0406"]),
    "definitions that unfold": ("\n".join(["def fa(x) = x",
                                           *(f"def f{chr(98 + n)}(x) = f{chr(97 + n)}(x) f{chr(97 + n)}(x)"
                                             for n in range(10))])
                                + "\ninput x_t\ny_t = fk(x_t)", ["E0113"]),
    "a large extent": ("index q : feature(" + " * ".join(f"(a_{n} + b_{n})" for n in range(60)) + ")\ny = 1",
                       ["E0210"]),
    "many alternatives": ("input x_t\n"
                          "output y = Σ_{t, " + ", ".join(f"(t ≤ {n + 1} or t = {n + 3})" for n in range(40))
                          + "} x_{t+1}",
                          ["E0601"]),
    "a name that no file has": ('use "a\x00b"', ["E0212"]),
    "a long path": ('use "' + "a/" * 3000 + '"', ["E0212"]),
    "dots": ("y = 1" + "." * 5000, ["E0103"]),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    text, wanted = BAD[name]
    found = einc.check(INDICES + text + "\n")
    assert [p.code for p in found][:len(wanted) or None] == wanted, [render(p) for p in found]
    assert all(render(p) and as_json(p) for p in found)


@pytest.mark.parametrize("text", ["", " \n\t", "# nothing but words", "\ufeff"])
def test_nothing_to_read(text: str) -> None:
    assert [p.code for p in einc.check(text + "\n")] == ["E0114"]


@pytest.mark.parametrize(("data", "said"), [
    (b"index t : time(T)\n\xff\xfe", "not UTF-8: byte 0xff on line 2"),
    (b"", "nothing to read"),
    (b"# " + b"x" * 10_000_000, "more than the 2,000,000 characters"),
    (("# " + "é" * 3_800_000).encode(), "more than the 2,000,000 characters"),
])
def test_a_file_that_is_no_spec(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a.ein").write_bytes(data)
    (problem,) = einc.check(tmp_path / "a.ein")
    assert problem.code == "E0114"
    assert said in problem.message


@pytest.mark.parametrize(("name", "code"), [
    ("nothing.ein", "E0114"), (".", "E0806"), ("a\x00b.ein", "E0114"), ("x" * 5000 + ".ein", "E0114"),
    ("\ud800.ein", "E0114")])
def test_a_path_that_is_no_file(name: str, code: str) -> None:
    """A folder may be that of a paper's sources; this one is not."""
    assert [p.code for p in einc.check(name)] == [code]


def test_a_file_keeps_its_line_numbers_whatever_its_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_bytes(b"\xef\xbb\xbfindex t : time(T)\r\ninput x_t\ry_t = q_t\r\n")
    (problem,) = einc.check(tmp_path / "a.ein")
    assert problem.span is not None
    assert problem.span.source.position(problem.span.start) == (3, 7)


def test_a_spec_that_uses_itself(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text('use "a"\ny = 1\n', encoding="utf-8")
    (tmp_path / "b.ein").write_text('use "c"\ny = 1\n', encoding="utf-8")
    (tmp_path / "c.ein").write_text('use "b"\nz = 1\n', encoding="utf-8")
    assert [p.code for p in einc.check(tmp_path / "a.ein")] == ["E0212"]
    (problem,) = einc.check(tmp_path / "b.ein")
    assert "b.ein → " in problem.message


def test_a_spec_that_uses_itself_another_way_round(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.ein").write_text('use "../a/x"\ny = 1\n', encoding="utf-8")
    assert {p.code for p in einc.check(tmp_path / "a" / ".." / "a" / "x.ein")} == {"E0212"}


def test_a_used_spec_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text('use "b"\ny = 1\n', encoding="utf-8")
    (tmp_path / "b.ein").write_bytes(b"\xff")
    (problem,) = einc.check(tmp_path / "a.ein")
    assert "b.ein is not UTF-8" in problem.message


def test_the_pair_on_one_level_is_refused_in_strict() -> None:
    text = "input a_h, b_h\ny = a_h b_h"
    assert codes(text) == ["W0301"]
    report = Report()
    assert pipeline.check(Source("a.ein", INDICES + text), report, strict=True) is None


# any input at all


TEXTS = [file.read_text(encoding="utf-8")
         for file in sorted(SHIPPED.rglob("*.ein"))] + [*SPECS.values(), *BLOCKS.values()]
PIECES = [
    "$$", "\\\\", "\\frac", "{", "}", "(", ")", "[", "]", "_", "^", "'", "=", ":=", "<-", "\n", "\n\n", "for t:",
    "with", "as",
    "in", "not",
    "or", "and", "Σ_{s ≤ t}", "max", "softmax_s", "1[", "δ_r^{r'}", "ε_a^b", "⊕", "..", "…", "\x00", "\ud800", "é",
    "K̂", "1e999",
    "x2", "#",
    '"', "use", "override", "mask", "claim", "map π(h) = h : h", "def f(x) = f(x)", 'section "a":', "t'", "∞", "/",
    "√", ",", ";",
    ":", "all",
    "set S_t = topk_{s}(x_s, 3)",
]


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A spec with a few pieces taken out, doubled, exchanged or put in."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        cut = draw(st.sampled_from([r"[\s\S]", r"\w+|[^\w\n]|\n", r"[^\n]*\n"]))
        pieces = re.findall(cut, text) or [text]
        at, other = (draw(st.integers(0, len(pieces) - 1)) for _ in range(2))
        match draw(st.sampled_from(["delete", "double", "swap", "insert"])):
            case "delete":
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[other])
            case "swap":
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case "insert":
                pieces.insert(at, draw(st.sampled_from(PIECES)))
        text = "".join(pieces)
    return text


def assert_told(text: str) -> None:
    """The text is checked without a word from Python, and every problem stands in it."""
    for problem in einc.check(text + "\n\n"):
        assert render(problem)
        assert as_json(problem)
        spans = [problem.span, *(label.span for label in problem.labels), *(h.span for h in problem.helps)]
        for span in spans:
            assert span is None or 0 <= span.start <= span.end <= len(span.source.text)
        assert problem.code in Problem.registry


def test_a_problem_is_told_once() -> None:
    source, report = Source("x.ein", "x_t y_t"), Report()
    for start in (0, 0, 4):
        report.add(Problem("nothing declares it", Span(source, start, start + 1)))
    assert [problem.span.start for problem in report.problems if problem.span] == [0, 4]


@examples(10, 300, mutants())
def test_no_mutant_of_a_spec_gives_a_traceback(text: str) -> None:
    assert_told(text)


@examples(15, 150, st.lists(st.sampled_from([*PIECES, "x", "t", "s", "input", "index", "time(T)", "y_t", "2", "+",
                                             " "]), max_size=25).map(" ".join))
@example("= =")
@example("x^x^x_x_x'")
def test_no_heap_of_words_gives_a_traceback(text: str) -> None:
    assert_told(INDICES + text)


@examples(50, 300, st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    assert_told(text)
