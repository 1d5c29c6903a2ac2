"""What `stream` found, in the notation of the papers: m, α, z, N over blocks B of a
domain, as text that parses and as LaTeX."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.ir.folds import FOLDS
from einc.ir.indices import Index
from einc.ir.programs import BlockLoop, Equation, NormalProgram, Program, Slot, Tensor, slot_of
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    conjuncts,
    const,
    reads,
    transform,
    walk,
)
from einc.planning.contractions.materialise import peeled
from einc.planning.fusing.fuse import groups
from einc.planning.streaming.passes import Streamed
from einc.planning.streaming.stream import stream
from einc.syntax.printing.show import text
from einc.syntax.printing.tex import conditions, tex
from einc.syntax.printing.unpacking import Unpacking
from einc.transforms.laws import ALL
from einc.transforms.laws.simplify import simplify
from einc.transforms.slicing.repeats import round_of, stretches

_BLOCK = "·B"
# The letters of the papers, and others where the program has these.
_LETTERS = {"m": "mμ", "z": "zζ", "N": "NU", "a": "ac", "r": "rR", "w": "wυ", "M": "MΩ"}


@dataclass(frozen=True)
class Line:
    """One line of a recurrence: `left sign right`, a tensor of the recurrence on the
    left, and where it holds if that is said."""

    left: Read
    sign: str
    right: Term
    domain: Term = TRUE


@dataclass(frozen=True)
class Recurrence:
    """A carried state over blocks of a domain: how it starts, what each block does, what is made of it in the end."""

    program: Program
    fixed: tuple[Index, ...]
    index: Index
    domain: Term
    start: tuple[Line, ...]
    block: tuple[Line, ...]
    finish: tuple[Line, ...]
    note: str = ""


def by_piece(program: NormalProgram) -> list[tuple[NormalProgram, list[Recurrence]]]:
    """What stands between rounds, and each round, as a program of its own, with its recurrences."""
    if not program.repeats:
        return [(program, _recurrences(program))]
    pieces = [*stretches(program), *(round_of(program, repeat).program for repeat in program.repeats)]
    return [found for piece in pieces for found in by_piece(piece)]


def recurrences(program: NormalProgram) -> list[Recurrence]:
    """One for each pass of the program; where the folds do not come apart, only the note that says why."""
    return [item for _, found in by_piece(program) for item in found]


def _recurrences(program: NormalProgram) -> list[Recurrence]:
    """The recurrences of the passes of a program without rounds."""
    program = peeled(program)
    out = []
    for group in groups(program):
        if not group.virtual or group.along is not None:
            continue
        mine = {e.target for e in group.equations}
        kept = {key for e in program.equations if e.target not in mine for key in e.reads}
        kept |= {key for _, key in program.outputs}
        passed = stream(group.equations, group.virtual, frozenset(kept) - group.virtual, frozenset(program.tensors))
        if passed.index is not None and passed.carries:
            out.append(_Telling(program, passed, group.virtual, frozenset(kept)).recurrence())
        elif passed.notes:
            last = group.equations[-1]
            out.append(Recurrence(program, last.indices, last.indices[0], TRUE, (), (), (), passed.notes[0]))
    return out


class _Telling:
    """One pass told in the letters of the papers."""

    def __init__(self, program: NormalProgram, passed: Streamed, virtual: frozenset[str], kept: frozenset[str]) -> None:
        """`virtual` are values of the pass that are not stored, `kept` those of its results that others read."""
        self.kept = kept
        self.passed, self.virtual = passed, virtual
        self.by = {e.target: e for e in passed.equations}
        place = [e.target for e in passed.equations]
        self.carried = {c.target: c for c in sorted(passed.carries, key=lambda c: place.index(c.target))}
        self.shares = {e.target for e in passed.equations if self._is_share(e, virtual)}
        spaces = [set(self.by[t].indices) for t in self.carried]
        self.fixed = tuple(i for i in self.by[passed.carries[0].target].indices if all(i in x for x in spaces))
        self.tensors = dict(program.tensors)
        used = {key for e in passed.equations for key in e.reads} - self.carried.keys()
        slots = [slot for t in self.tensors.values() for slot in t.slots]
        terms = (t for e in passed.equations for root in (e.domain, e.body) for t in walk(root))
        sizes = {n for slot in slots for n in slot.set.extent.sizes} | set(program.sizes)
        sizes |= {n for t in terms if isinstance(t, Size) for n in t.extent.sizes}
        used |= {t.key for t in program.inputs()}
        self.taken = {self.tensors[t].text for t in used
                      if t in self.tensors} | sizes | {slot.name for slot in slots}
        self.program = program
        self.letters = self._letters(sizes)
        self.common: Term = TRUE

    @property
    def index(self) -> Index:
        """The index along which the pass goes."""
        assert self.passed.index is not None
        return self.passed.index

    @property
    def primed(self) -> set[str]:
        """What is carried whose former value is read too, or whose next one another value of the block reads."""
        within = self.carried.keys() | self.shares | self.virtual
        read = {r.tensor for key in within if key in self.by for r in reads(self.by[key].body)}
        return self.carried.keys() & {*self.passed.before.values(), *read}

    def _letters(self, sizes: set[str]) -> dict[str, str]:
        """m for a running maximum that others refer to, z for a sum as wide as it, N for a wider one, a for what stands
        alone; r for a running mean, w for what it is divided by, M for moments about it."""
        references = {c.reference for c in self.carried.values() if c.reference}
        asked = set(self.passed.before.values())
        chosen: dict[str, str] = {}
        # A result that is called m' keeps m from being a state. An extent and a tensor with indices may share a name.
        results = {self.tensors[t].text for t in self.by.keys() & self.kept & self.tensors.keys()}
        taken = self.taken | {name.removesuffix("_prime") for name in results if name.endswith("_prime")}
        free = {role: _unused(options, taken - (sizes if role == "N" else set()))
                for role, options in _LETTERS.items()}
        for target, carry in self.carried.items():
            wide = set(self.by[target].indices) > set(self.fixed)
            if not isinstance(self.by[target].body, Fold):
                role = "r" if self._itself(target) else "M"
            elif target in references:
                role = "m"
            else:
                role = ("N" if wide else "z") if carry.reference else "w" if target in asked else "a"
            chosen[target] = free[role]
        out: dict[str, str] = {}
        for target, name in chosen.items():
            same = [t for t, n in chosen.items() if n == name]
            out[target] = name if len(same) == 1 else f"{name}_{same.index(target) + 1}"
        return out

    def _itself(self, target: str) -> bool:
        """Whether a value grows by what it was itself: a mean."""
        inner = {r.tensor for r in reads(self.by[target].body)}
        inner |= {r.tensor for t in inner if t in self.by for r in reads(self.by[t].body)}
        return any(self.passed.before.get(t) == target for t in inner)

    def recurrence(self) -> Recurrence:
        """The recurrence of the pass. Sets `common`, the conditions all folds share; adds the block to `tensors`."""
        bodies = [self.by[t].body for t in {**self.carried, **dict.fromkeys(self.shares)}]
        domains = [b.domain for b in bodies if isinstance(b, Fold)]
        common = [c for c in conjuncts(domains[0]) if all(c in conjuncts(d) for d in domains)]
        self.common = both(*common)
        start = tuple(Line(self._state(t), "=", _neutral(c.fold)) for t, c in self.carried.items())
        block = [*self._values(), *self._updates()]
        finish = tuple(
            Line(self._own(e), "=", self._term(e.body, False))
            for e in self.passed.equations
            if e.target not in self.carried and e.target not in self.virtual and self._late(e)
        )
        finish += tuple(Line(self._own(self.by[t]), "=", self._state(t)) for t in self.carried if t in self.kept)
        recur = BlockLoop(_unused("BCDEFG", self.taken), self.fixed, self.index, self.common, _BLOCK, (), (), ())
        self.tensors[_BLOCK] = Tensor(_BLOCK, recur.name, (slot_of(self.index),), "local")
        shown = replace(self.program, tensors=self.tensors, equations=(), outputs=(),
                        loops=(recur, *self.program.repeats))
        return Recurrence(shown, self.fixed, self.index, self.common, start, tuple(block), finish)

    def _late(self, equation: Equation) -> bool:
        return not isinstance(equation.body, Fold)

    def _values(self) -> list[Line]:
        """What is computed for each element of a block: the virtual values, short ones put in place."""
        used = [r.tensor for e in self.passed.equations for r in reads(e.body)]
        lines = []
        for equation in self.passed.equations:
            if (equation.target in self.virtual
                and not (used.count(equation.target) == 1 and isinstance(equation.body, Fold))):
                body = self._term(equation.body, True)
                # What an index expression reads is there where the block is, and the line has to say so for itself.
                away = any(not isinstance(sub, Position) for r in reads(body) for sub in r.subs)
                lines.append(Line(self._own(equation), "=", body, equation.domain if away else TRUE))
        return lines

    def _updates(self) -> list[Line]:
        """What a block does to the states: references and their scales first, the others, then new values are kept."""
        lines: list[Line] = []
        references = [t for t in self.carried if any(c.reference == t for c in self.carried.values())]
        for target in references:
            body = self.by[target].body
            assert isinstance(body, Fold)
            new = self._state(target, "'")
            lines.append(Line(new, "=", Apply("max", (self._state(target), self._over_block(body)))))
            lines.append(Line(self._scale(target), "=", Apply("exp", (Apply("sub", (self._state(target), new)),))))
        for target, carry in self.carried.items():
            if target in references:
                continue
            body = self.by[target].body
            body = body.then if isinstance(body, Where) else body  # over nothing a mean stays
            old, share = (self._state(target), self._over_block(body) if isinstance(body, Fold)
                          else self._term(body, True))
            if carry.reference:
                old_scaled: Term = Apply("mul", (self._scale(carry.reference), old))
            else:
                old_scaled = old
            parts = share.args if isinstance(share, Apply) and share.op == FOLDS[carry.fold].step else (share,)
            grown = FOLDS[carry.fold].merged(old_scaled, *parts)
            lines.append(Line(self._state(target, "'"), "=", grown) if target in self.primed else Line(old, "←", grown))
        return lines + [Line(self._state(t), "←", self._state(t, "'")) for t in self.carried
                        if t in {*references, *self.primed}]

    def _is_share(self, equation: Equation, virtual: frozenset[str]) -> bool:
        """One tile's own part of a value that is carried."""
        folded = isinstance(equation.body, Fold) and self.index in equation.body.bound
        return folded and equation.target not in self.carried and equation.target not in virtual

    def _scale(self, reference: str) -> Read:
        return self._made(_unused("αγω", self.taken) + self.letters[reference][1:], reference)

    def _over_block(self, fold: Fold) -> Fold:
        """The fold over the elements of B; a domain that not all folds share is said."""
        inside = Apply("eq", (Read(_BLOCK, (Position(self.index),)), ONE))
        more = (c for c in conjuncts(fold.domain) if c not in conjuncts(self.common))
        return Fold(fold.op, fold.bound, both(inside, *more), self._term(fold.body, True))

    def _state(self, target: str, prime: str = "") -> Read:
        name = self.letters[target]
        return self._made(name[:1] + prime + name[1:], target)

    def _made(self, name: str, like: str) -> Read:
        indices = tuple(i for i in self.by[like].indices if i not in self.fixed)
        key = f"·{name}"  # the program may have a tensor of the same name
        self.tensors[key] = Tensor(key, name, tuple(Slot(i.set, "upper", i.name) for i in indices), "local")
        return Read(key, tuple(map(Position, indices)))

    def _own(self, equation: Equation) -> Read:
        """A tensor of the program under its own name, all its indices written."""
        if equation.target not in self.tensors:
            slots = tuple(slot_of(i) for i in equation.indices)
            self.tensors[equation.target] = Tensor(equation.target, equation.target, slots, "local")
        return Read(equation.target, equation.axes)

    def _term(self, term: Term, inside: bool) -> Term:
        """With the state's letters; inside a block a reference is the new one."""
        used = [r.tensor for e in self.passed.equations for r in reads(e.body)]

        def change(inner: Term) -> Term:
            """A read in the letters of the recurrence: a state, a share of one, or a virtual value put in place."""
            if not isinstance(inner, Read):
                return inner
            if inner.tensor in self.passed.before:
                return self._state(self.passed.before[inner.tensor])
            if inner.tensor in self.carried:
                new = self.carried[inner.tensor].fold == "max" or inner.tensor in self.primed
                return self._state(inner.tensor, "'" if inside and new else "")
            if inner.tensor in self.shares:
                share = self.by[inner.tensor].body
                assert isinstance(share, Fold)
                return self._over_block(share)
            equation = self.by.get(inner.tensor)
            if (
                equation is not None
                and inner.tensor in self.virtual
                and isinstance(equation.body, Fold)
                and used.count(inner.tensor) == 1
            ):
                return self._term(equation.at(inner.subs), inside)
            if equation is not None:
                self._own(equation)
            return inner

        return simplify(transform(term, change), ALL) if not inside else transform(term, change)


