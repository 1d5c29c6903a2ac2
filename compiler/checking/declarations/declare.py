"""Declarations -> Scope: indices and their sets, extents, maps, definitions. Tensors come in `signatures`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from einc.checking.declarations.borrowed import see, stood_aside
from einc.checking.declarations.names import Name, head, index_name, left_of, size_name, titled
from einc.checking.declarations.scope import Function, Map, Parameter, Scope
from einc.checking.declarations.sets import Structure, declared, extent_of, free_name, index_set, structures
from einc.errors.problems import BadDeclaration, BadMap, DefinedTwice, NotYet, Reserved
from einc.errors.report import Help, Label, Silent, Span
from einc.ir.indices import Index
from einc.syntax import tree as s
from einc.syntax.printing.layout import alike


def declare(scope: Scope, statements: Iterable[s.Statement]) -> None:
    """Fills the scope with everything that equations need to know first; a bad declaration is reported and left out.
    Raises NotYet."""
    ordered = list(statements)
    late: list[Structure] = []
    for statement in ordered:
        match statement.keyword:
            case "index":
                for at in range(len(statement.clauses)):
                    with scope.telling(statement, _words(statement.clauses[at].body)):
                        late += _index(scope, statement, at)
            case "dim":
                with scope.telling(statement):
                    _dim(scope, statement)
            case "def" if statement.broken:
                scope.lost.update(_left_words(statement))
            case "def":
                with scope.telling(statement, _left_words(statement)):
                    _def(scope, statement)
            case "ignore":
                with scope.telling(statement):
                    raise NotYet("a sentence is that of a document, and here is none", statement.span, helps=(
                        Help("give this file beside the document: `einc doc paper.md --with side.ein`"),))
            case "section":
                scope.lost.update(defined_in(statement))
                with scope.telling(statement):
                    raise NotYet("a section is that of a document, and here is none", statement.span, helps=(
                        Help("give this file beside the document: `einc doc paper.md --with side.ein`"),))
    structures(scope, late)
    _settle(scope)
    for statement in ordered:
        if statement.keyword == "map" and statement.broken:
            scope.lost.update(_left_words(statement))
        elif statement.keyword == "map":
            with scope.telling(statement, _left_words(statement)):
                _map(scope, statement)


def _words(node: s.Expression) -> Iterator[str]:
    if (found := head(node)) is not None:
        yield from (found[0].base, found[0].stem.python)


def _left_words(statement: s.Statement) -> Iterator[str]:
    """The names that the left sides of a statement would have declared: found where they are asked for."""
    for clause in statement.clauses:
        node = left_of(clause.body)
        yield from _words(node.factors[0] if isinstance(node, s.Product) else node)


def defined_in(statement: s.Statement) -> Iterator[str]:
    """The names that a statement and the lines below it define."""
    if statement.keyword not in ("for", "section", "ignore"):
        yield from _left_words(statement)
    for inner in statement.block:
        yield from defined_in(inner)


# index sets


def _ways_to_declare(scope: Scope, statement: s.Statement, at: int, name: str | None) -> tuple[Help, ...]:
    """How to declare what is no name for an index: a primed one is declared by the letter that it has its set from."""
    here = statement.clauses[at].span
    if name is None:
        return (Help("an index is a letter or a word, without scripts and primes"),)
    letter = name.rstrip("'")
    said = f"a primed index needs no declaration: it runs over the set of `{letter}`"
    if not any(index_name(c.body) == letter for c in statement.clauses):
        known = letter in scope.text(statement.span).indices
        return (Help(f"{said}, so leave it out") if known else Help(f"{said}, so declare that", here, letter),)
    ends = (statement.clauses[at - 1].span.end, here.end) if at else (here.start, statement.clauses[1].span.start)
    return (Help(f"{said}, so leave it out", Span(here.source, *ends), ""),)


def _index(scope: Scope, statement: s.Statement, at: int) -> list[Structure]:
    """One index of an `index` line; what its set is made of is returned. Raises BadDeclaration, Silent or
    DefinedTwice."""
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
                             helps=_ways_to_declare(scope, statement, at, name))
    free_name(scope, name, clause.span)
    text = scope.text(statement.span)
    body = kinds[at if len(kinds) > 1 else 0].body
    structure: s.Expression | None = None
    if isinstance(body, s.Relation) and body.operators == ("=",):
        body, structure = body.operands
    index = Index(name, index_set(scope, body, structure))
    before = text.indices.get(name)
    if (before is not None and before != index
        and not (isinstance(structure, s.DirectSum) and _same_sum(scope, before, structure))):
        raise DefinedTwice(f"index `{name}` is declared twice, over different sets", clause.span, "again here",
                           Label(text.spans[name], "declared here"),
                           helps=(Help("give one of the two another name"),))
    if before is None:
        text.indices[name] = index
        text.spans[name] = clause.span
    return [] if structure is None else [Structure(statement, structure, name)]


def _settle(scope: Scope) -> None:
    """Gives each index of the program one letter, and each text those that its lines see."""
    texts = [scope.texts.root, *scope.texts.used.values()]
    aside = stood_aside(texts, scope.reserved | scope.numbers.sizes.keys())
    for index in [x for x in aside if x.set in {of.of.set for of in scope.sets.lengths.values()}]:
        one, two = (text.spans[index.name] for text in texts if index.name in text.indices)
        scope.report.add(DefinedTwice(f"index `{index}` is declared twice, over different sets", one, "",
                                      Label(two, "declared here"),
                                      helps=(Help("give the one of this text another name"),)))
    for text in scope.texts.root.whole():
        text.indices = {name: aside.get(index, index) for name, index in text.indices.items()}
        for name, index in text.indices.items():
            scope.alphabet.indices.setdefault(index.name, index)
            scope.alphabet.spans.setdefault(index.name, text.spans[name])
    scope.sets.sums = {over: tuple(aside.get(x, x) for x in parts) for over, parts in scope.sets.sums.items()}
    see(scope.texts.root, scope.sets.splits, scope.report)


def _same_sum(scope: Scope, index: Index, structure: s.DirectSum) -> bool:
    parts = scope.sets.sums.get(index.set, ())
    return [p.name for p in parts] == [index_name(p) for p in structure.parts]


# extents, maps, definitions


def _dim(scope: Scope, statement: s.Statement) -> None:
    """Adds the sizes of a `dim` line to the scope; raises where a value is no whole number or a size is fixed twice."""
    for clause in statement.clauses:
        body, value = clause.body, None
        if isinstance(body, s.Relation) and body.operators == ("=",):
            body, value = body.operands
        name = size_name(body)
        if name is None:
            raise BadDeclaration(f"`{body.span.text}` is no name for an extent", body.span,
                                 helps=(Help("write `dim W`, or `dim d_k = 64`"),))
        free_name(scope, name, body.span)
        scope.numbers.sizes.setdefault(name, body.span)
        scope.numbers.dims.add(name)
        if value is not None:
            fixed = extent_of(value).constant
            if fixed is None or fixed.denominator != 1 or fixed < 0:
                raise BadDeclaration(f"`{value.span.text}` is no whole number", value.span,
                                     helps=(Help(f"write `dim {name} = 64`"),))
            if scope.numbers.fixed.setdefault(name, int(fixed)) != fixed:
                raise DefinedTwice(f"`{name}` is fixed twice, at {scope.numbers.fixed[name]} and at {fixed}",
                                   clause.span, helps=(Help("remove one of the two"),))


def _map(scope: Scope, statement: s.Statement) -> None:
    """Adds the map of a `map` line to the scope; raises BadMap for a wrong form and DefinedTwice for a second map."""
    match statement.clauses:
        case (s.Clause(s.Relation((s.Product((left, s.Group("(", ")", params)), _), body), ("=" | ":=",))),):
            pass
        case _:
            raise BadMap("a map is written `map π(h) = ceil(h G / H) : g`", statement.span)
    name = index_name(left)
    if name is None or name in scope.seen(left.span) or name in scope.reserved or name in scope.functions:
        raise BadMap(f"`{left.span.text}` is no free name for a map", left.span, helps=(Help("choose another name"),))
    if len(statement.tail) > 1:
        raise BadMap("a map gives one index", statement.span, helps=(Help("write `: g` after it, or nothing"),))
    letters = tuple(declared(scope, p) for p in params)
    if len(set(letters)) != len(letters) or not letters:
        raise BadMap("a map has one or more indices, each once", left.span, helps=(Help("write `map π(h) = … : g`"),))
    target = next((declared(scope, x.body) for x in statement.tail), None)
    made = Map(name, letters, body, target, statement.span)
    before = scope.maps.get(name)
    if before is not None and not alike(before.span, statement.span):
        raise DefinedTwice(f"map `{name}` is defined twice", statement.span, "again here",
                           Label(before.span, "defined here"),
                           helps=(Help("give one of the two another name"),))
    scope.maps[name] = made


def _def(scope: Scope, statement: s.Statement) -> None:
    """Adds the function of a `def` line to the scope; raises BadDeclaration for its form, Reserved for its name."""
    match statement.clauses[0].body:
        case s.Relation((s.Product((left, s.Group("(", ")", params)), _), body), ("=" | ":=",)):
            pass
        case _:
            raise BadDeclaration("a definition is written `def f(x) = …`", statement.span)
    found = titled(left)
    if found is None or found[0].accents or found[0].primes:
        raise BadDeclaration(f"`{left.span.text}` is no name for a function", left.span,
                             helps=(Help("write `def f(x) = …`"),))
    name, scripts = found[0].python, found[1]
    before = scope.functions.get(name)
    if name in scope.reserved or (before is not None and not alike(before.span, statement.span)):
        raise Reserved(f"`{name}` is a function already", left.span, helps=(Help("choose another name"),))
    own = tuple(x for script in scripts for x in _letters(script))
    withs = tuple(c.body for c in statement.clauses[1:] if isinstance(c.body, s.Relation))
    if len(withs) != len(statement.clauses) - 1:
        raise BadDeclaration("what follows `with` is an equation", statement.clauses[-1].span,
                             helps=(Help("write `with m = …`"),))
    made = Function(name, own, tuple(_parameter(p) for p in params), body, withs, statement.span)
    if any(x not in {y for p in made.params for y, _ in p.letters} for x in own):
        raise BadDeclaration("the index in the function's script stands on none of its parameters", left.span,
                             helps=(Help("put it on a parameter: `def f_{s}(x_s) = …`"),))
    optional = [p.default is not None for p in made.params]
    if optional != sorted(optional):
        raise BadDeclaration("a parameter without a value of its own stands behind one that has one", left.span,
                             helps=(Help("put those with values last: `def f(x, c = 1) = …`"),))
    if len({p.name for p in made.params}) < len(made.params):
        raise BadDeclaration("two parameters have one name", left.span,
                             helps=(Help("give one of the two another name"),))
    scope.functions[name] = made


def _letters(script: s.Script) -> tuple[str, ...]:
    """The letters of a script, separated by commas or not. Raises BadDeclaration for anything else."""
    content = script.content
    nodes = content.items if isinstance(content, s.Group) else () if content is None else (content,)
    factors = [f for n in nodes for f in (n.factors if isinstance(n, s.Product) and not any(n.operators) else (n,))]
    names = tuple(map(index_name, factors))
    if any(n is None for n in names):
        raise BadDeclaration(f"`{script.span.text}` is no list of index letters", script.span,
                             helps=(Help("write `_{s}` or `^f`"),))
    return tuple(n for n in names if n is not None)


def _parameter(node: s.Expression) -> Parameter:
    """Reads a parameter of a definition, with the level of each of its letters; BadDeclaration for what has no name,
    and for indices of one that a call may leave out.
    """
    match node:
        case s.Relation((left, default), ("=" | ":=",)):
            made = _parameter(left)
            if made.letters:
                raise BadDeclaration(f"`{left.span.text}` has a value of its own, and indices", left.span,
                                     helps=(Help("leave out the one or the other"),))
            return replace(made, default=default)
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
