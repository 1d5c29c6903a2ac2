"""A program as plain Python: a product that is summed over letters is a line of einsum, the rest lines of torch.

What no such line says, a shifted position, a gather, rounds, is a comment, and the caller is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from string import ascii_letters

from einc.ir.folds import FOLDS
from einc.ir.indices import Atom, Extent, Index, number
from einc.ir.programs import Equation, Program, Tensor
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Pack,
    Position,
    Read,
    Size,
    Term,
    Where,
    conjuncts,
    free_indices,
    walk,
)
from einc.syntax.printing.show import equation_text

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "le": "<=", "lt": "<", "eq": "==", "ne": "!=", "mod": "%",
         "and": "&", "or": "|"}
JOINED = {"max": "maximum", "min": "minimum"}
FOLDED = {"max": "amax", "min": "amin", "prod": "prod", "sum": "sum", "logaddexp": "logsumexp"}
SAME = {"nonpositive", "exact"}


class UnsaidError(Exception):
    """A term that no line of einsum or torch says."""


@dataclass(frozen=True)
class Code:
    """An expression of Python, and the letters of its axes in their order."""

    text: str
    letters: tuple[Index, ...] = ()
    simple: bool = True  # whether it needs no parentheses beside a sign

    @property
    def inner(self) -> str:
        """The text as a part of another."""
        return self.text if self.simple else f"({self.text})"


@dataclass
class Lines:
    """The lines of a function, and how many equations they leave out."""

    texts: list[str] = field(default_factory=list)
    unsaid: int = 0


def lines(program: Program) -> Lines:
    """The function that a program is, as text that `einc from` reads."""
    out = Lines()
    given = [t for t in program.tensors.values() if t.role in {"input", "weight"}]
    fixed = {name: f"{t.key}.shape[{at}]" for t in reversed(given) for at, slot in reversed(list(enumerate(t.slots)))
             for name in slot.set.extent.sizes if slot.set.extent.sizes == {name} and str(slot.set.extent) == name}
    names = [t.key for t in given] + sorted(_sizes(program) - fixed.keys() - program.sizes.keys())
    out.texts += ["import math", "", "import torch", "from torch import einsum", "", "",
                  f"def {_function(program.name)}({', '.join(names)}):"]
    out.texts += [f"    # {t.key}: ({', '.join(python(s.set.extent) for s in t.slots)})" for t in given if t.slots]
    out.texts += [f"    {name} = {value}" for name, value in program.sizes.items()]
    out.texts += [f"    {name} = {value}" for name, value in fixed.items() if name not in program.sizes]
    if program.loops:
        out.texts.append("    # Not said: rounds")
        out.unsaid += 1
        return out
    for equation in program.equations:
        try:
            out.texts.append(f"    {equation.target} = {_equation(program, equation)}")
        except UnsaidError as error:
            said = " ".join(equation_text(program, equation).split())
            out.texts.append(f"    # Not said, {error}: {said}")
            out.unsaid += 1
    out.texts.append(f"    return {', '.join(key for _, key in program.outputs)}")
    return out


def _function(name: str) -> str:
    word = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return word if word.isidentifier() else f"spec_{word}"


def _sizes(program: Program) -> set[str]:
    """Every size that the axes or the letters of a program have."""
    return {name for t in program.tensors.values() for slot in t.slots for name in slot.set.extent.sizes}


def _atom(atom: Atom) -> str:
    """A size, or a quotient that is rounded, as an expression of Python."""
    if isinstance(atom, str):
        return atom
    above, below = atom.fraction
    return f"({python(above + below - number(1) if atom.up else above)}) // ({python(below)})"


def python(extent: Extent) -> str:
    """An extent as an expression of Python."""
    parts = []
    for powers, coefficient in reversed(extent.terms):
        above = [_atom(n) for n, p in powers for _ in range(p)]
        below = [_atom(n) for n, p in powers for _ in range(-p)]
        number = coefficient.numerator
        text = " * ".join([str(number), *above] if number != 1 or not above else above)
        below += [str(coefficient.denominator)] if coefficient.denominator != 1 else []
        parts.append(text + "".join(f" // {b}" for b in below))
    return " + ".join(parts) or "0"


def _equation(program: Program, equation: Equation) -> str:
    """The right side of an assignment: the axes of the target in their order."""
    if any(not isinstance(x, Position | Pack) for x in equation.axes) or len(set(equation.indices)) < len(
            equation.indices):
        raise UnsaidError("a left side of another kind")
    code = whole(expression(program, equation.body), equation.indices)
    if all(isinstance(axis, Position) for axis in equation.axes):
        return code.text
    sizes = ", ".join(python(slot.set.extent) for slot in program.tensors[equation.target].slots)
    return f"{code.inner}.reshape({sizes})"


def whole(code: Code, order: Sequence[Index]) -> Code:
    """The array with exactly these axes. UnsaidError where it lacks one."""
    if set(code.letters) != set(order):
        raise UnsaidError("a value that does not have all letters of the left side")
    return code if code.letters == tuple(order) else _einsum([code], order)


def expression(program: Program, term: Term) -> Code:
    """A term as an array over its letters."""
    match term:
        case Const(value):
            return _number(value)
        case Size(extent):
            text = python(extent)
            return Code(text, simple=text.isidentifier() or text.isdigit())
        case Position(index):
            stop = python(index.set.extent)
            start = index.set.start
            return Code(f"torch.arange({start}, {stop} + {start}, dtype={_dtype(program)})", (index,))
        case Read(name, subs):
            return _read(program.tensors[name], subs)
        case Where(condition, then):
            return _where(expression(program, condition), expression(program, then), "0.0")
        case Fold():
            return _fold(program, term)
        case Apply("neg", (inner,)):
            code = expression(program, inner)
            return Code(f"-{code.inner}", code.letters, False)
        case Apply("not", (inner,)):
            code = expression(program, inner)
            return Code(f"~{code.inner}", code.letters, False)
        case Apply(op, args):
            return _applied(op, [expression(program, a) for a in args])
    raise UnsaidError("an element of a direct sum or of a composite as a number")


def _number(value: Fraction | float) -> Code:
    if isinstance(value, float) and math.isinf(value):
        return Code("math.inf" if value > 0 else "-math.inf", simple=value > 0)
    if isinstance(value, Fraction) and value.denominator != 1:
        return Code(repr(float(value))) if Fraction(float(value)) == value and value >= 0 else Code(
            f"{value.numerator} / {value.denominator}", simple=False)
    return Code(str(value), simple=value >= 0)


def _read(tensor: Tensor, subs: Sequence[Term]) -> Code:
    """A tensor with its axes: a composite is taken apart, a letter that stands twice is the diagonal."""
    if not subs:
        return Code(tensor.key)
    if any(slot.set.by for slot in tensor.slots):
        raise UnsaidError("requests of different lengths")
    text, letters = tensor.key, list[Index]()
    for at, sub in reversed(list(enumerate(subs))):
        parts = sub.parts if isinstance(sub, Pack) else (sub,)
        sets = sub.sets if isinstance(sub, Pack) else ()
        if any(not isinstance(p, Position | Const) for p in parts):
            raise UnsaidError("a position that is computed")
        if sets:
            text = f"{text}.unflatten({at}, ({', '.join(python(s.extent) for s in sets)}))"
        starts = [s.start for s in sets] or [tensor.slots[at].set.start]
        for n, part in reversed(list(enumerate(parts))):
            if isinstance(part, Const):
                text += f"[{':, ' * (at + n)}{int(part.value) - starts[n]}]"
        letters = [p.index for p in parts if isinstance(p, Position)] + letters
    code = Code(text, tuple(letters))
    return code if len(set(letters)) == len(letters) else _einsum([code], tuple(dict.fromkeys(letters)))


def _einsum(operands: Sequence[Code], out: Sequence[Index]) -> Code:
    """A line of einsum: one letter for each index."""
    every = list(dict.fromkeys(x for code in operands for x in code.letters))
    names: dict[Index, str] = {}
    for index in every:
        wanted = index.name.rstrip("'")
        free = [x for x in (wanted, *ascii_letters) if x not in names.values() and len(x) == 1 and x in ascii_letters]
        if not free:
            raise UnsaidError("more letters than a string has")
        names[index] = free[0]
    left = ",".join("".join(names[x] for x in code.letters) for code in operands)
    right = "".join(names[x] for x in out)
    return Code(f'einsum("{left}->{right}", {", ".join(code.text for code in operands)})', tuple(out))


def _spread(code: Code, order: Sequence[Index]) -> Code:
    """The array with an axis of one element where it lacks a letter of `order`, so that it meets others."""
    mine = tuple(x for x in order if x in code.letters)
    code = code if mine == code.letters else _einsum([code], mine)
    lacking = [x in mine for x in order]
    if not mine or all(lacking[lacking.index(True):]):
        return code
    return Code(f"{code.inner}[{', '.join(':' if has else 'None' for has in lacking[lacking.index(True):])}]",
                code.letters)


def _order(codes: Sequence[Code]) -> tuple[Index, ...]:
    longest = max(codes, key=lambda code: len(code.letters))
    return tuple(dict.fromkeys([*longest.letters, *(x for code in codes for x in code.letters)]))


def _applied(op: str, args: Sequence[Code]) -> Code:
    """A function or a sign, element by element."""
    if op in SAME:
        return args[0]
    order = _order(args)
    if op in {"pow", "power"} or op in SIGNS:
        sign = SIGNS.get(op, "**")
        parts = [_spread(code, order).inner for code in args]
        return Code(f" {sign} ".join(parts), order, False)
    if op in JOINED:
        found = args[0]
        for code in args[1:]:
            a, b = (_tensor(_spread(x, order)) for x in (found, code))
            found = Code(f"torch.{JOINED[op]}({a}, {b})", _order([found, code]))
        return found
    name = "math" if not order and op in {"sqrt", "exp", "log"} else "torch"
    if op in {"hash", "chance", "pick"}:
        raise UnsaidError(f"`{op}`")
    return Code(f"{name}.{op}({', '.join(_spread(code, order).text for code in args)})", order)


def _tensor(code: Code) -> str:
    return code.text if code.letters else f"torch.tensor({code.text})"


def _where(condition: Code, then: Code, other: str) -> Code:
    order = _order([then, condition])
    return Code(f"torch.where({_spread(condition, order).text}, {_spread(then, order).text}, {other})", order)


def factors(term: Term) -> tuple[list[Term], list[Term]]:
    """A product as what stands above and below its fraction line; a divisor with letters stays with what it divides."""
    match term:
        case Apply("mul", args):
            pairs = [factors(a) for a in args]
            return [x for above, _ in pairs for x in above], [x for _, below in pairs for x in below]
        case Apply("div", (a, b)) if not free_indices(b):
            above, below = factors(a)
            return above, [*below, b]
    return [term], []


def _fold(program: Program, term: Fold) -> Code:
    """A sum of a product is a line of einsum; any other fold is one over the last axes."""
    condition = None if term.domain == TRUE else expression(program, term.domain)
    if term.op == "sum":
        return _summed(program, term, condition)
    if term.op not in FOLDED:
        raise UnsaidError(f"`{term.op}`")
    body = expression(program, term.body)
    if condition is not None:
        body = _where(condition, body, _neutral(term.op))
    rest = tuple(x for x in body.letters if x not in term.bound)
    body = body if body.letters == (*rest, *term.bound) else whole(body, (*rest, *term.bound))
    if term.op == "prod" and len(term.bound) > 1:
        raise UnsaidError("a product over several letters")
    dims = ", ".join(str(-n) for n in range(len(term.bound), 0, -1))
    return Code(f"{body.inner}.{FOLDED[term.op]}({dims if len(term.bound) == 1 else f'({dims})'})", rest)


def _dtype(program: Program) -> str:
    """The element type that everything computed has, as that of a product's operands must be one: an input's."""
    real = (t.key for t in program.tensors.values() if t.role in {"input", "weight"} and not t.integer)
    return f"{key}.dtype" if (key := next(real, "")) else "torch.float64"


def _neutral(op: str) -> str:
    start = FOLDS[op].start
    return {math.inf: "math.inf", -math.inf: "-math.inf"}.get(start, str(start))


def _summed(program: Program, term: Fold, condition: Code | None) -> Code:
    """`Σ` of a product: numbers stand before the line, a domain cuts the first operand that it speaks of."""
    above, below = factors(term.body)
    plain = [expression(program, x) for x in above if not free_indices(x)]
    operands = [expression(program, x) for x in above if free_indices(x)]
    if condition is not None:
        at = next((n for n, code in enumerate(operands) if set(condition.letters) <= set(code.letters)
                   and not isinstance(above[n], Read)), None)
        at = at if at is not None else next((n for n, code in enumerate(operands)
                                             if set(condition.letters) <= set(code.letters)), None)
        if at is None:
            ones = _where(condition, Code("1.0"), "0.0")
            operands.insert(0, Code(f"{ones.text}.to({_dtype(program)})", ones.letters))
        else:
            operands[at] = _where(condition, operands[at], "0.0")
    present = {x for code in operands for x in code.letters}
    lacking = [x for x in term.bound if x not in present]
    out = [x for x in dict.fromkeys(x for code in operands for x in code.letters) if x not in term.bound]
    found = _einsum(operands, out) if operands else Code("1")
    text = " * ".join([*(c.inner for c in plain), *(f"({python(x.set.extent)})" for x in lacking), found.text])
    text += "".join(f" / {expression(program, x).inner}" for x in below)
    return Code(text, found.letters, text == found.text)


def partial(program: Program) -> bool:
    """Whether a fold may have a domain without a point, other than that one position is at most another."""
    def first(condition: Term) -> bool:
        match condition:
            case Apply("le", (Position(), Position())):
                return True
            case _:
                return condition == TRUE
    return any(isinstance(part, Fold) and not all(map(first, conjuncts(part.domain)))
               for e in program.equations for part in walk(e.body))
