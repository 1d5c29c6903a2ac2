"""Names that fit nothing: which of the ways a name can fail this one is, and what would help."""

from __future__ import annotations

import re

from einc.checking.declarations.heads import functions_of
from einc.checking.declarations.names import Name
from einc.checking.declarations.raised import computed, transposes
from einc.checking.declarations.scope import Signature
from einc.checking.declarations.scripts import Reading, labelled, readings
from einc.checking.declarations.sets import undeclared
from einc.checking.declarations.signatures import bare_label, reads_as_indices
from einc.checking.declarations.slots import fits
from einc.checking.expressions.values import Context
from einc.checking.matrices.shapes import parts
from einc.errors.problems import (
    NeedsArguments,
    NoSuchLabel,
    NoSuchSignature,
    Transposed,
    Undeclared,
    UnreadableScript,
    WrongSet,
)
from einc.errors.report import Help, Label, Problem, Silent, Span, listed
from einc.ir.indices import Index, IndexSet
from einc.syntax import tree as s
from einc.syntax.spelling import nearest

# Letters that look like the sign of a big operator.
_SIGNS = {"Π": "∏"}
_KNOWN = {"pi": "3.141592653589793", "e": "2.718281828459045"}  # letters that a paper may mean a number by
_NUMBERED = re.compile(r"([A-Za-z]+)([0-9]+)")
_SHOWN = 3  # declarations of one name that a message points at
_MANY = 300  # names among which a similar one is looked for


