r"""Sentences that speak of an equation and are not understood: "$W$ is transposed before use".

A clause speaks of an equation where its subject, or what "we" do something to, is a letter, a sign or a function of it,
or a word for what is computed as a whole. It is understood where each of its words is one of the harmless words of the
grammar, or stands in one of its phrases: all else may change the formula, and is a question. The harmless words are a
closed list, since those that change a formula are none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files

from einc.documents.denoted import mentions
from einc.documents.document import Document, Formula
from einc.documents.facts import bare, written
from einc.documents.pieces import outside
from einc.documents.said import Known, Said
from einc.documents.signs import SIGNS, Sign
from einc.documents.stops import denied, sentences
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem

_MARK, _SHOWN = "§", "¶"  # a formula in a line, and a display
# What a text has besides its words: code, comments, links, and commands with what they name.
_NO_WORDS = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|<!--.*?-->|<[^<>\n]{1,60}>|(?<!\\)%[^\n]*|https?://\S+"
    r"|!?\[[^\]\n]*\]\([^)\n]*\)|\([^()]*\d{4}[^()]*\)|\[[\d, –-]+\]"
    r"|\\(?:cite\w*|[a-z]*ref|label|begin|end|usepackage|documentclass|bibliography\w*|input|include|newcommand"
    r"|renewcommand|author|title|date|vspace|hspace)\*?(?:\[[^\]]*\])?\{[^{}]*\}(?:\[[^\]]*\]|\{[^{}]*\})*"
    r"|\\[A-Za-z]+\*?", re.S)
_TOKEN = re.compile(rf"{_MARK}\d*|[A-Za-z][A-Za-z0-9'’-]*|\d[\d.,]*\w*|[%∞°]")
_NAMES = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_IN_LETTERS = re.compile(r"\\(?:text\w*|math(?:rm|sf|tt)|operatorname\*?)\s*\{[^{}]*\}|(?<![A-Za-z\\])[a-z]{3,}")
_SCRIPT = re.compile(r"[_^]\s*(?:\{[^{}]*\}|\\[A-Za-z]+|\S)")
_COMMANDS = re.compile(r"\\(?:math[a-z]+|text[a-z]*|operatorname|boldsymbol|bm|left|right|in|times|[a-z]*dots|hat|tilde"
                       r"|bar|quad|cdot|top|sqrt|frac|sum|prod|log|exp|max|min)\Z")
_RELATION = re.compile(r"[=<>∈≤≥≡←∼~]|\\(?:in|leq?|geq?|lt|gt|equiv|sim|approx|ll|gg|ne|neq|subset\w*|to|mapsto)"
                       r"(?![A-Za-z])")
_DECLARED = re.compile(r"\\in(?![A-Za-z])|∈")
_COST = re.compile(r"\s*(?:\\mathcal\s*\{?\s*)?(?:[OΘ]|\\Theta|\\Omega)\}?\s*(?:\\left)?\(")
# What stands between a name and the formula that it is said to be.
_ADVERBS = r"(?:(?:here|then|just|simply|always)\s+)*"
_IS = re.compile(rf"{_MARK}(?P<name>\d+)\s*,?\s*{_ADVERBS}(?:is|are|be|denotes?|means?|equals?|becomes?|stands?\s+for"
                 rf"|represents?)\s+{_ADVERBS}{_MARK}(?P<value>\d+)(?!-)", re.I)
_OF = re.compile(r"\b(?:of|in|for)\s+\Z")
# A factor, which the displays have to have where the words say it, and what a name is said to be used as.
_TAKES = re.compile(r"\b(?P<verb>(?:divid|scal|rescal|multipl)\w*)\b(?P<what>[^.]*?)\bby\s+"
                    rf"(?:(?:the|a)\s+\w+\s+(?:of\s+)?)?(?P<value>{_MARK}\d+)", re.I)
_USED_AS = re.compile(rf"\b(?:applied|used|taken|read|meant)\s+as\s+(?P<value>{_MARK}\d+)", re.I)
_ENTRY = re.compile(r"(?P<base>\\?[A-Za-z]+)_\{?\d\s*,?\s*\w\}?=")
_CONTENTS = re.compile(r"(?<!\S)\d+\.\d+\s+\S.*\s\d+\.\d+\s", re.S)  # a table of contents
# Where a clause of a sentence ends. Behind some of these words it is a reason or a purpose, and behind others it goes
# on from the one before it where it begins as if it did.
_CLAUSE = re.compile(r"[,;:()]|\s—\s|--+|(?:\A|\s)(?P<own>because|since|although|so\s+that|such\s+that|if|when|while"
                     r"|whereas|(?<!is\s)(?<!are\s)(?<!has\s)(?<!have\s)to|and|but|or|which|where|that|then)(?=\s)",
                     re.I)
_REASON = re.compile(r"because|since|although|if|when|while|whereas|to|such\s+that", re.I)
_INHERITS = re.compile(r"\W*(?:it|they|its|their|them|which|this|these|is|are|has|have|\w+(?:ed|ing)"
                       r"|twice|then|not|up|plus)\b", re.I)
_GOES_ON = re.compile(r"\W*\w+(?:ed|ing)\b(?!\s+(?:is|are|has|have)\b)", re.I)
_WE = re.compile(r"\b(?:we|one|you|us)\s+(?:(?:will|shall|can|may|must|should|has|have|had|always|also|then|first|now"
                 r"|simply|just|again|finally|do|further|instead|here|only|to|not|never)\s+)*[a-z]+\s+"
                 r"(?:(?!(?:to|on|in|for|by|with|at|from|as)\b)[\w'-]+\s+){0,4}\Z", re.I)
_FINITE = re.compile(r"(?:is|are|was|were|be|has|have|had|can|could|may|might|must|will|would|should|do|does|did|we|it"
                     r"|they|you|one|us)\b", re.I)
# What ends a clause of which a display says the rest: "the update is".
_BEFORE_SHOWN = re.compile(r"\b(?:is|are|reads?|becomes?|follows?|computes?|as|by|has\s+the\s+\w+)[\s:]*"
                           rf"(?:{_SHOWN}\s*)?\Z", re.I)
_INSIDE = re.compile(rf"(?<!{_MARK})(?<!{_MARK}\d)(?<!{_MARK}\d\d)(?<!{_MARK}\d\d\d)[^{_MARK}\s]")  # but for marks
# A capital letter begins a name, but not where what stands behind it says of which kind a function is.
_NAMED = re.compile(r"[a-z][A-Z]|[A-Z]{2}")
_KINDS = re.compile(r"(?:products?|norms?|sums?|means?|functions?|activations?|convolutions?|transforms?|inverses?"
                    r"|matri\w+|distances?|multiplications?|units?|numbers?|order)\b", re.I)


@dataclass(frozen=True)
class Words:
    """The harmless words, in all their forms, and the phrases, of which other words are harmless, too. `whole` are
    words for what is computed as a whole. `shown` are words that are harmless where the formulas of their section have
    what a pattern says: that a position sees the past alone, where they compare positions.
    """

    known: frozenset[str]
    verbs: frozenset[str]
    phrases: re.Pattern[str]
    whole: re.Pattern[str]
    shown: tuple[tuple[re.Pattern[str], frozenset[str]], ...]


@cache
def harmless() -> Words:
    """The file of harmless words."""
    nouns, verbs, phrases, whole, shown = set[str](), set[str](), list[str](), list[str](), []
    for line in files("einc.grammar").joinpath("harmless_words.txt").read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(": ")
        match kind.partition(" "):
            case "words", _, _:
                nouns.update(rest.split())
            case "nouns", _, _:
                nouns.update(form for x in rest.split() for form in (x, *_plural(x)))
            case "verbs", _, _:
                verbs.update(rest.split())
            case "whole", _, _:
                whole += rest.split()
            case "phrase", _, _:
                phrases.append(rest.replace(_MARK, rf"{_MARK}\d+").replace(" ", r"\s+"))
            case "where", _, pattern:
                shown.append((re.compile(pattern), frozenset(rest.split())))
    finite = frozenset(y for x in verbs for y in (x, *_plural(x)))
    return Words(frozenset(nouns | {y for x in verbs for y in _forms(x)}), finite - nouns,
                 re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(phrases, key=len, reverse=True))})(?![\w-])", re.I),
                 re.compile(rf"(?<![\w-])(?:{'|'.join(whole)})(?![\w-])", re.I), tuple(shown))


def _plural(noun: str) -> tuple[str, ...]:
    return (f"{noun[:-2]}ices", f"{noun}es") if noun.endswith(("rix", "dex")) else (
        f"{noun[:-1]}ies", f"{noun}s") if noun.endswith("y") else (
        (f"{noun}es",) if noun.endswith(("s", "x", "ch", "sh")) else (f"{noun}s",))


def _forms(verb: str) -> tuple[str, ...]:
    stem = verb.removesuffix("e")
    twice = f"{verb}{verb[-1]}"
    past = f"{verb[:-1]}ied" if verb.endswith("y") else f"{stem}ed"
    return (verb, *_plural(verb), past, f"{stem}ing", f"{twice}ed", f"{twice}ing")


@dataclass(frozen=True)
class Unheard:
    """A sentence with words that are not harmless, the first of them, and of what it speaks."""

    text: str
    word: str
    section: int
    names: frozenset[str]
    signs: tuple[Sign, ...] = ()
    whole: bool = False

    def touches(self, said: Said) -> bool:
        """Whether it speaks of an equation."""
        text = _IN_LETTERS.sub(" ", said.span.text)
        return self.whole or not self.names.isdisjoint(_NAMES.findall(text)) or any(
            x.stands and re.search(x.stands, said.span.text) for x in self.signs)

    def problem(self, said: Said) -> Problem:
        """The question whether it changes an equation."""
        return OpenReading(f"does `{self.text}` change it? `{self.word}` in it is not understood", said.span, helps=(
            Help("say it in a formula, or in words that change nothing"),))


@dataclass(frozen=True)
class _Text:
    """The words of a document with a mark for each formula in a line, the sentences of which its other pieces end."""

    words: str
    starts: tuple[int, ...]  # where in `words` the pieces between formulas begin
    places: tuple[int, ...]  # where these stand in the document

    @classmethod
    def of(cls, document: Document) -> _Text:
        """The words of a document."""
        text = document.source.text
        cuts = [(*outside(text, x.span.start, x.span.end, x.display),
                 f"{_SHOWN}\n\n" if x.display or x.code else f" {_MARK}{n} ") for n, x in enumerate(document.formulas)]
        others = [*(x.span for x in (*document.headings, *document.algorithms)), *(x.span for x in document.fences)]
        cuts += [(x.start, x.end, "\n\n") for x in (*others, *document.definitions())]
        out, starts, places, at, length = list[str](), [0], [0], 0, 0
        for start, end, mark in sorted(cuts):
            if start >= at:
                piece = text[at:start].rstrip() if mark.startswith(_SHOWN) else text[at:start]
                out += [piece, mark]
                length += len(piece) + len(mark)
                at = end
                starts.append(length)
                places.append(at)
        return cls("".join([*out, text[at:]]), tuple(starts), tuple(places))

    def place(self, at: int) -> int:
        """Where in the document a place of the words is."""
        n = bisect_right(self.starts, at) - 1
        return self.places[n] + at - self.starts[n]


def unheard(document: Document, known: Known) -> list[Unheard]:
    """The clauses of a document that speak of something, with words that are not harmless."""
    found, text = [], _Text.of(document)
    starts = [x.span.start for x in document.headings]
    for start, sentence in sentences(_NO_WORDS.sub(lambda x: " " * len(x[0]), text.words)):
        section = bisect_right(starts, text.place(start + len(sentence) - len(sentence.lstrip()))) - 1
        at = _Place(document, known, section)
        found += [replace(x, text=_restored(document, sentence), section=section) for x in _of_clauses(at, sentence)]
    return found


@dataclass(frozen=True)
class _Place:
    """A section of a document, what the text says before its equations are read, and what its formulas have."""

    document: Document
    known: Known
    section: int

    def text(self, n: str) -> str:
        """A formula in a line of text by its number."""
        return self.document.formulas[int(n)].span.text

    @cached_property
    def shown(self) -> str:
        """The displays of the document."""
        return " ¶ ".join(_squeezed(x.span.text) for x in self.document.formulas if x.display)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words that are harmless here because the formulas of the section, or those in it, say the same."""
        own = "\n".join(x.span.text for x in self.document.formulas if self.section in self.document.around(x.section))
        return frozenset(y for pattern, words in harmless().shown if pattern.search(own) for y in words)

    def declares(self, n: str) -> bool:
        """Whether a formula gives names a shape that displays have."""
        text = self.text(n)
        names = _NAMES.findall(_SCRIPT.sub(" ", _DECLARED.split(text)[0]))
        return _DECLARED.search(text) is not None and any(x in self.shown for x in names if not _COMMANDS.match(x))


