"""Functions of matrices that a paper defines, `F(Q, K) = Q K^⊤`: their arguments stand in for the names in brackets."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einc.checking.declarations.names import Name, head, left_of, size_name
from einc.checking.matrices.shapes import TRANSPOSE, Key, Symbol, is_name, mapped, parts, plain, within
from einc.checking.matrices.uses import split, turned
from einc.errors.problems import NoShape
from einc.errors.report import Help
from einc.syntax import tree as s


@dataclass(frozen=True)
class Function:
    """What a function's definition says: the names in brackets, and the right side. `captured` are names in the right
    side that other equations compute from those in brackets, so that it holds of these alone.
    """

    parameters: tuple[Name, ...]
    body: s.Expression
    captured: frozenset[Name] = frozenset()

    def of(self, arguments: tuple[s.Expression, ...], letters: Container[str]) -> s.Expression:
        """The right side with arguments in place of the names in brackets."""
        given = dict(zip(self.parameters, arguments, strict=True))

        def change(node: s.Expression) -> s.Expression:
            """An argument in place of its name, turned where the name is."""
            found = split(node, letters) if is_name(node) else None
            if found is None:  # what a number is raised to stands in its script
                return mapped(node, change, scripts=not is_name(node))
            name, stack, flipped = found.name, found.places, found.turned
            if (base := turned(name)) is not None and base in given:
                name, flipped = base, True
            if name not in given or stack:
                return node
            inner = s.Group("(", ")", (given[name],), given[name].span)
            mark = s.Script("upper", s.Word(TRANSPOSE, node.span), "", node.span)
            return s.Scripted(inner, (), (mark,), node.span) if flipped else inner

        return change(self.body)

    def check(self, node: s.Expression, given: s.Group, letters: Container[str]) -> bool:
        """Whether the arguments are the names in brackets themselves. Raises NoShape where it cannot be applied."""
        span = node.span.to(given.span)
        if (many := len(self.parameters)) != len(given.items):
            raise NoShape(f"`{node.span.text}` is defined of {many} and has {len(given.items)} here", span)
        if any(x.base == "e" for x in self.parameters):
            raise NoShape(f"`e` stands in the brackets of `{node.span.text}`, and it is the base of powers too", span,
                          helps=(Help("give it another letter"),))
        if not names_in(self.body, letters) & {*self.parameters}:
            raise NoShape(f"the definition of `{node.span.text}` has nothing of what stands in its brackets, so it may "
                          "be one number or one for each entry", span, helps=(Help("write what it is with indices"),))
        same = self.parameters == tuple(
            found.name for x in given.items if (found := split(x, letters)) is not None
            and not (found.places or found.turned))
        if self.captured and not same:
            computed = min((x.span.text for x in _names(self.body) if (found := split(x, letters)) is not None
                            and found.name in self.captured), default=min(x.python for x in self.captured))
            raise NoShape(f"the definition of `{node.span.text}` reads `{computed}`, which is computed of what stands "
                          "in its brackets there", span, helps=(Help("write it as one formula, or with indices"),))
        return same

    def strange(self, symbols: Mapping[Key, Symbol], given: Container[str]) -> str | None:
        """A size in the right side that is neither `given` nor of a symbol that stands there, None without one."""
        within = {found.name for x in parts(self.body) if is_name(x) and (found := split(x, ())) is not None}
        mine = {x for key, symbol in symbols.items() if key.name in within - {*self.parameters}
                for side in symbol.sides for x in side}
        sizes = {x for symbol in symbols.values() for side in symbol.sides for x in side}
        read = {x for node in _names(self.body) if (x := size_name(node)) is not None}
        return min((x for x in read & sizes - mine if x not in given), default=None)


def _names(node: s.Expression) -> Iterator[s.Expression]:
    """The names in an expression, each whole with its scripts."""
    if is_name(node):
        yield node
    else:
        for x in within(node):
            yield from _names(x)


def parameters(line: s.Statement) -> tuple[s.Expression, tuple[Name, ...]] | None:
    """The name of the function that an equation defines and the names in its brackets; None where it defines none."""
    left = left_of(line.clauses[0].body)
    match left:
        case s.Product((name, s.Group("(", ")", items)), ("", "")) if is_name(name):
            names = tuple(x.name for y in items if (x := split(y, ())) is not None and not (x.places or x.turned)
                          and (isinstance(y, s.Word) or _numbered(y)))
            if len(names) == len(items) == len(set(names)) > 0:
                return name, names
    return None


def _numbered(node: s.Expression) -> bool:
    """Whether a name has labels alone, or numbers below it, `W_2`."""
    found = head(node)
    return found is not None and all(k.kind == "lower" and isinstance(k.content, s.Number) for k in found[1])


def defines_function(line: s.Statement) -> bool:
    """Whether a line of a paper defines a function of what stands in its brackets."""
    return line.rank is not None and line.keyword in ("", "output") and parameters(line) is not None


def at_rows(line: s.Statement) -> s.Statement | None:
    """`F(X_n) = …`, which gives the values of a function at rows, as that of a name with their letters, `F_n = …`; None
    where the arguments have no scripts, or have labels too.
    """
    left = left_of(line.clauses[0].body)
    match left:
        case s.Product((name, s.Group("(", ")", items)), ("", "")) if is_name(name):
            scripts = {plain(x.scripts): x.scripts for x in items if isinstance(x, s.Scripted)}
            body = line.clauses[0].body
            if len(scripts) != 1 or not all(isinstance(x, s.Scripted) for x in items) or not isinstance(
                    body, s.Relation):
                return None
            hung = next(iter(scripts.values()))
            if len(hung) != 1 or hung[0].kind != "lower" or not isinstance(name, s.Word):
                return None
            made = s.Scripted(name, (), hung, left.span)
            clause = replace(line.clauses[0], body=replace(body, operands=(made, *body.operands[1:])))
            return replace(line, clauses=(clause, *line.clauses[1:]))
    return None


def defined(statements: Iterable[s.Statement], letters: Container[str], sizes: Container[str]) -> tuple[
        dict[int, tuple[Name, Function]], tuple[s.Statement, ...], frozenset[Name]]:
    """The functions that a paper defines, by the identity of their lines, the lines of the text with the values of
    functions in place of their definitions, and the functions that are written out in scripts. Names of `sizes` are
    of no tensor.
    """
    found: dict[int, tuple[Name, Function]] = {}
    lines: list[s.Statement] = []
    written, out = _inlined(tuple(statements), letters)
    for line in written:
        made = _function(line, letters) if line.rank is not None else None
        lines.append((line.rank is not None and at_rows(line)) or line if made is None else _valued(line))
        if made is not None:
            found[id(lines[-1])] = made
    own = {name for name, _ in found.values()}
    reads = {left.name: names_in(x.clauses[0].body, letters) - {left.name} for x in lines if x.keyword in ("", "output")
             and (left := split(left_of(x.clauses[0].body), letters)) is not None and left.name not in own}
    held = {key: (name, replace(x, captured=_captured(x, reads, letters, sizes))) for key, (name, x) in found.items()}
    return held, tuple(lines), out


def _inlined(statements: tuple[s.Statement, ...],
             letters: Container[str]) -> tuple[tuple[s.Statement, ...], frozenset[Name]]:
    """The lines with the functions that stand in scripts, `K_{g(i)}`, as what they are of their arguments there, and
    these functions.
    """
    out: set[Name] = set()
    made = [x for line in statements if line.rank is not None and (x := _function(line, letters)) is not None]
    known = {name: function for name, function in made if sum(x == name for x, _ in made) == 1}

    def change(node: s.Expression, inside: bool) -> s.Expression:
        """The expression, with functions written out where it stands `inside` of a script."""
        match node:
            case s.Product((base, s.Group("(", ")", given)), ("", "")) if inside and is_name(base) and (
                    found := head(base)) is not None and found[0] in known and not found[1] and len(
                    known[found[0]].parameters) == len(given):
                out.add(found[0])
                return s.Group("(", ")", (known[found[0]].of(tuple(change(x, inside) for x in given), ()),), node.span)
            case s.Scripted(base, _, scripts):
                hung = tuple(replace(k, content=change(k.content, True)) if k.content is not None else k
                             for k in scripts)
                return replace(node, base=change(base, inside), scripts=hung)
        return mapped(node, lambda x: change(x, inside))

    lines = tuple(line if line.rank is None or not known else replace(line, clauses=tuple(
        replace(c, body=change(c.body, False)) for c in line.clauses)) for line in statements)
    return lines, frozenset(out)


def chosen(lines: Iterable[s.Statement], found: Mapping[int, tuple[Name, Function]]) -> dict[Name, Function | None]:
    """Of each function the definition of the highest rank, None where several of that rank differ."""
    ranked: dict[Name, list[tuple[int, Function]]] = {}
    for line in lines:
        if id(line) in found and line.rank is not None:
            name, function = found[id(line)]
            ranked.setdefault(name, []).append((line.rank, function))
    out: dict[Name, Function | None] = {}
    for name, all_of in ranked.items():
        best = [function for rank, function in all_of if rank == max(x for x, _ in all_of)]
        alike = {plain((x.parameters, x.body)) for x in best}
        out[name] = best[0] if len(alike) == 1 else None
    return out


def _function(line: s.Statement, letters: Container[str]) -> tuple[Name, Function] | None:
    """The function that a line defines, with its name."""
    found, body = parameters(line), line.clauses[0].body
    left = split(found[0], letters) if found is not None else None
    if found is None or left is None or left.places or not isinstance(body, s.Relation):
        return None
    return left.name, Function(found[1], body.operands[1])


def _valued(line: s.Statement) -> s.Statement:
    """The definition of a function as that of its value: `F = Q K^⊤`."""
    found, (first, *rest) = parameters(line), line.clauses
    if found is None or not isinstance(first.body, s.Relation):
        return line
    body = replace(first.body, operands=(found[0], *first.body.operands[1:]))
    return replace(line, clauses=(replace(first, body=body), *rest))


def _captured(function: Function, reads: Mapping[Name, Iterable[Name]], letters: Container[str],
              sizes: Container[str]) -> frozenset[Name]:
    """The names in a function's right side, but those of `sizes`, that equations compute from those in its brackets;
    `reads` has what each equation reads, by what it defines.
    """
    found: set[Name] = set()
    for name in names_in(function.body, letters, sizes) - set(function.parameters):
        seen, left = {name}, [name]
        while left:
            more = set(reads.get(left.pop(), ())) - seen
            seen |= more
            left += more
        found |= {name} if seen & set(function.parameters) else set()
    return frozenset(found)


def names_in(node: s.Expression, letters: Container[str], sizes: Container[str] = ()) -> set[Name]:
    """The names of symbols in an expression, without letters and without those of `sizes`."""
    heads = {id(x.base) for x in parts(node) if isinstance(x, s.Scripted) and size_name(x) in sizes} if sizes else ()
    return {found.name for x in parts(node) if is_name(x) and (found := split(x, letters)) is not None
            and not (sizes and (size_name(x) in sizes or id(x) in heads))}
