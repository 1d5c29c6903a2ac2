"""The pass that the equations of a group make: tiles that carry a state, one pass over what is folded, shares of tiles."""

from __future__ import annotations

from einc.ir.indices import OPEN
from einc.ir.terms import TRUE, Equation, Fold, NormalProgram, free_indices
from einc.planning.analysis.fills import surely_finite
from einc.planning.analysis.prefix import alone
from einc.planning.fusing.fuse import Group
from einc.planning.streaming.chunks import chunked
from einc.planning.streaming.passes import Streamed
from einc.planning.streaming.shares import shares
from einc.planning.streaming.stream import stream
from einc.transforms.laws.simplify import factors


def one_pass(program: NormalProgram, group: Group, kept: frozenset[str], ordered: bool) -> Streamed:
    """The equations as the kernel of the group computes them; `kept` are its results."""
    if group.along is not None or not tiled(group):
        return Streamed(group.equations, None, ())
    taken = frozenset(program.tensors)
    shared = shares(group.equations, kept, program.tensors, ordered)
    inside = None if shared or _infinite(program, group) else chunked(group.equations, group.virtual, taken)
    made = shared.passed if shared else group.equations
    passed = inside or stream(made, group.virtual, kept | shared.rows if shared else kept, taken)
    return shared.joined(passed) if shared else passed


def tiled(group: Group) -> bool:
    runs_on = alone(group.equations)
    return bool(group.virtual) or group.along is not None or any(_is_cut(e) for e in group.equations if e.target not in runs_on)


def _infinite(program: NormalProgram, group: Group) -> bool:
    """Whether a stored factor outside a sum may be infinite in a row without a point: it must not meet the sum's 0."""
    mine = {e.target for e in group.equations}
    others = {e.target: e for e in program.equations if e.target not in mine}
    sums = [e.body for e in group.equations if isinstance(e.body, Fold) and e.body.op == "sum"]
    outer = [f for fold in sums for f in factors(fold.body) if not free_indices(f) & set(fold.bound)]
    return not all(surely_finite(f, others) for f in outer)


def _is_cut(equation: Equation) -> bool:
    """A fold of stored values over an open index whose domain depends on the result's indices: its mask is worth tiling."""
    body = equation.body
    if not isinstance(body, Fold) or body.domain == TRUE:
        return False
    return any(b.set.cls in OPEN for b in body.bound) and bool(free_indices(body.domain) - set(body.bound))
