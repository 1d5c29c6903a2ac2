"""What the text of a program declares: a letter for every index set, and the sizes that no index has."""

from __future__ import annotations

import re
from dataclasses import replace

from einc.ir.indices import LAYER, Index, IndexSet
from einc.ir.programs import Equation, Program, Slot, Tensor
from einc.ir.terms import Fold, Join, Position, Size, walk

_LETTER = re.compile(r"[^\W\d_]+'*")
_LETTERS = [*"defghijklmnopqrstuvwxyz", *(a + b for a in "defghijklm" for b in "defghijklm")]


def index_sets(program: Program) -> dict[str, IndexSet]:
    """A letter for every set that the text has to name: those it is written with, and new
    ones for composites without any."""
    found: dict[str, IndexSet] = {}
    slots = [slot for tensor in program.tensors.values() for slot in tensor.slots if slot.set.cls != LAYER]
    for slot in slots:
        if is_letter(slot.name):
            found.setdefault(slot.name.rstrip("'"), slot.set)
    for recur in program.recurs:
        equations = recur.equations
        for index in (*recur.fixed, recur.index, *(i for e in equations for i in _mentioned(e))):
            found.setdefault(index.name.rstrip("'"), index.set)
    for index in (i for e in program.equations for i in _mentioned(e)):
        if index.set.cls != LAYER:
            found.setdefault(index.name.rstrip("'"), index.set)
    for parts in program.sums.values():
        for part in parts:
            found.setdefault(part.name, part.set)
    pairs = [slot for slot in slots if not is_letter(slot.name)]
    for slot in pairs:
        for name, set_ in zip(_LETTER.findall(slot.name), program.splits.get(slot.set, ()), strict=False):
            found.setdefault(name.rstrip("'"), set_)
    taken = {t.text for t in program.tensors.values()} | {n for over in found.values() for n in over.extent.sizes}
    for set_ in [*(x for into, parts in program.splits.items() for x in (*parts, into)), *(x.set for x in pairs)]:
        if set_ not in found.values():
            found[next(x for x in _LETTERS if x not in taken and x not in found)] = set_
    return found


def letters_by_set(program: Program) -> dict[IndexSet, str]:
    """The first letter of every set that is named."""
    return {set_: name for name, set_ in reversed(index_sets(program).items())}


def lettered(program: Program, pairs: bool = False) -> dict[str, Tensor]:
    """The tensors with a letter for each slot that was declared as a pair; with `pairs`
    those stay whose letters are known."""
    sets, by = index_sets(program), letters_by_set(program)

    def told(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """Names each slot that has no letter by the first letter of its set, with primes where that is taken."""
        out: list[Slot] = []
        for slot in slots:
            parts = tuple(sets.get(name.rstrip("'")) for name in _LETTER.findall(slot.name))
            if (not is_letter(slot.name) and slot.set.cls != LAYER
                and not (pairs and parts == program.splits.get(slot.set))):
                name = by[slot.set]
                while any(x.name == name for x in (*slots, *out)):
                    name += "'"
                slot = replace(slot, name=name)
            out.append(slot)
        return tuple(out)

    return {key: replace(t, slots=told(t.slots)) for key, t in program.tensors.items()}


def free_sizes(program: Program, indices: dict[str, IndexSet]) -> list[str]:
    """The sizes that terms of the program name and no index set or `size` line declares."""
    declared = {name for set_ in indices.values() for name in set_.extent.sizes} | set(program.sizes)
    declared |= {name for repeat in program.every_repeat for name in repeat.index.set.extent.sizes}
    terms = (t for e in program.equations for root in (*e.axes, e.domain, e.body) for t in walk(root))
    used = dict.fromkeys(name for t in terms if isinstance(t, Size) for name in sorted(t.extent.sizes))
    return [name for name in used if name not in declared]


def _mentioned(equation: Equation) -> list[Index]:
    """Returns every index that stands in an equation, bound ones too, once each in the order of the text."""
    out: list[Index] = []
    for term in (*equation.axes, equation.domain, equation.body):
        for inner in walk(term):
            match inner:
                case Position(index):
                    out.append(index)
                case Fold(_, bound):
                    out.extend(bound)
                case Join(index, parts):
                    out += [index, *(i for i, _ in parts)]
    return list(dict.fromkeys(out))


def is_letter(text: str) -> bool:
    """Whether a name of a slot is one index, not a pair."""
    return text.replace("'", "").isalpha()


def starts(program: Program) -> frozenset[str]:
    """The values that one state starts with and nothing else reads: they are written under its name."""
    loops = [repeat for repeat in program.every_repeat if repeat.index.set.cls != LAYER]
    firsts = [first for loop in loops for _, first, _ in loop.states]
    read = {key for e in program.equations for key in e.reads} | {key for _, key in program.outputs}
    return frozenset(key for key in firsts if firsts.count(key) == 1 and key not in read and key in program.by_target)
