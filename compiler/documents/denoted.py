r"""Signs and functions of which the words of a document say what they denote: "we write $\cdot$ for the Hadamard
product", "$\mathrm{ReLU}$ is the leaky ReLU". Where the words are more or others than the usual names of the sign, no
equation with it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

_ENTRIES = ("wise elementwise entrywise pointwise componentwise coordinatewise dimensionwise channelwise "
            "element entry entries elements component components coordinate coordinates ")
_TEXT = r"\\(?:text|mathrm|operatorname|mathsf|textrm|textbf|mathbf|mathop)\*?\s*\{{\s*{}\s*\}}"
_DOT = r"\s*(?:\\cdot|·|\.|[A-Za-z])\s*"
_BARS = r"(?:\\left|\\right|\\[bB]igg?[lr]?)?\s*(?:\\\||\\[lr]?Vert(?![A-Za-z])|‖|\|\|)"
_BAR = r"(?:\\left|\\right)?\s*(?:\\[lr]vert(?![A-Za-z])|\|)"


@dataclass(frozen=True)
class Meant:
    """A sign or function: `alone` is the formula in a line of text that is the sign and no more, `words` are words that
    name it, `usual` is what may stand in its usual names, and `stands` is what a formula has that has the sign, ""
    where it is that two names stand side by side.
    """

    alone: str
    words: str
    usual: str
    stands: str
    function: bool = False


def _function(names: str, usual: str) -> Meant:
    """A function, which a text may name by a macro, in letters of a text, or by a word: a line of the file of usual
    names has patterns of its names, and the words that its other names may have.
    """
    name = "|".join(names.split())
    given = r"(?:\s*\(\s*(?:\\cdot|[a-z])\s*\))?"
    return Meant(rf"(?:\\?(?:{name})|{_TEXT.format(f'(?:{name})')}){given}",
                 rf"\b(?:{name})(?:es)?\b",
                 f"{_ENTRIES}{names} {usual} function nonlinearity activation".lower(),
                 rf"(?<![A-Za-z])(?:{name})(?![A-Za-z])", True)


SIGNS = (
    Meant(r"\\odot|⊙|[A-Za-z]\s*\\odot\s*[A-Za-z]", r"(?!)",
          _ENTRIES + "hadamard schur product products multiplication multiplying gating", r"\\odot(?![A-Za-z])|⊙"),
    Meant(r"\\circ|∘|[A-Za-z]\s*\\circ\s*[A-Za-z]", r"(?!)",
          _ENTRIES + "hadamard schur product products multiplication composition functions", r"\\circ(?![A-Za-z])|∘"),
    Meant(r"\\cdot|·|\\times|×|[A-Za-z]\s*(?:\\cdot|\\times)\s*[A-Za-z]", r"(?!)",
          "dot inner scalar matrix product products multiplication multiplications numbers scalars matrices",
          r"\\cdot(?![A-Za-z])|·|\\times(?![A-Za-z])|×"),
    Meant(r"[A-Z]\s*[A-Z]", r"\bjuxtaposition\b|\A\W*(?:All\s+|Matrix\s+)?(?:[Pp]roducts?|[Mm]ultiplications?)\b",
          "matrix product products multiplication composition usual", ""),
    Meant(r"\+|[A-Za-z]\s*\+\s*[A-Za-z]", r"(?i:\b(?:plus|additions?)\b)",
          _ENTRIES + "sum addition adding plus matrix residual connection connections skip", r"\+"),
    Meant(r"-|[A-Za-z]\s*-\s*[A-Za-z]", r"(?i:\b(?:minus|subtractions?)\b)", _ENTRIES + "difference subtraction minus",
          "-|−"),
    Meant(r"/|÷|\\div|[A-Za-z]\s*/\s*[A-Za-z]", r"(?i:\bdivisions?\b)",
          _ENTRIES + "division quotient real", r"/|÷|\\div(?![A-Za-z])|\\[dt]?frac(?![A-Za-z])"),
    Meant(rf"{_BARS}{_DOT}{_BARS}(?:_\{{?2\}}?)?", r"(?!)", "euclidean norm l2 ell 2 length magnitude two",
          _BARS),
    Meant(rf"{_BAR}{_DOT}{_BAR}", r"\babsolute\s+values?\b",
          _ENTRIES + "absolute value modulus magnitude cardinality size number elements set", rf"{_BAR}(?!\|)"),
    Meant(r"\\sqrt\s*(?:\{[^{}]{0,9}\})?|√", r"\bsquare\s+roots?\b",
          _ENTRIES + "square root roots positive nonnegative principal", r"\\sqrt(?![A-Za-z])|√"),
    Meant(rf"\[{_DOT}\]", r"(?i:\b(?:square\s+)?brackets\b)",
          "concatenation concatenating concatenate grouping group indicator iverson stacking rows columns blocks",
          r"(?<!\\)\[|\\[lr]brack"),
    Meant(r"\\exp|\\?exp|e\^\{?[a-z]\}?", r"(?i:\bexponentials?\b)", _ENTRIES + "exponential natural base e",
          r"\\?exp(?![A-Za-z])|(?<![A-Za-z\\])e\s*\^"),
    Meant(r"\\sum(?:_\{?[a-z]\}?)?", r"(?i:\bsums\b)", _ENTRIES + "sum sums summation indices", r"\\sum(?![A-Za-z])|∑"),
    Meant(r"\\prod(?:_\{?[a-z]\}?)?", r"(?!)", _ENTRIES + "product products indices", r"\\prod(?![A-Za-z])|∏"),
    Meant(r"\\[a-z]*top|[A-Z]?\s*\^\s*\{?\s*\\top\s*\}?", r"(?!)", "transpose transposed transposition matrix",
          r"\\top(?![A-Za-z])"),
    Meant(r"\\log|\\ln", r"\blogarithms\b", _ENTRIES + "log natural logarithm base e", r"\\?(?:log|ln)(?![A-Za-z])"),
    *(_function(*line.split(": ")) for line in files("einc.grammar").joinpath("usual_names.txt").read_text(
        encoding="utf-8").splitlines()),
)
_NEUTRAL = frozenset("""
    the a an of and or two three its their any each every all both in on by to from for at be as is are it this
    that operator operation function symbol sign usual ordinary standard conventional regular common familiar
    well known here always again just simply also over along across across between with respect applied acting
    rows row columns column rowwise columnwise dimension feature features last axis keys key tokens token
    positions position sequence vector vectors matrices tensors tensor scalar scalars real numbers number paper
    throughout one ones same shape size argument arguments corresponding we our
