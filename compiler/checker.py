"""SyntaxTree -> TypedProgram: names resolved, definitions expanded, every implied sum and every domain written out.

Does not: simplify, order or choose anything. What the program says, it says in the order of its equations.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from einc import syntax as s
from einc.checking.audit import audit
from einc.checking.declare import declare
from einc.checking.expressions import value
from einc.checking.names import Name, head
from einc.checking.predicates import predicate, restriction
from einc.checking.scope import Scope, Signature
from einc.checking.signatures import Collected, Entry, collect, left_side
from einc.checking.values import Context, Made, Parameter, Value
from einc.domains import proves
from einc.errors import Help, Label, Problem, Report, Source, Span
from einc.indices import Index
from einc.problems import BadPart, CannotUse, Circular, FreeOnLeft, FreeOnRight, OnePythonName, Undeclared, UnreadableScript
from einc.terms import (
    TRUE,
    Equation,
    Join,
    Pack,
    Position,
    Read,
    Tensor,
    Term,
    TypedProgram,
    both,
    conjuncts,
    free_indices,
    reads,
    substitute,
    transform,
)

Find = Callable[[Source, str], Source | None]
Parse = Callable[[Source, Report], s.SyntaxTree]
_RECURSION = 20_000


def check(tree: s.SyntaxTree, prelude: s.SyntaxTree, report: Report, find: Find, parse: Parse) -> TypedProgram | None:
    """The program that the text means; None where it has errors, all of which are in the report.

    `find(source, name)` gives the text of a used spec, `parse` its tree.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    before = len(report.errors)
    scope = Scope(report)
    declare(scope, prelude.statements)
    scope.prelude = frozenset(scope.functions)
    statements = list(_used(tree, report, find, parse, (tree.source.name,), set()))
    declare(scope, statements)
    collected = collect(scope, statements)
    work = _Work(scope, collected, report)
    work.keys()
    for signature in list(collected.order):
        work.settle(signature, None)
    outputs = work.outputs()
    if len(report.errors) > before:
        return None
    program = work.program(tree.source.name, outputs)
    if program is not None:
        audit(program, work.audited, report)
    return None if len(report.errors) > before or program is None else program


def _used(tree: s.SyntaxTree, report: Report, find: Find, parse: Parse, chain: tuple[str, ...], seen: set[str]) -> Iterable[s.Statement]:
    """The lines of a text with those of the specs it uses in front of its own."""
    for statement in tree.statements:
        if statement.keyword != "use":
            yield statement
            continue
        word = statement.clauses[0].body
        assert isinstance(word, s.Word)
        found = find(tree.source, word.text)
        if found is None:
            report.add(CannotUse(f"there is no spec `{word.text}`", word.span, notes=("looked beside this file and among the specs of einc",)))
        elif found.name in chain:
            report.add(CannotUse(f"`{word.text}` uses itself: {' → '.join([*chain[chain.index(found.name):], found.name])}", word.span))
        elif found.name not in seen:
            seen.add(found.name)
            yield from _used(parse(found, report), report, find, parse, (*chain, found.name), seen)


