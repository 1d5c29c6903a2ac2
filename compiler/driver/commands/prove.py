"""`einc prove`: every claim of a spec, proved by normal form, refuted by numbers, or left open."""

from __future__ import annotations

import json
from typing import Any

import click

from einc.driver import pipeline
from einc.driver.commands.common import FILE, STRICT, Chosen, counted, read_spec, tally, tell, unreadable
from einc.errors.report import Report, failure
from einc.ir.claimed import Claim
from einc.meaning.counterexamples import Counterexample
from einc.meaning.prove import Open, Proved, Refuted, Verdict, prove_each


@click.command("prove")
@FILE
@STRICT
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random numbers at which claims are tried.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How it is told.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, strict: bool, seed: int, style: str) -> None:
    """Prove each claim of the spec FILE, or print numbers at which its sides differ; status 1 where one does not hold.

    `claim not LEFT = RIGHT` holds where the sides differ.
    \f
    Raises EincError where the spec claims nothing.
    """
    report = Report()
    source = read_spec(file.path, report)
    claims = pipeline.claims(source, report)
    if report.errors:
        unreadable(source, report)
    tell(report)
    if strict and report.warnings:
        click.echo(tally(report), err=True)
        ctx.exit(1)
    if not claims:
        raise failure(f"{file.path} claims nothing",
                      "write what is to be proved: `claim LEFT = RIGHT`, on a line of its own")
    found = prove_each(claims, seed)
    if style == "json":
        click.echo(json.dumps({"claims": [_data(*x) for x in found], "holds": all(holds(*x) for x in found)},
                              ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(line for x in found for line in _verdict_lines(*x)))
        kept = sum(holds(*x) for x in found)
        click.echo(f"{counted(kept, 'claim')} of {len(found)} hold{'s' if kept == 1 else ''}")
    if not all(holds(*x) for x in found):
        ctx.exit(1)


def holds(claim: Claim, verdict: Verdict) -> bool:
    """Whether the verdict confirms the claim: refuted where it is a denial, proved where it is not."""
    return isinstance(verdict, Refuted if claim.negated else Proved)


def _verdict_lines(claim: Claim, verdict: Verdict) -> list[str]:
    """The verdict on a claim as lines of text, with its place in the file."""
    place = ("" if claim.span is None
             else f"{claim.span.source.name}:{claim.span.source.position(claim.span.start)[0]}: ")
    text = claim.text.removeprefix("claim").strip()
    match verdict:
        case Proved(how, divides, but):
            word = "wrong, the sides are equal" if claim.negated else "proved"
            zero = [] if but is None else ["    but not where a divisor is 0, as with inputs of 0:", *_table(but)]
            where = ", wherever no divisor is 0" if divides else ""
            return [f"{place}{word}: {text}", f"    by normal form, {how}{where}", *zero]
        case Refuted(example):
            word = "refuted by example, as claimed" if claim.negated else "refuted"
            return [f"{place}{word}: {text}", *_table(example)]
        case Open(why, trials):
            return [f"{place}open: {text}", f"    no proof: {why}", f"    no difference in {counted(trials, 'trial')}"]


def _table(found: Counterexample) -> list[str]:
    sizes = ", ".join(f"{name} = {n}" for name, n in sorted(found.sizes.items()))
    more = f", and here are {len(found.points)} of them" if found.total > len(found.points) else ""
    head = [f"    {'at ' + sizes + ', ' if sizes else ''}{counted(found.total, 'point')} where the sides differ{more}"]
    rows = [[*map(str, at), *(f"{round(x, 12) + 0:.6g}" for x in sides)] for at, *sides in found.points]
    names = [*found.letters, "left", "right"]
    widths = [max(len(x) for x in column) for column in zip(names, *rows, strict=True)]
    return head + ["    " + "  ".join(x.rjust(n) for x, n in zip(row, widths, strict=True)) for row in (names, *rows)]


def _data(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    """The verdict on a claim as plain data for JSON."""
    page: dict[str, Any] = {"claim": claim.text, "negated": claim.negated, "holds": holds(claim, verdict)}
    if claim.span is not None:
        page |= {"file": claim.span.source.name, "line": claim.span.source.position(claim.span.start)[0]}
    match verdict:
        case Proved(how, divides, but):
            found = {} if but is None else {"but": _points(but)}
            return {**page, "verdict": "proved", "how": how, "divides": divides, **found}
        case Refuted(example):
            return {**page, "verdict": "refuted", **_points(example)}
        case Open(why, trials):
            return {**page, "verdict": "open", "why": why, "trials": trials}


def _points(found: Counterexample) -> dict[str, Any]:
    """Points at which the sides differ as plain data for JSON."""
    points = [{"at": dict(zip(found.letters, at, strict=True)), "left": left, "right": right}
              for at, left, right in found.points]
    return {"sizes": dict(found.sizes), "points": points, "differ": found.total}
