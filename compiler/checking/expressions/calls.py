"""Applications: primitives, and definitions expanded by binding each argument to an equation, never by copying it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from einc.checking.declarations.heads import functions_of
from einc.checking.declarations.names import Name, head, literal
from einc.checking.declarations.scope import CALLABLE, UNIFORM, Function
from einc.checking.expressions.chances import counted, uniform
from einc.checking.expressions.predicates import binder
from einc.checking.expressions.rules import refuse_indicator
from einc.checking.expressions.tensors import left_out
from einc.checking.expressions.values import Context, Inside, Occurrence, Parameter, Value, gather, merged, once
from einc.checking.expressions.wider import over_several
from einc.errors.problems import Circular, NeedsArguments, NoDomain, TooDeep, Undeclared, WrongArguments
from einc.errors.report import Help, Problem, Silent, Span
from einc.ir.indices import Index, primed
from einc.ir.primitives import PRIMITIVES
from einc.ir.terms import TRUE, Apply, Term, both, free_indices
from einc.syntax import tree as s

MAX_CALLS = 5_000
MAX_CALLING = 50


def is_function(context: Context, name: Name) -> bool:
    """Whether a name is that of a definition or a primitive."""
    return not name.accents and not name.primes and (name.python in context.scope.functions or name.python in CALLABLE)


def below_a_root(context: Context, factors: tuple[s.Expression, ...], at: int) -> Problem | None:
    """The problem of a function without its argument since a root takes its name alone, or the first letter of it."""
    root, rest = factors[at], list(factors[at + 1 : at + 3])
    if not isinstance(root, s.Root):
        return None
    word, following = root.inner.span, rest[0] if rest else None
    following = following.base if isinstance(following, s.Scripted) and not following.accents else following
    name = found[0] if (found := head(root.inner)) is not None else None
    if isinstance(following, s.Word) and following.span.start == word.end:
        word = word.to(rest.pop(0).span)  # `\sqrt abs`: the macro takes one letter
        name = Name(root.inner.span.to(following.span).text)
    if name is None or not is_function(context, name) or not rest:
        return None
    group = rest[0]
    if not isinstance(group, s.Group) or group.open != "(":
        return None
    applied = word.to(group.span)
    new = f"({applied.text})" if root.span.text.startswith("√") else f"{{{applied.text}}}"
    return NeedsArguments(f"the root takes one letter or name, so the function `{word.text}` has no argument", word,
                          helps=(Help(f"write `{new}`", applied, new),))


def call(context: Context, name: Name, scripts: tuple[s.Script, ...], group: s.Group, span: Span) -> Value:
    """The value of an application. Changes `context.made.calls`. Raises Undeclared, Circular, WrongArguments or
    TooDeep."""
    if (name.python in context.scope.reserved and context.inside.letters is None
            and name.base in functions_of(context.scope.foreign.unknown)):
        raise Undeclared(f"the paper defines `{name.base}` itself, and that cannot be read", span, helps=(
            Help("mend its equation, or write here what it says"),))
    if name.python in CALLABLE and name.python not in context.scope.functions:
        if scripts:
            raise _scripted(scripts, group, span)
        return _primitive(context, name.python, group, span)
    function = context.scope.functions[name.python]
    if function.name in context.inside.calling:
        raise Circular(f"`{function.name}` is defined by itself", span,
                       notes=(f"it is defined as `{function.span.text}`",))
    nodes = _nodes(function, group, span)
    if scripts and not function.letters:
        raise WrongArguments(f"`{function.name}` has no index of its own", scripts[0].span,
                             notes=(f"it is defined as `{function.span.text}`",))
    context.made.calls.append(None)
    if len(context.made.calls) > MAX_CALLS or len(context.inside.calling) > MAX_CALLING:
        raise TooDeep("the definitions unfold to too many applications", span,
                      helps=(Help("name a part that stands twice, with `with` or in an equation of its own"),))
    found = _Call(context, function, nodes, span).value(scripts)
    # In the product around it the application is the factor that has the index.
    return replace(found, free={i: tuple(replace(o, factor=span) for o in at) for i, at in found.free.items()})


def _nodes(function: Function, group: s.Group, span: Span) -> tuple[s.Expression | None, ...]:
    """What is given for each parameter, in their order and then by name; None for one that has a value of its own.

    Raises WrongArguments where something is given twice, is given for no parameter, or is missing.
    """
    notes, params = (f"it is defined as `{function.span.text}`",), function.params
    out: list[s.Expression | None] = [None] * len(params)
    for at, item in enumerate(group.items):
        place, node = at, item
        if isinstance(item, s.Relation) and item.operators in (("=",), (":=",)):
            place, node = _place(function, item.operands[0]), item.operands[1]
        elif any(isinstance(x, s.Relation) for x in group.items[:at]):
            raise WrongArguments(f"`{item.span.text}` is given without a name, behind one with a name", item.span,
                                 notes=notes, helps=(Help("put what has a name last"),))
        if place >= len(params):
            break
        if out[place] is not None:
            raise WrongArguments(f"`{params[place].name.text}` is given twice", item.span, notes=notes,
                                 helps=(Help("leave out one of the two"),))
        out[place] = node
    missing = [f"`{p.name.text}`" for p, node in zip(params, out, strict=True) if node is None and p.default is None]
    if len(group.items) > len(params) or (missing and len(group.items) < len(missing)):
        least = sum(p.default is None for p in params)
        many = {least: f"{least}", least + 1: f"{least} or {least + 1}"}.get(len(params), f"{least} to {len(params)}")
        raise WrongArguments(f"`{function.name}` takes {many} argument{'s' * (many != '1')}, not {len(group.items)}",
                             span, notes=notes)
    if missing:
        raise WrongArguments(f"{missing[0]} of `{function.name}` is not given", span, notes=notes)
    return tuple(out)


def _place(function: Function, name: s.Expression) -> int:
    """The place of a parameter among those of a definition; raises WrongArguments where it is none of them."""
    names, found = [p.name.python for p in function.params], head(name)
    if found is not None and not found[1] and found[0].python in names:
        return names.index(found[0].python)
    listed = ", ".join(f"`{p.name.text}`" for p in function.params)
    raise WrongArguments(f"`{function.name}` has no parameter `{name.span.text}`", name.span,
                         notes=(f"it is defined as `{function.span.text}`",),
                         helps=(Help(f"its parameters are {listed}"),))


def _scripted(scripts: tuple[s.Script, ...], group: s.Group, span: Span) -> Problem:
    """The problem of a primitive with scripts: `tanh^2(x)` is a power to most, `sin^{-1}(x)` an inverse, `log_2(x)` has
    another base.
    """
    name, (first, *rest) = span.text[: scripts[0].span.start - span.start].strip(), scripts
    power = literal(first.content) if not rest and first.kind == "upper" and first.content is not None else None
    helps = (Help(f"for a power write `({name}{group.span.text})^{{{power}}}`"),) if power is not None else (
        Help("write what it stands for: `log(x) / log(2)` for base 2"),)
    return WrongArguments(f"`{name}` takes no script", first.span.to(scripts[-1].span), helps=helps)


def _primitive(context: Context, name: str, group: s.Group, span: Span) -> Value:
    """Returns a primitive's value at the group's items; raises WrongArguments for a wrong number of them."""
    if name == UNIFORM:
        return uniform(context, group, span)
    row = PRIMITIVES[name]
    count = len(group.items)
    if (row.arity and count != row.arity) or (not row.arity and count < 2):
        wanted = str(row.arity) if row.arity else "two or more"
        raise WrongArguments(f"`{name}` takes {wanted} argument{'s' * (wanted != '1')}, not {count}", span,
                             notes=(f"`{name}` is a primitive",))
    values = [counted(context, item) if row.whole else once(context.value(item)) for item in group.items]
    domain = both(*(v.domain for v in values))
    made = once(merged(values, Apply(name, tuple(v.term for v in values)), domain))
    integer = name in ("floor", "ceil") or (row.exact and all(v.integer for v in values))
    return replace(made, integer=integer)


@dataclass
class _Call:
    """One application of a definition: its own indices as they become known, and what is said of them."""

    context: Context
    function: Function
    nodes: tuple[s.Expression | None, ...]
    span: Span
    own: dict[str, Index] = field(default_factory=dict)
    restriction: Term = TRUE
    said: frozenset[Index] = frozenset()
    whole: frozenset[Index] = frozenset()

    def value(self, scripts: tuple[s.Script, ...]) -> Value:
        """The body with the parameters bound to the arguments. Changes `self.context.made.bound`."""
        if scripts:
            self._script(scripts)
        given = [(parameter, node) for parameter, node in zip(self.function.params, self.nodes, strict=True)
                 if node is not None]
        values = [self._argument(parameter.letters, node) for parameter, node in given]
        self.context.made.bound.update(self.own.values())
        values = [self._restricted(parameter.letters, value, node)
                  for (parameter, node), value in zip(given, values, strict=True)]
        letters = self._letters(values)
        params: list[Parameter] = []
        for (parameter, node), value in zip(given, values, strict=True):
            slots = tuple((letters[x], level) for x, level in parameter.letters)
            named = self.context.let(parameter.name.python, value, node.span.text)
            params.append(Parameter(parameter.name, slots, replace(named, free={})))
        return self._passed_through(self._body(letters, tuple(params)), values, params)

    def _script(self, scripts: tuple[s.Script, ...]) -> None:
        """Finds the indices that the call's script gives to the definition's letters, and their domain. Raises
        WrongArguments."""
        found = binder(self.context, scripts, self.span, own=True)
        if len(found.bound) > 1 and (wider := over_several(self.function, len(found.bound))) is not None:
            self.function = wider
        function = self.function
        if len(function.letters) != len(found.bound):
            raise WrongArguments(f"`{function.name}` runs over {len(function.letters)} index, its script names "
                                 f"{len(found.bound)}",
                                 scripts[0].span, notes=(f"it is defined as `{function.span.text}`",),
                                 helps=self._composite(found.bound))
        self.own = dict(zip(function.letters, found.bound, strict=True))
        self.restriction = found.domain
        self.said = frozenset(found.bound) if found.said else frozenset()
        self.whole = found.whole

    def _composite(self, named: tuple[Index, ...]) -> tuple[Help, ...]:
        """The index to name where the script names the parts of a composite."""
        scope, sets = self.context.scope, tuple(i.set for i in named)
        over = next((x for x, parts in scope.sets.splits.items() if parts == sets), None)
        letters = [name for name, i in self.context.indices.items() if i.set == over]
        said = "name the composite whose parts they are, here and in the argument: "
        return (Help(f"{said}`{self.function.name}_{{{letters[-1]}}}(…)`"),) if letters else ()

    def _argument(self, letters: tuple[tuple[str, str], ...], node: s.Expression) -> Value:
        """The argument's value; where the call has no script, its one upper index is the definition's own. Changes
        `self.own`. Raises WrongArguments."""
        missing = [x for x, _ in letters if x not in self.own]
        if not missing:
            return once(self._within(letters).value(node))
        lone = missing[0] if len(missing) == 1 else None
        try:
            value = once(self.context.value(node))
        except Problem:
            found = left_out(self.context, node) if lone else None
            if found is None or lone is None:
                raise
            self.own[lone] = found[1]
            return once(found[0])
        upper = [i for i, o in value.free.items() if o[0].level == "upper"]
        if lone and len(upper) == 1:
            self.own[lone] = upper[0]
            return value
        if lone and not upper and (found := left_out(self.context, node)) is not None:
            self.own[lone] = found[1]
            return once(found[0])
        what = "has no upper index" if not upper else f"has {len(upper)} upper indices"
        raise WrongArguments(f"`{self.function.name}` needs to know its index: the argument {what}", node.span,
                             helps=tuple(map(self._over, upper)) or (
                                 Help(f"write it: `{self.function.name}_{{…}}(…)`"),))

    def _over(self, index: Index) -> Help:
        """The edit that names the index that the definition runs over."""
        at = self.span.start + self.span.text.index("(")
        return Help(f"say that it runs over `{index}`", replace(self.span, start=at, end=at), f"_{{{index}}}",
                    certain=False)

    def _within(self, letters: tuple[tuple[str, str], ...]) -> Context:
        """Where an argument is read: what the script binds for it may stand there twice, and is free outside."""
        own, left = [self.own[x] for x, _ in letters], self.context.left
        return self.context if left is None else replace(self.context.holding(*own), left=left.union(own))

    def _restricted(self, letters: tuple[tuple[str, str], ...], value: Value, node: s.Expression) -> Value:
        """An argument with a line: the line must be there, and over time its domain must be said. Raises
        WrongArguments, Silent or NoDomain."""
        line = [self.own[x] for x, _ in letters if x in self.own]
        if not line:
            return value
        trailing = self.context.restricted(line)
        said = value.stated | self.said | free_indices(both(value.domain, self.restriction, trailing))
        for index in line:
            if index not in value.free and index not in free_indices(value.term):
                raise WrongArguments(f"the argument of `{self.function.name}` does not depend on `{index}`", node.span,
                                     helps=(Help("the index in the function's script stands in its argument"),))
            if not index.set.summed and index not in said:
                if any(c in self.context.scope.lost for c in node.span.text):
                    raise Silent("told with its mask")
                raise NoDomain(f"`{self.function.name}` runs over `{index}`, and nothing says over which part of "
                               f"{index.set}",
                               node.span,
                               helps=(Help(f"write `{self.function.name}_{{{index} ≤ …}}(…)`, a `mask`, or `mask … : "
                                           f"all`"),))
        refuse_indicator(value.term, frozenset(line), node.span, "in the function's script")
        return replace(value, domain=both(value.domain, self.restriction, trailing), stated=said,
                       whole_lines=value.whole_lines | self.whole)

    def _letters(self, values: list[Value]) -> dict[str, Index]:
        """The definition's letters, and for its primed ones indices that nothing at the call has."""
        taken = frozenset(i.name for v in values for i in (*free_indices(v.term), *free_indices(v.domain)))
        letters = dict(self.own)
        for letter, index in self.own.items():
            last = index
            for marks in ("'", "''", "'''"):
                last = Index(primed(f"{last.name}'", taken | {i.name for i in letters.values()}), last.set)
                letters[letter + marks] = last
        return letters

    def _body(self, letters: dict[str, Index], params: tuple[Parameter, ...]) -> Value:
        """Returns the value of the definition's body with its parameters bound, after those that have values of their
        own and what stands in its `with`. Raises WrongArguments.
        """
        context, function = self.context, self.function
        own = frozenset(letters[x] for x in {y for p in function.params for y, _ in p.letters})
        around = context.inside
        inside = Inside(params, letters, (*around.calling, function.name), around.site or self.span)
        inner = replace(context, left=own, held=frozenset(), restrictions=(), inside=inside,
                        owner=f"{context.owner}_{function.name}")
        for parameter, node in zip(function.params, self.nodes, strict=True):
            if node is None and parameter.default is not None:
                inner = _knowing(inner, parameter.name, parameter.default)
        for relation in function.withs:
            target, body = relation.operands[0], relation.operands[1]
            found = head(target)
            if found is None or found[1]:
                raise WrongArguments(f"`{target.span.text}` is no plain name", target.span,
                                     helps=(Help("what `with` defines in a definition has no scripts"),))
            inner = _knowing(inner, found[0], body)
        return inner.value(function.body)

    def _passed_through(self, result: Value, values: list[Value], params: list[Parameter]) -> Value:
        """The result with the indices that pass through, each once, and the lines it was normalised over."""
        levels = gather(values)
        free = {}
        present = free_indices(result.term) | free_indices(result.domain)
        if self.context.inside.letters is not None:
            # In a definition only its own letters are subject to the rules; what passes through is the caller's.
            present &= frozenset(self.context.inside.letters.values())
        for index in sorted(present, key=lambda i: i.name):
            found = levels.get(index)
            free[index] = found[:1] if found else (Occurrence("label", self.span),)
        lines = dict(result.lines)
        for parameter in params:
            for index, _ in parameter.slots:
                if index in self.own.values() and index in free:
                    lines[index] = parameter.value.domain
        stated = frozenset().union(*(v.stated for v in values)) | result.stated
        whole = frozenset().union(*(v.whole_lines for v in values)) | result.whole_lines
        return replace(result, free=free, lines=lines, stated=stated, bound=frozenset(), summed=frozenset(),
                       whole_lines=whole)


def _knowing(context: Context, name: Name, body: s.Expression) -> Context:
    """The context in which a name without indices stands for an expression, which is computed once."""
    value = context.let(name.python, context.value(body), body.span.text)
    return context.knowing(name, (), value)
