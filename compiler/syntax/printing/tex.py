"""Any term -> LaTeX, with every sum written out."""

from __future__ import annotations

from fractions import Fraction

from einc.ir.indices import Atom, Extent
from einc.ir.programs import Program, Tensor
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
    Truth,
    Where,
    conjuncts,
)
from einc.syntax.spelling import GREEK, UPRIGHT, WRITTEN

_MACROS = {symbol: f"\\{name}" for name, symbol in reversed(GREEK.items())}
_INFIX = {"le": r"\le", "lt": "<", "eq": "=", "ne": r"\ne"}
_ACCENTS = {"hat": r"\widehat", "tilde": r"\widetilde", "bar": r"\bar", "cal": r"\mathcal"}
_SUM, _PRODUCT, _ATOM = 1, 2, 3


def letter(name: str) -> str:
    """One name as TeX has it: Greek letters by their macros, longer words upright."""
    stem, primes = name.rstrip("'"), name[len(name.rstrip("'")) :]
    shown = _MACROS.get(stem, stem if len(stem) == 1 else rf"\text{{{stem}}}")
    return shown + primes


def named(tensor: Tensor) -> str:
    """The tensor's name: `K_hat` is \\widehat{K}, further pieces are labels."""
    base, *pieces = tensor.text.replace("{", "").replace("}", "").replace("\\text", "").split("_")
    shown = letter(base)
    labels: list[str] = []
    for piece in pieces:
        if piece in _ACCENTS and not labels:
            shown = rf"{_ACCENTS[piece]}{{{shown}}}"
        elif piece:
            labels.append(piece)
    return shown + (rf"_{{\text{{{' '.join(labels)}}}}}" if labels else "")


def tex(program: Program, term: Term, level: int = 0) -> str:
    """The term, in parentheses where it binds looser than `level`."""
    shown, mine = _tex(program, term)
    return rf"\left({shown}\right)" if mine < level else shown


def subscripted(program: Program, tensor: Tensor, subs: tuple[Term, ...]) -> str:
    """The name with its scripts, lower and upper in the order declared."""
    name = named(tensor)
    lower: list[str] = []
    upper: list[str] = []
    for slot, sub in zip(tensor.slots, subs, strict=True):
        shown = tex(program, sub)
        (lower if slot.level == "lower" else upper).append(f"({shown})" if slot.level == "label" else shown)
    base, label = [*name.rsplit("_{", 1), ""][:2] if name.endswith("}") and "_{" in name else (name, "")
    below = " ".join([label[:-1] if label else "", *lower]).strip()
    return base + (f"_{{{below}}}" if below else "") + (f"^{{{' '.join(upper)}}}" if upper else "")


def _tex(program: Program, term: Term) -> tuple[str, int]:
    """Returns a term's LaTeX and its precedence, by which what is around it decides on parentheses."""
    match term:
        case Const(value):
            return _number(value)
        case Truth(value):
            return ("1 = 1" if value else "1 = 0"), 0
        case Size(extent):
            return _extent(extent), _ATOM
        case Position(index):
            return letter(index.name), _ATOM
        case Pack(parts):
            between = r"{,}\, " if isinstance(parts[0], Const) else " "
            return f"({between.join(tex(program, p) for p in parts)})", _ATOM
        case Part(item):
            return tex(program, item), _ATOM
        case Read(tensor, subs):
            return subscripted(program, program.tensors[tensor], subs), _ATOM
        case Where(condition, then):
            return rf"\mathbb{{1}}[{conditions(program, condition)}]\, {tex(program, then, _ATOM)}", _PRODUCT
        case Fold(_, _, _, body):
            return f"{_folding(program, term)} {tex(program, body, _PRODUCT)}", _PRODUCT
        case Apply("pick", (Fold(_, _, _, body) as ordered, rank)):
            return f"{_folding(program, ordered)}({tex(program, body)},\\, {tex(program, rank)})", _ATOM
        case Join(_, parts):
            return r" \oplus ".join(tex(program, body) for _, body in parts), 0
        case Apply(op, args):
            if (found := program.block_of(term)) is not None:
                return rf"{tex(program, found[0])} \in {letter(found[1].text)}", 0
            return _applied(program, op, args)
    raise AssertionError(term)


