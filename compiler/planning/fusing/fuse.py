"""NormalProgram -> groups: which equations share a kernel. Values that are not stored stand in each that reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from einc.ir.dependence import behind, in_order, reached
from einc.ir.indices import DATA, Index, primed
from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import Apply, Const, Fold, Join, Position, Read, Size, bound_indices, free_indices, reads, walk
from einc.planning.analysis.prefix import running_sum
from einc.planning.contractions.materialise import folded_away, open_of, plain_subs, unstored
from einc.planning.fusing.columns import together
from einc.planning.fusing.rows import needs, relettered, rows
from einc.planning.fusing.split import needed, split
from einc.planning.streaming.stream import stream
from einc.transforms.laws.simplify import picked

Pairs = frozenset[tuple[str, str]]  # a value, and one that it reads
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg"})


@dataclass(frozen=True)
class FusedGroup:
    """Equations of one kernel, in order, their indices renamed so that one letter is one
    axis; `virtual` are not stored."""

    equations: tuple[Equation, ...]
    virtual: frozenset[str]
    along: Index | None = None  # of rows that stay whole in a tile


def groups(program: NormalProgram, ordered: bool = False) -> list[FusedGroup]:
    """The program cut into kernels; an equation that fuses with nothing is a group of its own.

    `ordered`: the tiles of a kernel run one after the other.
    """
    kept = {key for _, key in program.outputs}
    virtual = unstored(program, kept)
    barred: Pairs = frozenset()
    while True:
        made = _grouped(program, virtual, barred)
        unmade = frozenset().union(*(_unmade(program, g, virtual) for g in made)) - barred
        failed = next((g for g in made if _unified(g, virtual, barred) is None), None)
        if failed is None and not unmade:
            break
        barred |= unmade
        virtual = virtual - (_small(failed, virtual) if failed and not unmade else set())
    out = []
    for members in made:
        unified = _unified(members, virtual, barred)
        assert unified is not None
        mine = virtual & {e.target for e in members}
        pieces = split(program, unified, mine, ordered) if mine else [tuple(unified)]
        out += [FusedGroup(x, mine & {e.target for e in x}) for x in pieces]
    return _ordered(_apart(_in_columns(program, _in_rows(program, _apart(out)))))


def _small(members: list[Equation], virtual: frozenset[str]) -> set[str]:
    """What of a kernel that cannot be is stored after all: values of one position if it has any."""
    mine = [e for e in members if e.target in virtual]
    small = {e.target for e in mine if sum(i.set.cls in DATA for i in e.indices) < 2}
    return small or {e.target for e in mine}


def _in_rows(program: NormalProgram, made: list[FusedGroup]) -> list[FusedGroup]:
    """Groups of one equation each that share rows as one group."""
    alone = frozenset(g.equations[0].target for g in made if len(g.equations) == 1 and not g.virtual)
    out = []
    outputs = frozenset(key for _, key in program.outputs)
    for found in rows(program.equations, alone, outputs):
        mine = {e.target for e in found.equations}
        read = outputs.union(*(e.reads for e in program.equations if e.target not in mine))
        virtual = frozenset(e.target for e in found.equations if found.along in e.indices and e.target not in read)
        out.append(FusedGroup(found.equations, virtual, found.along))
    shared = {e.target for g in out for e in g.equations}
    return [*(g for g in made if g.equations[0].target not in shared or g.virtual), *out]


def _in_columns(program: NormalProgram, made: list[FusedGroup]) -> list[FusedGroup]:
    """Groups that fold the same columns as one group."""
    plain = [(g.equations, g.virtual) for g in made if g.along is None]
    passes = [FusedGroup(equations, virtual) for equations, virtual in together(plain, needs(program.by_target))]
    return [*passes, *(g for g in made if g.along is not None)]


def _apart(made: list[FusedGroup]) -> list[FusedGroup]:
    """The groups such that none waits for another that waits for it: what needs another
    group's results comes in one after it."""
    while True:
        owner = {e.target: n for n, g in enumerate(made) for e in g.equations if e.target not in g.virtual}
        needs = [{owner[r] for e in g.equations for r in e.reads if r in owner} - {n} for n, g in enumerate(made)]
        for n in _stuck(needs):
            group = made[n]
            stored = [e.target for e in group.equations if e.target not in group.virtual]
            readers = [[k for k, wanted in enumerate(needs) if m in wanted] for m in range(len(needs))]
            waiting = {*reached([n], readers.__getitem__)} - {n}
            late: set[str] = set()
            for equation in group.equations:
                if any(r in late or owner.get(r) in waiting for r in equation.reads):
                    late.add(equation.target)
            if 0 < len(rest := [t for t in stored if t not in late]) < len(stored):
                by, parts = {e.target: e for e in group.equations}, (set(rest), {t for t in stored if t in late})
                inner = [FusedGroup(x, group.virtual & {e.target for e in x})
                         for x in (needed(by, group.virtual, part) for part in parts)]
                made = [*made[:n], *inner, *made[n + 1 :]]
                break
        else:
            return made


