"""Applications: primitives, and definitions expanded by binding each argument to an equation, never by copying it."""

from __future__ import annotations

from dataclasses import replace

from einc import syntax as s
from einc.checking.names import Name, head
from einc.checking.predicates import binder
from einc.checking.scope import CALLABLE, Function
from einc.checking.tensors import left_out
from einc.checking.values import Context, Occurrence, Parameter, Value, gather, merged, once
from einc.errors import Help, Problem, Span
from einc.indices import Index, primed
from einc.problems import Circular, IndicatorFactor, NoDomain, WrongArguments
from einc.primitives import PRIMITIVES
from einc.terms import TRUE, Apply, Fold, Term, Where, both, free_indices, walk


def is_function(context: Context, name: Name) -> bool:
    return not name.accents and not name.primes and (name.python in context.scope.functions or name.python in CALLABLE)


def call(context: Context, name: Name, scripts: tuple[s.Script, ...], group: s.Group, span: Span) -> Value:
    """The value of an application."""
    if name.python in CALLABLE and name.python not in context.scope.functions:
        return _primitive(context, name.python, group, span)
    function = context.scope.functions[name.python]
    if function.name in context.calling:
        raise Circular(f"`{function.name}` is defined by itself", span)
    if len(group.items) != len(function.params):
        raise WrongArguments(f"`{function.name}` takes {len(function.params)} argument{'s' * (len(function.params) != 1)}, not {len(group.items)}",
                             span, helps=(Help(f"it is defined as `{function.span.text}`"),))
    if scripts and not function.own:
        raise WrongArguments(f"`{function.name}` has no index of its own", scripts[0].span)
    return _expanded(context, function, scripts, group, span)


def _primitive(context: Context, name: str, group: s.Group, span: Span) -> Value:
    row = PRIMITIVES[name]
    count = len(group.items)
    if (row.arity and count != row.arity) or (not row.arity and count < 2):
        wanted = str(row.arity) if row.arity else "two or more"
        raise WrongArguments(f"`{name}` takes {wanted} argument{'s' * (wanted != '1')}, not {count}", span)
    values = [once(context.value(item)) for item in group.items]
    domain = both(*(v.domain for v in values))
    made = once(merged(values, Apply(name, tuple(v.term for v in values)), domain))
    integer = name in ("floor", "ceil") or (row.exact and all(v.integer for v in values))
    return replace(made, integer=integer)


def _expanded(context: Context, function: Function, scripts: tuple[s.Script, ...], group: s.Group, span: Span) -> Value:
    own, restriction = _own(context, function, scripts, span)
    values: list[Value] = []
    for parameter, node in zip(function.params, group.items, strict=True):
        value, own = _argument(context, function, parameter.letters, node, own)
        values.append(value)
    letters = _letters(own, values)
    params: list[Parameter] = []
    for parameter, value, node in zip(function.params, values, group.items, strict=True):
        slots = tuple((letters[x], level) for x, level in parameter.letters)
        if slots:
            _along(context, function, slots, value, restriction, node)
            value = replace(value, domain=both(value.domain, restriction, context.restricted(i for i, _ in slots)))
            value = replace(value, stated=value.stated | free_indices(value.domain))
        named = context.let(parameter.name.python, value, node.span.text)
        params.append(Parameter(parameter.name, slots, replace(named, free={})))
    result = _body(context, function, letters, tuple(params), span)
    return _passed_through(result, values, own, params, span)


def _own(context: Context, function: Function, scripts: tuple[s.Script, ...], span: Span) -> tuple[dict[str, Index], Term]:
    """The indices that the call's script gives to the definition's letters, and their domain."""
    if not scripts:
        return {}, TRUE
    bound, domain, _ = binder(context, scripts, span, own=True)
    if len(function.own) != len(bound):
        raise WrongArguments(f"`{function.name}` runs over {len(function.own)} index, its script names {len(bound)}", scripts[0].span)
    return dict(zip(function.own, bound, strict=True)), domain


