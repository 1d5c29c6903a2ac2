"""Declarations -> Scope: indices and their sets, extents, maps, definitions. Tensors come in `signatures`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from einc import syntax as s
from einc.checking.names import head, index_name, size_name
from einc.checking.scope import Function, Map, Parameter, Scope
from einc.checking.scripts import Vocabulary, readings
from einc.errors import Help, Problem, Span
from einc.indices import CLASSES, Extent, Index, IndexSet, number, size
from einc.problems import BadDeclaration, BadMap, BadPart, DefinedTwice, NotYet, Reserved, UnknownIndex
from einc.spelling import edit_distance


def declare(scope: Scope, statements: Iterable[s.Statement]) -> None:
    """Everything that equations need to know first; a bad declaration is reported and left out."""
    ordered = list(statements)
    late: list[tuple[s.Statement, s.Clause | None, tuple[Index, ...]]] = []
    for statement in ordered:
        match statement.keyword:
            case "index":
                _guard(scope, lambda st=statement: late.extend(_index(scope, st)))
            case "dim":
                _guard(scope, lambda st=statement: _dim(scope, st))
            case "def":
                _guard(scope, lambda st=statement: _def(scope, st))
            case "set" | "for" | "section":
                scope.report.add(NotYet(f"`{statement.keyword}` is read, but this release does not compile it", statement.span))
    for statement, structure, indices in late:
        _guard(scope, lambda st=statement, sc=structure, ix=indices: _structure(scope, st, sc, ix))
    for statement in ordered:
        if statement.keyword == "map":
            _guard(scope, lambda st=statement: _map(scope, st))


def _guard(scope: Scope, work: object) -> None:
    try:
        work()  # type: ignore[operator]
    except Problem as problem:
        scope.report.add(problem)


def _index(scope: Scope, statement: s.Statement) -> list[tuple[s.Statement, s.Clause | None, tuple[Index, ...]]]:
    if not statement.tail:
        raise BadDeclaration("an index needs a class", statement.span, helps=(Help("write `index t : time(T)`"),))
    kinds = statement.tail
    if len(kinds) > 1 and len(kinds) != len(statement.clauses):
        raise BadDeclaration(f"{len(statement.clauses)} indices, but {len(kinds)} sets", statement.span)
    late = []
    made: list[Index] = []
    for at, clause in enumerate(statement.clauses):
        name = index_name(clause.body)
        if name is None or name.endswith("'"):
            raise BadDeclaration(f"`{clause.span.text}` is no name for an index", clause.span)
        if name in scope.reserved:
            raise Reserved(f"`{name}` is a function of the prelude", clause.span)
        kind = kinds[at if len(kinds) > 1 else 0]
        body, structure = kind.body, None
        if isinstance(body, s.Relation) and body.operators == ("=",):
            body, structure = body.operands[0], s.Clause(body.operands[1], None, body.operands[1].span)
        index = Index(name, _set(scope, body, structure))
        if scope.indices.get(name, index) != index:
            raise DefinedTwice(f"index `{name}` is declared twice, over different sets", clause.span, "",)
        scope.indices[name] = index
        scope.index_spans.setdefault(name, clause.span)
        made.append(index)
        if structure is not None:
            late.append((statement, structure, (index,)))
    return late


def _set(scope: Scope, node: s.Expression, structure: s.Clause | None) -> IndexSet:
    """`time(T)`, `vocab(0..V-1)`; `feature` alone where a direct sum follows."""
    match node:
        case s.Product((s.Word(cls), s.Group("(", ")", (inner,))), ("", "")):
            pass
        case s.Word(cls) if structure is not None and isinstance(structure.body, s.DirectSum):
            return IndexSet(_class(cls, node.span), number(0))
        case _:
            raise BadDeclaration(f"`{node.span.text}` is no index set", node.span, helps=(Help("write a class and an extent: `time(T)`"),))
    _class(cls, node.span)
    if isinstance(inner, s.Range):
        low = extent(scope, inner.low).constant
        if low not in (0, 1):
            raise BadDeclaration("a range starts at 0 or at 1", inner.low.span)
        return IndexSet(cls, extent(scope, inner.high) + number(1 - low), int(low))
    match inner:
        case s.Scripted(s.Word(), (), (s.Script("lower", s.Word(r)),)) if r in scope.indices and scope.indices[r].set.cls == "request":
            raise NotYet("ragged extents are read, but this release does not compile them", inner.span)
    return IndexSet(cls, extent(scope, inner))


def _class(name: str, span: Span) -> str:
    if name in CLASSES:
        return name
    near = min(CLASSES, key=lambda c: edit_distance(c, name))
    helps = (Help(f"there is a class with a similar name: `{near}`"),) if edit_distance(near, name) <= 2 else ()
    raise BadDeclaration(f"`{name}` is not an index class", span, notes=(f"the classes are {', '.join(CLASSES)}",), helps=helps)


def extent(scope: Scope, node: s.Expression) -> Extent:
    """An extent expression; every name in it becomes a size."""
    found = _extent(node)
    scope.extent_names(found, node.span)
    return found


def _extent(node: s.Expression) -> Extent:
    name = size_name(node)
    if name is not None:
        return size(name)
    match node:
        case s.Number(text) if text.isdigit():
            return number(int(text))
        case s.Group("(" | "{", _, (inner,)):
            return _extent(inner)
        case s.Sum(terms, signs):
            total = number(0)
            for term, sign in zip(terms, signs, strict=True):
                total = total + _extent(term) * number(1 if sign == "+" else -1)
            return total
        case s.Fraction(above, below):
            return _quotient(_extent(above), _extent(below), node.span)
        case s.Product(factors, operators):
            total = number(1)
            for factor, operator in zip(factors, operators, strict=True):
                inner = _extent(factor)
                total = _quotient(total, inner, node.span) if operator == "/" else total * inner
            return total
    raise BadDeclaration(f"`{node.span.text}` is no extent", node.span, notes=("an extent is made of names, numbers, + - * /",))


def _quotient(above: Extent, below: Extent, span: Span) -> Extent:
    found = above.over(below)
    if found is None:
        raise BadDeclaration(f"`{span.text}` divides by a sum", span)
    return found


def _structure(scope: Scope, statement: s.Statement, structure: s.Clause | None, indices: tuple[Index, ...]) -> None:
    """`= (i a)` splits the set, `= c ⊕ ρ` is made of parts."""
    assert structure is not None
    (index,) = indices
    if isinstance(structure.body, s.DirectSum):
        parts = tuple(_declared(scope, p) for p in structure.body.parts)
        total = number(0)
        for part in parts:
            total = total + part.set.extent
        whole = IndexSet(index.set.cls, total, 1)
        if len({p.set for p in parts}) < len(parts):
            raise BadPart("two parts of the direct sum run over one set, so nothing tells them apart", structure.span)
        if index.set.extent.terms and index.set != whole:
            raise BadPart(f"the extent `{index.set.extent}` is not the sum of the parts, `{total}`", structure.span)
        scope.sums[whole] = parts
        for name, other in list(scope.indices.items()):
            if other.set == index.set and not other.set.extent.terms and scope.index_spans[name].source == statement.span.source:
                scope.indices[name] = Index(name, whole)
        return
    vocabulary = Vocabulary(scope.indices, frozenset())
    body = structure.body
    script = s.Script("lower", body.items[0] if isinstance(body, s.Group) and len(body.items) == 1 else body, "", structure.span)
    found = [r for r in readings((script,), vocabulary) if all(i.kind == "index" for i in r)]
    if len(found) != 1 or len(found[0]) < 2:
        raise BadDeclaration(f"`{structure.span.text}` is no pair of declared indices", structure.span,
                             helps=(Help("a composite is written `= (i a)`, a direct sum `= c ⊕ ρ`"),))
    parts_sets = tuple(i.index.set for i in found[0] if i.index is not None)
    if scope.splits.get(index.set, parts_sets) != parts_sets:
        raise DefinedTwice(f"the set of `{index.name}` is split in two ways", structure.span)
    scope.splits[index.set] = parts_sets


def _declared(scope: Scope, node: s.Expression) -> Index:
    name = index_name(node)
    found = scope.indices.get(name) if name is not None else None
    if found is None:
        raise UnknownIndex(f"`{node.span.text}` is no declared index", node.span)
    return found


def _dim(scope: Scope, statement: s.Statement) -> None:
    for clause in statement.clauses:
        body, value = clause.body, None
        if isinstance(body, s.Relation) and body.operators == ("=",):
            body, value = body.operands
        name = size_name(body)
        if name is None:
            raise BadDeclaration(f"`{body.span.text}` is no name for an extent", body.span)
        scope.sizes.setdefault(name, body.span)
        if value is not None:
            fixed = _extent(value).constant
            if fixed is None or fixed.denominator != 1 or fixed < 0:
                raise BadDeclaration(f"`{value.span.text}` is no whole number", value.span)
            if scope.fixed.setdefault(name, int(fixed)) != fixed:
                raise DefinedTwice(f"`{name}` is fixed twice, at {scope.fixed[name]} and at {fixed}", clause.span)


def _map(scope: Scope, statement: s.Statement) -> None:
    match statement.clauses:
        case (s.Clause(s.Relation((s.Product((left, s.Group("(", ")", params)), _), body), ("=" | ":=",))),):
            pass
        case _:
            raise BadMap("a map is written `map π(h) = ceil(h G / H) : g`", statement.span)
    name = index_name(left)
    if name is None or name in scope.indices or name in scope.reserved:
        raise BadMap(f"`{left.span.text}` is no free name for a map", left.span)
    if len(statement.tail) != 1:
        raise BadMap("a map names the index it gives", statement.span, helps=(Help("write `: g` after it"),))
    letters = tuple(_declared(scope, p) for p in params)
    made = Map(name, letters, body, _declared(scope, statement.tail[0].body), statement.span)
    if name in scope.maps and scope.maps[name].span.text != statement.span.text:
        raise DefinedTwice(f"map `{name}` is defined twice", statement.span)
    scope.maps[name] = made


def _def(scope: Scope, statement: s.Statement) -> None:
    first = statement.clauses[0].body
    match first:
        case s.Relation((s.Product((left, s.Group("(", ")", params)), _), body), ("=" | ":=",)):
            pass
        case _:
            raise BadDeclaration("a definition is written `def f(x) = …`", statement.span)
    found = head(left)
    if found is None or found[0].accents or found[0].primes:
        raise BadDeclaration(f"`{left.span.text}` is no name for a function", left.span)
    name, scripts = found[0].python, found[1]
    if name in scope.functions and scope.functions[name].span.text != statement.span.text or name in _taken(scope):
        raise Reserved(f"`{name}` is defined already", left.span)
    own = tuple(x for script in scripts for x in _letters(script))
    withs = tuple(c.body for c in statement.clauses[1:] if isinstance(c.body, s.Relation))
    if len(withs) != len(statement.clauses) - 1:
        raise BadDeclaration("what follows `with` is an equation", statement.clauses[-1].span)
    made = Function(name, own, tuple(_parameter(p) for p in params), body, withs, statement.span)
    if any(x not in {y for p in made.params for y, _ in p.letters} for x in own):
        raise BadDeclaration("the index in the function's script stands on none of its parameters", left.span)
    scope.functions[name] = made


def _taken(scope: Scope) -> frozenset[str]:
    return scope.reserved - frozenset(scope.functions)


def _letters(script: s.Script) -> tuple[str, ...]:
    content = script.content
    nodes = content.items if isinstance(content, s.Group) else (content,)
    names = tuple(index_name(n) for n in nodes if n is not None)
    if any(n is None for n in names):
        raise BadDeclaration(f"`{script.span.text}` is no list of index letters", script.span)
    return tuple(n for n in names if n is not None)


def _parameter(node: s.Expression) -> Parameter:
    found = head(node)
    if found is None:
        raise BadDeclaration(f"`{node.span.text}` is no parameter", node.span)
    name, scripts = found
    letters: list[tuple[str, Literal["lower", "upper", "label"]]] = []
    for script in scripts:
        level: Literal["lower", "upper"] = "lower" if script.kind == "lower" else "upper"
        letters += [(x, level) for x in _letters(script)]
    return Parameter(name, tuple(letters))

