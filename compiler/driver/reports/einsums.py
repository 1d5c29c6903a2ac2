"""A program as plain Python: a product that is summed over letters is a line of einsum, the rest lines of torch.

What no such line says, a place that data gives, rounds, is a comment, and the caller is told. What no input has a part
in is computed in float64 and takes the type of the data where it meets that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from string import ascii_letters

from einc.ir.folds import FOLDS
from einc.ir.indices import Atom, Extent, Index, number
from einc.ir.narrow import NARROW
from einc.ir.primitives import SAID
from einc.ir.programs import Equation, Program, Tensor
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Where,
    conjuncts,
    const,
    free_indices,
    walk,
)

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "le": "<=", "lt": "<", "eq": "==", "ne": "!=", "mod": "%",
         "and": "&", "or": "|"}
JOINED = {"max": "maximum", "min": "minimum"}
FOLDED = {"max": "amax", "min": "amin", "prod": "prod", "sum": "sum", "logaddexp": "logsumexp"}
SAME = {*SAID, "exact"}
UNSAID = {"hash", "chance", "pick", *NARROW}


class UnsaidError(Exception):
    """A term that no line of einsum or torch says."""


@dataclass(frozen=True)
class Code:
    """An expression of Python, and the letters of its axes in their order."""

    text: str
    letters: tuple[Index, ...] = ()
    simple: bool = True  # whether it needs no parentheses beside a sign
    of: str = "number"  # what its type is: that of the data, that of what is fixed, either, or any, as a number's

    @property
    def inner(self) -> str:
        """The text as a part of another."""
        return self.text if self.simple else f"({self.text})"


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


def bytes_of(program: Program) -> str | None:
    """Why no line of torch reads a tensor of which several numbers lie in a byte; None where there is none."""
    found = next((t.text for t in program.tensors.values() if t.element.shared), None)
    said = f"several numbers of `{found}` lie in each byte, and lines of torch would read the bytes"
    return said if found is not None else None


def _fixed(program: Program, key: str) -> bool:
    """Whether a tensor is made of sizes and numbers alone, so that no input changes it."""
    equation = program.equation(key)
    return equation is not None and all(_fixed(program, other) for other in equation.reads)


def kind(program: Program, key: str) -> str:
    """What the type of a tensor is; a fixed one without axes may be a number of Python."""
    equation = program.equation(key)
    if equation is None or not _fixed(program, key):
        return "data"
    return "fixed" if equation.axes else expression(program, equation.body).of


def cast(program: Program, code: Code) -> Code:
    """The array in the type of the data; what is fixed keeps its own, so that no digit is lost before it is used."""
    data = next((t.key for t in program.inputs() if not t.integer), None)
    return code if code.of != "mixed" or data is None else replace(code, text=f"{code.inner}.to({data}.dtype)",
                                                                   simple=True, of="data")


def joined(codes: Iterable[Code]) -> str:
    """What the type is of several arrays together."""
    kinds = {code.of for code in codes} - {"number"}
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "number"


def right_side(program: Program, equation: Equation) -> str:
    """The right side of an assignment: the axes of the target in their order. Raises UnsaidError."""
    if any(not isinstance(x, Position | Pack) for x in equation.axes) or len(set(equation.indices)) < len(
            equation.indices):
        raise UnsaidError("a left side of another kind")
    code = cast(program, whole(expression(program, equation.body), equation.indices))
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
    """A term as an array over its letters. Raises UnsaidError."""
    match term:
        case Const(value):
            return _number(value)
        case Size(extent):
            text = python(extent)
            return Code(text, simple=text.isidentifier() or text.isdigit())
        case Position(index):
            stop = python(index.set.extent)
            start = index.set.start
            return Code(f"torch.arange({start}, {stop} + {start}, dtype=torch.float64)", (index,), of="fixed")
        case Read(name, subs):
            return replace(_read(program, program.tensors[name], subs), of=kind(program, name))
        case Where(condition, then):
            return where(expression(program, condition), expression(program, then), "0.0")
        case Fold():
            return _fold(program, term)
        case Join(index, parts):
            return _beside(index, [(i, expression(program, part)) for i, part in parts])
        case Apply("neg", (inner,)):
            code = expression(program, inner)
            return replace(code, text=f"-{code.inner}", simple=False)
        case Apply("not", (inner,)):
            code = expression(program, inner)
            return replace(code, text=f"~{code.inner}", simple=False)
        case Apply(op, args):
            return _applied(op, [expression(program, a) for a in args])
    raise UnsaidError("an element of a direct sum or of a composite as a number")


def _beside(index: Index, parts: Sequence[tuple[Index, Code]]) -> Code:
    """The values of a direct sum, one after another along its index."""
    rest = tuple(dict.fromkeys(x for i, code in parts for x in code.letters if x != i))
    texts = [f"{_tensor(spread(code, (*rest, i)))}.expand({', '.join(python(x.set.extent) for x in (*rest, i))})"
             for i, code in parts]
    return Code(f"torch.cat([{', '.join(texts)}], -1)", (*rest, index), of=joined(code for _, code in parts))


def _number(value: Fraction | float) -> Code:
    if isinstance(value, float) and math.isinf(value):
        return Code("math.inf" if value > 0 else "-math.inf", simple=value > 0)
    if isinstance(value, Fraction) and value.denominator != 1:
        return Code(repr(float(value))) if Fraction(float(value)) == value and value >= 0 else Code(
            f"{value.numerator} / {value.denominator}", simple=False)
    return Code(str(value), simple=value >= 0)


def _element(sub: Term) -> Term:
    """A subscript as arithmetic: an element of a composite, or of a direct sum, is a number."""
    match sub:
        case Pack(parts, sets, into):
            found: Term = const(0)
            for part, of in zip(parts, sets, strict=True):
                at = Apply("sub", (_element(part), const(of.start)))
                found = at if found == const(0) else Apply("add", (Apply("mul", (found, Size(of.extent))), at))
            return Apply("add", (found, const(into.start)))
        case Part(item, of, before, into):
            return Apply("add", (_element(item), Size(before + number(into.start - of.start))))
    return sub


def _gathered(program: Program, tensor: Tensor, subs: Sequence[Term]) -> Code:
    """A tensor at places that are computed of positions: an array of whole numbers for each axis. What a condition
    around it hides may lie outside, and is read at the nearest place there is. Raises UnsaidError.
    """
    subs = [_element(sub) for sub in subs]
    if any(isinstance(part, Read | Fold | Join) for sub in subs for part in walk(sub)):
        raise UnsaidError("a place that data gives")
    places = [expression(program, sub) for sub in subs]
    order = tuple(dict.fromkeys(x for code in places for x in code.letters))
    at = []
    for n, (sub, code) in enumerate(zip(subs, places, strict=True)):
        start, text = tensor.slots[n].set.start, spread(code, order).inner
        whole = f"({text} - {start}).long()" if start else f"{text}.long()"
        inside = f"{whole}.clamp(0, {tensor.key}.shape[{n}] - 1)"
        at.append(str(int(sub.value) - start) if isinstance(sub, Const) else
                  whole if isinstance(sub, Position) else inside)
    return Code(f"{tensor.key}[{', '.join(at)}]", order)


def _read(program: Program, tensor: Tensor, subs: Sequence[Term]) -> Code:
    """A tensor with its axes: a composite is taken apart, a letter that stands twice is the diagonal. Raises
    UnsaidError."""
    if not subs:
        return Code(tensor.key)
    if any(slot.set.by for slot in tensor.slots):
        raise UnsaidError("requests of different lengths")
    inside = (part for sub in subs for part in (sub.parts if isinstance(sub, Pack) else (sub,)))
    if not all(isinstance(part, Position | Const) for part in inside):
        return _gathered(program, tensor, subs)
    text, letters = tensor.key, list[Index]()
    for at, sub in reversed(list(enumerate(subs))):
        parts = sub.parts if isinstance(sub, Pack) else (sub,)
        sets = sub.sets if isinstance(sub, Pack) else ()
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
    """A line of einsum: one letter for each index. Raises UnsaidError."""
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
    return Code(f'einsum("{left}->{right}", {", ".join(code.text for code in operands)})', tuple(out),
                of=joined(operands))


def spread(code: Code, order: Sequence[Index]) -> Code:
    """The array with an axis of one element where it lacks a letter of `order`, so that it meets others."""
    mine = tuple(x for x in order if x in code.letters)
    code = code if mine == code.letters else _einsum([code], mine)
    lacking = [x in mine for x in order]
    if not mine or all(lacking[lacking.index(True):]):
        return code
    return Code(f"{code.inner}[{', '.join(':' if has else 'None' for has in lacking[lacking.index(True):])}]",
                code.letters, of=code.of)


def _order(codes: Sequence[Code]) -> tuple[Index, ...]:
    longest = max(codes, key=lambda code: len(code.letters))
    return tuple(dict.fromkeys([*longest.letters, *(x for code in codes for x in code.letters)]))


def _applied(op: str, args: Sequence[Code]) -> Code:
    """A function or a sign, element by element. Raises UnsaidError."""
    if op in SAME:
        return args[0]
    order, of = _order(args), joined(args)
    if op in UNSAID:
        raise UnsaidError(f"`{op}`")
    if op in {"pow", "power"} or op in SIGNS:
        sign = SIGNS.get(op, "**")
        parts = [spread(code, order).inner for code in args]
        return Code(f" {sign} ".join(parts), order, False, of)
    if op in JOINED:
        found = args[0]
        for code in args[1:]:
            a, b = (_tensor(spread(x, order)) for x in (found, code))
            found = Code(f"torch.{JOINED[op]}({a}, {b})", _order([found, code]), of=joined([found, code]))
        return found
    if len(args) > 1:
        return Code(f"torch.{op}({', '.join(_tensor(spread(code, order)) for code in args)})", order, of=of)
    name = "math" if of == "number" and hasattr(math, op) else "torch"
    return Code(f"{name}.{op}({', '.join(spread(code, order).text for code in args)})", order, of=of)


def _tensor(code: Code) -> str:
    return code.text if code.letters else f"torch.tensor({code.text})"


def where(condition: Code, then: Code, other: str) -> Code:
    """The value where the condition holds, and `other` elsewhere."""
    order = _order([then, condition])
    return Code(f"torch.where({spread(condition, order).text}, {spread(then, order).text}, {other})", order,
                of="fixed" if then.of == "number" else then.of)


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
    """A sum of a product is a line of einsum; any other fold is one over the last axes. Raises UnsaidError."""
    condition = None if term.domain == TRUE else expression(program, term.domain)
    if term.op == "sum":
        return _summed(program, term, condition)
    if term.op not in FOLDED:
        raise UnsaidError(f"`{term.op}`")
    body = expression(program, term.body)
    if condition is not None:
        body = where(condition, body, _neutral(term.op))
    rest = tuple(x for x in body.letters if x not in term.bound)
    body = body if body.letters == (*rest, *term.bound) else whole(body, (*rest, *term.bound))
    if term.op == "prod" and len(term.bound) > 1:
        raise UnsaidError("a product over several letters")
    dims = ", ".join(str(-n) for n in range(len(term.bound), 0, -1))
    return Code(f"{body.inner}.{FOLDED[term.op]}({dims if len(term.bound) == 1 else f'({dims})'})", rest,
                of=body.of)


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
            operands.insert(0, where(condition, Code("1.0"), "0.0"))
        else:
            operands[at] = where(condition, operands[at], "0.0")
    present = {x for code in operands for x in code.letters}
    lacking = [x for x in term.bound if x not in present]
    out = [x for x in dict.fromkeys(x for code in operands for x in code.letters) if x not in term.bound]
    if joined(operands) == "mixed":
        operands = [code if code.of == "data" else cast(program, replace(code, of="mixed")) for code in operands]
    found = _einsum(operands, out) if operands else Code("1")
    text = " * ".join([*(c.inner for c in plain), *(f"({python(x.set.extent)})" for x in lacking), found.text])
    text += "".join(f" / {expression(program, x).inner}" for x in below)
    return Code(text, found.letters, text == found.text, joined([*plain, found]))


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
