"""Where texts come from: what an editor has open, the disk, and the specs that come with einc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path, PurePath

from einc.driver import files as files_of
from einc.errors.problems import NotText, Unpacked
from einc.errors.report import Help, Problem, Report, Source
from einc.syntax.spelling import nearest
from einc.syntax.texts import MAX_BYTES, plain, read_bytes, too_large

ENDING = ".ein"  # of a spec
NOTEBOOK, MAX_NOTEBOOK = ".ipynb", 64 * 2**20  # with the pictures that its code made
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
FOLDERS = "einc.driver.folders"  # loaded for a folder or an archive: a spec needs none of it


@dataclass(frozen=True)
class Sources:
    """Reads texts by their paths. `open` are texts by path that stand before what the disk has there, as an editor's
    unsaved ones do; a path of it is the same file however it is written. Where they stand `alone`, nothing of the
    disk is read but the specs that come with einc.
    """

    open: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False

    def read(self, path: str | Path) -> Source | Problem:
        """The text of a file under the name that is asked for; a Problem where it cannot be read."""
        if (text := self._opened(path)) is not None:
            return Source(str(path), plain(text))
        if self.alone:
            return _unread(f"cannot read {path}: it is not among the texts that are given")
        try:
            report = Report()
            name, data = _bytes(path)
            source = read_bytes(name, data, report, MAX_NOTEBOOK)
            return report.problems[0] if report.problems else source
        except (Unpacked, NotText) as problem:
            return problem
        except OSError as error:
            return _unread(f"cannot read {path}: {(error.strerror or str(error)).lower()}")
        except ValueError:
            return _unread("the name of the file has a character that no file name can have")

    def named(self, path: str | Path) -> Source | Problem:
        """The text of a file, or of a spec that comes with einc by its name; the Problem where it cannot be read."""
        if PurePath(path).suffix or self.has(path) or packed(path):
            read, bare = self.read(path), str(path).removesuffix(ENDING)
            if isinstance(read, Problem) and bare != str(path) and not self.has(path) and shipped(bare) is not None:
                read.helps = (Help(f"einc has a spec of that name: `{bare}`"), *read.helps)
            if isinstance(read, Problem) and ".py::" in str(path):
                read.helps = (Help(f"a Python function is read by `einc from {path}`"),)
            return read
        if (found := shipped(str(path))) is not None:
            return found
        read, near = self.read(path), similar(str(path))
        if isinstance(read, Problem) and near:
            read.helps = (Help(f"there is a spec with a similar name: `{near}`"), *read.helps)
        return read

    def used(self, by: Source, name: str) -> Source | Problem | None:
        """The spec that a text uses by its name: beside the file of the text, else one of einc's. None where there is
        none. A spec that comes with einc uses such specs alone, whatever stands in the working directory.
        """
        if isinstance(by, Shipped):
            return shipped(name)
        # One name for one file, or a spec that uses itself by another way round would do so for ever.
        beside = os.path.normpath(Path(by.name).parent / f"{name}{ENDING}")
        if not by.name.startswith("<") and self.has(beside):
            return self.read(beside)
        return shipped(name)

    def opened(self, text: Source) -> Sources:
        """These sources with one more open text, which stands over the file of its name."""
        return Sources({**self.open, text.name: text.text}, self.alone)

    def similar(self, by: Source, name: str) -> str | None:
        """The spec with a similar name that a text could use: one beside its file, else one of einc's."""
        folder = None if by.name.startswith("<") else Path(by.name).parent
        paths = () if folder is None else (
            *folder.glob(f"*{ENDING}"), *(p for p in map(Path, self.open) if p.parent == folder))
        return nearest(name, sorted({p.stem for p in paths} - {Path(by.name).stem})) or similar(name)

    def has(self, path: str | Path) -> bool:
        """Whether a file of this path is open or, unless the open ones are all there are, on the disk."""
        files_of.note(path)
        return self._opened(path) is not None or (not self.alone and os.path.isfile(path))

    def _opened(self, path: str | Path) -> str | None:
        """The open text of a path."""
        if not self.open:
            return None
        wanted = os.path.abspath(path)
        return next((text for name, text in self.open.items() if os.path.abspath(name) == wanted), None)


class Shipped(Source):
    """The text of a spec that comes with einc. Its name is no path: a reader may have a file of that name."""


DISK = Sources()


def is_spec(name: str) -> bool:
    """Whether the name is one of a spec: with its ending or without any, as those that come with einc are called."""
    return PurePath(name).suffix.lower() in ("", ENDING)


def packed(path: str | Path) -> bool:
    """Whether a path is that of the sources of a paper: an archive, or a folder; where einc has a spec of that name, a
    folder with TeX in it.
    """
    if PurePath(path).name.lower().endswith(ARCHIVES):
        return True
    return os.path.isdir(path) and (shipped(str(path)) is None or any(Path(path).glob("*.tex")))


def _bytes(path: str | Path) -> tuple[str, bytes]:
    """What a path leads to, a file, a member of an archive or the paper of a folder, by its own name. `NotText` or
    `Unpacked` where it has more than is read, OSError where it cannot be read.
    """
    if packed(path):
        main: tuple[str, bytes] = import_module(FOLDERS).main_of(Path(path))
        return main
    if (inner := _member(path)) is not None:
        return inner
    notebook = PurePath(path).suffix.lower() == NOTEBOOK
    found = files_of.size(path)
    if found > MAX_NOTEBOOK and notebook:
        raise Unpacked(f"{path} has {found:,} bytes, more than the {MAX_NOTEBOOK:,} that are read", helps=(
            Help("clear what its cells have put out, and save it again"),))
    if found > MAX_BYTES and not notebook:
        raise too_large(f"{path} has {found:,} bytes", None)
    return str(path), files_of.contents(path, MAX_NOTEBOOK)


def _member(path: str | Path) -> tuple[str, bytes] | None:
    """The name and the bytes of what a path leads to in an archive; None where it leads into none, and where there is
    nothing of that name in it.
    """
    if not any(folder.name.lower().endswith(ARCHIVES) for folder in Path(path).parents):
        return None
    found: bytes | None = import_module(FOLDERS).member(Path(path))
    return None if found is None else (str(path), found)


def shipped(name: str) -> Source | None:
    """The text of a spec that comes with einc, by its name; None where there is none of that name."""
    if not all(part.replace("_", "").replace("-", "").isalnum() for part in name.split("/")):
        return None
    found = Path(str(files("einc.specs"))) / f"{name}{ENDING}"
    # Of a path, a name that is too long for a file is an error.
    return Shipped(f"specs/{name}{ENDING}", found.read_text(encoding="utf-8")) if os.path.isfile(found) else None


def names() -> list[str]:
    """The specs that come with einc, with the folders that they stand in; those in none first."""
    found = Path(str(files("einc.specs")))
    inside = (x.relative_to(found).with_suffix("").as_posix() for x in found.rglob(f"*{ENDING}"))
    return sorted(inside, key=lambda name: ("/" in name, name))


def similar(name: str) -> str | None:
    """The spec that comes with einc and has a similar name, with the folder that it stands in or without."""
    known = names()
    near = nearest(name, known) or nearest(name, sorted({PurePath(full).name for full in known}))
    return (next((full for full in sorted(known, key=len) if near in (full, PurePath(full).name)), None) if near
            else None)


def _unread(message: str) -> NotText:
    return NotText(message,
                   helps=(Help("give a file, the name of a spec that comes with einc, or the text of a spec"),))
