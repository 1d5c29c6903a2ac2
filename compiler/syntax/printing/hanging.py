"""What hangs on a name, in one order: accents, labels before indices, scripts of one
level beside each other together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from einc.syntax import tree as s
from einc.syntax.spelling import ACCENTS

Items = tuple[tuple[s.Expression, str], ...]


@dataclass(frozen=True, slots=True)
class Hung:
    """One script: a label of the name, and entries, each with what joins it to the one before (a comma or a space)."""

    level: Literal["lower", "upper"]
    labels: tuple[str, ...] = ()
    items: Items = ()

    @property
    def beside(self) -> bool:
        """Whether an upper script stands over the lower one, not behind it: a label, a
        power, an index in parentheses."""
        first = self.items[0][0] if self.items else None
        first = first.factors[0] if isinstance(first, s.Product) else first
        return (bool(self.labels) or isinstance(first, s.Group | s.Number)
                or (isinstance(first, s.Word) and first.quoted))


def hung(node: s.Scripted, outside: Callable[[str], bool], together: bool) -> tuple[tuple[str, ...], tuple[Hung, ...]]:
    """The accents of a name, and its scripts without primes.

    A label that may stand `outside` of braces (`_model`) is a script of its own, unless
    labels and indices stand `together`.
    """
    accents = list(node.accents)
    labels: dict[str, list[str]] = {"lower": [], "upper": []}
    quoted: dict[str, list[str]] = {"lower": [], "upper": []}
    out: list[Hung] = []
    for script in node.scripts:
        level: Literal["lower", "upper"] = "upper" if script.kind in ("upper", "label_upper") else "lower"
        if script.kind.startswith("label"):
            if script.kind == "label_lower" and script.text in ACCENTS and not labels["lower"]:
                accents.append(script.text)
            else:
                labels[level].append(script.text)
                _placed(out, level)
        elif script.kind != "prime":
            first = all(x.level != level or not x.items for x in out)
            found, items = _entries(script.content, outside if first else None)
            quoted[level] += found
            if found:
                _placed(out, level)
            if items:
                out.append(Hung(level, (), items))
    told = [replace(x, labels=(*labels[x.level], *quoted[x.level])) if _marks(x) else x for x in out]
    return tuple(accents), tuple(_merged(told, together))


def _placed(out: list[Hung], level: Literal["lower", "upper"]) -> None:
    """Adds a place for the labels of a level: before its first script."""
    if not any(_marks(x) and x.level == level for x in out):
        at = next((n for n, x in enumerate(out) if x.level == level), len(out))
        out.insert(at, Hung(level))


def _marks(script: Hung) -> bool:
    return not script.items


def _entries(content: s.Expression | None, outside: Callable[[str], bool] | None) -> tuple[list[str], Items]:
    """The labels that a script begins with, where they may stand outside of it, and its entries."""
    if content is None:
        return [], ()
    items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
    labels: list[str] = []
    first = items[0] if items else None
    factors = (first.factors if isinstance(first, s.Product) and not any(first.operators) else () if first is None
               else (first,))
    while outside is not None and _is_label(factors) and isinstance(factors[0], s.Word) and outside(factors[0].text):
        labels.append(factors[0].text)
        factors = factors[1:]
    if labels:
        rest = (factors[0] if len(factors) == 1 else s.Product(factors, ("",) * len(factors), factors[0].span)
                if factors else None)
        items = items[1:] if rest is None else (rest, *items[1:])
    return labels, tuple((item, ",") for item in items)


def _is_label(factors: tuple[s.Expression, ...]) -> bool:
    """Whether a quoted word stands first, and is applied to nothing."""
    match factors:
        case (s.Word(_, _, True), s.Group("(", _), *_):
            return False
        case (s.Word(_, _, True), *_):
            return True
    return False


def _merged(scripts: list[Hung], together: bool) -> list[Hung]:
    """Scripts of one level that stand beside each other are one; a number keeps a comma,
    or it would multiply what follows."""
    out: list[Hung] = []
    for script in scripts:
        before = out[-1] if out else None
        if before is None or before.level != script.level or (_marks(before) and not together):
            out.append(script)
            continue
        plain = (all(_is_run(x.items) for x in (before, script))
                 and not (before.items and isinstance(before.items[-1][0], s.Number)))
        (first, _), *rest = script.items
        out[-1] = Hung(script.level, before.labels, (*before.items, (first, " " if plain else ","), *rest))
    return out


def _is_run(items: Items) -> bool:
    """Whether a script is indices and nothing else, without commas."""
    return all(isinstance(x, s.Word | s.Scripted | s.Number) or (isinstance(x, s.Group) and x.open == "(")
               or (isinstance(x, s.Product) and not any(x.operators)) for x, _ in items) and len(items) < 2
