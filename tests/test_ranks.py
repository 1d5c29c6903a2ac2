"""Files for a mesh of devices, run by real processes with gloo between them, against one process in float64."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, distance, tensors, typed, typed_of
from placing_cases import BY_NAME, CUT, cases, programs, sized
from programs import Case
from rank_training import first, fresh
from rank_training import steps as stepped
from team import Team, TeamError

from einc.driver import back_ends, pipeline, placing
from einc.driver.commands.sizes import names as asked
from einc.driver.compiling import built
from einc.driver.options import Options
from einc.errors.report import EincError
from einc.ir.choices import PLAIN
from einc.ir.plan import Gradient, Module, Move, PerRank
from einc.ir.programs import TypedProgram
from einc.planning.placing import Axis, traffic
from einc.planning.placing.modules import per_rank, per_rank_gradient

EXACT = 1e-10
SIZES = {"B": 4, "N": 4, "T": 8, "H": 4, "d_k": 4, "d_model": 8, "d_ff": 8, "V": 8, "G": 2, "E": 4, "n": 2, "r": 4,
         "r_Q": 4, "d_h": 4, "d_c": 4, "U": 8, "S": 8}


@dataclass(frozen=True)
class Cut:
    """A spec, the lines of a plan, and the mesh."""

    spec: str
    lines: str
    mesh: Mapping[str, int]
    sizes: Mapping[str, int] = ()  # type: ignore[assignment]

    def program(self) -> TypedProgram:
        """The spec with its plan."""
        lines = "".join(f"    {line}\n" for line in self.lines.split("; "))
        return typed(f"{BY_NAME[self.spec].text}\nplan it:\n{lines}", f"specs/{self.spec}.ein")

    @property
    def known(self) -> dict[str, int]:
        """Numbers for its sizes, which its ranks divide."""
        return {**BY_NAME[self.spec].sizes, **SIZES, **dict(self.sizes)}


TWO = {
    "heads": Cut("attention", "shard h over p", {"p": 2}),
    "heads and hidden": Cut("gpt2_block", "shard h, e over p", {"p": 2}),
    "else positions": Cut("swiglu_block", "shard h, g, e, else t over p", {"p": 2}),
    "else positions, kept gathered": Cut("swiglu_block", "shard h, g, e, else t over p; keep X_A, H_prime2 gathered",
                                         {"p": 2}),
    "weights in parts": Cut("gpt2_block", "shard n, else f over p", {"p": 2}),
    "gathered": Cut("attention", "shard t over p, pass s by gather", {"p": 2}),
    "merged": Cut("attention", "shard t over p, pass s by merge", {"p": 2}),
    "round": Cut("attention", "shard t over p, pass s by ring", {"p": 2}),
    "round in blocks": Cut("attention", "shard t over p balanced, pass s by ring", {"p": 2}),
    "shared keys go round": Cut("gqa", "shard t over p balanced, pass s by ring", {"p": 2}),
    "queries go round": Cut("attention", "shard t over p, pass t by ring", {"p": 2}),
    "swapped": Cut("gpt2_block", "shard t over p, pass s by swap h", {"p": 2}),
    "words": Cut("linear_cross_entropy", "shard v over p", {"p": 2}),
    "latents": Cut("mla_rope", "shard h over p", {"p": 2}),
    "experts": Cut("moe_swiglu", "shard x, else t over p", {"p": 2}),
    "a row for each choice": Cut("moe_swiglu", "shard t, else x over p, pass x by rows", {"p": 2}),
    "a row for each owner": Cut("moe_swiglu", "shard t, else x over p, pass x by once", {"p": 2}),
    "a power of a reference": Cut("collision", "shard v over p", {"p": 2}),
    "rows without a point": Cut("blocks_before", "shard s over p", {"p": 2}),
    "a composite": Cut("gpt2_block", "shard h over p", {"p": 2}),
    "rounds": Cut("llama_lm", "shard h, g, e, v, else t over p", {"p": 2}, {"N": 3}),
    "a recurrence": Cut("gla", "shard h over p", {"p": 2}),
    "a recurrence, else positions": Cut("kda", "shard h, else t over p", {"p": 2}),
    "a recurrence that no letter cuts": Cut("ssd", "shard h over p", {"p": 2}),
    "a state of elements": Cut("ema", "shard d over p", {"p": 2}, {"D": 4}),
    "rounds, kept gathered": Cut("llama_lm", "shard h, g, e, v, else t over p; keep X_H, H_prime2 gathered", {"p": 2},
                                 {"N": 3}),
    "rounds of texts": Cut("decoder_lm", "shard n, else f over p", {"p": 2}, {"N": 2, "C": 8}),
}
FOUR = {
    "four ranks": Cut("gpt2_block", "shard h, e over p", {"p": 4}),
    "two axes of weights": Cut("gpt2_block", "shard f over p; shard h, e over q", {"p": 2, "q": 2}),
    "weights and positions": Cut("gpt2_block", "shard n, else f over p; shard h, e, else t over q", {"p": 2, "q": 2}),
    "texts and heads": Cut("gpt2_block", "shard n over p; shard h, e over q", {"p": 2, "q": 2}),
    "words and positions": Cut("linear_cross_entropy", "shard t over p; shard v over q", {"p": 2, "q": 2}),
    "round, four ranks": Cut("attention", "shard t over p, pass s by ring", {"p": 4}),
    "round, balanced": Cut("attention", "shard t over p balanced, pass s by ring", {"p": 4}),
    "round, balanced blocks": Cut("gpt2_block", "shard t over p balanced, pass s by ring; shard h, e over q",
                                  {"p": 2, "q": 2}),
    "rounds, round, balanced": Cut("llama_lm", "shard t over p balanced, pass s by ring", {"p": 4}, {"N": 2}),
    "round, a window": Cut("sliding_window", "shard t over p, pass s by ring", {"p": 4}),
    "round and heads": Cut("gpt2_block", "shard t over p, pass s by ring; shard h, e over q", {"p": 2, "q": 2}),
    "rounds, round": Cut("llama_lm", "shard t over p, pass s by ring; shard h, g, e, v over q", {"p": 2, "q": 2},
                         {"N": 2}),
    "merged and heads": Cut("attention", "shard t over p, pass s by merge; shard h over q", {"p": 2, "q": 2}),
    "rounds and texts": Cut("llama_lm", "shard n over p; shard h, g, e, v over q", {"p": 2, "q": 2}, {"N": 2}),
    "experts and positions": Cut("moe_swiglu", "shard t over p; shard x over q", {"p": 2, "q": 2}),
    "groups of experts, a row for each choice": Cut("deepseek_moe", "shard t, else x over p, pass x by rows", {"p": 4},
                                                    {"E": 8, "N": 4, "m": 2, "n": 3, "d_s": 4}),
    "groups of experts, a row for each owner": Cut("deepseek_moe", "shard t, else x over p, pass x by once", {"p": 4},
                                                   {"E": 8, "N": 4, "m": 2, "n": 3, "d_s": 4}),
    "rows, and hidden units": Cut("moe_swiglu", "shard t, else x over p, pass x by rows; shard e over q",
                                  {"p": 2, "q": 2}),
}
ALWAYS = ("heads", "merged", "round in blocks", "queries go round", "words", "rounds", "a row for each owner")


def marked(cases: Mapping[str, Cut]) -> list[object]:
    """The names of cases, of which few always run."""
    return [pytest.param(name, id=name, marks=() if name in ALWAYS else pytest.mark.whole) for name in cases]


def inputs(program: TypedProgram, sizes: Mapping[str, int], spec: str) -> Arrays:
    """Random inputs, and a cotangent of each output under `d/` and its name."""
    return arrays(program, sizes, BY_NAME[spec].ranges)


def alone(program: TypedProgram, given: Arrays, sizes: Mapping[str, int], grad: bool) -> Arrays:
    """What one process makes: outputs, and by `d/` the cotangents that it draws and the gradients."""
    made = built(program, Options(grad=grad, own=True))
    mine = {key: x.requires_grad_(grad and x.is_floating_point()) for key, x in tensors(given).items()}
    asked = inspect.signature(made).parameters.keys() - mine.keys()
    found = made(**mine, **{name: sizes[name.removesuffix("_size")] for name in asked})
    names = [name for name, _ in program.outputs]
    outputs = dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))
    out = {key: x.detach().numpy() for key, x in outputs.items()}
    if grad:
        random = np.random.default_rng(1)
        real = [key for key, x in outputs.items() if x.is_floating_point()]
        out |= {f"d/{key}": random.standard_normal(out[key].shape) for key in real}
        asked = [key for key, x in mine.items() if x.requires_grad]
        slopes = torch.autograd.grad([outputs[key] for key in real], [mine[key] for key in asked],
                                     [torch.from_numpy(out[f"d/{key}"]) for key in real], allow_unused=True)
        out |= {f"d/{key}": x.numpy() for key, x in zip(asked, slopes, strict=True) if x is not None}
    return out


@pytest.mark.whole
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CUT])
def test_a_letter_of_every_spec_is_cut(two: Team, case: Case) -> None:
    """One that the name of the spec draws, with the gradient where there is one."""
    program, grad = typed_of(case), programs(case)[1] is not None
    letters = list(cases(case, grad))
    for one in Random(case.name).sample(letters, len(letters)):
        sizes = sized(case, [one])
        if isinstance(sizes, str):
            continue
        mesh = (Axis("p", 2, (one,)),)
        known = {name: n for name, n in sizes.items() if name in asked(program)}
        plan = (per_rank_gradient(program, mesh, known, PLAIN)[0] if grad
                else per_rank(pipeline.normal(program), mesh, known, PLAIN)[0])
        source = back_ends.emit(plan)
        if ": None,\n" in source:  # cut in a composite in a way that a DTensor cannot be
            continue
        given = arrays(program, sizes, case.ranges)
        want = alone(program, given, sizes, grad)
        same(two, program, source, given, want, sizes, grad=grad, plain=False)
        return


def same(team: Team, program: TypedProgram, source: str, given: Arrays, want: Arrays, sizes: Mapping[str, int], *,
         grad: bool, plain: bool, traced: bool = False) -> list[dict[str, int]]:
    """Checks that the ranks make what is wanted; the collectives of each half, `traced` those in its graph."""
    names = [name for name, _ in program.outputs]
    cotangents = {f"d/{name}": want[f"d/{name}"] for name in names if f"d/{name}" in want}
    found, counts = team.run(source, program.name, {**given, **cotangents}, names, grad=grad, plain=plain, sizes=sizes,
                             traced=traced)
    wrong = {key: error for key, x in found.items() if not (error := distance(x, want[key], 1e-3)) < EXACT}
    assert wrong == {} and found.keys() >= {*names}
    return counts


def check(team: Team, cut: Cut, grad: bool, plain: bool, backend: str = "torch") -> None:
    """Results and gradients are those of one process; and what was sent is what the plan says."""
    program = cut.program()
    given = inputs(program, cut.known, cut.spec)
    want = alone(typed_of(BY_NAME[cut.spec]), given, cut.known, grad)
    made = built(program, Options(backend, grad=grad, plan="it", own=True), mesh=cut.mesh)
    counts = same(team, program, made.source, given, want, cut.known, grad=grad, plain=plain)
    links = placing.on_mesh(program, ("it",), cut.mesh, {}, grad).links
    halves = [[(link.forward, link) for link in links], [(link.backward, link) for link in links]][:1 + grad]
    for half, sent in zip(halves, counts, strict=True):
        plan = Counter[str]()
        for piece, link in half:
            for one in traffic.sent(piece, cut.known) if piece is not None else ():
                kind = "all_to_all" if one.move.around else _kind(one.move.kind)  # so is sent what goes round
                plan[kind] += one.messages * int(link.times.at(cut.known))
        assert Counter({_kind(kind): n for kind, n in sent.items()}) == plan


def _kind(name: str) -> str:
    """The kind of a collective by what torch calls it."""
    return {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
            "all_to_all_single": "all_to_all", "to_rows": "all_to_all", "from_rows": "all_to_all"}.get(name, name)


@pytest.mark.parametrize("name", marked(TWO))
def test_two_processes_make_what_one_makes(two: Team, name: str) -> None:
    check(two, TWO[name], grad=True, plain=False)


@pytest.mark.parametrize("name", ["round in blocks", pytest.param("merged", marks=pytest.mark.whole)])
def test_gradients_of_some_inputs(two: Team, name: str) -> None:
    """What is for others alone is neither computed nor sent."""
    cut = TWO[name]
    program, given = cut.program(), inputs(cut.program(), cut.known, cut.spec)
    want = alone(typed_of(BY_NAME[cut.spec]), given, cut.known, True)
    made = built(program, Options("torch", grad=True, plan="it", own=True), mesh=cut.mesh)
    cotangents = {"d/A": want["d/A"]}
    for key in ("W_O", "W_V"):
        found, _ = two.run(made.source, program.name, {**given, **cotangents}, ["A"], grad=True, sizes=cut.known,
                           some=[key])
        assert found.keys() == {"A", f"d/{key}"} and distance(found[f"d/{key}"], want[f"d/{key}"], 1e-3) < EXACT


def apart(plan: PerRank) -> PerRank:
    """A plan in which every tensor is sent by itself."""
    def module(one: Module) -> Module:
        return replace(one, steps=tuple(part for step in one.steps for part in (
            [replace(step, reads=(read,), writes=(made,), moved=(moved,))
             for read, made, moved in zip(step.reads, step.writes, step.moved, strict=True)]
            if isinstance(step, Move) else [step])))

    assert isinstance(plan.body, Gradient)
    return replace(plan, body=replace(plan.body, forward=module(plan.body.forward),
                                      backward=module(plan.body.backward)))


@pytest.mark.parametrize("name", ["weights in parts", pytest.param("merged", marks=pytest.mark.whole),
                                  pytest.param("swapped", marks=pytest.mark.whole)])
def test_what_goes_as_one_message_is_what_was_sent_apart(two: Team, name: str) -> None:
    """Bit for bit, and in fewer messages; for some of the gradients too."""
    cut = TWO[name]
    program = cut.program()
    given = inputs(program, cut.known, cut.spec)
    given |= {key: x for key, x in alone(program, given, cut.known, True).items() if key.startswith("d/") and
              key.removeprefix("d/") not in given}
    names = [key for key, _ in program.outputs]
    plan = placing.planned(program, ("it",), cut.mesh, True, PLAIN)
    assert plan is not None
    for some in (None, [key for key in given if key.startswith("W_")]):
        (one, fewer), (each, more) = [
            two.run(back_ends.emit(x), program.name, given, names, grad=True, sizes=cut.known, some=some)
            for x in (plan, apart(plan))]
        assert one.keys() == each.keys() and all(np.array_equal(one[key], each[key]) for key in one)
        assert sum(fewer[1].values()) < sum(more[1].values())


@pytest.mark.whole
@pytest.mark.parametrize("name", TWO)
def test_two_processes_with_plain_tensors(two: Team, name: str) -> None:
    """Each rank gives what it has, and gets what it has of the result; without a gradient."""
    check(two, TWO[name], grad=False, plain=True)


@pytest.mark.whole
@pytest.mark.parametrize("name", FOUR)
@pytest.mark.parametrize("plain", [False, True], ids=["dtensors", "plain"])
def test_four_processes_make_what_one_makes(four: Team, name: str, plain: bool) -> None:
    check(four, FOUR[name], grad=True, plain=plain)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["heads", "merged"])
def test_kernels_in_cpp_are_as_those_of_torch(two: Team, name: str) -> None:
    """In float64, which is the type of these cases, they are torch's statements."""
    check(two, TWO[name], grad=True, plain=False, backend="cpp")


