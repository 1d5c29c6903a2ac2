"""One request in a process of its own: a text comes in, what the page shows of it goes out, and the process ends.

Its memory and its processor time are bounded, and it writes no file. Where the system has no such bounds, the time that
`workers` waits is the only one.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec

from einc.driver.playground.answers import DERIVED, MASKS, OFFERS, PLANS, SCREEN, answer

MEMORY, SECONDS = 3 * 2**30, 20


def main() -> None:
    """Answers the one line of the standard input."""
    for name in (DERIVED, SCREEN, MASKS, PLANS, OFFERS):  # before the request is there
        import_module(name)
    _bound()
    asked = json.loads(sys.stdin.readline())
    try:
        found = (answer(asked["text"], asked["pane"]) if "pane" in asked
                 else import_module(OFFERS).offers(asked["text"], asked["at"]))
    except MemoryError:
        found = {"stopped": f"it needs more than {MEMORY // 2**20:,} MB of memory"}
    print(json.dumps(found))


def _bound() -> None:
    """Bounds what this process may take from here on."""
    sys.dont_write_bytecode = True
    if find_spec("resource") is None:
        return
    resource = import_module("resource")
    for kind, most in (("RLIMIT_AS", MEMORY), ("RLIMIT_CPU", SECONDS), ("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0)):
        if hasattr(resource, kind):
            resource.setrlimit(getattr(resource, kind), (most, most))


if __name__ == "__main__":
    main()
