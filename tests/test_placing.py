"""Programs on meshes of virtual ranks against the interpreter on the whole, and the collectives that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations
from random import Random

import numpy as np
import pytest
from helpers import Array, Arrays, distance, extent, meaning, typed, typed_of
from placing_cases import BY_NAME, CUT, EXACT, REFUSED, Half, axes, cases, half, programs, refusal, sized, tried
from programs import FILES, Case
from virtual import Ranks

from einc.driver import front, pipeline, placing
from einc.driver.commands.sizes import asked
from einc.errors.report import EincError
from einc.ir.indices import Extent, number, size
from einc.ir.programs import NormalProgram, Program, Tensor, TypedProgram
from einc.planning.placing import Axis, Refused, placed
from einc.planning.placing.local import Local
from einc.planning.placing.states import rows_of
from einc.planning.placing.together import together
from einc.syntax.printing.show import show

Meet = tuple[str, str, str] | None

DRAWN = 40
SIZES = {"B": 4, "T": 8, "H": 4, "d_k": 4, "d_model": 16, "d_ff": 8, "V": 8, "G": 2, "E": 4, "n": 2, "r": 4,
         "r_Q": 4, "d_h": 4, "d_c": 4, "U": 8, "S": 4, "M": 4, "N": 2}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in Random(24).sample(CUT, DRAWN)])
def test_a_letter_of_a_spec_is_cut(case: Case) -> None:
    """One letter, which the name of the spec draws, of the program or of its gradient, on two ranks."""
    assert not refusal(case)
    random = Random(case.name)
    ways = [(one, grad) for grad in (False, True) for one in cases(case, grad)]
    for one, grad in random.sample(ways, len(ways)):
        found = tried(case, [one], grad)
        if not isinstance(found, str):
            assert found.error([Axis("p", 2, (one,))]) < EXACT
            return


@pytest.mark.whole
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CUT])
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
def test_every_letter_of_a_spec_is_cut(case: Case, grad: bool) -> None:
    wrong = {}
    for one in cases(case, grad):
        found = tried(case, [one], grad)
        if not isinstance(found, str) and not (error := found.error([Axis("p", 2, (one,))])) < EXACT:
            wrong[str(one)] = error
    assert wrong == {}


@pytest.mark.whole
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CUT])
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
def test_two_letters_of_a_spec_are_cut(case: Case, grad: bool) -> None:
    """Pairs on 2 × 2 ranks, six that the name of the spec draws."""
    pairs = list(permutations(cases(case, grad), 2))
    for pair in Random(case.name).sample(pairs, min(6, len(pairs))):
        found = tried(case, pair, grad)
        if not isinstance(found, str):
            mesh = [Axis(name, 2, (one,)) for name, one in zip("pq", pair, strict=True)]
            assert found.error(mesh) < EXACT, [str(x) for x in pair]


@pytest.mark.whole
def test_what_is_not_cut_has_a_reason_of_the_list() -> None:
    """And no reason is there for more than it says: the numbers are those of the specs that ship."""
    assert [case for case in FILES if not refusal(case) and typed_of(case).outputs] == CUT
    found = Counter(refusal(case) for case in FILES)
    for case in CUT:
        for grad in (False, True):
            every = list(cases(case, grad))
            found.update([] if every else ["gradient"])
            found.update(why for one in every if isinstance(why := sized(case, [one]), str))
    del found[""]
    assert found.keys() <= REFUSED.keys(), found
    assert found == {"rounds": 19, "requests": 1, "gradient": 5, "constant": 6, "sizes": 12}


# What follows on eight ranks, in numbers that a rank sends: letters, how letters of one set meet, formulas.
W = 8
AR, RS, TURN = Fraction(2 * (W - 1), W), Fraction(W - 1, W), Fraction(W - 1, W * W)
Counts = Mapping[str, int]
FOLLOWS: dict[str, tuple[str, str, Meet, Counts, str, Counts, str]] = {
    # the optimum of tensor parallelism: 8 (W - 1) / W numbers of the data a layer
    "heads and hidden": ("gpt2_block", "he", None, {"all_reduce": 2}, f"{2 * AR} B T d_model",
                         {"all_reduce": 2}, f"{2 * AR} B T d_model"),
    "heads in groups": ("gqa", "hg", None, {"all_reduce": 1}, f"{AR} T d_model",
                        {"all_reduce": 1}, f"{AR} T d_model"),
    # with positions elsewhere: the same bytes, and what the gradient gathers once more; weights of norms are small
    "else positions": ("swiglu_block", "hget", None, {"all_gather": 2, "reduce_scatter": 2}, f"{4 * RS} T d_model",
                       {"all_gather": 4, "reduce_scatter": 2, "all_reduce": 2},
                       f"{6 * RS} T d_model + {2 * AR} d_model"),
    # the logits stay where their words are; three numbers a position travel, of each rank to each other, at once
    "words": ("linear_cross_entropy", "v", None, {"all_gather": 3}, f"{3 * (W - 1)} T",
              {"all_reduce": 1}, f"{AR} T d_model"),
    "positions, gathered": ("sdpa", "t", ("s", "gather", ""), {"all_gather": 2}, f"{2 * RS} B H T d_k",
                            {"all_gather": 2, "reduce_scatter": 2}, f"{4 * RS} B H T d_k"),
    "positions, round": ("sdpa", "t", ("s", "ring", ""), {"pass": 2}, f"{2 * RS} B H T d_k",
                         {"pass": 2, "return": 2}, f"{4 * RS} B H T d_k"),
    # keys and values travel as they are, once for all heads that share them, and so do their gradients
    "shared keys, gathered": ("gqa", "t", ("s", "gather", ""), {"all_gather": 2}, f"{2 * RS} G T d_k",
                              {"all_gather": 2, "reduce_scatter": 2, "all_reduce": 4},
                              f"{4 * RS} G T d_k + {2 * AR} H d_k d_model + {2 * AR} G d_k d_model"),
    "shared keys, round": ("gqa", "t", ("s", "ring", ""), {"pass": 2}, f"{2 * RS} G T d_k",
                           {"pass": 2, "return": 2, "all_reduce": 4},
                           f"{4 * RS} G T d_k + {2 * AR} H d_k d_model + {2 * AR} G d_k d_model"),
    "positions, as is cheapest": ("sdpa", "t", None, {"all_gather": 2}, f"{2 * RS} B H T d_k",
                                  {"all_gather": 2, "reduce_scatter": 2}, f"{4 * RS} B H T d_k"),
    "positions, swapped": ("sdpa", "t", ("s", "swap", "h"), {"all_to_all": 3}, f"{3 * TURN} B H T d_k",
                           {"all_to_all": 6}, f"{4 * TURN} B H T d_k + {2 * TURN} B H T"),
    "positions, merged": ("sdpa", "t", ("s", "merge", ""), {"all_gather": 1, "all_to_all": 3},
                          f"{2 * RS} B H T d_k + {2 * RS} B H T",
                          {"all_gather": 4, "reduce_scatter": 1}, f"{3 * RS} B H T d_k + {2 * RS} B H T"),
}


def formula(text: str) -> Extent:
    """`7/4 T d + 2 T` as an extent."""
    total = number(0)
    for term in text.split(" + "):
        coefficient, *names = term.split()
        product = number(Fraction(coefficient))
        for name in names:
            product = product * size(name)
        total = total + product
    return total


@pytest.mark.parametrize("name", FOLLOWS)
def test_the_collectives_that_follow(name: str) -> None:
    """How many there are of each kind, and how many numbers each rank sends, as formulas."""
    spec, cut, meet, *halves = FOLLOWS[name]
    mesh = axes(typed_of(BY_NAME[spec]), {"p": W}, {"p": cut}, {"p": meet} if meet else None)
    for program, (counts, sent) in zip(programs(BY_NAME[spec]), (halves[:2], halves[2:]), strict=True):
        assert program is not None
        moves = [move for _, move in placed(program, mesh).moves]
        assert Counter(move.kind for move in moves) == counts
        assert sum((move.wire for move in moves), number(0)) == formula(str(sent))


def test_what_is_kept_gathered_is_not_gathered_again() -> None:
    """The gradient of a layer then sends as much as that of torch's sequence parallelism."""
    text = f"{BY_NAME['swiglu_block'].text}\nplan it:\n    mesh p = 8\n    shard h, g, e, else t over p\n"
    counts = []
    for more in ("", "    keep H_prime2 gathered\n", "    keep X_A, H_prime2 gathered\n"):
        found = placing.on_mesh(typed(text + more), ("it",), {}, {}, grad=True)
        assert found.backward is not None
        counts.append([Counter(move.kind for _, move in one.moves) for one in (found.forward, found.backward)])
    assert [one[0] for one in counts] == [{"all_gather": 2, "reduce_scatter": 2}] * 3
    assert [one[1]["all_gather"] for one in counts] == [4, 3, 2]
    assert all(one[1]["reduce_scatter"] == one[1]["all_reduce"] == 2 for one in counts)


