"""The source text of the runtime modules: what an emitted file needs of them, as it stands in the file.

The modules under `backends/*/runtime/` are ordinary typed modules. They are read here and never executed. What a
definition needs is found from its text: the names it reads that are not its own. The annotations that only a type
checker reads are cut, and so are declarations of variables, comments for a type checker or a linter, and docstrings of
helpers: those of what a caller of the file uses, whose name has no underscore in front, stay.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

_TYPING = ("typing", "collections.abc")  # an annotation that names something of these is cut: no emitted file has them
_FOR_TOOLS = re.compile(rb" +# (?:type: ignore|noqa)\b.*")
_AFTER_HEAD = re.compile(rb"(?m)^( *(?:class|def) [^\n]*:)\n\n+")  # the empty line that a docstring leaves

Statement = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Edit = tuple[int, int, bytes]  # the first and the last place of a piece of text, and what stands there instead


@dataclass(frozen=True)
class Source:
    """A runtime module by its name. Where it is `annotated`, emitted files have the annotations of its signatures."""

    module: str
    annotated: bool = False


@dataclass(frozen=True)
class Generated:
    """A definition that stands in no module: a back end derives its text, without blank
    lines around it, from a table."""

    name: str
    text: str


Part = Source | Generated


@dataclass(frozen=True)
class Definition:
    """A function, class or constant as it stands in an emitted file, and the names of others that it reads."""

    text: str
    reads: frozenset[str]


@dataclass(frozen=True, order=True)
class Import:
    """A name that a module imports: `name` of `module`, or the module itself where that is empty."""

    module: str
    name: str = ""
    alias: str = ""

    @property
    def text(self) -> str:
        """The import as a statement has it behind `import`, with its alias."""
        return (self.name or self.module) + (f" as {self.alias}" if self.alias else "")


@dataclass(frozen=True)
class Library:
    """The runtime modules and generated definitions of which a file may take some, in the order of that file.

    No two of them define the same name. `others` is what a file may import beside what the modules do.
    """

    parts: tuple[Part, ...]
    others: tuple[Import, ...] = ()

    def needed(self, names: Iterable[str]) -> frozenset[str]:
        """These names with all that their definitions need: definitions of the library, names that its modules import.

        Raises KeyError for a name that no module defines or imports.
        """
        known, found, left = self._known(), set[str](), list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                one = known[name]
                left += () if isinstance(one, Import) else definition(one, name).reads & known.keys()
        return frozenset(found)

    def texts(self, names: frozenset[str]) -> list[str]:
        """The definitions among the names, in the order of the modules and of each module."""
        known = self._known().items()
        return [definition(one, name).text for name, one in known if name in names and not isinstance(one, Import)]

    def imports(self, names: frozenset[str]) -> list[str]:
        """The statements that import what is among the names, in alphabetical order; those of whole modules first."""
        found = sorted({one for name, one in self._known().items() if name in names and isinstance(one, Import)})
        parts = {one.module: [x.text for x in found if x.module == one.module and x.name] for one in found if one.name}
        whole = [f"import {one.text}" for one in found if not one.name]
        return whole + [f"from {module} import {', '.join(names)}" for module, names in parts.items()]

    def _known(self) -> Mapping[str, Part | Import]:
        """Where each name comes from: a module that defines it, a generated definition, or what a module imports."""
        modules = [outline(part) for part in self.parts if isinstance(part, Source)]
        imports: dict[str, Part | Import] = {one.alias or one.name or one.module: one for one in self.others}
        imports |= {name: one for module in modules for name, one in module.imports.items()}
        return imports | {name: part for part in self.parts for name in defines(part)}


def defines(part: Part) -> Collection[str]:
    """The names of the definitions in a runtime module, or of a generated one."""
    return outline(part).statements.keys() if isinstance(part, Source) else (part.name,)


@dataclass(frozen=True)
class Outline:
    """What a runtime module defines and imports, by name, in its order; without imports of other runtime modules."""

    source: Source
    text: bytes
    statements: Mapping[str, Statement]
    imports: Mapping[str, Import]


@cache
def outline(source: Source) -> Outline:
    """A runtime module, read from the file that it stands in."""
    package, _, name = source.module.rpartition(".")
    text = resources.files(package).joinpath(f"{name}.py").read_bytes()
    statements: dict[str, Statement] = {}
    imports: dict[str, Import] = {}
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                statements[name] = node
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name), value=ast.expr()):
                statements[name] = node
            case ast.Import() | ast.ImportFrom():
                outer = (pair for pair in _imported(node) if not pair[1].module.startswith(("einc.", "__future__")))
                imports |= dict(outer)
    return Outline(source, text, statements, imports)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
    """The names that an import statement gives."""
    for one in node.names:
        of = (node.module or "", one.name) if isinstance(node, ast.ImportFrom) else (one.name, "")
        yield one.asname or one.name, Import(*of, alias=one.asname or "")


@cache
def definition(part: Part, name: str) -> Definition:
    """A definition of a runtime module, or a generated one, and what it reads."""
    text = part.text if isinstance(part, Generated) else _cut(part, name)
    return Definition(text, frozenset(_globals(symtable.symtable(text, name, "exec"))))


def _cut(source: Source, name: str) -> str:
    """A definition of a runtime module with the comments directly above it, without what only tools read."""
    module = outline(source)
    text, node = _Text(module), module.statements[name]
    first, last = text.lines(node)
    made = module.text[:last]
    edits = [edit for inner in ast.walk(node) for edit in text.edits(inner)]
    edits += [edit for inner in ast.walk(node) for edit in text.docstring(inner)] if name.startswith("_") else []
    for start, end, new in sorted(edits, reverse=True):
        made = made[:start] + new + made[end:]
    short = _AFTER_HEAD.sub(rb"\1\n", _FOR_TOOLS.sub(b"", made[first:]))
    return re.sub(rb"\n{3,}", b"\n\n", short).rstrip().decode()


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """The names that a piece of a module reads of its globals and does not define there."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