@pytest.mark.whole
@pytest.mark.parametrize("plain", [False, True], ids=["dtensors", "plain"])
@pytest.mark.parametrize("name", ["merged", "else positions", "round in blocks"])
def test_a_compiled_function_has_operators_with_collectives_between(two: Team, name: str, plain: bool) -> None:
    """`torch.compile` takes the whole in one graph each way: levels are operators, between them the collectives of the
    plan, and the numbers are the same. Torch gathers once what both halves gather of one tensor.
    """
    cut = TWO[name]
    program = cut.program()
    given = inputs(program, cut.known, cut.spec)
    want = alone(typed_of(BY_NAME[cut.spec]), given, cut.known, True)
    made = built(program, Options("torch", grad=True, plan="it", own=True), mesh=cut.mesh)
    graphs = same(two, program, made.source, given, want, cut.known, grad=True, plain=plain, traced=True)
    on_mesh = placing.on_mesh(program, ("it",), cut.mesh, {}, True)
    assert on_mesh.backward is not None
    halves = [[one for one in traffic.sent(half, cut.known) for _ in range(one.messages)]
              for half in (on_mesh.forward, on_mesh.backward)]
    plan = Counter("all_to_all" if one.move.around else one.move.kind for moves in halves for one in moves)
    found = Counter({_kind(key): n for key, n in (Counter(graphs[0]) + Counter(graphs[1])).items()})
    hops = 16 if name == "round in blocks" else 0  # at most two operators for each pair of blocks
    assert all(0 < graph["level"] <= 1 + len(moves) + hops for graph, moves in zip(graphs, halves, strict=True))
    assert found["wait_tensor"] == sum(found[kind] for kind in plan) and found <= plan + Counter(
        {"level": found["level"], "wait_tensor": found["wait_tensor"]})
    assert {kind: found[kind] for kind in plan if "reduce" in kind} == {
        kind: n for kind, n in plan.items() if "reduce" in kind}


