"""Any program -> text in the language. Typed and normal programs parse back to themselves."""

from __future__ import annotations

from fractions import Fraction

from einc.indices import Extent, Index, IndexSet, number
from einc.syntax import Statement, SyntaxTree
from einc.terms import (
    TRUE,
    Apply,
    Const,
    Equation,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Program,
    Read,
    Size,
    Slot,
    Tensor,
    Term,
    Truth,
    Where,
    conjuncts,
    walk,
)

_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4
_INFIX = {"le": "≤", "lt": "<", "eq": "=", "ne": "≠"}
_FOLD_SIGNS = {"sum": "Σ"}


def show(value: Program | SyntaxTree, explicit: bool = False) -> str:
    """A program as a spec: declarations and equations, everything implied written out. A syntax tree as its statements.

    `explicit` also writes the set that each bound index runs over where no domain narrows it.
    """
    if isinstance(value, SyntaxTree):
        return "\n".join(_statement(s, 0) for s in value.statements) + "\n"
    return _program(value, explicit)


def _statement(statement: Statement, depth: int) -> str:
    """A statement's kind and its text on one line, and its block below it."""
    kind = ("override " if statement.override else "") + (statement.keyword or "equation")
    lines = [f"{'    ' * depth}{kind:9} {' '.join(statement.span.text.split())}"]
    return "\n".join([*lines, *(_statement(inner, depth + 1) for inner in statement.block)])


def _program(program: Program, explicit: bool) -> str:
    lines = [*_indices(program), ""]
    for tensor in program.inputs():
        kind = " : int" if tensor.integer else ""
        lines.append(f"{tensor.role} {_declared(tensor)}{_alias(tensor)}{kind}")
    for name, value in program.sizes.items():
        lines.append(f"dim {name} = {value}")
    lines.append("")
    lines += [equation_text(program, e) for e in program.equations]
    lines += [f"output {_declared(program.tensors[key])}{_alias(program.tensors[key])} : all" for _, key in program.outputs]
    return "\n".join(lines) + "\n"


def _alias(tensor: Tensor) -> str:
    return "" if _python(display(tensor)) == tensor.key else f" as {tensor.key}"


def _python(text: str) -> str:
    return "".join(c for c in text if c.isalnum() or c == "_")


def display(tensor: Tensor) -> str:
    """The tensor's name as the language writes it; the pieces of a helper's key are labels."""
    if tensor.text != tensor.key or "_" not in tensor.key:
        return tensor.text
    head, *labels = tensor.key.split("_")
    return head + "".join(f"_{{\\text{{{x}}}}}" if len(x) < 2 or not x.isalpha() else f"_{x}" for x in labels if x)


def _indices(program: Program) -> list[str]:
    found: dict[str, IndexSet] = {}
    for tensor in program.tensors.values():
        for slot in tensor.slots:
            if slot.name.replace("'", "").isalpha():
                found.setdefault(slot.name.rstrip("'"), slot.set)
    for equation in program.equations:
        for index in _mentioned(equation):
            found.setdefault(index.name.rstrip("'"), index.set)
    for parts in program.sums.values():
        for part in parts:
            found.setdefault(part.name, part.set)
    lines = []
    for name, set_ in found.items():
        structure = ""
        if set_ in program.splits:
            letters = [next((n for n, s in found.items() if s == part), None) for part in program.splits[set_]]
            structure = f" = ({' '.join(x for x in letters if x)})" if all(letters) else ""
        elif set_ in program.sums:
            structure = f" = {' ⊕ '.join(p.name for p in program.sums[set_])}"
        lines.append(f"index {name} : {_set(set_)}{structure}")
    return lines


def _mentioned(equation: Equation) -> list[Index]:
    out: list[Index] = []
    for term in (*equation.axes, equation.domain, equation.body):
        for inner in walk(term):
            match inner:
                case Position(index):
                    out.append(index)
                case Fold(_, bound):
                    out.extend(bound)
                case Join(index, parts):
                    out += [index, *(i for i, _ in parts)]
    return list(dict.fromkeys(out))


def _set(set_: IndexSet) -> str:
    if set_.start == 1:
        return f"{set_.cls}({set_.extent})"
    return f"{set_.cls}({set_.start}..{set_.extent + number(set_.start - 1)})"


def _declared(tensor: Tensor) -> str:
    return display(tensor) + _scripts([(slot, slot.name) for slot in tensor.slots])


def _scripts(slots: list[tuple[Slot, str]]) -> str:
    """The scripts of a name, lower ones first within each run of one level."""
    out, at = "", 0
    while at < len(slots):
        lower = slots[at][0].level == "lower"
        run = []
        while at < len(slots) and (slots[at][0].level == "lower") == lower:
            slot, text = slots[at]
            run.append(f"({text})" if slot.level == "label" and text.replace("'", "").isalpha() else text)
            at += 1
        simple = all(_is_letter(x) or (x.startswith("(") and "," not in x) for x in run)
        out += ("_" if lower else "^") + "{" + (" " if simple else ", ").join(run) + "}"
    return out


