"""Indented text, sizes as Python expressions, and fresh names: what every back end writes with."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import lcm

from einc.ir.indices import Atom, Extent, number

_LETTERS = "αβγδεζηθικλμνξπρστυφχψωℓ"
_NAMES = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "pi",
    "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "ell",
)  # fmt: skip
_GREEK = dict(zip(_LETTERS, _NAMES, strict=True))


@dataclass
class Writer:
    """Lines of Python; `with writer.block(line):` indents what follows."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def __call__(self, line: str = "") -> None:
        self.lines.append("    " * self.depth + line if line else "")

    def statement(self, left: str, right: str, width: int = 110) -> None:
        """Writes `left right`; a long right side is broken before its outermost additions."""
        if len(left) + len(right) + 4 * self.depth <= width:
            self(left + right)
            return
        parts = _outermost(right)
        if len(parts) == 1:
            self(left + right)
            return
        self(f"{left}({parts[0]}")
        for part in parts[1:-1]:
            self(f"    {part}")
        self(f"    {parts[-1]})")

    def open(self, line: str) -> None:
        """Writes a line and indents what follows, until `close`."""
        self(line)
        self.depth += 1

    def close(self) -> None:
        """Ends the block that `open` began: what is written next stands one step further out."""
        self.depth -= 1

    @property
    def text(self) -> str:
        """All lines as one text that ends in one line break."""
        return "\n".join(self.lines).rstrip() + "\n"


@dataclass
class Names:
    """Python names that do not clash."""

    taken: set[str]

    def fresh(self, wanted: str) -> str:
        """A free name for what is wanted, which is taken from now on: its identifier, with a number after it where that
        is taken. Changes `self.taken`.
        """
        stem = identifier(wanted)
        name, n = stem, 2
        while name in self.taken or keyword.iskeyword(name):
            name, n = f"{stem}{n}", n + 1
        self.taken.add(name)
        return name


@lru_cache(maxsize=4096)
def identifier(text: str) -> str:
    """A letter of the language as a Python name: ρ is rho, s' is s_prime."""
    primes = len(text) - len(text.rstrip("'"))
    stem = "".join(_GREEK.get(c, c if c.isascii() and (c.isalnum() or c == "_") else "_") for c in text.rstrip("'"))
    return (stem or "x") + ("_prime" if primes == 1 else f"_prime{primes}" if primes else "")


def lettered(axes: Iterable[str]) -> dict[str, str]:
    """A letter for each axis, its first where that is free: what einsum knows axes by."""
    letters: dict[str, str] = {}
    for axis in dict.fromkeys(axes):
        letters[axis] = next(c for c in identifier(axis)[0] + "abcdefghijklmnopqrstuvwxyz" if c not in letters.values())
    return letters


def sized(extent: Extent, tight: bool = False) -> str:
    """An extent as an expression of whole numbers, with no operator but + - * //; `tight`
    where it stands inside a product."""
    denominator = lcm(*(coefficient.denominator for _, coefficient in extent.terms))
    powers = [([(_atom(a), p) for a, p in m], c) for m, c in extent.terms]
    below = [_factor(n) if p == -1 else f"({' * '.join([_factor(n)] * -p)})"
             for m, _ in powers for n, p in m if p < 0]
    terms = [(tuple((n, p) for n, p in m if p > 0), c * denominator) for m, c in powers]
    text = _sum(terms)
    if denominator == 1 and not below:
        return f"({text})" if tight and (len(terms) > 1 or "//" in text) else text
    above = f"({text})" if len(terms) > 1 else text
    return above + "".join(f" // {b}"
                           for b in dict.fromkeys([*([str(denominator)] if denominator > 1 else []), *below]))


def _atom(atom: Atom) -> str:
    """A size by its name, a quotient that is rounded as a division that rounds down."""
    if isinstance(atom, str):
        return atom
    above, below = atom.fraction
    return f"{sized(above + below - number(1) if atom.up else above, tight=True)} // {sized(below, tight=True)}"


def _factor(text: str) -> str:
    """An expression as a factor beside `*` or `//`: in brackets where it divides itself."""
    return f"({text})" if "//" in text else text


def _sum(terms: list[tuple[tuple[tuple[str, int], ...], Fraction]]) -> str:
    """A sum of monomials with whole coefficients, as Python writes it; `0` where there are none."""
    out = ""
    for mono, coefficient in reversed(terms):
        factors = [n for n, p in mono for _ in range(int(p))]
        size = abs(int(coefficient))
        if size != 1 or not factors:
            factors.insert(0, str(size))
        sign = "-" if coefficient < 0 else "+"
        text = " * ".join(map(_factor, factors)) if len(factors) > 1 else factors[0]
        out += f" {sign} {text}" if out else f"-{_factor(text)}" if coefficient < 0 else text
    return out or "0"


def folded(line: str, width: int = 130) -> list[str]:
    """A statement on lines of at most about `width`: broken in brackets only, as far out
    as can be; no brackets in its strings."""
    pad, depth, out = " " * (len(line) - len(line.lstrip()) + 4), 0, []
    while len(line) > width:
        places: dict[tuple[int, bool], int] = {}  # depth, whether at an operator -> the last place for a break
        inner = depth
        for at in range(width):
            inner += (line[at] in "([{") - (line[at] in ")]}")
            after = line[at : at + 2] == ", " and line[at - 1] != ":" and not line.startswith("None", at + 2)
            if inner and (after or line[at : at + 3] in (" + ", " & ")):
                places[inner, not after] = at + after
        late = [place for place, at in places.items() if at > width // 2]
        if not late:
            break
        at = places[min(late)]
        depth += sum((char in "([{") - (char in ")]}") for char in line[:at])
        out.append(line[:at])
        line = pad + line[at:].lstrip()
    return [*out, line]


def _outermost(text: str) -> list[str]:
    """The text cut before each ` + ` or ` - ` that stands in no bracket."""
    depth, start, out = 0, 0, []
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and text[at : at + 3] in (" + ", " - "):
            out.append(text[start:at])
            start = at + 1
    return [*out, text[start:]]
