"""What was found once and is kept: one JSON file for each result, in the folder that the system has for such files."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_FILES = "tile-*.json"


def folder() -> Path:
    """`EINC_CACHE_DIR`, else the folder `einc` among the user's caches. It need not exist."""
    given = os.environ.get("EINC_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():  # There is no home: nothing is kept longer than the system keeps its temporary files.
        return Path(tempfile.gettempdir()) / "einc"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "einc"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "einc" / "Cache"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else home / ".cache") / "einc"


def switched(name: str) -> bool:
    """Whether an environment variable says yes: anything but the empty text, 0, false, no and off."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def read(key: Mapping[str, Any]) -> Any:
    """The value that was written under the key; None where there is none, or its file is
    damaged, or `EINC_SKIP_CACHE` is set."""
    if switched("EINC_SKIP_CACHE"):
        return None
    found = _content(_file(key))
    # Two keys may share a file's name, and a file may have been written by hand.
    return found["value"] if found is not None and found["key"] == _plain(key) else None


def write(key: Mapping[str, Any], value: object) -> None:
    """Keeps a value, in place of an earlier one or of a damaged file. OSError where the folder cannot be written in."""
    if switched("EINC_SKIP_CACHE"):
        return
    file = _file(key)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"key": _plain(key), "value": value}, indent=1, sort_keys=True)
    handle, name = tempfile.mkstemp(prefix=".writing-", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text + "\n")
        os.replace(name, file)  # Who reads at the same time finds the earlier file or this one, never half of one.
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def entries() -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """Every kept file in the order of names, with its key and value; None for one that is damaged."""
    for file in sorted(folder().glob(_FILES)):
        yield file, _content(file)


def clear() -> int:
    """Deletes every kept file, and nothing else in the folder; how many there were.
    OSError where one cannot be deleted."""
    files = list(folder().glob(_FILES))
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)


def libraries() -> list[Path]:
    """The compiled kernels that are kept, the newest first; the files that emitted files write beside `entries`."""
    found = [file for file in (folder() / "native").glob("*.so") if file.is_file()]
    return sorted(found, key=lambda file: file.stat().st_mtime, reverse=True)


def clear_libraries() -> int:
    """Deletes every compiled kernel with its hash; how many there were. OSError where one cannot be deleted."""
    found = libraries()
    for file in found:
        file.unlink(missing_ok=True)
        file.with_suffix(".sha256").unlink(missing_ok=True)
    return len(found)


def _plain(key: Mapping[str, Any]) -> Any:
    """The key as it comes back from a file."""
    return json.loads(json.dumps(dict(key), sort_keys=True))


def _file(key: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    return folder() / _FILES.replace("*", digest[:32])


def _content(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and isinstance(found.get("key"), dict) and "value" in found
    return found if whole else None