""".split())  # noqa: SIM905, as a text they read better
_FORMULA = re.compile(r"(?:\$|\\\()(?P<inner>[^$\n]{1,60}?)(?:\$|\\\))")
_STOP = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\d)[.!?;](?=[\s)]|\Z)|(?<=\d)\.(?=\s|\Z)|\n[ \t>]*\n|\$\$"
                   r"|\\\]|\\\[|\\(?:begin|end)\{")
_DETERMINED = r"(?:the|an?|our|not)\b"
_SAYS = re.compile(
    r"\W*(?:(?:always|here|will|shall|now|then|simply|throughout|just)\s+)*(?:"
    r"denot(?:es?|ing)|means?\b|meaning|stands?\s+for|represents?|representing|refers?\s+to|we\s+(?:mean|denote|understand)"
    r"|to\s+(?:denote|mean|represent|stand\s+for)|(?:is|are|be)\s+(?:defined|understood|meant|taken|used|written)\s+"
    r"(?:as|for|to\s+(?:be|mean|denote))"
    r"|(?:(?:is|are)\s+(?:(?:applied|taken|computed|used|evaluated)\s+)?)?(?=with(?:out)?\b)"
    r"|(?=(?:rounds?|truncates?|skips?|omits?|drops?|ignores?|subtracts?)\b|(?:does|do)\s+not\s+(?:subtract|divide|include|add)\b)"
    r"|(?=(?:is|are)\s+(?:replaced|approximated|modified)\b|(?:has|have|uses?)\s+(?:an?\s+)?(?:temperature|slope|base)\b)"
    r"|(?:runs?|ranges?|goes|go|is|are)\s+over\b|(?:is|are)(?=\s+\$)"
    rf"|be(?=\s+{_DETERMINED})|(?:is|are)(?=\s+(?:always\s+)?{_DETERMINED}))\s*", re.I)
_IS = re.compile(r"\W*(?:is|are)\s+(?P<noun>[A-Za-z]+(?:-?wise)?)", re.I)
_AND = re.compile(r"\band\s+\W*\Z", re.I)
_FOR = re.compile(r"\W*(?:for|as|to\s+be)\s+", re.I)
_VERB = re.compile(r"\b(?:writ\w+|set|let|take|define|us(?:e|es|ed|ing)|denot\w+|mean\w*|symbol|sign|represent\w*"
                   r"|express\w*)\b", re.I)
# What a sentence says that begins with the name of an operation: "Sums are over even indices."
_CONVENTION = re.compile(r"\W*(?:is|are|be)\s+(?!(?:comput|perform|implement|accumulat|fus|don|cheap|expens|fast|slow"
                         r"|cost|need|use|bound|hard|efficien|parallel|also|not|import|require|large|small"
                         r"|well)\w*)", re.I)
_BEGINS = re.compile(r"\W*(?:(?:all|the|here|throughout)\W+)*\Z", re.I)
_APPROXIMATED = re.compile(r"\b(?P<how>\w+\s+(?:approximation|variant|version))\s+(?:of|to)\s+(?:the\s+)?\W*\Z")
_BY = re.compile(r"\b(?:by|with|as)\s+(?:the\s+)?(?:symbol|sign|operator)?\s*\Z", re.I)
_AHEAD = re.compile(r"\A.*\b(?:denote|write|written|represent|express|use|mean)\b|\A\W*and\b", re.I | re.S)
_OVER = re.compile(r"\W*(?:runs?|ranges?|goes|go|is|are)\s+over\b", re.I)
_CLAUSE = re.compile(r"[,:](?=\s)|\s(?:and|while|whereas)(?:\s*\Z|\s+\$|(?=\s.*\s(?:is|are|denotes?)\s))")
_CITED = re.compile(r"\([^()]*\d{4}[^()]*\)|\[[^\]]{0,30}\]|\\cite\w*\{[^}]*\}|@\w+")


def other_meaning(text: str, own: str, macros: dict[str, str], beside: bool) -> str | None:
    """The words of a text that say another meaning of a sign in a formula; None where there are none. `macros` are
    those of the author with what they stand for, and `beside` says whether two names stand side by side.
    """
    whole = " ".join((own, *(body for name, body in macros.items() if re.search(rf"\\{name}(?![A-Za-z])", own))))
    return next((words for sign, words in _told(text) if (re.search(sign.stands, whole) if sign.stands else beside)),
                None)


@lru_cache(maxsize=8)
def _told(text: str) -> tuple[tuple[Meant, str], ...]:
    """The signs to which the sentences of a text give other names than the usual ones, with these words."""
    ends = [0, *(x.end() for x in _STOP.finditer(text)), len(text)]
    return tuple((sign, " ".join(words.split())) for a, b in pairwise(ends)
                 for sign, words in _meanings(text[a:b]) if _other(sign, words))


def _mentions(sentence: str) -> list[tuple[int, int, Meant, bool]]:
    """Where a sentence names a sign, and whether in a formula."""
    formulas = list(_FORMULA.finditer(sentence))
    found = [(x.start(), x.end(), sign, True) for x in formulas for sign in SIGNS
             if re.fullmatch(sign.alone, x["inner"].strip())]
    inside = [(x.start(), x.end()) for x in formulas]
    found += [(x.start(), x.end(), sign, False) for sign in SIGNS for x in re.finditer(sign.words, sentence)
              if not any(a <= x.start() < b for a, b in inside)]
    return sorted(found, key=lambda x: x[:2])


def _meanings(sentence: str) -> Iterator[tuple[Meant, str]]:
    """What a sentence says that the signs in it denote: behind each, or before it where it is named "by" it."""
    found = _mentions(sentence)
    for n, (start, end, sign, formula) in enumerate(found):
        before = sentence[max((x[1] for x in found[:n]), default=0) : start]
        ahead = (x[0] for x in found[n + 1 :] if x[3] or not formula or _AND.search(sentence[: x[0]]))
        after = sentence[end : next(ahead, len(sentence))]
        if (before_ := _APPROXIMATED.search(sentence[:start])) is not None:
            yield sign, before_["how"]
        if sign.function and _OVER.match(after):  # along what it runs is another question
            continue
        says = _SAYS.match(after) or _IS.match(after)
        says = says if says is None or says.re is _SAYS or says["noun"].lower() in sign.usual.split() else None
        if says is None and not (formula or sign.function) and _BEGINS.fullmatch(before):
            says = _CONVENTION.match(after)
        verb = _VERB.search(sentence[:start]) is not None
        if says is None and verb and (formula or not sign.function):
            says = _FOR.match(after)
        if says is not None and (formula or not re.match(r"\W*(?:is|are)\s+(?:the|an?|our|not)\b", after)):
            yield sign, after[says.start("noun") if says.re is _IS else says.end() :]
        elif verb and (by := _BY.search(before)) is not None:
            yield sign, _AHEAD.sub("", before[: by.start()])


def _other(sign: Meant, words: str) -> bool:
    """Whether words are more or others than the usual names of a sign, up to the next comma."""
    clause = _CLAUSE.split(_CITED.sub(" ", words), maxsplit=1)[0]
    clause = re.sub(r"\\(?:ell|mathbb|math\w+|text|top)|[${}\\_^]", " ", clause.replace("ℓ", "ell "))
    spelled = re.sub(r"(?<=[a-z])-\s?wise|(?<=[a-z]) by \w+", "wise", clause.lower())
    told = re.findall(r"[a-z]{2,}|\d[\d.]*", spelled)
    usual = {*sign.usual.lower().split(), *_NEUTRAL}
    return bool(told) and any(x not in usual for x in told)
