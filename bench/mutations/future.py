"""Whether an output surely reads positions after its own: the referee's reading of causality.

A sum over `s` in an equation of `t` reads the future where nothing that is said of `s`, under it, by the
masks of what it runs over or after a comma, bounds it by `t` from above. Whatever this page cannot read
as a bound or as none is taken to be one.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.mutations import reading as r
from einc.errors.report import Span
from einc.syntax import tree as s

_BELOW = {"<=", "<", "="}
_ABOVE = {">=", ">"}
Names = dict[str, str]


def leaks(read: r.Reading, own: frozenset[int]) -> Iterator[Span]:
    """Places in the text's own lines at which an output reads what comes later."""
    meant = any(isinstance(t.body, s.Word) and t.body.text == "all" for x in read.masks for t in x.tail)
    odd = read.blocks or any(x.cls in ("layer", "request") for x in read.indices.values()) or read.sets
    if meant or odd or any(t.total or t.carried for t in read.tensors):
        return
    for equation in _outputs(read):
        if any(isinstance(t.body, s.Word) and t.body.text == "all" for t in equation.statement.tail):
            return
        for found in _of(read, equation, set()):
            if id(found.statement) in own or any(id(m) in own for m in read.masks):
                yield found.span
                return


def _outputs(read: r.Reading) -> list[r.Equation]:
    """The equations of outputs: those of the last text that has any, else what nothing reads."""
    lines = [e for e in read.equations if e.statement.keyword == "output"]
    return [e for e in lines if e.span.source == lines[-1].span.source] if lines else []


def _of(read: r.Reading, equation: r.Equation, seen: set[int]) -> Iterator[r.Equation]:
    """The equations behind an output at its own positions, itself included, that sum over what comes later."""
    if id(equation) in seen:
        return
    seen.add(id(equation))
    mine = {i.name for i in equation.items if i.kind == "index" and i.of is not None and i.of.cls == "time"}
    sets = {i.of for i in equation.items if i.name in mine}
    if mine and _sums_later(read, equation, equation.body, mine, sets):
        yield equation
    for node in _names(equation.body):
        for tensor, items in r.uses(read, node)[:1]:
            if all(i.name in mine for i in items if i.kind == "index" and i.of in sets):
                for behind in (e for e in read.equations if e.tensor == tensor):
                    yield from _of(read, behind, seen)


def _names(node: s.Expression) -> Iterator[s.Expression]:
    if isinstance(node, s.Word | s.Scripted) and r.base(node) is not None:
        yield node
        return
    for kid in r.kids(node):
        yield from _names(kid)


def _sums_later(read: r.Reading, equation: r.Equation, node: s.Expression, mine: set[str],
                sets: set[r.Set | None]) -> bool:
    for n, factor in enumerate(node.factors[:-1]) if isinstance(node, s.Product) else ():
        if r.base(factor) not in r.FOLDS or not r.inner_scripts(factor):
            continue
        content = r.inner_scripts(factor)[0].content
        items = content.items if isinstance(content, s.Group) else (content,) if content is not None else ()
        bound = [x for x in (r.index_of(y) for y in items) if x is not None]
        conditions: list[tuple[s.Expression, Names]] = [(x, {}) for x in items if isinstance(x, s.Relation | s.Logic)]
        if not bound:
            named = [r.index_of(x) for c, _ in conditions if isinstance(c, s.Relation) for x in c.operands]
            bound = [x for x in named if x is not None and x not in mine][:1]
        conditions += [(x, {}) for x in equation.restrictions]
        for other in (*node.factors[n + 1:], *(c for c, _ in conditions)):
            conditions += [(s.Logic("or", (), other.span), {})] * _compares(other) if other in node.factors else []
            conditions += _domain(read, other, set())
        read_at = {i.name for other in node.factors[n + 1:] for word in _names(other)
                   for _, found in r.uses(read, word)[:1] for i in found}
        for name in read_at.intersection(bound):
            of = read.of(name)
            if (of in sets and of is not None and of.cls == "time"
                and all(_free(c, name, names, mine) for c, names in conditions)):
                return True
    return any(_sums_later(read, equation, kid, mine, sets) for kid in r.kids(node))


def _compares(node: s.Expression) -> bool:
    """Whether a comparison stands in an expression: an indicator reads what it multiplies only where it holds."""
    return isinstance(node, s.Relation | s.Logic) or any(_compares(x) for x in r.kids(node))


def _domain(read: r.Reading, node: s.Expression, seen: set[int]) -> list[tuple[s.Expression, Names]]:
    """The conditions under which an expression exists: masks of what it reads, in the letters of the use."""
    out: list[tuple[s.Expression, Names]] = []
    for name in _names(node):
        for script in r.inner_scripts(name):
            out += [(x, {}) for x in r.entries(script.content) if isinstance(x, s.Relation | s.Logic)]
        if r.base(name) in ("δ", "ε"):
            out.append((s.Logic("or", (), name.span), {}))
        for tensor, items in r.uses(read, name)[:1]:
            slots = [i.name for i in items if i.kind != "label"]
            for statement in read.masks:
                for masked, left in r.uses(read, statement.clauses[0].body)[:1]:
                    if masked == tensor:
                        letters = [i.name for i in left if i.kind != "label"]
                        out += [(c.body, dict(zip(letters, slots, strict=False))) for c in statement.tail]
            for equation in read.equations:
                if equation.tensor == tensor and id(equation) not in seen:
                    seen.add(id(equation))
                    letters = [i.name for i in equation.items if i.kind != "label"]
                    to = dict(zip(letters, slots, strict=False))
                    inner = [*((x, {}) for x in equation.restrictions), *_domain(read, equation.body, seen)]
                    out += [(c, {a: to.get(b, b) for a, b in {**{x: x for x in to}, **names}.items()})
                            for c, names in inner]
    return out


def _free(condition: s.Expression, name: str, names: Names, mine: set[str]) -> bool:
    """Whether a condition surely does not bound an index by one of the left from above."""
    if not isinstance(condition, s.Relation) or condition.operators[0] == "in":
        inside = {names.get(r.index_of(x) or "", r.index_of(x)) for x in _names(condition)}
        return isinstance(condition, s.Relation) and name not in inside
    for a, sign, b in zip(condition.operands, condition.operators, condition.operands[1:], strict=False):
        one, other = (names.get(r.index_of(x) or "", r.index_of(x)) for x in (a, b))
        if one == name and not (sign in _ABOVE and (other in mine or isinstance(b, s.Number))):
            return False
        if other == name and not (sign in _BELOW - {"="} and (one in mine or isinstance(a, s.Number))):
            return False
        rest = {names.get(r.index_of(x) or "", r.index_of(x)) for side in (a, b) for x in _names(side)} - {one, other}
        if name in rest:
            return False
    return True
