"""What a paper does not declare: a name that nothing defines is an input, its slots those of its first use."""

from __future__ import annotations

import re

from einc.checking.declarations.heads import head_of, heads_of
from einc.checking.declarations.names import Name
from einc.checking.declarations.scope import Signature
from einc.checking.declarations.scripts import Item, Vocabulary, labelled, readings
from einc.checking.declarations.sets import undeclared
from einc.checking.declarations.slots import called_map, item_set
from einc.checking.expressions.misses import unmatched
from einc.checking.expressions.values import Context
from einc.errors.problems import Undeclared, UnknownIndex
from einc.errors.report import Help, Label
from einc.ir.indices import INDEX_CLASSES
from einc.ir.programs import Slot
from einc.syntax import tree as s

# What follows a name that is applied rather than multiplied: nobody can say what an undeclared function is.
_APPLIED = re.compile(r"(?:\\[,;:! ]|\\(?:left|[bB]igg?l?)\b|\s|\{\})*\(")


# Letters that stand for a number to many, and are a name to others.
_NUMBERS = {"e": "the base of the natural logarithm", "i": "the imaginary unit", "π": "the number 3.14…"}
_BOLD = re.compile(r"\\(?:mathbf|boldsymbol|textbf|bm)\b")


def inferred(context: Context, stem: Name, scripts: tuple[s.Script, ...],
             node: s.Expression) -> tuple[Signature, tuple[Item, ...]]:
    """The signature of an input that no line declares, found from one use of its name, and the items of the scripts
    of that use. Adds the input to `context.scope`. Raises Undeclared, UnknownIndex or the problem of an unknown name
    where the use does not say what the input is."""
    problem = unmatched(context, stem, scripts, node)
    infers = context.scope.foreign.infers and context.inside.letters is None
    unread = left_unread(context, node)
    if infers and not unread and stem.base not in context.scope.lost and _whole(node, scripts, context):
        raise Undeclared(f"`{node.span.text}` has no indices, and nothing says what it is", node.span,
                         notes=("words and whole matrices are no tensors of an equation with indices",),
                         helps=(Help("write the tensor with its indices, or declare the number in a side file"),))
    if not infers or (not scripts and applied(node)) or stem.base in context.scope.lost:
        raise problem
    if stem.python in context.scope.applied and not stem.labels:
        raise problem
    if unread:
        raise Undeclared(f"what defines `{node.span.text}` cannot be read", node.span, helps=(
            Help("mend its equation, or declare it in a side file"),))
    _one_reading(context, stem, scripts, node)
    found = readings(scripts, Vocabulary(context.indices, None, frozenset(context.scope.maps)))
    if len(found) > 1:  # `W_{Qhf}`: as TeX sets it, each letter for itself
        found = [r for r in found if all(len(i.text.rstrip("'")) == 1 for i in r if i.kind in ("label", "index"))]
    if len(found) != 1:
        raise problem
    loose = next((i for i in found[0] if i.kind == "label" and (_lower(i) or _runs(context, i))), None)
    if loose is not None:
        raise UnknownIndex(f"`{loose.text}` is no declared index", loose.span,
                           notes=("a label is a capital, a word or a number",),
                           helps=(undeclared(loose.text), Help(f"if it is a label, write `\\text{{{loose.text}}}`")))
    _raised(context, stem, found[0], node)
    name, items = labelled(stem, found[0])
    sets = [item_set(context.scope, item) for item in items]
    letters = [_letter(context, item) for item in items]
    slots = tuple(Slot(of, item.level, letter if letters.count(letter) == 1 else item.text)
                  for item, of, letter in zip(items, sets, letters, strict=True) if of is not None)
    if len(slots) < len(items):
        raise problem
    _squared(context, name, slots, node)
    _otherwise(context, name, slots, node)
    signature = Signature(name, slots, "input", node.span, inferred=True)
    signature.named(context.made.reserved(name.python))
    context.scope.add(signature)
    return signature, items


def applied(node: s.Expression) -> bool:
    """Whether parentheses follow a name, so that it may be a function."""
    source, at = node.span.source, node.span.end
    return _APPLIED.match(source.text, at, at + 40) is not None


def left_unread(context: Context, node: s.Expression) -> bool:
    """Whether what the paper says of a name is not read."""
    return head_of(node.span.text) in heads_of(context.scope.foreign.unknown)


