"""What a sentence says by its structure, whatever its words: what leads to a display says what the display is, and a
sentence whose subject is a thing of an equation gives that thing a property or says that it is another one.

A lead is understood where the noun in front of its verb is one of the closed list of nouns for what equations are:
"The output is" says no more than the display, and "The counterexample is" says that nobody means it. A sentence with an
operation, a function or a letter for its subject is not understood where the words behind its verb are another
operation, or a quantity that formulas have ("a learned temperature"): a reader has to use such words.
"""

from __future__ import annotations

import re
from functools import cache

from einc.documents.clauses import FORMULA, MARK
from einc.documents.lexicon import lexicon
from einc.documents.signs import SIGNS

_REST = rf"[^,;:{MARK}]*?"
_IS = r"(?:is|are|means?|denotes?|equals?|reads?)"
_HAS = (r"(?:is|are|means?|denotes?|equals?|has|have|includes?|contains?|holds?|depends?|enters?|comes?\s+with"
        r"|belongs?)")
_ADVERBS = r"(?:(?:also|always|here|then|just|simply)\s+)*"
_LAST = re.compile(rf"\b{_IS}\b\s*(?:(?:then|now|thus|simply|therefore)\s+)*\w*"
                   r"\s*(?:by|as|to\s+be)?\s*:?\s*\Z", re.I)
# A verb that says what might be, was, or is only thought.
_SUPPOSED = re.compile(r"\b(?:would|could|might|were|was|had|believed?|thought|assumed?)\b", re.I)
_WITHIN = re.compile(r"\A\W*(?:but\s+|and\s+)?(?:in|for|at|under|before|after|near)\s+"
                     r"(?:(?:the|an?|one|this|its|our|each|every)\s+)?(?P<noun>(?:[\w-]+\s+)*?[\w-]+)"
                     r"(?=\s*(?:,|\Z)|\s+(?:of|we|one|the|to)\b)", re.I)
# An equation that is said for one of several places holds there alone.
_ONE_OF = re.compile(r"\b(?:first|last|next|previous|second|final|backward|reverse|only)\b", re.I)
_OF = re.compile(r"\s+(?:of|for|from|with|in|on|over|between|at|by|to|without)\s+", re.I)
_THOSE = r"(?:those|that)\s+of"  # what another thing has
_NOUN = re.compile(rf"(?P<noun>[A-Za-z][\w-]*)\W*(?:{FORMULA})?\W*\Z")


def other_lead(words: str) -> str:
    """The words of what leads to a display that say that the display is something else than an equation of its text,
    "" where none do."""
    if (found := _SUPPOSED.search(words)) is not None:
        return found[0]
    within = _WITHIN.match(words)
    if within is not None and (_ONE_OF.search(within["noun"]) or not _is_place(within["noun"].split()[-1])):
        return within["noun"]
    last = re.split(rf"[,;:.](?=\s)|{FORMULA}\s+and\s", words.rstrip(" :"))[-1]
    found = _LAST.search(last)
    if found is None:
        return ""
    phrase = re.sub(r"\A\W*(?:(?:the|an?|our|where|so|thus|hence|here|then|and)\s+)*", "", last[: found.start()],
                    flags=re.I)
    if (one := _ONE_OF.search(_OF.split(phrase)[0])) is not None:
        return one[0]
    head = _NOUN.search(_OF.split(phrase)[0])
    return head["noun"] if head is not None and not _is_lead(head["noun"]) else ""


def claimed(words: str) -> str:
    """The words that give a thing of an equation a property that changes it, or say that it is another operation; ""
    where there are none. What readers used is none of the words."""
    found = _given().search(words) or _named().search(words) or _enters().search(words) or _between().search(words)
    return found["what"] if found is not None else ""


def _is_lead(noun: str) -> bool:
    return noun.lower() in lexicon().leads


def _is_place(noun: str) -> bool:
    return noun.lower() in lexicon().places


def _parts() -> str:
    """What names a value that formulas compute on their way, as alternatives of a pattern."""
    return "|".join(sorted(lexicon().parts))


@cache
def _things() -> str:
    """What names an operation or a function, as alternatives of a pattern."""
    functions = (x.words.removeprefix(r"\b").removesuffix(r"\b") for x in SIGNS if x.function)
    return "|".join((*sorted(lexicon().operations), *(f"(?-i:{x})" for x in functions)))


@cache
def _given() -> re.Pattern[str]:
    """A thing that is said to have a property: "the norm has a learned offset"."""
    what = "|".join(sorted(lexicon().operations | lexicon().properties))
    return re.compile(rf"\b(?:{_things()}|{_parts()})\b{_REST}\b{_HAS}\b{_REST}"
                      rf"\b(?P<what>{what}|{_things()}|{_THOSE})\b", re.I)


@cache
def _enters() -> re.Pattern[str]:
    """Something that becomes a part of what is computed: "a position encoding enters the scores"."""
    return re.compile(rf"\b(?:enters?|joins?)\s+(?:\w+\s+){{0,2}}(?P<what>{_things()}|{_parts()})\b", re.I)


@cache
def _named() -> re.Pattern[str]:
    """A name that is said to be what an operation makes: "$X$ is the output of the exponential"."""
    return re.compile(rf"{FORMULA}\s*{_ADVERBS}{_HAS}\s+(?!\w+ed\s+by\b){_REST}"
                      rf"\b(?P<what>{_things()}|gradients?|derivatives?)\b", re.I)


@cache
def _between() -> re.Pattern[str]:
    """One of the parts that sentences know by their role, which is said to be another: "the keys are the values"."""
    roles = "|".join(sorted(lexicon().roles))
    return re.compile(rf"\b(?:{roles})\b(?:\s+(?:of|for)\s+(?:\w+\s+){{0,2}}\w+)?\s+"
                      r"(?:is|are|takes?\s+the\s+place\s+of)\s+"
                      rf"(?:(?:weighted\s+by|the|its|their|own|all|also|an?)\s+){{0,4}}"
                      rf"(?P<what>{roles}|{_THOSE})\b", re.I)
