"""`einc list`: the specs that come with einc."""

from __future__ import annotations

import json
import textwrap

import click

from einc.driver.catalogue import specs
from einc.driver.commands.common import columns
from einc.driver.sources import similar
from einc.errors.report import failure

LINE, LEAST = 100, 24  # letters of what a spec is that are shown, and in a narrow terminal
GAP = "  "


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]…")
@click.option("--inputs", is_flag=True, help="Say what each is given, too, for which each is checked.")
@click.option("--json", "as_json", is_flag=True, help="All of it as data for programs.")
def command(*, words: tuple[str, ...], inputs: bool, as_json: bool) -> None:
    """List the specs that come with einc, with what each is and the section of the paper that it stands for.

    With words those are listed in whose name or comment every one of them stands. `einc show NAME` prints the whole of
    one, `einc new MINE --like NAME` begins a variant of it.
    \f
    Raises EincError where no spec has these words.
    """
    found = [spec for spec in specs() if spec.has(words)]
    if not found and not as_json:
        near = similar(words[0])
        raise failure(f"no spec has `{' '.join(words)}` in its name or its comment", *(
            (f"there is a spec with a similar name: `{near}`",) if near else ("`einc list` lists all of them",)))
    if as_json:
        click.echo(json.dumps([spec.data() for spec in found], ensure_ascii=False, indent=2))
        return
    wide = max(len(spec.name) for spec in found)
    for spec in found:
        where = f"{GAP}[{spec.section}]" if spec.section else ""
        room = max(LEAST, min(LINE, columns() - wide - len(GAP + where)))
        line = textwrap.shorten(spec.line, room, placeholder=" …")
        click.echo(f"{spec.name:{wide}}{GAP}{line}{'' if spec.section in line else where}")
        if inputs and spec.inputs:
            click.echo(f"{'':{wide}}    given {', '.join(spec.inputs)}")
