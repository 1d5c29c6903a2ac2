"""`einc from FILE.py::function`: the spec that a plain Python function is."""

from __future__ import annotations

import ast
from importlib.resources import files
from pathlib import Path

import click

from einc.documents.python_source.reading import Asked, Reading, read
from einc.driver import pipeline
from einc.driver.commands.common import counted, tell
from einc.driver.files import contents, given
from einc.driver.flow import functions
from einc.errors.report import EincError, Problem, Report, Source, failure
from einc.syntax.spelling import BUILT_IN, KEYWORDS
from einc.syntax.texts import MAX_BYTES, read_bytes

LIBRARY = "python_library.txt"
READS_LATER = "E0501"


@click.command("from")
@click.argument("place", metavar="FILE.py::FUNCTION")
@click.option("--time", "time", metavar="LETTERS", default="",
              help="Axes that are time, by their letters or sizes: `t,s`; `none` where there is none.")
@click.option("--shape", "shapes", metavar="NAME=SIZES", multiple=True,
              help="The axes of an argument, such as `x=B,T,C`; of one with a default, that it is given.")
@click.option("--value", "values", metavar="NAME=VALUE", multiple=True,
              help="A constant for an argument: a number, a text, True, False or None.")
@click.option("-o", "--output", type=click.Path(), metavar="OUT.ein",
              help="The file to write, instead of standard output.")
@click.pass_context
def command(ctx: click.Context, *, place: str, time: str, shapes: tuple[str, ...], values: tuple[str, ...],
            output: str | None) -> None:
    """Print the spec that a Python function is, such as `layer.py::attend` or `layer.py::Layer.forward`, or
    `::attend` of standard input.

    Its source is read, and never run: einsum, products of matrices, views, masks, functions of lines, einops, and
    layers of torch whose weights become weights. What the language does not say is a comment in the spec that quotes
    the line; then the status is 1. Raises EincError.
    """
    name, marks, path = place.rpartition("::")
    name = "" if name == "-" else name
    if not marks or not path:
        raise failure(f"`{place}` names no function", "write FILE.py::function or FILE.py::Class.method")
    report = Report()
    source = read_bytes(name or "<stdin>", contents(Path(name), MAX_BYTES) if name else given(MAX_BYTES), report)
    if report.errors:
        raise EincError(report.errors)
    asked = Asked({k: tuple(v.replace(",", " ").split()) for k, v in map(_pair, shapes)},
                  {k: _constant(v) for k, v in map(_pair, values)},
                  frozenset(time.replace(",", " ").split()))
    found = read(source, path.split("."), files("einc.grammar").joinpath(LIBRARY).read_text(encoding="utf-8"),
                 reserved(), asked)
    text = checked(found)
    if output is None:
        click.echo(text, nl=False)
    else:
        Path(output).write_text(text, encoding="utf-8", newline="\n")
    for question in found.questions:
        click.echo(f"question: {question}", err=True)
    told = Report(list(found.unsaid))
    tell(told)
    if told.errors:
        click.echo(f"{counted(len(told.errors), 'line')} could not be said", err=True)
        ctx.exit(1)


def reserved() -> frozenset[str]:
    """The words that are no names of arrays."""
    return KEYWORDS | functions() | {*BUILT_IN, "inf", "delta", "epsilon"}


def checked(found: Reading) -> str:
    """The text of a reading that `einc check` accepts. EincError where neither does."""
    reports = []
    for text in (found.text, found.whole):
        report = Report()
        if pipeline.check(Source("the spec", text), report) is not None:
            return text
        reports.append(report)
        if {p.code for p in report.errors} != {READS_LATER}:
            break
    raise EincError([*found.unsaid, *reports[0].errors, Problem(
        "the spec that this function would be is not sound; it reads\n" + found.text)])


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise failure(f"`{text}` is not of the form NAME=…")
    return name.strip(), value.strip()


def _constant(text: str) -> float | int | str | bool | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, float | int | str | bool) else None


