"""`einc draw`: pictures of a spec."""

from __future__ import annotations

import click

from einc.driver.commands.common import DATA, FILE, OWN, SEED, SIZES, Chosen, columns, known_sizes, typed
from einc.driver.commands.sizes import names
from einc.driver.drawing.drawn import WORDS, drawn
from einc.driver.drawing.pictures import save
from einc.driver.options import Options
from einc.errors.report import failure


@click.command("draw")
@FILE
@click.argument("what", type=click.Choice(WORDS))
@SIZES
@DATA
@SEED
@OWN
@click.option("--of", "of", metavar="NAME", default="", help="The tensor that is meant, of a mask or of weights.")
@click.option("--tile", metavar="ROWS,COLUMNS", default="", help="Lengths of tiles other than the usual ones.")
@click.option("-o", "--output", type=click.Path(), metavar="OUT",
              help="The file to write, .svg, .html or .png, instead of the terminal.")
def command(*, file: Chosen, what: str, sizes: dict[str, int], data_file: str | None, seed: int, own: bool, of: str,
            tile: str, output: str | None) -> None:
    """Draw of the spec FILE the domain of each masked tensor (mask), the tiles that its kernels visit, whole, cut or
    skipped (tiles), the steps of its plan (plan), or the values of masked tensors on data (weights).

    Sizes that are not given are those of the data, else small ones for points and larger ones for tiles; they are
    printed. What is large is drawn by blocks.
    \f
    Raises EincError where an option is not for what is drawn, or a picture would have too many points.
    """
    program = typed(file)
    known_sizes(sizes, names(program), program.sizes, program.idle)
    if of and what not in ("mask", "weights"):
        raise failure(f"--of is for mask and weights, not for {what}", "leave it out")
    if tile and what != "tiles":
        raise failure(f"--tile is for tiles, not for {what}", "leave it out")
    found = drawn(program, what, sizes, options=Options(own=own), data_file=data_file, seed=seed, of=of,
                  tile=_lengths(tile))
    if output is None:
        click.echo(found.within(columns()), nl=False)
    else:
        save(output, found)
        click.echo(f"wrote {output}", err=True)


def _lengths(text: str) -> tuple[int, int]:
    """`64,128` -> (64, 128); (0, 0) for none. Raises EincError for another form."""
    if not text:
        return 0, 0
    found = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(found) != 2 or text.count(",") != 1 or 0 in found:
        raise failure(f"`{text}` is not of the form ROWS,COLUMNS, two whole numbers from 1", "write --tile 128,64")
    return found[0], found[1]
