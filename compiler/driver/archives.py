"""Archives of the sources of a paper: their texts, in memory. Nothing is unpacked on the disk, and no link is followed.

Limits stand before each step that could need more than they allow: on the file, on what it unpacks to, on how many
members it has and on each of these.
"""

from __future__ import annotations

import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from einc.driver.files import contents
from einc.driver.sources import ARCHIVES
from einc.errors.problems import Unpacked
from einc.errors.report import Help
from einc.syntax.texts import MAX_BYTES

MAX_ARCHIVE, MAX_UNPACKED, MAX_MEMBERS, MAX_DEPTH = 64 * 2**20, 128 * 2**20, 5_000, 20
TEXTS = frozenset({".tex", ".ltx", ".txt", ".tikz", ".pgf", ".def", ".sty", ".cls", ""})  # endings of what is kept

_ENTRY = b"PK\x01\x02"  # begins the entry of a member in the directory of a zip file


@dataclass(frozen=True)
class Members:
    """The texts of an archive by their paths in it, and the paths of its links and of what else is not read."""

    texts: dict[str, bytes]
    links: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True)
class _Member:
    """One member of an archive; `data` is None for a link and for what is no text."""

    path: str
    link: bool
    data: bytes | None


def is_archive(path: str | Path) -> bool:
    """Whether a file of this name is an archive."""
    return PurePath(path).name.lower().endswith(ARCHIVES)


def inside(path: str | Path) -> tuple[Path, str] | None:
    """The archive that a path leads into, and the path of the member in it: `paper.zip/main.tex`. None where it leads
    into none.
    """
    for folder in Path(path).parents:
        if is_archive(folder) and folder.is_file():
            return folder, Path(path).relative_to(folder).as_posix()
    return None


# What the standard library raises of an archive that is damaged: its own errors, those of the compressions, and of a
# header that is out of range. RuntimeError and NotImplementedError are those of members in cipher and of compressions
# that it does not know.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error,
            RuntimeError, NotImplementedError, ValueError, IndexError, OverflowError)


def members(path: Path) -> Members:
    """The members of an archive. `Unpacked` where it is damaged or has more than is read, OSError where the file cannot
    be read.
    """
    data = contents(path, MAX_ARCHIVE)
    try:
        found = list(_zipped(path, data) if path.name.lower().endswith(".zip") else _tarred(path, data))
    except _DAMAGED as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise _wrong(f"{path} cannot be unpacked: {said[:1].lower()}{said[1:]}", "fetch or pack it again") from None
    texts = {one.path: one.data for one in found if one.data is not None}
    return Members(texts, frozenset(one.path for one in found if one.link),
                   frozenset(one.path for one in found if not one.link and one.data is None))


def _wrong(message: str, help_: str) -> Unpacked:
    return Unpacked(message, helps=(Help(help_),))


def _tarred(path: Path, data: bytes) -> Iterator[_Member]:
    """The members of a tar file. What is compressed is unpacked first, as far as is read: a header that says that it is
    long is then no longer than what is there.
    """
    if not path.name.lower().endswith(".tar"):
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            data = packed.read(MAX_UNPACKED + 1)
    _bounded(path, len(data))
    total = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for number, one in enumerate(archive, 1):
            total += one.size
            _bounded(path, total)
            _few(path, number)
            name = _within(path, one.name)
            if one.isdir() or name is None:
                continue
            kept = one.isreg() and _kept(path, name, one.size)
            taken = archive.extractfile(one) if kept else None
            yield _Member(name, one.issym() or one.islnk(), taken.read() if taken is not None else None)


def _zipped(path: Path, data: bytes) -> Iterator[_Member]:
    """The members of a zip file, which are counted before their directory is read."""
    _few(path, data.count(_ENTRY))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = archive.infolist()
        _few(path, len(found))
        _bounded(path, sum(one.file_size for one in found))
        for one in found:
            name = _within(path, one.filename)
            if one.is_dir() or name is None:
                continue
            link = stat.S_ISLNK(one.external_attr >> 16)
            taken = None
            if not link and _kept(path, name, one.file_size):
                with archive.open(one) as opened:
                    taken = opened.read(MAX_BYTES + 1)
            yield _Member(name, link, taken)


def _bounded(path: Path, size: int) -> None:
    if size > MAX_UNPACKED:
        raise _wrong(f"{path} unpacks to more than the {MAX_UNPACKED:,} bytes that are read",
                     "leave out what is no text, such as pictures")


def _few(path: Path, number: int) -> None:
    if number > MAX_MEMBERS:
        raise _wrong(f"{path} has more than the {MAX_MEMBERS:,} members that are read",
                     "leave out what is no text, such as pictures")


def _within(path: Path, name: str) -> str | None:
    """The path of a member in its archive, None for the archive's own folder. A member outside of it is refused, and
    the archive with it: no paper is packed so.
    """
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or PureWindowsPath(name).drive or ".." in parts or "\0" in name:
        raise _wrong(f"{path} has a member outside of its folder: `{name[:80]}`", "unpack it where you trust it, and "
                     "pack what belongs to the paper")
    if len(parts) > MAX_DEPTH:
        raise _wrong(f"{path} has folders more than {MAX_DEPTH} deep", "pack what belongs to the paper")
    return "/".join(parts) or None


def _kept(path: Path, name: str, size: int) -> bool:
    """Whether a member is a text to be kept. Raises EincError for one that is too large."""
    if PurePosixPath(name).suffix.lower() not in TEXTS:
        return False
    if size > MAX_BYTES:
        raise _wrong(f"`{name}` of {path} has {size:,} bytes, more than the {MAX_BYTES:,} that are read",
                     "leave it out, or split it")
    return True
