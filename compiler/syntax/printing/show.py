"""Any program -> text in the language. Typed and normal programs parse back to themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from einc.ir.indices import LAYER, WITHOUT_NUMBERS, Index, IndexSet, number, primed
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Program, Tensor
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
    both,
    conjuncts,
    free_indices,
    reads,
    walk,
)
from einc.syntax.printing.declarations import free_sizes, index_sets, lettered, starts
from einc.syntax.printing.scripts import row, scripts
from einc.syntax.printing.unpacking import Unpacking, numbered, unpacked
from einc.syntax.spelling import GREEK
from einc.syntax.tree import Plan, Statement, SyntaxTree

_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4
_INFIX = {"le": "≤", "lt": "<", "eq": "=", "ne": "≠"}
_FOLD_SIGNS = {"sum": "Σ"}
_ACCENTS = ("hat", "tilde", "bar")


def show(value: Program | SyntaxTree, explicit: bool = False) -> str:
    """A program as a spec: declarations and equations, everything implied written out. A syntax tree as its statements.

    `explicit` also writes the set that each bound index runs over where no domain narrows it.
    """
    if isinstance(value, SyntaxTree):
        plans = [line for plan in value.plans for line in _plan(plan)]
        return "\n".join([*(_statement(s, 0) for s in value.statements), *plans]) + "\n"
    return _program(unpacked(value), value.inputs(), explicit)


def _statement(statement: Statement, depth: int) -> str:
    """A statement's kind and its text on one line, and its block below it."""
    kind = ("override " if statement.override else "") + (statement.keyword or "equation")
    lines = [f"{'    ' * depth}{kind:9} {' '.join(statement.span.text.split())}"]
    return "\n".join([*lines, *(_statement(inner, depth + 1) for inner in statement.block)])


def _plan(plan: Plan) -> list[str]:
    """The head of a `plan` block and its lines."""
    lines = (f"    {'line':9} {' '.join(line.span.text.split())}" for line in plan.lines)
    return [f"{'plan':9} {plan.name.text}", *lines]


def _program(program: Program, inputs: tuple[Tensor, ...], explicit: bool) -> str:
    """Writes a program: indices, sizes, inputs, equations, masks and outputs."""
    indices = index_sets(program)
    program = replace(program, tensors=lettered(program, pairs=True))
    writer = _Writer(program, frozenset(indices), explicit)
    lines = [f"index {name} : {set_}{writer.structure(indices, set_)}" for name, set_ in indices.items()]
    lines += [f"dim {name}" for name in free_sizes(program, indices)]
    lines += [f"dim {name} = {value}" for name, value in program.sizes.items()]
    lines.append("")
    lines += [writer.asked(tensor) for tensor in (program.tensors[t.key] for t in inputs) if _counting(tensor) is None]
    lines.append("")
    steps = [_balanced(step) if isinstance(step, Equation) else step for step in _steps(program)]
    lines += [line for step in steps for line in writer.step(step)]
    lines += [f"mask {writer.text(read)} : all" for read in _ordered(program)]
    lines += [f"output {writer.declared(program.tensors[key])} : all" for _, key in program.outputs]
    return "\n".join(lines) + "\n"


def _steps(program: Program) -> list[Equation | BlockLoop | IndexLoop]:
    """The equations as they are written: those that stand for rounds once, as rounds, where the first of them is."""
    by: dict[str, BlockLoop | IndexLoop] = {key: recur for recur in program.recurs for key in recur.targets}
    by |= _in_rounds(program.repeats)
    alone = starts(program)
    return list(dict.fromkeys(by.get(e.target, e) for e in program.equations if e.target not in alone))


def _in_rounds(loops: Iterable[IndexLoop]) -> dict[str, IndexLoop]:
    """The loops that are written as rounds, by what is made in them."""
    return {key: loop for loop in loops if loop.states for key in loop.inside}


def _balanced(equation: Equation) -> Equation:
    """The equation with a factor 1 for each letter of the left side that its right side, or a part of that, lacks: text
    has to say that a value is the same all along an index.
    """
    body, owners = equation.body, {i.set.by for i in equation.indices}
    if isinstance(body, Join):
        body = replace(body, parts=tuple((i, _along([i], part)) for i, part in body.parts))
    elif any(True for _ in reads(body)) or free_indices(body):
        present = free_indices(body)
        body = _along([i for i in equation.indices if i not in present and i.name not in owners], body)
    return replace(equation, body=body)


def _along(letters: list[Index], body: Term) -> Term:
    same = both(*(Apply("eq", (Position(i), Position(i))) for i in letters if i not in free_indices(body)))
    return body if same == TRUE else Where(same, body)


