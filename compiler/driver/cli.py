"""The `einc` command. Each subcommand is a file of `commands/`, imported when it is asked
for, so that `check` starts fast."""

from __future__ import annotations

import gc
import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from einc import __version__
from einc.driver.failures import STATUS_OF_FAULTS, TRACEBACK, fault, problems
from einc.errors.report import render
from einc.syntax.spelling import nearest

COMMANDS = {
    "new": "Write a text to begin with, or a variant of a spec.",
    "list": "List the specs that come with einc.",
    "check": "Say what is wrong with a spec.",
    "compile": "Write the Python file that computes a spec.",
    "doc": "Account for every equation of a paper.",
    "run": "Run a spec on random or given data.",
    "generate": "Let a language model go on with texts.",
    "show": "Print a spec as one stage of the compiler sees it.",
    "draw": "Draw masks, tiles, the plan, or weights of a spec.",
    "fmt": "Write a spec in one spelling and one layout.",
    "tex": "Print a spec as LaTeX.",
    "from": "Print the spec that a Python function is.",
    "to": "Print a spec as lines of einsum, or as calls of a library.",
    "derive": "Print the recurrence that was found for a spec.",
    "prove": "Prove what a spec claims, or show where it does not hold.",
    "cost": "Print what a spec costs, as formulas of its sizes.",
    "bench": "Time a spec beside other ways to compute it.",
    "tune": "Time the kernels of a spec on the GPU and keep the fastest tiles.",
    "cache": "List or clear what tuning has kept.",
    "explain": "Teach what an error code means.",
    "playground": "Open a page on which a text is checked as you type.",
    "lsp": "Answer an editor: problems as you type, hover, completion, fixes.",
    "doctor": "Say what of einc runs on this machine.",
}

FILES = {"from": "from_python", "to": "to_einsum", "list": "listing"}  # the files of commands with other names


@contextmanager
def _collecting_less() -> Iterator[None]:
    """Python looks through what is alive for circles of garbage less often meanwhile: terms live long and form none."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _LazyGroup(click.Group):
    """Subcommands by name. What goes wrong in one of them is told in a line and the exit status, never a traceback; so
    is a fault of einc, unless an environment variable asks for its traceback.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"einc.driver.commands.{FILES.get(cmd_name, cmd_name)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of subcommands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the words of the command for a report of what goes wrong."""
        ctx.meta[__name__] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the subcommand. A known error is printed to stderr, with exit status 1, a fault of einc with another
        one; a broken pipe is raised, and a fault whose traceback is asked for. Of a value that an option or an argument
        does not have, one with a similar name is told; of an option that others have, these.
        """
        try:
            with _collecting_less():
                return super().invoke(ctx)
        except click.NoSuchOption as error:
            having = [f"`einc {name}`" for name in COMMANDS if (one := self.get_command(ctx, name)) is not None
                      and any(error.option_name in param.opts for param in one.params)]
            if not having:
                raise
            raise click.UsageError(f"No such option '{error.option_name}' here; {', '.join(having)} "
                                   f"{'has' if len(having) == 1 else 'have'} it.", error.ctx) from None
        except click.BadParameter as error:
            kind = error.param.type if error.param is not None else None
            word = re.match(r"'([^']+)' is not one of", error.message)
            near = nearest(word[1], kind.choices) if word and isinstance(kind, click.Choice) else None
            if near is None:
                raise
            raise click.BadParameter(f"{error.message} Did you mean '{near}'?", error.ctx, error.param) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if (found := problems(error)) is None and os.environ.get(TRACEBACK):
                raise
            told, status = (found, 1) if found is not None else ([fault(error, ctx.meta[__name__])], STATUS_OF_FAULTS)
        click.echo("\n".join(map(render, told)), err=True, nl=False)
        ctx.exit(status)

    def resolve_command(self, ctx: click.Context,
                        args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that is meant, and its arguments; of one that there is not, one with a similar name is told.
        An option whose value may be left out takes the next word where that is one of its values, and nothing else.
        Raises click.UsageError there.
        """
        near = nearest(args[0], COMMANDS) if args and args[0] not in COMMANDS else None
        if near is not None and not args[0].startswith("-"):
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{near}'?", ctx)
        name, command, given = super().resolve_command(ctx, args)
        for option in command.params if command is not None else ():
            if isinstance(option, click.Option) and isinstance(option.type, click.Choice) and isinstance(
                    option.flag_value, str):
                given = _joined(given, option.opts, option.type.choices, option.flag_value)
        return name, command, given


def _joined(args: list[str], names: Sequence[str], values: Sequence[str], plain: str) -> list[str]:
    """The arguments with the value of an option joined to its name: `plain` where the next word is no value."""
    out: list[str] = []
    for word in args:
        if out and out[-1] in names and word in values:
            out[-1] = f"{out[-1]}={word}"
        else:
            out.append(word)
    return [f"{word}={plain}" if word in names else word for word in out]


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="einc")
def main() -> None:
    """Equations of transformer papers in, kernels out."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode gets escapes, not a crash.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