def _restored(document: Document, words: str) -> str:
    """Words with the formulas that their marks stand for."""
    shown = re.sub(rf"{_MARK}(\d+)", lambda x: f"${document.formulas[int(x[1])].span.text}$", words)
    return " ".join(shown.replace(_SHOWN, "").split())


def _of_clauses(place: _Place, sentence: str) -> Iterator[Unheard]:
    """The clauses of a sentence that speak of something and have words that are not harmless. A clause without a
    subject goes on from the one before it. One that ends before a display with a verb says of what that is the value.
    """
    if _CONTENTS.search(sentence):
        return
    for n in re.findall(rf"{_MARK}(\d+)", sentence):
        entry = _ENTRY.match(_squeezed(place.text(n)))
        if entry is not None and entry["base"] in place.known.shaped:
            yield Unheard("", place.text(n), 0, frozenset({entry["base"]}))
    rest = harmless().phrases.sub(lambda x: _INSIDE.sub("~", x[0]), sentence)
    about: Unheard | None = None
    at, lead = 0, ""
    for end in (*_CLAUSE.finditer(rest), None):
        clause, whole = rest[at : end.start() if end else len(rest)], sentence[at : end.start() if end else len(rest)]
        own = _about(place, whole) if not _GOES_ON.match(clause) else None
        about = own or (about if not _REASON.fullmatch(lead) and _INHERITS.match(clause) else None)
        if about is not None and not (_BEFORE_SHOWN.search(clause) and _SHOWN in rest[at:]):
            word = _stranger(place, clause, about.signs, at == 0) or _formula(place, clause)
            if word:
                yield replace(about, word=word)
        if end is not None:
            at, lead = end.end(), end["own"] or ""