MODULES = {
    "a composite": Cut("gpt2_block", "shard h, e over p", {"p": 2}),
    "else positions": Cut("swiglu_block", "shard h, g, e, else t over p", {"p": 2}),
    "weights in parts": Cut("gpt2_block", "shard n, else f over p", {"p": 2}),
}


def train(team: Team, cut: Cut, optimizer: str, steps: int, shared: bool = False) -> None:
    """Weights on a mesh are trained to what one process trains them to. A bias of keys has no gradient but for the last
    digits, of which Adam would make a step.
    """
    program = cut.program()
    given = inputs(program, cut.known, cut.spec)
    alone = built(typed_of(BY_NAME[cut.spec]), Options("torch", grad=True, own=True, module=True))
    one = fresh(alone.module, cut.known)
    mine = tensors(given)
    one.load_state_dict({key: mine[key] for key in one.state_dict()})
    rest = {key: x for key, x in mine.items() if key not in one.state_dict()}
    stepped(one, rest, optimizer, steps)
    want = {f"w/{key}": x.numpy() for key, x in one.state_dict().items()} | {"out": first(one(**rest)).detach().numpy()}
    made = built(program, Options("torch", grad=True, plan="it", own=True, module=True), mesh=cut.mesh)
    found = team.train(made.source, given, cut.known, optimizer, steps, shared)
    far = {key: distance(x, want[key].reshape(x.shape), 1e-3) for key, x in found.items()}
    wrong = {key: error for key, error in far.items() if not error < 1e-9}
    assert wrong == {} and found.keys() == want.keys() - ({"out"} if shared else set())


