"""How much of what all devices of a mesh make is proved to be what one makes: for each spec and letter the claims of
`einc derive --mesh --claim`, and the verdict of the prover on each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context

import click

from bench.cli import HELP
from einc.checking.placements import letters_of
from einc.driver import pipeline, placing
from einc.driver.sources import names, shipped
from einc.errors.report import EincError, Report, Source
from einc.ir.indices import LAYER
from einc.ir.programs import TypedProgram
from einc.meaning.prove import Proved, Refuted, prove_each

RANKS = 2


def verdicts(program: TypedProgram, letter: str, grad: bool) -> Counter[str]:
    """How many claims there are of each verdict where a letter is cut: `proved`, `open`, `refuted`. EincError where it
    cannot be cut, or what is printed is no spec."""
    text = placing.on_all(program, ("it",), {}, grad, claimed=True)
    report = Report()
    claims = pipeline.claims(Source(f"{letter}.ein", text), report)
    if report.errors:
        raise EincError(list(report.errors))
    kinds = {Proved: "proved", Refuted: "refuted"}
    return Counter(kinds.get(type(verdict), "open") for _, verdict in prove_each(claims))


def spec(name: str) -> Source:
    """A spec that comes with einc. Raises click.BadParameter where there is none of that name."""
    found = shipped(name)
    if found is None:
        raise click.BadParameter(f"there is no spec `{name}`")
    return found


def cut(name: str, letter: str) -> TypedProgram:
    """A spec with a plan that cuts a letter over two ranks. EincError where it has none of that name."""
    report, source = Report(), spec(name)
    text = f"{source.text}\nplan it:\n    mesh ranks = {RANKS}\n    shard {letter} over ranks\n"
    program = pipeline.check(Source(source.name, text), report)
    if program is None:
        raise EincError(list(report.errors))
    return program


def letters(name: str) -> Iterator[str]:
    """A letter of each set of a spec that is not the rounds'."""
    program = pipeline.check(spec(name), Report())
    assert program is not None
    seen = set()
    for letter, of in letters_of(program).items():
        if of not in seen and of.cls != LAYER and not program.repeats:
            seen.add(of)
            yield letter.rstrip("'")


def limited(name: str, letter: str, grad: bool, seconds: float) -> Counter[str] | str:
    """The verdicts of a process of its own, or why there are none."""
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)

    def work() -> None:
        try:
            there.send(verdicts(cut(name, letter), letter, grad))
        except EincError as error:
            there.send(f"not cut: {error.problems[0]}")

    process = context.Process(target=work)
    process.start()
    found: Counter[str] | str = here.recv() if here.poll(seconds) else f"not settled in {seconds:g} s"
    process.kill()
    process.join()
    return found


@click.command("proofs", context_settings=HELP)
@click.argument("specs", nargs=-1)
@click.option("--grad", is_flag=True, help="Of the gradients.")
@click.option("--limit", default=60.0, show_default=True, metavar="SECONDS", help="How long one text may take.")
def command(specs: tuple[str, ...], grad: bool, limit: float) -> None:
    """Prove what two devices make: each letter of the SPECS is cut, of all that come with einc where none is named, and
    every value is claimed to be what one device makes. Counts the claims that are proved, open and refuted.

    The exit status is 1 where one is refuted.
    """
    total, texts = Counter[str](), Counter[str]()
    for name in specs or names():
        for letter in letters(name):
            found = limited(name, letter, grad, limit)
            if isinstance(found, str):
                texts[found.partition(":")[0]] += 1
                click.echo(f"{name} {letter}: {found}")
                continue
            total += found
            texts["proved whole" if found.keys() == {"proved"} else "proved in part"] += 1
            click.echo(f"{name} {letter}: " + ", ".join(f"{n} {what}" for what, n in sorted(found.items())))
    click.echo("claims: " + ", ".join(f"{n:,} {what}" for what, n in sorted(total.items())))
    click.echo("texts: " + ", ".join(f"{n:,} {what}" for what, n in sorted(texts.items())))
    raise SystemExit(int(bool(total["refuted"])))