def _folding(program: Program, fold: Fold) -> str:
    """The sign of a fold, and below it what it runs over."""
    named = [found[0] for c in conjuncts(fold.domain)[:1] if (found := program.block_of(c)) is not None]
    letters = [] if named == [Position(b) for b in fold.bound] else [" ".join(letter(b.name) for b in fold.bound)]
    below = ", ".join([*letters, *([] if fold.domain == TRUE else [conditions(program, fold.domain)])])
    sign = rf"\{fold.op}" if fold.op in UPRIGHT | WRITTEN.keys() else rf"\operatorname{{{fold.op}}}"
    return f"{sign}_{{{below}}}"


def conditions(program: Program, condition: Term) -> str:
    """Returns the LaTeX of a condition, its conjuncts separated by commas."""
    return r",\, ".join(tex(program, c) for c in conjuncts(condition))


def _applied(program: Program, op: str, args: tuple[Term, ...]) -> tuple[str, int]:
    """Returns the LaTeX of an applied primitive and its precedence."""
    match op:
        case "add":
            return " + ".join(tex(program, a, _PRODUCT) for a in args), _SUM
        case "sub":
            return f"{tex(program, args[0], _SUM)} - {tex(program, args[1], _PRODUCT)}", _SUM
        case "neg":
            return f"-{tex(program, args[0], _PRODUCT)}", _SUM
        case "mul":
            return r" \, ".join(tex(program, a, _ATOM) for a in args), _PRODUCT
        case "div":
            return rf"\frac{{{tex(program, args[0])}}}{{{tex(program, args[1])}}}", _ATOM
        case "pow":
            base = tex(program, args[0], _ATOM)
            hangs = isinstance(args[0], Read | Apply) and base.endswith("}") and "^{" in base  # above it stands more
            return f"{f'({base})' if hangs else base}^{{{tex(program, args[1])}}}", _ATOM
        case "sqrt":
            return rf"\sqrt{{{tex(program, args[0])}}}", _ATOM
        case "and" | "or":
            return rf" \{'land' if op == 'and' else 'lor'} ".join(tex(program, a, _SUM) for a in args), 0
        case "not":
            return rf"\neg {tex(program, args[0], _ATOM)}", 0
        case _ if op in _INFIX:
            return f"{tex(program, args[0], _SUM)} {_INFIX[op]} {tex(program, args[1], _SUM)}", 0
    name = rf"\{op}" if op in UPRIGHT else rf"\operatorname{{{op}}}"
    return rf"{name}\left({', '.join(tex(program, a) for a in args)}\right)", _ATOM


def _number(value: Fraction | float) -> tuple[str, int]:
    if isinstance(value, float):
        return (r"\infty", _ATOM) if value > 0 else (r"-\infty", _SUM)
    if value.denominator == 1:
        return str(value.numerator), _ATOM if value >= 0 else _SUM
    return (rf"{'-' if value < 0 else ''}\tfrac{{{abs(value.numerator)}}}{{{value.denominator}}}", _ATOM if value > 0
            else _SUM)


def size_tex(name: str) -> str:
    """A size as TeX has it: `d_model` is d with a label below."""
    base, _, label = name.partition("_")
    return letter(base) + (f"_{{{_label(label)}}}" if label else "")


def _extent(extent: Extent) -> str:
    if len(extent.terms) == 1:
        ((mono, coefficient),) = extent.terms
        above = [_atom(n) for n, p in mono if p > 0]
        below = [_atom(n) for n, p in mono if p < 0] + ([str(coefficient.denominator)]
                                                           if coefficient.denominator > 1 else [])
        if coefficient.numerator != 1 or not above:
            above.insert(0, str(coefficient.numerator))
        return rf"\frac{{{' '.join(above)}}}{{{' '.join(below)}}}" if below else " ".join(above)
    return str(extent)


def _atom(atom: Atom) -> str:
    """A size, or a quotient between the brackets that round it."""
    if isinstance(atom, str):
        return size_tex(atom)
    side = "ceil" if atom.up else "floor"
    return rf"\l{side} {_extent(atom.of)} \r{side}"


def _label(text: str) -> str:
    return text if len(text) == 1 else rf"\text{{{text}}}"