@pytest.mark.parametrize(("line", "said"), [
    ("keep K gathered", "`K` is gathered nowhere"), ("keep U gathered", "`U` is gathered nowhere"),
    ("keep nothing gathered", "`nothing` is not saved for the gradient"), ("keep Q", "the line stops too early"),
])
def test_what_cannot_be_kept_gathered_is_told(line: str, said: str) -> None:
    text = f"{BY_NAME['swiglu_block'].text}\nplan it:\n    mesh p = 2\n    shard h, g, e, else t over p\n    {line}\n"
    with pytest.raises(EincError, match=said):
        front.compile(text, "torch", grad=True, plan="it")


def test_what_is_kept_gathered_needs_what_is_cut() -> None:
    """In some plan of the text, and in those that are chosen."""
    text = f"{BY_NAME['swiglu_block'].text}\nplan it:\n    keep H_prime2 gathered\n"
    with pytest.raises(EincError, match="no line of the text cuts anything") as error:
        front.compile(text)
    (problem,) = error.value.problems
    assert problem.code == "E0119" and problem.span is not None and problem.span.text == "keep H_prime2 gathered"
    text += "plan cut:\n    mesh p = 2\n    shard h, g, e, else t over p\n"
    with pytest.raises(EincError, match="no line of the plan cuts anything"):
        front.compile(text, "torch", grad=True, plan="it")
    assert "all_gather" in front.compile(text, "torch", grad=True, plan="it,cut").source


