"""Equations as written -> equations as terms: each is read once, when it is first needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from einc.checking.declarations.names import Name, head, index_name
from einc.checking.declarations.ragged import mentioned, over_requests
from einc.checking.declarations.scope import OPEN, Function, Loop, Map, Rounds, Scope, Signature
from einc.checking.declarations.signatures import left_side
from einc.checking.declarations.slots import standing
from einc.checking.expressions.collect import Collected, Entry, beside
from einc.checking.expressions.expressions import value
from einc.checking.expressions.ordering import choose
from einc.checking.expressions.predicates import predicate, restriction, upwards
from einc.checking.expressions.values import Blocks, Context, Inside, Made, Parameter, Value
from einc.checking.programs.sides import anew, balanced, on_left, restricting
from einc.errors.problems import (
    AssignsInput,
    BadLoop,
    BadMap,
    BadPart,
    Circular,
    NeverStarted,
    PartialOutput,
    UnreadableScript,
)
from einc.errors.report import Help, Label, Problem, Report, Silent, Span
from einc.ir.domains import proves
from einc.ir.elements import INTEGER, REAL
from einc.ir.indices import INDEX_CLASSES, Index, IndexSet, size
from einc.ir.programs import Equation
from einc.ir.terms import TRUE, Join, Pack, Position, Read, Term, both, conjuncts, free_indices, substitute
from einc.syntax import tree as s

_MAX_CHAIN = 30


class _Deeper(Exception):  # noqa: N818, it is no error
    """A chain of equations that read each other has become long: read this one first, with a fresh stack."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature


