"""What the subcommands share: reading a spec, telling its problems, and options that several have."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from einc.driver import back_ends, pipeline
from einc.driver.files import given
from einc.driver.sources import names as shipped_names
from einc.errors.report import Report, Source, as_json, failure, render
from einc.ir.programs import TypedProgram
from einc.ir.requested import MOST_RANKS
from einc.syntax.spelling import nearest
from einc.syntax.texts import MAX_BYTES, read_bytes

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 10**15 - 1  # the largest size that an option takes
DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True)
class Chosen:
    """What a command is about: a file or the name of a spec, and of a paper the section or the equation, and the side
    file.
    """

    path: str
    section: str = ""
    equation: str = ""
    side: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is a document of which no section and no equation is named."""
        return pipeline.is_document(self.path) and not (self.section or self.equation)

    def side_file(self, report: Report) -> Source | None:
        """The file of `--with`, which holds the declarations that a document lacks."""
        return read_spec(self.side, report) if self.side else None


def columns() -> int:
    """How many columns the terminal has; no bound where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def read(path: str, report: Report) -> Source:
    """A file, the name of a spec that comes with einc, or `-` for standard input -> its
    text; what is no text is in the report."""
    if path == "-":
        return read_bytes("<stdin>", given(MAX_BYTES), report)
    return pipeline.read_source(Path(path), report)


def read_spec(path: str, report: Report) -> Source:
    """The text of a spec; what cannot be read is in the report. EincError where it is a paper."""
    if pipeline.is_document(path):
        raise failure(f"{path} is a paper, and this is for specs",
                      "`einc doc` tells of a paper; check, compile, run, show and derive take one section of it, "
                      "`--section`, or an equation, `--equation`")
    return read(path, report)


def checked(file: Chosen, report: Report, strict: bool = False, proved: bool = True) -> TypedProgram | None:
    """A file -> its program; None where the report has errors, or under `strict` warnings.

    Raises EincError where the file is Python.
    """
    if file.path.endswith(".py"):
        raise failure(f"{file.path} is Python, and no spec",
                      f"`einc from {file.path}::FUNCTION` reads a function of it")
    source = read(file.path, report)
    return pipeline.examine(source, report, strict=strict, proved=proved, section=file.section,
                            equation=file.equation, side=file.side_file(report))


def typed(file: Chosen, strict: bool = False, proved: bool = True) -> TypedProgram:
    """A file -> its program, its problems told; where there is none the command ends with status 1."""
    report = Report()
    program = checked(file, report, strict, proved)
    tell(report)
    if program is None:
        click.echo(tally(report), err=True)
        click.get_current_context().exit(1)
    return program


def unreadable(source: Source, report: Report) -> NoReturn:
    """What is wrong with a text that cannot be read, with the edits that mend it; the command ends with status 1."""
    pipeline.advise(source, report)
    tell(report)
    click.echo(tally(report), err=True)
    click.get_current_context().exit(1)


def tell(report: Report) -> None:
    """Prints every problem, in the order of the text, to the standard error stream."""
    for problem in report.sorted():
        click.echo(render(problem), err=True)


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1: `1 error`, `2 errors`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tally(report: Report) -> str:
    """How many problems of each severity there are, the empty text for none."""
    counts = ((len(report.errors), "error"), (len(report.warnings), "warning"))
    return ", ".join(counted(number, noun) for number, noun in counts if number)


def _sizes(ctx: click.Context, param: click.Parameter, value: str) -> dict[str, int]:
    """`T=2048,H=8` -> {"T": 2048, "H": 8}. Raises click.BadParameter for another form, or for two numbers of one name.
    """
    return _numbers(value, 0, _MOST)


def _ranks(ctx: click.Context, param: click.Parameter, value: str) -> dict[str, int]:
    """`dp=2,tp=4` -> {"dp": 2, "tp": 4}. Raises click.BadParameter as for sizes, and for no ranks or too many."""
    return _numbers(value, 1, MOST_RANKS)


def _numbers(value: str, least: int, most: int) -> dict[str, int]:
    """Names with whole numbers from the least one to the most. Raises click.BadParameter for another form, or for two
    numbers of one name."""
    out: dict[str, int] = {}
    for piece in value.split(",") if value else ():
        match = re.fullmatch(r"\s*([^\s=]+)\s*=\s*0*(\d{1,15})\s*", piece, re.ASCII)
        if match is None or not least <= int(match[2]) <= most:
            raise click.BadParameter(f"`{piece.strip()}` is not of the form NAME=NUMBER, with a whole number from "
                                     f"{least} to {most:,}")
        if out.setdefault(match[1], int(match[2])) != int(match[2]):
            raise click.BadParameter(f"`{match[1]}` is given twice")
    return out


def known_sizes(sizes: Mapping[str, int], names: list[str], fixed: Mapping[str, int],
                idle: Container[str] = ()) -> None:
    """Refuse a size that the spec does not have, or that it fixes itself at another
    value, or that nothing depends on."""
    for name, value in sizes.items():
        if name in idle:
            raise failure(f"`{name}` is declared, but nothing that is returned depends on it", "leave it out")
        if name in fixed and fixed[name] != value:
            raise failure(f"`{name}` is fixed at {fixed[name]} by the spec, so it cannot be {value}")
        if name not in fixed and name not in names:
            listed = ", ".join(f"`{n}`" for n in names) or "none"
            near = next((n for n in names if n.replace("_", "").lower() == name.replace("_", "").lower()),
                        nearest(name, names) if len(name) > 1 else None)
            raise failure(f"`{name}` is no size of the spec" + (f"; did you mean `{near}`?" if near else ""),
                          f"the sizes that can be given: {listed}")


def FILE(command: F) -> F:
    """A spec, or a document with the options that say what of it is meant: the command is given them as one `Chosen`,
    `file`.
    """

    @wraps(command)
    def called(*args: Any, file: str, section: str | None, equation: str | None, side: str | None,
               **others: Any) -> Any:
        """Calls the command. Raises EincError where an option says nothing, or is of papers and FILE is none."""
        told = {option: text for option, text in
                {"--section": section, "--equation": equation, "--with": side}.items() if text is not None}
        for option, text in told.items():
            if not text.strip():
                raise failure(f"{option} is given nothing", f"write what is meant behind it, or leave {option} out")
        if section is not None and equation is not None:
            raise failure("--equation says more than --section", "give one of the two")
        if told and not pipeline.is_document(file):
            raise failure(f"{' and '.join(told)} is of a paper, and {file} is none", "leave it out, or give a paper")
        return command(*args, file=Chosen(file, section or "", equation or "", side or ""), **others)

    taking = click.option("--with", "side", type=click.Path(), metavar="SIDE.ein",
                          help="Of a paper: a file with the declarations that it lacks.")(called)
    taking = click.option("--equation", metavar="NAME",
                          help="Of a paper: the equation that is meant, by its label, its number or tag, or the title "
                               "of its section.")(taking)
    taking = click.option("--section", metavar="TITLE",
                          help="Of a paper: the section that is meant, by its title or how that begins.")(taking)
    return cast(F, click.argument("file", type=click.Path(), shell_complete=_files)(taking))


def _files(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """What a shell offers for FILE: names of specs that come with einc, and files; the shell's own files where no spec
    begins so, for beside these it would leave out either.
    """
    found = [name for name in shipped_names() if name.startswith(begun)]
    folder, start = os.path.split(begun)
    beside = sorted(os.listdir(folder or ".")) if found and os.path.isdir(folder or ".") else []
    files = [os.path.join(folder, name) for name in beside if name.startswith(start) and not name.startswith(".")]
    shown = [f"{name}/" if os.path.isdir(name) else name for name in files]
    return [CompletionItem(name) for name in [*shown, *found]] or [CompletionItem(begun, type="file")]


STRICT = click.option("--strict", is_flag=True, help="Refuse what is only a warning otherwise.")
SIZES = click.option("--sizes", default="", callback=_sizes, metavar="NAME=NUMBER,…",
                     help="Sizes of the spec, such as T=2048,H=8.")
MESH = click.option("--mesh", default="", callback=_ranks, metavar="AXIS=RANKS,…",
                    help="Axes of a mesh of devices, such as dp=2,tp=4: numbers of ranks in place of those of a plan.")
BACKEND = click.option("--backend", type=click.Choice(back_ends.names()), default="torch", show_default=True,
                       help="What the emitted file is written for.")
WHERE = click.option("--backend", type=click.Choice((back_ends.AUTO, *back_ends.names())), default=back_ends.AUTO,
                     show_default=True,
                     help="What computes; auto decides by the device of the tensors and what compiling would pay.")
NARROW = click.option("--narrow", is_flag=True,
                      help="Round every product of half inputs to their type: faster on some machines, less exact.")
GRAD = click.option("--grad", type=click.Choice(["yes", "exact"]), is_flag=False, flag_value="yes", default=None,
                    metavar="[exact]", callback=lambda _, __, value: value if value == "exact" else bool(value), help=(
    "With the gradient: what the file returns can be differentiated. `--grad exact` refuses a declared slope."))
PLAN = click.option("--plan", "plan", default="call", metavar="NAME,…", help=(
    "call, or serve: prefill and step, which add positions to a cache; names of `plan` blocks of the text, which are "
    "joined; and once, what makes tensors of weights alone, or rest, what takes these in place of the weights."))
KEEP = click.option("--keep", default=None, metavar="K,V",
                    help="What the cache of a plan that serves keeps of each position, instead of what is cheapest.")
DTYPE = click.option("--dtype", type=click.Choice(DTYPES),
                     help="Element type of the inputs; float32, or that of the data.")
DATA = click.option("--data", "data_file", type=click.Path(), metavar="FILE",
                    help="Inputs by their Python names, .npz or .safetensors; random ones without it.")
SEED = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Which random inputs.")
OWN = click.option("--own", is_flag=True,
                   help="Use the plan's own kernels only, where a library has one for the same equations.")


def tell_json(report: Report, fixed: list[str] | None) -> None:
    """Prints the problems of a report as JSON, and `fixed`, what was mended, where it is given."""
    page: dict[str, object] = {"problems": [as_json(p) for p in report.sorted()],
                               "errors": len(report.errors), "warnings": len(report.warnings)}
    if fixed is not None:
        page["fixed"] = fixed
    click.echo(json.dumps(page, ensure_ascii=False, indent=2))
