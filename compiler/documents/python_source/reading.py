"""`FILE.py::function` -> the text of a spec, with what it could not say."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from einc.documents.python_source.interpret import Interpreter
from einc.documents.python_source.naming import Names, returned
from einc.documents.python_source.operations import total
from einc.documents.python_source.outside import ROOTS
from einc.documents.python_source.patterns import shapes
from einc.documents.python_source.places import offset
from einc.documents.python_source.state import State, Unsaid
from einc.documents.python_source.values import (
    CannotSayError,
    Class,
    FollowsError,
    Given,
    Instance,
    Lost,
    Named,
    Plain,
    Scope,
    Several,
    Tensor,
    Value,
)
from einc.documents.python_source.writing import Writer
from einc.errors.report import EincError, Help, Problem, Source, Span, failure
from einc.ir.indices import size

HARMLESS = {"staticmethod", "no_grad", "inference_mode", "compile", "script", "jit", "jaxtyped", "override"}


@dataclass(frozen=True)
class Asked:
    """What a person says about a function that its source does not: shapes, constants, which axes are time."""

    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)
    time: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Reading:
    """A spec, and what to tell of it: what was not read, questions, and how the source was taken."""

    text: str
    whole: str  # the same text, with outputs that mean all positions
    unsaid: tuple[Problem, ...]
    questions: tuple[str, ...]


def read(source: Source, path: Sequence[str], library: str, reserved: frozenset[str], asked: Asked) -> Reading:
    """A function of a source, named by the classes and functions around it -> its spec. EincError where there is no
    such function, or nothing of it could be read.
    """
    module = parsed(source)
    node, around = found(source, module, path)
    scope = Scope(source)
    prelude = Scope(Source("the library", library), user=False)
    state = State()
    names = Names(_comments(source.text))
    machine = Interpreter(state, prelude, names)
    for statement in ast.parse(library).body:
        machine.statement(statement, prelude)
    machine.given = {name: Plain(value) for name, value in asked.values.items()}
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef) or _constant(statement):
            machine.statement(statement, scope)
    roots = [r for r in ROOTS if any(isinstance(v, Named) and v.name.split(".")[0] == r for v in scope.names.values())]
    machine.flavour = "torch" if "torch" in roots or not {"numpy", "jax"} & set(roots) else "numpy"
    for decorator in node.decorator_list:
        if ast.unparse(decorator).partition("(")[0].rpartition(".")[2] not in HARMLESS:
            state.unsaid.append(Unsaid(source, decorator, "what this decorator makes of the function is not read"))
    result = _called(machine, scope, node, around, asked)
    _return(state, names, node, result)
    return _written(state, source, node, path, reserved, asked)


def parsed(source: Source) -> ast.Module:
    """The tree of a Python text. EincError with the place where it is none."""
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        at = _offset(source, error.lineno or 1, (error.offset or 1) - 1)
        raise EincError([Problem(f"{source.name} is no Python: {error.msg}", Span(source, at, at + 1))]
                        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise failure(f"{source.name} is no Python that can be read: {error}") from error


def found(source: Source, module: ast.Module, path: Sequence[str]) -> tuple[ast.FunctionDef, ast.ClassDef | None]:
    """The function of a name, and the class that it is a method of. EincError where there is none."""
    body: Sequence[ast.stmt] = module.body
    holder: ast.ClassDef | None = None
    for at, name in enumerate(path):
        every = [x for x in body if isinstance(x, ast.FunctionDef | ast.ClassDef)]
        node = next((x for x in reversed(every) if x.name == name), None)
        last = at == len(path) - 1
        if isinstance(node, ast.FunctionDef) and last:
            return node, holder
        if isinstance(node, ast.ClassDef):
            methods = [x for x in node.body if isinstance(x, ast.FunctionDef)]
            forward = next((x for x in methods if x.name == "forward"), None)
            if last and forward is not None:
                return forward, node
            holder, body = node, node.body
            continue
        break
    names = [f"{x.name}.{y.name}" if isinstance(x, ast.ClassDef) else x.name for x in module.body
             if isinstance(x, ast.FunctionDef | ast.ClassDef)
             for y in (x.body if isinstance(x, ast.ClassDef) else [x]) if isinstance(y, ast.FunctionDef)]
    listed = ", ".join(f"`{n}`" for n in names[:20] if not n.endswith("__"))
    raise failure(f"{source.name} has no function `{'.'.join(path)}`",
                  f"its functions are {listed}" if listed else "no function is defined in it")


def _constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)


def _offset(source: Source, line: int, column: int) -> int:
    lines = source.text.split("\n")
    return min(sum(len(x) + 1 for x in lines[: line - 1]) + column, max(len(source.text) - 1, 0))


def _comments(text: str) -> dict[int, str]:
    """The comments of a source, by their lines."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return {}
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


