"""The sources of a paper in a folder or in an archive: which of their files is the paper, and what stands beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath

from einc.documents.parts import ENDING, is_main
from einc.driver import archives
from einc.driver.files import contents
from einc.errors.problems import Unpacked
from einc.errors.report import Help
from einc.syntax.texts import MAX_BYTES

MAX_ENTRIES, MAX_DEPTH = 5_000, 8
_LISTED = 6  # files that a message names


def member(path: Path) -> bytes | None:
    """The bytes of what a path leads to in an archive: `paper.zip/main.tex`; None where there is no such member."""
    found = archives.inside(path)
    return archives.members(found[0]).texts.get(found[1]) if found is not None else None


def main_of(path: Path) -> tuple[str, bytes]:
    """The path of the paper of a folder or of an archive, and its bytes. `Unpacked` where there is not one, OSError
    where it cannot be read.
    """
    if path.is_dir():
        kind = "it is a directory"
        found = {name: is_main(_decoded(data)) for name, data in _texts(path)}
        name = _main(path, kind, found)
        return str(path / name), contents(path / name, MAX_BYTES)
    texts = {name: data for name, data in archives.members(path).texts.items() if name.lower().endswith(ENDING)}
    name = _main(path, "it is an archive", {name: is_main(_decoded(data)) for name, data in texts.items()})
    return str(path / name), texts[name]


def _texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The texts of TeX of a folder, one by one. Raises Unpacked."""
    total = 0
    for name in entries(folder):
        if name.lower().endswith(ENDING):
            data = contents(folder / name, MAX_BYTES)
            total += len(data)
            if total > archives.MAX_UNPACKED:
                raise Unpacked(f"the {ENDING} files of {folder} have more than the {archives.MAX_UNPACKED:,} bytes "
                               "that are looked through", helps=(Help("give the file that is meant"),))
            yield name, data


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _main(path: Path, kind: str, texts: Mapping[str, bool]) -> str:
    """The one file that is a whole document, of those that are said to be one or none. Raises Unpacked."""
    found = sorted((name for name, whole in texts.items() if whole), key=lambda name: (name.count("/"), name))
    if not found:
        raise Unpacked(f"cannot read {path}: {kind}, and none of its {ENDING} files has `\\documentclass`", helps=(
            Help("give the file that is meant, in place of all of them"),))
    if len(found) > 1:
        listed = ", ".join(f"`{name}`" for name in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise Unpacked(f"{path} has {len(found)} files with `\\documentclass`", notes=(f"they are {listed}{more}",),
                       helps=(Help(f"say which is meant: `{path / found[0]}`"),))
    return found[0]


def entries(folder: Path) -> Iterator[str]:
    """The files of a folder and of those in it, by their paths from it. No link is followed. `Unpacked` where there are
    more than are looked through.
    """
    waiting, seen = [("", 0)], 0
    while waiting:
        at, depth = waiting.pop()
        with os.scandir(folder / at) as found:
            inner = sorted(islice(found, MAX_ENTRIES + 1), key=lambda entry: entry.name)
        for entry in inner:
            seen += 1
            if seen > MAX_ENTRIES:
                raise Unpacked(f"{folder} has more than the {MAX_ENTRIES:,} files that are looked through",
                               helps=(Help("give the file that is meant"),))
            name = str(PurePosixPath(at) / entry.name)
            if entry.is_dir(follow_symlinks=False):
                waiting += [(name, depth + 1)] if depth < MAX_DEPTH and not entry.name.startswith(".") else []
            elif entry.is_file(follow_symlinks=False):
                yield name