@dataclass
class Work:
    """The equations of one program while they are read."""

    scope: Scope
    collected: Collected
    report: Report
    made: Made = field(default_factory=Made)
    equations: dict[int, Equation] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    open: dict[int, None] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    blocks: Blocks = field(default_factory=Blocks)
    owners: dict[str, dict[Index, Index]] = field(default_factory=dict)  # the requests of positions, by target
    circles: dict[tuple[Signature, Span], None] = field(default_factory=dict)  # what was read before it was there

    def everything(self, own: tuple[int, ...] | None = None) -> None:
        """Reads every equation, update, map, definition and claim; of a paper the equations that are needed."""
        self._keys()
        for rounds, fixed in self.collected.rounds.items():
            with self.scope.telling():
                if not rounds.layers:
                    self._rounds(rounds, fixed)
        wanted = self.collected.order if own is None else [*self.collected.outputs, *self.collected.asked(own)]
        for signature in (*wanted, *(x for x in self.scope.signatures if x.members)):
            self.settle_chain(signature)
        for entry in self.collected.updates:
            self._update(entry)
        for found in self.scope.maps.values():
            self._map(found)
        for function in self.scope.functions.values():
            if function.name not in self.scope.texts.prelude:
                self._definition(function)

    def _keys(self) -> None:
        """Gives each signature a key: its Python name, with its letters where two share one."""
        names: dict[str, int] = {}
        for signature in self.scope.signatures:
            names[signature.name.python] = names.get(signature.name.python, 0) + 1
        for signature in self.scope.signatures:
            stem = signature.name.python
            if names[stem] > 1:
                letters = "".join(c for x in signature.slots for c in x.name if c.isalnum())
                stem = f"{stem}_{Name(letters).python}" if letters else stem
            signature.named(self.made.fresh(stem))

    def settle_chain(self, signature: Signature) -> None:
        """Reads the equation of a signature; a long chain of equations costs no deep stack. Raises what `settle`
        raises."""
        stack: list[tuple[Signature, list[int]]] = [(signature, [])]
        while stack:
            try:
                self.settle(stack[-1][0], stack[-1][0].span)
                self.waiting.difference_update(stack.pop()[1])
            except _Deeper as deeper:
                stack.append((deeper.signature, list(self.open)))
                self.waiting.update(self.open)
                self.open.clear()

    def settle(self, signature: Signature, span: Span) -> None:
        """Makes sure that the equation behind a signature has been read. Raises Circular or _Deeper."""
        key = id(signature)
        if key in self.done:
            return
        if key in self.open or key in self.waiting:
            if key in self.collected.entries and any(INDEX_CLASSES[x.set.cls].before == "le" for x in signature.slots):
                self.circles[signature, span] = None
                return
            raise Circular(f"`{signature.text}` depends on itself", span, "read here",
                           Label(signature.span, "defined here"),
                           helps=(Help("an update over rounds is written with `for` and `←`"),))
        if len(self.open) > _MAX_CHAIN:
            raise _Deeper(signature)
        self.open[key] = None
        made, report = self.made.apart(), Report()
        entry = self.collected.entries.get(key)
        try:
            self._read(signature, entry, made, report)
        except Problem as problem:
            report.add(beside(problem, entry))
            # Its readers are not blamed for what it lacks.
            signature.said.stated = frozenset(range(len(signature.slots)))
        except _Deeper:
            made.release_keys()
            raise
        for found in report.problems if entry is None or not entry.broken else ():
            self.report.add(found)
        self.made.take(made)
        self.owners.update(dict.fromkeys([signature.key, *(e.target for e in made.equations)], made.owners.known))
        loop = entry.loop if entry is not None else signature.members.loop if signature.members is not None else OPEN
        if loop.rounds is not None:
            self._inside(loop.rounds, made, self.equations.get(key))
        self.open.pop(key)
        self.done.add(key)

    def _context(self, owner: str, left: frozenset[Index] | None, made: Made, report: Report, span: Span,
                 loop: Loop = OPEN) -> Context:
        return Context(self.scope, report, made, owner, left, value, self.settle, self.scope.text(span), loop=loop)

    def _rounds(self, rounds: Rounds, fixed: tuple[Index, ...]) -> None:
        """Finds the index that the rounds take piece by piece, and the domain they take it from. Raises BadLoop."""
        context = self._context("·", None, self.made, self.report, rounds.span, Loop(fixed))
        named = [context.vocabulary(frozenset()).index(index_name(x) or "") for x in rounds.conditions]
        asked = [x if rounds.block else upwards(context, x) for x in rounds.conditions]
        rounds.down = any(x is not y for x, y in zip(asked, rounds.conditions, strict=True))
        conditions = [predicate(context, x) for x, i in zip(asked, named, strict=True) if i is None]
        found = frozenset(i for i in named if i is not None).union(*map(free_indices, conditions)) - frozenset(fixed)
        found, conditions = over_requests(self.scope, found, conditions, rounds.span)
        again = frozenset(i for i in named if i is not None).union(*map(free_indices, conditions)) & frozenset(fixed)
        if again and not found:
            raise BadLoop(f"`{next(iter(again))}` is fixed around the rounds, and they run over it too", rounds.span,
                          helps=(Help("choose another index for one of the two"),))
        if len(found) != 1:
            listed = " and ".join(f"`{i}`" for i in sorted(found, key=lambda i: i.name)) or "none"
            around = (Help("fix the others around the rounds: `for t:`"),) if rounds.around is None else ()
            raise BadLoop(f"rounds run over one index, and here are {listed}", rounds.span, helps=(
                *around, Help("name the index: `for B ⊆ {s ≤ t}:`, `for s in 1..T:`")))
        rounds.domain = _said(both(*conditions))
        rounds.key = self.made.fresh(Name(rounds.block).python) if rounds.block else ""
        rounds.index = next(iter(found))

    def _inside(self, rounds: Rounds, made: Made, equation: Equation | None) -> None:
        for one in rounds.every:
            self.blocks.inner.setdefault(one, []).extend([*made.equations, *([] if equation is None else [equation])])

    def _update(self, entry: Entry) -> None:
        """Reads the next value of a state: it exists where the state does. What is wrong goes to the
        report."""
        signature, rounds = entry.left.signature, entry.loop.rounds
        assert rounds is not None
        start, made, report = self.collected.entries.get(id(signature)), self.made.apart(), Report()
        try:
            if not rounds.block and any(rounds.index in axis for axis in entry.left.axes):
                raise BadLoop(f"the state `{signature.text}` has the index of the rounds", entry.span, helps=(
                    Help(f"leave `{rounds.index}` out: a state has one value, which each round changes"),
                    Help(f"what has a value for each `{rounds.index}` is defined in the rounds with `=`")))
            _started(entry, start)
            anew(entry, start, rounds)
            self.settle_chain(signature)
            result, domain = self._evaluated(entry, made, report)
            terms = tuple(_axis(axis, self.scope) for axis in entry.left.axes)
            by = standing(signature.points.axes, terms, self.scope.sets.splits, tuple(x.set for x in signature.slots))
            given = TRUE if signature.points.domain is None else substitute(signature.points.domain, by)
            if not proves(given, domain):
                said = f"the next value of `{signature.text}` does not exist where the last one did"
                raise PartialOutput(said, entry.span,
                                    helps=(Help("restrict the rounds instead, or fold over the block"),))
            equation = Equation(signature.key, terms, domain, result.term, " ".join(entry.span.text.split()))
            self.owners[signature.key] = {**self.owners.get(signature.key, {}), **made.owners.known}
            self.blocks.updates.setdefault(rounds, []).append(equation)
        except Problem as problem:
            report.add(beside(problem, entry))
            self.scope.lost.add(signature.name.base)
        for found in report.problems if not entry.broken else ():
            self.report.add(found)
        self.made.take(made)
        self._inside(rounds, made, None)

    def _read(self, signature: Signature, entry: Entry | None, made: Made, report: Report) -> None:
        """Reads what defines a signature: the members of a set, an equation, or masks alone. Sets its domain."""
        left = frozenset(signature.points.letters)
        if (members := signature.members) is not None:
            made.owners.told(signature.slots, tuple(map(Position, signature.points.letters)), members.span)
            choose(self._context(signature.key, left, made, report, members.span, members.loop), signature, members)
            return
        if entry is not None:
            self._equation(entry, made, report)
            return
        context = self._context(signature.key, left, made, report, signature.span)
        domain = _said(_masks(signature, tuple(map(Position, signature.points.letters)), context))
        signature.points.domain = None if domain == TRUE else domain

    def _equation(self, entry: Entry, made: Made, report: Report) -> None:
        """Reads one equation into `self.equations`, and sets its domain, lines and element type on its signature."""
        signature, letters = entry.left.signature, entry.left.letters
        result, domain = self._evaluated(entry, made, report)
        axes = entry.left.axes
        plain = both(*(c for c in conjuncts(domain) if free_indices(c) <= {i for axis in axes for i in axis}))
        points = signature.points
        points.letters, points.axes, points.domain = letters, axes, None if plain == TRUE else plain
        signature.said.stated, signature.said.whole_lines = (
            frozenset(n for n, axis in enumerate(axes) if said.intersection(axis))
            for said in (result.stated, result.whole_lines))
        points.lines = {n: result.lines[x] for n, x in enumerate(letters) if x in result.lines}
        # A state starts with a whole number more often than it stays one.
        whole = result.whole and not any(x.left.signature is signature for x in self.collected.updates)
        signature.element = INTEGER if whole else REAL
        if signature.integer and not letters:
            self.scope.numbers.scalars.add(signature.name.base)
        terms, body = tuple(_axis(axis, self.scope) for axis in axes), made.opened(result.term)
        self.equations[id(signature)] = Equation(signature.key, terms, domain, body, " ".join(entry.span.text.split()))

    def _evaluated(self, entry: Entry, made: Made, report: Report) -> tuple[Value, Term]:
        """What the right side means, and where the equation holds. Problems go to the report. Raises Silent."""
        signature, rounds = entry.left.signature, entry.loop.rounds
        terms = tuple(_axis(axis, self.scope) for axis in entry.left.axes)
        left = frozenset(i for axis in entry.left.axes for i in axis)
        if rounds is not None:
            if rounds.index is None:
                raise Silent("told with the rounds")
            changes = any(x.loop.rounds is rounds for x in self.collected.updates)
            if rounds.layers or (not rounds.block and changes):
                left |= {rounds.index}
            left |= {*entry.loop.layer}
        context = self._context(signature.key, left, made, report, entry.span, entry.loop)
        made.owners.told(signature.slots, terms, entry.span)
        said = restriction(replace(context, held=context.held), entry.restrictions)
        context = replace(context, restrictions=tuple(c for c in conjuncts(said) if c != TRUE))
        for relation in entry.withs:
            context = self._local(context, relation)
        result = _joined(context, entry, left) if isinstance(entry.body, s.DirectSum) else value(context, entry.body)
        restricting(context, left, entry)
        trailing = both(*(r for r in context.restrictions if free_indices(r) <= left))
        given = TRUE if rounds is None or rounds.block else rounds.domain
        domain = _said(both(result.domain, trailing, _masks(signature, terms, context)), given)
        if rounds is not None and rounds.index in frozenset(i for axis in entry.left.axes for i in axis):
            domain = both(*rounds.conditions_on(left), domain)  # a value of each element is there where a round is
        made.owners.rest(mentioned(result.term, domain), left, entry.span)
        balanced(result, left, entry, domain, made.owners.known)
        return result, domain

    def _local(self, context: Context, relation: s.Relation) -> Context:
        """`with NAME := …` holds for this equation alone."""
        target, body = relation.operands[0], relation.operands[1]
        left = left_side(self.scope, target, "local", declare=False)
        letters = tuple(i for axis in left.axes for i in axis)
        inner = replace(context, left=frozenset(letters))
        context.made.owners.told(left.signature.slots, tuple(_axis(axis, self.scope) for axis in left.axes),
                                 relation.span)
        found = inner.value(body)
        balanced(found, frozenset(letters), Entry(left, body, (), (), relation.span))
        name = head(target)
        assert name is not None
        bound = inner.let(left.signature.name.python, found, body.span.text, letters)
        slots = tuple((i, x.level) for i, x in zip(letters, left.signature.slots, strict=True))
        return context.knowing(left.signature.name, slots, bound)

    # what stands for itself: read to be checked, and thrown away

    def _map(self, found: Map) -> None:
        """Reports a map that does not give a whole number for the numbers that it is given. Raises BadMap."""
        made = self.made.apart()
        with self.scope.telling():
            context = self._context(found.name, frozenset(found.params), made, Report(), found.span)
            inner = context.value(found.body)
            if not inner.integer:
                raise BadMap(f"`{found.body.span.text}` is not always a whole number", found.body.span,
                             helps=(Help("round it with `floor` or `ceil`"),))
            for index in free_indices(inner.term) - set(found.params):
                raise BadMap(f"index `{index}` is none of the map's own", found.body.span,
                             helps=(Help(f"write `{found.name}(…, {index})`"),))
        made.release_keys()

    def _definition(self, function: Function) -> None:
        """Reports what is wrong in the body of a definition, tried on parameters of which nothing is known."""
        made = self.made.apart()
        letters = {x: Index(x, IndexSet("feature", size(f"·{x}"))) for p in function.params for x, _ in p.letters}
        letters |= {x + marks: Index(x + marks, i.set) for x, i in letters.items() for marks in ("'", "''", "'''")}
        params = []
        for parameter in function.params:
            slots = tuple((letters[x], level) for x, level in parameter.letters)
            free = tuple(Position(i) for i, _ in slots)
            params.append(Parameter(parameter.name, slots, Value(Read(made.fresh("·"), free), integer=True)))
        own = frozenset(i for p in params for i, _ in p.slots)
        with self.scope.telling():
            context = self._context("·", own, made, Report(), function.span)
            inside = Inside(tuple(params), letters, (function.name,))
            context = replace(context, inside=inside)
            for at, parameter in enumerate(function.params):  # it may speak of those before it
                if parameter.default is not None:
                    replace(context, inside=replace(inside, params=tuple(params[:at]))).value(parameter.default)
            for relation in function.withs:
                found = head(relation.operands[0])
                assert found is not None
                bound = context.let("·", context.value(relation.operands[1]), "")
                context = context.knowing(found[0], (), bound)
            context.value(function.body)
        made.release_keys()