# the arguments


def _called(machine: Interpreter, scope: Scope, node: ast.FunctionDef, holder: ast.ClassDef | None,
            asked: Asked) -> Value:
    """What the function gives back for arguments that are the caller's. Raises EincError where `asked` names an
    argument that the function has not."""
    own: list[Value] = []
    if holder is not None:
        kind = scope.find(holder.name)
        assert isinstance(kind, Class)
        new = Instance(kind)
        start = machine.method(kind, "__init__")
        if start is not None and start is not node:
            machine.function(start, scope, [new], _arguments(machine, scope, start, 1, asked))
        static = any(isinstance(x, ast.Name) and x.id == "staticmethod" for x in node.decorator_list)
        own = [] if static else [new]
    given = _arguments(machine, scope, node, len(own), asked)
    _hinted(machine, node, given, asked)
    unknown = [x for x in (*asked.shapes, *asked.values) if x not in given and "." not in x]
    if unknown:
        raise failure(f"`{unknown[0]}` is no argument of `{node.name}`")
    return machine.function(node, scope, own, given)


def _arguments(machine: Interpreter, scope: Scope, node: ast.FunctionDef, skipped: int,
               asked: Asked) -> dict[str, Value]:
    """Each parameter as what the caller gives; one with a default has that, unless a shape is said of it."""
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args][skipped:]
    defaults = dict(zip([a.arg for a in names][::-1], arguments.defaults[::-1], strict=False))
    defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    out: dict[str, Value] = {}
    for one in (*names, *arguments.kwonlyargs):
        if one.arg in asked.values:
            out[one.arg] = Plain(asked.values[one.arg])
        elif one.arg in defaults and one.arg not in asked.shapes:
            try:
                out[one.arg] = machine.evaluate(defaults[one.arg], scope)
            except CannotSayError:
                out[one.arg] = Given(one.arg)
            machine.state.note(f"`{one.arg}` is {ast.unparse(defaults[one.arg])}, as it is where a call does not say.")
        else:
            out[one.arg] = Given(one.arg)
            kind = ast.unparse(one.annotation) if one.annotation is not None else ""
            if kind in {"int", "float"}:
                machine.state.numbers[one.arg] = "dim" if kind == "int" else "input"
            machine.names.taken.add(one.arg) if kind == "int" else None
    return out


def _hinted(machine: Interpreter, node: ast.FunctionDef, given: Mapping[str, Value], asked: Asked) -> None:
    """Notes the shapes of arguments: what the person says, else annotations, else comments in the function."""
    open_ones = [name for name, value in given.items() if isinstance(value, Given)
                 and name not in machine.state.numbers]
    said: dict[str, tuple[str, ...]] = {}
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    for line in range(first, (node.end_lineno or node.lineno) + 1):
        for shape in shapes(machine.names.comments.get(line, "")):
            if shape.name in open_ones:
                said.setdefault(shape.name, shape.sizes)
    for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        match one.annotation:
            case ast.Subscript(kind, ast.Tuple([_, ast.Constant(str(text))])) if one.arg in open_ones:
                said[one.arg] = tuple(text.split())
                if ast.unparse(kind).rpartition(".")[2].startswith(("Int", "Long", "Bool", "UInt")):
                    machine.state.integers.add(one.arg)
            case _:
                pass
    said |= asked.shapes
    words = {word for sizes in said.values() for word in sizes}
    for name in open_ones:
        if name in words and name not in said:
            machine.state.numbers[name] = "dim"
            machine.names.taken.add(name)
    for word in words & set(given):
        value = given[word]
        if isinstance(value, Given):
            machine.names.commented[word] = size(word)
    for name, sizes in said.items():
        if all(word.isidentifier() or word.isdigit() for word in sizes):
            machine.names.declared(machine.state, name, sizes)


