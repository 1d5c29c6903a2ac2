"""`einc explain`: the page of an error code, made from the class that owns it."""

from __future__ import annotations

import textwrap
from difflib import get_close_matches

import click

from einc.driver.commands.error_index import index, rule
from einc.driver.commands.kinds import problems_of
from einc.errors.report import Problem, failure, render

REGISTRY = Problem.registry


@click.command("explain")
@click.argument("code", required=False)
@click.option("--markdown", is_flag=True, help="All of them as one page, the one that stands in specs/ERRORS.md.")
def command(code: str | None, markdown: bool) -> None:
    """Teach what the error CODE means, with an example; without CODE, list all codes.
    \f
    Raises EincError where no error has that code.
    """
    if markdown:
        if code is not None:
            raise failure("--markdown is the page of all codes, so none is given with it")
        click.echo(index(), nl=False)
        return
    if code is None:
        click.echo("\n".join(f"{name}  {kind.title}" for name, kind in sorted(REGISTRY.items())))
        return
    kind = REGISTRY.get(code.strip("[]").upper())
    if kind is None:
        near = get_close_matches(code.upper(), REGISTRY, n=3, cutoff=0.5)
        raise failure(f"there is no error `{code}`", *(f"{name}: {REGISTRY[name].title}" for name in near),
                      *(() if near else ("`einc explain` lists all codes",)))
    click.echo(page(kind))


def page(kind: type[Problem]) -> str:
    """Title, explanation, where the rule stands, the smallest text that has the error, and what einc says of it."""
    out = [f"{kind.code}: {kind.title}", "", *textwrap.wrap(kind.explanation, 100), "", f"The rule: {rule(kind)}", ""]
    if not kind.example:
        return "\n".join(out).rstrip()
    out.append(textwrap.indent(kind.example.rstrip(), "    "))
    if said := [render(p).rstrip() for p in problems_of(kind)]:
        out += ["", "gives", "", textwrap.indent("\n".join(said), "    ")]
    return "\n".join(out)

