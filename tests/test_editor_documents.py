"""`einc lsp` over the real process with the documents that people have: papers, characters beyond 16 bits, lines that
end as on Windows, formulas that are half typed, thousands of lines, and changes while a question is worked on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_editor_server import SOUND, Client, needs_pygls, session

from einc.driver.cli import main

pytestmark = [needs_pygls, pytest.mark.whole]
WRONG = "index t, s : time(T)\nindex d : feature(D)\ninput Q_t^d, K_s^d, V_s^d\nmask L_{t s} : s ≤ t\n" \
        "L_{t s} = Q_t^d K_{s d}\noutput Y_t^d = softmax_s(L_{t s}) V_s^d  # 😀\n"
FENCE = "```ein\nindex t : time(T)\ninput x_t\n```\n"
PAPERS = {
    "paper.md": f"# 😀 A layer\n\n{FENCE}\nSome 😀 words, $x_t$, and\n\n$$ y_t = 2 x_t + z_q $$\n",
    "paper.tex": "\\documentclass{article}\n\\begin{document}\n\\begin{ein}\nindex t : time(T)\ninput x_t\n\\end{ein}\n"
                 "A 😀 layer:\n\\[ y_t = 2 x_t + z_q \\]\n\\end{document}\n",
}


def mended(text: str, edits: list[Any]) -> str:
    """A text with the edits of an answer, whose columns count units of UTF-16."""
    lines = [line.encode("utf-16-le") for line in text.split("\n")]

    def at(place: Any) -> int:
        start = sum(len(line) + 2 for line in lines[:place.line])
        return start + min(2 * place.character, len(lines[place.line]) if place.line < len(lines) else 0)

    data = text.encode("utf-16-le")
    for edit in sorted(edits, key=lambda x: (x.range.start.line, x.range.start.character), reverse=True):
        data = data[:at(edit.range.start)] + edit.new_text.encode("utf-16-le") + data[at(edit.range.end):]
    return data.decode("utf-16-le")


def marked(text: str, found: Any) -> str:
    """The piece of a line that a problem marks."""
    line = text.split("\n")[found.range.start.line].encode("utf-16-le")
    return line[2 * found.range.start.character:2 * found.range.end.character].decode("utf-16-le")


async def told(client: Client, name: str, version: int) -> list[Any]:
    """What is wrong with a version of a file."""
    while True:
        found = await client.told.get()
        if found.uri == client.uri(name) and found.version == version:
            return list(found.diagnostics)


async def actions(client: Client, name: str, problems: list[Any], line: int) -> list[Any]:
    """What is offered at a line."""
    lsp = client.lsp
    place = lsp.Range(lsp.Position(line, 0), lsp.Position(line, 999))
    params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(client.uri(name)), place, lsp.CodeActionContext(problems))
    return list(await client.client.text_document_code_action_async(params) or [])


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_what_is_offered_mends_the_text(tmp_path: Path, ending: str) -> None:
    """Tried fixes, fix all, and the layout, as edits; the kernel and the derivation, as texts."""
    text = WRONG.replace("\n", ending)

    async def talk(client: Client) -> None:
        await client.start()
        client.open("a.ein", text)
        problems = await told(client, "a.ein", 1)
        assert [x.code for x in problems] == ["E0306"] and marked(text, problems[0]) == "s"
        offered = await actions(client, "a.ein", problems, 5)
        assert {"quickfix", "source.fixAll"} <= {str(getattr(x.kind, "value", x.kind)) for x in offered}
        for number, one in enumerate((x for x in offered if x.edit is not None), 2):
            made = mended(text, one.edit.changes[client.uri("a.ein")])
            client.open(f"{number}.ein", made)
            assert await told(client, f"{number}.ein", 1) == [], one.title
            identifier = client.lsp.TextDocumentIdentifier(client.uri(f"{number}.ein"))
            laid = await client.client.text_document_formatting_async(client.lsp.DocumentFormattingParams(
                identifier, client.lsp.FormattingOptions(2, True)))
            formatted = mended(made, laid or [])
            assert formatted == CliRunner().invoke(main, ["fmt", "-"], input=made).stdout.replace("\n", ending)
        titles = {x.title for x in await actions(client, "2.ein", [], 5)}
        assert {"Show the kernel (torch)", "Show the kernel (triton)"} <= titles
        asked = (("einc.kernel", "torch"), ("einc.kernel", "triton"), ("einc.derivation",))
        shown = [await client.client.workspace_execute_command_async(client.lsp.ExecuteCommandParams(
            command, arguments=[str(tmp_path / "2.ein"), *more])) for command, *more in asked]
        assert any("import torch" in x for x in shown) and any("for B ⊆" in x for x in shown)
        assert client.shown == shown

    session(tmp_path, talk)


@pytest.mark.parametrize("name", PAPERS)
def test_formulas_of_a_paper_are_checked_beside_a_fence(tmp_path: Path, name: str) -> None:
    text = PAPERS[name]

    async def talk(client: Client) -> None:
        await client.start()
        client.open(name, text)
        problems = await told(client, name, 1)
        line = next(n for n, x in enumerate(text.split("\n")) if "y_t" in x)
        assert problems and {x.range.start.line for x in problems} == {line}
        assert marked(text, problems[0]) == "y_t = 2 x_t + z_q" and "`q`" in problems[0].message
        client.open(f"no_fence_{name}", text.replace("```ein", "```").replace("{ein}", "{verbatim}"))
        assert await told(client, f"no_fence_{name}", 1) == []
        found = await client.client.text_document_hover_async(
            client.place("HoverParams", name, line, text.split("\n")[line].index("x_t")))
        assert found is not None and "(T)" in found.contents.value

    session(tmp_path, talk)


def test_names_lead_through_used_specs_and_the_prelude(tmp_path: Path) -> None:
    (tmp_path / "low.ein").write_text(SOUND, encoding="utf-8")
    text = '# 😀😀\nuse "low"\noutput z_t = 2 y_t + sigmoid(y_t)\n'

    async def talk(client: Client) -> None:
        await client.start()
        client.open("top.ein", text)
        assert await told(client, "top.ein", 1) == []
        used = await client.client.text_document_definition_async(client.place("DefinitionParams", "top.ein", 2, 15))
        assert used.uri == client.uri("low.ein") and used.range.start.line == 2
        known = await client.client.text_document_definition_async(client.place("DefinitionParams", "top.ein", 2, 22))
        assert known.uri.endswith("prelude.ein")
        client.change("top.ein", 2, "", " \\alp", 2, len(text.split("\n")[2]))
        items = await client.client.text_document_completion_async(
            client.place("CompletionParams", "top.ein", 2, len(text.split("\n")[2]) + 5))
        (alpha,) = [x for x in items if x.label.startswith("\\alpha")]
        assert (alpha.text_edit.new_text if alpha.text_edit else alpha.insert_text) == "α"

    session(tmp_path, talk)


def test_every_beginning_of_a_text_is_answered(tmp_path: Path) -> None:
    """As it is typed, character by character, with a question after each; no answer is an error of the server's own."""
    typed = "mask L_{t s} : s ≤ t\noutput Y_t^d = \\frac{Σ_{s ≤ t} 𝔸 😀 softmax_s(L_{t s"

    async def talk(client: Client) -> None:
        await client.start()
        client.open("a.ein", "")
        line = column = 0
        for version, sign in enumerate(typed, 2):
            client.change("a.ein", version, "", sign, line, column)
            line, column = (line + 1, 0) if sign == "\n" else (line, column + len(sign.encode("utf-16-le")) // 2)
            if version % 6 == 0:
                for kind in ("hover", "completion", "definition"):
                    ask = getattr(client.client, f"text_document_{kind}_async")
                    await ask(client.place(f"{kind.capitalize()}Params", "a.ein", line, column))
                await actions(client, "a.ein", [], line)
        assert await told(client, "a.ein", len(typed) + 1) != []

    session(tmp_path, talk)


def test_three_thousand_lines_change_while_a_question_is_worked_on(tmp_path: Path) -> None:
    lines = ["index t, s : time(T)  # 😀", "input x_s", *(f"a{n}_t = {n} x_t" for n in range(3000)),
             "output y_t = a7_t"]
    text = "\r\n".join(lines)

    async def talk(client: Client) -> None:
        await client.start()
        client.open("long.ein", text)
        assert {x.code for x in await told(client, "long.ein", 1)} == {"W0906"}, "nothing reads most of them"
        question = client.place("HoverParams", "long.ein", 3002, 8)
        older = asyncio.wrap_future(client.client.text_document_hover(question))
        client.change("long.ein", 2, "a7_t", "a7_t + a8_q", 3002, 13)
        newer = asyncio.wrap_future(client.client.text_document_hover(question))
        found = await asyncio.gather(older, newer, return_exceptions=True)
        assert "changed" in str(found[0]) and not isinstance(found[1], Exception)
        problems = await told(client, "long.ein", 2)
        assert problems and {x.range.start.line for x in problems if x.code != "W0906"} == {3002}
        place = client.place("RenameParams", "long.ein", 3002, 13, new_name="b")
        client.change("long.ein", 3, " + a8_q", "", 3002, 17)
        assert {x.code for x in await told(client, "long.ein", 3)} == {"W0906"}
        edit = await client.client.text_document_rename_async(place)
        assert len(edit.changes[client.uri("long.ein")]) == 2

    session(tmp_path, talk)
