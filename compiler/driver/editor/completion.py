"""What may stand at a place: names of the text, words of the language, specs, and LaTeX commands as characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from einc.driver import flow
from einc.driver.editor.hover import of_class, shape
from einc.driver.editor.positions import Position, Range, offset, position
from einc.driver.editor.text import Part, Text
from einc.driver.sources import ENDING
from einc.ir.indices import CLASSES
from einc.syntax.spelling import BUILT_IN, GREEK, HEADS, MACROS, WRITTEN

_COMMAND = re.compile(r"\\[A-Za-z]*\Z")
_USED = re.compile(r'\buse\s+"([^"\n]*)\Z')
_CLASS = re.compile(r"^\s*index\b[^:#\n]*:[^#\n]*?([A-Za-z]*)\Z", re.M)
_FIRST = re.compile(r"^[^\S\n]*([A-Za-z]*)\Z", re.M)
_WORD = re.compile(r"(?<![\\A-Za-z])([A-Za-z]+(?:_[A-Za-z]+)?|)\Z")
# What a command becomes where it is a word of the language: the second spelling of its token.
_SIGNS = {"sqrt": "√", "cdots": "…", "ldots": "…", "dots": "…", "leftarrow": "←", "gets": "←", "neg": "¬", "lnot": "¬",
          "land": "∧", "wedge": "∧", "lor": "∨", "vee": "∨", "lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋",
          "ell": "ℓ", "prime": "'", "hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "widetilde": "\u0303",
          "bar": "\u0304", "overline": "\u0304", "coloneqq": "≔", "equiv": "≔", "triangleq": "≔"}

Sort = Literal["name", "index", "size", "function", "keyword", "class", "file", "character"]


@dataclass(frozen=True)
class Item:
    """What may be written: `new` takes the place of `range`."""

    label: str
    kind: Sort
    new: str
    range: Range
    detail: str = ""


def completions(text: Text, place: Position) -> tuple[Item, ...]:
    """Everything that may stand at a place, by what stands in front of it."""
    at = offset(text.source, place)
    before = text.source.text[:at]
    line = before[before.rfind("\n") + 1:]
    if text.is_document and text.paper is None:
        return ()

    def items(typed: str, rows: Iterable[tuple[str, Sort, str, str]]) -> tuple[Item, ...]:
        here = Range(position(text.source, at - len(typed)), place)
        return tuple(Item(label, kind, new, here, detail) for label, kind, new, detail in dict.fromkeys(rows))

    if (found := _COMMAND.search(line)) is not None:
        return items(found[0], commands(text.is_document))
    if "#" in line.replace(r"\#", ""):
        return ()
    if (used := _USED.search(line)) is not None:
        return items(used[1], ((name, "file", name, "a spec") for name in specs(text)))
    if (known := _CLASS.search(line)) is not None:
        return items(known[1], ((name, "class", name, of_class(name)) for name in CLASSES))
    word = _WORD.search(line)
    typed = "" if word is None else word[1]
    heads = HEADS if _FIRST.search(line) is not None else ()
    return items(typed, (*((x, "keyword", f"{x} ", "a declaration") for x in heads), *_names(text)))


def commands(latex: bool) -> Iterator[tuple[str, Sort, str, str]]:
    """Every LaTeX command that is read, with its character; in a document with itself."""
    for name, (kind, value) in MACROS.items():
        sign = _SIGNS.get(name) or (value if kind == "GREEK" else WRITTEN[value][1] if value in WRITTEN else "")
        plain = sign or (f"{name}" if name in BUILT_IN else f"\\{name}")
        yield f"\\{name}", "character", f"\\{name}" if latex else plain, plain


def specs(text: Text) -> tuple[str, ...]:
    """The specs that a text can use: those beside its file, on the disk or open, and those that come with einc."""
    folder, own = Path(text.source.name).parent, Path(text.source.name)
    beside = {p.stem for p in (*folder.glob(f"*{ENDING}"), *map(Path, text.sources.open))
              if p.parent == folder and p.suffix == ENDING and p != own}
    root = Path(str(files("einc.specs")))
    return (*sorted(beside), *sorted(p.relative_to(root).with_suffix("").as_posix() for p in root.rglob(f"*{ENDING}")))


def _names(text: Text) -> Iterator[tuple[str, Sort, str, str]]:
    """The names of a text, then those of the language."""
    for part in text.parts:
        yield from _declared(text, part)
    yield from ((x, "function", x, "a function of the prelude") for x in sorted(flow.functions()))
    yield from ((x, "function", x, "a function") for x in BUILT_IN)
    yield from ((x, "character", x, "a Greek letter") for x in dict.fromkeys(GREEK.values()))


def _declared(text: Text, part: Part) -> Iterator[tuple[str, Sort, str, str]]:
    """Tensors with their slots, indices, sizes, functions and maps."""
    if part.work is None:
        return
    scope = part.work.scope
    for signature in scope.signatures:
        yield signature.text, "name", signature.text, shape(text, signature)
    for letter, index in scope.seen(part.tree.statements[0].span).items() if part.tree.statements else ():
        yield letter, "index", letter, str(index.set)
    yield from ((x, "size", x, "a size") for x in scope.numbers.sizes)
    yield from ((x, "function", x, scope.functions[x].span.text) for x in scope.functions
                if x not in scope.texts.prelude)
    yield from ((x, "function", x, found.span.text) for x, found in scope.maps.items())
