"""Index sets as they are declared: classes, extents, and what a set is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from einc.checking.declarations.names import head, index_name, size_name
from einc.checking.declarations.scope import Lengths, Scope
from einc.checking.declarations.scripts import Vocabulary, readings
from einc.errors.problems import BadDeclaration, BadPart, DefinedTwice, Reserved, UnknownIndex, WrongData
from einc.errors.report import Help, Silent, Span
from einc.ir.indices import CLASSES, Extent, Index, IndexSet, number, rounded, size
from einc.syntax import tree as s
from einc.syntax.spelling import nearest

_MOST_TERMS = 64


@dataclass(frozen=True, slots=True)
class Structure:
    """What an index set is made of, to be read when all indices are known."""

    statement: s.Statement
    body: s.Expression
    name: str


def free_name(scope: Scope, name: str, span: Span) -> None:
    """Checks that no function has the name that a declaration gives. Raises Reserved."""
    if name in scope.reserved:
        raise Reserved(f"`{name}` is a function", span, helps=(Help("choose another name"),))


def index_set(scope: Scope, node: s.Expression, structure: s.Expression | None) -> IndexSet:
    """`time(T)`, `vocab(0..V-1)`; `feature` alone where a direct sum follows. Raises BadDeclaration."""
    match node:
        case s.Product((s.Word(cls), s.Group("(", ")", (inner,))), ("", "")):
            pass
        case s.Word(cls) if isinstance(structure, s.DirectSum):
            return IndexSet(_class(scope, cls, node.span), number(0))
        case _:
            raise BadDeclaration(f"`{node.span.text}` is no index set", node.span,
                                 helps=(Help("write a class and an extent: `time(T)`"),))
    cls = _class(scope, cls, node.span)
    if cls == "time" and (found := _ragged(scope, inner)) is not None:
        return found
    if cls == "time":
        _of_all_requests(scope, inner)
    if isinstance(inner, s.Range):
        low = extent(scope, inner.low).constant
        if low is None or low.denominator != 1:
            raise BadDeclaration("a range starts at a whole number", inner.low.span,
                                 helps=(Help("shift the positions in the equations"),))
        return IndexSet(cls, _counted(extent(scope, inner.high) + number(1 - low), inner.span), int(low))
    return IndexSet(cls, _counted(extent(scope, inner), inner.span))


def _ragged(scope: Scope, node: s.Expression) -> IndexSet | None:
    """`T_r`, r a request: T are the lengths, which the caller gives."""
    found = head(node)
    letter = ("" if found is None or len(found[1]) != 1 or found[1][0].kind != "lower"
              else index_name(_inside(found[1][0])) or "")
    if found is None or letter not in scope.seen(node.span) or scope.seen(node.span)[letter].set.cls != "request":
        return None
    free_name(scope, found[0].python, node.span)
    request = scope.seen(node.span)[letter]
    same = (x for x, of in scope.sets.lengths.items() if of.name == found[0] and of.of.set == request.set)
    if (known := next(same, None)) is not None:
        return known
    made = IndexSet("time", size(f"{found[0].python}_{letter}"), by=letter)
    scope.sets.lengths[made] = Lengths(found[0], request, node.span)
    return made


def _of_all_requests(scope: Scope, node: s.Expression) -> None:
    """Refuses a number of positions that is made of the lengths of requests, `0..T_r - 1`."""
    for name in sorted({n for x in ((node.low, node.high) if isinstance(node, s.Range) else (node,))
                        for n in extent_of(x).sizes}):
        known = scope.seen(node.span).get(name.rpartition("_")[2])
        if known is not None and known.set.cls == "request" and "_" in name:
            raise _lengths(name, node.span)


def _lengths(name: str, span: Span) -> BadDeclaration:
    """That a number for each request stands where one number is meant."""
    return BadDeclaration(f"`{name}` are lengths, one for each request: an extent is made of single numbers", span,
                          helps=(Help(f"the positions of the requests are `time({name})`, nothing more", span, name,
                                      False),))


def _inside(script: s.Script) -> s.Expression:
    match script.content:
        case s.Group("{", "}", (inner,)) | inner if inner is not None:
            return inner
    raise AssertionError(script)


def _counted(found: Extent, span: Span) -> Extent:
    """The extent, where it can be a number of elements. Raises BadDeclaration for a negative number or a fraction."""
    value = found.constant
    if value is not None and (value < 0 or value.denominator != 1):
        raise BadDeclaration(f"`{span.text}` is {value}, which is no number of elements", span,
                             notes=("an extent is a whole number, 0 or more",))
    return found


def _class(scope: Scope, name: str, span: Span) -> str:
    """The class of a name; one that is spelled much the same is told, and read as meant, so that nothing follows from
    the slip. Raises the problem where no class is spelled nearly so."""
    if name in CLASSES:
        return name
    near = nearest(name, CLASSES)
    helps = (Help(f"there is a class with a similar name: `{near}`"),) if near else ()
    problem = BadDeclaration(f"`{name}` is not an index class", span, notes=(f"the classes are {', '.join(CLASSES)}",),
                             helps=helps,
                             once=("class", span))
    if near is None:
        raise problem
    scope.report.add(problem)
    return near


def extent(scope: Scope, node: s.Expression) -> Extent:
    """An extent expression; every name in it becomes a size. Raises BadDeclaration."""
    found = extent_of(node)
    for name in sorted(found.sizes):
        if name in scope.reserved and node.span.text != name:
            raise BadDeclaration(f"`{node.span.text}` is no extent, for `{name}` is a function", node.span, notes=(
                "an extent is made of names, whole numbers, + - * /, ⌈ ⌉ and ⌊ ⌋",), helps=(
                Help("give the number a name of its own, which the caller gives, as `J` of `index j : head(J)`"),))
        free_name(scope, name, node.span)
        if any(name == str(of.extent) for of in scope.sets.lengths):
            raise _lengths(name, node.span)
    scope.add_extent_sizes(found, node.span)
    return found


def extent_of(node: s.Expression) -> Extent:
    """Returns the extent that an expression of sizes, whole numbers and + - * / means; else BadDeclaration."""
    name = size_name(node)
    if name is not None:
        return size(name)
    total = number(0)
    match node:
        case s.Number(text) if text.isdigit():
            return number(int(text))
        case s.Group("(" | "{", _, (inner,)):
            return extent_of(inner)
        case s.Sum(terms, signs):
            for term, sign in zip(terms, signs, strict=True):
                total = total + extent_of(term) * number(1 if sign == "+" else -1)
            return total
        case s.Fraction(above, below):
            return _quotient(extent_of(above), extent_of(below), node.span)
        case s.Product(factors, operators):
            total = number(1)
            for factor, operator in _rounded(factors, operators):
                part = factor if isinstance(factor, Extent) else extent_of(factor)
                total = _quotient(total, part, node.span) if operator == "/" else total * part
                if len(total.terms) > _MOST_TERMS:
                    break
            else:
                return total
    raise BadDeclaration(f"`{node.span.text}` is no extent", node.span,
                         notes=("an extent is made of names, whole numbers, + - * /, ⌈ ⌉ and ⌊ ⌋",))


def _rounded(factors: tuple[s.Expression, ...],
             operators: tuple[str, ...]) -> Iterator[tuple[s.Expression | Extent, str]]:
    """The factors of a product with their operators, `ceil(…)` and `floor(…)` each as the extent that they are."""
    pairs = list(zip(factors, operators, strict=True))
    while pairs:
        match pairs:
            case [(s.Word("ceil" | "floor" as word), operator), (s.Group("(", ")", (inner,)), ""), *_]:
                yield rounded(extent_of(inner), word == "ceil"), operator
                pairs = pairs[2:]
            case [first, *pairs]:
                yield first


def _quotient(above: Extent, below: Extent, span: Span) -> Extent:
    found = above.over(below)
    if found is None:
        raise BadDeclaration(f"`{span.text}` divides by what is no single product", span,
                             helps=(Help("divide by a name or a number"),))
    return found


# what sets are made of


def structures(scope: Scope, late: list[Structure]) -> None:
    """Reads the lines of sets that are made of others: direct sums first, those of known parts before those of them,
    then composites.
    """
    sums = [x for x in late if isinstance(x.body, s.DirectSum)]
    while sums:
        ready = [x for x in sums if not any(index_name(p) in {y.name for y in sums} for p in _parts(x))] or sums
        for one in ready:
            with scope.telling(one.statement, (one.name,)):
                _direct_sum(scope, one)
            indices = scope.text(one.body.span).indices
            if not indices[one.name].set.extent.terms:
                indices.pop(one.name)
        sums = [x for x in sums if x not in ready]
    for one in late:
        if not isinstance(one.body, s.DirectSum):
            with scope.telling(one.statement):
                _composite(scope, one)


def _parts(one: Structure) -> tuple[s.Expression, ...]:
    return one.body.parts if isinstance(one.body, s.DirectSum) else ()


def _direct_sum(scope: Scope, one: Structure) -> None:
    """Notes `= c ⊕ ρ`: all of the one, then all of the other. Raises BadPart or DefinedTwice."""
    indices = scope.text(one.body.span).indices
    index = indices[one.name]
    parts = tuple(declared(scope, p) for p in _parts(one))
    _even(tuple(p.set for p in parts), one.body.span)
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
    if scope.sets.sums.get(whole, parts) != parts:
        raise DefinedTwice(f"the set of `{one.name}` is another direct sum already", one.body.span,
                           notes=(f"`{whole}` is {' ⊕ '.join(p.name for p in scope.sets.sums[whole])}",))
    scope.sets.sums[whole] = parts
    indices[one.name] = Index(one.name, whole)


def _composite(scope: Scope, one: Structure) -> None:
    """Notes `= (i a)`: any index of the set may be written as that pair. Raises Silent, BadDeclaration, DefinedTwice or
    WrongData."""
    node = one.body
    index = scope.text(node.span).indices[one.name]
    inner = node.items[0] if isinstance(node, s.Group) and len(node.items) == 1 else node
    script = s.Script("lower", inner, "", node.span)
    found = [r for r in readings((script,), Vocabulary(scope.seen(node.span), frozenset()))
             if all(i.kind == "index" for i in r)]
    if len(found) != 1 or len(found[0]) < 2:
        if any(w in scope.lost for w in _letters_of(node)):
            raise Silent("told with the index")
        raise BadDeclaration(f"`{node.span.text}` is no pair of declared indices", node.span,
                             helps=(Help("a composite is written `= (i a)`, a direct sum `= c ⊕ ρ`"),))
    parts = tuple(i.index.set for i in found[0] if i.index is not None)
    _even((*parts, index.set), node.span)
    known = scope.sets.splits.get(index.set, parts)
    if known != parts:
        raise DefinedTwice(f"the set of `{one.name}` is split in two ways", node.span,
                           notes=(f"`{index.set}` is split into {' and '.join(map(str, known))}",))
    made = number(1)
    for part in parts:
        made = made * part.extent
    ratio = made.over(index.set.extent) if index.set.extent.terms else None
    if ratio is not None and ratio.constant not in (None, Fraction(1)):
        raise WrongData(f"`{index.set.extent}` is not the product of its parts, `{made}`", node.span,
                        helps=(Help(f"parts of extents whose product is `{index.set.extent}` make a composite"),))
    scope.sets.splits[index.set] = parts


def _even(sets: tuple[IndexSet, ...], span: Span) -> None:
    """Refuses what is made of sets that are longer for one request than for another."""
    if any(x.by for x in sets):
        raise BadDeclaration("positions of requests make no composite and no direct sum", span,
                             helps=(Help("write the two indices side by side: `X_{r t}`"),))


def _letters_of(node: s.Expression) -> Iterator[str]:
    for char in node.span.text:
        if char.isalpha():
            yield char


def undeclared(letter: str) -> Help:
    """What is said of an index that nothing declares: only the writer knows its class."""
    return Help(f"declare it with its class and its extent: `index {letter} : …(…)`")


def declared(scope: Scope, node: s.Expression) -> Index:
    """The declared index that a node names. Raises Silent or UnknownIndex."""
    name = index_name(node)
    found = scope.seen(node.span).get(name) if name is not None else None
    if found is None:
        if name in scope.lost:
            raise Silent("told with the index")
        raise UnknownIndex(f"`{node.span.text}` is no declared index", node.span,
                           helps=(undeclared(node.span.text),))
    return found


def check_extents(scope: Scope) -> None:
    """Reports extents that are no numbers of elements with the sizes that the text fixes, and composites that are not
    what their parts make.
    """
    for name, index in scope.alphabet.indices.items():
        fixed = scope.numbers.fixed
        value = _value(index.set.extent, fixed)
        notes = tuple(f"`{n}` is fixed at {fixed[n]}" for n in sorted(index.set.extent.sizes) if n in fixed)
        if value is not None and (value.denominator != 1 or value < 0):
            scope.report.add(WrongData(f"the extent `{index.set.extent}` is {value}, which is no number of elements",
                                       scope.alphabet.spans[name], notes=notes))
            return
        made = number(1)
        for part in scope.sets.splits.get(index.set, ()):
            made = made * part.extent
        parts = _value(made, scope.numbers.fixed)
        if index.set in scope.sets.splits and value is not None and parts is not None and value != parts:
            scope.report.add(WrongData(f"the extent `{index.set.extent}` is {value}, but its parts make {parts}",
                                       scope.alphabet.spans[name],
                                       notes=(*notes, "the product of a composite's parts is its extent")))
            return


def _value(extent: Extent, sizes: Mapping[str, int]) -> Fraction | None:
    """The extent, where every size in it is known."""
    if not extent.sizes <= sizes.keys():
        return None
    try:
        return extent.at(sizes)
    except ZeroDivisionError:
        return Fraction(-1)
