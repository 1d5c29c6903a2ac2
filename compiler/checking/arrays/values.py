"""What an expression of arrays is: its axes in order, and how it is written once each axis has its letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from einc.checking.arrays.naming import Naming
from einc.checking.arrays.sets import Sets
from einc.checking.matrices.factors import product
from einc.checking.matrices.shapes import mapped
from einc.checking.matrices.slots import entered, places
from einc.errors.problems import NoShape
from einc.errors.report import Help, Span
from einc.syntax import tree as s
from einc.syntax.spelling import is_fold

Entry = tuple[str, ...]  # the letters of one axis, several of one that is made of several
Used = frozenset[str]


@dataclass(frozen=True)
class Value:
    """The axes of an expression, none of a number, with the letters that the text has for them, "" where it has none.
    `write` gives it in index notation, an entry for each axis; `Used` are the letters that stand around it. `view`: its
    entries are those of one array, in another order or several times. Nothing that it reads varies along the axes, by
    their places, that it `repeats`.
    """

    axes: tuple[int, ...]
    letters: tuple[str, ...]
    write: Callable[[Sequence[Entry], Used], s.Expression]
    view: bool = False
    repeats: frozenset[int] = frozenset()


def number(node: s.Expression) -> Value:
    """The value of an expression that has no axes, which is written wherever it is used as it stands."""
    return Value((), (), lambda entries, used: node)


def indexed(node: s.Expression, entries: Sequence[Entry]) -> s.Expression:
    """A name with its letters below it, behind its labels: `W_Q` has one script with both."""
    if not entries:
        return node
    span = node.span
    base, accents, scripts = (node.base, node.accents, node.scripts) if isinstance(node, s.Scripted) else (node, (), ())
    lower = next((k for k in scripts if k.kind == "lower"), None)
    labels: tuple[s.Expression, ...] = ()
    if lower is not None and lower.content is not None:
        found = lower.content
        labels = found.items if isinstance(found, s.Group) and found.open == "{" else (found,)
    content = side_by_side((*labels, *(entered(x, span) for x in entries)), span)
    made = s.Script("lower", s.Group("{", "}", (content,), span), "", span)
    kept = tuple(made if k is lower else k for k in scripts)
    return s.Scripted(base, accents, kept if lower is not None else (*scripts, made), span)


def side_by_side(items: tuple[s.Expression, ...], span: Span) -> s.Expression:
    """Entries of a script, one or more."""
    return items[0] if len(items) == 1 else s.Product(items, ("",) * len(items), span)


def entrywise(sets: Sets, values: Sequence[Value], span: Span,
              build: Callable[[tuple[s.Expression, ...]], s.Expression]) -> Value:
    """Values combined entry by entry: axes are matched from the last one, as arrays are broadcast."""
    most = max(values, key=lambda v: len(v.axes), default=number(s.Number("0", span)))
    for value in values:
        for one, two in zip(reversed(most.axes), reversed(value.axes), strict=False):
            sets.join(one, two)
    letters = list(most.letters)
    for value in values:
        for at, letter in enumerate(value.letters[::-1], 1):
            letters[-at] = letters[-at] or letter

    def write(entries: Sequence[Entry], used: Used) -> s.Expression:
        return build(tuple(v.write(entries[len(entries) - len(v.axes):], used) for v in values))

    count = len(most.axes)
    varying = {count - len(v.axes) + at for v in values for at in range(len(v.axes)) if at not in v.repeats}
    return Value(most.axes, tuple(letters), write, repeats=frozenset(range(count)) - varying)


def along(naming: Naming, value: Value, function: s.Word, axis: int, number: bool, rest: Sequence[s.Expression],
          span: Span) -> Value:
    """A function of the lines along one axis, or a fold over it, `max_{s} X`. `number`: a line becomes a
    number. `rest` are its other arguments. Raises NoShape.
    """
    count = len(value.axes)
    if not -count <= axis < count:
        raise NoShape(f"there is no axis {axis}: `{function.text}` is applied to an array with {count}", span, helps=(
            Help(f"axes are counted from 0 to {count - 1}, or from the last, -1"),) if count else ())
    at = axis % count

    def write(entries: Sequence[Entry], used: Used) -> s.Expression:
        if number:
            own = naming.entry(value.axes[at], value.letters[at], used | {x for entry in entries for x in entry})
            entries = (*entries[:at], own, *entries[at:])
        naming.known_class(entries[at], function)
        inner = value.write(entries, used | {*entries[at]})
        named = s.Scripted(function, (), (below(entries[at], span),), function.span)
        if is_fold(function.text):
            return s.Group("(", ")", (product((named, inner), ("", ""), span),), span)
        return s.Product((named, s.Group("(", ")", (inner, *rest), span)), ("", ""), span)

    kept = [x for x in range(count) if x != at or not number]
    repeats = frozenset(n for n, x in enumerate(kept) if x in value.repeats)
    return Value(tuple(value.axes[x] for x in kept), tuple(value.letters[x] for x in kept), write, repeats=repeats)


def below(letters: Entry, span: Span) -> s.Script:
    """The script of what binds letters, or runs along them."""
    return s.Script("lower", s.Group("{", "}", (side_by_side(places(letters, span), span),), span), "", span)


def opened(node: s.Expression) -> s.Expression:
    """An expression without parentheses around all of it."""
    match node:
        case s.Group("(", ")", (inner,)):
            return opened(inner)
    return node


def at(node: s.Expression, span: Span) -> s.Expression:
    """An expression that stands at another place of the text."""
    made = mapped(node, lambda x: at(x, span), scripts=True)
    if isinstance(made, s.Scripted):
        made = replace(made, scripts=tuple(replace(k, span=span) for k in made.scripts))
    return replace(made, span=span)