def _argument(context: Context, function: Function, letters: tuple[tuple[str, str], ...], node: s.Expression,
              own: dict[str, Index]) -> tuple[Value, dict[str, Index]]:
    """The argument's value; where the call has no script, its one upper index is the definition's own."""
    missing = [x for x, _ in letters if x not in own]
    if not missing:
        return once(context.value(node)), own
    try:
        value = once(context.value(node))
    except Problem:
        found = left_out(context, node)
        if found is None or len(missing) != 1:
            raise
        return once(found[0]), {**own, missing[0]: found[1]}
    upper = [i for i, o in value.free.items() if o[0].level == "upper"]
    if len(missing) == 1 and len(upper) == 1:
        return value, {**own, missing[0]: upper[0]}
    if len(missing) == 1 and not upper and (found := left_out(context, node)) is not None:
        return once(found[0]), {**own, missing[0]: found[1]}
    what = "has no upper index" if not upper else f"has {len(upper)} upper indices"
    raise WrongArguments(f"`{function.name}` needs to know its index: the argument {what}", node.span,
                         helps=(Help(f"write it: `{function.name}_{{…}}(…)`"),))


def _letters(own: dict[str, Index], values: list[Value]) -> dict[str, Index]:
    """The definition's letters, and fresh indices for its primed ones."""
    taken = frozenset(i.name for v in values for i in [*free_indices(v.term), *free_indices(v.domain)])
    letters = dict(own)
    for letter, index in own.items():
        last = index
        for marks in ("'", "''", "'''"):
            last = primed(last, taken | frozenset(i.name for i in letters.values()))
            letters[letter + marks] = last
    return letters


def _along(context: Context, function: Function, slots: tuple[tuple[Index, str], ...], value: Value, restriction: Term, node: s.Expression) -> None:
    """The line that a definition runs over must be there, and over time its domain must be said."""
    for index, _ in slots:
        if index not in value.free and index not in free_indices(value.term):
            raise WrongArguments(f"the argument of `{function.name}` does not depend on `{index}`", node.span)
        said = value.stated | free_indices(value.domain) | free_indices(restriction) | free_indices(context.restricted([index]))
        if not index.set.summed and index not in said:
            raise NoDomain(f"`{function.name}` runs over `{index}`, and nothing says over which part of {index.set}", node.span,
                           helps=(Help(f"write `{function.name}_{{{index} ≤ …}}(…)`, a `mask`, or `mask … : all`"),))
    for inside in walk(value.term):
        if isinstance(inside, Where) and free_indices(inside.condition) & {i for i, _ in slots}:
            raise IndicatorFactor("an indicator is a number here, so the places where it is 0 still take part", node.span,
                                  helps=(Help("write the restriction as a mask, or in the function's script"),))
        if isinstance(inside, Fold):
            break


def _body(context: Context, function: Function, letters: dict[str, Index], params: tuple[Parameter, ...], span: Span) -> Value:
    own = frozenset(letters[x] for x in {y for p in function.params for y, _ in p.letters})
    inner = replace(context, left=own, held=frozenset(), restrictions=(), params=params, letters=letters,
                    owner=f"{context.owner}_{function.name}", calling=(*context.calling, function.name))
    for relation in function.withs:
        target, body = relation.operands[0], relation.operands[1]
        found = head(target)
        if found is None or found[1]:
            raise WrongArguments(f"`{target.span.text}` is no plain name", target.span)
        value = inner.let(found[0].python, inner.value(body), body.span.text)
        inner = replace(inner, params=(*inner.params, Parameter(found[0], (), replace(value, free={}))))
    return inner.value(function.body)


def _passed_through(result: Value, values: list[Value], own: dict[str, Index], params: list[Parameter], span: Span) -> Value:
    """The result with the indices that pass through, each once, and the lines it was normalised over."""
    levels = {i: o for i, o in gather(values).items()}
    free = {}
    for index in sorted(free_indices(result.term) | free_indices(result.domain), key=lambda i: i.name):
        found = levels.get(index)
        free[index] = found[:1] if found else (Occurrence("label", span),)
    lines = dict(result.lines)
    for parameter in params:
        for index, _ in parameter.slots:
            if index in own.values() and index in free:
                lines[index] = parameter.value.domain
    stated = frozenset().union(*(v.stated for v in values)) | result.stated
    return replace(result, free=free, lines=lines, stated=stated, bound=frozenset())
