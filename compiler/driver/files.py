"""Files that a person names: what is no file, or has more in it than is read, is refused before it is read."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path


def size(path: str | Path) -> int:
    """The bytes of a file. OSError where there is none, and of a folder, a device or a pipe."""
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
