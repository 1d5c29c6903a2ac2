"""Steps whose positions are dealt out over the ranks of a mesh: virtual ranks against the step on one device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from helpers import Array, Arrays, arrays, distance, extent, meaning, typed_of
from placing_cases import BY_NAME
from programs import Case
from virtual import Ranks

from einc.driver import pipeline
from einc.planning import generation
from einc.planning.placing import Axis, Placed, placed
from einc.planning.placing.messages import messages
from einc.transforms.serving.cached import Refused, growing
from einc.transforms.serving.dealt import dealt
from einc.transforms.serving.handed import Handed, Rows

COUNTS = (3, 1, 2)  # new positions of each step, the first with nothing before them
CAUSAL, GROUPS, LATENTS = "sdpa", "gqa", "mla_rope"
ALWAYS = (CAUSAL, "sliding_window")
MORE = (GROUPS, LATENTS, "mla", "sinks_window", "alibi", "cope", "forgetting_transformer", "softmax1", "retention",
        "top_keys", "sparse_attention", "deepseek_sparse", "documents", "stick_breaking", "linear", "moba", "nsa",
        "int8_cache", "gpt2_block", "swiglu_block", "two_domains", "selective_attention")


def rows_of(one: Rows, step: Handed, kept: Array, sizes: Mapping[str, int]) -> Array:
    """What is kept as the ranks have it together: position after position in turn, NaN where a rank has a row more."""
    slots = step.program.tensors[one.past].slots
    more = [(0, -x % step.ranks if n == one.slot else 0) for n, x in enumerate(kept.shape)]
    full = np.pad(kept, more, constant_values=0 if kept.dtype.kind == "i" else np.nan)
    return full.reshape([extent(slot.set.extent, sizes) for slot in slots])


def on_ranks(case: Case, ranks: int) -> Placed:
    """Holds some steps of a spec on ranks against those on one device; returns the step on the mesh."""
    program = typed_of(case)
    alone, sizes = generation.as_function(program), {**case.sizes, "T": sum(COUNTS)}
    step, over = dealt(alone, growing(program), ranks)
    found = placed(pipeline.normal(step.program), [Axis("cp", ranks, (over,))], {"T": 1})  # a step is of few
    given, kept, begun = arrays(program, sizes, case.ranges), dict[str, Array](), 0
    for count in COUNTS:
        known = {**sizes, "T": count, step.past: begun}
        mine: Arrays = dict(given)
        for tensor in program.inputs():
            for at, slot in enumerate(tensor.slots if tensor.role == "input" else ()):
                if slot.set == growing(program):
                    mine[tensor.key] = given[tensor.key].take(range(begun, begun + count), at)
        for one in step.rows:
            slots, integer = alone.program.tensors[one.past].slots, alone.program.tensors[one.past].integer
            empty = np.zeros([extent(slot.set.extent, known) for slot in slots], int if integer else float)
            kept.setdefault(one.past, empty)
        right = meaning(alone.program, {**mine, **kept}, known)
        made = Ranks(found, known).run({**mine, **{one.past: rows_of(one, step, kept[one.past], known)
                                                   for one in step.rows}})
        assert max(distance(made[name], right[name]) for name, _ in step.program.outputs) < 1e-10
        kept = {one.past: np.concatenate([kept[one.past], right[one.made]], one.slot) for one in step.rows}
        begun += count
    return found


@pytest.mark.parametrize("spec", [*ALWAYS, *(pytest.param(name, marks=pytest.mark.whole) for name in MORE)])
def test_steps_on_ranks_make_what_one_device_makes(spec: str) -> None:
    """What a rank has beyond the last position is never read, and what is kept is not sent where it is summed."""
    found = on_ranks(BY_NAME[spec], 2 if spec in ALWAYS else 3)
    if spec in (*ALWAYS, GROUPS, LATENTS):
        assert [move.kind for _, move in found.moves] == ["all_gather"] * 3
        assert len(messages(found)) == 1
        sent = {n for _, move in found.moves for n in move.wire.sizes}
        assert "past" not in sent


@pytest.mark.parametrize(("spec", "said"), [
    ("indexer", "the output `S` has all of them"), ("online_softmax", "the caller gives `b` for all of them"),
])
def test_what_cannot_be_dealt_out(spec: str, said: str) -> None:
    program = typed_of(BY_NAME[spec])
    with pytest.raises(Refused, match=said):
        dealt(generation.as_function(program), growing(program), 2)
