"""`einc lsp` as an editor has it: a client of another library talks to the real process."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import editor
from einc.driver.cli import main
from einc.driver.commands import lsp as command

needs_pygls = pytest.mark.skipif(find_spec("pygls") is None, reason="pygls is not installed: pip install '.[editor]'")
SOUND = "index t, s : time(T)  # 😀\ninput x_s\noutput y_t = Σ_{s ≤ t} x_s\n"
WRONG = SOUND.replace("} x_s", "} (x_s")


@pytest.mark.parametrize("name", ["pygls", "pygls.lsp", "lsprotocol"])
def test_without_the_library_the_command_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(command, "import_module", missing)
    done = CliRunner().invoke(main, ["lsp"])
    assert done.exit_code == 1 and "pip install 'einc[editor]'" in done.output


class Client:
    """A client that keeps what the server tells of each file."""

    def __init__(self, folder: Path) -> None:
        # by name: the library may not be there
        types, made = import_module("lsprotocol.types"), import_module("pygls.lsp.client")
        self.lsp, self.folder = types, folder
        self.client = made.LanguageClient("test", "1")
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.shown: list[str] = []

        def keep(found: Any) -> None:
            self.told.put_nowait(found)

        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(keep)

        def show(asked: Any) -> Any:
            self.shown.append(Path(asked.uri.removeprefix("file://")).read_text(encoding="utf-8"))
            return types.ShowDocumentResult(True)

        self.client.feature(types.WINDOW_SHOW_DOCUMENT)(show)

    async def start(self) -> Any:
        await self.client.start_io(sys.executable, "-m", "einc", "lsp")
        window = self.lsp.WindowClientCapabilities(show_document=self.lsp.ShowDocumentClientCapabilities(True))
        general = self.lsp.GeneralClientCapabilities(position_encodings=["utf-8", "utf-16"])
        able = self.lsp.ClientCapabilities(general=general, window=window)
        found = await self.client.initialize_async(self.lsp.InitializeParams(able))
        self.client.initialized(self.lsp.InitializedParams())
        return found.capabilities

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        item = self.lsp.TextDocumentItem(self.uri(name), "ein", 1, text)
        self.client.text_document_did_open(self.lsp.DidOpenTextDocumentParams(item))

    def change(self, name: str, version: int, old: str, text: str, line: int, column: int) -> None:
        """Writes a text in the place of an older one, at a place of a line."""
        place = self.lsp.Position(line, column)
        end = self.lsp.Position(line, column + len(old))
        change = self.lsp.TextDocumentContentChangePartial(self.lsp.Range(place, end), text)
        identifier = self.lsp.VersionedTextDocumentIdentifier(version, self.uri(name))
        self.client.text_document_did_change(self.lsp.DidChangeTextDocumentParams(identifier, [change]))

    async def marks(self, name: str, version: int | None) -> list[str]:
        """The codes of what is wrong with a version of a file."""
        while True:
            found = await self.told.get()
            if found.uri == self.uri(name) and found.version == version:
                return [x.code for x in found.diagnostics]

    def place(self, kind: str, name: str, line: int, column: int, **others: Any) -> Any:
        """The parameters of a question about a place."""
        identifier = self.lsp.TextDocumentIdentifier(self.uri(name))
        return getattr(self.lsp, kind)(text_document=identifier, position=self.lsp.Position(line, column), **others)

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()


def session(folder: Path, talk: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """A talk with a server of its own, which ends without an error."""
    async def held() -> None:
        client = Client(folder)
        await talk(client)
        await client.stop()

    asyncio.run(asyncio.wait_for(held(), 300))


@needs_pygls
@pytest.mark.whole
def test_an_editor_is_answered_by_the_process(tmp_path: Path) -> None:
    async def talk(client: Client) -> None:
        able = await client.start()
        assert able.position_encoding == "utf-16"
        client.open("a.ein", WRONG)
        assert await client.marks("a.ein", 1) == ["E0101"]
        client.change("a.ein", 2, "(", "", 2, WRONG.split("\n")[2].index("("))
        assert await client.marks("a.ein", 2) == []
        told = await client.client.text_document_hover_async(client.place("HoverParams", "a.ein", 2, 7))
        assert "(T)" in told.contents.value and "flops" in told.contents.value
        home = await client.client.text_document_definition_async(client.place("DefinitionParams", "a.ein", 2, 23))
        assert (home.range.start.line, home.range.start.character) == (1, 6)
        edit = await client.client.text_document_rename_async(client.place("RenameParams", "a.ein", 1, 6, new_name="z"))
        assert len(edit.changes[client.uri("a.ein")]) == 2
        with pytest.raises(Exception, match="no name"):
            await client.client.text_document_rename_async(
                client.place("RenameParams", "a.ein", 1, 6, new_name="8"))
        items = await client.client.text_document_completion_async(client.place("CompletionParams", "a.ein", 2, 22))
        assert {"x_{s}", "softmax"} <= {x.label for x in items}
        whole = client.lsp.Range(client.lsp.Position(0, 0), client.lsp.Position(9, 0))
        identifier = client.lsp.TextDocumentIdentifier(client.uri("a.ein"))
        hints = await client.client.text_document_inlay_hint_async(client.lsp.InlayHintParams(identifier, whole))
        assert [x.label for x in hints] == [" : (T)"]
        made = await client.client.workspace_execute_command_async(client.lsp.ExecuteCommandParams(
            "einc.kernel", arguments=[str(tmp_path / "a.ein"), "torch"]))
        assert "import torch" in made and client.shown == [made]

    session(tmp_path, talk)


@needs_pygls
@pytest.mark.whole
def test_open_files_stand_before_the_disk_and_old_questions_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "low.ein").write_text(SOUND.replace("} x_s", "} q_s"), encoding="utf-8")

    async def talk(client: Client) -> None:
        await client.start()
        client.open("top.ein", 'use "low"\noutput z_t = 2 y_t\n')
        assert "E0201" in await client.marks("top.ein", 1)
        client.open("low.ein", SOUND)
        assert await client.marks("low.ein", 1) == [] and await client.marks("top.ein", 1) == []
        asked = []
        for version in range(2, 31):
            client.change("low.ein", version, "", "#", 0, 0)
            question = client.place("HoverParams", "low.ein", 2, 7)
            asked.append(asyncio.wrap_future(client.client.text_document_hover(question)))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert "changed" in str(found[0]) and not isinstance(found[-1], Exception)
        client.change("low.ein", 31, "#" * 29, "", 0, 0)
        assert await client.marks("low.ein", 31) == []
        told = await client.client.text_document_hover_async(client.place("HoverParams", "low.ein", 2, 7))
        assert "(T)" in told.contents.value
        closed = client.lsp.TextDocumentIdentifier(client.uri("low.ein"))
        client.client.text_document_did_close(client.lsp.DidCloseTextDocumentParams(closed))
        assert await client.marks("low.ein", None) == [] and "E0201" in await client.marks("top.ein", 1)

    session(tmp_path, talk)


LOADED = """
import sys
from einc.driver.editor import actions, completion, hover, hints, places, diagnostics
from einc.driver.editor.desk import Desk
from einc.driver.editor.positions import Position, Range
desk = Desk()
desk.put("/nowhere/a.ein", {text!r})
text = desk.text("/nowhere/a.ein")
assert diagnostics.diagnostics(text) == () and hover.hover(text, Position(2, 7))
assert "import torch" in actions.kernel(text) and actions.derivation(text) and hints.hints(text)
print(*sys.modules)
"""


def test_the_process_loads_no_framework_and_no_emitted_code(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED.format(text=SOUND)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded & {"torch", "triton", "transformers", "sympy", "matplotlib"} == set()
    assert not any(name.startswith("einc.emitted") for name in loaded)


def test_the_bench_frames_messages_as_the_protocol_does() -> None:
    message = {"id": 1, "method": "é", "params": None}
    stream = io.BytesIO(editor.written(message) + editor.written({"id": 2}))
    assert editor.read(stream) == {"jsonrpc": "2.0", **message} and editor.read(stream)["id"] == 2
    with pytest.raises(EOFError):
        editor.read(stream)
    assert editor.Waited("a", 0.1, 0.16).over and not editor.Waited("a", 0.1, 0.14).over


@needs_pygls
@pytest.mark.whole
def test_the_bench_waits_for_a_change() -> None:
    told: list[str] = []
    (row,) = editor.run(1, told.append, ("sdpa",))
    assert row.check > 0 and row.change > 0 and len(told) == 2
