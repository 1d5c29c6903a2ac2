"""Rounds as stages: the programs of the stages one after the other by the interpreter, and stages of real processes in
the schedules of torch, against one process on the whole; both in float64.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Arrays, arrays, distance, meaning, typed
from placing_cases import BY_NAME
from rank_training import first, fresh
from team import Team, TeamError

from einc.checking.placements import letters_of
from einc.driver import front
from einc.driver.cli import main
from einc.driver.compiling import built
from einc.driver.options import Options
from einc.errors.report import EincError
from einc.ir.programs import TypedProgram
from einc.syntax.printing.show import show
from einc.transforms.slicing.stages import Stages, stages

EXACT = 1e-10
SIZES = {"B": 8, "T": 5, "H": 4, "G": 2, "d_k": 4, "d_model": 8, "d_ff": 8, "V": 8, "N": 4}
# What begins the layers is read again in each, with their number, and after them.
CARRIED = """index n : batch(B)
index t : time(T)
index f, g : feature(D)
input x_{n t}^f
weight U_f^g, W_g^f
A_{n t}^g = x_{n t}^f U_f^g
R_t = t / T
H_{n t}^g = A_{n t}^g
for ℓ in 1..N:
    weight V_f^g
    H_{n t}^g ← max(H_{n t}^f V_f^g, 0) + A_{n t}^g / ℓ + R_t / N
output Y_{n t}^f = (H_{n t}^g + A_{n t}^g) W_g^f
"""
TWO = """index n : batch(B)
index f, g : feature(D)
input x_n^f, y_n^f
weight W_f^g
P_n^f = x_n^f
Q_n^f = 2 x_n^f
for ℓ in 1..N:
    weight V_f, c
    Z_n^f = P_n^f V_{(f)} + c
    Q_n^f ← Q_n^f + max(Z_n^f, 0)
    P_n^f ← P_n^f + Q_n^f c
