r"""What stands above a name: a power, a label, a place or the sign of a transpose, by how it is written.

| above a name                             | may be                                              |
|------------------------------------------|-----------------------------------------------------|
| a number alone, `x^2`, `x^{-1}`          | a power, a label, a place                           |
| what is computed, `x^{2/d}`, `x^{t-s}`   | a power, a place                                    |
| `T`                                      | the sign of a transpose, a power, a label           |
| a name or a letter, `x^t`                | a power, a label, a place                           |
| anything in parentheses, `x^{(2)}`       | a label, a place: nobody writes a power so          |
| a word in quotes, `x^{\text{out}}`        | a label                                             |
| several things, `x^{h d}`, `x^{h, d}`    | labels and places                                   |

The declarations decide between what is left; where they do not, it is a question.
"""

from __future__ import annotations

from dataclasses import replace

from einc.syntax import tree as s


def exponent(script: s.Script) -> s.Expression | None:
    """What a script would be as an exponent; None where it can be none."""
    match _alone(script):
        case None | s.Group() | s.Word(_, _, True):
            return None
        case s.Product(factors, operators) if not any(operators) and not isinstance(factors[0], s.Number):
            return None  # letters side by side are places, and `2 j` is computed
        case found:
            return found


def computed(script: s.Script) -> s.Expression | None:
    """The exponent that a script would be where it is computed, `2/d` or `t - s`, and no number, name or letter."""
    found = exponent(script)
    return found if isinstance(found, s.Sum | s.Product | s.Fraction | s.Root) else None


def transposes(script: s.Script) -> bool:
    """Whether a script may be the sign of a transpose: `T` above a name, in any type."""
    found = _alone(script)
    return isinstance(found, s.Word) and found.text == "T"


def parenthesised(script: s.Script) -> bool:
    """Whether all that stands above a name stands in parentheses, as labels and places do."""
    found = _alone(script)
    return isinstance(found, s.Group) and found.open == "("


def unraised(node: s.Expression) -> tuple[s.Expression, s.Expression] | None:
    """A name without its last script, and what that raises it to; None where that can be no power."""
    if not isinstance(node, s.Scripted) or not node.scripts or (found := exponent(node.scripts[-1])) is None:
        return None
    rest = node.scripts[:-1]
    return replace(node, scripts=rest) if rest or node.accents else node.base, found


def _alone(script: s.Script) -> s.Expression | None:
    """The one thing that stands above a name; None where nothing or several things do. Without braces around them
    parentheses only group, `x^(t-s)`.
    """
    content = script.content if script.kind == "upper" else None
    if isinstance(content, s.Group) and content.open in ("{", "("):
        return content.items[0] if len(content.items) == 1 else None
    return content
