"""What names say: of sizes in comments and in `B, T, C = x.shape`, and of what a line defines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from einc.documents.python_source.axes import extent_of, renamed
from einc.documents.python_source.patterns import shapes
from einc.documents.python_source.state import Equation, State, atom
from einc.documents.python_source.terms import Axis, Read, inside, letters_of
from einc.documents.python_source.values import CannotSayError, Instance, Plain, Scalar, Scope, Tensor, Value
from einc.ir.indices import Extent, number, size


@dataclass
class Names:
    """The names that are taken, and what the comments of the source say."""

    comments: Mapping[int, str]
    taken: set[str] = field(default_factory=set)
    commented: dict[str, Extent] = field(default_factory=dict)  # sizes by their names in comments and annotations
    versions: dict[str, int] = field(default_factory=dict)

    def size(self, state: State, word: str) -> Extent:
        """A new size that a line of the source calls so, whose name is taken from then on; a size of no name where it
        may not be called so.
        """
        if word in self.taken or word in state.numbers or (len(word) == 1 and word.islower()):
            return state.unknown(word)
        self.taken.add(word)
        return size(word)

    def attribute(self, name: str) -> str:
        """A name for an attribute that nothing sets: its own, unless an array has that."""
        return f"self_{name}" if name in self.taken else name

    def witness(self, state: State, tensor: Tensor, words: Sequence[str], scope: Scope) -> None:
        """Names sizes that have no name of their own as a line does that takes a shape apart."""
        for word, axis in zip(words, tensor.axes, strict=True):
            found = extent_of(state, axis)
            if word.isidentifier() and not word.startswith("_") and atom(found) in state.loose:
                state.equate(found, self.size(state, word))

    def spoken(self, state: State, word: str, scope: Scope | None) -> Extent | None:
        """The size that a word of a comment or an annotation is; None where it is a new one."""
        if word.isdigit():
            return number(int(word))
        value: Value | None = None if scope is None else scope.find(word.rpartition(".")[2])
        own = None if scope is None else scope.find("self")
        if value is None and isinstance(own, Instance):
            value = own.values.get(word.rpartition(".")[2])
        match value:
            case Scalar(extent=Extent() as found):
                return found
            case Plain(int() as count):
                return number(count)
        return self.commented.get(word)

    def declared(self, state: State, name: str, words: Sequence[str]) -> None:
        """Notes an argument with the sizes that a comment, an annotation or an option gives it."""
        extents = []
        for word in words:
            found = self.spoken(state, word, None)
            if found is None:
                found = self.commented[word] = self.size(state, word)
            extents.append(found)
        state.array(name, tuple(extents), tuple(map(initial, words)))

    def comment(self, state: State, value: Tensor, line: int, name: str, scope: Scope) -> None:
        """Names sizes of what a line defines as the comment behind it does, and notes which it says are equal."""
        for shape in shapes(self.comments.get(line, "")):
            if len(shape.sizes) != len(value.axes) or shape.name not in {"", name}:
                continue
            for word, axis in zip(shape.sizes, value.axes, strict=True):
                found, said = extent_of(state, axis), self.spoken(state, word, scope)
                if said is None and atom(found) in state.loose:
                    said = self.size(state, word)
                self.commented.setdefault(word, said or found)
                try:
                    state.equate(found, said or found)
                except CannotSayError:
                    state.note(f"A comment calls an axis of `{name}` `{word}`; by the code it is `{found}`.")
            return

    def equation(self, state: State, name: str, value: Tensor) -> Tensor:
        """An array under a name of its own, unless it is an array under other axes or has no data at all."""
        data = any(isinstance(part, Read) for part in inside(value.term))
        if isinstance(value.term, Read) or not data or value.truth:
            return value
        written = self.version(state, name)
        used = letters_of(value.term)
        letters = [x for axis in value.axes for x in axis if x in used]
        state.equations.append(Equation(written, tuple((x,) for x in letters), value.term))
        new = {x: (state.letter(x.extent, x.hint),) for axis in value.axes for x in axis}
        moved = renamed(value, new)
        slots = tuple(new[x] for x in letters)
        return Tensor(moved.axes, Read(written, slots), moved.condition, moved.other, moved.partial)

    def version(self, state: State, name: str) -> str:
        """The name with as many primes as times that it was set before."""
        count = self.versions.get(name, 1 if name in state.arrays or name in state.numbers else 0)
        self.versions[name] = count + 1
        return name + "'" * count


def returned(state: State, names: Names, name: str, value: Tensor) -> None:
    """Notes what the function gives back: the last equation where it is that, else an equation of its own."""
    last = next((n for n, e in enumerate(state.equations) if isinstance(value.term, Read)
                 and value.term.name == e.name and not e.output), None)
    plain: tuple[Axis, ...] = tuple(axis for axis in value.axes if axis)
    if value.axes and len(plain) < len(value.axes):
        state.note(f"`{name}` lacks its axes of one element here.")
    if last is not None and value.condition is None and isinstance(value.term, Read) and (
            value.term.slots == plain and all(len(axis) == 1 for axis in plain)):
        one = state.equations[last]
        state.equations[last] = Equation(one.name, one.axes, one.term, True)
        return
    state.equations.append(Equation(names.version(state, name), plain, value.term, True))


_NAME = re.compile(r"[A-Za-z]+|\d+")


@dataclass(frozen=True)
class Written:
    """A name as the language has it: a word and its labels."""

    head: str
    labels: tuple[str, ...] = ()
    primes: str = ""

    def text(self, scripts: str = "", braces: bool = False) -> str:
        """The name in index notation, labels and `scripts` below it; with `braces` also where there are no scripts."""
        plain = [x for x in self.labels if len(x) == 1 or x.isdigit()]
        if len(self.labels) == 1 and not plain:
            return f"{self.head}{self.primes}_{self.labels[0]}" + (f"_{{{scripts}}}" if scripts or braces else "")
        parts = [x if x in plain else f"\\text{{{x}}}" for x in self.labels]
        inner = " ".join([*parts, *([scripts] if scripts else [])])
        return self.head + self.primes + (f"_{{{inner}}}" if inner else "")

    @property
    def bare(self) -> str:
        """The name of a number, which has no scripts."""
        return f"{self.head}_{self.labels[0]}" if len(self.labels) == 1 and not self.primes else self.text()

    @property
    def python(self) -> str:
        """The name that the compiled function has for it."""
        count = len(self.primes)
        prime = ("_prime" + (str(count) if count > 1 else "")) if count else ""
        return self.head + prime + "".join(f"_{x}" for x in self.labels)


def written(name: str, reserved: frozenset[str], hints: Sequence[str] = ()) -> Written:
    """`self.qkv.weight` -> W_qkv; `Q_th_d` of axes t, h and d -> Q; `x2` -> x_2."""
    core = name.rstrip("'")
    primes = name[len(core):]
    owner, _, last = core.rpartition(".")
    if owner:
        core = {"weight": "W_", "bias": "b_"}.get(last, last + "_") + owner.replace(".", "_")
    pieces = _NAME.findall(core)
    if not pieces or not pieces[0].isalpha():
        pieces = ["x", *pieces]
    head, labels = pieces[0], tuple(pieces[1:])
    if labels and hints and all(set(x) <= set(hints) for x in labels):
        labels = ()
    if head in reserved:
        head = head.capitalize() if head.capitalize() not in reserved else head.upper()
    return Written(head, labels, primes)


def initial(word: str) -> str:
    """The letter of a size by its name: b of `B`, h of `n_heads`, d of `d_model` and of `head_dim`."""
    pieces = [x for x in word.lower().split("_") if x] or [""]
    return (pieces[0] if len(pieces[0]) == 1 and pieces[0] != "n" else pieces[-1])[:1]
