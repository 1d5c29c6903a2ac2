"""The pass that the equations of a group make: tiles that carry a state, one pass over
what is folded, shares of tiles."""

from __future__ import annotations

from dataclasses import replace

from einc.ir.choices import Choices
from einc.ir.indices import DATA
from einc.ir.programs import Definitions, Equation, NormalProgram
from einc.ir.terms import TRUE, Fold, free_indices
from einc.planning.analysis.prefix import alone
from einc.planning.fusing.fuse import FusedGroup
from einc.planning.fusing.split import needed
from einc.planning.streaming.chunks import chunked
from einc.planning.streaming.partials import partial_reductions
from einc.planning.streaming.passes import Streamed
from einc.planning.streaming.stream import stream


def one_pass(program: NormalProgram, known: Definitions, group: FusedGroup, kept: frozenset[str],
             choices: Choices) -> Streamed:
    """The equations as the kernel of the group computes them; `kept` are its results, `known` what is known of the
    program's values."""
    if group.along is not None or not tiled(group):
        return Streamed(group.equations, None, ())
    taken = frozenset(program.tensors)
    shared = partial_reductions(group.equations, kept, program, choices.ordered)
    found = None if shared else chunked(group.equations, group.virtual, taken, known)
    if found is not None and (found[1] or choices.states):
        return found[0]
    made = shared.passed if shared else group.equations
    passed = stream(made, group.virtual, kept | shared.rows if shared else kept, taken)
    spare = found is not None or (shared is not None and _comes_apart(group, taken, known))
    return replace(shared.joined(passed) if shared else passed, spare=spare)


def _comes_apart(group: FusedGroup, taken: frozenset[str], known: Definitions) -> bool:
    """Whether some result of a kernel, with what it alone needs, is a pass with states between tiles in order."""
    by = {e.target: e for e in group.equations}
    alone_ = (needed(by, group.virtual, {e.target}) for e in group.equations if e.target not in group.virtual)
    return any(chunked(piece, group.virtual, taken, known) is not None for piece in alone_)


def tiled(group: FusedGroup) -> bool:
    """Whether the kernel of a group is cut into tiles: it has virtual values or an `along`, or one of its folds has
    a mask. An equation that is a single running fold is not cut."""
    runs_on = alone(group.equations)
    return (bool(group.virtual) or group.along is not None
            or any(_is_cut(e) for e in group.equations if e.target not in runs_on))


def _is_cut(equation: Equation) -> bool:
    """A fold of stored values over an open index whose domain depends on the result's
    indices: its mask is worth tiling."""
    body = equation.body
    if not isinstance(body, Fold) or body.domain == TRUE:
        return False
    return any(b.set.cls in DATA for b in body.bound) and bool(free_indices(body.domain) - set(body.bound))
