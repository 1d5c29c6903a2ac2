"""Colours: the lexer of Pygments and the TextMate grammar know the words of the language, and lose no character."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pygments import lex
from pygments.token import Comment, Keyword, Name, Text, Token

from einc.driver.highlight import EinLexer, defined
from einc.ir.indices import CLASSES
from einc.syntax.spelling import BUILT_IN, KEYWORDS

ROOT = Path(__file__).parent.parent
VSCODE = ROOT / "grammar/editors/vscode"
TEXTMATE = VSCODE / "syntaxes/ein.tmLanguage.json"
GRAMMAR = json.loads(TEXTMATE.read_text(encoding="utf-8"))
RULES = [(rule["name"], re.compile(rule["match"], re.M)) for rule in GRAMMAR["patterns"]]
LARK = (ROOT / "grammar/ein.lark").read_text(encoding="utf-8")
SPECS = sorted((ROOT / "specs").rglob("*.ein"))
# The words of the grammar of a statement: its terminals that are spelled as they are called.
WORDS = sorted({name.lower() for line in re.findall(r"^%declare (.*)$", LARK, re.M) for name in line.split()}
               & {*KEYWORDS, "all"})


def textmate(text: str) -> list[tuple[str, str]]:
    """The pieces of a text with the names of their rules: the first rule of those that match first, as editors do."""
    out, at = [], 0
    while at < len(text):
        found = [(match.start(), n, match) for n, (_, rule) in enumerate(RULES)
                 if (match := rule.search(text, at)) and match.end() > match.start()]
        start, number, match = min(found, key=lambda x: x[:2], default=(len(text), -1, None))
        out += [("", text[at:start])] if start > at else []
        out += [(RULES[number][0], match[0])] if match is not None else []
        at = start if match is None else match.end()
    return out


def test_the_words_of_the_grammar_are_the_keywords() -> None:
    assert {*WORDS} == {*KEYWORDS, "all"} and len(WORDS) > 20


@pytest.mark.parametrize("word", WORDS)
def test_both_know_every_keyword(word: str) -> None:
    line = f"{word} x"
    assert next(iter(lex(line, EinLexer())))[0] in Keyword and next(iter(lex(line, EinLexer())))[1] == word
    assert textmate(line)[0] == (next(name for name, _ in textmate(line)), word)
    assert textmate(line)[0][0].startswith("keyword.")
    for label in (f"W_{{\\text{{{word}}}}}", f"x_{word}ed", f"a{word}"):
        assert not any(kind in Keyword for kind, _ in lex(label, EinLexer())), label
        assert not any(name.startswith("keyword.") for name, _ in textmate(label)), label


# The rules of the TextMate grammar that are lists of words of the language.
LISTS = {"support.type.class.ein": CLASSES, "support.function.ein": (*defined(), *BUILT_IN)}


@pytest.mark.parametrize("name", LISTS)
def test_the_lists_of_the_textmate_grammar(name: str, pytestconfig: pytest.Config) -> None:
    """Exactly the words of the language; `--update-golden` writes them."""
    (rule,) = (rule for rule in GRAMMAR["patterns"] if rule["name"] == name)
    listed, wanted = re.search(r"\(\?:([\w|]+)\)", rule["match"]), {*LISTS[name]}
    assert listed is not None
    if pytestconfig.getoption("--update-golden") and {*listed[1].split("|")} != wanted:
        words = "|".join(sorted(wanted, key=lambda word: (-len(word), word)))
        rule["match"] = rule["match"].replace(listed[1], words)
        TEXTMATE.write_text(json.dumps(GRAMMAR, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    assert {*listed[1].split("|")} == wanted, "look at the change, then: pytest tests/test_highlight.py --update-golden"


@pytest.mark.parametrize("word", [*defined(), *BUILT_IN, *CLASSES])
def test_both_know_every_function_and_class(word: str) -> None:
    kind, scope = (Keyword.Type, "support.type") if word in CLASSES else (Name.Function, "support.function")
    assert next(iter(lex(f"{word}(x)", EinLexer()))) == (kind, word)
    assert textmate(f"{word}(x)")[0][1] == word and textmate(f"{word}(x)")[0][0].startswith(scope)


def test_the_prelude_defines_what_is_coloured() -> None:
    text = (ROOT / "grammar/prelude.ein").read_text(encoding="utf-8")
    assert len(defined()) == len(re.findall(r"^def ", text, re.M)) and {"softmax", "gelu_tanh", "LN"} <= {*defined()}


@pytest.mark.parametrize("file", SPECS[::5], ids=lambda x: x.stem)
def test_both_agree_on_a_spec_and_lose_nothing(file: Path) -> None:
    text = file.read_text(encoding="utf-8").strip() + "\n"
    ours, theirs = list(lex(text, EinLexer())), textmate(text)
    assert "".join(x for _, x in ours) == text == "".join(x for _, x in theirs)
    assert not any(kind in Token.Error or (kind is Text and x.strip()) for kind, x in ours if kind not in Comment)

    def colours(found: list[tuple[str, str]], families: tuple[str, ...]) -> list[str]:
        return [x for name, x in found if name.startswith(families)]

    pygments = [(str(kind), x) for kind, x in ours]
    for one, other in ((("Token.Keyword",), ("keyword.declaration", "keyword.operator.word", "support.type")),
                       (("Token.Name.Function",), ("support.function",)), (("Token.Comment",), ("comment",))):
        assert colours(pygments, one) == colours(theirs, other)


def test_the_entry_point_leads_to_the_lexer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["pygments.lexers"]["ein"].partition(":")
    assert getattr(import_module(module), name) is EinLexer
    assert EinLexer.filenames == ("*.ein",) and "ein" in EinLexer.aliases


def test_the_folder_of_vs_code_hangs_together() -> None:
    package = json.loads((VSCODE / "package.json").read_text(encoding="utf-8"))
    contributes = package["contributes"]
    named = [x["path"] for x in contributes["grammars"]] + [x["configuration"] for x in contributes["languages"]]
    assert all((VSCODE / path).is_file() for path in (*named, package["main"]))
    for grammar in contributes["grammars"]:
        assert json.loads((VSCODE / grammar["path"]).read_text(encoding="utf-8"))["scopeName"] == grammar["scopeName"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package["version"] == project["version"]
    assert contributes["configuration"]["properties"]["ein.command"]["default"] == ["einc", "lsp"]
    if (node := shutil.which("node")) is not None:
        subprocess.run([node, "--check", str(VSCODE / "extension.js")], check=True)
