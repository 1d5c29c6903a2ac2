"""What a name is, in the words that an editor shows beside it."""

from __future__ import annotations

from collections.abc import Iterator

from einc.checking.declarations.scope import Signature
from einc.checking.expressions.rules import show_domain
from einc.driver.editor.costs import formula
from einc.driver.editor.names import Occurrence, Symbol
from einc.driver.editor.positions import Position, Range
from einc.driver.editor.text import Part, Text, path_of
from einc.ir.folds import FOLDS
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.primitives import PRIMITIVES
from einc.ir.programs import Tensor
from einc.ir.terms import TRUE, conjuncts
from einc.syntax.printing.show import equation_text

_ROLES = {"input": "given by the caller", "weight": "a parameter", "local": "defined here"}


def hover(text: Text, place: Position) -> tuple[Range, str] | None:
    """The name at a place and what it is, as Markdown; None where no name is known."""
    found = text.named(place)
    if found is None:
        return None
    part, occurrence = found
    here = text.range(occurrence.span)
    return None if here is None else (here, "\n\n".join(_said(text, part, occurrence)))


def _said(text: Text, part: Part, occurrence: Occurrence) -> Iterator[str]:
    """The paragraphs that an editor shows about a name: how it is declared, and what its kind, class or spec is."""
    symbol = occurrence.symbol
    match symbol.kind, symbol.of:
        case "index", Index() as index:
            yield _code(f"index {symbol.text} : {index.set}")
            yield of_class(index.set.cls)
        case "tensor", Signature() as signature:
            yield from _tensor(text, signature)
        case "size", _:
            yield from _size(part, symbol)
        case "class", _:
            yield _code(symbol.text)
            yield of_class(symbol.text)
        case "spec", _:
            yield _code(f'use "{symbol.text}"')
            yield "" if symbol.home is None else f"the spec in `{path_of(symbol.home.source)}`"
        case "function" | "map", _:
            yield _code(symbol.text if symbol.home is None else symbol.home.text)
            yield _function(symbol) if symbol.home is None else ""
        case _:
            yield _code(symbol.text)
            yield "a name of this line or block alone"


def _code(text: str) -> str:
    return f"```ein\n{text}\n```"


def of_class(name: str) -> str:
    """What follows from the class of an index, in a sentence."""
    row = INDEX_CLASSES[name]
    summed = ("summed where it stands once up and once down in a product" if row.summed
              else "summed by a written operator alone")
    numbered = "its elements have numbers" if row.numbered else "its elements have no numbers: two are the same or not"
    return f"class `{name}`: {summed}; {numbered}"


def shape(text: Text, signature: Signature) -> str:
    """The axes of a tensor, `(T, T, H)`: those that its program gives it, where a request and its position are one
    axis, or of a text with errors those of its slots.
    """
    made = _of_program(text, signature)
    slots = signature.slots if made is None else made.slots
    return f"({', '.join(formula(x.set.extent) for x in slots)})"


def _of_program(text: Text, signature: Signature) -> Tensor | None:
    """The tensor of the program that a signature declares; None where the text has errors or is a paper."""
    declared = () if text.program is None else text.program.tensors.values()
    return next((x for x in declared if x.span == signature.span), None)


def _tensor(text: Text, signature: Signature) -> Iterator[str]:
    """A tensor: its slots, where it exists, its equation with all that is implied, and what it costs."""
    yield _code(f"{signature.text} : {shape(text, signature)}")
    whole = " of whole numbers" if signature.integer else ""
    yield f"{_ROLES[signature.role]}{whole}"
    slots = dict.fromkeys((x.name, str(x.set)) for x in signature.slots)
    if slots:
        yield ", ".join(f"`{name}` : `{set_}`" for name, set_ in slots)
    domain = signature.points.domain
    if domain is not None and domain != TRUE:
        yield f"exists where `{', '.join(map(show_domain, conjuncts(domain)))}`"
    program = text.program
    if program is None:
        return
    made = _of_program(text, signature)
    key = signature.key if made is None else made.key
    if (equation := program.equation(key)) is not None:
        yield _code(equation_text(program, equation))
        yield cost(text, key)


def _size(part: Part, symbol: Symbol) -> Iterator[str]:
    """A size: its number where the text fixes one, and the index sets that have it."""
    yield _code(f"dim {symbol.text}")
    scope = None if part.work is None else part.work.scope
    for name, span in ({} if scope is None else scope.numbers.sizes).items():
        if scope is not None and span == symbol.home:
            fixed = scope.numbers.fixed.get(name)
            yield "a size" if fixed is None else f"a size, fixed at {fixed}"
            letters = [f"`{x}`" for x, index in scope.alphabet.indices.items() if name in index.set.extent.sizes]
            yield f"in the extent of {', '.join(letters)}" if letters else ""
            return


def _function(symbol: Symbol) -> str:
    """A function of the language itself."""
    if symbol.text in FOLDS:
        return "takes an index away: a sum, a maximum or the like over its domain"
    row = next((x for x in PRIMITIVES.values() if x.name == symbol.text), None)
    return "a function of numbers" if row is None else f"a function of {row.arity or 'several'} " + (
        "number" if row.arity == 1 else "numbers")


def cost(text: Text, key: str) -> str:
    """What the step of the plan costs that makes a tensor, as formulas."""
    found = next((x for x in text.steps if key in x.makes), None)
    if found is not None:
        return f"step {found.name} of the plan makes it: {found.flops} flops, {found.bytes} bytes"
    return "it has no step of its own in the plan: it is computed where it is read" if text.steps else ""
