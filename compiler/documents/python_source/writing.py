"""What was found out -> the text of a spec: sizes, letters with their classes, what is given, equations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase

from einc.documents.python_source.axes import product
from einc.documents.python_source.naming import Written, initial, written
from einc.documents.python_source.printing import Printer
from einc.documents.python_source.splits import Splits, refined
from einc.documents.python_source.state import Array, Equation, State
from einc.documents.python_source.terms import (
    Compare,
    Condition,
    Fold,
    Letter,
    Line,
    Place,
    Read,
    SizeOf,
    Term,
    inside,
    letters_of,
)
from einc.documents.python_source.values import CannotSayError
from einc.ir.indices import Extent, size

TIMES = ("t", "s", "u", "r")
ORDER = {"<", "≤", ">", "≥"}
NOT_LETTERS = {"e"}  # a power of e


@dataclass
class Writer:
    """The names of one spec, given out as they are asked for."""

    state: State
    reserved: frozenset[str]
    time: frozenset[str]
    arrays: dict[str, Written] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)  # a size -> its name in the text
    pools: dict[Extent, list[str]] = field(default_factory=dict)
    temporal: set[Extent] = field(default_factory=set)
    summed: set[Extent] = field(default_factory=set)
    asked: list[Extent] = field(default_factory=list)  # axes of which only the reader knows whether they are time
    taken: set[str] = field(default_factory=set)

    def text(self, everything: bool) -> str:
        """The lines of the spec. `everything` says of each output that all positions are meant."""
        arrays = [replace(a, letters=tuple(map(self.state.known, a.letters))) for a in self.state.arrays.values()]
        equations = [Equation(e.name, tuple(tuple(map(self.state.known, axis)) for axis in e.axes),
                              self.state.resolved(e.term), e.output) for e in self.state.equations]
        shapes = {a.name: tuple(x.extent for x in a.letters) for a in arrays}
        shapes |= {e.name: tuple(product(x.extent for x in axis) for axis in e.axes) for e in equations}
        equations, splits = refined(self.state, equations, shapes)
        used = {p.name for e in equations for p in inside(e.term) if isinstance(p, Read)}
        arrays = [a for a in arrays if a.name in used]
        self._name_arrays(arrays, equations)
        self._classify(arrays, equations, splits)
        self._name_sizes(arrays, equations)
        lines = [self._given(array) for array in arrays]
        body = [self._equation(e, everything) for e in equations]
        numbers = [self._number(name, kind) for name, kind in self.state.numbers.items()
                   if name in used or (kind == "dim" and self._only_in_bodies(name, arrays, equations))]
        head = self._indices(splits)
        return "\n".join([*head, *numbers, *lines, "", *body]) + "\n"

    # names

    def _name_arrays(self, arrays: Sequence[Array], equations: Sequence[Equation]) -> None:
        """Gives each array a name of the language; no two have one name and one number of slots."""
        hints = {a.name: [x.hint for x in a.letters] for a in arrays}
        for name in (*(a.name for a in arrays), *(e.name for e in equations),
                     *(n for n, kind in self.state.numbers.items() if kind == "input")):
            for found in (written(name, self.reserved, hints.get(name, ())), written(name, self.reserved)):
                if found not in self.arrays.values():
                    break
            while found in self.arrays.values():
                found = Written(found.head, found.labels, found.primes + "'")
            self.arrays[name] = found
        self.taken |= {w.head for w in self.arrays.values()} | NOT_LETTERS | self.reserved
        self.taken |= {label for w in self.arrays.values() for label in w.labels}

    def _name_sizes(self, arrays: Sequence[Array], equations: Sequence[Equation]) -> None:
        """Gives each size a name: the one that the source gives it, else the capital of its letter."""
        every = [x.extent for a in arrays for x in a.letters]
        for e in equations:
            every += [x.extent for x in letters_of(e.term)] + [x.extent for axis in e.axes for x in axis]
            every += [p.extent for p in inside(e.term) if isinstance(p, SizeOf)]
        names = list(dict.fromkeys(name for extent in every for name in sorted(extent.sizes)))
        for name in sorted(names, key=lambda n: n in self.state.loose):
            made = written(name, self.reserved).bare if name not in self.state.loose else ""
            if not made:
                hint = name.partition(" ")[0]
                options = [hint.upper() if len(hint) == 1 else hint, *(f"n_{x}" for x in (hint, *ascii_lowercase))]
                made = next(x for x in options if x and x not in self.taken and x not in self.sizes.values())
            self.sizes[name] = made
        self.taken |= set(self.sizes.values()) | {label for n in names if n not in self.state.loose
                                                  for label in written(n, self.reserved).labels}

    def size(self, extent: Extent) -> str:
        """An extent in the names of the text."""
        return str(extent.put({name: size(made) for name, made in self.sizes.items()}))

    # classes

    def _classify(self, arrays: Sequence[Array], equations: Sequence[Equation], splits: Splits) -> None:
        """Finds the class of each index: time is what positions are compared along, and what the reader says; what is
        summed is a feature. Writes to `self.temporal`. Raises CannotSayError where the reader names what is not there.
        """
        hints: dict[str, set[Extent]] = {}
        every = [*(x for a in arrays for x in a.letters), *(x for e in equations for x in letters_of(e.term))]
        for letter in every:
            hints.setdefault(letter.hint, set()).add(letter.extent)
            hints.setdefault(str(letter.extent), set()).add(letter.extent)
        for word in self.time - {"none"}:
            if word not in hints:
                raise CannotSayError(f"`{word}` of --time is no letter and no size of this function")
            self.temporal |= hints[word]
        for equation in equations:
            for part in inside(equation.term):
                self._learn(part)
        for whole, parts in splits.items():
            self.summed |= {whole, *parts}
        self.summed |= {x.extent for a in arrays if a.weight for x in a.letters}
        self.asked = [e for e in dict.fromkeys(self.asked) if e not in self.temporal and e.constant is None
                      and e not in splits and not any(e in parts for parts in splits.values())
                      and e not in {x.extent for a in arrays if a.weight for x in a.letters}]

    def _learn(self, part: Term | Condition) -> None:
        """Keeps what a part of a term says of the extents in it: which are ordered, summed, or along a line."""
        match part:
            case Compare(sign, left, right) if sign in ORDER:
                self.temporal |= {x.letter.extent for x in (*inside(left), *inside(right)) if isinstance(x, Place)}
            case Fold(_, letters):
                self.summed |= {x.extent for x in letters}
            case Line(name, letters, condition):
                self.summed |= {x.extent for x in letters}
                self.asked += [x.extent for x in letters] if condition is None and name.islower() else []
            case Place(letter):
                self.summed.add(letter.extent)
            case _:
                pass

    def _class(self, extent: Extent) -> str:
        return "time" if extent in self.temporal else "feature" if extent in self.summed else "batch"

    # letters

    def _letter(self, letter: Letter, used: Iterable[str]) -> str:
        """A name for a letter in one equation: one of its set that stands for no other letter there. Raises
        CannotSayError where all are taken."""
        pool = self.pools.setdefault(letter.extent, [])
        if letter.hint in pool and letter.hint not in used:
            return letter.hint
        if free := [name for name in pool if name not in used]:
            return free[0]
        known = {x for names in self.pools.values() for x in names} | self.taken
        first = pool[0] if pool else ""
        word = initial(next(iter(sorted(letter.extent.sizes)), "n").partition(" ")[0])
        options = [letter.hint, *(TIMES if letter.extent in self.temporal else ()), f"{first}'" if first else "",
                   f"{first}''" if first else "", word, *ascii_lowercase[::-1]]
        names = (x for x in options if x and ((len(x) == 1 and x.isalpha() and x.isascii()) or x.endswith("'")))
        found = next((x for x in names if x not in known), "")
        if not found:
            raise CannotSayError("there are more axes than letters")
        pool.append(found)
        return found

    def _printer(self, letters: Iterable[Letter]) -> Printer:
        names: dict[Letter, str] = {}
        for letter in dict.fromkeys(letters):
            names[letter] = self._letter(letter, names.values())
        return Printer(names, lambda name, scripts: self.arrays[name].text(scripts), self.size,
                       lambda x: x.extent in self.temporal)

    # lines

    def _indices(self, splits: Splits) -> list[str]:
        """The declarations of all letters; those of the parts of a set are declared, too."""
        made: dict[Extent, str] = {}
        for whole, parts in splits.items():
            self._printer([Letter(-1, whole)])
            printer = self._printer([Letter(-n, part) for n, part in enumerate(parts, 2)])
            made[whole] = f" = ({' '.join(printer.letters.values())})"
        out = []
        for extent, names in self.pools.items():
            plain = [n for n in names if "'" not in n]
            out.append(f"index {', '.join(plain)} : {self._class(extent)}({self.size(extent)}){made.get(extent, '')}")
        return out

    def _given(self, array: Array) -> str:
        printer = self._printer(array.letters)
        name = self.arrays[array.name]
        scripts = " ".join(printer.letters[x] for x in array.letters)
        word = "weight" if array.weight else "input"
        renamed = f" as {array.name}" if name.python != array.name and array.name.isidentifier() else ""
        whole = " : int" if array.name in self.state.integers else ""
        said = f"  # {array.said}" if array.said else ""
        return f"{word} {name.text(scripts)}{renamed}{whole}{said}"

    def _number(self, name: str, kind: str) -> str:
        made = self.arrays.get(name, written(name, self.reserved))
        if kind == "dim":
            return f"dim {self.sizes.get(self.state.word(name), made.bare)}"
        return f"input {made.text()}" + (f" as {name}" if made.python != name and name.isidentifier() else "")

    def _only_in_bodies(self, name: str, arrays: Sequence[Array], equations: Sequence[Equation]) -> bool:
        bodies = {n for e in equations for p in inside(e.term) if isinstance(p, SizeOf) for n in p.extent.sizes}
        axes = {n for a in arrays for x in a.letters for n in x.extent.sizes}
        axes |= {n for e in equations for x in letters_of(e.term) for n in x.extent.sizes}
        return name in bodies - axes

    def _equation(self, equation: Equation, everything: bool) -> str:
        """The line of an equation; `everything` says of an output that it exists at every element."""
        left = [x for axis in equation.axes for x in axis]
        printer = self._printer([*left, *letters_of(equation.term)])
        name = self.arrays[equation.name]
        scripts = " ".join(printer.slot(axis) for axis in equation.axes)
        text = printer.term(equation.term)
        whole = " : all" if equation.output and everything else ""
        core = equation.name.rstrip("'")
        said = "_prime" + (str(len(name.primes)) if len(name.primes) > 1 else "") if name.primes else ""
        renamed = f" as {core}{said}" if equation.output and name.python != core + said and core.isidentifier() else ""
        return f"{'output ' if equation.output else ''}{name.text(scripts)} = {text}{whole}{renamed}"
