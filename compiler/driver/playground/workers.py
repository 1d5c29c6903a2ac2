"""The processes that answer: one waits for the next request, and one that a newer request outdates is ended."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WORKER = "einc.driver.playground.worker"
SECONDS, MOST = 25.0, 4  # that an answer may take; processes at once
OUTDATED = "a newer text came"


def _started(folder: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-P", "-m", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, encoding="utf-8", cwd=folder)


@dataclass
class Workers:
    """Processes in an empty folder, the running ones by the page that asked."""

    seconds: float = SECONDS
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)  # of the newest request of each page
    lock: threading.Lock = field(default_factory=threading.Lock)
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    spare: subprocess.Popen[str] | None = None
    closed: bool = False

    def run(self, page: str, request: Mapping[str, Any], turn: int = 0) -> dict[str, Any]:
        """The answer to a request of a page; what that page asked before is ended, also where it comes in later: the
        page counts its requests in `turn`. Changes `self.running` and `self.turns`.
        """
        with self.lock:
            if self.closed:
                return {"stopped": "the server has ended"}
            if turn < self.turns.get(page, 0):
                return {"stopped": OUTDATED}
            self.turns[page] = turn
            process, self.spare = self.spare or _started(self.folder.name), None
            before = self.running.pop(page, None)
            others = list(self.running)[:max(0, len(self.running) + 1 - MOST)]
            ended = [x for x in (before, *(self.running.pop(other) for other in others)) if x is not None]
            self.running[page] = process
        for one in ended:
            one.kill()
        try:
            out, _ = process.communicate(json.dumps(request) + "\n", self.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"stopped": f"it takes longer than {self.seconds:g} seconds"}
        finally:
            with self.lock:
                if self.running.get(page) is process:
                    del self.running[page]
        found: dict[str, Any] = json.loads(out) if out.strip() else {"stopped": self._why(process.returncode)}
        self.ready()
        return found

    def _why(self, status: int) -> str:
        return OUTDATED if status == -9 else "it takes more time or memory than the page has"

    def ready(self) -> None:
        """Starts the process that waits for the next request. Changes `self.spare`."""
        with self.lock:
            if self.spare is None and not self.closed:
                self.spare = _started(self.folder.name)

    def close(self) -> None:
        """Ends every process. Changes `self.closed` and `self.running`."""
        with self.lock:
            self.closed = True
            left = [*self.running.values(), *([] if self.spare is None else [self.spare])]
            self.running.clear()
        for process in left:
            process.kill()
            process.wait()
        self.folder.cleanup()