def _is_letter(text: str) -> bool:
    return text.replace("'", "").isalpha()


def equation_text(program: Program, equation: Equation) -> str:
    """One equation, every sum with its domain."""
    tensor = program.tensors[equation.target]
    left = display(tensor) + _scripts([(slot, text(program, axis)) for slot, axis in zip(tensor.slots, equation.axes, strict=True)])
    domain = "" if equation.domain == TRUE else ", " + ", ".join(text(program, c) for c in conjuncts(equation.domain))
    return f"{left} = {text(program, equation.body)}{domain}"


def text(program: Program, term: Term, level: int = 0) -> str:
    """A term in the language; parenthesised where it binds looser than `level`."""
    shown, mine = _text(program, term)
    return f"({shown})" if mine < level else shown


def _text(program: Program, term: Term) -> tuple[str, int]:
    match term:
        case Const(value):
            return _number(value)
        case Truth(value):
            return ("1 = 1" if value else "1 = 0"), _ATOM
        case Size(extent):
            return _extent(extent)
        case Position(index):
            return index.name, _ATOM
        case Pack(parts):
            inner = [text(program, p) for p in parts]
            return f"({(' ' if all(map(_is_letter, inner)) else ', ').join(inner)})", _ATOM
        case Part(item):
            return text(program, item), _ATOM
        case Read(tensor, subs):
            found = program.tensors[tensor]
            return display(found) + _scripts([(s, text(program, x)) for s, x in zip(found.slots, subs, strict=True)]), _ATOM
        case Where(condition, then):
            return f"1[{', '.join(text(program, c) for c in conjuncts(condition))}] {text(program, then, _POWER)}", _PRODUCT
        case Fold(op, bound, domain, body):
            said = [] if domain == TRUE else [text(program, c) for c in conjuncts(domain)]
            script = ", ".join([" ".join(i.name for i in bound), *said])
            return f"{_FOLD_SIGNS.get(op, op)}_{{{script}}} {text(program, body, _PRODUCT)}", _PRODUCT
        case Join(_, parts):
            return " ⊕ ".join(text(program, body) for _, body in parts), 0
        case Apply(op, args):
            return _applied(program, op, args)
    raise AssertionError(term)


def _applied(program: Program, op: str, args: tuple[Term, ...]) -> tuple[str, int]:
    match op:
        case "add":
            return " + ".join(text(program, a, _PRODUCT) for a in args), _SUM
        case "sub":
            return f"{text(program, args[0], _SUM)} - {text(program, args[1], _PRODUCT)}", _SUM
        case "neg":
            return f"-{text(program, args[0], _PRODUCT)}", _SUM
        case "mul":
            return _product(program, args), _PRODUCT
        case "div":
            return f"{text(program, args[0], _POWER)} / {text(program, args[1], _POWER)}", _PRODUCT
        case "pow":
            base = text(program, args[0])
            return f"{base if isinstance(args[0], Const) and base.isdigit() else f'({base})'}^{{{text(program, args[1])}}}", _POWER
        case "and" | "or":
            return f" {op} ".join(text(program, a, _SUM) for a in args), 0
        case "not":
            return f"not ({text(program, args[0])})", 0
        case _ if op in _INFIX:
            return f"{text(program, args[0], _SUM)} {_INFIX[op]} {text(program, args[1], _SUM)}", 0
    return f"{op}({', '.join(text(program, a) for a in args)})", _ATOM


def _product(program: Program, args: tuple[Term, ...]) -> str:
    """Factors side by side; one that takes the rest of its product is last or in parentheses."""
    parts = []
    for n, arg in enumerate(args):
        greedy = isinstance(arg, Fold | Where) and n < len(args) - 1
        shown = text(program, arg, _ATOM if greedy else _POWER)
        parts.append(f"({shown})" if greedy and not shown.startswith("(") else shown)
    return " ".join(p if n == 0 or not p[0].isdigit() else f"* {p}" for n, p in enumerate(parts))


def _number(value: Fraction | float) -> tuple[str, int]:
    if isinstance(value, float):
        return ("∞", _ATOM) if value > 0 else ("-∞", _SUM)
    level = _SUM if value < 0 else _ATOM
    if value.denominator == 1:
        return str(value.numerator), level
    scale = 0
    while (value * 10**scale).denominator != 1 and scale < 40:
        scale += 1
    if scale < 40:
        digits = str(abs(int(value * 10**scale))).rjust(scale + 1, "0")
        return ("-" if value < 0 else "") + f"{digits[:-scale]}.{digits[-scale:]}", level
    return f"{value.numerator} / {value.denominator}", min(level, _PRODUCT)


def _extent(extent: Extent) -> tuple[str, int]:
    shown = str(extent).replace(" * ", " ").replace("**", "^")
    return shown, _ATOM if len(extent.terms) == 1 and extent.constant is None and " " not in shown else _SUM
