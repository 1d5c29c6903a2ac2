"""Names: a base with accents, primes and labels, and what Python calls it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from einc.ir.nodes import Node, node
from einc.syntax import tree as s
from einc.syntax.spelling import GREEK, KEYWORDS

_LATIN = {symbol: name for name, symbol in reversed(GREEK.items()) if not name.startswith("var")}
ACCENT_LABELS = frozenset({"hat", "tilde", "bar"})


@node
class Name(Node):
    """`\\widehat K_{Q}`: base K, accent hat, label Q. Labels are part of the name."""

    base: str
    accents: tuple[str, ...] = ()
    primes: int = 0
    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()

    @property
    def stem(self) -> Name:
        """The name with its accents and primes and without its labels: `W'` of `W'_{Q}`."""
        return Name(self.base, self.accents, self.primes)

    @property
    def labels(self) -> frozenset[str]:
        """All labels of the name, lower and upper together."""
        return frozenset({*self.lower, *self.upper})

    @property
    def python(self) -> str:
        """The name as a Python identifier: base, accents, primes and labels, joined with underscores."""
        primes = () if self.primes == 0 else ("prime",) if self.primes == 1 else (f"prime{self.primes}",)
        return _identifier("_".join((self.base, *self.accents, *primes, *self.lower, *self.upper)))

    @property
    def text(self) -> str:
        """As the language writes it in Unicode: `K_hat`, `W_Q`, `H''`."""
        return self.written(frozenset())

    def written(self, indices: Iterable[str]) -> str:
        """The text, each label such that it cannot be read as some of the indices."""
        accents = "".join(f"_{a}" for a in self.accents if a != "cal")
        base = self.base if _plain(self.base) or numbered(self.base) else f"\\text{{{self.base}}}"
        if "cal" in self.accents:
            base = "ℒ" if self.base == "L" else f"\\mathcal{{{self.base}}}"
        letters = frozenset(indices)
        lower = "".join(_label(x, letters) for x in self.lower)
        return base + "'" * self.primes + accents + lower + "".join(f"^{{\\text{{{x}}}}}" for x in self.upper)


@lru_cache(maxsize=4096)
def _identifier(text: str) -> str:
    """The text in letters that Python has in names."""
    made = "".join(_LATIN.get(c, "_") if not (c.isascii() and c.isalnum()) else c for c in text)
    return f"x_{made}" if not made or made[0].isdigit() else made


def numbered(word: str) -> bool:
    """Whether a name has digits after its first letter, as one word."""
    return word.isascii() and word[:1].isalpha() and word.isalnum() and not word.isalpha()


def _plain(word: str) -> bool:
    return (word.isascii() and word.isalpha() and word not in GREEK and word not in KEYWORDS) or word in _LATIN


def _label(label: str, indices: frozenset[str]) -> str:
    if not all(x in indices for x in label):
        if label.isdigit() or (len(label) == 1 and _plain(label)):
            return f"_{{{label}}}"
        if _plain(label) and label not in ACCENT_LABELS and label not in indices:
            return f"_{label}"
    return f"_{{\\text{{{label}}}}}"


def head(node: s.Expression) -> tuple[Name, tuple[s.Script, ...]] | None:
    """The name at the head of a word, with the scripts that are not certainly labels; None for what has no name."""
    match node:
        case s.Word(text):
            return _name(text, (), 0, (), ()), ()
        case s.Scripted(s.Word(text), accents, scripts):
            primes, rest = 0, list[s.Script]()
            lower = upper = tuple[str, ...]()
            for script in scripts:
                match script.kind:
                    case "prime":
                        primes += len(script.text)
                    case "label_lower" if script.text in ACCENT_LABELS and not lower:
                        accents = (*accents, script.text)
                    case "label_lower":
                        lower = (*lower, script.text)
                    case "label_upper":
                        upper = (*upper, script.text)
                    case _:
                        rest.append(script)
            return _name(text, accents, primes, lower, upper), tuple(rest)
    return None


@lru_cache(maxsize=4096)
def _name(base: str, accents: tuple[str, ...], primes: int, lower: tuple[str, ...], upper: tuple[str, ...]) -> Name:
    """One object for each name that is read, which is looked up in many tables: its hash is computed once."""
    return Name(base, accents, primes, lower, upper)


def left_of(node: s.Expression) -> s.Expression:
    """The left side of an equation; what is no relation is returned as it is."""
    return node.operands[0] if isinstance(node, s.Relation) else node


def titled(node: s.Expression) -> tuple[Name, tuple[s.Script, ...]] | None:
    """The head of what may be a function, with the label that its script begins with:
    `gelu_{\\text{tanh}}` is `gelu_tanh`."""
    found = head(node)
    match found:
        case name, (s.Script("lower", content) as first, *rest) if not name.lower and content is not None:
            items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
            factors = items[0].factors if isinstance(items[0], s.Product) and not any(items[0].operators) else items[:1]
            if not isinstance(factors[0], s.Word) or not factors[0].quoted:
                return found
            left = s.Product(factors[1:], ("",) * (len(factors) - 1), content.span) if len(factors) > 2 else factors[-1]
            kept = items[1:] if len(factors) == 1 else (left, *items[1:])
            scripts = (replace(first, content=s.Group("{", "}", kept, content.span)), *rest) if kept else tuple(rest)
            return replace(name, lower=(factors[0].text,)), scripts
    return found


def size_name(node: s.Expression) -> str | None:
    """`d_k`, `d_{\\text{model}}`, `T`: an extent's name, read whole; None where the node is no such name."""
    if isinstance(node, s.Word):
        return _identifier(node.text)
    found = head(node)
    if found is None or found[0].accents or found[0].primes:
        return None
    name, scripts = found
    parts = [name.python]
    for script in scripts:
        match script:
            case s.Script("lower", s.Word(text)) | s.Script("lower", s.Group("{", "}", (s.Word(text),))):
                parts.append(_LATIN.get(text, text))
            case s.Script("lower", s.Number(text)) | s.Script("lower", s.Group("{", "}", (s.Number(text),))):
                parts.append(text)
            case _:
                return None
    return "_".join(parts)


def index_name(node: s.Expression) -> str | None:
    """`t`, `s'`, `ρ`: the name of an index; None for anything else."""
    found = head(node)
    if found is None or found[1] or found[0].accents or found[0].labels:
        return None
    return found[0].base + "'" * found[0].primes


def literal(node: s.Expression) -> Fraction | None:
    """The number that a node writes out; None for anything else."""
    match node:
        case s.Number(text):
            return Fraction(text)
        case s.Sum((s.Number(text),), ("-",)):
            return -Fraction(text)
        case s.Group("{" | "(", _, (inner,)):
            return literal(inner)
    return None