def _said(domain: Term, given: Term = TRUE) -> Term:
    """A domain without what holds everywhere."""
    return both(*(c for c in conjuncts(domain) if not proves(given, c)))


def _started(entry: Entry, start: Entry | None) -> None:
    """Raises NeverStarted for a state without a value before the first round, AssignsInput for one that is given."""
    signature = entry.left.signature
    if signature.role != "local":
        raise AssignsInput(f"`{signature.text}` is declared as {signature.role}, so no round gives it a value",
                           entry.span, "",
                           Label(signature.span, "declared here"), helps=(Help("give the state another name"),))
    if start is None:
        raise NeverStarted(f"`{signature.text}` has no value before the first round", entry.span,
                           helps=(Help(f"write above the block what it starts with: `{signature.name.text} = …`"),))
    if start.loop.rounds is entry.loop.rounds:
        raise NeverStarted(f"`{signature.text}` is made anew in each round, and updated too", entry.span,
                           "updated here",
                           Label(start.span, "made here"), helps=(Help("put the equation above the block"),))


def _masks(signature: Signature, terms: tuple[Term, ...], context: Context) -> Term:
    """Returns all masks of a tensor, read at `terms`, as one condition; raises UnreadableScript for a foreign index."""
    found: list[Term] = []
    for mask in signature.said.masks:
        if mask.predicate is not None:
            own = frozenset(i for axis in mask.axes for i in axis)
            inner = replace(context, left=own, held=frozenset(), text=context.scope.text(mask.span))
            term = both(*(predicate(inner, c.body) for c in mask.predicate))
            for index in sorted(free_indices(term) - own, key=lambda i: i.name):
                raise UnreadableScript(f"index `{index}` stands in the mask, but not on what it masks", mask.span,
                                       helps=(Help(f"leave `{index}` out, or mask a tensor that has it"),))
            sets = tuple(x.set for x in signature.slots)
            found.append(substitute(term, standing(mask.axes, terms, context.scope.sets.splits, sets)))
    return both(*found)