def unmatched(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> Problem:
    """The problem of a name that no tensor and no parameter has."""
    if stem.base in context.scope.lost or stem.python in context.scope.lost:
        return Silent("told with its declaration")
    for script in node.scripts if isinstance(node, s.Scripted) and context.inside.letters is None else ():
        if script.kind.startswith("label") and reads_as_indices(context.scope, script):
            return bare_label(node.base.span.text if isinstance(node, s.Scripted) else "", script)
    signatures = [] if context.inside.letters is not None else context.scope.named(stem)
    params = [p for p in context.inside.params if p.name.stem == stem.stem]
    if not signatures and not params:
        return _undeclared(context, stem, scripts, node)
    if scripts and signatures and (mark := _transposing(context, scripts[-1])) is not None:
        return mark
    known = frozenset().union(*(p.name.labels for p in params), context.scope.labels(stem) if signatures else ())
    found = readings(scripts, context.vocabulary(known))
    have = (tuple(f"`{x.text}`" for x in signatures[:6])
            or tuple(f"`{p.name.text}` with {len(p.slots)} indices" for p in params))
    notes = (f"declared {'is' if len(have) == 1 else 'are'} {', '.join(have)}",)
    places = tuple(x.span for x in signatures[:_SHOWN])
    shown = tuple(Label(x, "declared here") for x in places)
    if not found:
        return _unreadable(context, stem, scripts, node, known, notes, shown)
    used = (stem, *sorted(str([i.index and i.index.set for i in r]) for r in found))
    names = {labelled(stem, r)[0] for r in found}
    counts = {(name, len(items)) for name, items in (labelled(stem, r) for r in found)}
    same_count = [x for x in signatures if (x.name, len(x.slots)) in counts]
    if same_count:
        return _wrong_set(context, same_count[0], stem, found, node, notes)
    if signatures and not any(x.name in names for x in signatures) and context.scope.labels(stem):
        return NoSuchLabel(f"`{node.span.text}` is none of the tensors named `{stem.base}`", node.span, "", *shown,
                           once=("label", stem, frozenset(names)), against=places,
                           notes=(*notes, f"its labels are {listed(sorted(context.scope.labels(stem)))}"))
    if not _powered(scripts):
        return NoSuchSignature(f"no `{stem.text}` has these slots", node.span, "", *shown, notes=notes, once=used,
                               against=places)
    base = stem.text + "".join(x.span.text for x in scripts[:-1])
    return NoSuchSignature(f"no `{stem.text}` has these slots", node.span, "", *shown, notes=notes, once=used,
                           against=places,
                           helps=(Help(f"for a power write `({base}){scripts[-1].span.text}`"),))


def _transposing(context: Context, script: s.Script) -> Problem | None:
    """`W_{f g}^T`, where T is no index."""
    if not transposes(script) or context.vocabulary(frozenset()).index("T"):
        return None
    return Transposed("`^T` is read as a script here, and `T` is no index", script.span,
                      helps=(Help("for the transpose leave it out: the indices say which axis is which", script.span,
                                  "", False),))


def _powered(scripts: tuple[s.Script, ...]) -> bool:
    """Whether the last script could be meant as an exponent."""
    return bool(scripts) and computed(scripts[-1]) is not None


def _wrong_set(context: Context, signature: Signature, stem: Name, found: list[Reading], node: s.Expression,
               notes: tuple[str, ...]) -> Problem:
    """Builds the WrongSet problem, at the first index that runs over another set than its slot."""
    for reading in found:
        name, items = labelled(stem, reading)
        if name == signature.name and len(items) == len(signature.slots):
            for slot, item in zip(signature.slots, items, strict=True):
                if not fits(context.scope, slot, item) and item.index is not None:
                    return WrongSet(f"index `{item.text}` runs over {item.index.set}, but the slot is {slot.set}",
                                    item.span, "",
                                    Label(signature.span, "declared here"), notes=notes, against=(signature.span,),
                                    once=(name, slot, item.index.set),
                                    helps=_as_the_slot(context, item.index, slot.set))
    return WrongSet(f"`{node.span.text}` has an index in a slot of another set", node.span, "",
                    Label(signature.span, "declared here"), notes=notes, against=(signature.span,))


def _as_the_slot(context: Context, index: Index, wanted: IndexSet) -> tuple[Help, ...]:
    """That the declaration of an index says the set of a slot, where it says another extent of the same class and is of
    sets without parts; nothing for any other index.
    """
    place = context.scope.alphabet.spans.get(index.name)
    if place is None or index.set.cls != wanted.cls:
        return ()
    line = place.source.text[place.end :].partition("\n")[0].partition("#")[0]
    said = line.partition(":")[2].strip()
    if not said.startswith(f"{wanted.cls}(") or "=" in said or "," in said:
        return ()
    start = place.end + line.index(said, line.index(":"))
    return (Help(f"let `{index.name}` run over the set of the slot, `{wanted}`",
                 Span(place.source, start, start + len(said)), str(wanted), certain=False),)


def _unreadable(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression, known: frozenset[str],
                notes: tuple[str, ...], shown: tuple[Label, ...]) -> Problem:
    """Builds the problem of scripts without a reading, at the first script that has none even on its own."""
    for script in scripts:
        if readings((script,), context.vocabulary(known)):
            continue
        loose = readings((script,), context.vocabulary(None))
        new = {i.text: i for r in loose for i in r if i.kind == "label"}
        if any(c in context.scope.lost for c in [*script.span.text, *new]):
            return Silent("told with the index")
        if context.scope.labels(stem) and len(new) == 1:
            (label,) = new.values()
            return NoSuchLabel(f"`{label.text}` is no label of `{stem.base}` and no index", label.span, "", *shown,
                               once=label.text, against=tuple(x.span for x in shown),
                               notes=(f"its labels are {listed(sorted(known))}",))
        return UnreadableScript(f"`{script.span.text}` has no reading", script.span, "", *shown,
                                once=next(iter(new)) if len(new) == 1 else None,
                                notes=(*notes, f"the indices are "
                                               f"{', '.join(f'`{i}`' for i in context.indices) or 'none'}"),
                                helps=tuple(map(undeclared, new)))
    return UnreadableScript(f"the scripts of `{node.span.text}` have no reading", node.span, notes=notes)


def _undeclared(context: Context, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> Problem:
    """Builds the problem of a name that nothing declares, with a similar name, a product or a declaration as help."""
    text = node.span.text
    if stem.base in functions_of(context.scope.foreign.unknown):
        return Undeclared(f"what defines `{text}` cannot be read", node.span, helps=(
            Help("mend its equation, or declare it in a side file"),))
    if stem.python in context.scope.applied and not stem.labels:
        return NeedsArguments(f"`{stem.base}` is a function and needs its argument in parentheses", node.span,
                              helps=(Help(f"write `{stem.base}(…)`"),))
    signatures = context.scope.signatures if len(context.scope.signatures) <= _MANY else []
    bases = {x.name.base for x in signatures}
    if (not scripts and len(stem.base) > 1 and not stem.labels and context.inside.letters is None
        and all(c in bases for c in stem.base)):
        return Undeclared(f"`{text}` is one name, and nothing declares it", node.span,
                          helps=(Help(f"for a product write `{' '.join(stem.base)}`", node.span, " ".join(stem.base)),))
    known = {p.name.text for p in context.inside.params}
    if context.inside.letters is None:
        known |= {x.name.stem.text for x in signatures} | set(context.scope.numbers.sizes)
    near = nearest(stem.text, sorted(k for k in known if k[0] == stem.text[0]))
    word = node.base.span if isinstance(node, s.Scripted) else node.span
    plain = near is not None and word.text == stem.text
    helps: tuple[Help, ...] = (Help(f"there is a name that is similar: `{near}`", word if plain else None, near
                                    if plain else None,
                                    False),) if near else ()
    if (run := _NUMBERED.fullmatch(stem.base)) is not None:
        helps += (Help(f"one name may have digits; write `{run[1]}_{run[2]}` for a label, or `{run[2]} {run[1]}` for a "
                       f"product"),)
    helps = (*_operator(stem, node), *helps)
    if any(isinstance(x, s.Relation | s.Range) for k in scripts if k.content is not None for x in parts(k.content)):
        helps = helps or (Help("a condition stands below a big operator, such as `Σ` or `max`, and below no name"),)
    elif context.inside.letters is None:
        if _powered(scripts) and isinstance(node, s.Scripted):
            power = f"({text[: scripts[-1].span.start - node.span.start]}){scripts[-1].span.text}"
            helps += (Help(f"for a power write `{power}`", node.span, power, False),)
        else:
            end = len(node.span.source.text)
            number = _KNOWN.get(stem.python, "") if not scripts else ""
            lines = (f"{text} = {number}", f"input {text}") if number else (f"input {text}",)
            if node.span.source.text[node.span.end :].lstrip().startswith("("):
                helps += (Help(f"for a function write `def {text}(x) = …`"),)
            helps += tuple(Help(f"{'declare' if line.startswith('input') else 'define'} it: `{line}`",
                                Span(node.span.source, end, end), f"\n{line}\n", False) for line in lines)
    notes = () if helps else ("a definition sees its parameters and other definitions, nothing else",)
    return Undeclared(f"nothing declares or defines `{text}`", node.span, notes=notes, helps=helps,
                      once=(stem, "tensor") if scripts else stem.base)


def _operator(stem: Name, node: s.Expression) -> tuple[Help, ...]:
    """The help that writes a letter that looks like the sign of a big operator, and has something below it, as that."""
    sign = _SIGNS.get(stem.base)
    if sign is None or not isinstance(node, s.Scripted):
        return ()
    letter, below = node.base.span, node.span.text[node.base.span.end - node.span.start :]
    return (Help(f"`{letter.text}` is a letter; for a product over what stands below it write `{sign}{below}`", letter,
                 sign, False),)
