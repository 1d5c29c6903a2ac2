r"""Signs and functions of the language: how a text writes them, names them, and what their usual names may have.

The functions stand in `usual_names.txt` of the grammar, a line for each: patterns of its names, further words, and
words for what it is applied to. `altering_words.txt` has words that make another function or value of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

_ENTRIES = ("wise elementwise entrywise pointwise componentwise coordinatewise dimensionwise channelwise "
            "element entry entries elements component components coordinate coordinates ")
_TEXT = r"\\(?:text|mathrm|operatorname|mathsf|textrm|textbf|mathbf|mathop)\*?\s*\{{\s*{}\s*\}}"
_DOT = r"\s*(?:\\cdot|·|\.|[A-Za-z])\s*"
_BARS = r"(?:\\left|\\right|\\[bB]igg?[lr]?)?\s*(?:\\\||\\[lr]?Vert(?![A-Za-z])|‖|\|\|)"
_BAR = r"(?:\\left|\\right)?\s*(?:\\[lr]vert(?![A-Za-z])|\|)"


@dataclass(frozen=True)
class Sign:
    """A sign or function: `alone` is the formula in a line of text that is the sign and no more, `words` are words that
    name it, `usual` is what may stand in its usual names, and `stands` is what a formula has that has the sign, ""
    where it is that two names stand side by side. `entries`: it has the product entry by entry for its meaning, so that
    an equation whose left side is two letters with the sign between them gives it another. `given` are words for what a
    function is applied to. A name of it in its `own` words has one of the `nouns`.
    """

    alone: str
    words: str
    usual: str
    stands: str
    function: bool = False
    entries: bool = False
    given: str = r"(?!)"
    nouns: str = ""
    own: str = ""


def _function(names: str, usual: str, argument: str = "") -> Sign:
    """A function, which a text may name by a macro, in letters of a text, or by a word: a line of the file of usual
    names has patterns of its names, the words that its other names may have, nouns with "=" before them, and words for
    its argument.
    """
    name = "|".join(names.split())
    given = r"(?:\s*\(\s*(?:\\cdot|[a-z])\s*\))?"
    marked = [x[1:] for x in usual.split() if x[0] == "="]
    nouns = " ".join((*names.lower().split(), *marked)) if marked else ""
    usual = usual.replace("=", "")
    return Sign(rf"(?:\\?(?:{name})|{_TEXT.format(f'(?:{name})')}){given}",
                rf"\b(?:{name})(?:e?s)?\b",
                f"{_ENTRIES}{names} {usual} function nonlinearity activation".lower(),
                rf"(?<![A-Za-z])(?:{name})(?![A-Za-z])", True,
                given=rf"(?i:\b(?:{'|'.join(argument.split())})\b)" if argument else r"(?!)",
                nouns=nouns, own=usual)


def _words(name: str) -> dict[str, str]:
    """The lines of a file of words by what stands before their colon, each as alternatives of a pattern."""
    lines = files("einc.grammar").joinpath(name).read_text(encoding="utf-8").splitlines()
    return {key: "|".join(words.split()) for key, _, words in (line.partition(": ") for line in lines)}


ALTERING = _words("altering_words.txt")
SIGNS = (
    Sign(r"\\odot|⊙|[A-Za-z]\s*\\odot\s*[A-Za-z]", r"(?!)",
         _ENTRIES + "hadamard schur product products multiplication "
         "multiplying multiplies gating broadcast broadcasting",
         r"\\odot(?![A-Za-z])|⊙", entries=True),
    Sign(r"\\circ|∘|[A-Za-z]\s*\\circ\s*[A-Za-z]", r"(?!)",
         _ENTRIES + "hadamard schur product products multiplication "
         "multiplies composition functions", r"\\circ(?![A-Za-z])|∘",
         entries=True),
    Sign(r"\\cdot|·|\\times|×|[A-Za-z]\s*(?:\\cdot|\\times)\s*[A-Za-z]", r"(?!)",
         "dot inner scalar matrix product products multiplication multiplications numbers scalars matrices",
         r"\\cdot(?![A-Za-z])|·|\\times(?![A-Za-z])|×"),
    Sign(r"[A-Z]\s*[A-Z]", r"\b[Jj]uxtaposition\b|\A\W*(?:The|A)\s+product\s+of\s+(?:two\s+)?matrices\b"
         r"|\A\W*(?:All\s+|Matrix\s+)?(?:[Pp]roducts?|[Mm]ultiplications?)\b"
         r"(?:\s+of\s+(?:two\s+)?matrices\b)?",
         "matrix product products multiplication composition usual", ""),
    Sign(r"\+|[A-Za-z]\s*\+\s*[A-Za-z]", r"(?i:\b(?:plus|additions?)\b)",
         _ENTRIES + "sum addition adding plus matrix residual connection connections skip", r"\+"),
    Sign(r"-|[A-Za-z]\s*-\s*[A-Za-z]", r"(?i:\b(?:minus|subtractions?)\b)", _ENTRIES + "difference subtraction minus",
         "-|−"),
    Sign(r"/|÷|\\div|[A-Za-z]\s*/\s*[A-Za-z]", r"(?i:\bdivisions?\b)",
         _ENTRIES + "division quotient real", r"/|÷|\\div(?![A-Za-z])|\\[dt]?frac(?![A-Za-z])"),
    Sign(rf"{_BARS}{_DOT}{_BARS}(?:_\{{?2\}}?)?", r"\b[Nn]orms\b", "euclidean norm l2 ell 2 length magnitude two",
         _BARS),
    Sign(rf"{_BAR}{_DOT}{_BAR}", r"\babsolute\s+values?\b",
         _ENTRIES + "absolute value modulus magnitude cardinality size number elements set", rf"{_BAR}(?!\|)"),
    Sign(r"\\sqrt\s*(?:\{[^{}]{0,9}\})?|√", r"\bsquare\s+roots?\b",
         _ENTRIES + "square root roots positive nonnegative principal", r"\\sqrt(?![A-Za-z])|√"),
    Sign(rf"\[{_DOT}\]", r"(?i:\b(?:square\s+)?brackets\b)",
         "concatenation concatenating concatenate grouping group indicator iverson stacking rows columns blocks",
         r"(?<!\\)\[|\\[lr]brack"),
    Sign("e", r"(?!)", "euler number base natural constant logarithm", r"(?<![A-Za-z\\])e\s*\^"),
    Sign(r"\\exp|\\?exp|e\^\{?[a-z]\}?", r"(?i:\bexponentials?\b)", _ENTRIES + "exponential natural base e",
         r"\\?exp(?![A-Za-z])|(?<![A-Za-z\\])e\s*\^"),
    Sign(r"\\sum(?:_\{?[a-z]\}?)?", r"(?i:\bsums?\b)", _ENTRIES + "sum sums summation indices", r"\\sum(?![A-Za-z])|∑"),
    Sign(r"\\prod(?:_\{?[a-z]\}?)?", r"(?!)", _ENTRIES + "product products indices", r"\\prod(?![A-Za-z])|∏"),
    Sign(r"\\[a-z]*top|[A-Z]?\s*\^\s*\{?\s*\\top\s*\}?", r"(?!)", "transpose transposed transposition matrix",
         r"\\top(?![A-Za-z])"),
    Sign(r"\\log|\\ln", r"(?i:\blog(?:arithm)?s?\b)", _ENTRIES + "log natural logarithm base e",
         r"\\?(?:log|ln)(?![A-Za-z])"),
    *(_function(*line.split(": ")) for line in files("einc.grammar").joinpath("usual_names.txt").read_text(
        encoding="utf-8").splitlines()),
)
