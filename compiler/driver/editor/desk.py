"""The texts that an editor has open, and which of the questions about them are out of date."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from einc.driver.editor.text import Text
from einc.driver.sources import ENDING, Sources
from einc.errors.report import Problem, Source
from einc.syntax.texts import plain


class OutdatedError(Exception):
    """The text has changed since something was asked of it."""


@dataclass(frozen=True)
class Asked(Sources):
    """Sources that remember which files a text may use: those beside it of the names that it asks for."""

    asked: set[str] = field(default_factory=set, compare=False)

    def used(self, by: Source, name: str) -> Source | Problem | None:
        """The spec that a text uses by its name. Changes `self.asked`."""
        self.asked.add(os.path.normpath(Path(by.name).parent / f"{name}{ENDING}"))
        return super().used(by, name)


@dataclass
class Desk:
    """The open texts by their paths, and what is known of each until one of them changes."""

    open: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    known: dict[str, Text] = field(default_factory=dict)

    def put(self, path: str, text: str, version: int = 0) -> tuple[str, ...]:
        """Takes a text in; the paths of those that have to be checked again, its own first."""
        if self.open.get(path) == text and path in self.known:
            self.versions[path] = version
            return ()
        self.open[path], self.versions[path] = text, version
        return self._changed(path)

    def close(self, path: str) -> tuple[str, ...]:
        """Gives a text up, for that of the disk; the paths of those that have to be checked again."""
        self.open.pop(path, None)
        self.versions.pop(path, None)
        return tuple(other for other in self._changed(path) if other != path)

    def touched(self) -> tuple[str, ...]:
        """Something has changed on the disk: every text is checked again. Changes `self.known`."""
        self.known.clear()
        return tuple(self.open)

    def _changed(self, path: str) -> tuple[str, ...]:
        """A text and those that use it, which are no longer known."""
        others = [x for x, text in self.known.items() if x != path and isinstance(text.sources, Asked)
                  and os.path.normpath(path) in text.sources.asked]
        for one in (path, *others):
            self.known.pop(one, None)
        return (path, *(x for x in others if x in self.open))

    def text(self, path: str) -> Text:
        """An open text with the others as they are now; one that is not open is that of the disk."""
        if path not in self.known or path not in self.open:
            sources = Asked(dict(self.open))
            found = sources.read(path)
            self.known[path] = Text(found if isinstance(found, Source) else Source(path, plain("")), sources)
        return self.known[path]

    def insist(self, text: Text) -> None:
        """Raises OutdatedError where the text is not the newest of its path."""
        if self.known.get(text.source.name) is not text:
            raise OutdatedError(text.source.name)
