"""Programs with rounds on meshes: each piece by virtual ranks against the interpreter on the whole, and what passes
from one piece to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers import Arrays, arrays, distance, meaning, typed, typed_of
from placing_cases import BY_NAME, EXACT, axes
from virtual import Ranks

from einc.driver import front, pipeline, placing
from einc.driver.cli import main
from einc.errors.report import EincError
from einc.ir.programs import NormalProgram, TypedProgram
from einc.planning.placing.chains import Chain, Link, linked

SIZES = {"B": 2, "T": 4, "H": 4, "d_k": 4, "d_model": 8, "d_ff": 8, "V": 8, "G": 2, "N": 3, "C": 4}
MESHES: dict[str, tuple[str, dict[str, int], dict[str, str]]] = {
    "heads, hidden and words": ("llama_lm", {"p": 2}, {"p": "hgev"}),
    "else positions": ("llama_lm", {"p": 2}, {"p": "hgevt"}),
    "texts": ("llama_lm", {"p": 2}, {"p": "n"}),
    "weights in parts": ("llama_lm", {"p": 2, "q": 2}, {"p": "nf", "q": "hge"}),
    "a composite": ("decoder_lm", {"p": 2}, {"p": "he"}),
    "positions": ("decoder_lm", {"p": 2}, {"p": "t"}),
    "words and positions": ("decoder_lm", {"p": 2, "q": 2}, {"p": "hevt", "q": "n"}),
}


def run(links: list[Link], given: Arrays, sizes: Mapping[str, int]) -> dict[str, Any]:
    """What the pieces make one after the other, every one of them by virtual ranks."""
    values: dict[str, Any] = dict(given)
    for link in links:
        program, one = link.forward.program, link.round
        if one is None:
            values |= Ranks(link.forward, sizes).run({t.key: values[t.key] for t in program.inputs()})
            continue
        count, start = int(one.repeat.index.set.extent.at(sizes)), one.repeat.index.set.start
        values |= {state: values[first] for state, first, _ in one.repeat.states}
        for n in range(count):
            here = {t.key: np.array(n + start) if t.key == one.counter else values[t.key].take(n, one.taken[t.key])
                    if t.key in one.taken else values[t.key] for t in program.inputs()}
            made = Ranks(link.forward, sizes).run(here)
            values |= {state: made[following] for state, _, following in one.repeat.states}
    return values


def placed(program: NormalProgram, mesh: Any) -> list[Link]:
    """The pieces of a program on a mesh."""
    chain = Chain(program, mesh, {})
    return linked(program, lambda piece, one: Link(chain.place(NormalProgram.of(piece), one), None, one))


def check(typed_: TypedProgram, ranges: Mapping[str, tuple[int, int]], sizes: Mapping[str, int], mesh: Any) -> None:
    """The pieces make what the whole makes, and a state lies after each round as before it, so that they can go on."""
    program = pipeline.normal(typed_)
    given = arrays(typed_, sizes, ranges)
    links = placed(program, mesh)
    found, want = run(links, given, sizes), meaning(program, given, sizes)
    for output, key in program.outputs:
        assert distance(np.asarray(found[key]), np.asarray(want[output]), 1e-3) < EXACT
    for before, link in pairwise(links):
        for state, first, following in link.round.repeat.states if link.round is not None else ():
            starts = link.forward.states(state)
            assert link.forward.ends[dict(link.forward.program.outputs)[following]] == starts
            assert first not in before.forward.ends or before.forward.ends[first] == starts


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", MESHES)
def test_pieces_make_what_the_whole_makes(name: str) -> None:
    spec, mesh, cut = MESHES[name]
    case = BY_NAME[spec]
    check(typed_of(case), case.ranges, {**case.sizes, **SIZES}, axes(typed_of(case), mesh, cut, {}))


def test_a_state_that_starts_whole_stays_so() -> None:
    """What starts as numbers that every rank makes is whole after each round, though what it is made of is not."""
    program = typed("index t : time(T)\ninput X_t\nH_t = t / T\nfor ℓ in 1..N:\n    weight W\n"
                    "    H_t ← X_t + W H_t\noutput Y_t = H_t\n")
    check(program, {}, {"T": 4, "N": 3}, axes(program, {"p": 2}, {"p": "t"}, {}))


def test_the_collectives_of_a_model() -> None:
    """Two all-reduces for each layer and one for the words, and as many for the gradient of a layer."""
    program = typed('use "llama_lm"\nplan it:\n    mesh p = 8\n    shard h, g, e, v over p\n')
    links = placing.on_mesh(program, ("it",), {}, {}, grad=True).links
    counts = [[move.kind for _, move in half.moves] for link in links for half in (link.forward, link.backward) if half]
    reduced = ["all_reduce", "all_reduce"]
    assert counts[0] == ["all_reduce"] and counts[2:4] == [reduced, reduced]


@pytest.mark.parametrize(("text", "said"), [
    ('use "recurrent/titans_momentum"\nplan it:\n    mesh p = 2\n    shard d over p\n', "rounds over positions, for t"),
    ('use "llama_lm"\nplan it:\n    mesh p = 2\n    shard ℓ over p\n', "what goes from stage to stage comes in parts"),
])
def test_what_rounds_cannot_have_is_told(text: str, said: str) -> None:
    with pytest.raises(EincError, match=said):
        front.compile(text, "torch", plan="it")


def test_the_rows_of_a_program_with_rounds(tmp_path: Any) -> None:
    """Each piece has its own, and rounds say what they send in all."""
    file = tmp_path / "a.ein"
    file.write_text('use "llama_lm"\nplan it:\n    mesh p = 2\n    shard h, g, e, v over p\n', encoding="utf-8")
    sizes = "B=1,T=128,H=4,G=2,d_k=4,d_model=8,d_ff=8,V=8,N=3"
    done = CliRunner().invoke(main, ["show", str(file), "--stage", "plan", "--plan", "it", "--sizes", sizes])
    assert done.exit_code == 0
    assert "one of the rounds for ℓ on p = 2: 2 collectives" in done.output
    assert "a device sends 8.19 kB in each round, 24.6 kB in all" in done.output
    refused = CliRunner().invoke(main, ["derive", str(file), "--plan", "it", "--mesh", "p=2"])
    assert refused.exit_code == 1 and "has rounds, so what all devices do is no single text" in refused.output