def _about(place: _Place, clause: str) -> Unheard | None:
    """Of what a clause speaks: what stands in it before its verb, or what "we" do something to; None without such."""
    restored = re.sub(rf"{_MARK}(\d+)", lambda x: f"${place.text(x[1])}$", clause)
    names = frozenset(y for x in re.finditer(rf"{_MARK}(\d+)", clause)
                      if "=" not in place.text(x[1]) and _leads(clause[: x.start()])
                      for y in _named(place.document.formulas[int(x[1])], place.known.sizes))
    signs = tuple(x.sign for x in mentions(restored) if _leads(restored[: x.start]))
    whole = any(_leads(clause[: x.start()]) for x in harmless().whole.finditer(clause))
    return Unheard("", "", 0, names, signs, whole) if names or signs or whole else None


def _leads(before: str) -> bool:
    """Whether what stands behind these words of a clause is its subject, or that to which "we" do something."""
    words = re.findall(r"[A-Za-z][\w'-]*", before)
    return _WE.search(before) is not None or (len(words) <= 6 and not any(
        _FINITE.fullmatch(x) or x.lower() in harmless().verbs for x in words))


def _stranger(place: _Place, clause: str, signs: Iterable[Sign], first: bool) -> str:
    """The first word of a clause that is not harmless, "" where there is none; it is the `first` of its sentence.
    Usual words for the `signs` of which it speaks are.
    """
    named = {x.words for x in signs}
    known = harmless().known | place.words | {y for x in signs for y in x.usual.split()}
    clause = _TAKES.sub(r"\g<what> \g<value>", clause)
    for n, found in enumerate(_TOKEN.finditer(clause)):
        token = found[0].removesuffix("'s").removesuffix("’s").strip("'’-.,")
        if token.startswith(_MARK) or token.lower() in known or all(
                x.lower() in known for x in token.split("-")) or _of_function(token) or any(
                re.search(x, token) for x in named):
            continue
        name = token[:1].isupper() and (n or not first or _NAMED.search(token))
        if name and not _KINDS.match(clause, found.end() + 1):
            continue
        ahead = re.match(rf"(?:\s+[\w~-]+){{0,4}}\s+{_MARK}(\d+)", clause[found.end() :])
        if ahead and not token.endswith("ed") and place.declares(ahead[1]):
            continue  # "a writing strength $b \in (0, 1)$"
        return token
    return ""