@dataclass
class _Work:
    """The equations of one program while they are read, each when it is first needed."""

    scope: Scope
    collected: Collected
    report: Report
    made: Made = field(default_factory=Made)
    state: dict[int, str] = field(default_factory=dict)
    equations: dict[int, Equation] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)

    def keys(self) -> None:
        """A key for each signature: its Python name, with its letters where two share one."""
        names: dict[str, int] = {}
        for signature in self.scope.signatures:
            names[signature.name.python] = names.get(signature.name.python, 0) + 1
        for signature in self.scope.signatures:
            stem = signature.name.python
            if names[stem] > 1:
                letters = "".join(c for x in signature.slots for c in x.name if c.isalnum())
                stem = f"{stem}_{Name(letters).python}" if letters else stem
            signature.key = self.made.fresh(stem)
            self.spans[signature.key] = signature.span
            signature.letters = tuple(Index(x.name, x.set) for x in signature.slots)

    def settle(self, signature: Signature, span: Span | None) -> None:
        """Reads the equation of a signature, once."""
        entry = self.collected.entries.get(id(signature))
        state = self.state.get(id(signature))
        if state == "open":
            raise Circular(f"`{signature.text}` depends on itself", span or signature.span, "read here", Label(signature.span, "defined here"),
                           helps=(Help("an update over rounds is written with `for` and `←`"),))
        if state == "done":
            return
        self.state[id(signature)] = "open"
        try:
            if entry is not None:
                self._equation(entry)
            else:
                self._masked(signature)
        except Problem as problem:
            self.report.add(problem)
            signature.total = True  # so that its readers are not blamed for what it lacks
        self.state[id(signature)] = "done"

    def _masked(self, signature: Signature) -> None:
        context = self._context(signature, frozenset(signature.letters))
        domain = self._masks(signature, signature.letters, context)
        signature.domain = None if domain == TRUE else domain

    def _context(self, signature: Signature, left: frozenset[Index]) -> Context:
        return Context(self.scope, self.report, self.made, signature.key, left, evaluate=value, settle=self.settle)

    def _masks(self, signature: Signature, letters: tuple[Index, ...], context: Context) -> Term:
        found: list[Term] = []
        for mask in signature.masks:
            if mask.predicate is not None:
                inner = replace(context, left=frozenset(mask.letters), held=frozenset())
                term = both(*(predicate(inner, c.body) for c in mask.predicate))
                for index in free_indices(term) - frozenset(mask.letters):
                    raise UnreadableScript(f"index `{index}` stands in the mask, but not on what it masks", mask.span)
                found.append(substitute(term, dict(zip(mask.letters, map(Position, letters), strict=True))))
        return both(*found)

    def _equation(self, entry: Entry) -> None:
        signature, axes = entry.left.signature, entry.left.axes
        left = frozenset(i for axis in axes for i in axis)
        context = self._context(signature, left)
        context = replace(context, restrictions=tuple(conjuncts(restriction(context, entry.restrictions))) if entry.restrictions else ())
        for relation in entry.withs:
            context = self._local(context, relation)
        result = _joined(context, entry, left) if isinstance(entry.body, s.DirectSum) else value(context, entry.body)
        _balanced(result, left, entry)
        letters = tuple(axis[0] if len(axis) == 1 else Index(f"({' '.join(i.name for i in axis)})", x.set)
                        for axis, x in zip(axes, signature.slots, strict=True))
        trailing = both(*(r for r in context.restrictions if free_indices(r) <= left))
        domain = both(result.domain, trailing, self._masks(signature, letters, context))
        domain = both(*(c for c in conjuncts(domain) if not proves(TRUE, c)))
        plain = both(*(c for c in conjuncts(domain) if free_indices(c) <= set(letters)))
        signature.letters = letters
        signature.domain = None if plain == TRUE else plain
        signature.total = signature.total or bool(result.stated & left and not free_indices(domain))
        signature.lines = {n: result.lines[x] for n, x in enumerate(letters) if x in result.lines}
        signature.integer = result.integer
        terms = tuple(_axis_term(axis, self.scope) for axis in axes)
        self.equations[id(signature)] = Equation(signature.key, terms, domain, result.term, " ".join(entry.span.text.split()))

    def _local(self, context: Context, relation: s.Relation) -> Context:
        """`with NAME := …` holds for this equation alone."""
        target, body = relation.operands[0], relation.operands[1]
        left = left_side(self.scope, target, "local", declare=False)
        letters = tuple(i for axis in left.axes for i in axis)
        inner = replace(context, left=frozenset(letters))
        found = inner.value(body)
        _balanced(found, frozenset(letters), Entry(left, body, (), (), relation.span))
        name = head(target)
        assert name is not None
        bound = inner.let(left.signature.name.python, found, body.span.text, letters)
        slots = tuple((i, x.level) for i, x in zip(letters, left.signature.slots, strict=True))
        return replace(context, params=(*context.params, Parameter(left.signature.name, slots, replace(bound, free={}))))

    def outputs(self) -> list[Signature]:
        """The declared outputs, else what is defined and never read."""
        chosen = self.collected.outputs
        if not chosen:
            read = {r.tensor for e in [*self.equations.values(), *self.made.equations] for r in [*reads(e.body), *reads(e.domain)]}
            chosen = [x for x in self.collected.order if x.key not in read]
        for signature in chosen:
            if id(signature) not in self.collected.entries and signature.role == "local":
                self.report.add(Undeclared(f"the output `{signature.text}` is not defined", signature.span,
                                           helps=(Help("give it an equation"),)))
        return chosen

    def program(self, name: str, outputs: list[Signature]) -> TypedProgram | None:
        """What the outputs need, under the names that Python will see."""
        everything = {e.target: e for e in [*self.made.equations, *self.equations.values()]}
        live = _live(everything, [x.key for x in outputs])
        signatures = {x.key: x for x in self.scope.signatures}
        names = self._python_names(live, signatures, outputs)
        if names is None:
            return None
        made = {t.key: t for t in self.made.tensors}
        tensors: dict[str, Tensor] = {}
        for key in [x.key for x in self.scope.signatures if x.key in live] + [k for k in made if k in live]:
            if key in signatures:
                x = signatures[key]
                text = x.name.text
                tensors[names[key]] = Tensor(names[key], text, x.slots, x.role, x.integer, x.span)
            else:
                tensors[names[key]] = replace(made[key], key=names[key], text=names[key])
        equations = tuple(_renamed(everything[key], names) for key in _sorted(everything, live))
        self.audited = _Audited(self, names, outputs)
        return TypedProgram(name, tensors, equations, tuple((names[x.key], names[x.key]) for x in outputs), dict(self.scope.fixed),
                            dict(self.scope.splits), dict(self.scope.sums))

    audited: _Audited = field(init=False)

    def _python_names(self, live: list[str], signatures: dict[str, Signature], outputs: list[Signature]) -> dict[str, str] | None:
        names: dict[str, str] = {}
        taken: dict[str, Signature] = {}
        fixed = [x for x in self.scope.signatures if x.key in live and (x.role != "local" or x in outputs)]
        for signature in fixed:
            python = signature.alias or signature.name.python
            python += "_" * keyword.iskeyword(python)
            other = taken.get(python)
            if other is not None and (other.role == "local") == (signature.role == "local"):
                self.report.add(OnePythonName(f"`{other.text}` and `{signature.text}` are both `{python}` in Python", signature.span, "",
                                              Label(other.span, "declared here"), helps=(Help(f"say `as`: `{signature.span.text} as {python}2`"),)))
                return None
            while python in taken:
                python += "_out"
            taken[python] = signature
            names[signature.key] = python
        used = set(names.values())
        for key in live:
            if key not in names:
                stem = signatures[key].name.python if key in signatures else key
                python = stem + "_" * keyword.iskeyword(stem)
                if python in used:
                    python = key
                while python in used:
                    python += "_"
                used.add(python)
                names[key] = python
        return names


