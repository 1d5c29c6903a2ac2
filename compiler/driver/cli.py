"""The `einc` command. Each subcommand is a file of `commands/`, imported when it is asked
for, so that `check` starts fast."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

import click

from einc import __version__
from einc.errors.report import EincError, Problem, render

COMMANDS = {
    "check": "Say what is wrong with a spec.",
    "compile": "Write the Python file that computes a spec.",
    "doc": "Account for every equation of a paper.",
    "run": "Run a spec on random or given data.",
    "generate": "Let a language model go on with texts.",
    "show": "Print a spec as one stage of the compiler sees it.",
    "fmt": "Write a spec in one spelling and one layout.",
    "tex": "Print a spec as LaTeX.",
    "from": "Print the spec that a Python function is.",
    "to": "Print a spec as lines of einsum.",
    "derive": "Print the recurrence that was found for a spec.",
    "prove": "Prove what a spec claims, or show where it does not hold.",
    "cost": "Print what a spec costs, as formulas of its sizes.",
    "tune": "Time the kernels of a spec on the GPU and keep the fastest tiles.",
    "cache": "List or clear what tuning has kept.",
    "explain": "Teach what an error code means.",
    "playground": "Open a page on which a text is checked as you type.",
    "lsp": "Answer an editor: problems as you type, hover, completion, fixes.",
}

FILES = {"from": "from_python", "to": "to_einsum"}  # the files of commands with other names


class _LazyGroup(click.Group):
    """Subcommands by name. What goes wrong in one of them is told in a line and the exit status, never a traceback."""

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

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the subcommand. A known error is printed to stderr, with exit status 1; a broken pipe is raised."""
        try:
            return super().invoke(ctx)
        except EincError as error:
            problems = error.problems
        except Problem as error:
            problems = [error]
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            problems = [Problem(f"{error.filename or 'input or output'}: {(error.strerror or str(error)).lower()}")]
        except RecursionError:
            problems = [Problem("an expression is nested too deeply to compile")]
        except MemoryError:
            problems = [Problem("there is not enough memory")]
        click.echo("\n".join(map(render, problems)), err=True, nl=False)
        ctx.exit(1)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="einc")
def main() -> None:
    """Equations of transformer papers in, kernels out."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode gets escapes, not a crash.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
