"""Steps over chosen elements: where the largest stand, and products that are formed group by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from einc.backends.host.contractions import element
from einc.backends.writer import Names, Writer, identifier, lettered, sized
from einc.ir.plan import Buffer, GroupedMatmul, TopK


def pick(step: TopK, body: Writer, helpers: set[str]) -> None:
    """Writes the statement that takes the names of the largest elements, the largest first. Adds the helper to
    `helpers`."""
    helpers.add("_largest")
    straight = step.order == tuple(range(len(step.order)))
    operand = step.operand if straight else f"{step.operand}.permute({', '.join(map(str, step.order))})"
    back = "" if step.at == len(step.order) - 1 else f".movedim(-1, {step.at})"
    first = "" if step.set.start == 1 else f", {step.set.start}"
    body(f"# {step.text}")
    body(f"{step.out} = _largest({operand}, {sized(step.count)}{first}){back}")


def grouped(step: GroupedMatmul, out: Buffer, body: Writer, names: Names, helpers: set[str],
            stored: Callable[[str], str]) -> None:
    """Writes a loop over the elements that some row names, with the rows that name each."""
    helpers.add("_groups")
    body(f"# {step.text}")
    extents = ", ".join(sized(s.extent) for s in out.sets)
    body(f"{step.out} = torch.zeros(({extents}{',' * (len(out.sets) == 1)}), dtype={element(out)}, device=device)")
    one = names.fresh(f"{identifier(step.matrix[0])}_at")
    rows = {axis: names.fresh(axis) for axis in step.rows}
    listed = ", ".join(rows[axis] for axis in step.rows)
    first = "" if step.set.start == 1 else f", {step.set.start}"
    body.open(f"for {one}, ({listed}{',' * (len(rows) == 1)}) in _groups({step.names}, "
              f"{sized(step.set.extent)}{first}):")
    free = [a for _, o in (*step.operands, step.matrix) for a in o if a and a not in rows]
    letters = lettered(["rows", *free, *(a for a in step.axes if a not in rows)])
    specs, given = [], []
    for name, axes in step.operands:
        spec, picked = at_rows(axes, rows, letters)
        specs.append(spec)
        given.append(stored(name) + picked)
    matrix, axes = step.matrix
    # Last, because a library that takes operands in turn would else form a matrix for each row.
    specs.append("".join(letters[a] for a in axes if a))
    given.append(f"{stored(matrix)}{_subscript([one if not a else ':' for a in axes])}")
    spec, picked = at_rows(step.axes, rows, letters)
    row, spread = letters["rows"], ""
    if not any(row in s for s in specs):  # the same for all rows of a group
        spread = f"[{', '.join('None' if x == row else ':' for x in spec)}]"
        spec = spec.replace(row, "")
    body(f'{step.out}{picked} = torch.einsum("{",".join(specs)}->{spec}", {", ".join(given)}){spread}')
    body.close()


def at_rows(axes: tuple[str, ...], rows: Mapping[str, str], letters: Mapping[str, str]) -> tuple[str, str]:
    """The letters of a tensor at the rows of a group, and its subscript. Rows apart from each other come first."""
    mine = [n for n, a in enumerate(axes) if a in rows]
    if not mine:
        return "".join(letters[a] for a in axes), ""
    together = mine == list(range(mine[0], mine[-1] + 1))
    rest = [letters[a] for a in axes if a not in rows]
    rest.insert(mine[0] if together else 0, letters["rows"])
    return "".join(rest), _subscript([rows.get(a, ":") for a in axes])


def _subscript(places: list[str]) -> str:
    while places and places[-1] == ":":
        places = places[:-1]
    return f"[{', '.join(places)}]"
