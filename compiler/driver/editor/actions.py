"""What an editor offers to do: edits that were tried, all that are certain, the layout, the kernel, the derivation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from einc.checking.edits import certain
from einc.driver import back_ends, compiling, flow, pipeline
from einc.driver.editor.diagnostics import Diagnostic, diagnostics
from einc.driver.editor.positions import Range, whole
from einc.driver.editor.text import Text
from einc.driver.options import Options
from einc.driver.reports.recurrence import as_text, by_piece
from einc.errors.report import EincError, Help, Problem, Report, render
from einc.ir.programs import TypedProgram

KERNEL, DERIVATION = "einc.kernel", "einc.derivation"

Edits = tuple[tuple[Range, str], ...]


@dataclass(frozen=True)
class Action:
    """What may be done: `edits` of the text, or a `command` with its arguments. `preferred`: nothing else mends it."""

    title: str
    kind: str  # of the protocol
    edits: Edits = ()
    command: str = ""
    arguments: tuple[str, ...] = ()
    mends: Diagnostic | None = None
    preferred: bool = False


def actions(text: Text, within: Range) -> tuple[Action, ...]:
    """What may be done about a piece of a text, and with the whole of it."""
    out = [action for found in diagnostics(text) if found.range.meets(within) for action in _mending(text, found)]
    if every := _edits(text, certain(list(text.problems), text.source.name)):
        out.append(Action("Apply every fix that is certain", "source.fixAll", every))
    if text.program is not None and text.program.outputs:
        out += [Action(f"Show the kernel ({name})", "source", command=KERNEL, arguments=(text.source.name, name))
                for name in back_ends.names()]
        out.append(Action("Show the derivation", "source", command=DERIVATION, arguments=(text.source.name,)))
    return tuple(out)


def _mending(text: Text, found: Diagnostic) -> list[Action]:
    """The edits that mend a problem: each was tried."""
    ways = [h for h in found.problem.helps if h.span is not None and h.new is not None]
    made = [(way, edits) for way in ways if (edits := _edits(text, [way]))]
    return [Action(_title(way), "quickfix", edits, mends=found, preferred=len(ways) == 1 and way.certain)
            for way, edits in made]


def _title(way: Help) -> str:
    if way.new is None or way.span is None or way.new.strip() in way.text:
        return way.text
    return f"{way.text}: `{way.new.strip()}`" if way.new.strip() else f"{way.text}: remove `{way.span.text}`"


def _edits(text: Text, helps: list[Help]) -> Edits:
    """The edits of this file; none where one of them is of another."""
    out = [(text.range(h.span), h.new) for h in helps if h.span is not None and h.new is not None]
    return tuple((here, new) for here, new in out if here is not None) if all(here for here, _ in out) else ()


def layout(text: Text) -> Edits:
    """The edit that lays a spec out; none for a document, for what cannot be read, and where nothing changes."""
    if text.is_document:
        return ()
    new = flow.formatted(text.source, "unicode", Report(), text.sources)
    return () if new is None or new == text.source.text else ((whole(text.source), new),)


def kernel(text: Text, backend: str = "torch") -> str:
    """The file that computes a spec; what is wrong where there is none. It is text: nothing of it is loaded."""
    def written(program: TypedProgram) -> str:
        made = compiling.planned(program, Options(backend))
        return back_ends.emit(made, backend)

    return _told(text, written)


def derivation(text: Text) -> str:
    """The recurrence that was found for each pass of a spec."""
    return _told(text, derived)


def derived(program: TypedProgram) -> str:
    """The recurrence that was found for each pass of a program, as a text."""
    found = [as_text(item) for _, items in by_piece(pipeline.normal(program)) for item in items]
    return "\n".join(found) or "# no pass of the plan carries a value from one block to the next\n"


def _told(text: Text, make: Callable[[TypedProgram], str]) -> str:
    """What is made of the program of a text; its problems where it has none."""
    try:
        if text.program is None:
            return "\n".join(f"# {line}" for p in text.problems for line in render(p).split("\n"))
        return make(text.program)
    except (EincError, Problem, RecursionError) as error:
        problems = error.problems if isinstance(error, EincError) else [error] if isinstance(error, Problem) else []
        told = [render(p) for p in problems] or ["an expression is nested too deeply"]
        return "".join(f"# {line}\n" for text_ in told for line in text_.strip().split("\n"))
