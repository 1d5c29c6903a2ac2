"""A file that is kept: its head says how it was made, `einc check` holds it against what is written now, and its lines
are short.
"""

from __future__ import annotations

import ast
import re
import sys
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from helpers import plan_of
from hypothesis import given
from hypothesis import strategies as st
from programs import FILES, Case

import einc
from einc.backends.cpp import layout
from einc.driver import back_ends, kept
from einc.driver.cli import main
from einc.driver.layout import WIDTH, laid_out

TEXT = "index t, s : time(T)\ninput x_t\noutput y_t = Σ_{s ≤ t} exp(x_s - x_t)\n"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("specs").mkdir()
    Path("specs/mine.ein").write_text(TEXT, encoding="utf-8")
    return tmp_path


def einc_(*args: str, status: int = 0, stdin: str = "") -> Result:
    """The result of a command, which ended with the status and without a traceback."""
    result = CliRunner().invoke(main, list(args), input=stdin)
    assert result.exit_code == status, result.output
    return result


# the head


def test_the_head_says_how_the_file_was_made(room: Path) -> None:
    einc_("compile", "specs/mine.ein", "--backend", "cpp", "--grad", "-o", "kept.py")
    lines = Path("kept.py").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# einc {einc.__version__} wrote this: einc compile specs/mine.ein --backend cpp --grad"
    assert re.fullmatch(r"# spec [0-9a-f]{16}, text [0-9a-f]{16}, for cpp", lines[1])
    assert "MIT" in lines[2]
    assert einc_("check", "kept.py").stdout.startswith("ok: kept.py is what `einc compile specs/mine.ein")


