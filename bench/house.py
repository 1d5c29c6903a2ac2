"""The size and the shape of the code of a checkout: how long, how wide, how deep, and how much of it says what it does.

Everything is read from the syntax trees: nothing of the measured code is imported, so a checkout of any age can be
measured. The modules under `backends/*/runtime` are copied into emitted files and are no part of the compiler; their
lines count, since earlier checkouts hold the same lines as texts, and nothing else of them does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = {"compiler": "einc", "backends": "einc.backends"}  # what is measured
RUNTIME = "runtime"
WIDE, FIELDS, LONG = 120, 12, 10
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_RAISES = re.compile(r"[Rr]aise|[Rr]efuse|[Rr]eport|Error\b|Problem\b")

Graph = dict[str, set[str]]


@dataclass(frozen=True)
class File:
    """A file of a checkout: its path in it, the name that it is imported by, its lines and its tree."""

    path: Path
    module: str
    lines: tuple[str, ...]
    tree: ast.Module

    @property
    def is_runtime(self) -> bool:
        return self.path.parent.name == RUNTIME


@dataclass(frozen=True)
class Function:
    """A function or a method, where it stands, whether others may call it, whether it has a docstring, and what it
    raises by its own statements that its docstring does not say.
    """

    place: str
    lines: int
    public: bool
    described: bool
    unsaid: tuple[str, ...] = ()


@dataclass
class House:
    """What is measured of one checkout."""

    entries: int = 0
    floors: int = 0
    arrows: int = 0
    circles: list[tuple[str, ...]] = field(default_factory=list)  # of modules
    statements: int = 0
    lines: int = 0
    wide: int = 0
    functions: list[Function] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)  # those with many fields, and how many
    files: int = 0

    def rows(self) -> Iterator[tuple[str, str]]:
        """The table: what is counted and how much of it there is."""
        lengths = sorted(one.lines for one in self.functions)
        long_private = sum(not one.public and one.lines > LONG for one in self.functions if not one.described)
        longest = max(self.functions, key=lambda one: one.lines, default=None)
        yield "entries of compiler/", f"{self.entries:,}"
        yield "floors", f"{self.floors:,}"
        yield "arrows between entries", f"{self.arrows:,}"
        yield "circles of modules", f"{len(self.circles):,}"
        yield "files", f"{self.files:,}"
        yield "statements", f"{self.statements:,}"
        yield "lines", f"{self.lines:,}"
        yield f"lines over {WIDE} columns", f"{self.wide:,}"
        yield "functions", f"{len(self.functions):,}"
        yield "without a docstring: public", f"{sum(one.public and not one.described for one in self.functions):,}"
        yield f"without a docstring: private, over {LONG} lines", f"{long_private:,}"
        yield "docstrings that do not say what is raised", f"{sum(bool(one.unsaid) for one in self.functions):,}"
        yield f"classes with more than {FIELDS} fields", f"{len(self.classes):,}"
        yield "lines of a function, 95 % have at most", f"{quantile(lengths, 0.95):,}"
        yield "lines of the longest function", f"{longest.lines:,} {longest.place}" if longest else "0"


def measure(checkout: Path) -> House:
    """Measures a checkout of einc. ValueError where it has no compiler/, SyntaxError where a file is no Python."""
    if not (checkout / "compiler").is_dir():
        raise ValueError(f"{checkout} is no checkout of einc: it has no folder compiler/")
    every = list(read(checkout))
    files = [file for file in every if not file.is_runtime]
    graph = imports(files)
    entries = arrows(graph)
    return House(
        entries=sum(entry.name not in ("README.md", "__pycache__") for entry in (checkout / "compiler").iterdir()),
        floors=longest_chain(entries),
        arrows=sum(map(len, entries.values())),
        circles=[circle for circle in components(graph) if len(circle) > 1],
        statements=sum(statements(file.tree) for file in files),
        lines=sum(len(file.lines) for file in every),
        wide=sum(len(line) > WIDE for file in every for line in file.lines),
        functions=[one for file in files for one in functions(file)],
        classes={name: count for name, count in fields(files).items() if count > FIELDS},
        files=len(every),
    )


def read(checkout: Path) -> Iterator[File]:
    """The Python files of the compiler and of the back ends."""
    for room, package in ROOMS.items():
        for path in sorted((checkout / room).rglob("*.py")):
            inner = path.relative_to(checkout / room).with_suffix("").parts
            text = path.read_text(encoding="utf-8")
            module = ".".join([package, *(part for part in inner if part != "__init__")])
            yield File(path.relative_to(checkout), module, tuple(text.splitlines()), ast.parse(text))


# the graph of imports


def imports(files: Iterable[File]) -> Graph:
    """The modules of einc that each module imports, those among them that are loaded by a name that stands in the text.

    The package itself, `einc`, is left out: it names its doors, and all of them lead back to it.
    """
    files = list(files)
    known = {file.module for file in files} - {"einc"}
    graph: Graph = {}
    for file in files:
        if file.module in known:
            names = {name for node in ast.walk(file.tree) for name in imported(node, known)}
            graph[file.module] = names & known - {file.module}
    return graph


def imported(node: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules that one node of a tree imports; `from einc.a import b` is `einc.a.b` where that is a module."""
    match node:
        case ast.Import(names):
            yield from (name.name for name in names)
        case ast.ImportFrom(str(of), names, 0):
            yield from (inner if (inner := f"{of}.{name.name}") in known else of for name in names)
        case ast.Call(called, [ast.Constant(str(name)), *_]) if ast.unparse(called).endswith("import_module"):
            yield name