class _Text:
    """The source of a module, by the places of its syntax tree."""

    def __init__(self, module: Outline) -> None:
        self.source, self.annotated = module.text, module.source.annotated
        self.typing = {name for name, one in module.imports.items() if one.module in _TYPING}
        self.starts = [0]
        for line in module.text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt | ast.arg) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.arg) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def cut(self, node: ast.expr | ast.arg) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def lines(self, node: Statement) -> tuple[int, int]:
        """The places of the whole lines of a statement, with its decorators and the comments directly above."""
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        first = min(one.lineno for one in [node, *decorators]) - 1
        while first and self.source.startswith(b"#", self.starts[first - 1]):
            first -= 1
        assert node.end_lineno is not None
        return self.starts[first], self.starts[node.end_lineno]

    def edits(self, node: ast.AST) -> Iterator[Edit]:
        """What a node's text has otherwise in an emitted file."""
        match node:
            case ast.FunctionDef(args=args, returns=returns):
                ends = [self.end(one) for one in ast.walk(args) if isinstance(one, ast.arg | ast.expr)]
                ends += [self.end(returns)] if returns is not None else []
                colon = self.source.index(b":", max(ends, default=self.start(node)))
                yield self.start(node), colon, self.signature(node).encode()
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield self.end(target), self.start(value), b" = "
            case ast.AnnAssign():
                yield self.starts[node.lineno - 1], self.starts[node.end_lineno or node.lineno], b""

    def docstring(self, node: ast.AST) -> Iterator[Edit]:
        """The removal of the docstring of a function or a class that has more in its body."""
        match node:
            case ast.FunctionDef(body=[ast.Expr(ast.Constant(str())) as first, _, *_]) | ast.ClassDef(
                    body=[ast.Expr(ast.Constant(str())) as first, _, *_]):
                yield self.starts[first.lineno - 1], self.starts[first.end_lineno or first.lineno], b""

    def signature(self, node: ast.FunctionDef) -> str:
        """The signature on one line, with the annotations that stay."""
        args, some = node.args, list[str]()
        plain = [*args.posonlyargs, *args.args]
        defaults = [*[None] * (len(plain) - len(args.defaults)), *args.defaults]
        for n, (arg, default) in enumerate(zip(plain, defaults, strict=True), 1):
            some += [self.parameter(arg, default), *["/"] * (n == len(args.posonlyargs))]
        if args.vararg is not None or args.kwonlyargs:
            some.append(f"*{self.parameter(args.vararg, None) if args.vararg is not None else ''}")
        some += map(self.parameter, args.kwonlyargs, args.kw_defaults)
        some += [f"**{self.parameter(args.kwarg, None)}"] if args.kwarg is not None else []
        returns = f" -> {self.cut(node.returns)}" if node.returns is not None and self.stays(node.returns) else ""
        return f"def {node.name}({', '.join(some)}){returns}"

    def parameter(self, arg: ast.arg, default: ast.expr | None) -> str:
        """One parameter with its default."""
        told = arg.annotation is not None and self.stays(arg.annotation)
        text = self.cut(arg) if told else arg.arg
        return text if default is None else f"{text}{' = ' if told else '='}{self.cut(default)}"

    def stays(self, annotation: ast.expr) -> bool:
        """Whether an annotation stands in emitted files: `tl.constexpr`, which Triton reads, always."""
        names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
        return ast.unparse(annotation) == "tl.constexpr" or (self.annotated and names.isdisjoint(self.typing))