@pytest.mark.parametrize("name", [pytest.param(
    name, marks=[pytest.mark.whole] * (name != "a composite")) for name in MODULES])
def test_a_class_of_weights_is_trained_and_saved(two: Team, name: str) -> None:
    """Its parameters are DTensors: they take whole weights, torch's optimizer trains them, and a checkpoint of torch,
    which holds tensors alone, gives them back.
    """
    train(two, MODULES[name], "SGD", 5)


@pytest.mark.whole
def test_torch_keeps_gradients_and_optimizer_in_parts(four: Team) -> None:
    """`fully_shard` around the class, on an axis of a mesh that the file knows nothing of."""
    train(four, MODULES["a composite"], "SGD", 3, shared=True)


@pytest.mark.whole
@pytest.mark.parametrize("lines", [
    "shard n over p; shard h, g, e, v over q", "shard n, else f over p; shard h, g, e, v, else t over q"])
def test_a_model_on_four_processes_learns_as_on_one(four: Team, lines: str) -> None:
    """Layers in rounds, heads, hidden features and words in parts, and texts apart: 100 steps of AdamW in float64."""
    train(four, Cut("llama_lm", lines, {"p": 2, "q": 2}, {"N": 2}), "AdamW", 100)


def refused(team: Team, cut: Cut, differs: list[Arrays], grad: bool = False) -> str:
    """What the ranks say of inputs of which each has its own, one line for each rank."""
    program = cut.program()
    given = {key: x for key, x in inputs(program, cut.known, cut.spec).items() if key not in differs[0]}
    made = built(program, Options("torch", grad=grad, plan="it"), mesh=cut.mesh)
    with pytest.raises(TeamError) as failed:
        team.run(made.source, program.name, given, [name for name, _ in program.outputs], grad=grad, plain=True,
                 differs=differs, early=True)
    return str(failed.value)