@cache
def _of_function(token: str) -> bool:
    """Whether a word is the name of a function."""
    return any(x.function and re.fullmatch(x.words, token) for x in SIGNS)


def _formula(place: _Place, clause: str) -> str:
    """The formula of a clause that is said to be the value of a name, or part of an equation, and is not read; ""
    where there is none.
    """
    shaped, sizes, text = place.known.shaped, place.known.sizes, place.text
    for x in _IS.finditer(clause):
        value = text(x["value"])
        apart = _RELATION.search(value) or _COST.match(value) or _only_sizes(value, sizes)
        if _OF.search(clause, 0, x.start()) is None and written(text(x["name"])) in shaped and not apart:
            return value
    for x in (y for form in (_TAKES, _USED_AS) for y in form.finditer(clause) if not denied(clause[: y.start()])):
        value = re.sub(r"^(?:1/|\\[dt]?frac\{?1\}?)", "", _squeezed(text(x["value"][1:]))).strip("{}")
        if value not in place.shown and not _RELATION.search(value):
            return text(x["value"][1:])
    return ""


def _squeezed(text: str) -> str:
    """A formula without spaces."""
    return re.sub(r"\\left|\\right|[\s&]|\\[,;:!]", "", text)


def _only_sizes(text: str, sizes: Container[str]) -> bool:
    """Whether a formula has no letters but sizes."""
    return all(_COMMANDS.match(x) or bare(x) in sizes for x in _NAMES.findall(_IN_LETTERS.sub(" ", text)))


def _named(formula: Formula, sizes: Container[str]) -> Iterator[str]:
    """The names in a formula, without what stands in their scripts."""
    text = _IN_LETTERS.sub(" ", formula.span.text)
    yield from (x for x in _NAMES.findall(_SCRIPT.sub(" ", text)) if not _COMMANDS.match(x) and bare(x) not in sizes)


def heard(document: Document, found: list[Said], known: Known) -> list[Said]:
    """The equations, of which those are questions of which a sentence says what is not understood: those of its
    section and the sections in it, and where none of these is meant, those of all.
    """
    asked: dict[int, Unheard] = {}
    for one in unheard(document, known):
        meant = [n for n, x in enumerate(found) if _computes(x) and one.touches(x)]
        near = [n for n in meant if one.section in document.around(found[n].formula.section)]
        for n in near or meant:
            asked.setdefault(n, one)
    return [replace(x, statement=None, sides=(), fact="", problem=asked[n].problem(x)) if n in asked else x
            for n, x in enumerate(found)]


def _computes(said: Said) -> bool:
    """Whether it is an equation that is read as a formula."""
    return (said.statement is not None or bool(said.sides)) and not (said.indices or said.fact or said.formula.code)
