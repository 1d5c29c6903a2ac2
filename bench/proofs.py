"""How much of what all devices of a mesh make is proved to be what one makes: for each spec and letter the claims of
`einc derive --claim`, and what `einc prove` says of each.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from bench.cli import HELP

SPECS = Path(__file__).parent.parent / "specs"
RANKS = 2
_SAID = re.compile(r"^\S+: (proved|open|refuted): ", re.MULTILINE)


def letters(name: str) -> Iterator[str]:
    """The first letter of each line of a spec that declares some."""
    text = (SPECS / f"{name}.ein").read_text(encoding="utf-8")
    yield from dict.fromkeys(re.findall(r"^index\s+(\w+)[^\n]*\(", text, re.MULTILINE))


def verdicts(name: str, letter: str, grad: bool, seconds: float) -> Counter[str] | str:
    """How many claims there are of each verdict where a letter is cut, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        spec, claims = Path(folder, "spec.ein"), Path(folder, "claims.ein")
        spec.write_text((SPECS / f"{name}.ein").read_text(encoding="utf-8") +
                        f"\nplan devices:\n    mesh ranks = {RANKS}\n    shard {letter} over ranks\n", encoding="utf-8")
        try:
            text = _einc(seconds, "derive", spec, "--plan", "devices", "--claim", *(["--grad"] if grad else []))
            if text.returncode:
                return f"not cut: {text.stderr.strip().splitlines()[0]}"
            claims.write_text(text.stdout, encoding="utf-8")
            proved = _einc(seconds, "prove", claims)
        except subprocess.TimeoutExpired:
            return f"not settled in {seconds:g} s"
        found = Counter(_SAID.findall(proved.stdout))
        return found or f"not read back: {proved.stderr.strip().splitlines()[0]}"


def _einc(seconds: float, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of einc in a process of its own. Raises TimeoutExpired."""
    return subprocess.run([sys.executable, "-m", "einc", *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=seconds)


@click.command("proofs", context_settings=HELP)
@click.argument("specs", nargs=-1)
@click.option("--grad", is_flag=True, help="Of the gradients.")
@click.option("--limit", default=60.0, show_default=True, metavar="SECONDS", help="How long one text may take.")
def command(specs: tuple[str, ...], grad: bool, limit: float) -> None:
    """Prove what two devices make: each letter of the SPECS is cut, of all that come with einc where none is named, and
    every value is claimed to be what one device makes. Counts the claims that are proved, open and refuted.

    The exit status is 1 where one is refuted.
    """
    every = sorted(str(file.relative_to(SPECS).with_suffix("")) for file in SPECS.rglob("*.ein"))
    if unknown := [name for name in specs if name not in every]:
        raise click.BadParameter(f"there is no spec `{unknown[0]}`")
    total, texts = Counter[str](), Counter[str]()
    for name in specs or every:
        for letter in letters(name):
            found = verdicts(name, letter, grad, limit)
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