def test_what_differs_between_ranks_is_told_on_each(two: Team) -> None:
    """With what both have, before anything is sent that does not fit."""
    x = np.zeros((8, 8))
    said = refused(two, TWO["heads"], [{"X": x}, {"X": x[:6]}])
    one = "ValueError: the ranks of the mesh were given different things: on rank 0 X is (8, 8) of torch.float64 on cpu"
    assert said == "\n".join([f"{one}; on rank 1 X is (6, 8) of torch.float64 on cpu"] * 2)


@pytest.mark.whole
@pytest.mark.parametrize(("differs", "said"), [
    ([{"X": np.zeros((8, 8))}, {"X": np.zeros((8, 8), np.float32)}], "on rank 1 X is (8, 8) of torch.float32"),
    ([{"X": np.zeros((8, 7))}] * 2, "X has shape (8, 7), (T, d_model) with d_model = 8 is expected, as W_Q"),
])
def test_what_does_not_fit_is_told(two: Team, differs: list[Arrays], said: str) -> None:
    found = refused(two, TWO["heads"], differs).splitlines()
    assert len(found) == 2 and all(said in line for line in found)


PLACES = """index t : time(T)
index v : vocab(V)
index d : feature(D)
input x_t
input E_v^d
output Y_t^d = E_{⌊x_t⌋}^d
plan it:
    shard v over p
"""