def _counting(tensor: Tensor) -> Index | None:
    """What counts the rounds, where the tensor has a slot for it."""
    return next((Index(slot.name, slot.set) for slot in tensor.slots if slot.set.cls == LAYER), None)


def _indices_in(sub: Term) -> list[Index]:
    """The indices that stand in a slot as they are, alone or in pairs."""
    match sub:
        case Position(index):
            return [index]
        case Pack(items) | Part(Pack(items)):
            return [i for item in items for i in _indices_in(item)]
        case Part(item):
            return _indices_in(item)
    return []


def _ordered(program: Program) -> list[Read]:
    """What is ordered as a whole: text has to say that all of it is meant."""
    folds = [t for e in program.equations for t in walk(e.body)
             if isinstance(t, Fold) and t.op == "topk" and t.domain == TRUE]
    found = [f.body for f in folds if isinstance(f.body, Read) and f.bound[0].set.cls in ("time", "request")]
    return [r for r in dict.fromkeys(found) if all(isinstance(s, Position) for s in r.subs)]


def display(tensor: Tensor, letters: frozenset[str] = frozenset()) -> str:
    """The tensor's name as the language writes it; the pieces of a helper's key are
    labels, which cannot be read as indices."""
    if tensor.text != tensor.key:
        return tensor.text
    head, *labels = tensor.key.split("_")
    written = [_label(GREEK.get(label, label), letters) for label in labels]
    return GREEK.get(head, head) + ("".join(written) if all(written) else f"_{{\\text{{{'_'.join(labels)}}}}}")


def _label(label: str, letters: frozenset[str]) -> str:
    """A label after a name, where it cannot be read as an index; else the empty text."""
    if re.fullmatch(r"prime\d*", label):
        return "'" * int(label[5:] or 1)
    if label in _ACCENTS or (len(label) > 1 and label.isalpha() and not set(label) <= letters):
        return f"_{label}"
    alone = len(label) == 1 and label not in letters and (label.isupper() or not label.isascii())
    return f"_{{{label}}}" if alone else ""


def rounds_text(program: Program, loop: IndexLoop) -> str:
    """Rounds in order as a text has them."""
    program = replace(program, tensors=lettered(program, pairs=True))
    return "\n".join(_Writer(program, frozenset(index_sets(program)), False).step(loop))


def equation_text(program: Program, equation: Equation) -> str:
    """One equation, every sum with its domain."""
    view = Unpacking(program)
    return _Writer(view.told).equation(view.equation(equation))


def text(program: Program, term: Term, level: int = 0) -> str:
    """A term in the language; parenthesised where it binds looser than `level`."""
    view = Unpacking(program)
    return _Writer(view.told).text(view.term(term), level)


