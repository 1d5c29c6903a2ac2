r"""The words that change no formula, from `sentence_words.txt` of the grammar, and what in formulas words name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from einc.documents.clauses import FORMULA
from einc.documents.facts import bare
from einc.documents.signs import SIGNS

_NAMES = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_IN_LETTERS = re.compile(r"\\(?:text\w*|math(?:rm|sf|tt)|operatorname\*?)\s*\{[^{}]*\}|(?<![A-Za-z\\])[a-z]{3,}")
_SCRIPT = re.compile(r"[_^]\s*(?:\{[^{}]*\}|\\[A-Za-z]+|\S)")
_COMMANDS = re.compile(r"\\(?:math[a-z]+|text[a-z]*|operatorname|boldsymbol|bm|left|right|in|times|[a-z]*dots|hat|tilde"
                       r"|bar|quad|cdot|top|sqrt|frac|sum|prod|log|exp|max|min|odot|label|begin|end)\Z")


@dataclass(frozen=True)
class Lexicon:
    """The words of the grammar that change no formula, in all their forms. `operations` are harmless but where they say
    what a name is, `elsewhere` are verbs of clauses that speak of no formula, `phrases` have other words, and `named`
    are words that name what a formula with the pattern behind them computes. `leads` are nouns for what a display says,
    `places` nouns for where it is said, `roles` the parts that a product has, `properties`
    what formulas have and `parts` patterns of what they compute on their way.
    """

    known: frozenset[str]
    operations: frozenset[str]
    elsewhere: frozenset[str]
    phrases: re.Pattern[str]
    named: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]
    leads: frozenset[str]
    places: frozenset[str]
    roles: frozenset[str]
    properties: frozenset[str]
    parts: frozenset[str]


@cache
def lexicon() -> Lexicon:
    """The file of words."""
    found: dict[str, list[str]] = {}
    for line in files("einc.grammar").joinpath("sentence_words.txt").read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(": ")
        found.setdefault(kind, []).extend([rest] if kind in ("phrase", "named") else rest.split())
    operations = frozenset(found["operations"])
    known = {*found["words"], *(y for x in found["nouns"] for y in (x, *_plural(x))),
             *(y for x in found["verbs"] for y in forms(x))}
    spelled = (x.replace("§", FORMULA).replace(" ?", r"\s*").replace(" ", r"\s+") for x in found["phrase"])
    whole = "|".join(sorted(spelled, key=len, reverse=True))
    named = (x.split(" => ") for x in found["named"])
    elsewhere = frozenset(y for x in found["elsewhere"] for y in forms(x))
    return Lexicon(frozenset(known) | operations, operations, elsewhere,
                   re.compile(rf"(?<![\w-])(?:{whole})(?![\w-])", re.I),
                   tuple((re.compile(x, re.I), re.compile(y)) for x, y in named),
                   *(frozenset(found[x]) for x in ("leads", "places", "roles", "properties", "parts")))


def _plural(noun: str) -> tuple[str, ...]:
    if noun.endswith(("rix", "dex")):
        return f"{noun[:-2]}ices", f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return (f"{noun[:-1]}ies",)
    return (f"{noun}es",) if noun.endswith(("s", "x", "ch", "sh")) else (f"{noun}s",)


def forms(verb: str) -> tuple[str, ...]:
    """A verb in the forms of regular verbs, and with its last letter twice."""
    stem, twice = verb.removesuffix("e"), f"{verb}{verb[-1]}"
    past = f"{verb[:-1]}ied" if verb.endswith("y") else f"{stem}ed"
    return verb, *_plural(verb), f"{verb}s", past, f"{stem}ing", f"{twice}ed", f"{twice}ing"


def keys_of(text: str, known: frozenset[str]) -> set[str]:
    """What a formula has that sentences name."""
    out = set(letters(text, known))
    out |= {f"function {n}" for n, x in enumerate(SIGNS) if x.stands and re.search(x.stands, text)}
    return out | {f"words {n}" for n, (_, formula) in enumerate(lexicon().named) if formula.search(text)}


def letters(text: str, known: frozenset[str], *, scripts: bool = False) -> Iterator[str]:
    """The names in a formula that are no sizes, without what stands in their `scripts` where these are not asked for.
    """
    plain = _IN_LETTERS.sub(" ", text)
    plain = plain if scripts else _SCRIPT.sub(" ", plain)
    yield from (x for x in _NAMES.findall(plain) if not _COMMANDS.match(x) and bare(x) not in known)