@pytest.mark.whole
@pytest.mark.parametrize("place", [0.5, 9.0, float("nan"), float("-inf")])
def test_a_place_that_is_none_is_told_by_a_rank(two: Team, place: float) -> None:
    """As on one device: a row that no rank has is no row of zeros."""
    program = typed(PLACES)
    made = built(program, Options("torch", plan="it"), mesh={"p": 2})
    given = {"x": np.array([1.5, 8.0, 4.0, 5.0]), "E": np.random.default_rng(0).standard_normal((8, 3))}
    found, _ = two.run(made.source, program.name, given, ["Y"], grad=False)
    np.testing.assert_array_equal(found["Y"], given["E"][[0, 7, 3, 4]])
    with pytest.raises(TeamError, match=r"IndexError: .* is read at"):
        two.run(made.source, program.name, {**given, "x": np.array([1.0, place])}, ["Y"], grad=False)


FEW = """index t : time(T)
index f : feature(D)
index e : feature(U)
input X_t^f
weight W_f^e
x_t^f = {0}(4 X_t^f)
output Y_t^e = x_t^f W_f^e
plan it:
    shard e, else t over p
    store x as {0}
"""


EXPERTS = """index t : time(T)
index f : feature(D)
index e : feature(F)
index x : expert(E)
dim k
input X_t^f
"""
# Rounds that choose, each for itself; what stands after them and chooses, too.
LAYERS = {
    "in each round": """H_t^f = X_t^f
for ℓ in 1..N:
    weight W_f^x, A_{x f}^e, B_{x e}^f
    G_t^x = H_t^f W_f^x
    set C_t = topk_x(G_t^x, k)
    w_t^x = softmax_{x ∈ C_t}(G_t^x)
    U_{t x}^e = sin(H_t^f A_{x f}^e)
    Y_{t (x)}^f = U_{t x}^e B_{x e}^f
    H_t^f ← H_t^f + Σ_{x ∈ C_t} w_t^x Y_{t (x)}^f
output O_t^f = H_t^f
""",
    "and after them": """H_t^f = X_t^f
for ℓ in 1..N:
    weight W_f^x, A_{x f}^e, B_{x e}^f
    G_t^x = H_t^f W_f^x
    set C_t = topk_x(G_t^x, k)
    U_{t x}^e = sin(H_t^f A_{x f}^e)
    Y_{t (x)}^f = U_{t x}^e B_{x e}^f
    H_t^f ← H_t^f + Σ_{x ∈ C_t} Y_{t (x)}^f
weight R_f^x, Q_{x f}^e
V_t^x = H_t^f R_f^x
set S_t = topk_x(V_t^x, k)
P_{t x}^e = H_t^f Q_{x f}^e
output O_t^e = Σ_{x ∈ S_t} V_t^x P_{t x}^e
""",
}
FEW_LAYERS = {"T": 6, "D": 3, "F": 5, "E": 4, "k": 2, "N": 3}