def _stuck(needs: list[set[int]]) -> list[int]:
    """The groups that wait for each other, and those that wait for them: all others can come one after another."""
    wanted = [len(found) for found in needs]
    readers: list[list[int]] = [[] for _ in needs]
    for n, found in enumerate(needs):
        for m in found:
            readers[m].append(n)
    ready = [n for n, count in enumerate(wanted) if not count]
    for n in ready:
        for reader in readers[n]:
            wanted[reader] -= 1
            ready += [] if wanted[reader] else [reader]
    return [n for n, count in enumerate(wanted) if count]


def _grouped(program: NormalProgram, virtual: frozenset[str], barred: Pairs) -> list[list[Equation]]:
    """The equations in groups, one a kernel: those connected through virtual values, and what only finishes results."""
    parent = {e.target: e.target for e in program.equations}

    def root(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    for equation in program.equations:
        for read in reads(equation.body):
            if read.tensor in virtual:
                parent[root(equation.target)] = root(read.tensor)
    for equation, result, _ in _feeding(program.equations, virtual, barred):
        parent[root(equation.target)] = root(result.target)
    _finish(program, virtual, barred, parent, root)
    members: dict[str, list[Equation]] = {}
    for equation in program.equations:
        members.setdefault(root(equation.target), []).append(equation)
    return list(members.values())


def _feeding(equations: Iterable[Equation], virtual: frozenset[str],
             barred: Pairs) -> list[tuple[Equation, Equation, Index]]:
    """Virtual values that read results of folds over the very set they still run along: one pass may do both."""
    by = {e.target: e for e in equations}
    gone = folded_away(by, virtual)
    out = []
    for equation in by.values():
        for read in reads(equation.body) if equation.target in virtual else ():
            if any(r.tensor == read.tensor and r.subs != read.subs for r in reads(equation.body)):
                continue  # read at two places, it is needed whole before the pass
            if read.tensor in by and running_sum(by[read.tensor]):
                continue  # a sum that runs on is made before the pass, in more digits
            letters = free_indices(read)
            for result in _results(read, by) if (equation.target, read.tensor) not in barred else ():
                assert isinstance(result.body, Fold)
                set_ = result.body.bound[0].set
                along = [i for i in equation.indices
                         if i not in letters and i.set == set_ and i in gone.get(equation.target, ())]
                if len(along) == 1 and set_.cls in DATA and open_of(letters) == open_of(equation.indices) - set(along):
                    out.append((equation, result, along[0]))
    return out


def _results(read: Read, by: Mapping[str, Equation]) -> list[Equation]:
    """The folds over one index that a value is, or is made of by arithmetic alone."""
    equation = by.get(read.tensor)
    if equation is None or not plain_subs(read):
        return []
    if isinstance(equation.body, Fold):
        return [equation] if len(equation.body.bound) == 1 else []
    for term in walk(equation.body):
        if (not isinstance(term, Read | Const | Size | Position)
            and not (isinstance(term, Apply) and term.op in _ARITHMETIC)):
            return []
    return [f for r in reads(equation.body) for f in _results(r, by)]


def _unmade(program: NormalProgram, members: list[Equation], virtual: frozenset[str]) -> Pairs:
    """Values made of folds that a virtual one reads, where the pass over both does not come about."""
    by = {e.target: e for e in members}
    pairs = frozenset(
        (e.target, r.tensor) for e in members if e.target in virtual for r in reads(e.body)
        if r.tensor in by and r.tensor not in virtual and not isinstance(by[r.tensor].body, Fold)
    )
    unified = _unified(members, virtual, frozenset()) if pairs else None
    if unified is None:
        return pairs
    inside = {e.target for e in members}
    kept = {key for e in program.equations if e.target not in inside for key in e.reads}
    kept |= {key for _, key in program.outputs}
    passed = stream(tuple(unified), virtual & inside, frozenset(kept) - virtual, frozenset(program.tensors))
    return frozenset() if passed.carries else pairs


def _finish(program: NormalProgram, virtual: frozenset[str], barred: Pairs, parent: dict[str, str],
            root: object) -> None:
    """Joins to a kernel pointwise equations over its own results, if all its other operands stand before the kernel.

    Results along two axes, each read at the same position, are no axis of one kernel: then it stays apart.
    """
    assert callable(root)
    equations = program.by_target
    heads = {root(v) for v in virtual}
    for equation in program.equations:
        if isinstance(equation.body, Fold | Join) or picked(equation) is not None:
            continue
        if root(equation.target) != equation.target or equation.target in heads:
            continue
        inner = [r for r in reads(equation.body) if r.tensor in equations]
        owners = {root(r.tensor) for r in inner} & heads
        if len(owners) != 1 or not all(isinstance(a, Position) for a in equation.axes):
            continue
        (owner,) = owners
        mine = [r for r in inner if root(r.tensor) == owner]
        if (
            all(plain_subs(r) and r.tensor not in virtual and equations[r.tensor].has_letters for r in mine)
            and all(open_of(free_indices(r)) == open_of(equation.indices) for r in mine)
            and all(root(key) != owner for key in behind(equations, (r.tensor for r in inner if r not in mine)))
            and _unified([e for e in program.equations if root(e.target) == owner or e is equation], virtual,
                         barred) is not None
        ):
            parent[equation.target] = owner


def _unified(members: list[Equation], virtual: frozenset[str], barred: Pairs) -> list[Equation] | None:
    """The equations with shared letters: where one reads another, their indices are the
    same axes. None where they clash."""
    if len(members) == 1:
        return members
    inside = {e.target: e for e in members}
    parent: dict[tuple[str, Index], tuple[str, Index]] = {}

    def root(node: tuple[str, Index]) -> tuple[str, Index]:
        parent.setdefault(node, node)
        while parent[node] != node:
            node = parent[node]
        return node

    for equation in members:
        for read in reads(equation.body):
            inner = inside.get(read.tensor)
            if inner is not None and inner.has_letters:
                for axis, sub in zip(inner.indices, read.subs, strict=True):
                    if not isinstance(sub, Position):
                        return None
                    parent[root((equation.target, sub.index))] = root((inner.target, axis))
    for equation, result, index in _feeding(members, virtual, barred):
        assert isinstance(result.body, Fold)
        parent[root((equation.target, index))] = root((result.target, result.body.bound[0]))
    names: dict[tuple[str, Index], Index] = {}
    taken: set[str] = set()
    out = []
    for equation in members:
        by: dict[Index, Index] = {}
        for index in _every(equation):
            node = root((equation.target, index))
            if node not in names:
                names[node] = Index(primed(index.name.rstrip("'"), taken), index.set)
                taken.add(names[node].name)
            if names[node] in by.values():
                return None
            by[index] = names[node]
        out.append(relettered(equation, by))
    return out


def _every(equation: Equation) -> list[Index]:
    return list(dict.fromkeys([*equation.indices, *bound_indices(equation.body)]))


def _ordered(made: list[FusedGroup]) -> list[FusedGroup]:
    """Groups after those whose values they read."""
    owner = {e.target: n for n, g in enumerate(made) for e in g.equations if e.target not in g.virtual}
    inner = [{owner[key] for e in group.equations for key in e.reads if key in owner} for group in made]
    return [made[n] for n in in_order(range(len(made)), lambda n: sorted(inner[n] - {n}))]
