"""The pages for readers: they show what einc prints, their commands exist, and their figures were measured."""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import re
import shlex
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import pytest
from click.testing import CliRunner

import einc
from bench import precision
from bench.__main__ import main as bench
from einc.driver.cli import COMMANDS as SUBCOMMANDS
from einc.driver.cli import main
from einc.driver.moved import MOVED

ROOT = Path(__file__).parent.parent
ROOMS = ("grammar", "specs", "compiler", "backends", "bench")
PAGES = {name: (ROOT / name).read_text(encoding="utf-8")
         for name in ("README.md", "grammar/editors/README.md", *(f"{room}/README.md" for room in ROOMS))}
README = PAGES["README.md"]
FENCE = re.compile(r"^(`{3,})([a-z]*)[^\n`]*\n(.*?)^\1$", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
RUN = CliRunner()
SHORTENED = "…"


def fences(page: str, language: str) -> list[str]:
    return [m[3] for m in FENCE.finditer(page) if m[2] == language]


def prose(page: str) -> str:
    """A page without its fences."""
    return FENCE.sub("", page)


def anchor(title: str) -> str:
    """The name that GitHub gives to a heading."""
    return "".join(c for c in title.lower() if c.isalnum() or c in " -_").replace(" ", "-")


def printed(*args: str) -> list[str]:
    """The lines that a command prints."""
    done = RUN.invoke(main, args)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


# the README's own sessions


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_the_session_of_a_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is printed as it stands there, and the file is fixed as the page says."""
    session = README.split("## Paste an equation", 1)[1].split("\n## ", 1)[0]
    monkeypatch.chdir(tmp_path)
    file = Path("mine.ein")
    (text,) = fences(session, "ein")
    (shown,) = (dedent(x) for x in re.findall(r"(?:^    .*\n|^\n(?=    ))+", session, re.M) if "error[" in x)
    file.write_text(text, encoding="utf-8")
    assert "error[E0503]" in RUN.invoke(main, ["check", "mine.ein"]).output
    file.write_text(text.replace("\n\n$$", "\nmask L_{t s} : s ≤ t\n\n$$"), encoding="utf-8")
    assert RUN.invoke(main, ["check", "mine.ein"]).output.startswith(shown.strip("\n"))
    assert RUN.invoke(main, ["check", "--fix", "mine.ein"]).exit_code == 0
    assert RUN.invoke(main, ["run", "mine.ein", "--sizes", "T=5,D=3", "--verify"]).exit_code == 0


def test_the_first_command_runs() -> None:
    (line,) = re.findall(r"^    pip install .*? && (einc .*)$", README, re.M)
    assert RUN.invoke(main, [*shlex.split(line)[1:], "--sizes", "T=5,H=2,d_k=4,d_model=3"]).exit_code == 0


def whole_lines(lines: list[str]) -> list[str]:
    """The lines without spaces, those that an open bracket continues as one."""
    out, depth = [""], 0
    for line in ("".join(line.split()) for line in lines):
        out[-1] += line
        code = line.partition("#")[0]
        depth = max(0, depth + sum((char in "([") - (char in ")]") for char in code))
        out += [""] * (depth == 0)
    return out


@pytest.mark.parametrize(("page", "language", "options"), [
    ("README.md", "python", ["--own"]),
    ("backends/README.md", "python", ["--backend", "triton"]),
    ("backends/README.md", "cpp", ["--backend", "cpp"]),
])
def test_the_inner_loop_is_the_one_that_is_written(
    page: str, language: str, options: list[str], tmp_path: Path
) -> None:
    """The one fence of that language that leaves something out, line by line and in this order, where `…` stands for
    anything, a line of its own for any number of lines.
    """
    file = tmp_path / "first.ein"
    file.write_text(fences(README, "ein")[0], encoding="utf-8")
    (shown,) = (x.splitlines() for x in fences(PAGES[page], language) if SHORTENED in x)
    emitted = iter(whole_lines(printed("compile", str(file), *options)))
    for line in ("".join(x.split()) for x in shown if x.strip() != SHORTENED):
        wanted = re.compile(".*".join(map(re.escape, line.split(SHORTENED))))
        assert any(wanted.fullmatch(each) for each in emitted), line


def test_the_variant_is_the_spec_and_makes_the_difference_that_is_shown() -> None:
    section = README.split("## A variant", 1)[1].split("\n## ", 1)[0]
    (text,) = fences(section, "ein")
    lines = (ROOT / "specs/alibi.ein").read_text(encoding="utf-8").splitlines()
    assert text.split() == "\n".join(line for line in lines if not line.startswith("#")).split()
    difference = list(difflib.unified_diff(printed("show", "attention"), printed("show", "alibi"), n=0, lineterm=""))
    (shown,) = fences(section, "diff")
    assert [line for line in shown.splitlines() if line not in difference] == []


# what every page says


def texts_in(page: str) -> list[str]:
    """The code in a page's lines: between backticks, and the lines of indented blocks."""
    plain = prose(page)
    return [*CODE.findall(plain), *(m[1] for m in re.finditer(r"^    (.+)$", plain, re.M))]


COMMAND = re.compile(r"(einc|python -m bench[.\w]*|pytest)( |$)")
COMMANDS = sorted({(name, part.strip()) for name, page in PAGES.items()
                   for text in texts_in(page.replace("\n--", " --"))
                   for part in text.split("&&") if COMMAND.match(part.strip())})


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The click command that is meant, and its arguments."""
    if words[0] == "einc":
        found = main.get_command(click.Context(main), words[1])
        assert found is not None
        return found, words[2:]
    module, rest = words[2], words[3:]
    if module == "bench":
        return (bench.commands[rest[0]], rest[1:]) if rest and not rest[0].startswith("-") else (bench, rest)
    place: Any = import_module(f"{module}.__main__" if (ROOT / module.replace(".", "/")).is_dir() else module)
    group: click.Command = place.main
    return (group.commands[rest[0]], rest[1:]) if isinstance(group, click.Group) and rest else (group, rest)


@pytest.mark.parametrize(("page", "text"), COMMANDS)
def test_a_command_is_one_that_there_is(page: str, text: str) -> None:
    words = shlex.split(re.sub(r" > \S+$", "", text))
    if words[0] == "pytest":
        known = (ROOT / "tests/conftest.py").read_text(encoding="utf-8")
        assert all((ROOT / word).exists() for word in words[1:] if "/" in word)
        assert all(word in known for word in words[1:] if word.startswith("--"))
        return
    if words == ["einc"]:
        return
    command, given = command_of(words)
    context = click.Context(command, info_name=words[-1], **command.context_settings)
    parsed, _, _ = command.make_parser(context).parse_args([word for word in given if word not in ("--help",)])
    for option in command.params:
        if isinstance(option.type, click.Choice) and isinstance(
                value := parsed.get(option.name or ""), str | list | tuple):
            for one in [value] if isinstance(value, str) else value:
                option.type.convert(one, option, context)


def test_an_option_on_a_page_is_one_that_there_is() -> None:
    """Those that stand alone, such as `--own`; those of commands are read with them."""
    every = [main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))]
    others = [import_module(name).main for name in ("bench.offline", "bench.fuzz")]
    commands = [*filter(None, every), bench, *bench.commands.values(), *others]
    known = {name for command in commands for option in command.params for name in option.opts}
    found = {text.split()[0] for page in PAGES.values() for text in CODE.findall(prose(page)) if text.startswith("--")}
    assert len(found) > 10
    assert found - known == set()


def test_every_command_is_on_a_page() -> None:
    said = {" ".join(text.split()[:4]) for _, text in COMMANDS}
    names = main.list_commands(click.Context(main))
    assert [name for name in names if not any(f"einc {name}" in text for text in said)] == []
    table = PAGES["bench/README.md"]
    assert [name for name in bench.commands if f"`python -m bench {name}" not in table] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_lead_somewhere(page: str) -> None:
    plain = prose(PAGES[page])
    for target in re.findall(r"\]\(([^)\s]+)\)", plain):
        path, _, title = target.partition("#")
        found = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert found.exists(), target
        titles = re.findall(r"^#+ (.+)$", prose(found.read_text(encoding="utf-8")), re.M) if title else []
        assert not title or title in map(anchor, titles), target
    rooms = "compiler|backends|grammar|specs|bench|tests"
    for path in CODE.findall(plain):
        if re.fullmatch(rf"(?:{rooms})/[\w./]+", path):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", ["README.md", "backends/README.md"])
def test_specs_on_a_page_are_sound(page: str) -> None:
    for text in fences(PAGES[page], "ein"):
        assert [p.code for p in einc.check(text)] in ([], ["E0503"])


def test_names_in_python_are_there() -> None:
    """Each `einc.name`, and the keywords of its calls."""
    (session,) = (x for x in fences(PAGES["backends/README.md"], "python") if "import einc" in x)
    for node in ast.walk(ast.parse(session)):
        match node:
            case ast.Call(ast.Attribute(ast.Name("einc"), name), _, keywords):
                known = inspect.signature(getattr(einc, name)).parameters
                open_ended = any(x.kind is inspect.Parameter.VAR_KEYWORD for x in known.values())
                assert open_ended or {k.arg for k in keywords} <= known.keys(), name
            case ast.Attribute(ast.Name("einc"), name):
                assert name in einc.__all__


# tables that are made of what is there


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table that has this header."""
    lines = page.split(header + "\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def built_on(text: str, names: set[str]) -> set[str]:
    """The specs that a text uses or calls."""
    lines = "\n".join(line.partition("#")[0] for line in text.splitlines())
    called = re.findall(r'"([\w/]+)"\(|(?<![\w\\{])([a-z][\w]*)\((?:[^()=]|\([^()]*\))+ = ', lines)
    return set(re.findall(r'^use "([\w/]+)"', lines, re.M)) | {x for pair in called for x in pair if x in names}


def test_every_spec_has_a_line_that_says_what_it_is_built_on() -> None:
    room = ROOT / "specs"
    files = {file.relative_to(room).with_suffix("").as_posix(): file for file in room.rglob("*.ein")}
    found = re.findall(r"^\| \[([\w/]+)\]\(([\w/]+)\.ein\) \| (.+?) \| (.*?) ?\|$", PAGES["specs/README.md"], re.M)
    assert sorted(name for name, *_ in found) == sorted(files)
    for name, path, _, base in found:
        assert name == path
        assert set(CODE.findall(base)) == built_on(files[name].read_text(encoding="utf-8"), set(files)), name
    maps = {file.stem for file in (ROOT / "specs/maps").iterdir()}
    assert maps <= set(CODE.findall(PAGES["specs/README.md"].split("## Maps of weights")[1].split("\n## ")[0]))


def test_the_table_of_wings_is_what_the_wings_say() -> None:
    for name, _, imports in rows(PAGES["compiler/README.md"], "| wing | in → out | may import |"):
        wing = re.sub(r"\[(\w+)\].*", r"\1", name)
        text = (ROOT / "compiler" / wing / "__init__.py").read_text(encoding="utf-8")
        said = re.search(r"\nMay import: (.+)\.\n", text)
        assert said is not None
        assert imports in (said[1], "all before it")


def test_the_table_of_commands_is_what_the_commands_say() -> None:
    found = rows(PAGES["grammar/README.md"], "| command | what it does |")
    assert found == [[f"`einc {name}`", about] for name, about in SUBCOMMANDS.items()]


def test_former_names_in_the_changes_are_former_names() -> None:
    changes = PAGES["compiler/README.md"].split("## Changes")[1]
    pairs = re.findall(r"`einc\.([\w.]+)` is\s+`einc\.([\w.]+)`", changes)
    assert len(pairs) >= 5
    assert [pair for pair in pairs if MOVED.get(pair[0]) != pair[1]] == []


# figures


def stored(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "bench/results" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def same(shown: str, value: float | None) -> bool:
    return value is not None and abs(float(shown) - value) <= 0.5 * 10 ** -len(shown.partition(".")[2]) + 1e-9


CASES = {"causal": "causal", "ALiBi": "alibi", "window 256": "window", "window of 256": "window",
         "prefix 512": "prefix", "packed documents": "documents", "one query, cache of 8192": "decode",
         "latents at decode, against K and V held": "mla-decode"}
LATENTS = "| positions | torch, float32 | torch, bfloat16 | C++, float32 | C++, bfloat16 |"
DECODE = "| positions | B 1, float32 | B 1, bfloat16 | B 8, float32 | B 8, bfloat16 |"


@pytest.mark.parametrize(("page", "header"), [
    ("README.md", "| case, T = 2048, 8 heads of 64 | float32 | bfloat16 |"),
    ("bench/README.md", "| case | float32 | bfloat16 | bfloat16, `--narrow` |"),
])
def test_figures_of_forward_were_measured(page: str, header: str) -> None:
    found = [row for row in stored("kernels") if row["machine"]["threads"] == 2]
    own = "einc-cpp" if page == "README.md" else "einc"
    ways = [("float32", own), ("bfloat16", own), ("bfloat16", "einc-narrow")]
    for case, *cells in rows(PAGES[page], header):
        for (dtype, way), cell in zip(ways, cells, strict=False):
            first, *bracket = re.findall(r"\d+\.\d+", cell)
            rivals = [way, *(["flex"] if "(" in cell else []), *(["einc-own"] if "own" in cell else [])]
            for rival, shown in zip(rivals, (first, *bracket), strict=True):
                wanted = (CASES[case], dtype, rival)
                known = [row["ratio"] for row in found if (row["case"], row["dtype"], row["rival"]) == wanted]
                assert any(same(shown, value) for value in known), (case, dtype, rival, shown, known)


def test_shares_of_a_product_were_measured() -> None:
    cases = CASES | {"one head of keys for eight": "gqa", "softcap": "softcap"}
    found = {(row["case"], row["dtype"]): row for row in stored("kernels") if row["rival"] == "einc-cpp"}
    for case, *cells in rows(PAGES["bench/README.md"], "| of GEMM | float32 | bfloat16 |"):
        for dtype, cell in zip(("float32", "bfloat16"), cells, strict=True):
            row = found[cases[case], dtype]
            assert cell == f"{100 * row['flops'] / row['seconds'] / row['gemm']:.0f} %"


def test_figures_of_gradients_were_measured() -> None:
    cases = {"causal": "causal", "window 256": "window", "ALiBi, learned slopes": "slopes",
             "a learned table of distances": "table"}
    found = {(row["case"], row["dtype"], row["rival"]): row for row in stored("gradients")}
    for case, _, *cells in rows(PAGES["bench/README.md"], "| case | against | float32 | bfloat16 |"):
        for dtype, cell in zip(("float32", "bfloat16"), cells, strict=True):
            for shown in re.findall(r"\d+\.\d+", cell):
                assert same(shown, found[cases[case], dtype, "einc"]["ratio"])
            if "fails" in cell:
                assert found[cases[case], dtype, "eager"]["status"] == "wrong"
    said = re.findall(r"(\d\.\d+)\s+times (?:as fast as torch's|in bfloat16).{,60}?(\d+) %", PAGES["bench/README.md"],
                      re.S)
    for dtype, (speed, part) in zip(("float32", "bfloat16"), said, strict=True):
        of = "causal", dtype, "einc-cpp"
        rows_ = [x for x in stored("gradients") if (x["case"], x["dtype"], x["rival"]) == of]
        row = max(rows_, key=lambda x: x["date"])
        assert same(speed, row["ratio"]) and same(part, 100 * row["flops"] / row["seconds"] / row["gemm"])


def test_figures_of_generation_were_measured() -> None:
    decoded = [row for row in stored("decode") if "Xeon" in row["machine"]["cpu"]]  # the page shows one machine
    found = {(row["sizes"]["S"], row["sizes"]["B"], row["dtype"]): row for row in decoded
             if (row["case"], row["rival"]) == ("grouped", "einc")}
    for length, *cells in rows(PAGES["bench/README.md"], DECODE):
        for (batch, dtype), cell in zip(((b, d) for b in (1, 8) for d in ("float32", "bfloat16")), cells, strict=True):
            row = found[int(length.replace(",", "")), batch, dtype]
            assert same(cell.split()[0], row["ratios"]["library"])
            assert all(same(share, 100 * row["part"]) for share in re.findall(r"\((\d+) %", cell))
    latents = {(row["sizes"]["S"], row["rival"], row["dtype"]): row for row in decoded
               if row["case"] == "latents"}
    for length, *cells in rows(PAGES["bench/README.md"], LATENTS):
        ways = [(way, dtype) for way in ("einc", "einc-cpp") for dtype in ("float32", "bfloat16")]
        for way, cell in zip(ways, cells, strict=True):
            assert same(cell, latents[int(length.replace(",", "")), *way]["ratios"]["einc-expanded"])
    steps = {(row["case"], row["dtype"]): row for row in stored("batching")}
    for step, useful, *cells in rows(PAGES["bench/README.md"], "| step | useful | float32 | bfloat16 |"):
        for dtype, cell in zip(("float32", "bfloat16"), cells, strict=True):
            assert same(cell, steps[step, dtype]["speed"])
            assert same(useful.split()[0], 100 * steps[step, dtype]["share"])


def test_figures_of_precision_were_measured() -> None:
    found = {precision.cases()[row["case"]].title: row for row in stored("precision") if row["kind"] == "precision"}
    shown = rows(PAGES["bench/README.md"], "| what is rounded | lines | cosine | RMSE | relative RMSE | published |")
    assert [title for title, *_ in shown] == list(found)
    for title, lines, cosine, *errors, published in shown:
        row = found[title]
        assert (lines, published, row["status"]) == (str(row["lines"] or "–"), row["published"], "ok")
        assert [cosine, *errors] == [f"{row['cosine']:.5f}", f"{row['rmse']:.2e}", f"{row['relative']:.2e}"]
