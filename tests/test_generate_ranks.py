"""Texts that are made on a mesh: the step as a function of what is kept, and processes of torch that make the same
tokens as one does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Arrays, arrays, distance, extent, meaning, typed, typed_of
from placing_cases import BY_NAME
from safetensors.torch import save_file

from einc.driver import pipeline, placing
from einc.driver.cli import main
from einc.driver.integrations.ranked import Cache, Kept, Turn
from einc.errors.report import EincError
from einc.ir.choices import PLAIN
from einc.planning import generation
from einc.transforms.serving.cached import Refused, growing

SPECS = ("gqa", "llama_lm", "decoder_lm", "mla_rope", "alibi", "sliding_window", "deepseek_attention")
SIZES = {"N": 2, "H": 4, "G": 2, "d_k": 4, "d_model": 8, "d_ff": 8, "V": 260}
PLAN = """use "llama_lm"
plan tp:
    shard h, g, e, v over tp
plan cp:
    shard s over cp
plan around:
    shard t over around, pass s by ring
plan dp:
    shard n over dp
"""


@pytest.mark.parametrize("spec", SPECS)
def test_a_step_as_a_function_makes_what_all_positions_make(spec: str) -> None:
    """Some positions at a time, the first with nothing before them, what is kept laid together by the caller."""
    program = typed_of(BY_NAME[spec])
    step, along = generation.as_function(program), growing(program)
    sizes = {**BY_NAME[spec].sizes, "T": 6}
    given = arrays(program, sizes, BY_NAME[spec].ranges)
    (name, key), *_ = program.outputs
    for made_of in (step.program, pipeline.normal(step.program)):
        kept, parts, begun = dict[str, np.ndarray](), list[np.ndarray](), 0
        for count in (3, 1, 2):
            known = {**sizes, "T": count, step.past: begun}
            mine: Arrays = dict(given)
            for tensor in program.inputs():
                for at, slot in enumerate(tensor.slots if tensor.role == "input" else ()):
                    if slot.set == along:
                        mine[tensor.key] = given[tensor.key].take(range(begun, begun + count), at)
            for one in step.rows:
                slots = step.program.tensors[one.past].slots
                mine[one.past] = kept.get(one.past, np.zeros([extent(s.set.extent, known) for s in slots]))
            made = meaning(made_of, mine, known)
            kept = {one.past: np.concatenate([mine[one.past], made[one.made]], one.slot) for one in step.rows}
            parts.append(made[name])
            begun += count
        at = [slot.set for slot in program.tensors[key].slots].index(along)
        assert distance(np.concatenate(parts, at), meaning(program, given, sizes)[name]) < 1e-10


def test_what_is_kept_is_cut_as_heads_are() -> None:
    plan, step = placing.served(typed(PLAN), (), {"tp": 2}, frozenset(), PLAIN)
    cuts = dict(plan.cuts)
    assert [step.program.tensors[one.past].slots[cuts[one.past][0][0]].set.cls for one in step.rows] == ["head"] * 2
    assert {one.past for one in step.rows} == {"K_past", "V_past"}


def test_rows_are_added_with_room_for_more() -> None:
    kept = Kept(torch.zeros(2, 0, 3), 1)
    cache, every = Cache({"K_past": kept}), torch.randn(2, 300, 3)
    for begun, end in ((0, 1), (1, 70), (70, 300)):
        kept.add(every[:, begun:end])
    assert torch.equal(kept.rows, every)
    fork = cache.fork(100).kept["K_past"]
    fork.add(every[:, :5])
    assert torch.equal(fork.rows, torch.cat([every[:, :100], every[:, :5]], 1)) and torch.equal(kept.rows, every)


@pytest.mark.parametrize("every", [False, True])
def test_rows_are_dealt_out_in_turn(every: bool) -> None:
    """Three processes have rows 1, 4, …, rows 2, 5, … and rows 3, 6, …, or each all of them; also after a fork."""
    kept = [Kept(torch.zeros(2, 0, 3), 1, 0, Turn(3, every, n)) for n in range(3)]
    every_row = torch.randn(2, 200, 3)

    def right(some: list[Kept]) -> None:
        count = some[0].length
        rows = torch.cat([one.rows for one in (some[:1] if every else some)], 2).flatten(1, 2)
        assert torch.equal(rows[:, :count], every_row[:, :count]) and rows.shape[1] == -(-count // 3) * 3

    for begun, end in ((0, 1), (1, 5), (5, 6), (6, 199)):
        for one in kept:
            one.add(every_row[:, begun:end])
        right(kept)
    forks = [one.fork(100) for one in kept]
    right(forks)
    for one in forks:
        one.add(every_row[:, 100:102])
    right(forks)
    right(kept)


def test_positions_of_what_heads_cut_are_not_cut_again() -> None:
    """The first letter of a line that a tensor has cuts it."""
    text = PLAN + "plan both:\n    mesh all = 2\n    shard g, else s over all\n"
    plan, step = placing.served(typed(text), ("both",), {}, frozenset(), PLAIN)
    assert step.ranks == 2 and dict(plan.cuts)["K_past"][0][0] == 4


def test_a_plan_that_serves_says_what_is_dealt_out(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no --plan; what is shown is the step, and no file is written of it."""
    monkeypatch.chdir(room)
    serve = "plan serve:\n    mesh cp = 2\n    shard s over cp\n"
    (room / "cp.ein").write_text('use "llama_lm"\n' + serve, encoding="utf-8")
    for words, said in (((*WORDS[:1], "cp.ein", *WORDS[2:]), "cp = 2 needs 2 processes, and there is 1"),
                        (("compile", "cp.ein", "--plan", "serve"), "what serves on several devices is no file")):
        done = CliRunner().invoke(main, [*words])
        assert done.exit_code == 1 and said in done.output
    (room / "cp.ein").write_text('use "sdpa"\n' + serve, encoding="utf-8")
    done = CliRunner().invoke(main, ["show", "cp.ein", "--stage", "plan", "--plan", "serve"])
    assert done.exit_code == 0 and "3 collectives" in done.output, done.output


