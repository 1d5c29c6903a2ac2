"""Files that a person names: what is no file, or has more in it than is read, is refused before it is read."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

Stamp = tuple[int, int] | None  # when a file was written and how long it is; None where there is none
_NOTED: ContextVar[dict[str, Stamp] | None] = ContextVar("noted", default=None)


def size(path: str | Path) -> int:
    """The bytes of a file. OSError where there is none, and of a folder, a device or a pipe."""
    note(path)
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, which has no size, and no file", str(path))
    return found.st_size


def contents(path: str | Path, most: int) -> bytes:
    """What stands in a file of at most so many bytes. OSError where it cannot be read or is larger."""
    if (found := size(path)) > most:
        raise OSError(errno.EFBIG, f"it has {found:,} bytes, more than the {most:,} that are read", str(path))
    return Path(path).read_bytes()


def given(most: int) -> bytes:
    """What stands in standard input, and one byte more than `most` at the most."""
    return sys.stdin.buffer.read(most + 1)


def same(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to one place, also where links go round in a circle."""
    return os.path.realpath(one) == os.path.realpath(other)


def stamp(path: str | Path) -> Stamp:
    """The time of the last change of a file and its size, or None where there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def note(path: str | Path) -> None:
    """Says that a path is asked for, where that is kept."""
    noted = _NOTED.get()
    if noted is not None:
        noted.setdefault(os.path.abspath(path), stamp(path))


@contextmanager
def noting() -> Iterator[dict[str, Stamp]]:
    """Keeps which paths are asked for in a block, also those that lead to no file, each as it was before."""
    noted: dict[str, Stamp] = {}
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)
