"""What stands beside a document, in its folder or in its archive: all that it may take in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path, PurePosixPath

from einc.documents.parts import ENDING, NOWHERE, Folder
from einc.driver import archives, folders
from einc.driver.sources import Sources
from einc.errors.report import Problem, Report, Source
from einc.syntax.texts import read_bytes

MOST_NAMES = 500


def beside(name: str, sources: Sources) -> Folder:
    """The folder of the document of this name, as far as the document sees it."""
    if name.startswith("<") or "\0" in name:
        return NOWHERE
    packed = archives.inside(name)
    if packed is None:
        folder = Path(name).parent
        return Folder(lambda path: _on_disk(folder, path, sources), lambda: _names(folder))
    try:
        found = archives.members(packed[0])
    except (Problem, OSError):
        return NOWHERE
    archive, own = packed[0], PurePosixPath(packed[1]).parent
    return Folder(lambda path: _packed(archive, str(own / path), found),
                  lambda: [x for x in found.texts if x.endswith(ENDING)][:MOST_NAMES])


def _on_disk(folder: Path, path: str, sources: Sources) -> Source | str | None:
    """A file of a folder, where no part of its path is a link."""
    whole = folder / path
    for part in accumulate(PurePosixPath(path).parts, os.path.join):
        if os.path.islink(folder / part):
            return f"`{part}` is a link, and links are not followed"
    try:
        if not sources.has(whole):
            return f"`{path}` is a device or a pipe" if os.path.exists(whole) and not os.path.isdir(whole) else None
    except (OSError, ValueError):
        return None
    found = sources.read(whole)
    return found.message if isinstance(found, Problem) else found


def _packed(archive: Path, path: str, members: archives.Members) -> Source | str | None:
    """A member of an archive."""
    if path in members.links:
        return f"`{path}` is a link, and links are not followed"
    if path not in members.texts:
        return f"`{path}` is no text of TeX by its name" if path in members.others else None
    report = Report()
    source = read_bytes(str(archive / path), members.texts[path], report)
    return report.problems[0].message if report.problems else source


def _names(folder: Path) -> Iterable[str]:
    """Files of TeX in a folder, some of them where there are many."""
    try:
        return [name for name in folders.entries(folder) if name.endswith(ENDING)][:MOST_NAMES]
    except (Problem, OSError):
        return []
