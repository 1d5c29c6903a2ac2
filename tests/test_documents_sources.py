"""Documents as people have them: macros with scopes, notebooks, sources of TeX in several files, folders and archives;
what names an equation; and what is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

import einc
from einc.documents import naming, notebook, parts
from einc.documents.document import Document
from einc.documents.parts import Folder, joined
from einc.documents.reading import read
from einc.driver import archives, folders, pipeline, sources
from einc.driver.cli import main
from einc.driver.reports.coverage import account
from einc.errors.report import Piece, Problem, Report, Source, render
from einc.syntax import macros

PAPERS = Path(__file__).parent / "papers"

# macros


def meanings(document: Document, *names: str) -> list[list[str | None]]:
    """What each name stands for where each formula of the document ends."""
    seen = [document.macros.seen(f.span.end) for f in document.formulas]
    return [[at[name].body if name in at else None for name in names] for at in seen]


@pytest.mark.parametrize(("text", "expected"), [
    (r"\newcommand{\a}{1} $\a$ \renewcommand{\a}{2} $\a$", ["1", "2"]),
    (r"$\a$ \def\a{1} $\a$", [None, "1"]),
    (r"\def\a{1} {\def\a{2} $\a$ {\renewcommand\a{3}$\a$} $\a$} $\a$", ["2", "3", "2", "1"]),
    (r"\begin{figure}\newcommand\a{1} $\a$\end{figure} $\a$", ["1", None]),
    (r"\begingroup\def\a{1} $\a$ \bgroup\def\a{2} $\a$\egroup $\a$\endgroup $\a$", ["1", "2", "1", None]),
    (r"{\gdef\a{1} $\a$} $\a$ {\def\a{2} \global\def\a{3}} $\a$", ["1", "1", "3"]),
    (r"\def\a{1} \providecommand{\a}{2} $\a$ \providecommand\b{3}", ["1"]),
    (r"\def\b{1} \let\a\b \def\b{2} $\a$ \let\a=\alpha $\a$", ["1", r"\alpha"]),
    (r"\DeclareMathOperator*{\a}{arg\,max} $\a$", [r"\operatorname{arg\,max}"]),
    (r"$\def\a{1} \a$ $\a$", ["1", None]), (r"$ { \def\a{1} \a } + 1 $", [None]),
    (r"{ \def\a{1} $\a$ \begin{center} } $\a$ \end{center} $\a$ } $\a$", ["1", "1", "1", None]),
    (r"\end{x} } \def\a{1} $\a$", ["1"]), (r"{\def\a{1} \end{document} } $\a$", []),
    (r"\newcommand{\a}[1][", []), (r"\NewDocumentCommand{\a}{s m}{1} $\a{}$", [None]),
    (r"\verb|{\def\a{1}| % {\def\a{2}" "\n" r"$\a$", [None]),
])
def test_a_macro_holds_from_its_definition_to_the_end_of_its_group(text: str, expected: list[str | None]) -> None:
    assert [found[0] for found in meanings(read(Source("p.tex", text)), "a")] == expected


def test_in_markdown_a_formula_defines_macros_for_those_after_it() -> None:
    text = "$\\a$ $$\\newcommand{\\a}[2][x]{#1_#2} \\def\\b{1}$$ $\\a t$ ${\\def\\b{2} \\b}$ $\\b$"
    assert meanings(read(Source("p.md", text)), "a", "b") == [[None, None], ["#1_#2", "1"], ["#1_#2", "1"],
                                                              ["#1_#2", "1"]]


LAYER = r"""%! index t : time(T)
%! index f : feature(D)
%! input x_t^f, z_t^f
"""


def told(text: str, name: str = "p.tex") -> list[str]:
    """What became of each equation, and why."""
    report = Report()
    found = pipeline.paper(Source(name, text), report)
    assert report.errors == [], "\n".join(map(render, report.errors))
    return [f"{e.status} {e.reason}".strip() for e in account(found, kernels=False).entries]


@pytest.mark.parametrize(("definition", "used"), [
    (r"\newcommand{\X}[2][x]{#1_{#2}^f}", r"\X{t} + \X[z]{t}"), (r"\newcommand*\X[1][x_t^f]{#1}", r"\X + \X[z_{t}^f]"),
    (r"\NewDocumentCommand{\X}{O{x} m}{#1_{#2}^f}", r"\X{t} + \X[{z}]{t}"),
    (r"\newcommand{\X}[1]{#1_{\I}^f}\newcommand{\I}{t}", r"\X x + \X z"),
    (r"\newcommand{\X}[1][x]{#1_t^f}\let\Y\X", r"\Y + \Y[z]"),
])
def test_an_optional_argument_has_its_default(definition: str, used: str) -> None:
    text = f"{LAYER}{definition}\n$$ y_t^f = {used} $$\n\n$$ y_t^f = x_t^f + z_t^f $$"
    assert told(text) == ["compiled", "restates"]


def test_a_local_macro_means_what_it_does_where_it_is_used() -> None:
    text = LAYER + r"""\newcommand{\X}{x}
{ \renewcommand{\X}{z} $$ y_t^f = 2 \X_t^f $$ }
$$ w_t^f = 2 \X_t^f $$ $$ w_t^f = 2 x_t^f $$ $$ y_t^f = 2 z_t^f $$"""
    assert told(text) == ["compiled", "compiled", "restates", "restates"]


@pytest.mark.parametrize("bomb", [
    r"\def\a#1{\b{#1#1#1#1#1#1#1#1#1#1}}\def\b#1{\c{#1#1#1#1#1#1#1#1#1#1}}\def\c#1{\d{#1#1#1#1#1#1#1#1#1#1}}"
    r"\def\d#1{\e{#1#1#1#1#1#1#1#1#1#1}}\def\e#1{\f{#1#1#1#1#1#1#1#1#1#1}}\def\f#1{}",
    "".join(rf"\def\{a}{{{chr(92) + b}" + (chr(92) + b) * 99 + "}" for a, b in ("ab", "bc", "cd", "de", "ef"))
    + r"\def\f{}"])
def test_macros_that_come_to_too_much_are_refused(bomb: str) -> None:
    (reason,) = told(f"{LAYER}{bomb}$$ y_t^f = \\a{{xxxxxxxxxx}} x_t^f $$")
    assert reason == "skipped `\\a` stands for too much"


def test_all_macros_of_a_text_come_to_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each formula for itself is within the bounds of a formula."""
    body = r"\def\a{" + "{}" * 400 + r"}\def\b{" + r"\a" * 100 + "}"
    monkeypatch.setattr(macros, "MAX_OF_TEXT", 400_000)
    found = told(LAYER + body + r"$$ y_t^f = \b x_t^f $$" * 8)
    assert found[-1] == "skipped `\\b` stands for too much" and found[0] == "compiled"


