"""Terms and conditions as text of the language, with a name for each letter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from einc.documents.python_source.terms import (
    Apply,
    Compare,
    Condition,
    Constant,
    Fold,
    Gate,
    Joined,
    Letter,
    Line,
    Place,
    Read,
    SizeOf,
    Slot,
    Term,
    letters_of,
)
from einc.ir.indices import Extent

SIGN = {"sum": "Σ", "prod": "∏", "max": "max", "min": "min"}
TURNED = {">": "<", "≥": "≤", "<": ">", "≤": "≥", "=": "=", "≠": "≠"}
SUM, PRODUCT, ATOM = 0, 1, 2  # how tight a text binds


@dataclass(frozen=True)
class Printer:
    """The names of one equation: of its letters, of arrays with their scripts, of sizes."""

    letters: Mapping[Letter, str]
    array: Callable[[str, str], str]
    size: Callable[[Extent], str]
    temporal: Callable[[Letter], bool]

    def slot(self, slot: Slot) -> str:
        """One axis of an array in index notation: its letter, or its letters in parentheses where it has several."""
        names = [str(part) if isinstance(part, int) else self.letters[part] for part in slot]
        if len(names) == 1:
            return names[0]
        return f"({', '.join(names) if any(isinstance(p, int) for p in slot) else ' '.join(names)})"

    def term(self, term: Term, least: int = SUM) -> str:
        """A term, in parentheses where its place binds tighter than it does."""
        text, binds = self.bare(term)
        return text if binds >= least else f"({text})"

    def bare(self, term: Term) -> tuple[str, int]:
        """The text of a term, and how tight it binds."""
        match term:
            case Constant(value):
                text = repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
                return text, ATOM if value >= 0 else SUM
            case SizeOf(extent):
                text = self.size(extent)
                return text, ATOM if " " not in text else SUM
            case Place(letter):
                return self.letters[letter], ATOM
            case Read(name, slots):
                return self.array(name, " ".join(self.slot(slot) for slot in slots)), ATOM
            case Apply("+" | "-" as sign, (left, right)):
                first = self.term(left, PRODUCT if isinstance(left, Fold) else SUM)
                return f"{first} {sign} {self.term(right, PRODUCT)}", SUM
            case Apply("*", (left, right)):
                return self.times(left, right), PRODUCT
            case Apply("/", (left, right)):
                return f"{self.term(left, ATOM)} / {self.term(right, ATOM)}", PRODUCT
            case Apply("^", (left, right)):
                return f"({self.term(left)})^{{{self.term(right)}}}", ATOM
            case Apply(name, args):
                return f"{name}({', '.join(map(self.term, args))})", ATOM
            case Gate(condition):
                return f"1[{self.condition(condition)}]", ATOM
            case Fold(name, letters, condition, body):
                return f"{SIGN[name]}_{{{self.domain(letters, condition)}}} {self.term(body, PRODUCT)}", SUM
            case Line(name, letters, condition, args, named):
                more = "".join(f", {word} = {self.term(value)}" for word, value in named)
                inner = ", ".join(map(self.term, args))
                return f"{name}_{{{self.domain(letters, condition)}}}({inner}{more})", ATOM
        assert_never(term)

    def times(self, left: Term, right: Term) -> str:
        """A product: arrays stand side by side, anything else is joined by a sign."""
        texts = [self.factor(left), self.factor(right)]
        return (" " if isinstance(right, Read) and not texts[0].endswith(")") else " · ").join(texts)

    def factor(self, term: Term) -> str:
        """A factor; a quotient stands in parentheses."""
        if isinstance(term, Apply) and term.name == "/":
            return f"({self.bare(term)[0]})"
        return self.term(term, PRODUCT)

    def domain(self, letters: Sequence[Letter], condition: Condition | None) -> str:
        """What stands under a fold or a function of a line: letters, whole ranges of time, conditions."""
        parts = self.split(condition)
        own: dict[Letter, Compare] = {}  # a condition that begins with a letter stands for it
        used: list[Condition] = []
        for part in parts:
            found = _first(part, letters)
            if found is not None and isinstance(found.left, Place) and found.left.letter not in own:
                own[found.left.letter] = found
                used.append(part)
        ranges = {x: f"{self.letters[x]} ∈ 1..{self.size(x.extent)}" for x in letters
                  if self.temporal(x) and not any(x in letters_of(p) for p in parts)}
        # Where one letter stands by itself a condition binds none, so all of them do.
        by_themselves = any(x not in own and x not in ranges for x in letters)
        out = [self.letters[x] for x in letters if by_themselves]
        conditions: list[Condition] = [*own.values(), *(p for p in parts if p not in used)]
        return ", ".join([*out, *ranges.values(), *map(self.condition, conditions)])

    def split(self, condition: Condition | None) -> tuple[Condition, ...]:
        """The conditions that a domain lists with commas between them; none where there is no condition."""
        if condition is None:
            return ()
        return condition.parts if isinstance(condition, Joined) and condition.word == "and" else (condition,)

    def condition(self, condition: Condition) -> str:
        """A condition; comparisons of two positions have the smaller one in front."""
        match condition:
            case Compare(sign, left, right):
                return f"{self.term(left)} {sign} {self.term(right)}"
            case Joined(word, parts):
                return f" {word} ".join(f"({self.condition(part)})" for part in parts)
        assert_never(condition)


def _first(part: Condition, letters: Sequence[Letter]) -> Compare | None:
    """A comparison with one of the letters in front; None where none of them stands alone on a side."""
    if isinstance(part, Compare):
        for found in (part, Compare(TURNED[part.sign], part.right, part.left)):
            if isinstance(found.left, Place) and found.left.letter in letters:
                return found
    return None
