"""`einc derive`: the one-pass form that the compiler found, in the notation of the papers, and whether a written one
is equal; or the program of the gradient.
"""

from __future__ import annotations

import click

from einc.driver import compiling, pipeline, placing
from einc.driver.commands.common import FILE, MESH, PLAN, Chosen, typed
from einc.driver.gradients import constant
from einc.driver.options import names_of
from einc.driver.reports.read_back import doubts
from einc.driver.reports.recurrence import as_tex, as_text, by_piece
from einc.driver.reports.rows import passing
from einc.driver.reports.staged import as_specs
from einc.driver.reports.written import as_text as told
from einc.driver.reports.written import written
from einc.driver.staging import Staging
from einc.errors.report import Report, Source, failure
from einc.ir.indices import INDEX_CLASSES
from einc.ir.plan import Kernel, Module, leaves
from einc.ir.programs import TypedProgram
from einc.planning.recurrences.unrolled import unrolled
from einc.syntax.printing.page import page
from einc.syntax.printing.show import rounds_text, show
from einc.transforms.gradients.pieces import Piece, pieces


@click.command("derive")
@FILE
@click.option("--grad", is_flag=True, help="Print the gradient as a spec: what it is given, and what it makes of that.")
@MESH
@PLAN
@click.option("--claim", "claimed", is_flag=True,
              help="Of a mesh: print what one device makes, too, and the claim that it is the same, for `einc prove`.")
@click.option("--tex", "latex", is_flag=True, help="Print LaTeX instead of the language.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, grad: bool, mesh: dict[str, int], plan: str, claimed: bool,
            latex: bool) -> None:
    """Print the recurrence that was found for each pass of the spec FILE, or the term that keeps it in two passes.

    A recurrence that FILE writes itself is proved equal to it; status 1, and both sides, where it is not.
    With --grad print the program of its gradient, which `einc check` reads; of a spec with rounds one for
    each piece, in the order in which they run.
    On a mesh of devices, which --mesh or a chosen plan names, print what all devices do as one spec, in which the
    device is an index and each collective an equation; `einc check` reads it. Where rounds are stages print each kind
    of stage as a spec. With --claim `einc prove` holds that
    against what one device makes.
    \f
    Raises EincError where options exclude each other.
    """
    if mesh or plan != "call":
        stages = placing.in_stages(typed(file), names_of(plan), mesh)
        if stages is not None:
            return _stages(stages, grad or claimed or latex)
        text = placing.on_all(typed(file), names_of(plan), mesh, grad, claimed)
        click.echo(_page(text, "ranks") if latex else text, nl=False)
        return
    if claimed:
        raise failure("--claim is for a mesh of devices, and none is named", "name one: --mesh tp=2, for instance")
    if grad:
        click.echo("\n".join(_paged(piece) if latex else piece.text for piece in _gradient(typed(file))), nl=False)
        return
    program = typed(file, proved=False)
    beside, sign = written(program), "%" if latex else "#"
    normal = pipeline.normal(program)
    found = [(piece, item) for piece, items in by_piece(normal) for item in items]
    ordered = [loop for loop in program.every_repeat if INDEX_CLASSES[loop.index.set.cls].before]
    for loop in ordered:
        click.echo(f"{sign} One position after the other: what a round makes depends on the rounds before it.")
        click.echo("\n".join(f"{'% ' * latex}{line}" for line in rounds_text(program, loop).split("\n")))
    apart = unrolled(program) if ordered else None
    if apart is not None:
        click.echo(f"{sign} The same without states that are affine: what positions write solves a triangular system.")
        click.echo(_page(show(apart), program.name) if latex else show(apart), nl=False)
    if not (found or ordered) and all(recur.proved for recur in beside):
        click.echo("\n".join(f"{sign} {line}" for line in _folded(compiling.plan(normal))))
    for piece, item in found:
        told_of = () if item.note else doubts(piece, item)
        click.echo("\n".join([*(f"{sign} {line}" for line in told_of), as_tex(item) if latex else as_text(item)]))
    for recur in beside:
        click.echo(told(recur, program.source, sign))
    if not all(recur.proved for recur in beside):
        ctx.exit(1)


def _stages(found: Staging, more: bool) -> None:
    """Prints the stages of a program, each as a spec. EincError where more is asked for, or there are other axes."""
    if more:
        raise failure("--grad, --claim and --tex are not for stages",
                      "print the stages alone, and derive more of what is printed")
    if found.rest:
        cut = ", ".join(f"`{axis.name}`" for axis in found.rest)
        alone = ",".join((f"{found.axis.name}={found.axis.ranks}", *(f"{axis.name}=1" for axis in found.rest)))
        raise failure(f"each stage is cut over {cut}, too, and a spec is printed of stages that one device has each",
                      f"say `--mesh {alone}` for those; `einc show --stage plan` prints what each device does")
    click.echo(as_specs(found), nl=False)


def _folded(module: Module) -> list[str]:
    """What the plan folds in tiles, where no recurrence is told: each kernel with its loops."""
    kernels = [step for step in leaves(module.steps) if isinstance(step, Kernel) and passing(step)]
    if not kernels:
        return ["nothing is folded that could be carried: every step is a contraction or pointwise"]
    return ["no value is rescaled from one block to the next; in tiles the plan folds",
            *(f"    {', '.join(kernel.writes)}: {passing(kernel)}" for kernel in kernels)]


def _gradient(program: TypedProgram) -> list[Piece]:
    """The pieces of the gradient that it needs. EincError where the program has none."""
    found = [piece for piece in reversed(pieces(program)) if piece.derived.gradients] if program.outputs else []
    if not found:
        raise constant(program)
    return found


def _paged(piece: Piece) -> str:
    """A piece's text as LaTeX."""
    return _page(piece.text, piece.derived.backward.name)


def _page(text: str, name: str) -> str:
    """A text of the language as LaTeX."""
    tree = pipeline.syntax(Source(name, text), Report())
    return page(tree, pipeline.known(pipeline.used(tree)), name)
