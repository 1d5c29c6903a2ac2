"""Words beside a formula that deny it, or say under which condition it holds: then it may be no definition."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.shapes import parts, words
from einc.documents.document import Document, Formula
from einc.documents.facts import written
from einc.documents.said import Known, Said, left_symbol, scripts
from einc.documents.shapes import FACT
from einc.documents.stops import PARAGRAPH, SENTENCE
from einc.documents.unnamed import is_function
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Problem
from einc.syntax import tree as s

REACH = 400  # characters of prose on either side of a formula that are looked at

# Formulas in a sentence are words in angle brackets that say their kind: a comparison of places (`t > 1`), one of
# numbers (`u > 0`), one of what has indices (`x_t > 0`), an equation, and any other.
_ANY = r"<(?:places|numbers|values|equation|other)>"
_VALUES, _NUMBERS = "<values>", "<(?:numbers|values)>"
_IF = r"\b(?:if|when|whenever|unless|provided(?: that)?|assuming(?: that)?|as long as|in case)"
_KIND = (r"(?:(?:every|all|any|very|sufficiently|the) )*(?:positive|negative|large|small|non-?negative|non-?zero"
         r"|non-?positive)\b")
_SIGNED = r"(?:not )?(?:positive|negative|zero|large|small|true|false|non-?negative|non-?zero|nonpositive)\b"
_TO = r"(?: (?!we\b|one\b|it\b|is\b|are\b|use\b)[\w-]+){0,5}[:,]?"  # a few words up to the formula, and no new clause
_PHASE = (r"\b(?:during|at|in) (?:the )?(?:training|inference|evaluation|test|testing|validation|decoding)"
          r"(?: (?:time|phase|stage|mode))?")
# Two places compared in words: "$s$ is at most $t$", "$s$ precedes $t$".
_PLACED = (r"(?:(?:is|are|lies?|comes?) (?:not )?(?:strictly )?(?:at (?:most|least)|no (?:more|less|larger|smaller)"
           r"|no (?:greater|later|earlier)|smaller|larger|less|greater|bigger|earlier|later|before|after|behind|equal"
           r"|even|odd|in the (?:past|future))|precedes?|follows?|exceeds?|(?:does|do) not (?:exceed|precede|follow)"
           r"|equals?)\b")
_PAST = (r"(?:past|previous|earlier|future|later|preceding|following|visible|valid|allowed) (?:\w+ )?"
         r"(?:<other>|positions|tokens|steps)")
_BAD = (r"(?:bad|wrong|incorrect|false|not (?:true|correct|right|valid|possible|used)|never (?:true|used)|mistaken"
        r"|unstable|impossible|invalid|inadequate|untrue)\b")
_THIS = r"(?:equation|formula|expression|identity|definition|line|display)s?"
_SUCH = r"for (?:example|instance)|e\.g|such as|say|like"
_SCALES = r"(?:scales?|multipl(?:y|ies)|weighs?|weights?|gates?)\b"
_LINES = r"(?:rows?|columns?|channels?|tokens?|positions?|entry|entries|elements?|components?|features?)\b"
_NOT = r"\b(?:does|do|did|can|could|would|will) ?(?:not|n't|never) (?:hold|work|apply|exist|converge|suffice)\b"


@dataclass(frozen=True)
class Words:
    """Words that limit a formula where they stand before it in its sentence or behind it. `of`: only those of that
    kind, functions, what stands in a line of text, functions that do.
    `cases`: what the formula defines is something else otherwise.
    """

    before: str = ""
    behind: str = ""
    of: str = ""
    sentences: int = 1  # how far back they may stand
    cases: bool = False


TABLE = (
    # a condition on values
    Words(rf"{_IF} (?:that )?{_NUMBERS}", rf"^\W*{_IF} (?:that )?{_NUMBERS}", cases=True),
    Words(rf"\bfor (?:all |any |every )?{_VALUES}", rf"^\W*for (?:all |any |every )?{_VALUES}", cases=True),
    Words(rf"{_IF} (?:[\w-]+ ){{0,3}}(?:{_ANY} )?(?:is|are) {_SIGNED}",
          rf"^\W*{_IF} (?:{_ANY}|\w+) (?:is|are) {_SIGNED}", cases=True),
    Words(rf"(?:{_IF}|\bwhere) (?:that )?(?:<other>|\w+) {_PLACED}",
          rf"^\W*(?:{_IF}|where|but only if|only if) (?:that )?(?:<other>|\w+) {_PLACED}", cases=True),
    Words(rf"\bfor (?:all |any |every |each )?(?:the )?{_PAST}",
          rf"^\W*for (?:all |any |every |each )?(?:the )?{_PAST}"),
    Words(r"\b(?:unless|except (?:for|when|where|if)) (?:all |any )?<places>[,:]?(?: \w+){0,2}[,:]? ?$",
          r"^\W*(?:unless|except (?:for|when|where|if)|not (?:for|when|where|if)) (?:all |any )?<places>", cases=True),
    Words("", r"^\W*(?:(?:for|if|when|whenever|where) (?:all |any |every )?<places>)?[\s,;]*(?:and|or|but)?"
          r"(?: is| it is| set to)?[\s,]*(?:<other>|<numbers>|zero|one|nothing|\w+) (?:otherwise|elsewhere|else)\b",
          cases=True),
    Words(r"\b(?:otherwise|or else|in (?:all )?other cases|in the other case)\b[,:]?(?: we \w+)?[:,]? ?$",
          r"^\W*(?:otherwise|or else|in (?:all )?other cases)\b"),
    Words(rf"{_PHASE},?(?: we \w+| the [\w-]+(?: \w+)? (?:is|are))?[:,]? ?$",
          rf"^\W*{_PHASE}(?!,? we [^:]*:$)"),  # "during inference we have the following steps:" speaks of what follows
    Words(rf"{_IF} (?:that )?$", of="line"),
    # a denial
    Words(r"\b(?:not (?:be )?true|not correct|not the case|untrue|wrong|incorrect|false|a mistake) (?:to|that)\b"
          rf"{_TO} ?$"),
    Words(rf"\b(?:not|never|n't) (?:use|compute|take|set|define|write|let|have)\b{_TO} ?$"),
    Words(r"\b(?:instead of|rather than|as opposed to|in place of|(?:and|but) not)"
          r"(?: (?:defin|us|comput|tak|writ|sett)ing"
          r"| the (?:usual |standard |common )?(?:choice|definition|equation|form|formula|rule))?[:,]? ?$"),
    Words(r"\bnot[:,]? ?$"),
    Words(*2 * (r"\bup to (?:an? |the )?(?:\w+ )?(?:sign|factor|constant|normali[sz]ation|scaling|scale|shift)\b",)),
    Words(r"\b(?:factor|constant|transpose|sign|normali[sz]ation|scal\w+)s?\b[^.]*\b(?:suppressed|omitted|dropped"
          r"|left out)\b|\bsuppress\w*|\bdo not write\b"
          r"|\b(?:omitted|dropped|missing) (?:from|in) the notation\b", sentences=2),
    Words(rf"\b{_THIS} (?:\w+ ){{0,2}}(?:is|are) (?:\w+ ){{0,2}}?{_BAD}"
          rf"|\b{_THIS} (?:\w+ ){{0,2}}(?:do|does|did)(?: not|n't) hold\b|\b{_THIS} [^.]{{0,40}}\boff by\b"
          rf"|\b(?:this|it|that) is (?:\w+ )?{_BAD}\b[:,]? ?$|\bholds? (?:only )?(?:approximate|near|rough)ly\b"
          rf"|\b{_THIS} [^.]{{0,40}}\bonly (?:approximate|near|rough)ly\b", sentences=2),
    Words(r"\b(?:replac\w+|substitut\w+|exchang\w+|swap\w*) <other> (?:by|with|for|and) (?:[\w-]+ |<other> ){0,4}"
          r"in[:,]? ?$"),
    Words(r"\b(?:common|frequent|usual|typical|easy|popular) (?:mistake|error|bug|pitfall|misreading)s?\b|\bbroken\b",
          r"^\W*(?:which|that|this|it) (?:\w+ )?(?:lacks?|misses|omits?|forgets?|ignores?)\b"
          r"|^\W*(?:but|though|however|yet),? (?:here )?we (?:\w+ )?(?:drop|omit|remove|replace|skip|change|ignore)\b"),
    Words(r"\b(?:suppose|assume)\b.*\bcontradiction\b|\bcontradiction\b.*\b(?:suppose|assume)\b"),
    Words("", rf"^\W*(?:(?:which|this|that) )?(?:is|are|was|would be|seems?) (?:\w+ ){{0,2}}?{_BAD}"),
    Words("", rf"^\W*(?:(?:which|this|that) )?{_NOT}"),
    # what limits where a function is meant, or how well
    Words(rf"{_IF}? ?(?:for|where|as|on|in)? ?(?:all |any |every )?{_NUMBERS}",
          rf"^\W*(?:for|where|as|on|in|with)?,? ?(?:all |any |every )?{_NUMBERS}", "function"),
    Words(rf"(?:{_IF}|\b(?:for|where|as|on|in)) {_KIND}", rf"(?:{_IF}|\b(?:for|where|as|on|in)) {_KIND}", "function"),
    Words(rf"\b(?:assume|suppose|let|consider|fix|take)\b.*{_NUMBERS}", "", "function", 2),
    Words(*2 * (r"\blimit of\b|\bin the limit\b|\bhalf[- ](?:line|axis)\b|\basymptotic\w*|\bbehaves? like\b"
                r"|\bup to an? (?:\w+ )?(?:constant|factor|sign|order|term|scale|shift)\b",), "function"),
    Words(*2 * (r"\b(?:first|second|leading|lowest)[ -]order\b|\bapproximat\w*|\broots?\b",), "function"),
    Words(*2 * (rf"\b(?:near|around|close to) (?:zero|0|the origin|{_ANY})",), "function"),
    # a product of a vector and a matrix that is said to scale lines
    Words(*2 * (rf"\b(?:entry|entries|elements?|components?|coordinates?) of {_ANY} (?:\w+ )?(?:re)?{_SCALES} "
                rf"|\b(?:re)?{_SCALES} (?:each|every|all|an?|the|its|one) (?:\w+ )?{_LINES}"
                rf"|\b{_LINES} (?:{_ANY} )?(?:of {_ANY} )?(?:is|are) (?:\w+ )?(?:re)?"
                r"(?:scaled|gated|weighted|weighed) by\b",), "vector", 2),
    # one function of many
    Words(rf"\b(?:{_SUCH}|unlike|compared (?:to|with)|any|some|every|often|usually|typically|commonly|popular"
          r"|common)\b",
          rf"\b(?:{_SUCH}|often|usually|typically|commonly)\b|^\W*or\b|^\W*(?:is|are|was|were) (?:\w+ )?(?:a|an|one)\b"
          rf"|\b(?:for|if|when|where|on) (?:all |any |every )?{_NUMBERS}", "named"),
)
_NEVER = r"(?!)"
_FOUND = [(x, re.compile(x.before or _NEVER, re.I), re.compile(x.behind or _NEVER, re.I)) for x in TABLE]

_SIGN = re.compile(r"[<>≤≥≪≫≠]|\\(?:[lg](?:[eglt]|eq|eqslant)|n?eq?|approx|to|[lg](?:ess|tr)sim)(?![A-Za-z])")
_NAME = re.compile(r"(?:\\?[A-Za-z]+|[α-ωΑ-Ω])'*(?P<scripts>\s*[_^]\s*(?:\{[^{}]*\}|\w))?")
_SCRIPT = re.compile(r"[_^]\s*(?:\{([^{}]*)\}|(\w))")
_MARKS = re.compile(r"\$+|\\[()\[\]]|\\(?:begin|end)\{[A-Za-z]+\*?\}(?:\[[^\[\]]*\])?|\\label\{[^{}]*\}|\*\*|~|\\emph")


def limited(document: Document, said: Said, known: Known) -> Problem | None:
    """The problem of what words beside a formula deny, or limit to a condition; None where none do."""
    if (said.statement is None and not said.sides) or said.indices or said.fact == FACT or said.formula.code:
        return None
    found = _found(document, said, known)
    return None if found is None else BadDeclaration(
        f"the words `{found[1]}` beside it deny it, or limit it to a condition", said.span, helps=(
            Help("a definition stands without such words in its sentence"),))


def in_cases(document: Document, found: Iterable[Said], known: Known) -> list[Said]:
    """The equations in lines of text that say what a name is in one of several cases, or some entries of it, where no
    display says what it is.
    """
    found = tuple(found)
    shown = {replace(name, scripts=0) for x in found if x.formula.display and not x.fact
             and (name := left_symbol(x)) is not None}
    return [x for x in found if _cases(document, x, known)
            and ((name := left_symbol(x)) is None or replace(name, scripts=0) not in shown)]


def _cases(document: Document, said: Said, known: Known) -> bool:
    """Whether an equation in a line of text says what its name is in one of several cases, or of some entries."""
    if said.formula.display or said.statement is None or said.indices or said.fact == FACT or said.formula.code:
        return False
    found = _found(document, said, known)
    return found[0].cases if found is not None else said.fact == "a value" and _of_entries(said.statement, known)


def _of_entries(line: s.Statement, known: Known) -> bool:
    """Whether the left side of an equation has letters side by side below its name, `M_{ij}`; below a size, `d_{ff}`,
    they are a label.
    """
    named = head(left_of(line.clauses[0].body))
    if named is not None and named[0].base in known.sizes:
        return False
    inner = (x for k in scripts(left_of(line.clauses[0].body)) if k.kind == "lower" and k.content is not None
             for x in words((k.content,)))
    return any(not x.quoted and len(x.text) == 2 and x.text.isalpha() and x.text.islower() for x in inner)


def _found(document: Document, said: Said, known: Known) -> tuple[Words, str] | None:
    """What limits an equation and its words in the text; None without such."""
    span, text = said.formula.span, document.words
    function, line = said.statement is not None and is_function(said.statement), not said.formula.display
    kinds = {"", *["function"] * function, *["line"] * line, *["named"] * (function and line),
             *["vector"] * _multiplies(said, known)}
    letters = known.indices | known.sizes | {x for m in _SCRIPT.finditer(span.text) for x in re.findall(
        r"\\[A-Za-z]+|[A-Za-z]", m[1] or m[2] or "")}
    before = _before(_masked(document, max(span.start - REACH, 0), span.start, letters))
    end = min(span.end + REACH, len(text))
    behind = _behind(_masked(document, span.end, end, letters), span.text, _inside(said))
    for row, first, second in _FOUND:
        if row.of in kinds:
            found = first.search(" ".join(before[-row.sentences :])) or second.search(behind)
            if found is not None:
                return row, " ".join(re.sub(_ANY, "…", found[0]).split()).strip(" ,:$")
    return None


def _multiplies(said: Said, known: Known) -> bool:
    """Whether a small letter that has a shape in the text stands beside another factor."""
    lines = said.sides or (() if said.statement is None else (said.statement,))
    products = (x for line in lines for c in line.clauses for x in parts(c.body) if isinstance(x, s.Product))
    beside = (y for x in products for (a, b), o in zip(pairwise(x.factors), x.operators[1:], strict=True) if o == ""
              for y in (a, b))
    names = (x.base if isinstance(x, s.Scripted) else x for x in beside)
    return any(isinstance(x, s.Word) and x.text.islower() and written(x.span.text) in known.shaped for x in names)


def _masked(document: Document, start: int, end: int, letters: Set[str]) -> str:
    """The prose between two places: each formula is a word that says its kind, and a display that ends a sentence
    a stop.
    """
    text, out, at = document.words, [], start
    first = bisect_right(document.formulas, start, key=lambda x: x.span.end)
    for x in document.formulas[first:]:
        if x.span.start >= end:
            break
        after = text[x.span.end : x.span.end + 40].lstrip("$\\]")
        ends = x.display and (x.span.text.rstrip()[-1:] in (".", ";") or PARAGRAPH.match(after) is not None
                              or after.strip()[:1].isupper())
        out += [text[at : max(x.span.start, at)], f" <{_kind(x, letters)}> ", ". " if ends else ""]
        at = x.span.end
    return _MARKS.sub(" ", "".join([*out, text[min(at, end) : end]]))


def _kind(formula: Formula, letters: Set[str]) -> str:
    """What a formula in a sentence is: a comparison of places, of numbers or of values, an equation, or any other."""
    text = formula.span.text
    if formula.display or _SIGN.search(text) is None:
        return "equation" if "=" in text else "other"
    names = [x for x in _NAME.finditer(text) if not _SIGN.match(x[0])]
    if not names or names[0][0].strip() in letters:
        return "places"
    return "values" if any(x["scripts"] for x in names) else "numbers"


def _before(text: str) -> list[str]:
    """The sentences of the paragraph before a formula, the last of which may be open."""
    paragraphs = [" ".join(x.split()) for x in PARAGRAPH.split(text)]
    near = paragraphs[-1] or (paragraphs[-2] if len(paragraphs) > 1 else "")
    return [x.lstrip(") ") for x in SENTENCE.split(f"{near} ")]


def _behind(text: str, own: str, inner: str) -> str:
    """The rest of the sentence behind a formula."""
    if inner:
        return inner
    if own.rstrip()[-1:] == ".":
        return ""
    text = text.lstrip(" \t\n$,")
    return "" if text[:1].isupper() else " ".join(SENTENCE.split(text)[0].split())


def _inside(said: Said) -> str:
    """The words that stand behind an equation in its own display."""
    rest = said.formula.span.source.text[said.span.end : said.formula.span.end]
    found = re.match(r"[\s,&]*(?:\\q?quad\s*)?\\(?:text|mbox)\s*\{([^{}]*)\}(.{,30})", rest)
    sign = " <numbers>" if found is not None and _SIGN.search(found[2]) else ""
    return f"{found[1].strip()}{sign}" if found is not None else ""
