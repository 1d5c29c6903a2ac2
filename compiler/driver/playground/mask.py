"""Where the tensors of a program exist, at small sizes: the pictures of `einc draw`."""

from __future__ import annotations

from einc.driver.drawing.pictures import Picture
from einc.driver.drawing.small import small_pictures, small_sizes
from einc.ir.programs import TypedProgram


def masks(program: TypedProgram) -> str:
    """Every domain that leaves pairs of positions out."""
    sizes = small_sizes(program)
    told = [one.text if isinstance(one, Picture) else f"{one}\n" for one in small_pictures(program, sizes)]
    if not told:
        return "every tensor exists at every pair of positions\n"
    return "\n".join([f"at {', '.join(f'{name} = {value}' for name, value in sizes.items())}\n", *told])
