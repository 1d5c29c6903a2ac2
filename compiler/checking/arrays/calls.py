"""The functions that take a string: `einsum`, and `rearrange`, `reduce` and `repeat` of einops. All are one thing:
operands whose axes have words, the words of the result, and a fold over those that are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TypeGuard

from einc.checking.arrays.naming import Naming
from einc.checking.arrays.values import Entry, Used, Value, below
from einc.checking.declarations.names import size_name
from einc.checking.matrices.factors import product
from einc.checking.matrices.slots import sized
from einc.checking.notation import BY_POSITION
from einc.errors.problems import BadPattern, ShapesDiffer
from einc.errors.report import Help, Span
from einc.syntax import tree as s
from einc.syntax.patterns import Names, PatternError, pattern, subscripts

FOLDED = {"sum": "sum", "mean": "sum", "max": "max", "min": "min", "prod": "prod"}


@dataclass(frozen=True)
class Call:
    """A call: its operands with the words of each one's axes, the words of the result, how words that are left out are
    folded, and the sizes that arguments give to words.
    """

    name: str
    operands: tuple[s.Expression, ...]
    words: tuple[tuple[Names, ...], ...]
    out: tuple[Names, ...]
    fold: str
    sizes: tuple[tuple[str, s.Expression], ...]
    span: Span
    string: Span


def called(name: s.Expression, group: s.Expression) -> Call | None:
    """The call that a name before parentheses is; None where it is none. Raises BadPattern."""
    if not isinstance(name, s.Word) or name.text not in BY_POSITION or not (
            isinstance(group, s.Group) and group.open == "("):
        return None
    span = name.span.to(group.span)
    plain = [x for x in group.items if not isinstance(x, s.Relation)]
    sizes = tuple((x.operands[0].text, x.operands[1]) for x in group.items
                  if isinstance(x, s.Relation) and isinstance(x.operands[0], s.Word))
    string = next(filter(_string, plain), None)
    if string is None and name.text != "einsum":
        return None
    if string is None:
        raise BadPattern(f"`{name.text}` is given no string", span, helps=(_example(name.text),))
    try:
        if name.text == "einsum":
            if string not in (plain[0], plain[-1]):
                raise BadPattern("the string of einsum stands before its operands, or behind them", string.span,
                                 helps=(_example(name.text),))
            found = subscripts(string.text)
            operands = tuple(x for x in plain if x is not string)
            words = tuple(tuple((x,) for x in axes) for axes in found.operands)
            return _counted(Call("einsum", operands, words, tuple((x,) for x in found.out), "sum", (), span,
                                 string.span))
        before, after = pattern(string.text)
    except PatternError as error:
        raise BadPattern(error.message, string.span, helps=tuple(map(Help, (*error.ways, _example(name.text).text)))
                         ) from error
    at = plain.index(string)
    after_string = plain[at + 1 :]
    how = [x.text for x in after_string if _string(x)]
    if len(how) < len(after_string) or len(how) > (name.text == "reduce"):
        last = after_string[-1].span
        raise BadPattern(f"`{last.text}` stands behind what `{name.text}` takes", last, helps=(_example(name.text),))
    call = Call(name.text, tuple(plain[:at]), (before,), after, how[0] if how else "", sizes, span, string.span)
    return _counted(_sound(call))


def _string(node: s.Expression) -> TypeGuard[s.Word]:
    """Whether an expression is a string in quotes; a name in upright type, `\\text{a}`, is no string."""
    return isinstance(node, s.Word) and node.quoted and node.span.text.endswith(("'", '"'))


def _example(name: str) -> Help:
    """A help that shows one right call of a function that takes a string of axes."""
    return Help({
        "einsum": 'write `einsum("bhtd,bhsd->bhts", Q, K)`',
        "rearrange": 'write `rearrange(X, "b t (h d) -> b h t d")`',
        "reduce": 'write `reduce(X, "b t d -> b d", "mean")`', "repeat": 'write `repeat(X, "t d -> h t d")`'}[name])


def _counted(call: Call) -> Call:
    """The call, where its string has as many operands as it is given. Raises BadPattern where it has more or fewer."""
    if len(call.operands) != len(call.words):
        raise BadPattern(f"the string has {len(call.words)} operand{'s' * (len(call.words) > 1)}, and "
                         f"{len(call.operands)} {'is' if len(call.operands) == 1 else 'are'} given", call.span,
                         helps=(_example(call.name),))
    return call


def _sound(call: Call) -> Call:
    """A pattern of einops, where each word stands where it may. Raises BadPattern."""
    before, after = ([x for names in axes for x in names] for axes in (call.words[0], call.out))
    twice = [x for axes in (before, after) for x in axes if axes.count(x) > 1]
    if twice:
        raise BadPattern(f"`{twice[0]}` stands twice on one side of the pattern", call.string)
    if any(not names for names in (*call.words[0], *call.out)):
        raise BadPattern("an axis of one element is not read", call.string, helps=(
            Help("leave it out: an array has the axes that its equations need"),))
    gone, come = [x for x in before if x not in after], [x for x in after if x not in before]
    if (gone and call.name != "reduce") or (come and call.name != "repeat"):
        raise BadPattern(f"`{(gone or come)[0]}` stands on one side of the pattern alone", call.string, helps=(
            Help("`reduce` leaves words out, `repeat` adds them"),))
    if call.name == "reduce" and call.fold not in FOLDED:
        raise BadPattern(f"`{call.fold}` is no way to reduce" if call.fold else "nothing says how to reduce", call.span,
                         helps=(Help(f"write one of {', '.join(f'`{x}`' for x in FOLDED)} in quotes"),))
    return call


def _axes(naming: Naming, call: Call, before: Set[str]) -> dict[str, int]:
    """The set of each word of a call: that of the declared index of its name, or of the size that it is given. `before`
    are the words of the operands. Raises BadPattern and ShapesDiffer.
    """
    sets, known = naming.sets, naming.supply.known
    axes: dict[str, int] = {}
    for word in (x for part in (*call.words, call.out) for names in part for x in names):
        if word not in axes:
            axes[word] = sets.new(call.string, word)
            if word in known.letters:
                sets.join(sets.sized(known.letters[word], call.string), axes[word])
    for word, size in call.sizes:
        text = size.text if isinstance(size, s.Number) else size_name(size)
        if word not in axes or text is None:
            message = f"`{word} = {size.span.text}` is no number of a word of the pattern, nor a size"
            raise BadPattern(message, size.span, helps=(
                Help("a size is a number or a name, `h = 8`, of a word that stands in the pattern"),))
        sets.join(axes[word], sets.sized(text, size.span))
    for word in axes.keys() - before - known.letters.keys() - {x for x, _ in call.sizes}:
        raise BadPattern(f"nothing says how often `{word}` repeats", call.string, helps=(
            Help(f"give it a size: `{word} = 8`, or declare it: `index {word} : batch(…)`"),))
    return axes


def contracted(naming: Naming, call: Call, operand: Callable[[s.Expression, Sequence[str], tuple[int, ...]], Value]
               ) -> Value:
    """The value of a call. `operand` reads an operand whose axes have these words and sets. Raises BadPattern and
    ShapesDiffer.
    """
    sets = naming.sets
    before = {x for part in call.words for names in part for x in names}
    axes = _axes(naming, call, before)
    values: list[Value] = []
    for node, words in zip(call.operands, call.words, strict=True):
        wanted = tuple(sets.composite(tuple(axes[x] for x in names), call.string) for names in words)
        value = operand(node, tuple(names[0] if len(names) == 1 else "" for names in words), wanted)
        if len(value.axes) != len(wanted):
            raise ShapesDiffer(f"`{node.span.text}` has {len(value.axes)} axes, and {len(wanted)} words in the string",
                               node.span)
        for own, axis in zip(value.axes, wanted, strict=True):
            sets.join(own, axis)
        values.append(value)
    out = tuple(sets.composite(tuple(axes[x] for x in names), call.string) for names in call.out)
    kept = {x for names in call.out for x in names}
    folded = [x for x in axes if x not in kept]

    def write(entries: Sequence[Entry], used: Used) -> s.Expression:
        letters = _shared(naming, call.out, axes, entries)
        around = used | {x for entry in entries for x in entry}
        for word in folded:
            letters[word] = naming.entry(axes[word], word, around)
            around |= {*letters[word]}
        nodes = tuple(value.write(tuple(tuple(x for name in names for x in letters[name]) for names in words), around)
                      for value, words in zip(values, call.words, strict=True))
        body = nodes[0] if len(nodes) == 1 else product(nodes, ("",) * len(nodes), call.span)
        return _folded(naming, call, body, [(axes[x], letters[x]) for x in folded])

    varying = {x for value, words in zip(values, call.words, strict=True) for at, names in enumerate(words)
               if at not in value.repeats for x in names}
    return Value(out, tuple(names[0] if len(names) == 1 else "" for names in call.out), write,
                 len(values) == 1 and values[0].view and not folded,
                 frozenset(at for at, names in enumerate(call.out) if not {*names} <= varying))


def _shared(naming: Naming, out: Sequence[Names], axes: dict[str, int], entries: Sequence[Entry]) -> dict[str, Entry]:
    """The letters of each word of a result, from those of its axes."""
    letters: dict[str, Entry] = {}
    for names, entry in zip(out, entries, strict=True):
        at = 0
        for name in names:
            count = len(naming.sets.dimension(axes[name]))
            letters[name] = entry[at : at + count]
            at += count
    return letters


def _folded(naming: Naming, call: Call, body: s.Expression, folded: Sequence[tuple[int, Entry]]) -> s.Expression:
    """The fold of a product over the letters that the result leaves out."""
    letters = tuple(x for _, entry in folded for x in entry)
    if not letters:
        return body
    fold = s.Scripted(s.Word(FOLDED[call.fold], call.span), (), (below(letters, call.span),), call.span)
    made: s.Expression = s.Group("(", ")", (product((fold, body), ("", ""), call.span),), call.span)
    if call.fold == "mean":
        for size in (x for axis, _ in folded for x in naming.sets.dimension(axis)):
            made = s.Product((made, sized(size, call.span)), ("", "/"), call.span)
        return s.Group("(", ")", (made,), call.span)
    return made
