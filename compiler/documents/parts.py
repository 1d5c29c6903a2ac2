"""A text of TeX with the files that it takes in -> one text, whose places are told by file and line.

`\\input`, `\\include`, `\\subfile` and `\\import` are followed within a folder, which is all that a text may see. What
is not read stays as it is written, with its problem; the rest is read. Of packages and classes in the folder the
definitions of macros are taken in; others are those of TeX, of which nothing is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath

from einc.documents.definitions import DEFINES, definition
from einc.errors.problems import NotTaken, NotThere
from einc.errors.report import Help, Piece, Problem, Source, Span
from einc.syntax.spelling import nearest
from einc.syntax.texts import MAX_CHARACTERS

MAX_FILES, MAX_DEPTH = 200, 15
MOST_LOOKED_UP = 10  # files that are not there for which a similar name is looked for
ENDING = ".tex"

_MARKS = re.compile(
    r"%[^\n]*|\\begin\s*\{(?P<quoted>verbatim\*?|lstlisting|minted|comment|ein)\}|\\verb\*?(?P<verb>[^A-Za-z*\s])"
    r"|\\(?:input|(?P<whole>include)|subfile)(?![A-Za-z@])\s*\{(?P<name>[^{}\n%]*)\}"
    r"|\\input[ \t]+(?P<bare>[^\s{}\\%#&$]+)"
    r"|\\includeonly\s*\{(?P<only>[^{}]*)\}"
    r"|\\(?P<style>usepackage|RequirePackage|documentclass|LoadClass)\s*(?:\[[^\[\]]*\]\s*)?\{(?P<styles>[^{}]*)\}"
    r"|\\(?:sub)?import\*?\s*\{(?P<folder>[^{}\n%]*)\}\s*\{(?P<inside>[^{}\n%]*)\}"
    r"|(?P<end>\\endinput(?![A-Za-z])|\\end\s*\{document\})|\\.", re.S)
_STYLES = {"usepackage": ".sty", "RequirePackage": ".sty", "documentclass": ".cls", "LoadClass": ".cls"}
_STYLE = re.compile(rf"%[^\n]*|(?P<defines>{DEFINES.pattern})|\\.|(?P<open>\{{)|(?P<close>\}})", re.S)
_CLASS = re.compile(r"^[^%\n]*?\\documentclass(?![A-Za-z])", re.M)
_BEGIN = re.compile(r"^[^%\n]*?(?P<begin>\\begin\s*\{document\})", re.M)


@dataclass(frozen=True)
class Folder:
    """What a document may take in. `read` gives the text of a file by its path from the folder, the reason for which it
    is not read, or None where there is no such file; `names` are the files that there are.
    """

    read: Callable[[str], Source | str | None]
    names: Callable[[], Iterable[str]]


@dataclass(frozen=True)
class _Taken:
    """A file that is taken in, with its path from the folder of the document."""

    path: str
    source: Source


NOWHERE = Folder(lambda name: None, lambda: ())


def joined(source: Source, folder: Folder) -> tuple[Source, tuple[Problem, ...]]:
    """The text with the files that it takes in, and what was not read. A text that takes in none is as it was."""
    work = _Join(folder, len(source.text))
    work.file(source, "", (source.name,), 0, len(source.text))
    if not (work.named or work.taken or work.wrong):
        return source, ()
    whole = Source(source.name, "".join(work.out), tuple(work.pieces))
    return whole, tuple(told(Span(whole, start, end)) for start, end, told in work.wrong)


@dataclass
class _Join:
    """The stretches of the text so far, where they come from, and what is wrong at places of it. `total` is the length
    of all files, `named` how many commands name one.
    """

    folder: Folder
    total: int
    named: int = 0
    taken: bool = False  # whether anything of another file is in the text
    out: list[str] = field(default_factory=list)
    length: int = 0
    pieces: list[Piece] = field(default_factory=list)
    wrong: list[tuple[int, int, Callable[[Span], Problem]]] = field(default_factory=list)
    missing: int = 0
    only: frozenset[str] | None = None  # the names that `\\includeonly` lists
    styles: set[str] = field(default_factory=set)

    def file(self, source: Source, beside: str, stack: tuple[str, ...], start: int, end: int) -> None:
        """Takes in a file between two places; `beside` is its own folder, `stack` the files that take it in."""
        text, at, kept = source.text, start, start
        absent: set[str] = set()  # ends that stand nowhere in the rest of the file
        while found := _MARKS.search(text, at, end):
            at = found.end()
            if found["end"]:
                end = found.start() if len(stack) > 1 else end
                break
            if found["quoted"] or found["verb"]:
                closer = rf"\end{{{found['quoted']}}}" if found["quoted"] else found["verb"]
                closed = -1 if closer in absent else text.find(closer, at, end)
                at = closed + len(closer) if closed >= 0 else at
                absent |= {closer} if closed < 0 else set()
            elif found["only"] is not None:
                self.only = frozenset(name.strip() for name in found["only"].split(","))
            elif found["style"]:
                self._stretch(source, kept, at)
                kept = at
                for name in found["styles"].split(","):
                    self._style(name.strip(), beside, _STYLES[found["style"]], at - found.start())
            elif found["whole"] and self.only is not None and (found["name"] or "").strip() not in self.only:
                continue
            elif (name := _named(found)) is not None and self.named <= MAX_FILES:
                self.named += 1
                taken = self._taken(name, beside, stack)
                self._stretch(source, kept, found.start() if isinstance(taken, _Taken) else at)
                if isinstance(taken, _Taken):
                    self._inside(taken, stack, text, found)
                else:
                    self.wrong.append((self.length - len(found[0]), self.length, taken))
                kept = at
        self._stretch(source, kept, end)

    def _style(self, name: str, beside: str, ending: str, width: int) -> None:
        """The definitions of a package or class that stands in the folder, once, and those of what it asks for; `width`
        is the length of the command that names it, which ends here.
        """
        if name + ending in self.styles or len(self.styles) >= MAX_FILES or _leaves(name):
            return
        self.styles.add(name + ending)
        _, found = self._found(name + ending, beside)
        if isinstance(found, str):
            self.wrong.append((self.length - width, self.length, _refused(found, "put its definitions in its place")))
        if not isinstance(found, Source) or self.total + len(found.text) > MAX_CHARACTERS:
            return
        self.total += len(found.text)
        for asked in _MARKS.finditer(found.text):
            for other in asked["styles"].split(",") if asked["style"] else ():
                self._style(other.strip(), beside, _STYLES[asked["style"]], width)
        for start, end in _definitions(found):
            self._put("\n")
            self._stretch(found, start, end)
            self.taken = True

    def _inside(self, taken: _Taken, stack: tuple[str, ...], text: str, found: re.Match[str]) -> None:
        """Adds to the text so far the body of a file in place of the command that names it. A line of its own ends it,
        but no empty one.
        """
        own = taken.source
        self.total += len(own.text)
        if text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip():
            self._put("\n")
        start, end = _body(own.text)
        rest = text.find("\n", found.end())
        blank = not text[found.end() : rest if rest >= 0 else len(text)].strip()
        if blank and own.text[start:end].endswith("\n"):
            end -= 1
        self.file(own, str(PurePosixPath(taken.path).parent), (*stack, own.name), start, end)
        if not blank and self.out and not self.out[-1].endswith("\n"):
            self._put("\n")

    def _stretch(self, source: Source, start: int, end: int) -> None:
        """Takes in what stands between two places of a file."""
        if start < end:
            line, column = source.position(start)
            self.pieces.append(Piece(self.length, source.name, line, column, start))
            self._put(source.text[start:end])

    def _put(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)

    def _taken(self, name: str, beside: str, stack: tuple[str, ...]) -> _Taken | Callable[[Span], Problem]:
        """The file of a name, or what is wrong with that."""
        if self.named > MAX_FILES:
            return _refused(f"the document takes in more than {MAX_FILES} files", "join some of them")
        wrong = _leaves(name)
        if wrong:
            return _refused(wrong, "put the text itself in its place, or the file into the folder of the document")
        if len(stack) > MAX_DEPTH:
            return _refused(f"files take in one another more than {MAX_DEPTH} deep", "name the file further up")
        path, found = self._found(name, beside)
        if found is None:
            return self._missing(name)
        if isinstance(found, str):
            return _refused(found, "put the text itself in its place")
        if found.name in stack:
            way = " → ".join(_last(x) for x in (*stack[stack.index(found.name):], found.name))
            return _refused(f"`{_last(found.name)}` takes itself in: {way}", "leave one of these out")
        if self.total + len(found.text) > MAX_CHARACTERS:
            return _refused(f"with `{_last(found.name)}` the document has more than the {MAX_CHARACTERS:,} characters "
                            "that are read", "leave parts of it out")
        return _Taken(path, found)

    def _found(self, name: str, beside: str) -> tuple[str, Source | str | None]:
        """The first that is there: with the ending of TeX or without, from the folder of the document or of the file.
        """
        for folder in dict.fromkeys(("", beside)):
            path = str(PurePosixPath(folder) / name)
            for one in (path,) if path.lower().endswith(ENDING) else (path + ENDING, path):
                if (found := self.folder.read(one)) is not None:
                    return one, found
        return name, None

    def _missing(self, name: str) -> Callable[[Span], Problem]:
        self.missing += 1
        names = sorted(self.folder.names()) if self.missing <= MOST_LOOKED_UP else []
        near = nearest(name, [x.removesuffix(ENDING) for x in names]) or nearest(name, names) or next(
            (x for x in names if _last(x).removesuffix(ENDING) == _last(name).removesuffix(ENDING)), None)
        help_ = Help(f"there is a file with a similar name: `{near}`") if near else Help(
            "put the file into the folder of the document, or leave this out")
        return lambda span: NotThere(f"there is no file `{name}` in the folder of the document", span,
                                     notes=("the rest of the document is read",), helps=(help_,))


def _definitions(source: Source) -> Iterator[tuple[int, int]]:
    """The places of the definitions of macros in a text, those that stand in no braces."""
    depth = at = 0
    while found := _STYLE.search(source.text, at):
        at = found.end()
        made = definition(source, DEFINES.match(source.text, found.start()), len(source.text)) \
            if found["defines"] and depth == 0 else None
        if made is not None:
            at = made.macro.span.end
            yield found.start(), at
        depth = max(depth + bool(found["open"]) - bool(found["close"]), 0)


def _refused(message: str, help_: str) -> Callable[[Span], Problem]:
    return lambda span: NotTaken(message, span, notes=("the rest of the document is read",),
                                 helps=(Help(help_),))


def _named(found: re.Match[str]) -> str | None:
    """The path that a command names, None for what is no command."""
    if found["folder"] is not None:
        return f"{found['folder'].strip().rstrip('/')}/{found['inside'].strip()}"
    name = found["name"] if found["name"] is not None else found["bare"]
    return None if name is None else name.strip().strip('"')


def _leaves(name: str) -> str:
    """Why a path is not one within the folder, "" where it is."""
    if name.startswith("|"):
        return f"`{name}` is a command, and nothing that a document says is run"
    if not name or "\0" in name or "#" in name or "\\" in name:
        return f"`{name}` is no name of a file"
    if name.startswith(("/", "~")) or PureWindowsPath(name).drive:
        return f"`{name}` is an absolute path, and a document sees no more than its own folder"
    if ".." in PurePosixPath(name).parts:
        return f"`{name}` leads out of a folder, and a document sees no more than its own"
    return ""


def _last(path: str) -> str:
    return PurePosixPath(path).name


def _body(text: str) -> tuple[int, int]:
    """Where a file has what it gives to another: of a whole document, what stands in it."""
    found = _BEGIN.search(text) if _CLASS.search(text) else None
    return (found.end("begin") if found else 0), len(text)


def is_main(text: str) -> bool:
    """Whether a text of TeX is a whole document, and no part of another."""
    found = _CLASS.search(text)
    return found is not None and not re.match(r"\s*(?:\[[^\]]*\]\s*)?\{(?:subfiles|standalone)\}", text[found.end():])