@dataclass(frozen=True)
class _Audited:
    """What the audit needs to know of the text: where things were written, and what was said on purpose."""

    work: _Work
    names: dict[str, str]
    signatures: list[Signature]

    @property
    def meant(self) -> frozenset[str]:
        """Outputs declared `: all`."""
        return frozenset(self.names[x.key] for x in self.signatures if x.total)

    @property
    def folds(self) -> frozenset[Term]:
        """Folds over a line whose whole range was meant."""
        return frozenset(_rename_term(t, self.names) for t in self.work.made.meant)

    @property
    def places(self) -> dict[Term, Span]:
        return {_rename_term(t, self.names): x for t, x in self.work.made.places.items()}

    @property
    def spans(self) -> dict[str, Span]:
        """Where each tensor stands in the text; helper tensors stand where their owner does."""
        return {self.names[k]: x for k, x in self.work.spans.items() if k in self.names}

    @property
    def masks(self) -> dict[str, Span]:
        return {self.names[x.key]: x.masks[-1].span for x in self.work.scope.signatures
                if x.key in self.names and any(m.predicate is not None for m in x.masks)}


def _joined(context: Context, entry: Entry, left: frozenset[Index]) -> Value:
    """`… ⊕ …` along the one index of the left side that is a direct sum."""
    assert isinstance(entry.body, s.DirectSum)
    whole = [i for i in left if i.set in context.scope.sums]
    if len(whole) != 1:
        raise BadPart("`⊕` needs one index on the left that is declared as a direct sum", entry.body.span,
                      helps=(Help("declare it: `index e : feature = c ⊕ ρ`"),))
    parts = context.scope.sums[whole[0].set]
    if len(parts) != len(entry.body.parts):
        raise BadPart(f"`{whole[0]}` has {len(parts)} parts, the right side {len(entry.body.parts)}", entry.body.span)
    made: list[tuple[Index, Term]] = []
    for index, node in zip(parts, entry.body.parts, strict=True):
        inner = replace(context, left=left - {whole[0]} | {index})
        found = inner.value(node)
        if index not in free_indices(found.term):
            raise BadPart(f"this part has no index `{index}`", node.span, notes=(f"`{whole[0]}` is {' ⊕ '.join(p.name for p in parts)}",))
        _on_left(found, left - {whole[0]} | {index})
        made.append((index, found.term))
    return Value(Join(whole[0], tuple(made)))


