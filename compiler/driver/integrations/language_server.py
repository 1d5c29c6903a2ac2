"""The server of `einc lsp`: it speaks the protocol, and leaves every answer to `driver/editor`.

Messages are taken in while one thread works, so that a change is known at once: what was asked of an older text is
answered with an error that says so, and clients ask again. The process loads no torch, and no file that einc writes.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from einc import __version__
from einc.driver.editor import actions, completion, diagnostics, hints, places
from einc.driver.editor.desk import Desk, OutdatedError
from einc.driver.editor.hover import hover
from einc.driver.editor.text import Text
from einc.driver.integrations import protocol as spoken

T = TypeVar("T")
_STACK = 64 * 2**20  # of the thread that works: expressions may be nested deeply
_KINDS = ("quickfix", "source.fixAll", "source")


def serve() -> None:
    """Answers an editor over standard input and output until it says that it is done."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # what is told of an error is told in the answer
    server = made()
    server.start_io()


def made() -> LanguageServer:
    """A language server that answers every request that einc knows of, and the two commands that show a kernel and a
    derivation. It is not started."""
    server = LanguageServer("einc", __version__, lsp.TextDocumentSyncKind.Incremental,
                            converter_factory=_converter)
    desk = _Server(server)
    for name, function, *options in desk.features():
        server.feature(name, *options)(_function(function))

    async def kernel(path: str, backend: str) -> str:  # the library writes on a command, too, and counts its arguments
        return await desk.kernel(path, backend)

    async def derivation(path: str) -> str:
        return await desk.derivation(path)

    server.command(actions.KERNEL)(kernel)
    server.command(actions.DERIVATION)(derivation)
    return server