@pytest.mark.parametrize(("mesh", "said"), [
    ({"around": 2}, "the past of a step stays where it is"), ({"dp": 2}, "and a step is of few texts"),
    ({"tp": 1}, "the mesh has one rank"), ({"x": 2}, "no `shard` says"),
])
def test_what_a_step_cannot_be_cut_by(mesh: dict[str, int], said: str) -> None:
    with pytest.raises(EincError, match=said):
        placing.served(typed(PLAN), (), mesh, frozenset(), PLAIN)


def test_states_are_no_rows() -> None:
    with pytest.raises(Refused, match="is a state that a step leaves"):
        generation.as_function(typed_of(BY_NAME["gla"]))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights."""
    room, random = tmp_path_factory.mktemp("ranks"), torch.Generator().manual_seed(3)
    weights = {t.key: torch.randn([extent(s.set.extent, SIZES) for s in t.slots], generator=random).double()
               for t in typed_of(BY_NAME["llama_lm"]).inputs() if t.role == "weight"}
    save_file(weights, room / "w.safetensors")
    (room / "m.ein").write_text(PLAN, encoding="utf-8")
    return room


WORDS = ["generate", "m.ein", "--weights", "w.safetensors", "--ids", "5,9,2,7", "--ids", "1,2", "--count", "12"]


@pytest.mark.parametrize(("words", "said"), [
    (["--mesh", "tp=2"], "tp = 2 needs 2 processes, and there is 1"),
    (["--mesh", "tp=2", "--pages", "4"], "--pages is for one device"),
    (["--plan", "tp"], "the mesh has no axis `tp`"),
])
def test_what_is_told_where_no_processes_are(room: Path, monkeypatch: pytest.MonkeyPatch, words: list[str],
                                             said: str) -> None:
    monkeypatch.chdir(room)
    done = CliRunner().invoke(main, [*WORDS, *words])
    assert done.exit_code == 1 and said in done.output


@pytest.mark.whole
@pytest.mark.parametrize(("mesh", "ranks"), [("tp=2", 2), ("cp=2", 2), ("cp=2,tp=2", 4)])
@pytest.mark.parametrize("more", [[], ["--temperature", "1", "--seed", "7", "--samples", "2", "--budget", "3"]],
                         ids=["likeliest", "drawn"])
def test_processes_make_the_tokens_of_one(room: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], mesh: str,
                                          ranks: int) -> None:
    """Their caches share out the bytes, and one of them speaks."""
    monkeypatch.chdir(room)
    alone = CliRunner().invoke(main, [*WORDS, *more])
    assert alone.exit_code == 0, alone.output
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m",
               "einc"]
    both = subprocess.run([*command, *WORDS, *more, "--mesh", mesh], capture_output=True, text=True, check=False,
                          cwd=room)
    assert both.returncode == 0, both.stderr
    assert both.stdout == alone.stdout
    bytes_ = [int(re.search(r"cache +([\d,]+) bytes a position", text)[1].replace(",", ""))  # type: ignore[index]
              for text in (alone.stderr, both.stderr)]
    assert bytes_[0] == ranks * bytes_[1]
