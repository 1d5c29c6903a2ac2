"""A program as a function of torch that calls a library for what stands between two products.

`specs/library/calls.toml` has the calls. One takes functions of a score and of places (`functions`), another an array
that is added to the scores or says which there are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from einc.driver.reports.einsums import UnsaidError, cast, expression, kind, python, spread, where
from einc.driver.reports.functions import Lines, apart, assigned, lines, sizes_of
from einc.driver.reports.modifiers import Modifier
from einc.driver.reports.scores import LOGARITHM, MEAN, SCORE, Scored, Steps, steps
from einc.ir.draft import renamed, unused
from einc.ir.indices import Index
from einc.ir.programs import Equation, NormalProgram, Program, local
from einc.ir.terms import TRUE, ZERO, Apply, Position, Size, Term, free_indices, reads, transform, walk
from einc.meaning.polynomial_form import form
from einc.transforms.laws import ALL
from einc.transforms.laws.simplify import simplify


@dataclass(frozen=True)
class LibraryCall:
    """A row of `calls.toml`."""

    title: str
    imports: tuple[str, ...]
    compiled: str
    functions: bool
    mask: str
    call: str
    up_to: str = ""
    logarithm: str = ""


@cache
def calls() -> Mapping[str, LibraryCall]:
    """The calls that there are, by their names."""
    text = files("einc.specs").joinpath("library", "calls.toml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = tomllib.loads(text)
    return {name: LibraryCall(**{**row, "imports": tuple(row["imports"])}) for name, row in rows.items()}


def called(program: NormalProgram, name: str) -> Lines:
    """A function that computes the program by calls of the library, a call for each pass. UnsaidError with the reason
    where a pass is no such call, or an equation beside it has no line.
    """
    known, found = calls()[name], steps(apart(program))
    passes, program = _named(found)
    writer = _Writer(program, known, {*program.tensors, *sizes_of(program)})
    before = {scored.results[0].target: writer.lines(scored) for scored in passes}

    def said(whole: Program, equation: Equation) -> list[str]:
        return [*before.get(equation.target, []), *assigned(whole, equation)]

    made = lines(program, said, known.imports, sizes_of(found.program))
    if made.unsaid:
        raise UnsaidError(next(x for x in made.texts if "# Not said" in x).partition("# Not said")[2].lstrip(",: "))
    at = next(n for n, text in enumerate(made.texts) if text.startswith("def "))
    made.texts[at:at] = writer.before
    if "@cache" in writer.before:
        made.texts.insert(made.texts.index("import math") + 1, "from functools import cache")
    return made


def _named(found: Steps) -> tuple[list[Scored], NormalProgram]:
    """The passes with names for what their calls give, and the program in which each pass is its results."""
    tensors, passes, equations = dict(found.program.tensors), list[Scored](), list[Equation]()
    for step in found.steps:
        if isinstance(step, Equation):
            equations.append(step)
            continue
        rows = step.places.rows
        by = {}
        for key, stem, axes in ((MEAN, "out", (*rows, *step.sides.width)), (LOGARITHM, "log_sum", rows)):
            by[key] = unused(stem, tensors)
            tensors[by[key]] = local(by[key], axes)
        passes.append(replace(step, names=(by[MEAN], by[LOGARITHM]),
                              results=tuple(e.map(partial(renamed, names=by)) for e in step.results)))
        equations += passes[-1].results
    return passes, found.program.but(equations=equations, tensors=tensors)


class _Writer:
    """The lines of calls. `before` are those of functions that stand before the one that calls."""

    def __init__(self, program: Program, known: LibraryCall, taken: set[str]) -> None:
        """`taken` are the names that the function has."""
        self.program, self.known, self.taken = program, known, taken
        self.before: list[str] = []

    def name(self, stem: str) -> str:
        """A name that nothing else has. Changes `self.taken`."""
        found = unused(stem, self.taken)
        self.taken.add(found)
        return found

    def lines(self, scored: Scored) -> list[str]:
        """The lines that give the names of a pass their values. Raises UnsaidError."""
        if scored.greatest and not self.known.logarithm:
            raise UnsaidError(f"{self.known.title} gives no logarithm of what its weights are divided by")
        q, k, v = (self.name(stem) for stem in "qkv")
        rows, columns = scored.places.rows, scored.places.columns
        out = [f"{q} = {self._array(scored.sides.left, rows, scored.sides.inner)}",
               f"{k} = {self._array(scored.sides.right, columns, scored.sides.inner)}",
               f"{v} = {self._array(scored.sides.value, columns, scored.sides.width)}"]
        modified = self._functions(scored, q) if self.known.functions else self._arrays(scored, q)
        more, call, words = modified
        words |= {"q": q, "k": k, "v": v, "scale": Modifier(self.program, {}).text(scored.scale)}
        mean, logarithm = scored.names
        targets = f"{mean}, {logarithm}" if scored.greatest else mean
        out += [*more, f"{targets} = {call.format(**words)}"]
        out += [f"{name} = {name}.reshape({', '.join(python(i.set.extent) for i in axes)})"
                for name, axes, read in ((mean, (*rows, *scored.sides.width), True), (logarithm, rows, scored.greatest))
                if read and (len(scored.places.outer) != 2 or len(axes) - len(rows) != (name == mean))]
        return out

    def _array(self, term: Term, rows: tuple[Index, ...], more: tuple[Index, ...]) -> str:
        """A side as an array of four axes: all outer ones but the last, the last, positions, features."""
        order, code = (*rows, *more), cast(self.program, expression(self.program, term))
        if code.of == "fixed":
            code = cast(self.program, replace(code, of="mixed"))
        text = spread(code, order).inner
        if set(order) != set(code.letters):
            text += f".expand({', '.join(python(i.set.extent) for i in order)})"
        if len(rows) == 3 and len(more) == 1:
            return text
        outer, sizes = rows[:-1], [python(i.set.extent) for i in order]
        batch = _times(sizes[:max(0, len(outer) - 1)])
        head, row, features = (sizes[len(outer) - 1] if outer else "1"), sizes[len(outer)], _times(sizes[len(rows):])
        return f"{text}.reshape({batch}, {head}, {row}, {features})"

    def _functions(self, scored: Scored, q: str) -> tuple[list[str], str, dict[str, str]]:
        """Functions of a score and of places, the call, and its words."""
        out: list[str] = []
        score = mask = "None"
        if scored.score != SCORE:
            score, narrow = self.name("score_mod"), dict[str, str]()
            for key in sorted({r.tensor for r in reads(scored.score) if r != SCORE}):
                if kind(self.program, key) == "fixed":
                    narrow[key] = self.name(f"{key}_score")
                    out.append(f"{narrow[key]} = {key}.to(torch.promote_types({q}.dtype, torch.float32))")
            out += self._function(score, scored, scored.score, self.name("score"), narrow)
        if scored.mask != TRUE:
            made = self._mask(scored, q)
            mask = self.name("blocks")
            out.append(f"{mask} = {made}")
        call = self.known.logarithm if scored.greatest else self.known.call
        return out, call, {"score": score, "mask": mask}

    def _mask(self, scored: Scored, q: str) -> str:
        """What makes the table of blocks. Where it is made of sizes alone it is kept from call to call."""
        maker = self.name("block_mask")
        of = self.name("mask_mod")
        free = free_indices(scored.mask)
        batch, head = scored.places.outer[:-1], scored.places.outer[-1:]
        sizes = {"batch": _times(python(i.set.extent) for i in batch) if free & {*batch} else "None",
                 "head": python(head[0].set.extent) if free & {*head} else "None",
                 "rows": python(scored.places.row.set.extent), "columns": python(scored.places.column.set.extent)}
        call = self.known.mask.format(mask=of, device="device", **sizes)
        outer = scored.places.outer if free & {*scored.places.outer} else ()
        known = sorted({name for i in (*outer, scored.places.row, scored.places.column) for name in i.set.extent.sizes}
                       | {n for t in walk(scored.mask) if isinstance(t, Size) for n in t.extent.sizes})
        read = sorted({t.tensor for t in reads(scored.mask)})
        inner = self._function(of, scored, scored.mask, "")[1:]
        keep = [] if read else ["@cache"]
        self.before += [*keep, f"def {maker}({', '.join([*known, *read, 'device'])}):",
                        *(f"    {line}" if line else "" for line in [*inner, f"return {call}"]), "", ""]
        return f"{maker}({', '.join([*known, *read, f'{q}.device'])})"

    def _function(self, name: str, scored: Scored, term: Term, score: str,
                  names: Mapping[str, str] = MappingProxyType({})) -> list[str]:
        """A function of the places, and of a score where it has one; `names` are what some tensors are called."""
        taken = self.taken | {name}
        letters: dict[Index, str] = {}
        for index in (*scored.places.rows, scored.places.column):
            letters[index] = unused(index.name.replace("'", "_"), taken)
            taken = taken | {letters[index]}
        *batch, head = [letters[i] for i in scored.places.outer] or [unused("h", taken)]
        first = batch[0] if len(batch) == 1 else unused("b", taken | {head})
        apart = []
        for n, index in enumerate(scored.places.outer[:-1] if len(batch) > 1 else ()):
            after = _times(python(i.set.extent) for i in scored.places.outer[n + 1:-1])
            if index in free_indices(term):
                apart.append(f"{letters[index]} = {first} // ({after}) % ({python(index.set.extent)})")
        pair = (letters[scored.places.row], letters[scored.places.column])
        parameters = ", ".join([*([score] if score else []), first, head, *pair])
        lines = [*apart, f"return {Modifier(self.program, letters, score, names).text(term)}"]
        return ["", f"def {name}({parameters}):", *(f"    {line}" for line in lines), ""]

    def _arrays(self, scored: Scored, q: str) -> tuple[list[str], str, dict[str, str]]:
        """An array that is added to the scores, or says which there are, the call, and its words. Raises
        UnsaidError."""
        added = simplify(transform(scored.score, lambda t: ZERO if t == SCORE else t), ALL)
        if form(scored.score) != form(Apply("add", (SCORE, added))):
            raise UnsaidError(f"{self.known.title} adds to a score, and has no other function of it")
        up_to = Apply("le", (Position(scored.places.column), Position(scored.places.row)))
        if added == ZERO and scored.mask == up_to and scored.places.column.set.start == scored.places.row.set.start:
            return [], self.known.up_to, {}
        axes = (*scored.places.rows, scored.places.column)
        if added == ZERO and scored.mask == TRUE:
            return [], self.known.call, {"mask": "None"}
        condition = None if scored.mask == TRUE else expression(self.program, scored.mask)
        code = condition if added == ZERO else expression(self.program, added)
        assert code is not None
        if added != ZERO and condition is not None:
            code = where(condition, code, "-math.inf")
        text = spread(code, axes).inner
        if len(scored.places.outer) > 2:
            sizes = [python(i.set.extent) for i in axes]
            text += f".expand({', '.join(sizes)}).flatten(0, {len(scored.places.outer) - 2})"
        mask = self.name("mask")
        return [f"{mask} = {text}{'' if added == ZERO else f'.to({q}.dtype)'}"], self.known.call, {"mask": mask}


def _times(sizes: Iterable[str]) -> str:
    """A product of sizes."""
    return " * ".join(x if x.isidentifier() or x.isdigit() else f"({x})" for x in sizes) or "1"
