"""Files for a mesh of devices, run by real processes with gloo between them, against one process in float64."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, distance, tensors, typed, typed_of
from placing_cases import BY_NAME, cases, programs, refusal, sized
from programs import FILES, Case
from team import Team, TeamError

from einc.driver import back_ends, pipeline, placing
from einc.driver.commands.sizes import names as asked
from einc.driver.compiling import built
from einc.driver.options import Options
from einc.ir.choices import PLAIN
from einc.ir.programs import TypedProgram
from einc.planning.placing import Axis
from einc.planning.placing.modules import per_rank, per_rank_gradient

EXACT = 1e-10
SIZES = {"B": 4, "N": 4, "T": 8, "H": 4, "d_k": 4, "d_model": 8, "d_ff": 8, "V": 8, "G": 2, "E": 4, "n": 2, "r": 4,
         "r_Q": 4, "d_h": 4, "d_c": 4, "U": 8, "S": 8}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    team = Team(2, tmp_path_factory.mktemp("two"))
    yield team
    team.end()


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    team = Team(4, tmp_path_factory.mktemp("four"))
    yield team
    team.end()


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
    "weights in parts": Cut("gpt2_block", "shard n, else f over p", {"p": 2}),
    "gathered": Cut("attention", "shard t over p, pass s by gather", {"p": 2}),
    "merged": Cut("attention", "shard t over p, pass s by merge", {"p": 2}),
    "swapped": Cut("gpt2_block", "shard t over p, pass s by swap h", {"p": 2}),
    "words": Cut("linear_cross_entropy", "shard v over p", {"p": 2}),
    "latents": Cut("mla_rope", "shard h over p", {"p": 2}),
    "experts": Cut("moe_swiglu", "shard x, else t over p", {"p": 2}),
    "a power of a reference": Cut("collision", "shard v over p", {"p": 2}),
    "rows without a point": Cut("blocks_before", "shard s over p", {"p": 2}),
    "a composite": Cut("gpt2_block", "shard h over p", {"p": 2}),
}
FOUR = {
    "four ranks": Cut("gpt2_block", "shard h, e over p", {"p": 4}),
    "two axes of weights": Cut("gpt2_block", "shard f over p; shard h, e over q", {"p": 2, "q": 2}),
    "weights and positions": Cut("gpt2_block", "shard n, else f over p; shard h, e, else t over q", {"p": 2, "q": 2}),
    "texts and heads": Cut("gpt2_block", "shard n over p; shard h, e over q", {"p": 2, "q": 2}),
    "words and positions": Cut("linear_cross_entropy", "shard t over p; shard v over q", {"p": 2, "q": 2}),
    "merged and heads": Cut("attention", "shard t over p, pass s by merge; shard h over q", {"p": 2, "q": 2}),
    "experts and positions": Cut("moe_swiglu", "shard t over p; shard x over q", {"p": 2, "q": 2}),
}
ALWAYS = ("heads", "merged", "words")


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
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in FILES
                                  if not refusal(case) and typed_of(case).outputs])
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
         grad: bool, plain: bool) -> list[dict[str, int]]:
    """Checks that the ranks make what is wanted; the collectives of each half."""
    names = [name for name, _ in program.outputs]
    cotangents = {f"d/{name}": want[f"d/{name}"] for name in names if f"d/{name}" in want}
    found, counts = team.run(source, program.name, {**given, **cotangents}, names, grad=grad, plain=plain, sizes=sizes)
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
    on_mesh = placing.on_mesh(program, ("it",), cut.mesh, {}, grad)
    halves = [half for half in (on_mesh.forward, on_mesh.backward) if half is not None]
    for half, sent in zip(halves, counts, strict=True):
        assert Counter({_kind(kind): n for kind, n in sent.items()}) == Counter(m.kind for _, m in half.moves)


def _kind(name: str) -> str:
    """The kind of a collective by what torch calls it."""
    return {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
            "all_to_all_single": "all_to_all"}.get(name, name)


@pytest.mark.parametrize("name", marked(TWO))
def test_two_processes_make_what_one_makes(two: Team, name: str) -> None:
    check(two, TWO[name], grad=True, plain=False)


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


def refused(team: Team, cut: Cut, differs: list[Arrays], grad: bool = False) -> str:
    """What the ranks say of inputs of which each has its own, one line for each rank."""
    program = cut.program()
    given = {key: x for key, x in inputs(program, cut.known, cut.spec).items() if key not in differs[0]}
    made = built(program, Options("torch", grad=grad, plan="it"), mesh=cut.mesh)
    with pytest.raises(TeamError) as failed:
        team.run(made.source, program.name, given, [name for name, _ in program.outputs], grad=grad, plain=True,
                 differs=differs)
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
    ([{"X": np.zeros((8, 7))}] * 2, "W_Q has shape (2, 8, 4), (H // 2, d_model, d_k) = (2, 7, 4) is expected"),
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
    made = built(program, Options("torch", plan="it"), {"p": 2})
    given = {"x": np.array([1.5, 8.0, 4.0, 5.0]), "E": np.random.default_rng(0).standard_normal((8, 3))}
    found, _ = two.run(made.source, program.name, given, ["Y"], grad=False)
    np.testing.assert_array_equal(found["Y"], given["E"][[0, 7, 3, 4]])
    with pytest.raises(TeamError, match=r"IndexError: .* is read at"):
        two.run(made.source, program.name, {**given, "x": np.array([1.0, place])}, ["Y"], grad=False)


@pytest.mark.whole
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    """A spec and a program as the page has them, run as it says."""
    page = (Path(__file__).parent.parent / "backends/README.md").read_text(encoding="utf-8")
    page = page[page.index("## Several devices"):]
    spec, program = (re.search(rf"```{word}\n(.*?)```", page, re.S) for word in ("ein", "python"))
    assert spec is not None and program is not None
    (tmp_path / "heads.ein").write_text(spec[1], encoding="utf-8")
    (tmp_path / "train.py").write_text(program[1], encoding="utf-8")
    words = "compile heads.ein --plan tp --grad -o heads.py"
    assert f"`einc {words}`" in page and "`torchrun --nproc-per-node 2 train.py`" in page
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "einc", *words.split()], cwd=tmp_path, env=env, check=True)
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"],
                          cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == [f"rank {n} has of the gradient of W_Q (2, 32, 8)" for n in range(2)]