@pytest.mark.whole
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_rounds_send_rows_to_what_they_chose(two: Team, layers: str, grad: bool, backend: str) -> None:
    """How many rows a round has is told anew in each, and its gradient knows it of what was saved."""
    text = EXPERTS + LAYERS[layers]
    program = typed(f"{text}plan it:\n    shard t, else x over p, pass x by rows\n")
    given = arrays(program, FEW_LAYERS, {})
    want = alone(typed(text), given, FEW_LAYERS, grad)
    made = built(program, Options(backend, grad=grad, plan="it", own=True), mesh={"p": 2})
    assert "_to_rows" in made.source
    same(two, program, made.source, given, want, FEW_LAYERS, grad=grad, plain=False)


@pytest.mark.whole
@pytest.mark.parametrize("word", ["int8", "e4m3", "e5m2"])
def test_what_is_stored_in_few_bits_travels_so(two: Team, word: str) -> None:
    """A rank gathers the rounded numbers as they are stored, whether collectives have such a type or not."""
    program = typed(FEW.format(word))
    given, sizes = arrays(program, {"T": 4, "D": 3, "U": 6}, {}), {"T": 4, "D": 3, "U": 6}
    want = alone(program, given, sizes, True)
    made = built(program, Options("torch", grad=True, plan="it"), mesh={"p": 2})
    assert "slope of" in made.source and ("view(torch.uint8)" in made.source)
    same(two, program, made.source, given, want, sizes, grad=True, plain=False)
    (move,) = (move for _, move in placing.on_mesh(program, ("it",), {"p": 2}, {}).forward.moves)
    assert move.kind == "all_gather" and move.element.size(4) == 1
    with pytest.raises(EincError, match=f"passes `{word}`, whose slope is declared"):
        built(program, Options("torch", grad="exact", plan="it"), mesh={"p": 2})


@pytest.mark.whole
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    """A spec and a program as the page has them, run as it says."""
    page = (Path(__file__).parent.parent / "backends/README.md").read_text(encoding="utf-8")
    page = page[page.index("## Several devices"):]
    (spec, *_), (train, _, save, *_) = (re.findall(rf"```{word}\n(.*?)```", page, re.S) for word in ("ein", "python"))
    (tmp_path / "heads.ein").write_text(spec, encoding="utf-8")
    assert "`torchrun --nproc-per-node 2 train.py`" in page
    for words, program, said in (("compile heads.ein --plan tp --grad -o heads.py", train,
                                  "has of the gradient of W_Q (2, 32, 8)"),
                                 ("compile heads.ein --plan tp --grad --module -o heads.py", save,
                                  "has saved and loaded True")):
        assert f"`einc {words}`" in page
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-m", "einc", *words.split()], cwd=tmp_path, env=env, check=True)
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "program.py"],
                              cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        assert sorted(done.stdout.splitlines()) == [f"rank {n} {said}" for n in range(2)]
