r"""Sentences beside an equation that nothing understands: "Rows further away than eight are out of reach".

A sentence is understood where each of its words is one of the harmless words of the grammar, or stands in one of its
phrases: words that change a formula are no closed list, so the closed list is of those that change none. What is not
understood is told under the equations beside which it stands or whose number it names, and by its line under others of
which it names a letter or a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from einc.documents.claims import claimed, other_lead
from einc.documents.clauses import FORMULA, MARK, Prose, Sentence
from einc.documents.coverage import Unheard
from einc.documents.denoted import Telling, mentions
from einc.documents.document import Document
from einc.documents.facts import sizes
from einc.documents.lexicon import keys_of, letters, lexicon
from einc.documents.naming import names
from einc.documents.said import Said
from einc.documents.sections import Paper
from einc.documents.signs import SIGNS
from einc.documents.understood import Understood
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem, Span

# Letters of any alphabet, of which one alone that is no Latin one is a name.
_TOKEN = re.compile(rf"{FORMULA}|[A-Za-z][\w'’-]*|[^\W\d_](?:['’-]?[^\W\d_])+|\d[\d.,]*\w*|[%∞°]")
# A name that is said to be another formula, and a formula that says where a name lies or compares it.
_IS = re.compile(rf"(?P<name>{FORMULA})\s*,?\s*(?:(?:here|then|just|simply|always)\s+)*"
                 r"(?P<verb>(?:is|are|be)(?:\s+given\s+by)?|denotes?|means?|equals?|stands?\s+for|represents?)\s+"
                 r"(?P<what>[^.,;]*)", re.I)
_RELATION = re.compile(r"[=<>∈≤≥≡←∼~]|\\(?:in|leq?|geq?|lt|gt|equiv|sim|approx|ll|gg|ne|neq|subset\w*|to|mapsto)"
                       r"(?![A-Za-z])")
# A letter of a formula: of a command that is no sign only where it is a Greek one.
_LETTER = re.compile(r"(?<![\\A-Za-z])[A-Za-z]|[Α-ω]|\\(?:alpha|beta|gamma|theta|[Pp]hi|mu|rho|pi|tau|[Ll]ambda)\b")
_SHOWN = re.compile(r"\b(?:this|these|following|below|above|results?|outputs?|next|here)\b", re.I)
# An entry of a name: `W_{11} = 0`.
_ENTRY = re.compile(r"\s*\\?[A-Za-z]+\s*_\s*\{\s*\d\s*,?\s*\w\s*\}\s*=")
_MOST = 50  # sentences elsewhere that are told of one equation
_LONGEST_NAME = 5  # of capitals alone: BERT, and no word that is shouted
_NAMED = re.compile(r"[a-z][A-Z]|[A-Z]{2}")
_BEING = re.compile(r"\b(?:is|are|means?|denotes?|equals?|stands?\s+for)\b", re.I)
_NAMES_IT = re.compile(r"\s+(?:is|are|means?|denotes?)\s+(?:the|an?)\s+(?P<what>[A-Za-z-]+(?:\s+(?!(?:of|for|on|over"
                       r"|along|in|to|by|with|and|or|that|which)\b)[A-Za-z-]+){0,5})", re.I)
_KINDS = re.compile(r"\s*(?:products?|norms?|sums?|means?|functions?|activations?|convolutions?|transforms?|inverses?"
                    r"|matri\w+|distances?|multiplications?|units?|numbers?|order|noise)\b", re.I)


def unheard(paper: Paper) -> tuple[Sentence, ...]:
    """The sentences of a document that are not understood."""
    prose = Prose.of(paper.document)
    known = Understood.of(paper, prose)
    return tuple(x for x in prose.sentences if _stranger(x, known, prose.leads(x)))


def _stranger(sentence: Sentence, known: Understood, leads: bool) -> str:
    """The first word of a sentence, which `leads` to a display or does not, that neither a reader of words used nor is
    harmless, "" where there is none."""
    found = lexicon()
    words = known.without(sentence, sentence.words)
    rest = known.without(sentence, found.phrases.sub(lambda x: re.sub(r"\S", "~", x[0]), sentence.words))
    for start, clause in sentence.clauses(rest):
        tokens = list(_TOKEN.finditer(clause))
        apart = any(x[0].lower() in found.elsewhere for x in tokens)
        if apart and not (sentence.formulas or _SHOWN.search(clause) or _names_something(
                sentence.words[start : start + len(clause)])):
            continue
        for token in tokens:
            mark = token[0].startswith(MARK)
            if not (known.knows(sentence.at(start + token.start())) if mark else _is_known(
                    token, clause, re.split("[,;:]", rest[: start + token.start()])[-1], known.shown)):
                return token[0]
    if other := claimed(_without_signs(sentence, rest)) or (other_lead(sentence.words) if leads else ""):
        return other
    if (entry := next((x.span.text for x in sentence.formulas if _ENTRY.match(x.span.text)), None)) is not None:
        return entry
    if (other_name := next((x["what"].strip() for x in _IS.finditer(words) if _says_other(sentence, x)), "")):
        return other_name
    return next(_renamed(sentence.words), "")


def _without_signs(sentence: Sentence, words: str) -> str:
    """The words without the formulas that have no letter: signs, of which readers of their own hear what they denote.
    """
    return re.sub(FORMULA, lambda x: x[0] if _LETTER.search(sentence.formula(x.start())) else "~" * len(x[0]), words)


def _renamed(words: str) -> Iterator[str]:
    """The names of functions that words say a function to be, which are none of its usual names: "LN is the group
    normalization"."""
    nouns = {y for x in SIGNS if x.function for y in x.nouns.split()}
    for one in (x for x in mentions(words) if x.sign.function and not x.given):
        found = _NAMES_IT.match(words, one.end)
        if found is not None and nouns & {*found["what"].lower().split()} and Telling(one.sign, found["what"], 0).other:
            yield found["what"]


