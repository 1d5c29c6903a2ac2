"""What a paper does not declare: a name that nothing defines is an input, its slots those of its first use."""

from __future__ import annotations

import re

from einc import syntax as s
from einc.checking.misses import unmatched
from einc.checking.names import Name
from einc.checking.scope import Signature
from einc.checking.scripts import Item, Vocabulary, labelled, readings
from einc.checking.slots import item_set
from einc.checking.values import Context
from einc.terms import Slot

# What follows a name that is applied rather than multiplied: nobody can say what an undeclared function is.
_APPLIED = re.compile(r"(?:\\[,;:! ]|\\(?:left|[bB]igg?l?)\b|\s|\{\})*\(")


def inferred(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> tuple[Signature, tuple[Item, ...]]:
    """The input that a name stands for, and the items of this use; the problem of the name where it can be none."""
    problem = unmatched(context, stem, scripts, node)
    source, at = node.span.source, node.span.end
    applied = not scripts and _APPLIED.match(source.text, at, at + 40)
    if not context.scope.infers or context.letters is not None or applied or stem.base in context.scope.lost:
        raise problem
    found = [r for r in readings(scripts, Vocabulary(context.indices, None, frozenset(context.scope.maps)))]
    if len(found) != 1:
        raise problem
    name, items = labelled(stem, found[0])
    sets = [item_set(context.scope, item) for item in items]
    slots = tuple(Slot(of, item.level, item.text) for item, of in zip(items, sets, strict=True) if of is not None)
    if len(slots) < len(items):
        raise problem
    signature = Signature(name, slots, "input", node.span, inferred=True)
    signature.named(context.made.reserved(name.python))
    context.scope.add(signature)
    return signature, items
