"""How long an editor waits after a change: from the change to what is wrong, over the real process of `einc lsp`.

Beside it the same text is checked in this process by `einc.check`, which pays for no start. Both are given another
text in each round, so that neither remembers it. What is over `BUDGET` times as long is told.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import einc

ROOT = Path(__file__).parent.parent
SPECS = ("sdpa", "attention", "deepseek_sparse", "nsa", "recurrent/kda")
BUDGET = 1.5
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Waited:
    """A spec with the median seconds of a check in this process and of a change over the protocol."""

    spec: str
    check: float
    change: float

    @property
    def ratio(self) -> float:
        """How many times as long a change takes."""
        return self.change / self.check

    @property
    def over(self) -> bool:
        """Whether that is more than it may be."""
        return self.ratio > BUDGET


def written(message: dict[str, Any]) -> bytes:
    """A message as the protocol frames it."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def read(stream: IO[bytes]) -> dict[str, Any]:
    """The next message of a stream. EOFError where it ends."""
    length = 0
    while line := stream.readline():
        if line in (b"\r\n", b"\n"):
            found: dict[str, Any] = json.loads(stream.read(length))
            return found
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    raise EOFError("the server has ended")


@dataclass
class Server:
    """A process of `einc lsp` with the texts that were opened in it."""

    process: subprocess.Popen[bytes]
    versions: dict[str, int] = field(default_factory=dict)

    def send(self, method: str, params: dict[str, Any] | None, number: int | None = None) -> None:
        """Sends a notification, or a request where it has a number."""
        assert self.process.stdin is not None
        asked = {} if number is None else {"id": number}
        self.process.stdin.write(written({**asked, "method": method, "params": params}))
        self.process.stdin.flush()

    def next(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message of a kind; what comes before it is passed over."""
        assert self.process.stdout is not None
        while not wanted(found := read(self.process.stdout)):
            pass
        return found

    def change(self, path: Path, text: str) -> float:
        """The seconds from a change of a text to what is wrong with it."""
        uri, version = path.as_uri(), self.versions.get(str(path), 0) + 1
        self.versions[str(path)] = version
        start = time.perf_counter()
        if version == 1:
            document = {"uri": uri, "languageId": "ein", "version": version, "text": text}
            self.send("textDocument/didOpen", {"textDocument": document})
        else:
            self.send("textDocument/didChange", {"textDocument": {"uri": uri, "version": version},
                                                 "contentChanges": [{"text": text}]})
        self.next(lambda x: x.get("method") == "textDocument/publishDiagnostics"
                  and x["params"].get("version") == version)
        return time.perf_counter() - start


@contextmanager
def server() -> Iterator[Server]:
    """A process that is ready, and that ends afterwards."""
    with subprocess.Popen([sys.executable, "-m", "einc", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          cwd=ROOT) as process:
        made = Server(process)
        made.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
        made.next(lambda x: x.get("id") == 1)
        made.send("initialized", {})
        try:
            yield made
        finally:
            made.send("shutdown", None, 2)
            made.next(lambda x: x.get("id") == 2)
            made.send("exit", None)


def run(rounds: int, tell: Tell, specs: Sequence[str] = SPECS) -> list[Waited]:
    """Checks and changes of each spec, turn by turn; the first of each only warms both."""
    out: list[Waited] = []
    with server() as one:
        for spec in specs:
            path = ROOT / f"specs/{spec}.ein"
            text = path.read_text(encoding="utf-8")
            checks, changes = [], []
            for turn in range(rounds + 1):
                tell(f"{spec}, round {turn}")
                # A line at the end that says nothing: the text is another one.
                changes.append(one.change(path, f"{text}# editor {turn}\n"))
                checks.append(_check(f"{text}# check {turn}\n"))
            out.append(Waited(spec, statistics.median(checks[1:]), statistics.median(changes[1:])))
    return out


def _check(text: str) -> float:
    start = time.perf_counter()
    einc.check(text)
    return time.perf_counter() - start