def arrows(graph: Mapping[str, set[str]]) -> Graph:
    """The graph between the first folders or files of the compiler; the back ends together are one more."""
    found: Graph = {}
    for name, others in graph.items():
        entry = name.split(".")[1]
        found.setdefault(entry, set()).update({other.split(".")[1] for other in others} - {entry})
    return found


def components(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """The strongly connected components, those first that the others reach (Tarjan, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    found: list[tuple[str, ...]] = []
    for start in graph:
        work = [] if start in number else [(start, iter(()))]
        while work:
            node, rest = work.pop()
            if node not in number:
                number[node] = low[node] = len(number)
                open_nodes.append(node)
                rest = iter(sorted(graph.get(node, ())))
            for other in rest:
                if other not in number:
                    work += [(node, rest), (other, iter(()))]
                    break
                if other in open_nodes:
                    low[node] = min(low[node], low[other])
            else:
                if low[node] == number[node]:
                    place = open_nodes.index(node)
                    found.append(tuple(sorted(open_nodes[place:])))
                    del open_nodes[place:]
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
    return found


def longest_chain(graph: Mapping[str, set[str]]) -> int:
    """How many entries stand above each other at most. What is in one circle stands on one floor."""
    circle = {name: one for one in components(graph) for name in one}
    below = {one: {circle[other] for name in one for other in graph.get(name, ())} - {one} for one in circle.values()}
    floor: dict[tuple[str, ...], int] = {}
    for one in TopologicalSorter(below).static_order():
        floor[one] = 1 + max((floor[other] for other in below[one]), default=0)
    return max(floor.values(), default=0)


# what stands in the files


def statements(tree: ast.AST) -> int:
    """How many statements a tree has, apart from its docstrings."""
    kinds = ast.Module | ast.ClassDef | FUNCTION
    texts = sum(isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None for node in ast.walk(tree))
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - texts


def functions(file: File) -> Iterator[Function]:
    """The functions of a file, with methods and those inside others, which nobody else can call."""
    def walk(node: ast.AST, public: bool) -> Iterator[Function]:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, FUNCTION):
                open_name = public and not inner.name.startswith("_")
                lines = (inner.end_lineno or inner.lineno) - inner.lineno + 1
                said = ast.get_docstring(inner)
                silent = () if said is None or _RAISES.search(said) else (x for x in raised(inner) if x not in said)
                place = f"{file.path.as_posix()}:{inner.name}"
                yield Function(place, lines, open_name, said is not None, tuple(silent))
                yield from walk(inner, False)
            else:
                yield from walk(inner, public and not (isinstance(inner, ast.ClassDef) and inner.name.startswith("_")))

    yield from walk(file.tree, True)


def raised(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The names of what the statements of a function raise, apart from those of functions in it, from what it catches
    itself and raises again, and from what says that a case cannot be."""
    left = list[ast.AST](function.body)
    while left:
        node = left.pop()
        match node:
            case ast.Raise(ast.Call(ast.Name(name) | ast.Attribute(_, name)) | ast.Name(name)):
                yield from () if name in ("AssertionError", "NotImplementedError") else (name,)
        left += [] if isinstance(node, FUNCTION | ast.Lambda) else ast.iter_child_nodes(node)


def fields(files: Iterable[File]) -> dict[str, int]:
    """How many fields the instances of each class have: declared or assigned to `self`, those of its bases among them.

    A base is looked for by its name, in the same file first, and then among all files if one class alone has that name.
    """
    own: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    named: dict[str, list[str]] = {}
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                place = f"{file.path.as_posix()}:{node.name}"
                named.setdefault(node.name, []).append(place)
                own[place] = set(declared(node))
                bases[place] = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]

    def every(place: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found = set(own[place])
        for base in bases[place]:
            beside = f"{place.rpartition(':')[0]}:{base}"
            known = [beside] if beside in own else named.get(base, [])
            if len(known) == 1 and known[0] not in seen | {place}:
                found |= every(known[0], seen | {place})
        return found

    return {place: len(every(place)) for place in own}


def declared(node: ast.ClassDef) -> Iterator[str]:
    """The fields that a class has by its own text."""
    for line in node.body:
        match line:
            case ast.AnnAssign(ast.Name(name), annotation) if "ClassVar" not in ast.unparse(annotation):
                yield name
    for method in node.body:
        for inner in ast.walk(method) if isinstance(method, FUNCTION) else ():
            match inner:
                case ast.Attribute(ast.Name("self"), name, ast.Store()):
                    yield name


def quantile(numbers: list[int], share: float) -> int:
    """The least of some sorted numbers that so large a share of them does not exceed."""
    return numbers[min(len(numbers) - 1, int(share * len(numbers)))] if numbers else 0