@pytest.mark.parametrize("spec", ["specs/mine.ein", "{room}/specs/mine.ein"])
@pytest.mark.parametrize("output", ["kept.py", "specs/kept.py", "{room}/kept.py"])
def test_no_path_of_this_machine_stands_in_a_file(room: Path, spec: str, output: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """And the file may be checked from anywhere."""
    einc_("compile", spec.format(room=room), "-o", output.format(room=room))
    path = Path(output.format(room=room)).absolute()
    assert str(room) not in path.read_text(encoding="utf-8")
    monkeypatch.chdir("/")
    assert "ok: " in einc_("check", str(path)).stdout


@pytest.mark.parametrize("words", [
    ["gqa"], ["gqa", "--module"], ["gallery/softcap", "--backend", "triton"], ["llama_attention", "--plan", "serve"],
    ["specs/mine.ein", "--narrow", "--own"], ["alibi", "--plan", "serve", "--keep", "K,V"],
])
def test_every_command_in_a_head_writes_the_file_again(room: Path, words: list[str]) -> None:
    einc_("compile", *words, "-o", "kept.py")
    assert f"`einc compile {' '.join(words)}`" in einc_("check", "kept.py").stdout


def test_a_paper_is_written_again_with_its_side_file(room: Path) -> None:
    Path("paper.md").write_text("# A layer\n\n$$ y_t = 2 x_t $$\n", encoding="utf-8")
    Path("specs/side.ein").write_text("index t : time(T)\ninput x_t\n", encoding="utf-8")
    words = ["paper.md", "--section", "A layer", "--with", "specs/side.ein"]
    einc_("compile", *words, "-o", "kept.py")
    assert "--with specs/side.ein" in einc_("check", "kept.py").stdout


def test_what_has_changed_is_said(room: Path) -> None:
    einc_("compile", "specs/mine.ein", "-o", "kept.py")
    file = Path("specs/mine.ein")
    file.write_text(f"# a comment\n{TEXT}".replace("index t, s", "index  t, s"), encoding="utf-8")
    assert "ok: " in einc_("check", "kept.py").stdout
    file.write_text(TEXT.replace("exp(x_s", "exp(2 x_s"), encoding="utf-8")
    said = einc_("check", "kept.py", status=1).stderr
    assert "the spec means something else now" in said
    assert "changed by hand" not in said
    assert "einc compile specs/mine.ein -o kept.py" in said
    file.write_text(TEXT.replace("x_t)", "x_t))"), encoding="utf-8")
    assert "has errors now" in einc_("check", "kept.py", status=1).stderr
    file.unlink()
    assert "no such file" in einc_("check", "kept.py", status=1).stderr


def test_a_change_by_hand_is_said_and_the_file_is_never_run(room: Path) -> None:
    einc_("compile", "specs/mine.ein", "-o", "kept.py")
    file = Path("kept.py")
    file.write_text(file.read_text(encoding="utf-8") + "\nraise SystemExit(7)\n", encoding="utf-8")
    said = einc_("check", "kept.py", status=1).stderr
    assert "changed by hand" in said
    assert "-raise SystemExit(7)" in said
    assert "kept" not in sys.modules


def test_another_version_is_named(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "__version__", "0.0.1")
    einc_("compile", "specs/mine.ein", "-o", "kept.py")
    monkeypatch.undo()
    monkeypatch.chdir(room)
    assert f"by einc 0.0.1 as by {einc.__version__}" in einc_("check", "kept.py").stdout
    text = Path("kept.py").read_text(encoding="utf-8").replace("torch.no_grad", "torch.inference_mode")
    head, body = kept.read(text) or (None, "")
    assert head is not None
    Path("kept.py").write_text(text.replace(head.text, kept.hashed(body)), encoding="utf-8")
    assert f"written by einc 0.0.1, and this is {einc.__version__}" in einc_("check", "kept.py", status=1).stderr


@pytest.mark.parametrize(("text", "said"), [
    ("x = 1\n", "no head that einc wrote"),
    ("", "no head that einc wrote"),
    ("# einc 9 wrote this: einc compile 'a\n# spec {0}, text {0}, for torch\n#\nx\n", "no head"),
    ("# einc 9 wrote this: einc compile gqa --bogus\n# spec {0}, text {0}, for torch\n#\nx\n", "--bogus"),
    ("# einc 9 wrote this: einc compile gqa -o over.py\n# spec {0}, text {0}, for torch\n#\nx\n", "written with -o"),
])
def test_a_head_that_is_none(room: Path, text: str, said: str) -> None:
    Path("other.py").write_text(text.format("0" * 16), encoding="utf-8")
    assert said in einc_("check", "other.py", status=1).stderr
    assert not Path("over.py").exists()


def test_a_file_made_of_standard_input_is_held_against_its_hash(room: Path) -> None:
    einc_("compile", "-", "-o", "kept.py", stdin=TEXT)
    assert "as it was written" in einc_("check", "kept.py").stdout
    Path("kept.py").write_text(Path("kept.py").read_text(encoding="utf-8") + "#\n", encoding="utf-8")
    assert "changed" in einc_("check", "kept.py", status=1).stderr


def test_a_kept_file_computes(room: Path) -> None:
    einc_("compile", "specs/mine.ein", "--own", "-o", "kept.py")
    function = back_ends.load(Path("kept.py").read_text(encoding="utf-8"), "mine")
    x = torch.tensor([0.0, 1.0, 2.0])
    assert torch.allclose(function(x=x), torch.exp(x[None] - x[:, None]).tril().sum(1))


# its lines


def described(tree: ast.Module) -> str:
    """The tree of a file, but for its texts that describe: those may be broken."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = " ".join(node.value.value.split())
    return ast.dump(tree)


@pytest.mark.drawn(13)
@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
def test_lines_are_short_and_mean_the_same(case: Case, backend: str) -> None:
    text = back_ends.emit(plan_of(case), backend)
    made = laid_out(text)
    assert described(ast.parse(made)) == described(ast.parse(text))
    assert laid_out(made) == made
    assert [line for line in made.split("\n") if len(line) > WIDTH] == []


@pytest.mark.parametrize("line", [
    "x = [1, 2, 3]",
    "a, b, c = f(1)",
    "raise ValueError(f\"{x} is {', '.join(y)} and {x + 1}\")",
    "if a and (b or c) and d[1:2] == -1 and not e:\n    x = -1 if a else +2",
    "def f(*, a, b=-1, c: int = 2) -> int:\n    return a.b.c(d).e - f(*g, **h)",
    "x = {a: b for a, b in c.items() if a is not None and b}\n# a comment of some words, more of them",
    "y = 'a text of words, # no comment' + 'b'  # and a comment beside it",
    "@d\nclass A(B, C):\n    \"\"\"A text that describes it, in words.\"\"\"\n    x = (1,\n         2, 3)",
])
@pytest.mark.parametrize("width", [1, 10, 20, 30, 60])
def test_any_width_leaves_the_meaning(line: str, width: int) -> None:
    made = laid_out(line + "\n", width)
    assert described(ast.parse(made)) == described(ast.parse(line))


# the lines of C++ in it

HEADERS = [file for file in resources.files("einc.backends.cpp.runtime").iterdir() if file.name.endswith(".h")]
PIECES = ["int x = f(a, b);", "if (a < b) { y += c[i] * d; }", "/* a comment of words */", "else", "'\\''", "'\"'",
          '"a text, with \\" in it; and // no comment"', "template <class T> static void g(const T* p)", "return -1;"]


def words_of(text: str) -> str:
    """What a compiler sees of a text of C++, apart from blanks between words; the comments behind it."""
    found = re.findall(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|\S', text.replace("\\\n", ""))
    comments = "".join(x[2:] for x in found if x.startswith("//"))
    return "".join(x for x in found if not x.startswith("//")) + "".join(comments.split())


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_lines_of_a_header_are_short_and_mean_the_same(header: Traversable) -> None:
    text = header.read_text(encoding="utf-8")
    made = layout.laid_out(text)
    assert words_of(made) == words_of(text)
    assert layout.laid_out(made) == made
    assert [line for line in made.split("\n") if len(line) > layout.WIDTH] == []


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), st.sampled_from(["", "    ", "#define M(x) "]),
       st.sampled_from(["", "  // a comment, of some words; more of them"]), st.sampled_from([30, 60, 120]))
def test_a_line_of_cpp_is_broken_at_blanks_alone(pieces: list[str], before: str, comment: str, width: int) -> None:
    """Also in a directive, whose lines end in backslashes, where the comment is the last of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "WIDTH", width)
        text = before + " ".join(pieces) + comment
        made = layout.laid_out(text)
    assert words_of(made) == words_of(text)
    if before.startswith("#"):
        assert all(line.endswith(" \\") for line in made.split("\n")[:-1])
    for line in made.split("\n"):
        whole = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', "x", line.removesuffix(" \\").strip())
        assert len(line) <= width or " " not in whole.removeprefix("// ") or ("#" in before and "//" in line)
