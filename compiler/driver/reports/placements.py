"""A program on a mesh as text: what each device has, what it does between two collectives, and every collective with
the bytes that a device holds before it and sends, and why it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import assert_never

from einc.driver.placing import OnMesh
from einc.driver.reports.growth import human
from einc.driver.reports.table import is_known
from einc.errors.report import width
from einc.ir.indices import Extent, number
from einc.ir.programs import Program
from einc.planning.placing import Placed
from einc.planning.placing.states import Owned, Part, Rows, Share, State, States, Whole, rows_of
from einc.planning.placing.traffic import Sent, sent
from einc.transforms.slicing.repeats import Round

_HEADS = ("level", "step", "tensor", "over", "before", "after", "held", "sent", "why")
_WIDTH, _GAP = 120, "  "
_REAL = 4  # bytes of an element of the data, in what is printed


def as_text(found: OnMesh, sizes: Mapping[str, int], full: bool = False, narrow: bool = False) -> str:
    """The program, and the gradient where it is there. With `full` every equation with the letter that is cut; `narrow`
    as for a file."""
    mesh = ", ".join(f"{axis.name} = {axis.ranks}" for axis in found.mesh if not axis.around) or "one device"
    halves = [(f"{_piece(found, n)} on {mesh}", link.forward, link) for n, link in enumerate(found.links)]
    halves += [(f"{'its gradient' if len(found.links) == 1 else f'the gradient of {_piece(found, n)}'} on {mesh}",
                link.backward, link)
               for n, link in reversed([*enumerate(found.links)]) if link.backward is not None]
    lines = [line for title, half, link in halves
             for line in (*_half(title, half, {**half.program.sizes, **sizes}, full, narrow, link.round), "")]
    return "\n".join([*lines, "bytes are for float32, on one device; a ring sends as few"]) + "\n"


def _piece(found: OnMesh, n: int) -> str:
    """What a piece is of a program with rounds, or the name of one without."""
    links = found.links
    if len(links) == 1:
        return links[0].forward.program.name
    if (one := links[n].round) is not None:
        return f"one of the rounds for {one.repeat.index.name}"
    later = next((link.round for link in links[n:] if link.round is not None), None)
    before = next((link.round for link in reversed(links[:n]) if link.round is not None), None)
    if later is not None:
        return f"what stands before the rounds for {later.repeat.index.name}"
    return f"what stands after the rounds for {before.repeat.index.name}" if before is not None else "the program"


def _half(title: str, placed: Placed, known: Mapping[str, int], full: bool, narrow: bool,
          one: Round | None) -> list[str]:
    """One program: what comes in, its levels, what goes out, and what is sent, in all rounds where it is one."""
    program, moves = placed.program, list(sent(placed, known, narrow))
    along = sum(move.messages == 0 for move in moves)
    total = sum((move.wire * number(move.move.element.size(_REAL)) for move in moves), number(0))
    sent_as = f" sent as {len(moves) - along}" if along else ""
    lines = [f"{title}: {len(moves)} collective{'s' * (len(moves) != 1)}{sent_as}", ""]
    lines += _grouped("given", [(t.key, placed.states(t.key)) for t in program.inputs()], placed)
    lines += _grouped("returned", [(name, placed.ends[key]) for name, key in program.outputs], placed)
    lines += ["", *_aligned(list(_rows(placed, known, moves))), ""]
    each = "" if one is None else f" in each round, {_figure(total * one.repeat.index.set.extent, known)} in all"
    rowed = any(rows_of(state) for move in moves for state in (move.move.before, move.move.after))
    often = ", where each element is chosen as often" if rowed else ""
    lines.append(f"a device sends {_figure(total, known)}{each}{often}")
    if full:
        lines += ["", *_equations(placed)]
    return lines


def _rows(placed: Placed, known: Mapping[str, int], moves: Sequence[Sent]) -> Iterable[tuple[str, ...]]:
    """The rows in order: the collectives before each level, and what is made in it."""
    for level in range(max([*placed.levels.values(), *(a.level for a in placed.arrivals)], default=0) + 1):
        for one in moves:
            if one.level == level:
                yield _row(one, placed, known)
        made = [key for key, at in placed.levels.items() if at == level]
        if made:
            yield (str(level), "make", ", ".join(made))


def _row(one: Sent, placed: Placed, known: Mapping[str, int]) -> tuple[str, ...]:
    """A collective in words and figures; what goes along in the message of the row above has no step of its own."""
    move = one.move
    over = ", ".join(placed.mesh[n].name for n in move.axes if not placed.mesh[n].around)
    held, wire = (_figure(x * number(move.element.size(_REAL)), known) for x in (move.stored, one.wire))
    before, after = (_state(x, move.tensor, placed.program) for x in (move.before, move.after))
    after = "part after part" if move.kind == "pass" else after
    level, step = (str(one.level), move.kind) if one.messages else ("", "")
    return level, step, move.tensor, over, before, after, held, wire, move.reason


def _state(state: State, key: str, program: Program) -> str:
    """How a tensor lies on one axis of the mesh, in a word or two: whole, cut by a letter, or shares to be folded."""
    match state:
        case Whole():
            return "whole"
        case Part(slot, component, blocks):
            of = program.tensors[key].slots[slot]
            return f"by {of.name}" + (f" in {component + 1}" if component >= 0 else "") + (
                f" in {blocks} blocks" if blocks > 1 else "")
        case Share(fold, reference, rows=rows):
            return f"{fold} of shares" + (f" / exp {reference}" if reference else "") + (", in rows" if rows else "")
        case Owned(chosen, rows=rows):
            return f"owner of {chosen}" + (", in rows" if rows else "")
        case Rows(chosen):
            return f"rows of {chosen}"
    assert_never(state)


def _states(states: States, key: str, placed: Placed) -> str:
    """The states on all axes: of those on which a tensor is whole nothing is said."""
    said = [f"{_state(state, key, placed.program)} over {axis.name}"
            for state, axis in zip(states, placed.mesh, strict=True) if not (isinstance(state, Whole) or axis.around)]
    return ", ".join(said) or "whole"


def _grouped(word: str, some: Sequence[tuple[str, States]], placed: Placed) -> list[str]:
    """Tensors by the states that they share."""
    outputs, by = dict(placed.program.outputs), dict[str, list[str]]()
    for name, states in some:
        by.setdefault(_states(states, outputs.get(name, name) if word == "returned" else name, placed), []).append(name)
    out, pad = list[str](), " " * len("returned  ")
    for said, names in by.items():
        out += wrap(f"{said}: {', '.join(names)}", _WIDTH - len(pad), subsequent_indent="  ")
    return [f"{word:{len(pad)}}{line}" if n == 0 else pad + line for n, line in enumerate(out)]


def _equations(placed: Placed) -> list[str]:
    """For each equation the letter that is cut on each axis, and the states of what it makes."""
    rows = [("makes", *(f"over {axis.name}" for axis in placed.mesh), "is")]
    for equation in placed.program.equations:
        cuts = [", ".join(letter.index.name for letter in cut.letters) or "-" for cut in placed.cuts(equation.target)]
        rows.append((equation.target, *cuts, _states(placed.states(equation.target), equation.target, placed)))
    return _columns(rows)


def _figure(extent: Extent, known: Mapping[str, int]) -> str:
    """Bytes as a number where the sizes say it, else as a formula."""
    if not is_known(extent, known):
        return str(extent).replace(" * ", "·")
    return human(float(extent.at(known)), "B") if extent.terms else "0"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows in columns. What is made in a level stands across them."""
    moves = [row for row in rows if len(row) == len(_HEADS)]
    columns = _columns([_HEADS, *moves])
    step = max(width(row[1]) for row in (_HEADS, *rows))
    out, waiting = columns[:1] if moves else [], columns[1:]
    for row in rows:
        if len(row) == len(_HEADS):
            out.append(waiting.pop(0))
        else:
            head = f"{row[0]:>{len(_HEADS[0])}}{_GAP}{row[1]:{step}}{_GAP}"
            out += wrap(row[2], _WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    return out


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of the same number of cells, each column as wide as its widest; the first is flush right where it counts."""
    widths = [max(width(row[n]) for row in rows) for n in range(len(rows[0]))]
    counts = rows[0][0] == _HEADS[0]
    return [_GAP.join(" " * (w - width(x)) + x if n == 0 and counts else x + " " * (w - width(x))
                      for n, (x, w) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
