"""Scope: what the declarations of a program say, before any equation is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from einc.checking.declarations.borrowed import Text
from einc.checking.declarations.names import Name
from einc.errors.report import Problem, Report, Source, Span
from einc.ir.claimed import Claim
from einc.ir.elements import REAL, Element
from einc.ir.folds import FOLDS
from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.primitives import PRIMITIVES
from einc.ir.programs import Slot, TypedProgram
from einc.ir.terms import TRUE, Term, conjuncts, free_indices
from einc.syntax import tree as s

UNIFORM = "uniform"  # what it means depends on the indices of its argument, so no row and no definition says it
CALLABLE = frozenset({UNIFORM, *(row.name for row in PRIMITIVES.values() if row.callable)})


@dataclass(eq=False)
class LinesSaid:
    """What lines say of where a tensor exists: `: all`, masks, and the slots of which they speak."""

    total: bool = False  # declared `: all`
    stated: frozenset[int] = frozenset()  # slots about whose domain something was said
    whole_lines: frozenset[int] = frozenset()  # slots of which it was said that all positions are meant
    masks: list[Mask] = field(default_factory=list)


@dataclass(eq=False)
class Points:
    """The points at which a tensor exists, in the letters of its equation."""

    domain: Term | None = None
    letters: tuple[Index, ...] = ()
    axes: tuple[tuple[Index, ...], ...] = ()  # the same, with the parts of composites; `domain` is over these
    lines: dict[int, Term] = field(default_factory=dict)


@dataclass(eq=False)
class Signature:
    """A name with its labels and the sets of its slots; grows its equation and its masks while a file is read."""

    name: Name
    slots: tuple[Slot, ...]
    role: Literal["input", "weight", "local"]
    span: Span
    key: str = ""
    element: Element = REAL
    alias: str | None = None
    said: LinesSaid = field(default_factory=LinesSaid)
    points: Points = field(default_factory=Points)
    carried: frozenset[Index] = frozenset()  # indices that a `for` around its equation gives it, written or not
    members: Members | None = None  # of a set
    inferred: bool = False  # an input that nothing declares

    @property
    def integer(self) -> bool:
        """Whether the elements of the tensor are whole numbers."""
        return self.element.kind == "integer"

    def named(self, key: str) -> None:
        """Gives the tensor its key, and its slots a letter each."""
        self.key = key
        self.points.letters = tuple(Index(x.name, x.set) for x in self.slots)
        self.points.axes = tuple((x,) for x in self.points.letters)

    @property
    def text(self) -> str:
        """The name with the letters of its slots, as in a text."""
        lower = " ".join(x.name for x in self.slots if x.level == "lower")
        upper = " ".join(f"({x.name})" if x.level == "label" else x.name for x in self.slots if x.level != "lower")
        return self.name.text + (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "")


@dataclass(frozen=True, eq=False)
class Lengths:
    """`time(T_r)`: the tensor of the lengths, the index of the requests, and where it was said."""

    name: Name
    of: Index
    span: Span


@dataclass(eq=False)
class Members:
    """`set S_t = topk_{s ≤ t}(I_{t s}, n)`: how it is written, and how many it has at most.

    When it is read, `key` is the tensor that is 1 on its elements, `index` stands for one of them, in `domain`.
    """

    written: s.Expression
    count: Extent
    loop: Loop
    span: Span
    key: str = ""
    index: Index | None = None
    domain: Term = TRUE


@dataclass(eq=False)
class Rounds:
    """`for B ⊆ {s ≤ t}:`, or for one element a round: the name of the block, or none;
    `index` and `domain` come when it is read.

    `layers`: `for ℓ in 1..N:`, rounds in order of whatever stands in the block, counted
    by an index that is theirs alone. `down`: `for s in T..1:`, from the last element to the first. `around`: the rounds
    in each of which these begin anew.
    """

    block: str
    conditions: tuple[s.Expression, ...]
    span: Span
    key: str = ""
    index: Index | None = None
    domain: Term = TRUE
    layers: bool = False
    down: bool = False
    around: Rounds | None = None

    @property
    def every(self) -> tuple[Rounds, ...]:
        """These rounds and all rounds that stand around them, the innermost first."""
        return (self, *(self.around.every if self.around is not None else ()))

    def conditions_on(self, letters: frozenset[Index]) -> tuple[Term, ...]:
        """What rounds of one element say of a value with these letters: at which elements there is one."""
        if self.block or self.layers or self.domain == TRUE:
            return ()
        return tuple(c for c in conjuncts(self.domain) if free_indices(c) <= letters)


@dataclass(frozen=True, eq=False)
class Loop:
    """What stands around a line: the indices that every name defined there carries, and
    the rounds that it belongs to."""

    fixed: tuple[Index, ...] = ()
    rounds: Rounds | None = None

    @property
    def layer(self) -> tuple[Index, ...]:
        """The index that counts the rounds, which what is asked for in them carries: none or one."""
        return tuple(one.index for one in (self.rounds.every if self.rounds is not None else ())
                     if one.layers and one.index is not None)


OPEN = Loop()  # nothing stands around

@dataclass(frozen=True)
class Mask:
    """`mask L_{t s} : s ≤ t`: the indices of its left side, and the predicate as written (None: all)."""

    axes: tuple[tuple[Index, ...], ...]
    predicate: tuple[s.Clause, ...] | None
    span: Span


@dataclass(frozen=True)
class Map:
    """`map π(h) = ceil(h G / H) : g`, a map to an index; without `target` to whole numbers."""

    name: str
    params: tuple[Index, ...]
    body: s.Expression
    target: Index | None
    span: Span


@dataclass(frozen=True)
class Parameter:
    """A parameter of a definition, the letters it is indexed by, and what it is where a call does not give it."""

    name: Name
    letters: tuple[tuple[str, Literal["lower", "upper", "label"]], ...]
    default: s.Expression | None = None


@dataclass(frozen=True)
class Function:
    """`def f_{s}(x_s, b) = …`: its own index letters, its parameters, its body, and the `with` definitions."""

    name: str
    own: tuple[str, ...]
    params: tuple[Parameter, ...]
    body: s.Expression
    withs: tuple[s.Relation, ...]
    span: Span

    @property
    def letters(self) -> tuple[str, ...]:
        """The indices of its own, in the order of its script, or else of its parameters."""
        return self.own or tuple(dict.fromkeys(x for p in self.params for x, _ in p.letters))


@dataclass(frozen=True)
class Outcomes:
    """What became of the equations of a paper, by the places where they stand.

    `kept` are the tensors of the program that they define, `passed` the equations or declarations that hold in place of
    others, `failed` what is wrong with equations that nothing else needs, `inferred` the inputs that nothing declares,
    each as it is written, `guessed` what an equation is read as and does not say, `inlined` definitions of functions
    that are read where they are applied.
    """

    kept: Mapping[Span, str] = field(default_factory=dict)
    passed: Mapping[Span, Span] = field(default_factory=dict)
    failed: Mapping[Span, Problem] = field(default_factory=dict)
    inferred: Mapping[str, str] = field(default_factory=dict)
    guessed: Mapping[Span, str] = field(default_factory=dict)
    inlined: frozenset[Span] = frozenset()


@dataclass(frozen=True)
class Called:
    """A spec that is called: what it means, its folds over whole lines that were meant,
    what it claims, what became of it."""

    program: TypedProgram
    meant: frozenset[Term]
    claims: tuple[Claim, ...] = ()
    account: Outcomes = field(default_factory=Outcomes)


class Library(Protocol):
    """Finds a spec by the name that a call gives it. Problem where there is none."""

    def __call__(self, name: str, span: Span) -> Called: ...


@dataclass(eq=False)
class Texts:
    """The texts of a program: its own, those that it uses, by their names, and what all of them may call.

    `implied` are the indices that are summed without a Σ, by the products of the texts in which they are a pair.
    """

    root: Text = field(default_factory=lambda: Text(Source("", "")))
    used: dict[str, Text] = field(default_factory=dict)
    library: Library | None = None
    prelude: frozenset[str] = frozenset()
    implied: dict[Span, tuple[Index, ...]] = field(default_factory=dict)


@dataclass(eq=False)
class Alphabet:
    """Every index of a program with the place of its line, and the letters that called specs brought along."""

    indices: dict[str, Index] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    letters: dict[str, IndexSet] = field(default_factory=dict)


@dataclass(eq=False)
class SetTable:
    """Sets that are made of others: the parts of a product and of a direct sum, and the lengths of each ragged set."""

    splits: dict[IndexSet, tuple[IndexSet, ...]] = field(default_factory=dict)
    sums: dict[IndexSet, tuple[Index, ...]] = field(default_factory=dict)
    lengths: dict[IndexSet, Lengths] = field(default_factory=dict)


@dataclass(eq=False)
class SizeTable:
    """The sizes of a program, with their first places, and the whole numbers that it names."""

    sizes: dict[str, Span] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    dims: set[str] = field(default_factory=set)  # sizes that have a line of their own
    scalars: set[str] = field(default_factory=set)  # whole numbers without slots, which may stand in a slot


@dataclass(eq=False)
class Stems:
    """The signatures by their names, by names without labels, and the labels that stand on these."""

    by_name: dict[Name, list[Signature]] = field(default_factory=dict)
    by_stem: dict[Name, list[Signature]] = field(default_factory=dict)
    labels: dict[Name, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Foreign:
    """What is known of a text that is not written for einc alone: of a paper, or of a function of Python."""

    infers: bool = False  # whether what nothing declares is an input
    unknown: frozenset[str] = frozenset()  # what a paper defines in a way that cannot be read, as written
    shaped: frozenset[str] = frozenset()  # heads of names that words of a paper say are vectors and matrices
    inlined: frozenset[Span] = frozenset()  # definitions of functions that are read where they are applied
    guessed: Mapping[Span, str] = field(default_factory=dict)  # of equations, what they are read as and do not say


@dataclass
class Scope:
    """All that is declared. Filled by `declare` and `collect`, then only read.

    `lost` are names whose declaration was told to be wrong: what fails for want of them is not told again.
    """

    report: Report
    texts: Texts = field(default_factory=Texts)
    alphabet: Alphabet = field(default_factory=Alphabet)
    sets: SetTable = field(default_factory=SetTable)
    numbers: SizeTable = field(default_factory=SizeTable)
    maps: dict[str, Map] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    signatures: list[Signature] = field(default_factory=list)
    stems: Stems = field(default_factory=Stems)
    lost: set[str] = field(default_factory=set)
    foreign: Foreign = Foreign()

    def add(self, signature: Signature) -> None:
        """Adds a signature to the scope, and to its tables by name and by stem with the labels of the stem."""
        stem = signature.name.stem
        self.signatures.append(signature)
        self.stems.by_name.setdefault(signature.name, []).append(signature)
        self.stems.by_stem.setdefault(stem, []).append(signature)
        if not signature.name.labels <= self.labels(stem):
            self.stems.labels[stem] = self.labels(stem) | signature.name.labels

    def text(self, span: Span) -> Text:
        """The text that a place is in; of a paper and the files beside it, all are one."""
        return self.texts.used.get(span.source.name, self.texts.root)

    def seen(self, span: Span) -> Mapping[str, Index]:
        """The indices that the lines of the text around a place may speak of."""
        text = self.text(span)
        return text.seen or text.brought()

    def named(self, stem: Name) -> list[Signature]:
        """Every signature of the name, whatever its labels."""
        return self.stems.by_stem.get(stem.stem, [])

    def exactly(self, name: Name) -> list[Signature]:
        """Every signature of the name with its labels."""
        return self.stems.by_name.get(name, [])

    def labels(self, stem: Name) -> frozenset[str]:
        """Returns the labels that some signature with this stem has."""
        return self.stems.labels.get(stem.stem, frozenset())

    def find(self, name: Name, sets: tuple[IndexSet, ...]) -> Signature | None:
        """Returns the signature of this name over exactly these sets, in this order; None if there is none."""
        return next((x for x in self.exactly(name) if tuple(y.set for y in x.slots) == sets), None)

    @property
    def applied(self) -> frozenset[str]:
        """The names that may be applied: maps, definitions and callable primitives."""
        return frozenset(self.maps) | frozenset(self.functions) | CALLABLE

    @property
    def reserved(self) -> frozenset[str]:
        """The names that a program may not give to its own functions."""
        return self.texts.prelude | CALLABLE | frozenset(FOLDS)

    def add_extent_sizes(self, extent: Extent, span: Span) -> None:
        """Adds every size in an extent to the known sizes, with this span as its first place."""
        for name in extent.sizes:
            self.numbers.sizes.setdefault(name, span)

    @contextmanager
    def telling(self, statement: s.Statement | None = None, lost: Iterable[str] = ()) -> Iterator[None]:
        """What goes wrong inside is told, once for a statement, and the names it would have declared are lost."""
        try:
            yield
        except Problem as problem:
            self.lost.update(lost)
            if statement is None or not statement.broken:
                self.report.add(problem)
