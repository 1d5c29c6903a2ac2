r"""Letters that a text counts in another way than from 1 to the size of what they index: "indices start at 0",
`i = 0, …, d-1`, `i = 2, …, d`. Where no declaration of the notation says their range, an equation that depends on it is
a question.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, index_name, size_name
from einc.checking.matrices.shapes import parts, within
from einc.documents.document import Document
from einc.documents.facts import bare
from einc.documents.said import Said, neighbours, ranged
from einc.documents.sentences import index_lines, is_extent
from einc.documents.shapes import FACT
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem
from einc.syntax import tree as s
from einc.syntax.spelling import GREEK

_ANY = r"(?:(?!\n\s*\n)[^.;])"  # within a sentence and a paragraph
_ORIGIN = r"(?:\$\s*)?(?:0|-?[2-9]|-1|1\d+|zero|two|three|four|five|ten)\b(?!\.\d)"
_COUNTED = r"(?:ind(?:ex|ices|exes|exing)|positions?|tokens?|steps?|time|rows?|columns?|entries|counting|numbering)"
_COUNTS = r"(?:start|begin|beg[au]n|count|number|run|ran|go|index)\w*"
_WORDS = re.compile(
    r"(?<![\w.])(?:0|zero)\$?\s?-?\s?(?:based|index(?:ed|ing))\b"
    rf"|\b{_COUNTED}\b{_ANY}{{0,60}}?\b{_COUNTS}\b{_ANY}{{0,30}}?\b(?:at|from|with|by)\s+{_ORIGIN}"
    rf"|\$\s*[a-z]\s*\$\s+(?:is\s+|are\s+)?{_COUNTS}\s+(?:at|from|with)\s+{_ORIGIN}"
    rf"|\bfirst\b{_ANY}{{0,40}}?(?:\b(?:is|has|equals)\b|=){_ANY}{{0,25}}?(?<![\w.])(?:[A-Za-z]?_\{{?)?(?:0|zero)\b(?!\.\d)"
    rf"|\b{_COUNTED}\b{_ANY}{{0,40}}?\b(?:backwards?|revers\w+|downwards?|descending)\b"
    r"|\b(?:python|numpy|pytorch|c)(?:-?\s?(?:style|like))?\s+ind(?:ex|ices|exing)\b"
    rf"|\bind(?:ex|ices|exing)\b{_ANY}{{0,40}}?\b(?-i:Python|NumPy|PyTorch|C)\b"
    rf"|\b(?:count|number|index)(?:ed|ing|s)?\b{_ANY}{{0,40}}?\b(?:at|from|with)\s+{_ORIGIN}", re.I)
_BACKWARDS = re.compile(r"\bright[\s-]+to[\s-]+left\b|\bbackwards?\s+in\s+time\b|\bin\s+reversed?\b"
                        r"|\bfrom\s+the\s+(?:last|end)\b", re.I)
_DOTS = r"(?:\\[lcvd]?dots[cb]?(?![A-Za-z])|\.\.\.?|…)"
# `x_0, \dots` and `x_0, x_1, \dots`
_LIST = re.compile(r"(?P<name>\\?[A-Za-z]*)\}?_\s*\{?\s*0\s*\}?\s*"
                   r"(?:\^\s*\\top|[,;&\\\s]|\\quad|\\?[A-Za-z]+\s*_\s*\{?\s*\d\s*\}?)*?"
                   rf"\s*{_DOTS}")
_FROM_ZERO = re.compile(r"(?<![\d.\w])0\s*(?:\\leq?(?:slant|q)?(?![A-Za-z])|≤|⩽|<=)\s*[a-z](?:\s*,\s*[a-z])*"
                        r"\s*(?:<|\\lt(?![A-Za-z])|\\leq?(?![A-Za-z])|≤)\s*\\?[A-Za-z|]")
# `i \ge 0`, `i \in [0, d)` and `i < d`, which may be of a letter that counts, or of a number
_OF_ONE = re.compile(r"(?<![\w{\\])(?P<letter>[a-z])\s*(?:(?:\\geq?(?:slant|q)?(?![A-Za-z])|≥|⩾|>=)\s*0(?!\.?\d)"
                     r"|(?:\\in(?![A-Za-z])|∈)\s*\\?[\[({]\s*0\s*,)")
_BELOW = re.compile(r"\s*(?P<letter>[a-z])\s*(?:<|\\lt(?![A-Za-z])|\\neq?(?![A-Za-z])|≠)\s*(?P<size>\\?[A-Za-z]\w*)\s*")
_HELP = (Help(r"declare the range of the letter: `For $i \in \{0, \dots, d-1\}$,` or `index i : feature(0..d-1)`"),)


@dataclass(frozen=True)
class Way:
    """What a text says of how letters count: its `words`, where it is a `part` of the range, and the section and the
    display that it is said of, −1 where it is said of all.
    """

    words: str
    letters: frozenset[str] = frozenset()
    part: bool = False
    section: int = -1
    display: int = -1
    alone: bool = False  # it is said of its letters, and of no others
    backwards: bool = False  # it says that what comes one after the other is computed from the last


def counting(document: Document, found: list[Said], declared: Iterable[str], sizes: Container[str]) -> list[Said]:
    """The equations, of which those are questions that depend on how a letter counts, where the text says that it does
    in another way than the notation, and neither the text nor a side file (`declared`) declares its range. `sizes` are
    those of the text.
    """
    read = list(index_lines(document, found))
    declared_names = {*declared, *(name for _, line in read for c in line.clauses
                            if (name := index_name(c.body)) is not None)}
    ranges = [x for x in found if x.indices and x.statement is not None
              and not {index_name(n) for n in x.indices} <= declared_names]
    names = list(_names(found))
    ways = [*filter(None, map(_way, ranges)), *_told(document, sizes, names)]
    if not ways:
        return found
    numbered = {base for base, x in names if any(map(_numbered, x.scripts))}
    lettered = {base for base, x in names if not any(map(_numbered, x.scripts))}
    lettered |= {c.body.text for x in found if x.fact == FACT and x.statement is not None for c in x.statement.clauses
                 if isinstance(c.body, s.Word)}
    out = []
    for x in found:
        own = {n for r in ranges if r.formula.section == x.formula.section and _way(r) is None
               for n in map(index_name, r.indices) if n is not None}
        problem = _question(x, ways, declared_names | own, numbered & lettered)
        out.append(x if problem is None else replace(x, statement=None, sides=(), fact="", problem=problem))
    return out


def _way(said: Said) -> Way | None:
    """What a range says of its letters; None for one from 1 to a size."""
    over = ranged(said.statement.clauses[-1].body) if said.statement is not None else None
    if over is None or said.formula.code:
        return None
    letters = frozenset(n for n in map(index_name, said.indices) if n is not None)
    display = said.formula.span.start if said.formula.display else -1
    match over.low, over.high:
        case s.Number("1"), high if size_name(high) is not None or is_extent(high):
            return None
        case s.Number("0"), s.Sum((size, s.Number("1")), ("+", "-")) if size_name(size) is not None:
            return Way(said.span.text.strip(), letters, display=display)
    return Way(said.span.text.strip(), letters, True, said.formula.section, display)


def _told(document: Document, sizes: Container[str], names: Iterable[tuple[str, s.Scripted]]) -> Iterator[Way]:
    """What the words of a text say of its letters, and its lists and comparisons. A list is said of the letters that
    its name has in the text.
    """
    text = document.source.text
    inside = [(x.span.start, x.span.end) for x in document.formulas if x.display or x.code]
    for form in (_WORDS, _BACKWARDS):
        for found in form.finditer(text):
            if not any(a <= found.start() < b for a, b in inside):
                yield Way(" ".join(found[0].split()), backwards=form is _BACKWARDS)
    for x in (x for x in document.formulas if not x.code):
        for form in (_LIST, _FROM_ZERO):
            if (found_ := form.search(x.span.text)) is not None:
                name = GREEK.get(bare(found_["name"])[1:], bare(found_["name"])) if form is _LIST else ""
                letters = frozenset(y for base, node in names if base == name for y in _letters(node) if y not in sizes)
                yield Way(found_[0].strip(), letters,
                          display=x.span.start if x.display and form is _FROM_ZERO else -1)
        if not x.display:
            yield from (Way(y[0], frozenset(y["letter"]), alone=True) for y in _OF_ONE.finditer(x.span.text))
            below = _BELOW.fullmatch(x.span.text)
            if below is not None and bare(below["size"]) in sizes:
                yield Way(below[0].strip(), frozenset(below["letter"]), True, x.section)


def _question(said: Said, ways: Iterable[Way], declared_names: Set[str], numbered: Container[str]) -> Problem | None:
    """The question of an equation that depends on how a letter counts; None where there is none."""
    lines = said.sides or (() if said.statement is None else (said.statement,))
    if said.indices or not lines or said.fact not in ("", "a value", "a second name"):
        return None
    bodies = [c.body for line in lines for c in line.clauses]
    letters = {y for body in bodies for y in _letters(body)} - declared_names
    for way in ways:
        if way.display not in (-1, said.formula.span.start) or way.section not in (-1, said.formula.section):
            continue
        if way.letters and not way.part and way.letters <= declared_names:  # a range that is read says it
            continue
        if way.backwards:
            meant = any(True for x in bodies for _ in neighbours(x))
        else:
            meant = bool(letters & way.letters) if way.part else any(
                _depends(x, letters & way.letters if way.alone else letters, numbered) for x in bodies)
        if meant:
            return OpenReading(f"`{way.words}` says how a letter of it counts, and is not read", said.span, helps=_HELP)
    return None


def _names(found: Iterable[Said]) -> Iterator[tuple[str, s.Scripted]]:
    """The names with scripts below in the equations of a text, each with its letter before it."""
    for said in found:
        for line in said.sides or (() if said.statement is None else (said.statement,)):
            yield from ((named[0].base, x) for c in line.clauses for x in parts(c.body)
                        if isinstance(x, s.Scripted) and _below(x) and (named := head(x)) is not None)


def _below(node: s.Scripted) -> list[s.Expression]:
    """What stands in the scripts below a name, item by item."""
    found = (k.content for k in node.scripts if k.kind == "lower" and k.content is not None)
    return [y for x in found for y in (x.items if isinstance(x, s.Group) and x.open == "{" else (x,))]


def _numbered(script: s.Script) -> bool:
    """Whether a script is a subscript that holds a number."""
    content = script.content
    items = content.items if isinstance(content, s.Group) else (content,)
    return script.kind == "lower" and any(isinstance(x, s.Number) for x in items)


def _letters(node: s.Expression) -> Iterator[str]:
    """The letters in the scripts below the names of an expression: `tj` is t and j."""
    for x in parts(node):
        for item in _below(x) if isinstance(x, s.Scripted) else ():
            for word in (w for w in parts(item) if isinstance(w, s.Word) and not w.quoted):
                yield from (word.text,) if len(word.text) > 3 else word.text


def _depends(node: s.Expression, letters: Set[str], numbered: Container[str]) -> bool:
    """Whether an expression has one of the letters as a number. Letters alone in scripts, compared with each other, and
    the difference of two are the same wherever they begin to count, and so is a place before or behind one, but where
    the name has numbers in its scripts elsewhere.
    """
    match node:
        case s.Word(text):
            return text in letters and not node.quoted
        case s.Relation(found) if all(isinstance(x, s.Word) and x.text in letters for x in found):
            return False
        case s.Sum((s.Word(one), s.Word(other)), ("+", "-")) if one in letters and other in letters:
            return False
        case s.Scripted():
            named = head(node)
            counted = named is not None and named[0].base in numbered
            above = [k.content for k in node.scripts if k.kind == "upper" and k.content is not None]
            return _depends(node.base, letters, numbered) or any(
                _placed(x, letters, numbered, counted) for x in _below(node)) or any(
                _depends(x, letters, numbered) for x in above if not _label(x))
    return any(_depends(x, letters, numbered) for x in within(node))


def _placed(node: s.Expression, letters: Set[str], numbered: Container[str], counted: bool) -> bool:
    """Whether a script below computes with a letter as with a number, or is a number of a name that is `counted`."""
    match node:
        case s.Word():
            return False
        case s.Number():
            return counted
        case s.Sum((s.Word(letter), s.Number())) if letter in letters:
            return counted
        case s.Sum():
            return True
    return _depends(node, letters, numbered)


def _label(node: s.Expression) -> bool:
    """Whether a script above is in parentheses, and so no power."""
    inner = node.items[0] if isinstance(node, s.Group) and node.open == "{" and len(node.items) == 1 else node
    return isinstance(inner, s.Group) and inner.open == "("
