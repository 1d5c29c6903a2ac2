"""Which argument is which: the parameters of a function and the values of a call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from einc.documents.python_source.values import CannotSayError, Plain, Several, Value

ALIASES = {"axis": "dim", "keepdims": "keepdim", "dim": "axis"}  # one argument, two names in the libraries


def bound(arguments: ast.arguments, positional: Sequence[Value], named: Mapping[str, Value],
          default: Callable[[ast.expr], Value], library: bool) -> dict[str, Value]:
    """The parameters with their values. CannotSayError where the call does not fit."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    only = [a.arg for a in arguments.kwonlyargs]
    out: dict[str, Value] = dict(zip(names, positional, strict=False))
    if len(positional) > len(names):
        if arguments.vararg is None:
            raise CannotSayError(f"there are {len(positional)} arguments for {len(names)}")
        out[arguments.vararg.arg] = Several(tuple(positional[len(names):]))
    elif arguments.vararg is not None:
        out[arguments.vararg.arg] = Several(())
    rest: dict[str, Value] = {}
    for name, value in named.items():
        known = name if name in (*names, *only) or not library else ALIASES.get(name, name)
        if known in out:
            raise CannotSayError(f"`{name}` is given twice")
        if known not in (*names, *only) and arguments.vararg is not None and library and name in {"size", "shape"}:
            known = arguments.vararg.arg
        if known in (*names, *only) or (arguments.vararg is not None and known == arguments.vararg.arg):
            out[known] = value
        elif arguments.kwarg is not None:
            rest[name] = value
        else:
            raise CannotSayError(f"the argument `{name}` is not read here")
    if arguments.kwarg is not None:
        out[arguments.kwarg.arg] = Several(tuple(Several((Plain(k), v)) for k, v in rest.items()))
    places = zip(names[::-1], arguments.defaults[::-1], strict=False)
    keyed = ((a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None)
    for name, expression in (*places, *keyed):
        if name not in out:
            out[name] = default(expression)
    missing = [name for name in (*names, *only) if name not in out]
    if missing:
        raise CannotSayError(f"the argument `{missing[0]}` is missing")
    return out