# texts that are put together


def test_places_of_pieces_are_told_by_file_and_line() -> None:
    text = "one\ntwo inner\nlast three\nfour"
    source = Source("a.tex", text, (Piece(0, "a.tex"), Piece(8, "sub/b.tex"), Piece(19, "a.tex", 2, 9, 12)))
    found = {word: source.place(text.index(word)) for word in ("two", "inner", "last", "three", "four")}
    assert [str(place) for place in found.values()] == [
        "a.tex:2:1", "sub/b.tex:1:1", "sub/b.tex:2:1", "a.tex:2:9", "a.tex:3:1"]
    assert [found[word].offset for word in ("two", "last", "three", "four")] == [4, 6, 12, 18]
    assert [x.within("a.tex") for x in found.values()] == [
        "line 2", "b.tex, line 1", "b.tex, line 2", "line 2", "line 3"]
    assert [x.short("a.tex") for x in found.values()] == ["2", "b.tex:1", "b.tex:2", "2", "3"]
    cell = Source("n.ipynb", "ab\nc", (Piece(0, "n.ipynb", cell=3),)).place(3)
    assert str(cell) == "n.ipynb, cell 3, line 2, column 1" and cell.short("n.ipynb") == "3:2"


def folder(files: Mapping[str, str | bytes], at: Path) -> Path:
    """These files in a folder."""
    for name, text in files.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return at