def _balanced(result: Value, left: frozenset[Index], entry: Entry) -> None:
    """Every free index stands on both sides; a number alone needs none."""
    _on_left(result, left)
    present = free_indices(result.term) | free_indices(result.domain)
    if any(True for _ in reads(result.term)):
        for index in sorted(left - present, key=lambda i: i.name):
            raise FreeOnLeft(f"index `{index}` stands on the left, but nothing on the right has it", entry.span,
                             helps=(Help(f"remove `{index}` from the left"),))


def _on_left(result: Value, left: frozenset[Index]) -> None:
    for index, found in result.free.items():
        if index not in left:
            how = f"write `Σ_{{{index}}}`" if not index.set.summed else f"sum over it, `Σ_{index}`, or pair it with one on the other level"
            raise FreeOnRight(f"index `{index}` stands on the right, but not on the left", found[0].span, "",
                              helps=(Help(f"put `{index}` on the left, or {how}"),))


def _axis_term(axis: tuple[Index, ...], scope: Scope) -> Term:
    if len(axis) == 1:
        return Position(axis[0])
    sets = tuple(i.set for i in axis)
    into = next(whole for whole, parts in scope.splits.items() if parts == sets)
    return Pack(tuple(Position(i) for i in axis), sets, into)


def _live(equations: dict[str, Equation], wanted: list[str]) -> list[str]:
    """The keys that the outputs need."""
    seen: dict[str, None] = {}
    stack = list(wanted)
    while stack:
        key = stack.pop()
        if key in seen:
            continue
        seen[key] = None
        if key in equations:
            stack += [r.tensor for t in (equations[key].body, equations[key].domain) for r in reads(t)]
    return list(seen)


def _sorted(equations: dict[str, Equation], live: list[str]) -> list[str]:
    """The live equations, each after what it reads, otherwise in the order they were made."""
    wanted, out, done = set(live), [], set()

    def visit(key: str) -> None:
        stack = [(key, False)]
        while stack:
            here, ready = stack.pop()
            if ready:
                out.append(here)
            elif here in equations and here not in done:
                done.add(here)
                stack.append((here, True))
                inner = [r.tensor for t in (equations[here].domain, equations[here].body) for r in reads(t)]
                stack.extend((k, False) for k in reversed(inner))

    for key in equations:
        if key in wanted:
            visit(key)
    return out


def _rename_term(term: Term, names: dict[str, str]) -> Term:
    return transform(term, lambda t: Read(names.get(t.tensor, t.tensor), t.subs) if isinstance(t, Read) else t)


def _renamed(equation: Equation, names: dict[str, str]) -> Equation:
    return Equation(names[equation.target], equation.axes, _rename_term(equation.domain, names), _rename_term(equation.body, names),
                    equation.source)
