"""Blocks that go round: virtual ranks against the interpreter for every spec in which positions meet positions, which
blocks are sent, and how even the work is.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from helpers import distance, meaning, typed, typed_of
from placing_cases import BY_NAME, EXACT, axes, doubled, half, letters, programs
from programs import Case

from einc.driver import front, pipeline, placing
from einc.driver.commands.sizes import names
from einc.ir.choices import PLAIN
from einc.ir.elements import RANGED, REAL, WIDE
from einc.ir.indices import Index, IndexSet, number, size
from einc.ir.plan import Gradient, Hops
from einc.ir.terms import Apply, Position, Size, Term, const
from einc.planning.placing import Axis, Meeting, Placed, Refused, placed, with_rings
from einc.planning.placing.around import met, possible
from einc.planning.placing.layouts import balance, laid
from einc.planning.placing.local import Local
from einc.planning.placing.states import Part, Share, moved
from einc.planning.placing.together import together
from einc.planning.placing.traffic import counted, needs, sent
from einc.syntax.printing.show import show

ROUND = (
    "sdpa", "attention", "gqa", "alibi", "sliding_window", "attention_dropout", "forgetting_transformer",
    "llama_attention", "mla_rope", "selective_attention", "stick_breaking", "online_softmax", "block_diagonal", "cope",
    "cosine", "differential", "dilated", "documents", "entropy_penalty", "fire", "gated", "head_windows", "kerple",
    "linear", "local_global", "log_n", "neighbourhood", "performer", "prefix_lm", "qk_norm", "relative_table",
    "relu_squared", "retention", "shared_logits", "shaw", "sigmoid", "simplicial", "sinks_window", "softcap",
    "softmax1", "softpick", "t5_bias", "deepseek_attention", "swiglu_block", "gpt2_block", "preblock", "yarn",
    "partial_rotary", "top_keys", "sparse_attention",
)
CASES = [(name, ranks, layout, grad) for name in ROUND for ranks in (2, 4) for layout in ("", "balanced")
         for grad in (False, True)]


def right(name: str, ranks: int, layout: str, grad: bool, letter: str = "s") -> Placed:
    """Checks what virtual ranks make of a spec whose letter goes round, and returns the program on the mesh."""
    case = BY_NAME[name]
    sizes = doubled(case, [letters(typed_of(case))["t"]], 2 * ranks)
    assert not isinstance(sizes, str)
    ways = {"p": (letter, "ring", layout)}
    found, mesh = half(case, sizes, grad), axes(typed_of(case), {"p": ranks}, {"p": "t"}, ways)
    assert found.error(mesh) < EXACT
    return found.on(mesh)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("name", "ranks", "layout", "grad"), Random(24).sample(CASES, 40))
def test_what_goes_round_makes_what_one_device_makes(name: str, ranks: int, layout: str, grad: bool) -> None:
    right(name, ranks, layout, grad)


def test_places_that_are_data_are_not_of_a_rank_with_two_blocks() -> None:
    """Such a place is in the part of a rank only where that is one block."""
    right("sparse_attention", 2, "balanced", False)


@pytest.mark.parametrize("layout", ["", "balanced"])
@pytest.mark.parametrize("name", ["sdpa", "stick_breaking"])
def test_queries_go_round_where_keys_stay(name: str, layout: str) -> None:
    """Shares that hops send are added as they come, so they are relative to a maximum over all hops, and each tensor
    that is sent is counted once.
    """
    for grad in (False, True):
        found = right(name, 2, layout, grad, "t")
        rows = [(one.move.tensor, one.move.kind) for one in sent(found, {}) if one.move.kind == "return"]
        assert len(rows) == len(set(rows))
        for arrival in found.arrivals:
            now = found.states(arrival.tensor)
            for move, (_, then) in zip(arrival.moves, moved(now, arrival.states, found.mesh), strict=True):
                assert move.kind != "return" or not any(isinstance(one, Share) and one.reference for one in now)
                now = then


# To check such a text takes seconds: few are drawn, and four ranks are for one spec.
PRINTED = [(name, 2, grad) for name in ROUND for grad in (False, True)] + [("sdpa", 4, False)]


def one_spec(name: str, ranks: int, grad: bool) -> str:
    """Checks that the text of all ranks, which hold what goes round in two blocks, reads back and makes what is made on
    one device; returns the text.
    """
    case = BY_NAME[name]
    sizes = doubled(case, [letters(typed_of(case))["t"]], 2 * ranks)
    assert not isinstance(sizes, str)
    mesh = axes(typed_of(case), {"p": ranks}, {"p": "t"}, {"p": ("s", "ring", "balanced")})
    found = half(case, sizes, grad)
    cut = found.on(mesh)
    text = show(together(cut))
    program = typed(text, "ranks.ein")
    blocks = 1 + any(isinstance(one, Part) and one.blocks > 1 for cutting in cut.cuttings
                     for made in cutting.cuts.values() for one in (made.state, *made.needs.values()))
    parts = {one: sizes[one.rpartition("_")[0]] // (blocks * ranks) for one in names(program) if one not in sizes}
    made = meaning(program, found.given, {**sizes, **parts})
    assert max(distance(made[key], one, 1e-3) for key, one in found.made.items()) < EXACT
    return text


@pytest.mark.parametrize("grad", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_all_ranks_with_two_blocks_are_one_spec(grad: bool) -> None:
    one_spec("stick_breaking", 2, grad)


UNREAD = pytest.mark.xfail(strict=True, reason="the printed gradient is not read: where a chosen position is read at a "
                                               "place by numbers, that the place is in range is not proved (E0601)")


@pytest.mark.whole
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[UNREAD] * (name == "sparse_attention")) for name in ROUND])
def test_all_ranks_of_every_mask_with_two_blocks_are_one_spec(name: str) -> None:
    for one, ranks, grad in PRINTED:
        if one == name:
            one_spec(name, ranks, grad)


@pytest.mark.parametrize("lines", ["t over p balanced, pass s by ring", "t over p, pass s by ring"])
def test_what_is_printed_lies_as_the_plan_says(lines: str) -> None:
    """Of two blocks one is as far from the end as the other is from the start; without `balanced` none is."""
    program = typed(f"{BY_NAME['sdpa'].text}\nplan it:\n    mesh p = 4\n    shard {lines}\n")
    text = placing.on_all(program, ("it",), {})
    assert ("max(p, 9 (" in text) == ("balanced" in lines)


@pytest.mark.whole
@pytest.mark.parametrize("name", ROUND)
def test_every_mask_goes_round(name: str) -> None:
    for one, ranks, layout, grad in CASES:
        if one == name:
            right(name, ranks, layout, grad)


def on(spec: str, ranks: int, layout: str = "", lines: str = "") -> list[Placed]:
    """The program of a spec and its gradient, s going round so many ranks."""
    case = BY_NAME[spec]
    mesh = axes(typed_of(case), {"p": ranks}, {"p": "t"}, {"p": ("s", "ring", layout)})
    return [placed(program, mesh) for program in programs(case) if program is not None]


def share(found: Placed, sizes: Mapping[str, int]) -> tuple[Fraction, int]:
    """Which share of the blocks of others is sent in the first hops of a program, and in how many hops."""
    (at, *_), local = found.hopped, Local(found)
    return counted(needs(found, local, at, sizes))


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_causal_ring_sends_three_quarters_and_is_even(ranks: int) -> None:
    """Of what a ring sends that passes on everything: 3/4 with two blocks a rank, 1/2 with one, where the last rank has
    twice as much to do as there is on average; and the gradient is as the program.
    """
    sizes = {"T": 65536}
    for found in on("sdpa", ranks, "balanced"):
        assert share(found, sizes) == (Fraction(3, 4), ranks - 1)
    for found in on("sdpa", ranks):
        assert share(found, sizes) == (Fraction(1, 2), ranks - 1)
        assert balance([found], "p", sizes, 2) <= Fraction(21, 20)
        assert Fraction(18, 10) < balance([found], "p", sizes, 1) < 2


def test_sums_of_what_is_not_there_are_not_sent() -> None:
    """Gradients of keys that heads share are summed over these where they are made, and half of them is of nothing."""
    for found in on("gqa", 8):
        assert share(found, {"T": 65536}) == (Fraction(1, 2), 7)
        for one in sent(found, {"T": 65536, "H": 8, "G": 2, "d_k": 4}):
            if one.move.kind in ("pass", "return"):
                assert one.wire == size("G") * size("T") * size("d_k") * number(Fraction(7, 16)), one


@pytest.mark.parametrize(("ranks", "most", "hops"), [(8, Fraction(13, 100), 1), (64, Fraction(13, 100), 4)])
def test_a_window_sends_what_it_sees(ranks: int, most: Fraction, hops: int) -> None:
    """4,096 of 65,536 positions."""
    for found in on("sliding_window", ranks):
        part, sent_in = share(found, {"T": 65536, "W": 4096})
        assert part <= most and sent_in == hops
        assert balance([found], "p", {"T": 65536, "W": 4096}, 1) <= Fraction(21, 20)


@pytest.mark.parametrize(("spec", "lies"), [("sdpa", 2), ("attention", 2), ("prefix_lm", 2), ("sliding_window", 1),
                                            ("block_diagonal", 1), ("neighbourhood", 1)])
def test_parts_are_laid_so_that_all_have_as_much_to_do(spec: str, lies: int) -> None:
    """In two blocks where later positions see more, in order where a band or all is seen."""
    case = BY_NAME[spec]
    mesh = axes(typed_of(case), {"p": 8}, {"p": "t"}, {"p": ("s", "ring", "balanced")})
    program = programs(case)[0]
    found = laid(mesh, {"T": 4096, "P": 256, "W": 256}, lambda plain: [placed(program, plain)])
    assert found[0].blocks(letters(typed_of(case))["t"]) == lies
    even = [balance([placed(program, found)], "p", {"T": 4096, "P": 256, "W": 256}, blocks) for blocks in (1, 2)]
    assert even[lies - 1] <= Fraction(21, 20) * min(even) and even[lies - 1] < Fraction(11, 10)


@pytest.mark.parametrize("seed", range(30))
def test_blocks_with_a_point_meet(seed: int) -> None:
    """Random conditions on two letters and sizes: a block that has a point is never left out."""
    random, of = Random(seed), IndexSet("time", size("T") * number(Fraction(1, 4)), 1)
    t, s = (Index(x, of) for x in "ts")

    def at(place: str, index: Index) -> Term:
        return Apply("add", (Position(index), Size((size(place) - number(1)) * of.extent)))

    def linear() -> Term:
        total: Term = const(random.randint(-6, 6))
        for place, index in (("p", t), ("q", s)):
            if random.random() < 0.8:
                term = Apply("mul", (const(random.choice([-2, -1, 1, 1, 2])), at(place, index)))
                if random.random() < 0.3:
                    term = Apply("floor", (Apply("div", (term, const(random.randint(1, 3)))),))
                total = Apply(random.choice(["add", "sub"]), (total, term))
        return Apply(random.choice(["min", "max"]), (total, Size(size("P")))) if random.random() < 0.2 else total

    def condition(depth: int) -> Term:
        if depth and random.random() < 0.5:
            return Apply(random.choice(["and", "or"]), (condition(depth - 1), condition(depth - 1)))
        found: Term = Apply(random.choice(["le", "lt", "le", "eq"]), (linear(), linear()))
        return Apply("not", (found,)) if found.op != "eq" and random.random() < 0.2 else found

    whole, sizes = condition(2), {"T": 12, "P": random.randint(1, 6)}
    meet = met(possible(whole), "p", "q", 4, sizes)
    for i in range(4):
        for j in range(4):
            points = [holds(whole, {**sizes, "p": i + 1, "q": j + 1}, {t: a, s: b})
                      for a in range(1, 4) for b in range(1, 4)]
            assert meet[i][j] or not any(points), whole


def holds(term: Term, sizes: Mapping[str, int], by: Mapping[Index, int]) -> float:
    """The value of a term at numbers of its letters."""
    if isinstance(term, Position):
        return by[term.index]
    if isinstance(term, Size):
        return float(term.extent.at(sizes))
    if not isinstance(term, Apply):
        return float(term.value)  # type: ignore[attr-defined]
    args = [holds(x, sizes, by) for x in term.args]
    told = {"add": sum(args), "sub": args[0] - args[-1], "mul": np.prod(args), "floor": np.floor(args[0]),
            "min": min(args), "max": max(args), "le": args[0] <= args[-1], "lt": args[0] < args[-1],
            "eq": args[0] == args[-1], "and": all(args), "or": any(args), "not": not args[0],
            "div": args[0] / args[-1] if args[-1] else 0.0}
    return float(told[term.op])


def test_what_hops_add_up_keeps_its_digits() -> None:
    """What is made of one pair of blocks, and what is merged of several, is wide; results have the type of the data."""
    program = typed(f"{BY_NAME['sdpa'].text}\nplan it:\n    mesh p = 4\n    shard t over p balanced, pass s by ring\n")
    plan = placing.planned(program, ("it",), {}, True, PLAIN)
    assert plan is not None and isinstance(plan.body, Gradient)
    found = [(half, step) for half in (plan.body.forward, plan.body.backward) for step in half.steps
             if isinstance(step, Hops)]
    assert [step.around.blocks for _, step in found] == [2, 2]
    for module, step in found:
        shares = {step.body.buffers[one.key].element for one in step.made}
        assert step.merge is not None
        assert shares | {step.merge.buffers[key].element for _, key in step.merge.outputs} == {WIDE}
        sent = {one.key: module.buffers[key].element
                for key, one in zip(step.writes, step.made, strict=True) if one.sent}
        assert sent == ({} if module is plan.body.forward else {"S_dK": RANGED, "dV_share": REAL})


PIXELS = """index x, u : time(X)
index y, v : time(Y)
index f : feature(D)
input Q_{x y}^f, K_{u v}^f
output Y_{x y} = Σ_{u ≤ x} Σ_{v ≤ y} exp(Q_{x y}^f K_{u v f})
"""


def test_one_ring_in_another_is_refused() -> None:
    by = letters(typed(PIXELS))
    mesh = with_rings(Axis(name, 2, (by[cut],), (Meeting(meet, "ring", by[meet]),))
                      for name, cut, meet in (("p", "x", "u"), ("q", "y", "v")))
    program = pipeline.normal(typed(PIXELS))
    with pytest.raises(Refused, match="would go round over p and over q at once") as refused:
        placed(program, mesh)
    assert "by gather" in refused.value.help
    gathered = with_rings([mesh[0], Axis("q", 2, (by["y"],), (Meeting("v", "gather"),))])
    assert {move.kind for _, move in placed(program, gathered).moves} == {"pass", "all_gather"}


def test_what_goes_round_twice_is_sent_twice() -> None:
    """Weights that are normalised first need a second round: keys go round for the maximum, and again with values, in
    the same messages."""
    (found, *_) = on("stick_breaking", 4)
    assert [(one.move.tensor, one.messages) for one in sent(found, {"T": 64})] == [("K", 3), ("K", 3), ("V", 0)]


ASIDE = """index t, s : time(T)
index x, u : time(X)
index f : feature(F)
input Q_t^f, K_s^f, P_x^f, R_u^f
output Y_t = Σ_{s ≤ t} exp(Q_t^f K_{s f})
output Z_x = Σ_{u ≤ x} exp(P_x^f R_{u f})
"""


@pytest.mark.parametrize("grad", [False, True])
def test_letters_of_two_sets_go_round_on_one_axis(grad: bool) -> None:
    """Each in the equations that have it."""
    case = Case("aside", ASIDE, {"T": 8, "X": 4, "F": 2})
    by = letters(typed(ASIDE))
    mesh = with_rings([Axis("p", 2, (by["t"], by["x"]), tuple(Meeting(x, "ring", by[x]) for x in "su"))])
    found = half(case, case.sizes, grad)
    assert {one.tensor for _, one in found.on(mesh).moves if one.kind == "pass"} >= {"K", "R"}
    assert found.error(mesh) < EXACT


def test_a_fold_goes_round_with_its_step() -> None:
    """The call is given the function that merges two values, which stands in the file where torch has none."""
    source = front.compile(
        "index t, s : time(T)\ninput x_t, z_t\noutput y_t = max_{s ≤ t} (x_t + z_s)\n"
        "output w_t = logaddexp_{s ≤ t} (x_t z_s)\nplan it:\n    mesh p = 2\n    shard t over p, pass s by ring\n",
        "torch", plan="it").source
    assert "[(torch.maximum, 0, None, False), (_logaddexp_step, 0, None, False)]" in source
    assert "def _logaddexp_step(" in source