def _one_reading(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> None:
    """What is inferred decides between no two readings: raises Undeclared for what the text says is a vector or a
    matrix and for letters side by side, which may be a product, and UnknownIndex for a number that hangs as a letter on
    something that is defined.
    """
    word = node.base if isinstance(node, s.Scripted) else node
    text = stem.base
    if _BOLD.match(word.span.text) or head_of(node.span.text) in context.scope.foreign.shaped:
        why = "is in bold, as vectors and matrices are" if _BOLD.match(word.span.text) else "has a shape in the text"
        below, sign, power = node.span.text.rpartition("^")
        raised = (Help(f"for a power write `({below})^{power}`"),) if sign and power.strip("{ }").isdigit() else ()
        raise Undeclared(f"`{node.span.text}` {why}, and no index says what its entries are", node.span, helps=(
            *raised, Help("declare it in a side file: `matrix NAME : ROWS × COLUMNS`, `vector NAME : SIZE`"),))
    if isinstance(word, s.Word) and not word.quoted and len(text) > 1 and text.isascii():
        raise Undeclared(f"`{text}` is letters side by side, and nothing declares a tensor of that name", node.span,
                         helps=(Help(f"for a product write spaces between them: `{' '.join(text)}`"),
                                Help(f"for one name write `\\text{{{text}}}`, or declare it in a side file")))
    hung = next((x for x in context.scope.signatures if any(_in_run(text, y) for y in x.name.labels)), None)
    if not scripts and hung is not None and len(text) == 1 and text.islower():
        message = f"`{text}` is a number here and a script of `{hung.span.text}`, and nothing says over what it runs"
        raise UnknownIndex(message, node.span, "", Label(hung.span, "a script here"), helps=(
            undeclared(text), Help(f"if the script is a label, write `\\text{{{text}}}`")))
    if not scripts and text in _NUMBERS:
        raise Undeclared(f"is `{text}` {_NUMBERS[text]}, or a name that nothing declares?", node.span, helps=(
            Help(f"declare it in a side file, `input {text}`, or write the number another way"),))


def _in_run(letter: str, label: str) -> bool:
    """Whether a letter is a label, or one of two or three that stand side by side as letters do: i of `ij`."""
    return letter == label or (len(label) <= 3 and label.isalpha() and label.islower() and letter in label)


def _raised(context: Context, stem: Name, reading: tuple[Item, ...], node: s.Expression) -> None:
    """Raises Undeclared for what stands above a name of which nothing is known and may be its power: a number, a
    position, a size. `x_t^2` is a square, or an `x` of its own.
    """
    above = next((i for i in reading if i.level == "upper" and _power(context, stem, i)), None)
    if above is not None:
        message = f"`{above.span.text}` above `{node.span.text}` is a power, or a part of the name, and nothing tells"
        below, _, power = node.span.text.rpartition("^")
        raised, label = (f"({below}){'^'}{power}", f"{below}^{{\\text{{{above.span.text}}}}}") if below else (
            "(x_t)^2", "x_t^{\\text{2}}")
        raise Undeclared(message, above.span, helps=(
            Help(f"if it is a power, declare what is raised in a side file, or write it in parentheses: `{raised}`"),
            Help(f"if it is none, declare the tensor under this name, or write a label as text: `{label}`")))


def _power(context: Context, stem: Name, item: Item) -> bool:
    """Whether what stands above a name may be an exponent, or turn a matrix."""
    match item.kind:
        case "label":
            bare, size = item.span.text == item.text, item.text in context.scope.numbers.sizes and stem.base.islower()
            return bare and (item.text.isdigit() or item.text == "T" or size)
        case "index" | "expression":
            return (of := item_set(context.scope, item)) is not None and INDEX_CLASSES[of.cls].before == "le"
    return False


def _squared(context: Context, name: Name, slots: tuple[Slot, ...], node: s.Expression) -> None:
    """Raises Undeclared for a name that is defined with a number above it and not without: `σ_t^2 = …` beside `σ_t`."""
    for other in context.scope.named(name.stem):
        above = other.name.upper[len(name.upper):]
        if (above and all(x.isdigit() for x in above) and other.name.lower == name.lower
                and [x.set for x in other.slots] == [x.set for x in slots]):
            text = node.span.text
            message = f"`{other.span.text}` is defined and `{text}` is not: `{above[0]}` is a power of it or a label"
            raise Undeclared(message, node.span, "", Label(other.span, "defined here"), helps=(
                Help(f"if it is a power, define `{text}` itself, such as by a root"),
                Help(f"if it is a label, declare `{text}` in a side file: it is another tensor")))


def _otherwise(context: Context, name: Name, slots: tuple[Slot, ...], node: s.Expression) -> None:
    """Raises Undeclared for a name that is declared with other indices, and for one with letters below alone that is
    defined with entries above and the same first letter, `k_{t,i}` beside `k_t^x`: it may be a part of that.
    """
    for other in context.scope.named(name.stem):
        entries = {x.set for x in other.slots if x.level == "upper"}
        above = entries and all(x.level == "lower" and x.set not in entries for x in slots)
        part = above and len(slots) > 1 and other.slots[0].set == slots[0].set
        if other.name == name and not other.inferred and (part or other.role != "local"):
            message = f"`{other.span.text}` has other indices, and nothing says what `{node.span.text}` is of it"
            raise Undeclared(message, node.span, "", Label(other.span, "this one"), helps=(
                Help("define it by an equation, or declare it in a side file"),))


def _whole(node: s.Expression, scripts: tuple[s.Script, ...], context: Context) -> bool:
    """Whether it is a word, or a letter in bold, without indices: nobody can say what that stands for."""
    base = node.base if isinstance(node, s.Scripted) else node
    found = readings(scripts, Vocabulary(context.indices, None))
    return isinstance(base, s.Word) and base.quoted and any(all(i.kind == "label" for i in r) for r in found)


def _lower(item: Item) -> bool:
    """Whether a label is a bare small letter, which a paper means as an index."""
    return len(item.text) == 1 and item.text.islower() and "text" not in item.span.text and "math" not in item.span.text


def _runs(context: Context, item: Item) -> bool:
    """Whether a label is small letters side by side of which one is an index here: `M_{lj}` where a sum binds l."""
    bare = item.text.isalpha() and item.text.islower() and "text" not in item.span.text and "math" not in item.span.text
    return bare and 1 < len(item.text) < 4 and any(context.indices.get(x) is not None for x in item.text)


def _letter(context: Context, item: Item) -> str:
    """The letter of a slot: that of the index, or of what a map gives."""
    if item.index is not None:
        return item.index.name.rstrip("'")
    found = called_map(item)
    target = context.scope.maps[found].target if found in context.scope.maps else None
    return item.text if target is None else target.name