# the result


def _return(state: State, names: Names, node: ast.FunctionDef, result: Value) -> None:
    """Makes what the function gives back outputs of the state; what is no array is told among what was not said."""
    statement = next((x for x in reversed(node.body) if isinstance(x, ast.Return)), None)
    said = statement.value if statement is not None else None
    words = [x.id if isinstance(x, ast.Name) else "" for x in said.elts] if isinstance(said, ast.Tuple) else [
        said.id if isinstance(said, ast.Name) else ""]
    items = result.items if isinstance(result, Several) else (result,)
    words = words if len(words) == len(items) else [""] * len(items)
    for word, item in zip(words, items, strict=True):
        if isinstance(item, Lost) or item == Plain(None):
            continue
        if not isinstance(item, Tensor):
            state.unsaid.append(Unsaid(Source("", ""), statement or node, "what is given back is no array", ()))
            continue
        try:
            returned(state, names, word or "Y", total(item))
        except FollowsError:
            continue
        except CannotSayError as error:
            state.unsaid.append(Unsaid(Source("", ""), statement or node, error.message, error.ways))


def _written(state: State, source: Source, node: ast.FunctionDef, path: Sequence[str], reserved: frozenset[str],
             asked: Asked) -> Reading:
    """The text, and what to tell. Raises EincError where nothing could be said, or what was said cannot be written."""
    problems = [_problem(one, source) for one in state.unsaid]
    if not state.equations:
        raise EincError(problems or [Problem(f"`{node.name}` makes no array that could be said")])
    try:
        texts = [Writer(state, reserved, asked.time).text(everything) for everything in (False, True)]
        writer = Writer(state, reserved, asked.time)
        writer.text(False)
    except CannotSayError as error:
        raise EincError([*problems, Problem(error.message, helps=tuple(map(Help, error.ways)))]) from error
    questions = [] if asked.time else [
        f"is `{names[0]}` time? A function of a line runs over all of it. --time {names[0]} lets einc hold each "
        "position against the ones that it reads; --time none says that it is no time. No number depends on it."
        for extent in writer.asked if (names := writer.pools[extent])]
    head = [f"# `{'.'.join(path)}` of {source.name.rpartition('/')[2]}, as `einc from` read it.",
            *(f"# {note}" for note in state.notes), *(f"# Question: {q}" for q in questions),
            *(line for one in state.unsaid for line in _told(one, source))]
    whole = [f"# An output reads later positions, as the Python does.\n{texts[1]}", texts[1]][:1]
    return Reading("\n".join(head) + "\n" + texts[0], "\n".join(head) + "\n" + whole[0], tuple(problems),
                   tuple(questions))


def _told(one: Unsaid, source: Source) -> list[str]:
    line = getattr(one.node, "lineno", 1)
    return [f"# Not said, line {line}: {one.message}", f"#     {source.line(line).strip()}"]


def _problem(one: Unsaid, source: Source) -> Problem:
    """What was not read, at its place in the source."""
    node = one.node
    line, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
    start = offset(source, line, getattr(node, "col_offset", 0))
    stop = offset(source, end, getattr(node, "end_col_offset", 0))
    return Problem(one.message, Span(source, start, max(stop, start + 1)), helps=tuple(map(Help, one.ways)))
