"""The door of the page: on this machine alone, behind a random word, for requests of the page itself.

A page of another site cannot read an answer, since none allows it, and cannot ask for one: it does not know the word,
and its requests say where they come from. The page may load its own script and ask its own server, and nothing else.
"""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from einc.documents.page import POLICY
from einc.driver.playground.answers import PANES
from einc.driver.playground.workers import Workers
from einc.driver.sources import ENDING, shipped
from einc.errors.report import failure

MOST = 400_000  # bytes of a request
_POLICY = (f"{POLICY}; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
           "frame-ancestors 'none'")
_HEADERS = {
    "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_JSON, _HTML, _SCRIPT, _TEXT = "application/json", "text/html", "text/javascript", "text/plain"
FIRST = "sdpa"  # the example that the page opens with


@dataclass(frozen=True)
class Response:
    """An answer to a request."""

    status: int
    kind: str
    body: bytes


@dataclass
class Door:
    """Who may ask, and who answers. `port` is known once the server listens."""

    ask: Callable[[str, Mapping[str, Any], int], Mapping[str, Any]]  # by the page, with the turn of the request
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """The URL of the page on this machine, with the token that lets a browser in."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """The answer to a request. Names of `headers` are in lower case."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            return _refused(403, "this page is for this machine")
        if (origin is not None or method == "POST") and origin != f"http://{host}":
            return _refused(403, "this is not asked by the page")
        _, word, *rest = path.partition("?")[0].split("/", 2) if path.startswith("/") else ("", "", "")
        if not secrets.compare_digest(word.encode(), self.token.encode()) or not rest:
            return _refused(404, "there is no such page")
        match method, rest[0]:
            case "GET", "":
                return Response(200, _HTML, page().encode())
            case "GET", "page.js":
                return Response(200, _SCRIPT, _file("page.js").encode())
            case "POST", ("look" | "spec" | "offers") as wanted:
                if headers.get("content-type", "").partition(";")[0].strip() != _JSON:
                    return _refused(415, "a request is JSON")
                return self._asked(wanted, body)
            case "GET", _:
                return _refused(404, "there is no such page")
        return _refused(405, "the page is read, and asked by POST")

    def _asked(self, wanted: str, body: bytes) -> Response:
        """The answer to what the page asks in JSON."""
        try:
            asked = json.loads(body)
            if wanted == "spec":
                found = shipped(str(asked["name"]))
                return _refused(404, "there is no such spec") if found is None else _data({"text": found.text})
            text, tab, turn = str(asked["text"]), str(asked["tab"])[:40], int(asked["turn"])
            if wanted == "offers":  # which ends no other question of the page
                return _data(self.ask(f"{tab} offers", {"text": text, "at": int(asked["at"])}, turn))
            pane = str(asked["pane"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return _refused(400, "the request is not understood")
        if pane not in PANES:
            return _refused(400, "there is no such pane")
        return _data(self.ask(tab, {"text": text, "pane": pane}, turn))


def _data(found: Mapping[str, Any]) -> Response:
    return Response(200, _JSON, json.dumps(found).encode())


def _refused(status: int, why: str) -> Response:
    return Response(status, _TEXT, f"{why}\n".encode())


def _file(name: str) -> str:
    return files("einc.driver.playground").joinpath(name).read_text(encoding="utf-8")


def page() -> str:
    """The page, with its style and the names of the examples."""
    options = "".join(f"<option{' selected' if name == FIRST else ''}>{escape(name)}</option>" for name in examples())
    tabs = "".join(f'<button role="tab" id="tab-{name}" data-pane="{name}" aria-controls="shown" '
                   f'aria-selected="{"true" if at == 0 else "false"}" tabindex="{0 if at == 0 else -1}" '
                   f'title="Alt+{at + 1}">{name}</button>' for at, name in enumerate(PANES))
    return _file("page.html").replace("{style}", _file("page.css")).replace("{options}", options).replace(
        "{tabs}", tabs).replace("{count}", str(len(PANES)))


def examples() -> tuple[str, ...]:
    """The names of the specs that come with einc."""
    root = Path(str(files("einc.specs")))
    return tuple(sorted(p.relative_to(root).with_suffix("").as_posix() for p in root.rglob(f"*{ENDING}")))


def listening(door: Door, port: int = 0) -> ThreadingHTTPServer:
    """A server on this machine that answers through a door; with port 0 on one that is free. Changes `door.port`.
    Raises EincError where the port cannot be had."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(door))
    except OSError as error:
        raise failure(f"port {port} cannot be had: {error.strerror}",
                      "leave `--port` out, and a port that is free is taken") from None
    server.daemon_threads = True
    door.port = server.server_address[1]
    return server


def serve(port: int, told: Callable[[str], None]) -> None:
    """Answers until it is interrupted or told to end, also where the shell that started it ignores interrupts. `told`
    is given the address.
    """
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.default_int_handler)
    workers = Workers()
    door = Door(workers.run)
    server = listening(door, port)
    workers.ready()
    told(door.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        workers.close()


def _handler(door: Door) -> type[BaseHTTPRequestHandler]:
    """The requests of a server as those of a door."""
    class Handler(BaseHTTPRequestHandler):
        """Answers each request by the door that the server was made with."""

        server_version, sys_version, timeout = "einc", "", 30

        def do_GET(self) -> None:
            """Answers what is read."""
            self._answer("GET", b"")

        def do_POST(self) -> None:
            """Answers what is asked. Changes `self.close_connection`."""
            given = self.headers.get("Content-Length", "")
            length = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else -1
            if not 0 <= length <= MOST:
                self._send(_refused(413, f"a request has at most {MOST:,} bytes"))
                self.close_connection = True
                return
            self._answer("POST", self.rfile.read(length))

        def _answer(self, method: str, body: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(door.respond(method, self.path, headers, body))

        def _send(self, response: Response) -> None:
            self.send_response(response.status)
            kind = response.kind if response.kind == _JSON else f"{response.kind}; charset=utf-8"
            for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(response.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the address is secret, and the terminal is the person's."""

    return Handler