def _unused(options: str, taken: set[str]) -> str:
    return next((x for x in options if x not in taken), 2 * options[0])


def _neutral(fold: str) -> Term:
    start = FOLDS[fold].start
    return const(int(start)) if abs(start) < 2 else Const(start)


def as_text(found: Recurrence) -> str:
    """The recurrence as source of the language."""
    if found.note:
        return f"# {found.note}\n"
    program = found.program
    domain = ", ".join(text(program, c) for c in conjuncts(found.domain)) if found.domain != TRUE else found.index.name
    lines, pad = [], ""
    if found.fixed:
        lines.append(f"for {', '.join(i.name for i in Unpacking(program).fixed(found.fixed))}:")
        pad = "    "
    lines += [f"{pad}{line_text(program, x)}" for x in found.start]
    lines.append(f"{pad}for {program.tensors[_BLOCK].text} ⊆ {{{domain}}}:")
    lines += [f"{pad}    {line_text(program, x)}" for x in found.block]
    lines += [f"{pad}{line_text(program, x)}" for x in found.finish if not _itself(program, x)]
    return "\n".join(lines) + "\n"


def guarded(term: Term) -> Term:
    """What a result is where its domain is not empty."""
    match term:
        case Where(_, then) | Apply("add", (Where(_, then), Where(Apply("not"), _))):
            return then
    return term


