"""`einc check`: every problem of a spec, and the fixes that are certain."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from einc.checking.edits import apply, certain
from einc.driver.commands.common import FILE, STRICT, Chosen, checked, counted, tally, tell, tell_json
from einc.driver.commands.watching import WATCH
from einc.errors.report import Help, Report, Source, failure
from einc.ir.programs import TypedProgram


@click.command("check")
@FILE
@WATCH
@STRICT
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How it is told.")
@click.option("--fix", is_flag=True, help="Rewrite the file with every fix that is certain.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, strict: bool, style: str, fix: bool) -> None:
    """Say what is wrong with the spec FILE: all errors in one run, status 1 if there is one.

    Of a Python file that `einc compile` wrote it says whether that is what the command in its head writes now; the file
    is not imported.
    \f
    Raises EincError where --fix is asked of standard input.
    """
    if file.path.endswith(".py"):
        ctx.exit(import_module("einc.driver.commands.kept_files").checked(file.path))
    report = Report()
    if file.whole:
        ctx.exit(import_module("einc.driver.commands.papers").checked(file, report, style, fix, strict))
    if fix and file.path == "-":
        raise failure("--fix rewrites a file, and standard input is none", "give the file by its name")
    program = checked(file, report, strict)
    fixed: list[str] = []
    if fix and (edits := certain(report.problems, str(Path(file.path)))):
        fixed = rewrite(file.path, edits)
        report = Report()
        program = checked(file, report, strict)
    if style == "json":
        tell_json(report, fixed if fix else None)
    else:
        _tell_text(report, program, fixed)
    if program is None:
        ctx.exit(1)


def _tell_text(report: Report, program: TypedProgram | None, fixed: list[str]) -> None:
    """Prints what was fixed, the problems, and what the program is."""
    for line in fixed:
        click.echo(line)
    tell(report)
    if program is None:
        click.echo(tally(report), err=True)
        return
    warned = f", {tally(report)}" if report.warnings else ""
    said = (counted(len(program.equations), "equation") if program.outputs
            else "no output: `einc prove` is for what it claims")
    click.echo(f"ok: {program.name}, {said}{warned}")
    for note in report.notes:
        click.echo(f"note: {note}")


def rewrite(path: str, edits: list[Help]) -> list[str]:
    """Make the edits in the file, which keeps its line ends and byte order mark; the lines that say what was done."""
    source = edits[0].span.source if edits[0].span is not None else Source(path, "")
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "w", encoding="utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8",
              newline="\r\n" if b"\r\n" in data else "\n") as file:
        file.write(apply(source, edits))
    return [_said(edit) for edit in edits]


def _said(edit: Help) -> str:
    if edit.span is None:
        return edit.text
    line, column = edit.span.source.position(edit.span.start)
    change = f"`{edit.span.text}` is now `{edit.new}`" if edit.span.text and edit.new else (
        f"removed `{edit.span.text}`" if edit.span.text else f"inserted `{(edit.new or '').strip()}`")
    return f"fixed {edit.span.source.name}:{line}:{column}: {edit.text} ({change})"
