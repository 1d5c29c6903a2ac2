"""Factors of products and what hangs on them: big operators, parentheses, letters side by side, scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Literal

from einc.checking.declarations.names import head, left_of, size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.shapes import is_name, mapped, parts, within
from einc.checking.matrices.slots import undressed
from einc.errors.problems import NoShape, OpenReading
from einc.errors.report import Help, Span
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s
from einc.syntax.spelling import is_fold

BOLD = re.compile(r"\\(?:mathbf|boldsymbol|bm)(?![A-Za-z])")  # letters in this font are variables, each by itself


def product(nodes: tuple[s.Expression, ...], marks: tuple[str, ...], span: Span) -> s.Expression:
    """A product of expressions, each a factor of it. What stands in parentheses behind a name is no argument of it."""
    made = tuple(enclosed(x, mark == "/") for x, mark in zip(nodes, marks, strict=True))
    apart = (mark == "" and isinstance(x, s.Group) and is_name(before)
             for before, x, mark in zip(made, made[1:], marks[1:], strict=False))
    return s.Product(made, (*marks[:1], *("*" if y else mark for y, mark in zip(apart, marks[1:], strict=True))), span)


def enclosed(node: s.Expression, divisor: bool = False) -> s.Expression:
    """An expression as a factor: in parentheses where it is a sum, a product with a quotient or a big operator, or a
    product that is a divisor.
    """
    inner = isinstance(node, s.Product) and (divisor or "/" in node.operators or any(map(binds, node.factors)))
    return s.Group("(", ")", (node,), node.span) if inner or isinstance(node, s.Sum) else node


def binds(node: s.Expression) -> bool:
    """Whether it is `Σ_i`, which takes the rest of its product."""
    return isinstance(node, s.Scripted) and isinstance(node.base, s.Word) and is_fold(node.base.text)


def renamed(node: s.Expression, old: str, new: str) -> s.Expression | None:
    """A name with one entry of its scripts renamed; None where it has none of that name, or several."""
    if not isinstance(node, s.Scripted):
        return None
    found = 0

    def change(x: s.Expression) -> s.Expression:
        """The entry of this name under the new one, counted."""
        nonlocal found
        text = x.text if isinstance(x, s.Word | s.Number) else size_name(x) if isinstance(x, s.Scripted) else None
        if text != old:
            return x if isinstance(x, s.Scripted) else mapped(x, change)
        found += 1
        return s.Word(new, x.span)

    scripts = tuple(replace(k, content=change(k.content)) if k.content is not None else k for k in node.scripts)
    return replace(node, scripts=scripts) if found == 1 else None


def apart(statements: Iterable[s.Statement], functions: Container[str],
          letters: Iterable[str] = ()) -> tuple[s.Statement, ...]:
    """The lines of a paper with letters side by side as products: `QK^⊤` of Q and K, where `QK` is no name of its own
    and none of the `functions`, `iG` of a letter and a size, and `h d_v` of a shape `hd_v × d`. In a spec a run of
    letters is one name. `letters` are names that no line declares.
    """
    lines = tuple(statements)
    bodies = [c.body for line in lines for c in line.clauses]
    sizes = {found[0].base for line in lines for c in line.tail for x in parts(c.body)
             if is_name(x) and (found := head(x)) is not None and len(found[0].base) == 1}
    lefts = (x.factors[0] if isinstance(x, s.Product) else x for x in map(left_of, bodies))
    heads = [found[0] for x in lefts if (found := head(x)) is not None]
    names = sizes | {x.base for x in heads} | {*letters}
    labels = {k.span.text.strip("_^{} ") for x in map(left_of, bodies) if isinstance(x, s.Scripted) for k in x.scripts}
    written = {size for line in lines for c in line.tail for x in parts(c.body) if (size := size_name(x)) is not None}
    return tuple(line if line.rank is None else replace(line, clauses=tuple(
        replace(c, body=_apart(_hung(_sized(c.body, written), names, labels), names, functions)) for c in line.clauses),
        tail=tuple(replace(c, body=_apart(c.body, sizes, functions)) for c in line.tail)) for line in lines)


def _sized(node: s.Expression, sizes: set[str]) -> s.Expression:
    """The expression with the sizes that have primes or labels above as the shapes name them."""
    made = undressed(node)
    return made if made is not node and size_name(made) in sizes else mapped(node, lambda x: _sized(x, sizes))


def _hung(node: s.Expression, names: set[str], labels: set[str]) -> s.Expression:
    """The expression with what stands behind a script without braces as factors, as TeX sets it: `W_QW_K^⊤` is
    `W_Q W_K^⊤` where W is a name of the text, and QW none of its labels.
    """
    if isinstance(node, s.Scripted) and isinstance(node.base, s.Word):
        for n, one in enumerate(node.scripts):
            text = one.span.text[1:].strip()
            runs = one.kind in ("label_lower", "label_upper") and one.text == text and text.isalpha()
            if runs and len(text) > 1 and text.isascii() and text not in labels and all(x in names for x in text[1:]):
                return _cut(node, n, text, lambda x: _hung(x, names, labels))
        return node
    if isinstance(node, s.Product):
        pieces = [(sign, _hung(x, names, labels), x) for x, sign in zip(node.factors, node.operators, strict=True)]
        joined = [(sign if k == 0 else "", x) for sign, made, was in pieces for k, x in enumerate(
            made.factors if isinstance(made, s.Product) and isinstance(was, s.Scripted) and sign != "/" else (made,))]
        return replace(node, factors=tuple(x for _, x in joined), operators=tuple(sign for sign, _ in joined))
    return mapped(node, lambda x: _hung(x, names, labels))


def _cut(node: s.Scripted, at: int, text: str, rest: Callable[[s.Expression], s.Expression]) -> s.Product:
    """A name with the first letter of the script at a place, and the other letters as factors behind it, of which the
    last has the scripts that follow and is read on by `rest`.
    """
    one, source = node.scripts[at], node.span.source
    start = one.span.end - len(text)
    first, *more = (s.Word(x, Span(source, start + k, start + k + 1)) for k, x in enumerate(text))
    level: Literal["lower", "upper"] = "lower" if one.kind == "label_lower" else "upper"
    script = s.Script(level, first, "", Span(source, one.span.start, start + 1))
    left = replace(node, scripts=(*node.scripts[:at], script), span=Span(source, node.span.start, start + 1))
    behind = node.scripts[at + 1 :]
    last = rest(s.Scripted(more[-1], (), behind, more[-1].span.to(node.span)) if behind else more[-1])
    factors = (left, *more[:-1], *(last.factors if isinstance(last, s.Product) else (last,)))
    return s.Product(factors, ("",) * len(factors), node.span)


def _apart(node: s.Expression, names: set[str], functions: Container[str]) -> s.Expression:
    """The expression with each run of letters that are all `names` as a product, whose last factor has the scripts."""
    match node:
        case s.Word(text, span) if (not node.quoted or BOLD.match(span.text)) and _run(
                text, names) and text not in functions:
            first = span.start + max(span.text.find(text), 0)
            places = (Span(span.source, first + n, first + n + 1) for n in range(len(text)))
            letters = tuple(s.Word(x, place) for x, place in zip(text, places, strict=True))
            return s.Product(letters, ("",) * len(letters), span)
        case s.Word(text) if text not in names and text not in functions and node.span.text.startswith("\\") and (
                text.lower() in functions and text.lower() not in PRIMITIVES):
            return replace(node, text=text.lower(), quoted=False)
        case s.Scripted(s.Word() as base):
            split = base if node.accents else _apart(base, names, functions)
            if isinstance(split, s.Word):
                return replace(node, base=split)
            if not isinstance(split, s.Product):
                return node
            last = replace(node, base=split.factors[-1])
            return s.Product((*split.factors[:-1], last), split.operators, node.span)
        case s.Product(factors, operators):
            parts: list[tuple[str, s.Expression]] = []
            for factor, operator in zip(factors, operators, strict=True):
                inner = _apart(factor, names, functions)
                joined = isinstance(inner, s.Product) and not isinstance(factor, s.Product) and operator != "/"
                pieces = inner.factors if isinstance(inner, s.Product) and joined else (inner,)
                parts += [(operator if n == 0 else "", x) for n, x in enumerate(pieces)]
            return replace(node, factors=tuple(x for _, x in parts), operators=tuple(o for o, _ in parts))
    return mapped(node, lambda x: _apart(x, names, functions))


def _run(text: str, names: set[str]) -> bool:
    """Whether a word is letters side by side, each the name of something in the text; `dO` is the gradient of O to
    most.
    """
    if len(text) == 2 and text[0] == "d" and text[1].isupper():
        return False
    return len(text) > 1 and text not in names and not is_fold(text) and all(x in names for x in text)


def applied(factors: tuple[s.Expression, ...], operators: tuple[str, ...], functions: Container[str],
            letters: Container[str]) -> tuple[tuple[s.Expression, ...], tuple[str, ...]]:
    """The factors with parentheses around what a function at the end of a product has without: `\\cos m θ_1`. That is
    one factor, or numbers and letters that count something with one name in Greek; others may be factors of the whole.
    """
    for at, node in enumerate(factors[:-1]):
        rest = factors[at + 1 :]
        if not (isinstance(node, s.Word) and node.text in functions and node.span.text.startswith("\\")) or any(
                operators[at + 1 :]) or isinstance(getattr(rest[0], "base", rest[0]), s.Group):
            continue
        bases = [x.base if isinstance(x, s.Scripted) else x for x in rest]
        named = [x for x, y in zip(rest, bases, strict=True) if not isinstance(y, s.Number) and not (
            isinstance(x, s.Word) and x.text in letters)]
        greek = [x for x in bases if isinstance(x, s.Word) and not x.text.isascii()]
        if len(rest) == 1 or (len(named) == 1 and len(greek) == 1):
            span = rest[0].span.to(rest[-1].span)
            inner = s.Product(rest, ("",) * len(rest), span) if len(rest) > 1 else rest[0]
            bare = s.Group("{", "}", (inner,), span)
            return (*factors[: at + 1], s.Group("(", ")", (bare,), span)), operators[: at + 2]
    return factors, operators


def unapplied(node: s.Expression) -> NoShape:
    """What is wrong with a function without parentheses."""
    return NoShape(f"`{node.span.text}` is a function, and what it is applied to stands in parentheses", node.span,
                   helps=(Help(f"write `{node.span.text}(…)` around as much of what follows as is meant"),))


def unbarred(called: y.Typed, name: str, node: s.Expression, given: s.Group) -> y.Typed:
    """The application `called` of the function `name` to `given`. Raises OpenReading where it stands for bars around
    what is no number, `|q|`: entries, a length and a determinant are written so.
    """
    if name == "abs" and not called.shape.number and "abs" not in node.span.text:
        message = f"do the bars mean each entry of `{given.items[0].span.text}`, or one number, as a length?"
        raise OpenReading(message, given.span, helps=(Help("for each entry write `\\text{abs}(…)`"),
            Help("a length is `\\sqrt{q^\\top q}` of a column `q`")))
    return called


def script(node: s.Expression) -> tuple[s.Expression | None, s.Expression | None]:
    """What stands in the script of a function, and the domain in it: every condition there holds. Raises NoShape."""
    content = node.scripts[0].content if isinstance(node, s.Scripted) else None
    items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,) if content else ()
    conditions = tuple(x for x in items if isinstance(x, s.Relation | s.Logic))
    if len(items) > len(conditions) + 1 or (items and items[0] not in conditions and len(items) == len(conditions)):
        raise NoShape(f"`{node.span.text}` has a script that is no letter and no domain", node.span)
    if not conditions:
        return (items[0] if items else None), None
    first = conditions[0]
    return items[0], first if len(conditions) == 1 else s.Logic("and", conditions, first.span.to(conditions[-1].span))


def bound(binder: s.Expression) -> list[str]:
    """The letters over which a big operator runs: those that stand alone or first in its conditions."""
    content = binder.scripts[0].content if isinstance(binder, s.Scripted) and binder.scripts else None
    items: tuple[s.Expression | None, ...] = content.items if isinstance(content, s.Group) else (content,)
    return [found[0] for x in items if (found := first_words(x))]


def ranges(binder: s.Expression) -> dict[str, s.Expression]:
    """The letters of a big operator with a domain, each with the condition that it says: `j ≤ t` of `Σ_{j=1}^t`."""
    hung = {k.kind: k.content for k in binder.scripts} if isinstance(binder, s.Scripted) else {}
    low, high = (x.items[0] if isinstance(x, s.Group) and len(x.items) == 1 else x for x in (
        hung.get("lower"), hung.get("upper")))
    match low:
        case s.Relation((s.Word(letter) as word, s.Number() as start), ("=",), span) if high is not None:
            return {letter: s.Relation((start, word, high), ("<=", "<="), span)}
        case s.Relation((s.Word(letter), *_), operators) if high is None and "=" not in operators:
            return {letter: low}
    return {}


def first_words(node: s.Expression | None) -> list[str]:
    """The words of an expression in their order, without those of scripts."""
    if isinstance(node, s.Word):
        return [node.text]
    return [w for x in within(node) for w in first_words(x)] if node is not None else []