def whole(files: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text of `main.tex` with what it takes in, from memory, and the messages."""
    beside = Folder(lambda name: Source(name, files[name]) if name in files else None, lambda: files)
    source, problems = joined(Source("main.tex", files["main.tex"]), beside)
    assert all(p.span is not None and p.span.text.startswith("\\") for p in problems)
    return source.text, [p.message for p in problems]


@pytest.mark.parametrize(("text", "taken"), [
    (r"a \input{b} c", "a \nB\n c"), ("a\n\\input{b}\nc", "a\nB\nc"), ("a\n  \\input b\nc", "a\n  B\nc"),
    (r"\include{b.tex}", "B"), (r"\subfile{ b }", "B"), (r"\import{sub/}{c}", "Bx"), (r"\subimport{sub}{c}", "Bx"),
    (r"\input{sub/d}", "Bx"), ("% \\input{b}\nx", None), (r"\verb|\input{b}|", None), (r"\inputs{b}", None),
    ("\\begin{verbatim}\\input{b}\\end{verbatim}", None), (r"\end{document}\input{b}", None), ("\\input{e}x", "E\nx"),
    ("\\input{f}", "\nF "), ("\\begin{verbatim} \\input{b}", "\\begin{verbatim} \nB"), (r"\\input{b}", None),
])
def test_files_stand_in_the_place_of_what_takes_them_in(text: str, taken: str | None) -> None:
    files = {"main.tex": text, "b.tex": "B\n", "sub/c.tex": "Bx", "sub/d.tex": "\\input{c}", "e.tex": "E\\endinput F",
             "f.tex": "% \\begin{document}\n\\documentclass[main]{subfiles}\n\\begin{document}\nF \\end{document}$"}
    assert whole(files) == (text if taken is None else taken, [])


@pytest.mark.parametrize(("name", "message"), [
    ("../b", "`../b` leads out of a folder, and a document sees no more than its own"),
    ("sub/../../b", "`sub/../../b` leads out of a folder, and a document sees no more than its own"),
    ("/etc/passwd", "`/etc/passwd` is an absolute path, and a document sees no more than its own folder"),
    ("~/b", "`~/b` is an absolute path, and a document sees no more than its own folder"),
    ("C:/b", "`C:/b` is an absolute path, and a document sees no more than its own folder"),
    ("|rm -r b", "`|rm -r b` is a command, and nothing that a document says is run"),
    (r"\jobname", r"`\jobname` is no name of a file"), ("", "`` is no name of a file"),
    ("main", "`main.tex` takes itself in: main.tex → main.tex"),
    ("round", "`round.tex` takes itself in: round.tex → again.tex → round.tex"),
    ("missing", "there is no file `missing` in the folder of the document"),
])
def test_what_is_not_taken_in_is_told_where_it_is_named(name: str, message: str) -> None:
    files = {"main.tex": f"a \\input{{{name}}} c", "round.tex": "\\input{again}", "again.tex": "\\input{round}",
             "b.tex": "B"}
    text, problems = whole(files)
    assert problems == [message]
    assert name == "round" or text == files["main.tex"], "the rest is read"


@pytest.mark.parametrize(("text", "taken"), [
    (r"\usepackage{a}", [r"\def\x{1}", r"\newcommand{\y}[1]{#1}"]), (r"\RequirePackage[p]{amsmath, a,a}", [r"\def\x{1}",
     r"\newcommand{\y}[1]{#1}"]), (r"\usepackage{amsmath}", []), (r"\usepackage{chain}",
     [r"\def\x{1}", r"\newcommand{\y}[1]{#1}", r"\let\z\x"]), (r"\documentclass{own}", [r"\def\w{2}"]),
    (r"% \usepackage{a}", []), (r"\usepackage{sub/b}", [r"\def\v{3}"]), (r"\usepackage{round}", [r"\def\u{4}"]),
    (r"\usepackage{../a}", [])])
def test_of_packages_in_the_folder_the_definitions_are_taken_in(text: str, taken: list[str]) -> None:
    """What stands in braces, in comments or has a name of TeX's own is none; nor are formulas."""
    files = {"main.tex": text,
             "a.sty": "\\def\\x{1} $f$ % \\def\\n{0}\n\\AtEnd{\\def\\n{0}}\\newcommand{\\my@n}{\\def\\n{0}}"
             "\\def\\my@x#1{\\def\\n{0}}\\newcommand{\\y}[1]{#1}", "chain.sty": "\\RequirePackage{a}\\let\\z\\x",
             "own.cls": "\\LoadClass{article}\\def\\w{2}", "sub/b.sty": "\\def\\v{3}",
             "round.sty": "\\usepackage{round}\\def\\u{4}"}
    assert whole(files) == ("\n".join([text, *taken]), [])


def test_a_package_is_read_with_its_places_and_one_that_is_a_link_is_told(tmp_path: Path) -> None:
    text = "\\documentclass{x}\n\\usepackage{mine}\n" + LAYER + "$$ y_t^f = 2 \\X_t^f $$"
    folder({"main.tex": text, "mine.sty": "\\newcommand{\\X}{x}"}, tmp_path)
    assert "compiled" in run("doc", tmp_path).output
    (tmp_path / "mine.sty").rename(tmp_path / "other")
    (tmp_path / "mine.sty").symlink_to(tmp_path / "other")
    assert [(p.code, p.message) for p in told_of(tmp_path)] == [
        ("E0805", "`mine.sty` is a link, and links are not followed")]


def test_of_included_files_only_those_are_read_that_are_listed() -> None:
    files = {"main.tex": "\\includeonly{b, c}\n\\include{a}\n\\include{b}\n\\input{a}", "a.tex": "A", "b.tex": "B"}
    assert whole(files) == ("\\includeonly{b, c}\n\\include{a}\nB\nA", [])


def test_how_much_is_taken_in_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_FILES", 20)
    chain = {f"a{n}.tex": f"\\input{{a{n + 1}}}" for n in range(9)} | {"a9.tex": "x"}
    twice = {name: text * 2 for name, text in chain.items()}
    assert whole({"main.tex": "\\input{a0}", **twice})[1] == ["the document takes in more than 20 files"]
    assert whole({"main.tex": "\\input{../a}" * 50})[1][20:] == ["the document takes in more than 20 files"]
    monkeypatch.setattr(parts, "MAX_DEPTH", 5)
    assert whole({"main.tex": "\\input{a0}", **chain})[1] == ["files take in one another more than 5 deep"]
    monkeypatch.setattr(parts, "MAX_CHARACTERS", 100)
    text, problems = whole({"main.tex": "\\input{a}" * 5, "a.tex": "x" * 20})
    assert problems == ["with `a.tex` the document has more than the 100 characters that are read"] * 3
    assert len(text) < 110


def told_of(path: Path) -> list[Problem]:
    """What is wrong with a document as a whole."""
    report = Report()
    pipeline.paper(pipeline.read_source(path, report), report)
    return report.problems


def test_a_file_with_a_similar_name_is_offered(tmp_path: Path) -> None:
    folder({"main.tex": "\\input{sections/atention} \\input{intro}", "sections/attention.tex": "", "a/intro.tex": ""},
           tmp_path)
    found = told_of(tmp_path / "main.tex")
    assert [p.helps[0].text for p in found] == ["there is a file with a similar name: `sections/attention`",
                                                "there is a file with a similar name: `a/intro.tex`"]
    assert [p.code for p in found] == ["W0805", "W0805"]


# folders and archives

Files = Mapping[str, str | bytes]

MAIN = r"""\documentclass{article}
\input{macros}
\begin{document}
%! index t : time(T)
%! index f : feature(D)
%! input x_t^f, w_f
\section{First}
\input{sections/one}
\section{Second}
\begin{equation}\label{eq:two} z_t = 3 \X_t^f w_f \end{equation}
\end{document}
"""
ONE = r"""Here \emph{one} is
\begin{align}
  y_t &= 2 \X_t^f w_f \label{eq:one} \\
  v_t &= 3 y_t
\end{align}
$$ u_t &= \fraq y_t $$
"""
FILES: Files = {"main.tex": MAIN, "macros.tex": r"\newcommand{\X}{x}", "sections/one.tex": ONE,
                "pictures/a.png": b"\x89PNG\xff"}


def run(*args: str | Path) -> Result:
    done = CliRunner().invoke(main, [str(x) for x in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), (args, done.exc_info)
    return done


def tarred(files: Files, links: Mapping[str, str] | None = None, kind: bytes = tarfile.SYMTYPE,
           packed: bool = True) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            one = tarfile.TarInfo(name)
            one.size = len(data)
            archive.addfile(one, io.BytesIO(data))
        for name, target in (links or {}).items():
            one = tarfile.TarInfo(name)
            one.type, one.linkname = kind, target
            archive.addfile(one)
    return gzip.compress(out.getvalue(), mtime=0) if packed else out.getvalue()  # the same bytes in every process


def zipped(files: Files, links: Mapping[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)  # with no date of its own
        for name, target in (links or {}).items():
            link = zipfile.ZipInfo(name)
            link.external_attr = 0o120777 << 16
            archive.writestr(link, target)
    return out.getvalue()


def bundle(kind: str, tmp_path: Path, files: Files = FILES) -> Path:
    """A folder or an archive of these files."""
    if kind == "folder":
        return folder(files, tmp_path / "paper")
    data = {"tar": tarred(files, packed=False), "zip": zipped(files)}.get(kind) or tarred(files)
    path = tmp_path / f"paper.{kind}"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["folder", "tar.gz", "tgz", "tar", "zip"])
def test_the_sources_of_a_paper_are_one_document(kind: str, tmp_path: Path) -> None:
    path = bundle(kind, tmp_path)
    made = json.loads(run("doc", path, "--format", "json").stdout)
    rows = [(Path(e["file"]).relative_to(path).as_posix(), e["line"], e["name"], e["status"])
            for e in made["equations"]]
    assert rows == [("sections/one.tex", 3, "(1) eq:one", "compiled"), ("sections/one.tex", 4, "(2)", "compiled"),
                    ("sections/one.tex", 6, "", "skipped"), ("main.tex", 10, "(3) eq:two", "compiled")]
    shown = run("doc", path).output
    assert f"--> {path}/sections/one.tex:6:11\n" in shown and "one.tex:6  skipped" in shown
    assert "6 | $$ u_t &= \\fraq y_t $$\n  |           ^^^^^" in shown
    assert "def second(" in run("compile", path, "--equation", "eq:two").output
    assert run("doc", path / "main.tex").output == shown
    assert "<math" in run("doc", path, "--format", "html").output


def test_an_archive_with_one_folder_in_it(tmp_path: Path) -> None:
    path = bundle("tar.gz", tmp_path, {f"arXiv-1/{name}": text for name, text in FILES.items()})
    assert "one.tex:3  compiled" in run("doc", path).output


def test_a_folder_of_the_name_of_a_spec_is_read_where_it_has_tex(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attention").mkdir()
    assert "Q_{t h}" in run("show", "attention").output
    folder(FILES, tmp_path / "attention")
    assert "one.tex:3  compiled" in run("doc", "attention").output


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder({"main.tex": "\\documentclass{x}\\input{link}\\input{way/b}\\input{hard}", "b.tex": "$B$",
            "deep/b.tex": "$C$"}, tmp_path / "paper")
    folder({"secret.tex": "$S$"}, tmp_path)
    (tmp_path / "paper" / "link.tex").symlink_to(tmp_path / "secret.tex")
    (tmp_path / "paper" / "way").symlink_to(tmp_path / "paper" / "deep")
    (tmp_path / "paper" / "main2.tex").symlink_to(tmp_path / "paper" / "main.tex")
    assert [(p.code, p.message) for p in told_of(tmp_path / "paper")] == [
        ("E0805", "`link.tex` is a link, and links are not followed"),
        ("E0805", "`way` is a link, and links are not followed"),
        ("W0805", "there is no file `hard` in the folder of the document")]


@pytest.mark.parametrize("data", [
    tarred({"main.tex": "\\documentclass{x}\\input{a}"}, {"a.tex": "/etc/passwd"}),
    tarred({"main.tex": "\\documentclass{x}\\input{a}"}, {"a.tex": "main.tex"}, tarfile.LNKTYPE),
    zipped({"main.tex": "\\documentclass{x}\\input{a}"}, {"a.tex": "../b"})], ids=["soft", "hard", "zip"])
def test_links_of_archives_are_not_followed(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / ("p.zip" if data.startswith(b"PK") else "p.tgz")
    path.write_bytes(data)
    assert [p.message for p in told_of(path)] == ["`a.tex` is a link, and links are not followed"]


def test_devices_and_pipes_are_no_part_of_a_document(tmp_path: Path) -> None:
    folder({"main.tex": "\\documentclass{x}\\input{pipe}\\input{bytes}\\input{sub}", "bytes.tex": b"a\n\xff"}, tmp_path)
    os.mkfifo(tmp_path / "pipe.tex")
    (tmp_path / "sub").mkdir()
    assert [p.message for p in told_of(tmp_path)] == [
        "`pipe.tex` is a device or a pipe", f"{tmp_path}/bytes.tex is not UTF-8: byte 0xff on line 2",
        "there is no file `sub` in the folder of the document"]


@pytest.mark.parametrize(("name", "data", "message"), [
    ("a.tgz", b"", "a.tgz cannot be unpacked: "), ("a.tgz", tarred(FILES)[:-200], "a.tgz cannot be unpacked: "),
    ("a.tgz", tarred(FILES)[:20] + b"\0" * 90, "a.tgz cannot be unpacked: "),
    ("a.tar", b"x" * 2_000, "a.tar cannot be unpacked: "), ("a.tar", tarred({}, packed=False), "cannot read a.tar: "),
    ("a.zip", b"PK", "a.zip cannot be unpacked: "), ("a.zip", zipped(FILES)[:-30], "a.zip cannot be unpacked: "),
    ("a.zip", zipped({}), "cannot read a.zip: it is an archive, and none of its .tex files has `\\documentclass`"),
    ("a.tgz", tarred({"../main.tex": ""}), "a.tgz has a member outside of its folder: `../main.tex`"),
    ("a.tgz", tarred({"/main.tex": ""}), "a.tgz has a member outside of its folder: `/main.tex`"),
    ("a.zip", zipped({"a/../../main.tex": ""}), "a.zip has a member outside of its folder: `a/../../main.tex`"),
    ("a.zip", zipped({"C:\\main.tex": ""}), "a.zip has a member outside of its folder: `C:\\main.tex`"),
    ("a.tgz", tarred({"a/" * 30 + "b.tex": ""}), "a.tgz has folders more than 20 deep"),
    ("a.tgz", tarred({f"{n}.png": "" for n in range(60)}), "a.tgz has more than the 50 members that are read"),
    ("a.zip", zipped({f"{n}.png": "" for n in range(60)}), "a.zip has more than the 50 members that are read"),
    ("a.tgz", tarred({"a.png": b"\0" * 300_000}), "a.tgz unpacks to more than the 200,000 bytes that are read"),
    ("a.zip", zipped({"a.png": b"\0" * 300_000}), "a.zip unpacks to more than the 200,000 bytes that are read"),
    ("a.tgz", tarred({"a.tex": b"\0" * 100_000}), "`a.tex` of a.tgz has 100,000 bytes, more than the 50,000"),
    ("a.zip", zipped({"a.tex": b"\0" * 100_000}), "`a.tex` of a.zip has 100,000 bytes, more than the 50,000"),
    ("a.tgz", tarred({"a.tex": "\\documentclass{x}", "b/b.tex": "\n  \\documentclass{y}"}), "a.tgz has 2 files with "),
    ("a.tgz", tarred({"b.tex": "% \\documentclass{y}", "c.tex": "\\documentclass[b]{subfiles}"}), "cannot read a.tgz"),
], ids=range(21))
def test_archives_that_are_refused(name: str, data: bytes, message: str, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED", 200_000)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 50)
    monkeypatch.setattr(archives, "MAX_BYTES", 50_000)
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data)
    (problem,) = told_of(Path(name))
    assert problem.code == "E0806" and problem.message.startswith(message), problem.message
    assert problem.helps
    assert run("doc", name).exit_code == 1


def test_a_bomb_is_unpacked_no_further_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that says that a name or a file is long makes no one read so much."""
    monkeypatch.setattr(archives, "MAX_UNPACKED", 100_000)
    header = tarfile.TarInfo("x.tex")
    header.size, header.type = 2**30, tarfile.GNUTYPE_LONGNAME
    for data in (header.tobuf(tarfile.GNU_FORMAT) + b"\0" * 2_000, gzip.compress(b"\0" * 20_000_000)):
        path = tmp_path / ("a.tgz" if data.startswith(b"\x1f") else "a.tar")
        path.write_bytes(data)
        assert [p.code for p in told_of(path)] == ["E0806"]
    monkeypatch.setattr(archives, "MAX_ARCHIVE", 1_000)
    assert [p.code for p in told_of(tmp_path / "a.tgz")] == ["E0114"]


@pytest.mark.parametrize(("files", "message"), [
    ({"a.md": ""}, "it is a directory, and none of its .tex files has `\\documentclass`"),
    ({"a.tex": "$x$"}, "it is a directory, and none of its .tex files has `\\documentclass`"),
    ({"a.tex": "\\documentclass{x}", "sub/b.tex": "\\documentclass{x}"}, "has 2 files with `\\documentclass`"),
    ({f"{n}.txt": "" for n in range(40)}, "has more than the 30 files that are looked through"),
    ({"a.tex": "x" * 9_000}, "have more than the 8,000 bytes that are looked through"),
])
def test_folders_that_are_refused(files: dict[str, str], message: str, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_ENTRIES", 30)
    monkeypatch.setattr(archives, "MAX_UNPACKED", 8_000)
    (problem,) = told_of(folder(files, tmp_path))
    assert problem.code == "E0806" and message in problem.message
    if "2 files" in message:
        assert problem.notes == ("they are `a.tex`, `sub/b.tex`",)
        assert problem.helps[0].text == f"say which is meant: `{tmp_path}/a.tex`"
        assert told_of(tmp_path / "sub" / "b.tex") == []


# notebooks


def notebook_of(*cells: tuple[str, str], **more: object) -> str:
    page = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), "outputs": []}
        for kind, text in cells]}
    return json.dumps(page | more)


CELLS = (
    ("markdown", "# A layer\n\n```ein\nindex t : time(T)\ninput x_t\n```"), ("code", "y = '$y$'\n```\n"),
    ("markdown", "It is\n\n$$ y_t = 2 x_t $$"), ("raw", "$r$"),
    ("markdown", "with $a_t =\n \\fraq x_t$ and\n\n```\n$c$"), ("markdown", "<!-- $d$"),
    ("markdown", "$$\nz_t = 3 x_t \\tag{7}\n$$\n$$ u_t = \\fraq x_t $$"),
)


def test_a_notebook_is_told_by_cell_and_line(tmp_path: Path) -> None:
    path = tmp_path / "paper.ipynb"
    path.write_text(notebook_of(*CELLS), encoding="utf-8")
    shown = run("doc", path).output
    assert re.findall(r"^ +\d+ +(\d+:\d+)  (\w+)", shown, re.M) == [
        ("3:3", "compiled"), ("5:1", "skipped"), ("7:2", "compiled"), ("7:4", "skipped")]
    assert f"""error[E0109]: `\\fraq` is not a macro of the language
 --> {path}, cell 7, line 4, column 10
  |
4 | $$ u_t = \\fraq x_t $$
  |          ^^^^^
""" in shown
    found = json.loads(run("doc", path, "--format", "json").stdout)["equations"]
    place = {key: found[2][key] for key in ("file", "cell", "line", "column", "name")}
    assert place == {"file": str(path), "cell": 7, "line": 2, "column": 1, "name": "(7)"}
    assert found[3]["problems"][0]["span"]["cell"] == 7
    assert "cell 7, line 2" in run("doc", path, "--format", "html").output
    assert "3 x_{t}" in run("show", path, "--equation", "7").output


@pytest.mark.parametrize(("text", "message", "at"), [
    ("", "the notebook is not JSON: expecting value", 0),
    ('{"cells": [}', "the notebook is not JSON: expecting value", 11),
    ("[" * 100_000, "the notebook is nested too deep, or has a number that is too long", 0),
    ("1" * 10_000, "the notebook is nested too deep, or has a number that is too long", 0),
    ("[]", "this is no notebook of format 4", 0),
    ('{"nbformat": 3, "worksheets": []}', "this is no notebook of format 4", 0),
    ('{"nbformat": 4, "cells": {}}', "this is no notebook of format 4", 0),
    ('{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["", 1]}]}',
     "cell 1 of the notebook has no kind or no text", 0),
    (notebook_of(*[("code", "")] * 31), "the notebook has 31 cells, more than the 30 that are read", 0),
    (notebook_of(("markdown", "x" * 5_000)), "the cells have 5,002 characters, more than the 4,000 that are read", 0),
], ids=range(10))
def test_texts_that_are_no_notebooks(text: str, message: str, at: int, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MAX_CELLS", 30)
    monkeypatch.setattr(notebook, "MAX_CHARACTERS", 4_000)
    (problem,) = read(Source("a.ipynb", text)).problems
    assert (problem.code, problem.message) == ("E0806", message)
    assert problem.span is not None and problem.span.start == at
    (tmp_path / "a.ipynb").write_text(text, encoding="utf-8")
    assert run("doc", tmp_path / "a.ipynb").exit_code == 1


def test_a_notebook_may_be_larger_than_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES", 1_000)
    path = tmp_path / "a.ipynb"
    path.write_text(notebook_of(*CELLS, metadata={"picture": "x" * 5_000}), encoding="utf-8")
    assert "7:2  compiled" in run("doc", path).output
    monkeypatch.setattr(sources, "MAX_NOTEBOOK", 2_000)
    (problem,) = told_of(path)
    assert "bytes, more than the 2,000 that are read" in problem.message
    path.write_bytes(b'"\xff"')
    assert [p.code for p in told_of(path)] == ["E0114"]


def test_half_a_character_of_json_is_none() -> None:
    found = read(Source("a.ipynb", notebook_of(("markdown", "$$ a_t = \ud83d x_t $$"))))
    assert found.source.text.encode()


# what names an equation

NUMBERED = r"""\begin{document}\section{A}
\begin{equation} a \end{equation} \begin{equation*} b \end{equation*} \[ c \] $$ d $$
\begin{align} e \label{eq:e} \\ f \nonumber \\ g \tag{G} \label{eq:g} \\ \begin{split} h \\ i \end{split} % \label{no}
\end{align}
\begin{subequations} \begin{gather} j \\ k \end{gather} \end{subequations} % \setcounter{equation}{90}
\begin{multline} l \\ m \end{multline} \begin{equation}\begin{aligned} n \\ o \end{aligned} \label{eq:n}\end{equation}
\setcounter{equation}{20} \begin{eqnarray} p \\ q \end{eqnarray} \begin{align*} r \\ s \tag{*} \end{align*}
"""


def named(text: str, name: str = "p.tex") -> list[str]:
    """The names of a document's equations, each with the first of its letters that stands alone."""
    found = naming.names(read(Source(name, text)))
    return [f"{one} {re.findall(r'(?<![A-Za-z{:])[a-z](?![A-Za-z:])', one.span.text)[0]}" for one in found]


def test_equations_are_numbered_as_tex_does() -> None:
    assert named(NUMBERED) == ["(1) a", "(2) eq:e e", "(G) eq:g g", "(3) h", "(4a) j", "(4b) k", "(5) l", "(6) eq:n n",
                               "(21) p", "(22) q", "(*) s"]
    by_section = r"\numberwithin{equation}{section}" + NUMBERED + r"""\section*{X}
\begin{equation} t \end{equation} \section{B} \begin{equation} u \end{equation}
\appendix \section{C} \begin{equation} v \end{equation}"""
    assert named(by_section)[0] == "(1.1) a" and named(by_section)[-3:] == ["(1.23) t", "(2.1) u", "(A.1) v"]


def test_in_markdown_tags_are_names() -> None:
    text = ("$$ a = b \\tag{3} $$\n\n$$ c = d \\label{eq:c} $$\n\n$$ e = f $$\n\n"
            "\\begin{align} g \\tag{4} \\\\ h \\end{align}")
    assert named(text, "p.md") == ["(3) a", "eq:c c", "(4) g"]


LAYERS = r"""%! index t : time(T)
%! input x_t
\section{First layer}
\begin{align} y_t &= 2 x_t \label{eq:first} \\ z_t &= 3 y_t \end{align}
\begin{equation} y_t = x_t + x_t + x_t \tag{again} \end{equation}
\section{Second}
\begin{equation} y_t = 5 x_t \label{eq:second} \end{equation}
\begin{equation} u_t = \fraq x_t \label{eq:wrong} \end{equation}
%! skip a remark
\begin{equation} x \mapsto y \label{eq:skip} \end{equation}
"""


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    path = tmp_path / "p.tex"
    path.write_text(LAYERS, encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "equations"), [
    ("eq:first", ["y_{t} = 2 x_{t}"]), ("1", ["y_{t} = 2 x_{t}"]), ("(2)", ["y_{t} = 2 x_{t}", "z_{t} = 3 y_{t}"]),
    ("again", ["y_{t} = x_{t} + x_{t} + x_{t}"]), ("eq:second", ["y_{t} = 5 x_{t}"]), ("3", ["y_{t} = 5 x_{t}"]),
])
def test_an_equation_is_compiled_by_its_name(name: str, equations: list[str], layers: Path) -> None:
    shown = run("show", layers, "--equation", name).stdout
    assert [line for line in shown.splitlines() if "} = " in line] == equations
    assert re.findall("^output (.)", shown, re.M) == [equations[-1][0]]
    for command in ("compile", "check", "derive", "cost"):
        assert run(command, layers, "--equation", name).exit_code == 0, command
    rows = re.findall(r"^ +\d+ +\d+  \w+", run("doc", layers, "--equation", name).stdout, re.M)
    assert len(rows) == 1


def test_the_title_of_a_section_names_all_that_it_says(layers: Path) -> None:
    shown = run("show", layers, "--equation", "first l").stdout
    assert shown == run("show", layers, "--section", "First layer").stdout


@pytest.mark.parametrize(("name", "said"), [
    ("eq:frist", ["E0804", "there is no equation `eq:frist`", "what has a name is `eq:first`,", "there is `eq:first`"]),
    ("99", ["E0804", "there is no equation `99`"]), ("eq:wrong", ["E0109", "`\\fraq`", "^^^^^"]),
    ("eq:skip", ["E0804", "`eq:skip` is no equation that can be compiled: the author says so: a remark"]),
])
def test_a_name_of_no_equation_is_refused(name: str, said: list[str], layers: Path) -> None:
    done = run("compile", layers, "--equation", name)
    assert done.exit_code == 1 and all(x in done.output for x in said), done.output
    both = run("compile", layers, "--equation", "1", "--section", "Second")
    assert both.exit_code == 1 and "give one of the two" in both.output


def test_two_equations_of_one_name() -> None:
    report = Report()
    text = "# A\n\n$$ a_t = 1 \\tag{1} $$\n\n$$ b_t = 2 \\tag{1} $$\n"
    assert pipeline.check(Source("p.md", text), report, equation="(1)") is None
    (problem,) = report.problems
    assert problem.message == "`(1)` names 2 equations" and problem.notes == ("they stand in line 3, line 5",)


def test_an_equation_of_a_round_is_compiled_by_its_name(tmp_path: Path) -> None:
    """What stands in a `for` block of a side file stays there."""
    (tmp_path / "p.md").write_text(r"""# Sums

$$ z \gets z + x_s \tag{1} $$

$$ y_t = 2 z_t \tag{2} $$
""", encoding="utf-8")
    (tmp_path / "side.ein").write_text("""index t, s : time(T)
input x_s
section "Sums":
    z = 0
    for s in 1..T:
        z_s = z
""", encoding="utf-8")
    done = run("show", tmp_path / "p.md", "--with", tmp_path / "side.ein", "--equation", "2")
    assert "y_{t} = 2 z_{t}" in done.output, done.output


# any document


def documents() -> list[tuple[str, str]]:
    """The papers of the tests with the endings of their names."""
    return [(file.suffix, file.read_text(encoding="utf-8")) for file in sorted(PAPERS.iterdir())
            if file.suffix in (".tex", ".md")]


WORDS = (
    "{", "}", "$", "$$", "\\", "%", "\n\n", "\\input{main}", "\\input{a}", "\\input{../a}", "\\input",
    "\\end{document}", "\\begin{document}", "\\newcommand{\\a}[2][x]{#1_{#2}}", "\\a", "\\a[",
    "\\def\\a#1{\\a\\a{#1}}", "\\let\\a\\b", "\\gdef\\b{}", "\\begin{equation}", "\\end{equation}", "\\begin{align}",
    "\\\\", "\\label{a}", "\\tag{1}", "```", "```ein\n", "<!--", "\\verb|", "\\begin{verbatim}", "\\endinput",
    "\\section{", "\ud7ff", "\u0000", "é", "\\import{a}{b}", "\\begin{subequations}",
    "\\numberwithin{equation}{section}", "%! ", "%! skip", "\\documentclass{x}",
)


def garbled(random: Random) -> tuple[str, bytes]:
    """A file of a mutated paper: its name, and its bytes."""
    ending, text = random.choice(documents())
    at = random.randrange(len(text))
    text = text[at : at + 2_500] if random.random() < 0.5 else text[:2_500]
    for _ in range(random.randint(1, 6)):
        at = random.randint(0, len(text))
        text = text[:at] + random.choice(WORDS) + text[at + random.choice((0, 0, 1, 20)):]
    halves = {"main.tex": "\\documentclass{x}" + text[: len(text) // 2] + "\\input{a}", "a.tex": text[len(text) // 2:]}
    match random.choice(("text", "text", "notebook", "tgz", "zip", "cut")):
        case "notebook":
            cells = [(random.choice(("markdown", "markdown", "code")), part) for part in text.split("\n\n")]
            page = notebook_of(*cells)
            return "p.ipynb", (page if random.random() < 0.8 else page[: random.randrange(len(page))]).encode()
        case "tgz" | "zip" as kind:
            return f"p.{kind}", (tarred if kind == "tgz" else zipped)(halves)
        case "cut":
            data = bytearray(random.choice((tarred(halves, packed=False), zipped(halves), tarred(halves))))
            for _ in range(random.randint(1, 8)):
                data[random.randrange(len(data))] = random.randrange(256)
            return random.choice(("p.tar", "p.zip", "p.tgz")), bytes(data[: random.randint(1, len(data))])
    return f"p{ending}", text.encode()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("number", range(4))
def test_no_document_gives_a_traceback(number: int, tmp_path: Path) -> None:
    """Each has an account, or problems that are told."""
    random = Random(number)
    statuses = set()
    for _ in range(12):
        name, data = garbled(random)
        (tmp_path / name).write_bytes(data)
        done = run("doc", tmp_path / name)
        statuses.add(done.exit_code)
        assert done.exit_code == 0 or "error" in done.output, (name, data)
        run("check", tmp_path / name, "--equation", random.choice(("1", "a", "First", "(2)")))
    assert statuses <= {0, 1}


# growth


def calls(work: Callable[[], object]) -> int:
    """How many calls of functions some work takes, those of C with them."""
    count = 0

    def seen(frame: FrameType, event: str, what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


SECTION = r"""
\section{Part}
\newcommand{\X}[2][x]{#1_{#2}^f} { \renewcommand{\X}[1]{z_{#1}^f} $y_t = \X{t}$ }
As $a_t = \X{t}$ says, % a comment
\begin{align} y_t^f &= 2 \X{t} \label{eq:y} \\ z_t^f &= \X[z]{t} + \frac{1}{2} y_t^f \end{align}
"""
GROWING = {
    "p.tex": SECTION,
    "p.md": "# Part\n\nAs $a_t = b_t$ says,\n\n"
            "$$ y_t^f = 2 x_t^f, \\quad z_t = 3 x_t \\tag{1} $$\n\n| $a$ | b |\n|--|--|\n| c | $d$ |\n",
    "p.txt": "2.1 Part\n\nAs $a_t = b_t$ says\n\n$$ y_t^f = 2 x_t^f $$\n",
    "goes_on.md": "$$ y_t = x_t $$\n\n$$ = z_t $$\n\nWe write $a_t$ for $b_t + c_t$.\n\n",
    "groups.tex": "{\\def\\a{1} \\begin{center} $x = \\a$ } \\gdef\\a{2} ",
    "macros.tex": "\\newcommand{\\X}[1][x]{{#1}} $y = \\X + \\X[z]$ \\let\\Y\\X ",
    "open.tex": "\\begin{verbatim} \\verb| { \\input{ \\newcommand{\\a}{ $ \\begin{x} ",
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("stage", ["read", "names", "paper"])
def test_work_grows_with_the_length(name: str, stage: str) -> None:
    """Four times as long a document takes no more than 4^1.2 times as many calls."""
    def work(times: int) -> Callable[[], object]:
        source = Source(name, GROWING[name] * times)
        document = read(source)
        return {"read": lambda: read(source), "names": lambda: naming.names(document),
                "paper": lambda: pipeline.paper(source, Report())}[stage]

    work(2)()
    few, many = calls(work(20)), calls(work(80))
    assert math.log(many / few, 4) <= 1.2


def test_work_grows_with_the_files_and_the_cells() -> None:
    def files(times: int) -> Callable[[], object]:
        texts = {f"a{n}.tex": SECTION for n in range(times)}
        main = Source("main.tex", "".join(f"\\input{{a{n}}}\n" for n in range(times)))
        return lambda: read(main, Folder(lambda name: Source(name, texts[name]) if name in texts else None, lambda: ()))

    def cells(times: int) -> Callable[[], object]:
        text = notebook_of(*CELLS * times)
        return lambda: read(Source("p.ipynb", text))

    for work in (files, cells):
        work(2)()
        assert math.log(calls(work(160)) / calls(work(40)), 4) <= 1.2


def test_an_equation_is_compiled_by_its_name_from_python(layers: Path) -> None:
    x = torch.tensor([1.0, 2.0])
    assert einc.compile(layers, "torch", equation="eq:second")(x=x).tolist() == [5.0, 10.0]
    with pytest.raises(einc.EincError, match="there is no equation `eq:frist`"):
        einc.compile(layers, "torch", equation="eq:frist")
    with pytest.raises(einc.EincError, match="give one of the two"):
        einc.compile(layers, "torch", equation="1", section="Second")


ENVIRONMENTS = {
    "IEEE": (r"\begin{IEEEeqnarray}[\small]{rCl} y_t &=& 2 x_t \IEEEyesnumber \label{eq:q}\\ &=& x_t + x_t "
             r"\IEEEnonumber \\ z_t &=& 3 x_t \end{IEEEeqnarray}", ["(1) eq:q", "", "(2)"]),
    "IEEE*": (r"\begin{IEEEeqnarray*}{rCl} y_t &=& 2 x_t \\ z_t &=& 3 x_t \IEEEyesnumber \end{IEEEeqnarray*}",
              ["", "(1)"]),
    "old": (r"\begin{eqnarray} y_t & = & 2 x_t \\ v_t &=& \fq \\ z_t &=& 3 x_t \end{eqnarray}", ["(1)", "(2)", "(3)"]),
    "frame": (r"\begin{empheq}[box=\f]{align} y_t &= 2 x_t \\ z_t &= 3 x_t \end{empheq}", ["(1)", "(2)"]),
    "frame*": (r"\begin{empheq}[box=\fbox]{align*} y_t &= 2 x_t \\ z_t &= 3 x_t \end{empheq}", ["", ""]),
    "columns": (r"\begin{xalignat}{2} y_t &= 2 x_t & z_t &= 3 x_t \end{xalignat}", ["(1)", "(1)"]),
    "array": (r"\[ \begin{array}{rcl} y_t &=& 2 x_t \\ z_t & = & 3 x_t \end{array}. \]", ["", ""]),
    "box": (r"\[ \begin{IEEEeqnarraybox}[c]{rCl} y_t &=& 2 x_t \\ z_t &=& 3 x_t \end{IEEEeqnarraybox} \]",
            ["", ""]),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("ending", ["tex", "md"])
def test_environments_of_equations_are_read_row_by_row(name: str, ending: str) -> None:
    """Each has its rows, its numbers in TeX, and a page on which nothing is left of its marks."""
    text, numbers = ENVIRONMENTS[name]
    lines = ("index t : time(T)", "input x_t")
    head = "\n".join([f"%! {x}" for x in lines] if ending == "tex" else ["```ein", *lines, "```\n"]) + "\n"
    found = pipeline.paper(Source(f"p.{ending}", head + text), Report())
    entries = account(found, kernels=False).entries
    assert [e.status for e in entries if r"\fq" not in e.span.text] == [
        "restates" if "x_t + x_t" in e.span.text else "compiled" for e in entries if r"\fq" not in e.span.text]
    assert len(entries) == len(numbers)
    if ending == "tex":
        seen = naming.names(found.document)
        assert [naming.name_of(seen, e.span) for e in entries if "x_t + x_t" not in e.span.text] == [
            n for e, n in zip(entries, numbers, strict=True) if "x_t + x_t" not in e.span.text]


def test_an_array_that_is_a_matrix_is_none_of_equations() -> None:
    assert told(LAYER + r"\[ \begin{array}{cc} y_t^f & x_t^f \\ x_t^f & y_t^f \end{array} \]") != []
    (row,) = told(LAYER + r"\[ \begin{array}{cc} y_t^f &= x_t^f \\ x_t^f & y_t^f \end{array} \]")
    assert row.startswith("skipped")
