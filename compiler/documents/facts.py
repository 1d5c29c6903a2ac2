"""Facts: equations of a document that say no more than a size, a second name or a first value, and are no formulas."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from einc.documents.document import Document
from einc.syntax import tree as s

_NAME = r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\{(?:[^{}]|\{[^{}]*\})*\}|\w))?"
_SHAPE = re.compile(r"[_^]\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*?\\times(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_FACTORS = re.compile(rf"(?:\A|\\times)\s*(?:[^\\{{}}]*:)?\s*\(?\s*({_NAME}(?:\s+{_NAME})*)")
_SIZES = (
    re.compile(rf"\\mathbb\s*\{{?R\}}?\s*\^\s*\{{?\s*({_NAME})"),
    re.compile(rf"\b1\s*(?:,\s*2\s*)?,?\s*(?:\.\.|…|\\[lc]?dots)\s*,?\s*({_NAME})"),
)
_LIES = re.compile(r"\\in\s*\\mathbb\s*\{?R\}?\s*\^")
_UPRIGHT = re.compile(r"\\(?:text|mathrm|textrm|mathit|operatorname)\b")
_DRESS = re.compile(r"\\(?:text|mathrm|textrm|mathit|operatorname)\b|[\s{}&]|\\[,;:!]")


def sizes(document: Document) -> frozenset[str]:
    """The names that the text writes as sizes, bare: `T` and `d_k` of `K \\in \\mathbb{R}^{T \\times d_k}`, of a shape
    below a brace, and the ends of ranges.
    """
    text = document.source.text
    shapes = (x for shape in _SHAPE.findall(text) for side in _FACTORS.findall(shape) for x in re.findall(_NAME, side))
    return frozenset(map(bare, (*shapes, *(x for pattern in _SIZES for x in pattern.findall(text)))))


def shaped(document: Document) -> frozenset[str]:
    """The heads of names that the text says lie in ℝ with a shape, as they are written: `W` of
    `W_Q, W_K \\in \\mathbb{R}^{d \\times d_k}`; not those of numbers, `m \\in \\mathbb{R}`.
    """
    *found, _ = (re.split(r"[$=\n&]", x)[-1] for x in _LIES.split(document.source.text))
    return frozenset(written(x) for names in found for x in names.split(",")) - {""}


def written(text: str) -> str:
    """The head of a name as it is written, without spaces and braces."""
    return re.split(r"[_^']", "".join(text.split()), maxsplit=1)[0].replace("{", "").replace("}", "")


def bare(text: str) -> str:
    """A name without spaces, braces and fonts: `d_{\\text{model}}` is `d_model`."""
    return _DRESS.sub("", text)


def fact(relation: s.Relation, known: Container[str], indices: Container[str], tensors: Container[str],
         shaped: Container[str] = ()) -> str:
    """What kind of fact a chain of equals signs states, "" where it is a formula.

    `known` are the bare names of sizes, `indices` the declared letters: what hangs on one of these is no size.
    `tensors` are names that are declared as tensors, of which nothing is a fact, and `shaped` the heads of those that
    have a shape: two numbers below one are an entry.
    """
    if any(o not in ("=", ":=") for o in relation.operators) or _value(relation.operands[0]):
        return ""
    names = (bare(x.span.text) for x in relation.operands if isinstance(x, s.Word | s.Scripted))
    if any(x.split("_")[0] in tensors and x not in known for x in names):
        return ""
    if any(isinstance(x, s.Scripted) and x.base.span.text in shaped and any(map(_entry, x.scripts))
           for x in relation.operands[1:]):
        return ""
    value = _value(relation.operands[-1])
    said = _Said(known, indices, value, _family(relation))
    if not all(_value(x) or said.named(x) or said.counted(x, n == 0) for n, x in enumerate(relation.operands)):
        return ""
    sized = any(not said.named(x) or bare(x.span.text) in known for x in relation.operands)
    return "a value" if value else "equal sizes" if sized else "a second name"


def _entry(script: s.Script) -> bool:
    """Whether two numbers or letters stand below a name: `A_{12}`, `A_{1,2}`, `A_{1j}`."""
    content = script.content
    while isinstance(content, s.Group) and len(content.items) == 1:
        (content,) = content.items
    match content:
        case s.Number(text):
            return len(text) == 2 and script.kind == "lower"
        case s.Group(items=items):
            return len(items) > 1 and script.kind == "lower"
    return False


def _family(relation: s.Relation) -> bool:
    """Whether it is one letter with several scripts, and no primes."""
    bases = {x.base.text if isinstance(x, s.Scripted) and isinstance(x.base, s.Word) else "" for x in relation.operands}
    kinds = {script.kind for x in relation.operands if isinstance(x, s.Scripted) for script in x.scripts}
    return len(bases) == 1 and "" not in bases and "prime" not in kinds


def _value(node: s.Expression) -> bool:
    """Whether it is computed from numbers alone."""
    match node:
        case s.Number() | s.Infinity():
            return True
        case s.Product(factors=inner) | s.Sum(terms=inner) | s.Group(items=inner):
            return all(map(_value, inner))
        case s.Fraction(above, below):
            return _value(above) and _value(below)
        case s.Root(inner=root):
            return _value(root)
        case s.Scripted(base, (), (s.Script("upper", power),)):
            return _value(base) and power is not None and _value(power)
    return False


@dataclass(frozen=True)
class _Said:
    """How the operands of a chain are looked at: `value` where a number ends it, `family` where one letter with several
    scripts makes it: `d_k = d_v = d_h`.
    """

    known: Container[str]
    indices: Container[str]
    value: bool
    family: bool

    def named(self, node: s.Expression) -> bool:
        """Whether it is a name alone, whose scripts are labels and numbers."""
        match node:
            case s.Word():
                return _one(node)
            case s.Scripted(s.Word() as base, _, scripts):
                return _one(base) and (bare(node.span.text) in self.known or all(map(self._label, scripts)))
        return False

    def counted(self, node: s.Expression, left: bool = False) -> bool:
        """Whether it is a product or a quotient of sizes, as the text says. On the left, where a formula has one name,
        a product of names by `×` always is.
        """
        match node:
            case s.Product(factors, operators):
                plain = left and all(o == "*" for o in operators[1:])
                return all(self._size(x) or (plain and isinstance(x, s.Word | s.Scripted)) for x in factors)
            case s.Fraction(above, below):
                return all(self._size(x) or self.counted(x) for x in (above, below))
            case s.Scripted(s.Word() as base, (), (s.Script("upper", s.Number()),)):
                return self._size(base)
        return False

    def _size(self, node: s.Expression) -> bool:
        return _value(node) or bare(node.span.text) in self.known

    def _label(self, script: s.Script) -> bool:
        """Whether a script is certainly no position. A capital alone may be one, the last, but not beside a number."""
        content = script.content
        if script.kind == "upper" and isinstance(content, s.Number):
            return False  # a power
        letters = script.span.text[1:].strip()
        if len(letters) > 1 and letters.isalpha() and not letters[1:].islower():
            return False  # without braces a script is one letter, and factors follow it: `X^TX`
        if isinstance(content, s.Group) and len(content.items) == 1:
            content = content.items[0]
        match content:
            case None | s.Number():
                return True
            case s.Word(text, quoted=quoted):
                letter = len(text) == 1 and not quoted
                run = not quoted and not letter and text.islower()  # `ij`, which may be letters side by side
                allowed = self.family if letter and text.islower() else self.value or self.family or not (letter or run)
                return allowed and text not in self.indices and (self.family or text not in self.known)
        return False


def _one(word: s.Word) -> bool:
    """Whether it is one name: letters side by side are a product, but in upright type."""
    return len(word.text) == 1 or not word.text.isascii() or _UPRIGHT.search(word.span.text) is not None