@dataclass(frozen=True, slots=True)
class _Writer:
    """What the text of a term depends on: the tensors, and the letters that are indices."""

    program: Program
    letters: frozenset[str] = frozenset()
    explicit: bool = False
    labels: frozenset[Index] = frozenset()  # free indices that stand on both levels: in parentheses they are no pair
    within: frozenset[Index] = frozenset()  # those that do so within pairs of letters

    def structure(self, indices: dict[str, IndexSet], set_: IndexSet) -> str:
        if set_ in self.program.splits:
            parts = [next(n for n, x in indices.items() if x == part) for part in self.program.splits[set_]]
            twice = {n for n in parts if parts.count(n) > 1}
            named = [n + "'" * parts[:at].count(n) if n in twice else n for at, n in enumerate(parts)]
            return f" = ({' '.join(named)})"
        if set_ in self.program.sums:
            return f" = {' ⊕ '.join(p.name for p in self.program.sums[set_])}"
        return ""

    def declared(self, tensor: Tensor) -> str:
        alias = ("" if "".join(c for c in self.name(tensor) if c.isalnum() or c == "_") == tensor.key
                 else f" as {tensor.key}")
        return self.name(tensor) + scripts([(slot, slot.name) for slot in tensor.slots]) + alias

    def name(self, tensor: Tensor) -> str:
        return display(tensor, self.letters)

    def equation(self, equation: Equation, sign: str = "=") -> str:
        tensor = self.program.tensors[equation.target]
        labels, within = self._on_both_levels(equation, Position, Pack,
                                              Part), self._on_both_levels(equation, Pack, Part)
        return replace(self, labels=labels, within=within)._equation(tensor, equation, sign)

    def asked(self, tensor: Tensor) -> str:
        return f"{tensor.role} {self.declared(tensor)}{f' : {tensor.element.word}' if tensor.element.word else ''}"

    def step(self, step: Equation | BlockLoop | IndexLoop) -> list[str]:
        """An equation, or rounds: what the states start with, and the block."""
        if isinstance(step, Equation):
            return [self.equation(step)]
        if isinstance(step, IndexLoop):
            return self._repeat(step)
        lines = [self.equation(e) for e in step.starts]
        if step.fixed:
            lines.append(f"for {', '.join(i.name for i in step.fixed)}:")
        pad = "    " if step.fixed else ""
        said = [self.text(c) for c in conjuncts(step.domain) if c != TRUE]
        if step.member:
            lines.append(f"{pad}for {step.name} ⊆ {{{', '.join(said or [step.index.name])}}}:")
        else:
            over = step.index.set
            whole = f"{step.index.name} ∈ {over.start}..{over.extent + number(over.start - 1)}"
            lines.append(f"{pad}for {', '.join(said or [whole])}:")
        lines += [f"{pad}    {self.equation(e)}" for e in step.inside]
        return lines + [f"{pad}    {self.equation(e, '←')}" for e in step.updates]

    def _repeat(self, repeat: IndexLoop) -> list[str]:
        """Rounds in order, with the inputs of which each takes its own part."""
        tensors, over = self.program.tensors, repeat.index.set

        def copied(left: str, right: str, sign: str, part: Index | None = None) -> str:
            # A state with a value for each position has another letter for it than the rounds.
            names = {slot.name for slot in tensors[left].slots}
            slots = [(slot, primed(slot.name, names) if slot.name == repeat.index.name else slot.name)
                     for slot in tensors[left].slots]
            written = scripts(list(slots))
            if part is not None and (made := self.program.equation(right)) is not None and part in made.indices:
                at = made.axes.index(Position(part))
                slots.insert(at, (tensors[right].slots[at], part.name))
            return f"{self.name(tensors[left])}{written} {sign} {self.name(tensors[right])}{scripts(slots)}"

        alone = starts(self.program)
        lines = [copied(state, first, "=") if first not in alone
                 else self.equation(_balanced(replace(self.program.by_target[first], target=state)))
                 for state, first, _ in repeat.states]
        lines.append(f"for {repeat.index.name} ∈ {over.start}..{over.extent + number(over.start - 1)}:")
        block = [self.asked(t) for t in self.program.inputs() if _counting(t) == repeat.index]
        inner = _in_rounds(repeat.loops)
        for step in dict.fromkeys(inner.get(e.target, e) for e in self.program.equations
                                  if e.target in repeat.inside and e.target not in alone):
            block += self._repeat(step) if isinstance(step, IndexLoop) else [self.equation(_balanced(step))]
        block += [copied(state, following, "←", repeat.index) for state, _, following in repeat.states]
        return lines + [f"    {line}" for line in block]

    def _on_both_levels(self, equation: Equation, *kinds: type[Position | Pack | Part]) -> frozenset[Index]:
        """Free indices that stand on both levels, in subscripts of these kinds."""
        levels: dict[Index, set[str]] = {i: set() for i in equation.indices if i.set.summed}
        for read in reads(equation.body) if levels else ():
            for slot, sub in zip(self.program.tensors[read.tensor].slots, read.subs, strict=True):
                for index in _indices_in(sub) if isinstance(sub, kinds) else ():
                    levels.get(index, set()).add(slot.level)
        return frozenset(i for i, found in levels.items() if {"lower", "upper"} <= found)

    def _equation(self, tensor: Tensor, equation: Equation, sign: str) -> str:
        left = self.name(tensor) + scripts([(x, self.text(axis))
                                             for x, axis in zip(tensor.slots, equation.axes, strict=True)])
        domain = "" if equation.domain == TRUE else ", " + ", ".join(self.text(c) for c in conjuncts(equation.domain))
        return f"{left} {sign} {self.text(equation.body)}{domain}"

    def text(self, term: Term, level: int = 0) -> str:
        """The term, parenthesised where it binds looser than `level`."""
        shown, mine = self._text(term)
        return f"({shown})" if mine < level else shown

    def _text(self, term: Term) -> tuple[str, int]:
        """Returns a term's text and its precedence, by which what is around it decides on parentheses."""
        match term:
            case Const(value):
                return _number(value)
            case Truth(value):
                return ("1 = 1" if value else "1 = 0"), _ATOM
            case Size(extent):
                return str(extent), _ATOM if str(extent) in extent.sizes else _SUM
            case Position(index):
                return index.name, _ATOM
            case Pack(parts):
                return row([self.text(p) for p in parts]), _ATOM
            case Part(item):
                return self.text(item), _ATOM
            case Read(tensor, subs):
                found = self.program.tensors[tensor]
                return self.name(found) + scripts([(s, self._slot(x))
                                                    for s, x in zip(found.slots, subs, strict=True)]), _ATOM
            case Where(condition, then):
                return f"1[{', '.join(self.text(c) for c in conjuncts(condition))}] {self.text(then, _POWER)}", _PRODUCT
            case Fold():
                return f"{self._folding(term)} {self.text(term.body, _PRODUCT)}", _PRODUCT
            case Join(_, parts):
                return " ⊕ ".join(self.text(body, _SUM) for _, body in parts), 0
            case Apply(op, args):
                if (member := self.program.block_of(term)) is not None:
                    return f"{self.text(member[0])} ∈ {member[1].text}", 0
                compares = op in ("eq", "ne", "le", "lt")
                return self._applied(op, tuple(numbered(a) if compares and isinstance(a, Pack) else a for a in args))
        raise AssertionError(term)

    def _slot(self, sub: Term) -> str:
        match sub:
            case Position(index) if index in self.labels:
                return f"({index.name})"
            case Pack(parts) | Part(Pack(parts)):
                return row([f"({p.index.name})" if isinstance(p, Position) and p.index in self.within else
                             self._slot(p) if isinstance(p, Pack) else self.text(p) for p in parts])
        return self.text(sub)

    def _folding(self, term: Fold) -> str:
        """The sign of a fold, and below it what it runs over."""
        said = [] if term.domain == TRUE else [self.text(c) for c in conjuncts(term.domain)]
        if self.explicit:
            said += [f"{i.name} ∈ {i.set.start}..{i.set.extent + number(i.set.start - 1)}" for i in term.bound
                     if i not in free_indices(term.domain) and i.set.cls not in WITHOUT_NUMBERS]
        # Where `s ∈ B` stands first it names the index.
        named = [found[0] for c in conjuncts(term.domain)[:1] if (found := self.program.block_of(c)) is not None]
        letters = [] if named == [Position(i) for i in term.bound] else [" ".join(i.name for i in term.bound)]
        script = ", ".join([*letters, *said])
        return f"{_FOLD_SIGNS.get(term.op, term.op)}_{{{script}}}"

    def _applied(self, op: str, args: tuple[Term, ...]) -> tuple[str, int]:
        """Returns the text of an applied primitive and its precedence."""
        match op:
            case "add":
                return " + ".join(self.text(a, _PRODUCT) for a in args), _SUM
            case "sub":
                return f"{self.text(args[0], _SUM)} - {self.text(args[1], _PRODUCT)}", _SUM
            case "neg":
                return f"-{self.text(args[0], _PRODUCT)}", _SUM
            case "mul":
                return self._product(args), _PRODUCT
            case "div":
                return f"{self.text(args[0], _POWER)} / {self.text(args[1], _POWER)}", _PRODUCT
            case "pow":
                base = self.text(args[0])
                base = base if isinstance(args[0], Const) and base.isdigit() else f"({base})"
                return f"{base}^{{{self.text(args[1])}}}", _POWER
            case "pick":
                ordered, rank = args
                assert isinstance(ordered, Fold)
                return f"{self._folding(ordered)}({self.text(ordered.body)}, {self.text(rank)})", _ATOM
            case "and" | "or":
                return f" {op} ".join(self.text(a, _SUM) for a in args), 0
            case "not":
                return f"not ({self.text(args[0])})", 0
            case _ if op in _INFIX:
                return f"{self.text(args[0], _SUM)} {_INFIX[op]} {self.text(args[1], _SUM)}", 0
        return f"{op}({', '.join(self.text(a) for a in args)})", _ATOM

    def _product(self, args: tuple[Term, ...]) -> str:
        """Factors side by side; one that takes the rest of its product is last or in parentheses."""
        parts = []
        for n, arg in enumerate(args):
            greedy = isinstance(arg, Fold | Where) and n < len(args) - 1
            parts.append(self.text(arg, _ATOM if greedy else _POWER))
        # A number right after a factor would be a power's, a parenthesis after an index an application.
        apart = [n > 0 and (p[0].isdigit() or (p[0] == "(" and isinstance(args[n - 1], Position)))
                 for n, p in enumerate(parts)]
        return " ".join(f"* {p}" if star else p for p, star in zip(parts, apart, strict=True))


def _number(value: Fraction | float) -> tuple[str, int]:
    """Returns a number's text and its precedence: decimals where they are exact in under 40 places, else a quotient."""
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