def _function(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method as a function, on which the library writes what it knows of it."""
    async def asked(params: Any) -> Any:
        return await method(params)

    def told(params: Any) -> Any:
        return method(params)

    return asked if asyncio.iscoroutinefunction(method) else told


def _converter() -> Any:
    """The protocol's records, where every client counts in UTF-16: whatever else it offers is passed over."""
    make: Callable[[], Any] = default_converter  # which states no types
    converter = make()
    plain = converter.get_structure_hook(lsp.GeneralClientCapabilities)

    def structured(data: dict[str, Any], kind: type) -> Any:
        return plain({**data, "positionEncodings": ["utf-16"]}, kind)

    converter.register_structure_hook(lsp.GeneralClientCapabilities, structured)
    return converter


class _Server:
    """The open texts, the thread that works, and a folder for the texts that are shown."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.desk = Desk()
        size = threading.stack_size(_STACK)
        self.worker = ThreadPoolExecutor(1, "einc")
        self.worker.submit(int).result()
        threading.stack_size(size)
        self.shown: Path | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    def features(self) -> list[tuple[Any, ...]]:
        """The methods of the protocol, what answers each, and how it is announced."""
        typed = lsp.CompletionOptions(trigger_characters=["\\", '"', ":"])
        return [
            (lsp.TEXT_DOCUMENT_DID_OPEN, self.opened), (lsp.TEXT_DOCUMENT_DID_CHANGE, self.changed),
            (lsp.TEXT_DOCUMENT_DID_CLOSE, self.closed), (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, self.touched),
            (lsp.TEXT_DOCUMENT_HOVER, self.hover), (lsp.TEXT_DOCUMENT_DEFINITION, self.definition),
            (lsp.TEXT_DOCUMENT_REFERENCES, self.references), (lsp.TEXT_DOCUMENT_COMPLETION, self.completion, typed),
            (lsp.TEXT_DOCUMENT_INLAY_HINT, self.hints), (lsp.TEXT_DOCUMENT_FORMATTING, self.layout),
            (lsp.TEXT_DOCUMENT_PREPARE_RENAME, self.renameable),
            (lsp.TEXT_DOCUMENT_RENAME, self.rename, lsp.RenameOptions(prepare_provider=True)),
            (lsp.TEXT_DOCUMENT_CODE_ACTION, self.actions, lsp.CodeActionOptions(code_action_kinds=list(_KINDS))),
            (lsp.SHUTDOWN, self.done),
        ]

    # texts

    def opened(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """An editor has opened a text: it is checked, and its problems are sent."""
        self._put(params.text_document.uri)

    def changed(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """A text in an editor has changed: it is checked again, and its problems are sent."""
        self._put(params.text_document.uri)

    def closed(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """A text is closed: nothing is marked in it any more."""
        self._check(self.desk.close(spoken.path_of_uri(params.text_document.uri)))
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))

    def touched(self, params: lsp.DidChangeWatchedFilesParams) -> None:
        """Something has changed on the disk."""
        self._check(self.desk.touched())

    def done(self, params: None) -> None:
        """The editor is done: what was written for it goes."""
        if self.shown is not None:
            shutil.rmtree(self.shown, ignore_errors=True)

    def _put(self, uri: str) -> None:
        document = self.server.workspace.get_text_document(uri)
        self._check(self.desk.put(spoken.path_of_uri(uri), document.source, document.version or 0))

    def _check(self, paths: tuple[str, ...]) -> None:
        """Checks texts, one after the other, and marks what is wrong with them."""
        for path in paths:
            task = asyncio.get_running_loop().create_task(self._mark(path))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _mark(self, path: str) -> None:
        text = self.desk.text(path)
        version = self.desk.versions.get(path)
        try:
            found = await self._work(text, diagnostics.diagnostics)
        except OutdatedError:
            return
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(
            spoken.uri_of(path), [spoken.diagnostic(x) for x in found], version))

    async def _work(self, text: Text, make: Callable[[Text], T]) -> T:
        """What is found out about a text, unless it is not the newest: OutdatedError."""
        def newest() -> T:
            self.desk.insist(text)
            return make(text)

        made = await asyncio.get_running_loop().run_in_executor(self.worker, newest)
        self.desk.insist(text)
        return made

    async def _answer(self, uri: str, make: Callable[[Text], T]) -> T:
        """What `make` makes of the open text, for a request. Raises JsonRpcException where the text has changed or it
        is refused."""
        try:
            return await self._work(self.desk.text(spoken.path_of_uri(uri)), make)
        except OutdatedError:
            raise JsonRpcException("the text has changed", lsp.LSPErrorCodes.ContentModified) from None
        except places.RefusedError as error:
            raise JsonRpcException(str(error), lsp.LSPErrorCodes.RequestFailed) from None

    # questions

    async def hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        """What the name at a place is."""
        place = spoken.position(params.position)
        found = await self._answer(params.text_document.uri, lambda text: hover(text, place))
        return None if found is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[1]),
                                                    spoken.spoken_range(found[0]))

    async def definition(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        """Where the name at a place is defined."""
        place = spoken.position(params.position)
        found = await self._answer(params.text_document.uri, lambda text: places.definition(text, place))
        return None if found is None else spoken.location(found)

    async def references(self, params: lsp.ReferenceParams) -> list[lsp.Location]:
        """Where the name at a place stands in its file."""
        place, uri = spoken.position(params.position), params.text_document.uri
        found = await self._answer(uri, lambda text: places.references(text, place))
        return [lsp.Location(uri, spoken.spoken_range(x)) for x in found]

    async def completion(self, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        """What may stand at a place."""
        place = spoken.position(params.position)
        found = await self._answer(params.text_document.uri, lambda text: completion.completions(text, place))
        return [spoken.item(x) for x in found]

    async def hints(self, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        """What a text leaves unsaid."""
        within = spoken.range_(params.range)
        found = await self._answer(params.text_document.uri, lambda text: hints.hints(text, within))
        return [spoken.hint(x) for x in found]

    async def layout(self, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        """The text in the layout of `einc fmt`."""
        return spoken.edits(await self._answer(params.text_document.uri, actions.layout))

    async def renameable(self, params: lsp.PrepareRenameParams) -> lsp.Range | None:
        """The name at a place, where it may be changed."""
        place = spoken.position(params.position)

        def asked(text: Text) -> lsp.Range | None:
            here = text.range(places.renameable(text, place)[1].span)
            return None if here is None else spoken.spoken_range(here)

        return await self._answer(params.text_document.uri, asked)

    async def rename(self, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        """The edits that give a name another one."""
        place, uri = spoken.position(params.position), params.text_document.uri
        return spoken.changes(uri, await self._answer(uri, lambda text: places.renamed(text, place, params.new_name)))

    async def actions(self, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        """What may be done about a piece of a text."""
        uri, within = params.text_document.uri, spoken.range_(params.range)
        found = await self._answer(uri, lambda text: actions.actions(text, within))
        only = params.context.only
        return [spoken.action(uri, x) for x in found
                if only is None or any(x.kind == kind or x.kind.startswith(f"{kind}.") for kind in only)]

    async def kernel(self, path: str, backend: str) -> str:
        """The command that shows a kernel: it gives the text, and asks the client to show it."""
        return await self._shown(path, lambda text: actions.kernel(text, backend), f"{backend}.py")

    async def derivation(self, path: str) -> str:
        """The command that shows a derivation."""
        return await self._shown(path, actions.derivation, "derived.ein")

    async def _shown(self, path: str, make: Callable[[Text], str], ending: str) -> str:
        """A text that is made of another one, which the client shows where it can."""
        made = await self._answer(spoken.uri_of(path), make)
        window = self.server.client_capabilities.window
        if window is not None and window.show_document is not None and window.show_document.support:
            await self._show(made, f"{Path(path).stem}.{ending}")
        return made

    async def _show(self, made: str, name: str) -> None:
        """Asks the client to show a text, which it reads from a folder of this process."""
        if self.shown is None:
            self.shown = Path(tempfile.mkdtemp(prefix="einc-"))
        file = self.shown / name
        file.write_text(made, encoding="utf-8")
        await self.server.window_show_document_async(lsp.ShowDocumentParams(spoken.uri_of(str(file))))
