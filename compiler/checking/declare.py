"""Declarations -> Scope: indices and their sets, extents, maps, definitions. Tensors come in `signatures`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from einc import syntax as s
from einc.checking.names import Name, head, index_name, size_name
from einc.checking.scope import Function, Map, Parameter, Scope
from einc.checking.scripts import Vocabulary, readings
from einc.errors import Help, Label, Silent, Span
from einc.indices import CLASSES, Extent, Index, IndexSet, number, size
from einc.problems import BadDeclaration, BadMap, BadPart, DefinedTwice, NotYet, Reserved, UnknownIndex, WrongData
from einc.spelling import nearest

_MOST_TERMS = 64


@dataclass(frozen=True, slots=True)
class _Structure:
    """What an index set is made of, to be read when all indices are known."""

    statement: s.Statement
    body: s.Expression
    name: str


def declare(scope: Scope, statements: Iterable[s.Statement]) -> None:
    """Everything that equations need to know first; a bad declaration is reported and left out."""
    ordered = list(statements)
    late: list[_Structure] = []
    for statement in ordered:
        match statement.keyword:
            case "index":
                for at in range(len(statement.clauses)):
                    with scope.telling(statement, _words(statement.clauses[at].body)):
                        late += _index(scope, statement, at)
            case "dim":
                with scope.telling(statement):
                    _dim(scope, statement)
            case "def":
                with scope.telling(statement, _left_words(statement)):
                    _def(scope, statement)
            case "set" | "for" | "section":
                scope.lost.update(_defined_in(statement))
                with scope.telling(statement):
                    raise NotYet(f"`{statement.keyword}` is read, but this release does not compile it", statement.span,
                                 notes=("the lines that belong to it are not checked",))
    _structures(scope, late)
    for statement in ordered:
        if statement.keyword == "map":
            with scope.telling(statement, _left_words(statement)):
                _map(scope, statement)


def _words(node: s.Expression) -> tuple[str, ...]:
    found = head(node)
    return () if found is None else (found[0].base, found[0].stem.python)


def _left_words(statement: s.Statement) -> tuple[str, ...]:
    """The names that the left sides of a statement would have declared."""
    out: tuple[str, ...] = ()
    for clause in statement.clauses:
        node = clause.body.operands[0] if isinstance(clause.body, s.Relation) else clause.body
        out += _words(node.factors[0] if isinstance(node, s.Product) else node)
    return out


def _defined_in(statement: s.Statement) -> Iterator[str]:
    """The names that a statement and the lines below it define."""
    if statement.keyword not in ("for", "section"):
        yield from _left_words(statement)
    for inner in statement.block:
        yield from _defined_in(inner)


# index sets


def _index(scope: Scope, statement: s.Statement, at: int) -> list[_Structure]:
    """One index of an `index` line; what its set is made of is returned."""
    clause, kinds = statement.clauses[at], statement.tail
    name = index_name(clause.body)
    if not kinds:
        raise BadDeclaration("an index needs a class", statement.span, helps=(Help("write `index t : time(T)`"),))
    if len(kinds) > 1 and len(kinds) != len(statement.clauses):
        if at:
            raise Silent("told with the first")
        scope.lost.update(w for c in statement.clauses for w in _words(c.body))
        raise BadDeclaration(f"{len(statement.clauses)} indices, but {len(kinds)} sets", statement.span,
                             helps=(Help("give one set for all of them, or one for each"),))
    if name is None or name.endswith("'"):
        raise BadDeclaration(f"`{clause.span.text}` is no name for an index", clause.span,
                             helps=(Help("an index is a letter or a word, without scripts and primes"),))
    _free_name(scope, name, clause.span)
    body = kinds[at if len(kinds) > 1 else 0].body
    structure: s.Expression | None = None
    if isinstance(body, s.Relation) and body.operators == ("=",):
        body, structure = body.operands
    index = Index(name, _set(scope, body, structure))
    before = scope.indices.get(name)
    if before is not None and before != index and not (isinstance(structure, s.DirectSum) and _same_sum(scope, before, structure)):
        raise DefinedTwice(f"index `{name}` is declared twice, over different sets", clause.span, "again here",
                           Label(scope.index_spans[name], "declared here"), helps=(Help("give one of the two another name"),))
    if before is None:
        scope.indices[name] = index
        scope.index_spans[name] = clause.span
    return [] if structure is None else [_Structure(statement, structure, name)]


def _same_sum(scope: Scope, index: Index, structure: s.DirectSum) -> bool:
    parts = scope.sums.get(index.set, ())
    return [p.name for p in parts] == [index_name(p) for p in structure.parts]


def _free_name(scope: Scope, name: str, span: Span) -> None:
    if name in scope.reserved:
        raise Reserved(f"`{name}` is a function", span, helps=(Help("choose another name"),))


def _set(scope: Scope, node: s.Expression, structure: s.Expression | None) -> IndexSet:
    """`time(T)`, `vocab(0..V-1)`; `feature` alone where a direct sum follows."""
    match node:
        case s.Product((s.Word(cls), s.Group("(", ")", (inner,))), ("", "")):
            pass
        case s.Word(cls) if isinstance(structure, s.DirectSum):
            return IndexSet(_class(cls, node.span), number(0))
        case _:
            raise BadDeclaration(f"`{node.span.text}` is no index set", node.span,
                                 helps=(Help("write a class and an extent: `time(T)`"),))
    _class(cls, node.span)
    if isinstance(inner, s.Range):
        low = extent(scope, inner.low).constant
        if low not in (0, 1):
            raise BadDeclaration("a range starts at 0 or at 1", inner.low.span,
                                 helps=(Help("shift the positions in the equations"),))
        return IndexSet(cls, _counted(extent(scope, inner.high) + number(1 - low), inner.span), int(low))
    match inner:
        case s.Scripted(s.Word(), (), (s.Script("lower", s.Word(r)),
                                       )) if r in scope.indices and scope.indices[r].set.cls == "request":
            if all(p.span != inner.span for p in scope.report.problems):
                scope.report.add(NotYet("ragged extents are read, but this release does not compile them", inner.span,
                                        notes=("the lengths of requests come with packed batches",)))
            return IndexSet(cls, extent(scope, inner), by=r)
    return IndexSet(cls, _counted(extent(scope, inner), inner.span))


def _counted(found: Extent, span: Span) -> Extent:
    """The extent, where it can be a number of elements."""
    value = found.constant
    if value is not None and (value < 0 or value.denominator != 1):
        raise BadDeclaration(f"`{span.text}` is {value}, which is no number of elements", span,
                             notes=("an extent is a whole number, 0 or more",))
    return found


def _class(name: str, span: Span) -> str:
    if name in CLASSES:
        return name
    near = nearest(name, CLASSES)
    helps = (Help(f"there is a class with a similar name: `{near}`"),) if near else ()
    raise BadDeclaration(f"`{name}` is not an index class", span, notes=(f"the classes are {', '.join(CLASSES)}",), helps=helps)


def extent(scope: Scope, node: s.Expression) -> Extent:
    """An extent expression; every name in it becomes a size."""
    found = _extent(node)
    for name in sorted(found.sizes):
        _free_name(scope, name, node.span)
    scope.extent_names(found, node.span)
    return found


def _extent(node: s.Expression) -> Extent:
    name = size_name(node)
    if name is not None:
        return size(name)
    total = number(0)
    match node:
        case s.Number(text) if text.isdigit():
            return number(int(text))
        case s.Group("(" | "{", _, (inner,)):
            return _extent(inner)
        case s.Sum(terms, signs):
            for term, sign in zip(terms, signs, strict=True):
                total = total + _extent(term) * number(1 if sign == "+" else -1)
            return total
        case s.Fraction(above, below):
            return _quotient(_extent(above), _extent(below), node.span)
        case s.Product(factors, operators):
            total = number(1)
            for factor, operator in zip(factors, operators, strict=True):
                part = _extent(factor)
                total = _quotient(total, part, node.span) if operator == "/" else total * part
                if len(total.terms) > _MOST_TERMS:
                    break
            else:
                return total
    raise BadDeclaration(f"`{node.span.text}` is no extent", node.span,
                         notes=("an extent is made of names, whole numbers, + - * /",))


def _quotient(above: Extent, below: Extent, span: Span) -> Extent:
    found = above.over(below)
    if found is None:
        raise BadDeclaration(f"`{span.text}` divides by what is no single product", span,
                             helps=(Help("divide by a name or a number"),))
    return found


# what sets are made of


def _structures(scope: Scope, late: list[_Structure]) -> None:
    """Direct sums first, those of known parts before those of them, then composites."""
    sums = [x for x in late if isinstance(x.body, s.DirectSum)]
    while sums:
        ready = [x for x in sums if not any(index_name(p) in {y.name for y in sums} for p in _parts(x))] or sums
        for one in ready:
            with scope.telling(one.statement, (one.name,)):
                _direct_sum(scope, one)
            if not scope.indices[one.name].set.extent.terms:
                scope.indices.pop(one.name)
        sums = [x for x in sums if x not in ready]
    for one in late:
        if not isinstance(one.body, s.DirectSum):
            with scope.telling(one.statement):
                _composite(scope, one)


def _parts(one: _Structure) -> tuple[s.Expression, ...]:
    return one.body.parts if isinstance(one.body, s.DirectSum) else ()


def _direct_sum(scope: Scope, one: _Structure) -> None:
    """`= c ⊕ ρ`: all of the one, then all of the other."""
    index = scope.indices[one.name]
    parts = tuple(declared(scope, p) for p in _parts(one))
    total = number(0)
    for part in parts:
        total = total + part.set.extent
    whole = IndexSet(index.set.cls, total, 1)
    if len({p.set for p in parts}) < len(parts):
        raise BadPart("two parts of the direct sum run over one set, so nothing tells them apart", one.body.span,
                      helps=(Help("give the parts different extents or classes"),))
    if index.set.extent.terms and index.set != whole:
        raise BadPart(f"the extent `{index.set.extent}` is not the sum of the parts, `{total}`", one.body.span,
                      helps=(Help(f"leave it out: `{one.name} : {index.set.cls} = …`"),))
    if scope.sums.get(whole, parts) != parts:
        raise DefinedTwice(f"the set of `{one.name}` is another direct sum already", one.body.span,
                           notes=(f"`{whole}` is {' ⊕ '.join(p.name for p in scope.sums[whole])}",))
    scope.sums[whole] = parts
    scope.indices[one.name] = Index(one.name, whole)


def _composite(scope: Scope, one: _Structure) -> None:
    """`= (i a)`: any index of the set may be written as that pair."""
    index, node = scope.indices[one.name], one.body
    inner = node.items[0] if isinstance(node, s.Group) and len(node.items) == 1 else node
    script = s.Script("lower", inner, "", node.span)
    found = [r for r in readings((script,), Vocabulary(scope.indices, frozenset())) if all(i.kind == "index" for i in r)]
    if len(found) != 1 or len(found[0]) < 2:
        if any(w in scope.lost for w in _letters_of(node)):
            raise Silent("told with the index")
        raise BadDeclaration(f"`{node.span.text}` is no pair of declared indices", node.span,
                             helps=(Help("a composite is written `= (i a)`, a direct sum `= c ⊕ ρ`"),))
    parts = tuple(i.index.set for i in found[0] if i.index is not None)
    if scope.splits.get(index.set, parts) != parts:
        raise DefinedTwice(f"the set of `{one.name}` is split in two ways", node.span,
                           notes=(f"`{index.set}` is split into {' and '.join(map(str, scope.splits[index.set]))}",))
    made = number(1)
    for part in parts:
        made = made * part.extent
    ratio = made.over(index.set.extent) if index.set.extent.terms else None
    if ratio is not None and ratio.constant not in (None, Fraction(1)):
        raise WrongData(f"`{index.set.extent}` is not the product of its parts, `{made}`", node.span,
                        helps=(Help(f"parts of extents whose product is `{index.set.extent}` make a composite"),))
    scope.splits[index.set] = parts


def _letters_of(node: s.Expression) -> Iterator[str]:
    for char in node.span.text:
        if char.isalpha():
            yield char


def declared(scope: Scope, node: s.Expression) -> Index:
    """The declared index that a node names."""
    name = index_name(node)
    found = scope.indices.get(name) if name is not None else None
    if found is None:
        if name in scope.lost:
            raise Silent("told with the index")
        raise UnknownIndex(f"`{node.span.text}` is no declared index", node.span,
                           helps=(Help(f"declare it: `index {node.span.text} : …`"),))
    return found


# extents, maps, definitions


def _dim(scope: Scope, statement: s.Statement) -> None:
    for clause in statement.clauses:
        body, value = clause.body, None
        if isinstance(body, s.Relation) and body.operators == ("=",):
            body, value = body.operands
        name = size_name(body)
        if name is None:
            raise BadDeclaration(f"`{body.span.text}` is no name for an extent", body.span,
                                 helps=(Help("write `dim W`, or `dim d_k = 64`"),))
        _free_name(scope, name, body.span)
        scope.sizes.setdefault(name, body.span)
        if value is not None:
            fixed = _extent(value).constant
            if fixed is None or fixed.denominator != 1 or fixed < 0:
                raise BadDeclaration(f"`{value.span.text}` is no whole number", value.span,
                                     helps=(Help(f"write `dim {name} = 64`"),))
            if scope.fixed.setdefault(name, int(fixed)) != fixed:
                raise DefinedTwice(f"`{name}` is fixed twice, at {scope.fixed[name]} and at {fixed}", clause.span,
                                   helps=(Help("remove one of the two"),))


def _map(scope: Scope, statement: s.Statement) -> None:
    match statement.clauses:
        case (s.Clause(s.Relation((s.Product((left, s.Group("(", ")", params)), _), body), ("=" | ":=",))),):
            pass
        case _:
            raise BadMap("a map is written `map π(h) = ceil(h G / H) : g`", statement.span)
    name = index_name(left)
    if name is None or name in scope.indices or name in scope.reserved or name in scope.functions:
        raise BadMap(f"`{left.span.text}` is no free name for a map", left.span, helps=(Help("choose another name"),))
    if len(statement.tail) != 1:
        raise BadMap("a map names the index it gives", statement.span, helps=(Help("write `: g` after it"),))
    letters = tuple(declared(scope, p) for p in params)
    if len(set(letters)) != len(letters) or not letters:
        raise BadMap("a map has one or more indices, each once", left.span, helps=(Help("write `map π(h) = … : g`"),))
    made = Map(name, letters, body, declared(scope, statement.tail[0].body), statement.span)
    before = scope.maps.get(name)
    if before is not None and before.span.text != statement.span.text:
        raise DefinedTwice(f"map `{name}` is defined twice", statement.span, "again here", Label(before.span, "defined here"),
                           helps=(Help("give one of the two another name"),))
    scope.maps[name] = made


def _def(scope: Scope, statement: s.Statement) -> None:
    match statement.clauses[0].body:
        case s.Relation((s.Product((left, s.Group("(", ")", params)), _), body), ("=" | ":=",)):
            pass
        case _:
            raise BadDeclaration("a definition is written `def f(x) = …`", statement.span)
    found = head(left)
    if found is None or found[0].accents or found[0].primes:
        raise BadDeclaration(f"`{left.span.text}` is no name for a function", left.span, helps=(Help("write `def f(x) = …`"),))
    name, scripts = found[0].python, found[1]
    before = scope.functions.get(name)
    if name in scope.reserved or (before is not None and before.span.text != statement.span.text):
        raise Reserved(f"`{name}` is a function already", left.span, helps=(Help("choose another name"),))
    own = tuple(x for script in scripts for x in _letters(script))
    withs = tuple(c.body for c in statement.clauses[1:] if isinstance(c.body, s.Relation))
    if len(withs) != len(statement.clauses) - 1:
        raise BadDeclaration("what follows `with` is an equation", statement.clauses[-1].span, helps=(Help("write `with m = …`"),))
    made = Function(name, own, tuple(_parameter(p) for p in params), body, withs, statement.span)
    if any(x not in {y for p in made.params for y, _ in p.letters} for x in own):
        raise BadDeclaration("the index in the function's script stands on none of its parameters", left.span,
                             helps=(Help("put it on a parameter: `def f_{s}(x_s) = …`"),))
    if len({p.name for p in made.params}) < len(made.params):
        raise BadDeclaration("two parameters have one name", left.span, helps=(Help("give one of the two another name"),))
    scope.functions[name] = made


def _letters(script: s.Script) -> tuple[str, ...]:
    content = script.content
    nodes = content.items if isinstance(content, s.Group) else () if content is None else (content,)
    factors = [f for n in nodes for f in (n.factors if isinstance(n, s.Product) and not any(n.operators) else (n,))]
    names = tuple(map(index_name, factors))
    if any(n is None for n in names):
        raise BadDeclaration(f"`{script.span.text}` is no list of index letters", script.span,
                             helps=(Help("write `_{s}` or `^f`"),))
    return tuple(n for n in names if n is not None)


def _parameter(node: s.Expression) -> Parameter:
    found = head(node)
    if found is None:
        raise BadDeclaration(f"`{node.span.text}` is no parameter", node.span,
                             helps=(Help("a parameter is a name: `x`, `x_s`, `x^f`"),))
    name, scripts = found
    letters: list[tuple[str, Literal["lower", "upper", "label"]]] = []
    for script in scripts:
        level: Literal["lower", "upper"] = "lower" if script.kind == "lower" else "upper"
        letters += [(x, level) for x in _letters(script)]
    return Parameter(Name(name.base, name.accents, name.primes, name.lower, name.upper), tuple(letters))