output A_n^f = P_n^f + y_n^f
output C_n^g = Q_n^f W_f^g
"""
TEXTS = {"carried": CARRIED, "two states": TWO, "llama_lm": BY_NAME["llama_lm"].text}
NUMBERS = {**SIZES, "D": 3}
RANGES = BY_NAME["llama_lm"].ranges


def run(found: Stages, given: Arrays, ranks: int, sizes: Mapping[str, int]) -> Arrays:
    """What the stages make one after the other, each given what the one before hands on."""
    handed: Arrays = {}
    each = sizes[found.count] // ranks
    for place in range(ranks):
        one = found.first if not place else found.last if place == ranks - 1 else found.between
        mine = {key: x for key, x in given.items() if key not in found.layers}
        for key, at in found.layers.items():
            mine[key] = given[key].take(range(place * each, (place + 1) * each), at)
        mine |= {**handed, found.before: np.array(place * each)}
        made = meaning(one, {t.key: mine[t.key] for t in one.inputs()}, {**sizes, found.rounds: each})
        handed = dict(zip(found.handed, made.values(), strict=False))
    return made


def cut(program: TypedProgram, ranks: int) -> Stages:
    """The stages of a program whose texts go through."""
    by = letters_of(program)
    return stages(program, by["ℓ"], "pp", ranks, by["n"])


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", TEXTS)
def test_stages_make_what_the_whole_makes(name: str, ranks: int) -> None:
    """One after the other; and the text of each reads back as the same stage."""
    program = typed(TEXTS[name])
    found, given = cut(program, ranks), arrays(program, NUMBERS, RANGES)
    want, made = meaning(program, given, NUMBERS), run(found, given, ranks, NUMBERS)
    assert max(distance(made[key], want[key]) for key in want) < EXACT
    assert (found.before != "") == (name == "carried")
    for one in (found.first, found.between, found.last):
        assert len(typed(show(one)).inputs()) == len(one.inputs())


def drawn(seed: int) -> str:
    """A random text with layers: values before them, states that begin with such values, with what is given or with
    numbers, rounds that read all of these, their own weights and their number, and results of some of them.
    """
    random = Random(seed)
    lines = ["index n : batch(B)", "index f, g : feature(D)", "input x_n^f, y_n^f"]
    known = ["x_n^f", "y_n^f", "1/3", "f / D"]

    def term(more: Sequence[str] = ()) -> str:
        a, b = random.choice([x for x in known if "_n" in x]), random.choice([*known, *more])
        return random.choice([f"{a} + {b}", f"max({a}, {b} / 2)", f"{a} - {b}", f"tanh({a}) {b}"])

    for name in random.sample("ABC", random.randint(0, 3)):
        lines.append(f"{name}_n^f = {term()}")
        known.append(f"{name}_n^f")
    states = random.sample("PQR", random.randint(1, 3))
    lines += [f"{name}_n^f = {random.choice([*known[:2], *known[4:], term()])}" for name in states]
    lines += ["for ℓ in 1..N:", "    weight V_f^g, c^f"]
    here = [f"{name}_n^f" for name in states]
    mine = [*here, *here, "c^f", "1 / ℓ", "1 / N", f"({states[0]}_n^g V_g^f)"]
    lines += [f"    {name}_n^f ← {term(mine)} + {random.choice(here)} / 2" for name in states]
    lines += [f"output out_{name}_n^f = {term(here)} + {name}_n^f" for name in random.sample(states, 1)]
    return "\n".join(lines) + "\n"


@pytest.mark.drawn(8)
@pytest.mark.parametrize("seed", range(60))
def test_stages_of_random_layers_make_what_the_whole_makes(seed: int) -> None:
    program, ranks = typed(drawn(seed)), 2 + 2 * (seed % 2)
    given = arrays(program, NUMBERS, {})
    found, want = run(cut(program, ranks), given, ranks, NUMBERS), meaning(program, given, NUMBERS)
    assert max(distance(found[key], want[key]) for key in want) < EXACT


def test_what_depends_on_no_data_is_not_handed_on() -> None:
    found = cut(typed(CARRIED), 4)
    assert found.handed == ("H_start", "A")
    assert "R" in {e.target for e in found.between.equations}


PLAN = "\nplan deep:\n    mesh pp = 2\n    shard {}\n"
GOOD = "ℓ over pp, n in 4 parts by 1F1B"


@pytest.mark.parametrize(("text", "line", "said"), [
    (CARRIED, "ℓ over pp", "`ℓ` counts rounds, so what goes from stage to stage comes in parts"),
    (CARRIED, "f over pp, n in 4 parts by 1F1B", "`f` counts no rounds"),
    (CARRIED, "ℓ, f over pp, n in 4 parts by 1F1B", "are stages of an axis of their own"),
    (CARRIED, "ℓ over pp, n in 4 parts by 2F2B", "stages have no order `2F2B`"),
    (CARRIED, "ℓ over pp, n in 0 parts by GPipe", "there are from 1 to 1,048,576 parts"),
    (CARRIED, GOOD + "\n    keep Q gathered", "`Q` is not saved for the gradient"),
    (CARRIED, GOOD + "\n    keep H gathered", "so it cannot be kept gathered"),
    (CARRIED, "ℓ over pp, n in 1.5 parts by 1F1B", "there are from 1 to 1,048,576 parts"),
    (CARRIED, GOOD + "\n    recompute ℓ every 1.5", "from 1 to 16,777,216 rounds are made again together"),
    (CARRIED, "ℓ over pp, k in 4 parts by GPipe", "`k` is no letter of this spec"),
    (CARRIED, "ℓ over pp, f in 4 parts by GPipe", "is folded over feature"),
    (CARRIED.replace("^f = (H", "^f = V_{1 (f)}^{(f)} (H"), GOOD, "reads `V` of all rounds"),
    (CARRIED.replace("(H_{n t}^g + A_{n t}^g) W_g^f", "(H_{n t}^g + A_{n t}^g) U_f^g"), GOOD,
     "the weight `U` is read in several stages"),
    (CARRIED.replace("output Y_{n t}^f", "Y_{n t}^f") + "output Z = Σ_{n t f} Y_{n t}^f\n", GOOD,
     "is folded over batch"),
    (CARRIED.replace("1..N", "1..3").replace("/ N", ""), GOOD, "rounds, of which no stage has a part"),
    (CARRIED + "dim N = 3\n", GOOD, "N = 3 is no multiple of pp = 2"),
])
def test_what_is_no_stage_is_told(text: str, line: str, said: str) -> None:
    with pytest.raises(EincError, match=said):
        front.compile(text + PLAN.format(line), "torch", grad=True, module=True, plan="deep")


@pytest.mark.parametrize(("words", "said"), [
    (["--grad"], "a stage is a class of the weights of its rounds"), (["--module"], "stages are for training"),
])
def test_what_stages_need_is_told(tmp_path: object, words: list[str], said: str) -> None:
    text = str(tmp_path) + "/a.ein"
    with open(text, "w", encoding="utf-8") as file:
        file.write(CARRIED + PLAN.format(GOOD))
    done = CliRunner().invoke(main, ["compile", text, "--plan", "deep", *words])
    assert done.exit_code == 1 and said in done.output


@pytest.mark.parametrize(("mesh", "said"), [
    ("pp=1", "the mesh has one rank, and one stage is the whole of `a`"),
    ("pp=2,tp=2", "each stage is cut over `tp`, too"),
])
def test_stages_that_are_not_printed(tmp_path: Path, mesh: str, said: str) -> None:
    """And the mesh that is named instead is printed."""
    (tmp_path / "a.ein").write_text(f"{CARRIED}{PLAN.format(GOOD)}plan wide:\n    shard f over tp\n", encoding="utf-8")
    words = ["derive", str(tmp_path / "a.ein"), "--plan", "deep,wide" if "tp" in mesh else "deep"]
    done = CliRunner().invoke(main, [*words, "--mesh", mesh])
    assert done.exit_code == 1 and said in done.output
    way = re.search(r"`--mesh (\S+)`", done.output)
    assert way is None or "stage 2" in CliRunner().invoke(main, [*words, "--mesh", way[1]]).output


def check(team: Team, name: str, mesh: dict[str, int], line: str, steps: int = 0, more: str = "") -> None:
    """Stages make the result, the loss and the gradients of one process, and train to the same weights."""
    program = typed(TEXTS[name] + PLAN.format(line) + more, "deep.ein")
    given = arrays(program, NUMBERS, RANGES)
    made = built(program, Options("torch", grad=True, module=True, plan="deep"), mesh=mesh)
    out = next(iter(meaning(program, given, NUMBERS).values()))
    given["y"] = np.random.default_rng(5).standard_normal(out.shape)
    sizes = {n for t in program.inputs() if t.role == "weight" for s in t.slots for n in s.set.extent.sizes}
    found = team.staged(made.source, given, {n: NUMBERS[n] for n in sizes | {"N"}}, steps)
    want = alone(typed(TEXTS[name], "deep.ein"), given, steps)
    assert found.keys() == want.keys()
    wrong = {key: distance(found[key], x) for key, x in want.items() if not distance(found[key], x) < EXACT}
    assert wrong == {}


def alone(program: TypedProgram, given: Arrays, steps: int) -> Arrays:
    """The same by one process."""
    kind = built(program, Options("torch", grad=True, module=True)).module
    made = fresh(kind, NUMBERS)
    state = {key: torch.from_numpy(x) for key, x in given.items() if key in made.state_dict()}
    made.load_state_dict(state)
    inputs = {key: torch.from_numpy(x) for key, x in given.items() if key not in state and key != "y"}
    trainer, target, out = torch.optim.AdamW(made.parameters(), lr=1e-3), torch.from_numpy(given["y"]), {}
    for step in range(max(steps, 1)):
        trainer.zero_grad()
        result = first(made(**inputs))
        loss = (result - target).square().mean()
        loss.backward()
        if not step:
            out = {"out": result.detach().numpy().copy(), "loss": loss.detach().numpy()}
            out |= {f"d/{key}": x.grad.numpy().copy() for key, x in made.named_parameters()}
        if steps:
            trainer.step()
    return out | {f"w/{key}": x.detach().numpy() for key, x in made.state_dict().items()}


def test_two_stages_train_as_one_process(two: Team) -> None:
    check(two, "llama_lm", {"pp": 2}, GOOD, 3)


@pytest.mark.whole
@pytest.mark.parametrize(("sizes", "said"), [
    ([{}, {"D": 5}], "on rank 0 D is 3; on rank 1 D is 5"), ([{"N": 3}] * 2, "N = 3 is no multiple of pp = 2"),
    ([{"Q": 3}] * 2, "no stage has `Q`: the sizes are D, N"),
])
def test_what_differs_on_stages_is_told(two: Team, sizes: list[dict[str, int]], said: str) -> None:
    """On every rank, before anything waits for another."""
    program = typed(CARRIED + PLAN.format(GOOD), "deep.ein")
    made = built(program, Options("torch", grad=True, module=True, plan="deep"))
    with pytest.raises(TeamError) as error:
        two.staged(made.source, {}, {"D": 3, "N": 4}, 0, sizes)
    assert str(error.value).count(said) == 2


@pytest.mark.whole
@pytest.mark.parametrize("line", ["ℓ over pp, n in 4 parts by GPipe", "ℓ over pp, n in 8 parts by 1F1B"])
@pytest.mark.parametrize("name", ["llama_lm", "carried"])
def test_stages_of_each_order(two: Team, name: str, line: str) -> None:
    check(two, name, {"pp": 2}, line)


@pytest.mark.whole
@pytest.mark.parametrize("line", ["ℓ over pp, n in 4 parts by GPipe", GOOD])
@pytest.mark.parametrize("name", ["llama_lm", "carried"])
def test_four_stages(four: Team, name: str, line: str) -> None:
    """Those between the first and the last have neither what stands before the rounds nor what stands after them."""
    check(four, name, {"pp": 4}, line)


@pytest.mark.whole
def test_stages_of_several_devices(four: Team) -> None:
    """Each stage is cut by heads, too."""
    check(four, "llama_lm", {"pp": 2, "tp": 2}, GOOD, 3, "    mesh tp = 2\n    shard h, g, e over tp\n")


@pytest.mark.whole
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "backends/README.md").read_text(encoding="utf-8")
    (program,) = (text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "import schedule, stage" in text)
    words = "compile --plan deep --grad --module -o lm.py"
    assert f"`einc {words}`" in page
    spec = f'use "llama_lm"{PLAN.format("ℓ over pp, n in 8 parts by 1F1B")}'
    (tmp_path / "lm.ein").write_text(spec, encoding="utf-8")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    command, *options = words.split()
    made = CliRunner().invoke(main, [command, str(tmp_path / "lm.ein"), *options[:-1], str(tmp_path / "lm.py")])
    assert made.exit_code == 0, made.output
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "program.py"],
                          cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
                          check=True)
    assert sorted(done.stdout.splitlines()) == [f"rank {n} has 2 of 4 layers and {8 * n} losses" for n in range(2)]
