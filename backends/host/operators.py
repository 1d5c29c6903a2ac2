"""A module as an operator of torch: a function of tensors and sizes, and another that
knows the shapes of its results alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from einc.backends.host.contractions import element
from einc.backends.host.inputs import check_shapes, given_sizes, read_values
from einc.backends.host.loops import Dialect, Page
from einc.backends.host.module import counts, steps
from einc.backends.host.naming import Named
from einc.backends.host.wanted import Asked, purposes, steps_for
from einc.backends.writer import Names, Writer, folded, sized
from einc.ir.plan import Kernel, Module, Move, leaves

LIST = "tensors"  # the parameter that has all tensors
MOST_ARGUMENTS = 64  # of an operator of torch
MOST_CHOSEN = 62  # results that the bits of one whole number tell apart


@dataclass(frozen=True)
class Operator:
    """The text of one: `name` is the function's, `given` are the sizes among its parameters, `functions` what it calls.

    Where its parameters are more than an operator may have, its tensors are one of them, a list.
    With `chosen` its last parameter says which results are wanted, a bit for each. For each result it has those that it
    is made with: it is empty where none of them is wanted; `every` has the bits of all.
    """

    name: str
    naming: Named
    given: tuple[str, ...]
    lines: list[str]
    functions: list[str]
    chosen: tuple[int, ...] = ()
    every: int = 0

    @property
    def tensors(self) -> list[str]:
        """The tensors among its parameters, in order."""
        return [t.key for t in self.naming.module.inputs]

    @property
    def results(self) -> list[str]:
        """The names of what the operator returns, whole numbers last."""
        return results(self.naming.module)

    @property
    def parameters(self) -> list[str]:
        """All of its parameters, in order: tensors, sizes, and `wanted` where results may be left out."""
        return parameters(self.tensors, self.given, bool(self.chosen))

    @property
    def listed(self) -> bool:
        """Whether the operator takes its tensors as one list, for it may not have so many parameters."""
        return self.tensors != self.parameters[: len(self.tensors)]

    def called(self, tensors: Sequence[str], sizes: Sequence[str]) -> str:
        """The call of the operator with these tensors and sizes, as an expression of Python."""
        first = [f"[{', '.join(tensors)}]"] if self.listed else tensors
        return f"{self.handle}({', '.join([*first, *sizes])})"

    @property
    def fake(self) -> str:
        """The name of the function that `shapes` writes."""
        return f"{self.name}_shapes"

    @property
    def handle(self) -> str:
        """The name of the variable that holds the registered operator in an emitted file."""
        return f"{self.name}_op"

    @property
    def schema(self) -> str:
        """What torch knows of its arguments and results."""
        given = [f"Tensor[] {LIST}"] if self.listed else [f"Tensor {name}" for name in self.tensors]
        given += [f"SymInt {name}" for name in self.given]
        given += ["int wanted"] * bool(self.chosen)
        made = ", ".join(["Tensor"] * len(self.results))
        return f"({', '.join(given)}) -> {made if len(self.results) == 1 else f'({made})'}"

    def shapes(self) -> list[str]:
        """The lines of the function that makes results of the same shapes and types, and nothing in them."""
        module = self.naming.module
        made = []
        for n, key in enumerate(self.results):
            buffer = module.buffers[key]
            extents = "".join(f"{sized(s.extent)}, " for s in buffer.sets)
            shape = f"({extents.removesuffix(', ') if len(buffer.sets) > 1 else extents.rstrip()})"
            if self.chosen and self.chosen[n] != self.every:
                shape = f"{shape} if wanted & {self.chosen[n]} else (0,)"
            made.append(f"{key} = torch.empty({shape}, dtype={element(buffer, named=False)}, device=device)")
        counted = Writer()
        for step in module.steps:
            counts(step, counted, set())
        lines = [*given_sizes(self.naming, self.given, []), *counted.lines, *made, f"return {', '.join(self.results)}"]
        return function(self.fake, self.parameters, "", live([*opened(self.tensors, self.parameters), *lines]))


Steps = Callable[[Page, Dialect, Asked | None], None]  # writes the steps of a page


def operator(naming: Named, name: str, text: str, dialect: Dialect, helpers: set[str], taken: set[str],
             checked: bool = False, asked: Asked | None = None, written: Steps | None = None) -> Operator:
    """The function of a module, for inputs whose shapes have been checked.

    With `checked` their elements have been too, and not every result may be wanted: it is the second half of a
    gradient. With `asked` it is a part of one. `written` writes its steps where they do not stand in it themselves, and
    looks at what elements hold.
    """
    own = naming.module
    asked = purposes(own, results(own)) if checked else asked
    apart = asked if asked is not None and _counted(asked) else None
    sizes, summed = check_shapes(naming, Writer(), set(), [])
    body = Writer()
    page = Page(own, body, Names(set(naming.taken) | taken), helpers)
    read_values(naming, body, helpers, not checked and written is None)
    made, tensors = results(own), [t.key for t in own.inputs]
    if written is not None:
        written(page, dialect, apart)
    elif apart is not None:
        steps_for(page, dialect, made, apart)
    else:
        steps(page, dialect)
    # functions of the file: the other half has its own
    taken |= {one for one in page.names.taken if one.startswith("_")}
    returned = ", ".join(made)
    if written is not None:
        returned = ", ".join(f"{key}.clone()" if key in _shared(own) or key in made[:n] else key
                             for n, key in enumerate(made))
    elif not set(made) <= _fresh(own):
        helpers.add("_own")
        returned = f"_own({_tuple(tensors)}, {_tuple(made)}){'[0]' if len(made) == 1 else ''}"
    body()
    given = (*sizes, *summed)
    read = given_sizes(naming, given, dialect.types(own))
    lines = live([*read, *body.lines, f"return {returned}"], len(read))
    heads = parameters(tensors, given, apart is not None)
    lines = [*opened(tensors, heads), *lines]
    return Operator(name, naming, given, function(name, heads, text, lines), page.functions,
                    () if apart is None else apart.made(own, made), 0 if apart is None else apart.every)


def _counted(asked: Asked) -> bool:
    """Whether the bits of a whole number tell apart what is wanted, and something is gained."""
    return len(asked.results) <= MOST_CHOSEN and asked.apart


def registered(half: Operator, name: str, more: list[str]) -> list[str]:
    """The statement that makes an operator of one function."""
    named = f'_name + "{name}"' if name else "_name"
    parts = ", ".join([half.name, half.fake, *more])
    return [f"{half.handle} = _operator(", f"    {named},", f'    "{half.schema}",', f"    {parts},", ")"]


def parameters(tensors: Sequence[str], given: Sequence[str], chosen: bool) -> list[str]:
    """The parameters of an operator of these tensors and sizes."""
    rest = [*given, *["wanted"] * chosen]
    return [*(tensors if len(tensors) + len(rest) <= MOST_ARGUMENTS else [LIST]), *rest]


def opened(tensors: Sequence[str], heads: Sequence[str]) -> list[str]:
    """The statement that takes the tensors from a list, where that is what is given."""
    return folded(f"{_tuple(tensors)[1:-1]} = {LIST}", 126) if heads[:1] == [LIST] else []


def function(name: str, parameters: Sequence[str], text: str, lines: Iterable[str]) -> list[str]:
    """The lines of a function, after two empty ones. The lines of its body are given without indentation; `text` is its
    docstring, unless it is empty.
    """
    out = ["", "", *folded(f"def {name}({', '.join(parameters)}):"), *([f'    """{text}"""'] if text else [])]
    return out + [f"    {line}" if line else "" for line in lines]


def live(lines: Sequence[str], among: int | None = None) -> list[str]:
    """The lines without those, among the first so many, that give names to what nothing after them reads."""
    kept: list[str] = []
    words: set[str] = set()
    count = len(lines) if among is None else among
    for at, line in reversed(list(enumerate(lines))):
        left, equals, right = line.partition(" = ")
        if equals and at < count and re.fullmatch(r"[\w, ]+", left):
            targets = [name for name in re.split(r"[, ]+", left) if name]
            if words.isdisjoint(targets):
                continue
            if right.endswith(".shape"):
                line = f"{', '.join(x if x in words else '_' for x in targets)}{',' * (len(targets) == 1)} = {right}"
        words |= _words(line.partition("  # ")[0] if at < count else line)
        kept.append(line)
    return kept[::-1]


def unpacked(names: Sequence[str], value: str, lines: Sequence[str]) -> list[str]:
    """The statement that gives the parts of a value their names, those that the lines read; nothing if that is none."""
    words = _words("\n".join(lines))
    if words.isdisjoint(names):
        return []
    if value == "output" and len(names) == 1:
        return [f"{names[0]} = {value}"]
    return folded(f"{', '.join(x if x in words else '_' for x in names)}{',' * (len(names) == 1)} = {value}", 126)


def _words(text: str) -> set[str]:
    """The names in a text, without those of attributes."""
    return set(re.findall(r"(?<![.\w])\w+", text))


def results(module: Module) -> list[str]:
    """The outputs in the order in which an operator returns them: torch's own checks
    begin with one that has a gradient."""
    return sorted((key for _, key in module.outputs), key=lambda key: module.buffers[key].element.kind == "integer")


def _fresh(module: Module) -> set[str]:
    """The tensors that a step has surely made in memory of its own, in the order of their axes."""
    tiled = (s for s in leaves(module.steps) if isinstance(s, Kernel) and s.grid is not None)
    return {store.buffer for kernel in tiled for store in kernel.stores}


def _shared(module: Module) -> set[str]:
    """The tensors of a module that lie where others do: what it is given, and parts of what a rank has whole."""
    parts = {key for one in module.steps if isinstance(one, Move) and one.kind == "slice" for key in one.writes}
    return {t.key for t in module.inputs} | parts


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' * (len(names) == 1)})"
