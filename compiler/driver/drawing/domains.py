"""The domains of a program's tensors as pictures, and the values of a tensor on given data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from einc.driver.commands.sizes import names
from einc.driver.drawing.pictures import Cells, Picture
from einc.errors.report import failure
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.programs import Equation, Program, TypedProgram, local
from einc.ir.terms import TRUE, Const, Fold, Position, Term, Where, conjuncts, free_indices, walk
from einc.meaning.interpret import interpret
from einc.syntax.printing.show import text

MOST = 1 << 25  # points of one picture
SHOWN = "shown"


def domains(program: TypedProgram, sizes: Mapping[str, int], arrays: Mapping[str, Cells],
            of: str = "") -> list[Picture]:
    """A picture of each domain that is not everything: those of tensors, then those of sums and other folds that no
    tensor has. EincError where there is none, or none of the tensor `of`.
    """
    found = list(named_domains(program, of))
    if not found:
        known = ", ".join(f"`{key}`" for key in dict.fromkeys(key for key, _ in named_domains(program)))
        raise failure(f"`{of}` has no domain that leaves anything out" if of else
                      "no tensor of the spec has a domain that leaves anything out: every sum runs over all",
                      *([f"those that have one: {known}"] if of and known else []))
    return [picture(program, key, term, sizes, arrays) for key, term in found]


def named_domains(program: TypedProgram, of: str = "") -> Iterator[tuple[str, Term]]:
    """Each domain with the tensor that has it; of those that are the same but for names, the first."""
    seen = set[str]()
    whole = [(e.target, e.domain) for e in program.equations]
    inner = [(e.target, fold.domain) for e in program.equations for fold in walk(e.body) if isinstance(fold, Fold)]
    for key, domain in [*whole, *inner]:
        same = "&".join(sorted(text(program, part).replace("'", "") for part in conjuncts(domain)))  # bound have primes
        other = bool(of) and of not in (key, program.tensors[key].text)
        if other or domain == TRUE or same in seen or len(free_indices(domain)) < 2:
            continue
        seen.add(same)
        yield key, domain


def picture(program: TypedProgram, key: str, domain: Term, sizes: Mapping[str, int],
            arrays: Mapping[str, Cells]) -> Picture:
    """A domain over its two axes: the first that is a position, and the one that is compared with it. The others stand
    at their first element, which is told.
    """
    rows, columns, others = _axes(program, key, domain)
    cells = values(program, Where(domain, Const(1)), (*others, rows, columns), sizes, arrays)
    shown = cells[(0,) * len(others)]
    told = " and ".join(text(program, part) for part in conjuncts(domain))
    fixed = [f"{index.name} = {index.set.start}" for index in others]
    share = f"{100 * float(shown.mean()) if shown.size else 0:.4g} % of {shown.shape[0]} × {shown.shape[1]}"
    notes = (f"{share} inside{f', at {chr(44).join(fixed)}' if fixed else ''}",)
    return Picture(f"{program.tensors[key].text} : {told}", "domain", rows.name, columns.name, shown, notes)


def _axes(program: TypedProgram, key: str, domain: Term) -> tuple[Index, Index, tuple[Index, ...]]:
    """The rows and the columns of a picture, and the other indices that the domain reads."""
    free = list(free_indices(domain))
    own = [i for e in program.equations if e.target == key for i in e.indices]
    free.sort(key=lambda i: (i not in own, own.index(i) if i in own else 0, i.name))
    ordered = [i for i in free if INDEX_CLASSES[i.set.cls].before == "le"] or free
    pair = (ordered + [i for i in free if i not in ordered])[:2]
    return pair[0], pair[1], tuple(i for i in free if i not in pair)


def values(program: Program, term: Term, axes: tuple[Index, ...], sizes: Mapping[str, int],
           arrays: Mapping[str, Cells]) -> Cells:
    """A term at every point of these axes. EincError where these are too many for a picture."""
    points = int(np.prod([int(i.set.extent.at(sizes)) for i in axes], dtype=float))
    if points > MOST:
        raise failure(f"the picture would have {points:,} points, more than the {MOST:,} that are drawn",
                      "give smaller sizes: --sizes T=1024")
    shown = local(SHOWN, axes)
    asked = Equation(SHOWN, tuple(map(Position, axes)), TRUE, term)
    made = program.but(equations=(*program.equations, asked), tensors={**program.tensors, SHOWN: shown},
                       outputs=((SHOWN, SHOWN),))
    needed = _needed(made)
    given = {t.key: arrays[t.key] for t in needed.inputs()}
    known = {*names(needed), *(size for index in axes for size in index.set.extent.sizes)}
    return interpret(needed, given, {name: n for name, n in sizes.items() if name in known})[SHOWN]


def _needed(program: Program) -> Program:
    """The program with the equations alone that its output needs."""
    needed, left = set[str](), [SHOWN]
    rounds = {target: loop for loop in program.recurs for target in (*loop.targets, *(e.target for e in loop.starts))}
    while left:
        key = left.pop()
        if key in needed:
            continue
        needed.add(key)
        if key in rounds:
            left += [name for e in rounds[key].equations for name in (e.target, *e.reads)]
        elif key in program.by_target:
            left += program.by_target[key].reads
    kept = [e for e in program.equations if e.target in needed]
    loops = [loop for loop in program.loops if not hasattr(loop, "targets") or loop.targets & needed]
    if program.repeats:  # rounds in order stay whole
        return program
    return program.but(equations=kept, loops=loops)


def weights(program: TypedProgram, sizes: Mapping[str, int], arrays: Mapping[str, Cells],
            of: str = "") -> list[Picture]:
    """The values on these data of each tensor whose domain leaves something out, or of the tensor `of`. Axes before
    the last two stand at their first element. Raises EincError where there is no such tensor."""
    keys = [e.target for e in program.equations
            if (of in (e.target, program.tensors[e.target].text) if of else e.domain != TRUE)]
    if of and not keys:
        near = ", ".join(f"`{e.target}`" for e in program.equations)
        raise failure(f"`{of}` is no tensor that the spec computes", f"those that it computes: {near}")
    out = [_weights(program, key, program.by_target[key], sizes, arrays) for key in keys]
    if not out:
        raise failure("no tensor of the spec has a domain that leaves anything out", "say which is meant: --of NAME")
    return out


def _weights(program: TypedProgram, key: str, equation: Equation, sizes: Mapping[str, int],
             arrays: Mapping[str, Cells]) -> Picture:
    """The values of one tensor; where it does not exist they are 0. Raises EincError where it has fewer than two axes.
    """
    free = list(equation.indices)
    if len(free) < 2:
        raise failure(f"`{key}` has {len(free)} axes, and a picture has two", "say which is meant: --of NAME")
    ordered = [i for i in free if INDEX_CLASSES[i.set.cls].before == "le"]
    pair = (ordered + [i for i in reversed(free) if i not in ordered])[:2]
    pair.sort(key=free.index)
    others = [i for i in free if i not in pair]
    first = {i: Const(i.set.start) for i in others}
    named = replace(equation, target=key)
    cells = values(program, Where(named.domain, named.body), (*others, *pair), sizes, arrays)[(0,) * len(others)]
    fixed = ", ".join(f"{i.name} = {c.value}" for i, c in first.items())
    notes = (f"from {float(cells.min(initial=0)):.4g} to {float(cells.max(initial=0)):.4g}" + (
        f", at {fixed}" if fixed else ""),)
    return Picture(program.tensors[key].text, "weights", pair[0].name, pair[1].name, cells.astype(float), notes)