def _joined(context: Context, entry: Entry, left: frozenset[Index]) -> Value:
    """`… ⊕ …` along the one index of the left side that is a direct sum. Raises BadPart."""
    assert isinstance(entry.body, s.DirectSum)
    whole = [i for i in left if i.set in context.scope.sets.sums]
    if len(whole) != 1:
        raise BadPart("`⊕` needs one index on the left that is declared as a direct sum", entry.body.span,
                      helps=(Help("declare it: `index e : feature = c ⊕ ρ`"),))
    parts = context.scope.sets.sums[whole[0].set]
    note = (f"`{whole[0]}` is {' ⊕ '.join(p.name for p in parts)}",)
    if len(parts) != len(entry.body.parts):
        raise BadPart(f"`{whole[0]}` has {len(parts)} parts, the right side {len(entry.body.parts)}", entry.body.span,
                      notes=note)
    made: list[tuple[Index, Term]] = []
    values: list[Value] = []
    for index, node in zip(parts, entry.body.parts, strict=True):
        inside = left - {whole[0]} | {index}
        found = replace(context, left=inside).value(node)
        if index not in free_indices(found.term) | found.free.keys():
            raise BadPart(f"this part has no index `{index}`", node.span, notes=note)
        on_left(found, inside)
        made.append((index, found.term))
        values.append(found)
    domain = both(*(v.domain for v in values))
    if free_indices(domain) & set(parts) or any(both(v.domain) != domain for v in values):
        raise BadPart("the parts exist in different domains", entry.body.span,
                      helps=(Help("restrict the whole equation, or none of its parts"),))
    return Value(Join(whole[0], tuple(made)), domain,
                 stated=frozenset().union(*(v.stated for v in values)) - set(parts))


def _axis(axis: tuple[Index, ...], scope: Scope) -> Term:
    if len(axis) == 1:
        return Position(axis[0])
    sets = tuple(i.set for i in axis)
    into = next(whole for whole, parts in scope.sets.splits.items() if parts == sets)
    return Pack(tuple(Position(i) for i in axis), sets, into)