def _is_known(token: re.Match[str], clause: str, before: str, shown: str) -> bool:
    """Whether a word of a clause, `before` which these words stand, is harmless, or a name of something. A word for
    what a formula computes is harmless where a formula computes that.
    """
    known, word = lexicon().known, re.sub(r"['’]s?\Z", "", token[0]).strip("-.,")
    if any(words.search(word) and not formula.search(shown) for words, formula in lexicon().named):
        return False
    if word.lower() in known or all(x.lower() in known for x in word.split("-")):
        return True
    function = next((x for x in SIGNS if x.function and re.fullmatch(x.words, word)), None)
    if function is not None:
        return re.search(function.stands, shown) is not None
    name = _NAMED.search(word) is not None and not (word.isupper() and len(word) > _LONGEST_NAME)
    return name and not (_KINDS.match(clause, token.end()) or _function_is(before))


def _function_is(words: str) -> bool:
    """Whether words say what a function is, or which: "The ReLU is that of"."""
    found = _BEING.search(words)
    return found is not None and any(x.sign.function for x in mentions(words[: found.start()]))


def _names_something(words: str) -> bool:
    """Whether words name a function or what a formula computes."""
    return any(x.search(words) for x, _ in lexicon().named) or bool(mentions(words))


def _says_other(sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether a name is said to be another formula, or what an operation makes."""
    if _RELATION.search(sentence.formula(found.start("name"))):
        return False
    what = found["what"]
    if what.startswith(MARK):
        value = sentence.formula(found.start("what"))
        return not _RELATION.search(value) and not value.strip().isdigit()
    return any(x.lower() in lexicon().operations for x in re.findall(r"[A-Za-z]+", what)) and re.search(
        r"\b(?:of|from)\s+(?:the\s+|all\s+|its\s+)?\W*", what) is not None


# of which equations they speak

def unheard_of(paper: Paper) -> dict[Said, Unheard]:
    """Of each equation that is read as a formula the sentences that are not understood, where it has such."""
    document, found = paper.document, paper.said
    prose, strangers = Prose.of(document), unheard(paper)
    known, by = sizes(document) if strangers else frozenset(), dict[str, list[Sentence]]()
    for one in strangers:
        for key in _keys(one, known):
            by.setdefault(key, []).append(one)
    odd, called, out = frozenset(strangers), _called(document), dict[Said, Unheard]()
    for said in (x for x in found if strangers and _computes(x)):
        near = {x for x in prose.beside(said.formula) if x in odd}
        near |= {x for key in called.get(said.formula.span.start, ()) for x in by.get(key, ())}
        named = [by[key] for key in keys_of(said.span.text, known) if key in by]
        far = _in_order({x for some in named for x in some[: _MOST + len(near) + 1]} - near)
        if near or far:
            out[said] = Unheard(_in_order(near), far[:_MOST], len(far) > _MOST)
    return out


def _in_order(found: Iterable[Sentence]) -> tuple[Span, ...]:
    """The places of sentences as they follow one another."""
    return tuple(sorted((x.span for x in found), key=lambda x: x.start))


def _keys(sentence: Sentence, known: frozenset[str]) -> set[str]:
    """What a sentence names: letters, functions, words for what a formula computes, and numbers of equations."""
    text = sentence.words
    out = {x for formula in sentence.formulas for x in letters(formula.span.text, known)}
    out |= {f"function {SIGNS.index(x.sign)}" for x in mentions(sentence.span.text)}
    out |= {f"words {n}" for n, (words, _) in enumerate(lexicon().named) if words.search(text)}
    return out | {f"number {x}" for x in sentence.references}


def _called(document: Document) -> dict[int, list[str]]:
    """The labels and numbers of displays, by where their formulas begin."""
    out: dict[int, list[str]] = {}
    starts = [x.span.start for x in document.formulas if x.display]
    for one in names(document):
        at = max((x for x in starts if x <= one.span.start), default=-1)
        out.setdefault(at, []).extend(f"number {x}" for x in (one.label, one.number) if x)
    return out


def refused(paper: Paper) -> Paper:
    """The paper, of whose equations those are questions that have sentences beside them that are not understood."""
    told = {x: y.beside[0] for x, y in unheard_of(paper).items() if y.beside}
    return replace(paper, said=tuple(
        replace(x, statement=None, sides=(), fact="", problem=_question(x, told[x])) if x in told else x
        for x in paper.said))


def _question(said: Said, sentence: Span) -> Problem:
    """The question whether a sentence changes an equation."""
    words = " ".join(sentence.text.split())
    return OpenReading(f"whether `{words}` changes it is not understood", said.span, helps=(
        Help(f'state it as a formula, or in a side file that it changes nothing: `ignore "{quoted(sentence)}"`'),))


def quoted(span: Span) -> str:
    """The words of a sentence as a line of a side file may have them: on one line, its longest part without quotes."""
    return max(" ".join(span.text.split()).split('"'), key=len).strip()


def _computes(said: Said) -> bool:
    """Whether it is an equation that is read as a formula."""
    return (said.statement is not None or bool(said.sides)) and not (said.indices or said.fact or said.skip)