def _itself(program: Program, line: Line) -> bool:
    """Whether a result is a state of its own name, of which nothing is left to say."""
    right = guarded(line.right)
    return isinstance(right, Read) and program.tensors[right.tensor].text == program.tensors[line.left.tensor].text


def line_text(program: Program, line: Line) -> str:
    """One line as source of the language."""
    domain = "".join(f", {text(program, c)}" for c in conjuncts(line.domain) if c != TRUE)
    return f"{text(program, line.left)} {line.sign} {text(program, line.right)}{domain}"


def as_tex(found: Recurrence) -> str:
    """The recurrence as an aligned display of LaTeX, its blocks and fixed letters in a comment before it; a comment
    alone where the recurrence has a note in place of lines."""
    if found.note:
        return f"% {found.note}\n"
    view = Unpacking(found.program)
    program, around = view.told, view.fixed(found.fixed)
    name, said = (tex(program, Position(found.index)), conditions(program, view.term(found.domain))
                  if found.domain != TRUE else "")

    def line(x: Line) -> str:
        sign = {"←": r"\leftarrow"}.get(x.sign, x.sign)
        left, right = tex(program, view.term(x.left)), tex(program, view.term(x.right))
        where = rf",\quad {conditions(program, view.term(x.domain))}" if x.domain != TRUE else ""
        return rf"  {left} &{sign} {right}{where}"

    rows = [line(x) for x in [*found.start, *found.block, *(x for x in found.finish if not _itself(program, x))]]
    block = rf"{program.tensors[_BLOCK].text} \subseteq \{{{said or name}\}}"
    fixed = f"for fixed ({', '.join(tex(program, Position(i)) for i in around)}), " if around else ""
    head = f"% {fixed}over blocks {block}"
    return head + "\n\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}\n"