MESHES: dict[str, tuple[str, dict[str, int], dict[str, str], dict[str, tuple[str, str, str]]]] = {
    "four ranks": ("gpt2_block", {"p": 4}, {"p": "he"}, {}),
    "weights in parts": ("gpt2_block", {"p": 2}, {"p": "nf"}, {}),
    "two axes of weights": ("gpt2_block", {"p": 2, "q": 2}, {"p": "f", "q": "he"}, {}),
    "weights and positions": ("gpt2_block", {"p": 2, "q": 2}, {"p": "nf", "q": "het"}, {}),
    "three axes": ("gpt2_block", {"p": 2, "q": 2, "r": 2}, {"p": "n", "q": "t", "r": "he"}, {}),
    "swapped": ("gpt2_block", {"p": 2}, {"p": "t"}, {"p": ("s", "swap", "h")}),
    "merged": ("gpt2_block", {"p": 2}, {"p": "t"}, {"p": ("s", "merge", "")}),
    "gathered": ("attention", {"p": 2}, {"p": "t"}, {"p": ("s", "gather", "")}),
    "round": ("attention", {"p": 2}, {"p": "t"}, {"p": ("s", "ring", "")}),
    "round and heads": ("gqa", {"p": 2, "q": 2}, {"p": "t", "q": "hg"}, {"p": ("s", "ring", "")}),
    "words and positions": ("linear_cross_entropy", {"p": 2, "q": 2}, {"p": "t", "q": "v"}, {}),
    "words on four": ("linear_cross_entropy", {"p": 4}, {"p": "v"}, {}),
    "a power of a reference": ("collision", {"p": 2}, {"p": "v"}, {}),
    "rows without a point": ("blocks_before", {"p": 2}, {"p": "s"}, {}),
    "latents": ("mla_rope", {"p": 2}, {"p": "h"}, {}),
    "experts": ("moe_swiglu", {"p": 2}, {"p": "xt"}, {}),
    "experts in parts": ("moe_swiglu", {"p": 2, "q": 2, "r": 2}, {"p": "t", "q": "x", "r": "e"}, {}),
    "a row for each choice": ("moe_swiglu", {"p": 2}, {"p": "tx"}, {"p": ("x", "rows", "")}),
    "a row for each owner": ("moe_swiglu", {"p": 4}, {"p": "tx"}, {"p": ("x", "once", "")}),
    "rows, and hidden units": ("moe_swiglu", {"p": 2, "q": 2}, {"p": "tx", "q": "e"}, {"p": ("x", "rows", "")}),
    "rows once, and groups": ("deepseek_moe", {"p": 2}, {"p": "tx"}, {"p": ("x", "once", "")}),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
def test_the_ranks_of_a_mesh_make_what_one_makes(name: str, grad: bool) -> None:
    spec, mesh, cut, meet = MESHES[name]
    program = typed_of(BY_NAME[spec])
    assert half(BY_NAME[spec], {**BY_NAME[spec].sizes, **SIZES, **program.sizes}, grad).error(
        axes(program, mesh, cut, meet)) < EXACT


@pytest.mark.parametrize(("way", "forward", "gradient"), [
    # n choices of W ranks: rows of the data there and back, and of the gradient there, there and back
    ("rows", f"{RS} E d_model + {TURN} T n + {2 * TURN} T d_model n",
     f"{2 * RS} E d_model + {TURN} T n + {3 * TURN} T d_model n"),
    ("gather", f"{RS} E d_model + {2 * RS} T n + {2 * RS} T d_model", ""),
])
def test_what_rows_send(way: str, forward: str, gradient: str) -> None:
    """As formulas, where each element is chosen as often."""
    text = f"{BY_NAME['moe_swiglu'].text}\nplan it:\n    mesh p = 8\n    shard t, else x over p, pass x by {way}\n"
    found = placing.on_mesh(typed(text), ("it",), {}, {}, grad=bool(gradient))
    for one, sent in zip((found.forward, found.backward), (forward, gradient), strict=True):
        if sent:
            assert one is not None
            assert sum((move.wire for _, move in one.moves), number(0)) == formula(sent)


CHOOSES = """index n : batch(B)
index t, s : time(T)
index x : expert(E)
index f, g : feature(d_k), feature(d_k)
dim k
input h_{n t}^f
weight W_{x f}^g, R_f^x
G_{n t}^x = h_{n t}^f R_f^x
set C_{n t} = topk_x(G_{n t}^x, k)
U_{n t x}^g = h_{n t}^f W_{x f}^g
"""
# What rows do not say, or say dearly: where a position lies, all positions, what stands at choices alone.
ASKED = {
    "a sum": "output y_{n t}^g = Σ_{x ∈ C_{n t}} G_{n t}^x sin(U_{n t x}^g)",
    "a number": "output y_{n t}^g = Σ_{x ∈ C_{n t}} sin(t G_{n t}^x U_{n t x}^g)",
    "others": "output y_{n t}^g = Σ_{x ∈ C_{n t}} Σ_{s ≤ t} (h_{n s}^f h_{n t f}) sin(U_{n t x}^g)",
    "a maximum": "output y_{n t}^g = max_{x ∈ C_{n t}} (G_{n t}^x U_{n t x}^g)",
    "all": "output y^g = Σ_n Σ_t Σ_{x ∈ C_{n t}} (G_{n t}^x U_{n t x}^g)",
    "texts": "output y_t^g = Σ_n Σ_{x ∈ C_{n t}} (G_{n t}^x U_{n t x}^g) : all",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("asks", ASKED)
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("way", ["rows", "once"])
@pytest.mark.parametrize("cut", ["nx", "tx", "xt"])
def test_what_is_made_of_rows(asks: str, grad: bool, way: str, cut: str) -> None:
    """Whatever a text asks of values at chosen elements, rows go back where they do not say it."""
    case = Case("rows", CHOOSES + ASKED[asks], {**SIZES, "B": 4, "k": 2})
    mesh = axes(typed(case.text), {"p": 2}, {"p": cut}, {"p": ("x", way, "")})
    assert half(case, case.sizes, grad).error(mesh) < EXACT


PICKED = """index n : batch(B)
index t : time(T)
index x : expert(E)
index r : CLASS(R)
index f, g : feature(D), feature(G)
input H_{n t}^f, w_{n t r}
input C_{n t r} : int
weight A_{x f}^g
Z_{n t r}^g = sin(H_{n t}^f A_{C_{n t r} f}^g)
"""


@pytest.mark.parametrize("cls", ["expert", "feature", "head"])
@pytest.mark.parametrize("asks", ["output Y_{n t r}^g = 2 Z_{n t r}^g", "output y_{n t}^g = Σ_r w_{n t r} Z_{n t r}^g"])
def test_a_row_that_is_sent_once_has_all_of_its_choices(cls: str, asks: str) -> None:
    """Whatever the class of the letter that tells them apart, where whole numbers that are given choose, too."""
    sizes = {"B": 2, "T": 4, "E": 4, "R": 3, "D": 3, "G": 5}
    case = Case(f"picked {cls} {asks}", PICKED.replace("CLASS", cls) + asks, sizes, {"C": ("1", "E")})
    mesh = axes(typed(case.text), {"p": 2}, {"p": "tx"}, {"p": ("x", "once", "")})
    for grad in (False, True):
        found = half(case, sizes, grad)
        assert found.error(mesh) < EXACT
        sent = {move.rows.packed for _, move in found.on(mesh).moves if move.rows is not None}
        assert sent == {(1, 0)}  # of a text and a position


@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
def test_a_row_may_have_one_choice(grad: bool) -> None:
    text = PICKED.replace("CLASS", "feature").replace("C_{n t r}", "C_t").replace("Z_{n t r}", "output Z_{n t}")
    case = Case("one choice", text, {"B": 2, "T": 4, "E": 4, "R": 3, "D": 3, "G": 5}, {"C": ("1", "E")})
    mesh = axes(typed(text), {"p": 2}, {"p": "tx"}, {"p": ("x", "rows", "")})
    found = half(case, case.sizes, grad)
    sent = any(move.rows is not None for _, move in found.on(mesh).moves)
    assert found.error(mesh) < EXACT and sent != grad  # what was chosen is saved for the gradient


def read_back(program: NormalProgram) -> TypedProgram:
    """The program of the text that is printed of another."""
    return typed(show(program), "ranks.ein")


def whole(program: Program, found: Half) -> Arrays:
    """What the program of all ranks makes. Of a size that no tensor fixes a rank has half, or what arrays say."""
    parts = {name: found.sizes[name.rpartition("_")[0]] // 2 for name in asked(program) if name not in found.sizes}
    shapes = {program.tensors[key].key: found.made[name].shape for name, key in program.outputs if name in found.made}
    for key, shape in {**shapes, **{key: x.shape for key, x in found.given.items()}}.items():
        for slot, length in zip(program.tensors[key].slots, shape, strict=True):
            for one in parts.keys() & slot.set.extent.sizes:
                if slot.set.extent.sizes <= found.sizes.keys() | {one}:
                    first, second = (slot.set.extent.at({**found.sizes, one: n}) for n in (1, 2))
                    parts[one] = int(1 + (length - first) / (second - first))
    return meaning(program, found.given, {**found.sizes, **parts})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("grad", [False, pytest.param(True, marks=pytest.mark.whole)], ids=["forward", "gradient"])
def test_all_ranks_are_one_spec(name: str, grad: bool) -> None:
    """The text that is printed of them reads back, and makes what is made on one device."""
    spec, mesh, cut, meet = MESHES[name]
    program = typed_of(BY_NAME[spec])
    found = half(BY_NAME[spec], {**BY_NAME[spec].sizes, **SIZES, **program.sizes}, grad)
    made = whole(read_back(together(found.on(axes(program, mesh, cut, meet)))), found)
    assert max(distance(made[key], one, 1e-3) for key, one in found.made.items()) < EXACT


@pytest.mark.whole
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CUT if c.name != "fp8_block"])  # cuts half a tile
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
def test_all_ranks_of_every_spec_are_one_program(case: Case, grad: bool) -> None:
    """For every letter; whether the text of each reads back is not said. Of a product of sizes the text says that the
    ranks divide the first of them.
    """
    for one in cases(case, grad):
        found = tried(case, [one], grad)
        if not isinstance(found, str) and not found.sizes.get(min(one.extent.sizes, default=""), 0) % 2:
            made = whole(together(found.on([Axis("p", 2, (one,))])), found)
            assert max(distance(made[key], x, 1e-3) for key, x in found.made.items()) < EXACT, str(one)


def test_groups_of_heads_stay_on_their_rank_for_all_sizes() -> None:
    """Without a size: π(h) = ⌈h G / H⌉ is proved to map the heads of a rank to groups of the same."""
    program = programs(BY_NAME["gqa"])[0]
    found = placed(program, axes(typed_of(BY_NAME["gqa"]), {"p": 8}, {"p": "hg"}))
    assert [move.tensor for _, move in found.moves] == ["A"]


def test_nothing_of_pairs_of_positions_is_kept_for_another_level() -> None:
    for program in programs(BY_NAME["sdpa"]):
        assert program is not None
        for cut, meet in (("t", None), ("h", None), ("t", ("s", "merge", "")), ("t", ("s", "swap", "h"))):
            made = Local(placed(program, axes(typed_of(BY_NAME["sdpa"]), {"p": 8}, {"p": cut}, {"p": meet} if meet
                                              else None))).programs
            kept = [one.tensors[key] for one in made.values() for _, key in one.outputs]
            assert not [t.key for t in kept if sum(s.set.cls == "time" for s in t.slots) > 1]


@pytest.mark.parametrize(("spec", "cut", "sizes", "reason", "said"), [
    ("ema", "t", {}, "rounds", "has rounds that run in order, for t"),
    ("requests_packed", "h", {}, "requests", "requests of different lengths"),
    ("attention", "h", {"H": 6}, "multiple", "H = 6 is no multiple of p = 4, so it cannot be cut over p"),
    ("attention", "h", {"H": 3}, "multiple", "H = 3 is no multiple"),
])
def test_what_cannot_be_had_is_refused(spec: str, cut: str, sizes: dict[str, int], reason: str, said: str) -> None:
    program = pipeline.normal(typed_of(BY_NAME[spec]))
    with pytest.raises(Refused, match=said) as refused:
        placed(program, axes(typed_of(BY_NAME[spec]), {"p": 4}, {"p": cut}), sizes)
    assert refused.value.reason == reason and refused.value.help


def test_two_letters_of_one_set_that_cannot_meet_are_refused() -> None:
    typed_ = typed("index t, s : time(T)\nindex h : head(H)\ninput x_t, w_s, u_h\n"
                   "output y_t = sum_{s <= t} x_t w_s\noutput z_h = u_h")
    mesh = axes(typed_, {"p": 2}, {"p": "t"}, {"p": ("s", "swap", "h")})
    with pytest.raises(Refused, match="has t and s, which are of one set, and no letter of head"):
        placed(pipeline.normal(typed_), mesh)


LAYER = """index t : time(T)
index f, g : feature(D), feature(D)
index e : feature(F)
index x : expert(E)
dim k
input X_t^f
H_t^f = X_t^f
for ℓ in 1..N:
    weight W_f^x, A_{x f}^e, B_{x e}^f
    G_t^x = H_t^f W_f^x
    set C_t = topk_x(G_t^x, k)
    U_{t x}^e = sin(H_t^f A_{x f}^e)
    Y_{t (x)}^f = U_{t x}^e B_{x e}^f
    H_t^f ← H_t^f + Σ_{x ∈ C_t} G_t^x Y_{t (x)}^f
output O_t^f = H_t^f
"""


@pytest.mark.parametrize("way", ["rows", "once"])
def test_a_round_hands_rows_to_its_gradient_as_they_lie(way: str) -> None:
    """Each rank has of what the first half saved the rows that it made, and the second half finds as many."""
    program, sizes = typed(LAYER), {"T": 4, "D": 3, "F": 5, "E": 4, "k": 2, "N": 2}
    some = placing.pieces(program, True)
    links, _ = placing.put(some, axes(program, {"p": 2}, {"p": "tx"}, {"p": ("x", way, "")}), {})
    ((piece, link),) = [(a, b) for a, b in zip(some.every, links, strict=True) if b.round is not None]
    assert isinstance(piece, placing.Piece) and piece.derived is not None and link.backward is not None
    draw = np.random.default_rng(0)

    def drawn(tensor: Tensor) -> Array:
        return draw.standard_normal([extent(s.set.extent, sizes) for s in tensor.slots])

    given = {t.key: drawn(t) for t in link.forward.program.inputs()}
    first = Ranks(link.forward, sizes)
    made, whole = first.run(given), meaning(link.forward.program, given, sizes)
    assert max(distance(made[key], whole[key], 1e-3) for key in made) < EXACT
    lies = {saved: first.local.name(key, link.forward.ends[key]) for key, saved in piece.derived.saved}
    assert any(rows_of(state) for key, _ in piece.derived.saved for state in link.forward.ends[key])
    came = {saved: whole[key] for key, saved in piece.derived.saved}
    below = {t.key: came.get(t.key, given.get(t.key, drawn(t))) for t in link.backward.program.inputs()}
    second = Ranks(link.backward, sizes, had={rank: {saved: have[name] for saved, name in lies.items()}
                                              for rank, have in first.have.items()})
    found, want = second.run(below), meaning(link.backward.program, below, sizes)
    assert max(distance(found[key], want[key], 1e-3) for key in found) < EXACT
