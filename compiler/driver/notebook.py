"""`%load_ext einc`: the cell magic `%%ein`, and how a notebook shows programs, plans and problems."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import click

from einc.driver import compiling, pipeline
from einc.driver.compiled import Compiled
from einc.driver.options import Options
from einc.driver.reports.screen import screens
from einc.driver.reports.shown import display
from einc.driver.restoring import origin
from einc.errors.report import EincError, Problem, Report, Source, failure, render
from einc.ir.plan import Gradient, Module, PerRank, SegmentedModule
from einc.ir.programs import NormalProgram, TypedProgram
from einc.syntax.printing.show import show

_CODE = re.compile(r"^(error|warning)(\[\w+\])", re.M)
_MARKS = re.compile(r"(?m)^( *\|)( *[\^+~-][ ^+~-]*)(.*)$")


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext einc` calls: it adds the magic and tells the notebook how einc's own things are shown."""
    shell.register_magic_function(lambda line, cell: _ein(shell, line, cell), "cell", "ein")
    html, plain, latex = _formatters(shell)
    for kind, written in _WRITTEN.items():
        latex.for_type(kind, written)
    for kind, text in _SHOWN.items():
        html.for_type(kind, _as_html(text))
        plain.for_type(kind, _as_plain(text))
    html.for_type(Problem, problem_html)
    html.for_type(EincError, lambda error: "".join(map(problem_html, error.problems)))


def unload_ipython_extension(shell: Any) -> None:
    """Takes back what the extension has registered: the magic of cells and how results are shown. `%unload_ext einc`
    calls it. Changes `shell.magics_manager.magics` and the formatters of the shell."""
    shell.magics_manager.magics["cell"].pop("ein", None)
    html, plain, latex = _formatters(shell)
    for kind in _SHOWN:
        html.pop(kind, None)
        plain.pop(kind, None)
        latex.pop(kind, None)
    for kind in (Problem, EincError):
        html.pop(kind, None)


def _formatters(shell: Any) -> list[Any]:
    """What a shell shows things with: HTML, text and LaTeX, the last for what is written as a paper."""
    return [shell.display_formatter.formatters[kind] for kind in ("text/html", "text/plain", "text/latex")]


def compiled_text(made: Compiled) -> str:
    """The signature of a compiled function, and below it the program in the language."""
    return f"{made!r}\n\n{show(made.program)}"


_SHOWN: dict[type[Any], Callable[[Any], str]] = {
    TypedProgram: show, NormalProgram: show, Compiled: compiled_text,
    Module: screens, Gradient: screens, SegmentedModule: screens, PerRank: screens,
}

_WRITTEN: dict[type[Any], Callable[[Any], str]] = {
    TypedProgram: display, NormalProgram: display, Compiled: lambda made: display(made.program),
}


def _as_html(text: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: f"<pre>{escape(text(value))}</pre>"


def _as_plain(text: Callable[[Any], str]) -> Callable[[Any, Any, bool], None]:
    return lambda value, printer, cycle: printer.text(text(value))


def problem_html(problem: Problem) -> str:
    """A problem with its text, the place in colour."""
    text = _CODE.sub(r'<b style="color:#c22">\1\2</b>', escape(render(problem)))
    marked = _MARKS.sub(r'\1<span style="color:#c22">\2</span>\3', text)
    return f"<pre>{marked}</pre>"


@click.command("ein", add_help_option=False)
@click.argument("name")
@click.option("--backend", default="auto")
@click.option("--grad", is_flag=True)
@click.option("--module", is_flag=True)
@click.option("--own", is_flag=True)
def _words(**words: Any) -> dict[str, Any]:
    """The words behind `%%ein`."""
    return words


def _ein(shell: Any, line: str, cell: str) -> Any:
    """Compiles the cell of `%%ein name` to a function, which becomes a variable of that name and the value of the cell.
    Where the line or the cell has problems they are shown, and no variable is set."""
    try:
        name, options, program = _read(line, cell)
        made = compiling.built(program, options, origin(cell, options, {}))
    except EincError as error:
        return _display(shell, error.problems)
    shell.user_ns[name] = made
    return made


def _read(line: str, cell: str) -> tuple[str, Options, TypedProgram]:
    """The name and the options that the line of `%%ein` gives, and the program of its cell. Raises EincError for a line
    that is not of that form, and with all problems of a cell that does not check."""
    try:
        words = _words.main(shlex.split(line), standalone_mode=False)
    except (click.ClickException, ValueError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise failure(f"%%ein: {message}",
                      "write %%ein name, with --grad, --module, --own or --backend NAME behind it") from None
    name = words.pop("name")
    if not name.isidentifier():
        raise failure(f"`{name}` is no name of a function", "write %%ein name")
    report = Report()
    program = pipeline.examine(Source(name, cell), report)
    if program is None:
        raise EincError(report.sorted())
    return name, Options(**words), program


def _display(shell: Any, problems: Sequence[Problem]) -> None:
    """Shows problems, which are neither a value nor an error of Python."""
    shell.display_pub.publish({"text/plain": "\n".join(map(render, problems)),
                               "text/html": "".join(map(problem_html, problems))})
