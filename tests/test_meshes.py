"""`mesh` and `shard` lines of plans, and what `einc show` says of a mesh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import arrays, distance, meaning
from virtual import Ranks

from einc.backends.host.runtime.moves import _in_one_message
from einc.checking.edits import apply
from einc.driver import back_ends, compiling, front, pipeline, placing
from einc.driver.checking import typed
from einc.driver.cli import main
from einc.driver.options import Options
from einc.errors.problems import WrongData
from einc.errors.report import EincError, Report, Source, render
from einc.ir.choices import PLAIN
from einc.ir.requested import Mesh
from einc.planning.placing.states import WHOLE, Part
from einc.transforms.gradients.backward import derive

HEADS = """use "attention"
plan tp:
    mesh tp = 8
    shard h over tp
plan sp:
    shard h, else t over tp
plan cp:
    mesh cp
    shard t over cp, pass s by swap h
"""
SIZES = "T=4096,H=32,d_k=128,d_model=4096"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.ein").write_text(HEADS, encoding="utf-8")
    return tmp_path / "a.ein"


def shown(file: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["show", str(file), "--stage", "plan", *words])
    return done.exit_code, done.output


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of collectives; those of shares have more."""
    return [line.split() for line in text.splitlines() if " all_" in line or " reduce_" in line]


def test_the_rows_of_a_mesh(file: Path) -> None:
    code, text = shown(file, "--plan", "tp", "--sizes", SIZES)
    assert code == 0
    assert text == """a on tp = 8: 1 collective

given     whole: X
          by h over tp: W_Q, W_K, W_V, W_O
returned  whole: A

level  step        tensor  over  before         after  held     sent    why
    0  make        Q, theta, C, D, Q_hat, K, K_hat, S, L, m, E, V, N, z, Y, A
    1  all_reduce  A       tp    sum of shares  whole  67.1 MB  117 MB  sum over h; returned whole

a device sends 117 MB

bytes are for float32, on one device; a ring sends as few
"""


def test_without_sizes_bytes_are_formulas(file: Path) -> None:
    (row,) = rows(shown(file, "--plan", "tp")[1])
    assert row[8:10] == ["4·T·d_model", "7·T·d_model"]


def test_the_gradient_stands_below(file: Path) -> None:
    code, text = shown(file, "--plan", "tp", "--grad", "--sizes", SIZES)
    assert code == 0 and "its gradient on tp = 8: 1 collective" in text
    assert [row[1:3] for row in rows(text)] == [["all_reduce", "A"], ["all_reduce", "dX"]]
    assert "by h over tp: dW_Q, dW_K, dW_V, dW_O" in text


def test_the_rows_of_what_goes_round(file: Path) -> None:
    """In order a rank needs what stands before it; in two blocks, one from each end, all have as much to do."""
    lines = ("shard t over cp, pass s by ring", "shard t over cp balanced, pass s by ring")
    for line, sent, moves in zip(lines, ("29.4 MB", "44 MB"), (2, 4), strict=True):
        file.write_text(f'use "attention"\nplan it:\n    mesh cp = 8\n    {line}\n', encoding="utf-8")
        code, text = shown(file, "--plan", "it", "--sizes", SIZES)
        assert code == 0 and f"a on cp = 8: {moves} collectives" in text
        found = [line for line in text.splitlines() if " part after part " in line]
        assert [line.split()[:4] for line in found] == [[found[0].split()[0], "pass", "K_hat", "cp"], [
            "V", "cp", "by", "s"]]
        assert all(f" {sent} " in line and "8.39 MB" in line and "part after part" in line for line in found)
        assert ("in 2 blocks" in text) == (moves == 4)


def test_every_equation_with_its_letter(file: Path) -> None:
    text = shown(file, "--mesh", "cp=4", "--full")[1]
    lines = [line.split() for line in text[text.index("makes"):].splitlines()]
    assert ["Q_hat", "t", "by", "t", "over", "cp"] in lines and ["S", "h", "by", "h", "over", "cp"] in lines


def test_a_number_of_the_call_stands_in_place_of_one_of_the_plan(file: Path) -> None:
    assert "a on tp = 4:" in shown(file, "--plan", "tp", "--mesh", "tp=4")[1]
    assert "a on cp = 2:" in shown(file, "--mesh", "cp=2")[1]
    assert "a on one device: 0 collectives" in shown(file, "--mesh", "cp=1")[1]
    assert "a on cp = 2, tp = 8:" in shown(file, "--plan", "cp,tp", "--mesh", "cp=2")[1]


@pytest.mark.parametrize(("words", "said", "way"), [
    (("--mesh", "dp=2"), "no `shard` says what is cut over `dp`", "something over `tp`, `cp`: say `--mesh tp=2`"),
    (("--plan", "cp"), "nothing says how many ranks `cp` has", "`--mesh cp=2`"),
    (("--plan", "sp"), "the mesh has no axis `tp`", "`--mesh tp=2`"),
    (("--mesh", "tp=2"), "two lines say different things of what is cut over a mesh", "leave out one"),
    (("--plan", "tp", "--sizes", "H=6"), "H = 6 is no multiple of tp = 8", "H = 8 would do, or 16"),
    (("--plan", "tp", "--sizes", "H=12"), "H = 12 is no multiple of tp = 8", "H = 8 would do, or 16"),
    (("--mesh", "tp=0"), "`tp=0` is not of the form NAME=NUMBER, with a whole number from 1 to 1,048,576", ""),
    (("--mesh", "cp=1048577"), "`cp=1048577` is not of the form NAME=NUMBER, with a whole number from 1 to", ""),
    (("--mesh", "cp=" + "9" * 20), "is not of the form NAME=NUMBER, with a whole number from 1 to 1,048,576", ""),
    (("--plan", "pt"), "there is no plan `pt`", "`tp`"),
    (("--plan", "serve", "--mesh", "cp=2"), "the past of a step stays where it is", "say `pass s by merge`"),
    (("--plan", "serve", "--mesh", "tp=2", "--grad"), "what serves has no gradient", "leave out"),
])
def test_what_a_mesh_cannot_be(file: Path, words: tuple[str, ...], said: str, way: str) -> None:
    code, text = shown(file, *words)
    assert code and said in text and way in text


def test_the_ways_out_lead_out(file: Path) -> None:
    assert shown(file, "--plan", "cp", "--mesh", "cp=2")[0] == 0
    assert shown(file, "--plan", "sp", "--mesh", "tp=2")[0] == 0
    assert shown(file, "--plan", "tp", "--sizes", "H=16")[0] == 0


def test_a_mesh_is_for_a_plan_alone(file: Path) -> None:
    done = CliRunner().invoke(main, ["show", str(file), "--mesh", "tp=8"])
    assert done.exit_code == 1 and "--mesh is for the stage plan" in done.output


@pytest.mark.parametrize(("keywords", "said"), [
    ({"plan": "tp", "tune": True}, "tiles that are tuned cannot be had on several devices"),
    ({"plan": "serve", "mesh": {"tp": 2}}, "what serves on several devices is no file of its own"),
    ({"mesh": {"dp": 2}}, "no `shard` says what is cut over `dp`"),
    ({"plan": "cp"}, "nothing says how many ranks `cp` has"),
])
def test_what_is_not_written_for_a_mesh(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(EincError, match=said):
        front.compile(HEADS, **keywords)


@pytest.mark.parametrize("backend", ["torch", "cpp", "triton"])
def test_every_back_end_writes_a_file_for_ranks(backend: str) -> None:
    """It has the placements at its head, imports torch and what it needs, and collectives between its kernels."""
    source = front.compile(HEADS, backend, plan="tp", grad=True).source if backend != "triton" else back_ends.emit(
        compiling.on_ranks(typed(HEADS), Options("triton", grad=True, plan="tp"), {}), "triton")
    assert 'MESH = {"tp": 8}' in source and '"W_Q": (Shard(0),)' in source and '"X": (Replicate(),)' in source
    assert "by h over tp: W_Q, W_K, W_V, W_O" in source and source.count("= _all_reduce(") == 2
    assert "einc" not in {line.split()[1].partition(".")[0] for line in source.splitlines()
                          if line.startswith(("import ", "from "))}


def test_a_mesh_of_one_rank_is_one_device(tmp_path: Path) -> None:
    file, out = tmp_path / "a.ein", tmp_path / "a.py"
    file.write_text(HEADS, encoding="utf-8")
    for words, said in ((["--mesh", "cp=1"], "all_reduce("), (["--plan", "tp"], "")):
        done = CliRunner().invoke(main, ["compile", str(file), *words, "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert ("_all_reduce(" in out.read_text(encoding="utf-8")) == (said == "")


def test_a_file_for_ranks_says_how_to_start_them() -> None:
    """It is loaded without a process group; a call says what is missing."""
    made = front.compile(HEADS, "torch", mesh={"cp": 2})
    x = torch.zeros(2, 2)
    with pytest.raises(RuntimeError, match=r"for 2 processes, cp = 2, and none were started: run your program with "
                                           r"`torchrun --nproc-per-node 2 PROGRAM\.py`"):
        made(X=x, W_Q=x, W_K=x, W_V=x, W_O=x)


def test_other_commands_say_that_a_plan_is_on_several_devices(file: Path) -> None:
    done = CliRunner().invoke(main, ["show", str(file), "--stage", "source", "--plan", "tp"])
    assert done.exit_code == 1 and "a plan on several devices is no plan of one" in done.output


def test_blocks_that_are_not_chosen_change_nothing() -> None:
    plain = front.compile('use "attention"\n', backend="torch").source
    assert front.compile(HEADS.replace("<text>", ""), backend="torch").source == plain


LINES = [
    ("shard q over tp", "`q` is no letter of this spec"), ("shard h", "the line stops too early"),
    ("mesh tp = 0", "from 1 to"), ("mesh tp = 1.5", "from 1 to"), ("mesh tp = 2.0", "from 1 to"),
    ("mesh tp = 99999999999", "from 1 to"), ("mesh tp tp", "cannot stand here"),
    ("mesh tp = 2, tp = 4", "has `tp` twice"), ("shard t over tp, pass s by rings", "there is no pass by `rings`"),
    ("shard t over tp balanced", "`balanced` is for what goes round"),
    ("shard t over tp balanced, pass s by gather", "`balanced` is for what goes round"),
    ("shard t over tp, pass s by gathr", "there is no pass by `gathr`"),
    ("shard t over tp, pass s by swap", "needs a letter"), ("shard t over tp, pass s by merge h", "takes no letter"),
    ("shard h over tp, pass s by gather", "is of no set that is cut"),
    ("shard t over tp, pass q by merge", "no letter"),
    ("shard t over tp, pass s by swap t", "`t` is of a set that is cut over `tp`"),
    ("shard t over tp, pass s by swap k", "no letter of feature"),
    ("shard t over tp, pass t by ring, pass s by ring", "both go round"),
    ("shard t over tp, pass t by rows", "nothing that `tp` cuts by t is read at an element that data chooses"),
]


@pytest.mark.parametrize(("line", "said"), LINES)
def test_a_line_that_asks_for_nothing(line: str, said: str) -> None:
    """And an edit that is offered as certain makes the text sound."""
    source, report = Source("a.ein", f'use "attention"\nplan train:\n    {line}\n'), Report()
    assert pipeline.check(source, report) is None
    told = render(report.problems[0])
    assert "E0119" in told and said in told and report.problems[0].helps
    edits = [way for way in report.problems[0].helps if way.span is not None and way.certain]
    if edits:
        assert pipeline.check(Source("a.ein", apply(source, edits)), Report()) is not None


@pytest.mark.parametrize("blocks", [
    "plan a:\n    shard t over p\n    shard h over p\n",
    "plan a:\n    mesh p = 2\n    mesh p = 4\n",
    "plan a:\n    shard t over p, pass s by ring, pass s by gather\n",
])
def test_lines_that_contradict_each_other(blocks: str) -> None:
    report = Report()
    pipeline.check(Source("a.ein", f'use "attention"\n{blocks}'), report)
    assert [problem.code for problem in report.problems] == ["E0120"]


def test_a_pass_that_is_said_twice_is_said_once() -> None:
    program = typed('use "attention"\nplan a:\n    shard t over p, pass s by ring, pass s by ring\n')
    assert [len(cut.passes) for plan in program.plans for cut, _ in plan.cuts()] == [1]


def test_lines_that_add_to_each_other_are_joined() -> None:
    lines = ("mesh p = 2, q", "mesh q = 4", "shard t over p", "shard h over q")
    program = typed('use "attention"\nplan a:\n' + "".join(f"    {line}\n" for line in lines))
    (block,) = program.plans
    assert block.asked(Mesh).ranks == {"p": 2, "q": 4} and [cut.axis for cut, _ in block.cuts()] == ["p", "q"]


def test_a_gradient_is_given_what_the_program_leaves() -> None:
    """Both programs on one mesh: the second takes what the first saved where it lies, and leaves gradients as the
    inputs are; and the ranks are right.
    """
    program = typed(HEADS)
    sizes = {"T": 8, "H": 4, "d_k": 4, "d_model": 6}
    found = placing.on_mesh(program, ("sp",), {"tp": 2}, sizes, grad=True)
    derived = derive(program)
    assert found.backward is not None
    for made, key in derived.saved:
        assert found.backward.states(key) == found.forward.ends[made]
    for key, made in derived.gradients:
        assert found.backward.ends[made] == found.forward.states(key)
    assert found.backward.ends["dX"] == (Part(0),) and found.backward.states("ell") != (WHOLE,)
    given = arrays(program, sizes, {})
    first = meaning(found.forward.program, given, sizes)
    made = Ranks(found.forward, sizes).run(given)
    assert max(distance(made[key], first[key]) for key in first) < 1e-10
    saved = {key: first[name] for name, key in derived.saved}
    saved |= {d: np.random.default_rng(0).standard_normal(first[name].shape) for name, d in derived.cotangents}
    saved |= {t.key: given[t.key] for t in found.backward.program.inputs() if t.key in given}
    want = meaning(found.backward.program, saved, sizes)
    got = Ranks(found.backward, sizes).run(saved)
    assert max(distance(got[key], want[key]) for key in want) < 1e-10


def test_what_all_devices_do_is_a_spec(file: Path, tmp_path: Path) -> None:
    file.write_text(HEADS + "plan gathered:\n    shard t over g, pass s by gather\n"
                    "plan round:\n    shard t over r balanced, pass s by ring\n", encoding="utf-8")
    for words in (("--mesh", "cp=2"), ("--plan", "tp", "--grad"), ("--plan", "tp,gathered", "--mesh", "g=2,tp=2"),
                  ("--plan", "round", "--mesh", "r=2"), ("--plan", "round", "--mesh", "r=2", "--grad")):
        done = CliRunner().invoke(main, ["derive", str(file), *words])
        assert done.exit_code == 0 and "index p : rank(" in done.output
        (tmp_path / "b.ein").write_text(done.output, encoding="utf-8")
        assert CliRunner().invoke(main, ["check", str(tmp_path / "b.ein")]).exit_code == 0
    refused = CliRunner().invoke(main, ["derive", str(file), "--mesh", "dp=2"])
    assert refused.exit_code == 1 and "no `shard` says" in refused.output


PROVED = {"heads": ("sdpa", "shard h over p", 8), "gathered": ("sdpa", "shard t over p, pass s by gather", 2),
          "states": ("gallery/linear", "shard h over p", 2),
          "without a softmax": ("gallery/sigmoid", "shard h over p", 4),
          "texts": ("sdpa", "shard n over p", 2), "maxima": ("sdpa", "shard s over p, pass s by merge", 8),
          "maxima of two": ("sdpa", "shard s over p, pass s by merge", 2),
          "rotary positions": ("attention", "shard h over p", 2),
          "words": ("linear_cross_entropy", "shard v over p", 8),
          "a layer": ("swiglu_block", "shard h, g, e over p", 2)}
DEAR = ("maxima of two", "a layer")  # forms too long with each of two ranks by itself first; 32 claims


def proved(tmp_path: Path, text: str) -> tuple[int, str]:
    (tmp_path / "claim.ein").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["prove", str(tmp_path / "claim.ein")])
    return done.exit_code, done.output


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.whole] if name in DEAR else [])
                                  for name in PROVED])
def test_what_all_devices_make_is_proved_to_be_what_one_makes(name: str, tmp_path: Path) -> None:
    """By normal form, for all sizes: each value by those before it, the last one is the result."""
    spec, line, ranks = PROVED[name]
    (tmp_path / "a.ein").write_text(f'use "{spec}"\nplan it:\n    mesh p = {ranks}\n    {line}\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["derive", str(tmp_path / "a.ein"), "--plan", "it", "--claim"])
    assert done.exit_code == 0 and "claim " in done.output
    code, said = proved(tmp_path, done.output)
    claims = done.output.count("\nclaim ")
    assert code == 0 and f"{claims} claim{'s' * (claims > 1)} of {claims} hold" in said


@pytest.mark.whole
def test_the_gradient_of_a_loss_of_words_in_parts_is_proved(tmp_path: Path) -> None:
    """Each place that data gives is on one rank: what all of these add up to is what one device reads there."""
    (tmp_path / "a.ein").write_text('use "linear_cross_entropy"\nplan it:\n    mesh p = 8\n    shard v over p\n',
                                    encoding="utf-8")
    done = CliRunner().invoke(main, ["derive", str(tmp_path / "a.ein"), "--plan", "it", "--claim", "--grad"])
    code, said = proved(tmp_path, done.output)
    assert code == 0 and "10 claims of 10 hold" in said


def test_a_share_that_is_not_summed_is_refuted(file: Path, tmp_path: Path) -> None:
    text = CliRunner().invoke(main, ["derive", str(file), "--mesh", "tp=2", "--plan", "tp", "--claim"]).output
    whole = "A_{t}^{f} = Σ_{q} A_part^{(q)}_{t}^{f}"
    assert whole in text
    code, said = proved(tmp_path, text.replace(whole, "A_{t}^{f} = A_part^{(1)}_{t}^{f}"))
    assert code == 1 and "refuted" in said


def test_a_share_that_is_not_relative_to_the_maximum_of_all_is_refuted(tmp_path: Path) -> None:
    """Each rank's sums are relative to its own maximum: without the factor between the two they are other sums."""
    (tmp_path / "a.ein").write_text('use "sdpa"\nplan it:\n    mesh p = 2\n    shard s over p, pass s by merge\n',
                                    encoding="utf-8")
    text = CliRunner().invoke(main, ["derive", str(tmp_path / "a.ein"), "--plan", "it", "--claim"]).output
    line = next(one for one in text.splitlines() if one.startswith("N_part"))
    wrong = re.sub(r" exp\(.*\)\)$", ")", line)
    assert wrong != line
    code, said = proved(tmp_path, text.replace(line, wrong))
    assert code == 1 and "refuted" in said


def test_a_mesh_of_a_step_alone_is_told(tmp_path: Path) -> None:
    """And the way out shows the plan of the step."""
    (tmp_path / "a.ein").write_text('use "gqa"\nplan serve:\n    mesh cp = 2\n    shard s over cp\n', encoding="utf-8")
    line = ["show", str(tmp_path / "a.ein"), "--stage", "plan", "--mesh", "cp=2"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 1 and "`plan serve` alone cuts something over `cp`" in done.output
    assert "--plan serve --mesh cp=2" in done.output
    assert CliRunner().invoke(main, [*line, "--plan", "serve"]).exit_code == 0


def test_a_claim_is_of_a_mesh(file: Path) -> None:
    done = CliRunner().invoke(main, ["derive", str(file), "--claim"])
    assert done.exit_code == 1 and "--claim is for a mesh" in done.output


@pytest.mark.parametrize("place", [9.0, 0.5, float("nan")])
def test_a_place_that_is_none_is_told(place: float) -> None:
    """By the rank that is nearest: a row that no rank has is no row of zeros."""
    program = typed("index t : time(T)\nindex v : vocab(V)\ninput x_t\ninput E_v\noutput Y_t = E_{⌊x_t⌋}\n"
                    "plan it:\n    shard v over p\n")
    found = placing.on_mesh(program, ("it",), {"p": 2}, {"V": 8})
    ranks = Ranks(found.forward, {"T": 2, "V": 8})
    made = ranks.run({"x": np.array([1.5, 8.0]), "E": np.arange(8.0)})
    assert made["Y"].tolist() == [0.0, 7.0]
    with pytest.raises(WrongData):
        Ranks(found.forward, {"T": 2, "V": 8}).run({"x": np.array([1.5, place]), "E": np.arange(8.0)})


def test_what_ranks_add_up_keeps_its_digits_on_the_way() -> None:
    """Shares are summed in float32 where the data are narrower, unless the caller wants every product narrow."""
    source = front.compile(HEADS, "torch", plan="tp").source
    assert 'A, = _all_reduce([A_share.to(wide)], "sum", tp_group)\n    A = A.to(dtype)' in source
    assert 'A, = _all_reduce([A_share], "sum", tp_group)\n\n' in front.compile(
        HEADS, "torch", plan="tp", narrow=True).source


def messages(*words: str, file: Path) -> list[int]:
    """The numbers of collectives, and of messages where these are fewer, of the pieces of a plan in their order."""
    lines = [line for line in shown(file, *words)[1].splitlines() if " collective" in line]
    return [int(n) for line in lines for n in re.findall(r"(\d+)(?= collective|$)", line)]


def test_collectives_of_one_level_are_one_message(tmp_path: Path) -> None:
    """Of the gradient of weights in parts one gathers, one sums parts, and one sums what is whole."""
    file = tmp_path / "a.ein"
    file.write_text('use "gpt2_block"\nplan it:\n    mesh p = 8\n    shard n, else f over p\n', encoding="utf-8")
    assert messages("--plan", "it", "--grad", file=file) == [10, 1, 18, 3]
    told = [line.split()[:3] for line in shown(file, "--plan", "it")[1].splitlines() if " by f  " in line]
    assert told[:2] == [["0", "all_gather", "gamma_1"], ["beta_1", "p", "by"]] and len(told) == 10


def test_what_is_folded_in_two_types_is_two_messages(tmp_path: Path) -> None:
    """Sums are sent in the wide type, with `--narrow` in that of the data, which sums for each row do not have."""
    file = tmp_path / "a.ein"
    file.write_text("index t : time(T)\nindex h : head(H)\nindex f : feature(F)\ninput x_t^h\nweight w_h^f\n"
                    "q_t = Σ_h x_t^h x_t^h\nA_t^f = Σ_h x_t^h w_h^f\noutput Y_t^f = A_t^f / sqrt(q_t)\n"
                    "plan it:\n    mesh p = 8\n    shard h over p\n", encoding="utf-8")
    assert messages("--plan", "it", file=file) == [2, 1] and messages("--plan", "it", "--narrow", file=file) == [2]
    for narrow in (False, True):
        source = front.compile(file.read_text(encoding="utf-8"), "torch", plan="it", narrow=narrow).source
        assert source.count("= _all_reduce(") == 1 + narrow


def test_a_loss_of_words_in_parts_is_one_message(tmp_path: Path) -> None:
    """Maxima, sums relative to them, and what a word has: each rank has those of all and folds them. Where very many
    ranks would send each other so much that one message more takes less time, they are folded on the way."""
    file = tmp_path / "a.ein"
    file.write_text('use "linear_cross_entropy"\nplan it:\n    mesh p = 8\n    shard v over p\n', encoding="utf-8")
    assert messages("--plan", "it", "--grad", file=file) == [3, 1, 1]
    text = file.read_text(encoding="utf-8")
    source = front.compile(text, "torch", plan="it", grad=True).source
    assert source.count("= _all_gather(") == 1 and source.count("= _all_reduce(") == 1
    assert messages("--plan", "it", "--mesh", "p=1024", file=file) == [3]
    assert messages("--plan", "it", "--mesh", "p=1024", "--sizes", "T=16,V=4096,d_model=8", file=file) == [3, 1]
    file.write_text('use "sdpa"\nplan it:\n    mesh p = 8\n    shard t over p, pass s by merge\n', encoding="utf-8")
    assert messages("--plan", "it", file=file) == [4, 2]  # queries are gathered; then all goes to the rank of its t


def test_what_is_read_behind_a_collective_is_not_written_over() -> None:
    """Sums that one level adds up in a share, and a later one adds up again: a level returns them as they are."""
    text = 'use "precision/fp8_step"\nplan it:\n    mesh p = 2\n    shard e over p\n'
    source = front.compile(text, "torch", plan="it", grad=True).source
    levels = re.findall(r"^def _backward_\d+\(.*?return _own\(.*?, \((.*?)\)\)\n", source, re.DOTALL | re.MULTILINE)
    bodies = re.findall(r"^def _backward_\d+\(.*?return _own\(", source, re.DOTALL | re.MULTILINE)
    assert len(levels) > 3 and "S_dsigma" in levels[0]
    for results, body in zip(levels, bodies, strict=True):
        assert not {*results.split(", ")} & {*re.findall(r"\b(\w+)\.(?:mul|add|sub)_\(", body)}


def test_a_fold_that_is_no_collective_is_each_ranks_own(tmp_path: Path) -> None:
    """What ranks have of a logarithm of a sum of exponentials reaches each of them."""
    text = ("index t : time(T)\nindex f : feature(F)\ninput x_t^f\noutput y_t = logaddexp_f x_t^f\n"
            "plan it:\n    mesh p = 2\n    shard f over p\n")
    found = placing.on_mesh(typed(text), ("it",), {}, {})
    x = np.random.default_rng(0).normal(size=(3, 8)) * 300
    made = Ranks(found.forward, {"T": 3, "F": 8}).run({"x": x})["y"]
    assert np.abs(made - np.logaddexp.reduce(x, 1)).max() < 1e-12
    assert "= _all_gather(" in front.compile(text, "torch", plan="it").source


@pytest.mark.parametrize("kinds", [(torch.float32,), (torch.bfloat16, torch.float64, torch.int64, torch.bool)])
def test_rows_of_several_tensors_come_back_as_they_were_sent(kinds: tuple[torch.dtype, ...]) -> None:
    """Of any shape and type, scalars and what is empty too; what nobody asks for is not there."""
    some = [torch.randn(shape) for shape in ((3, 2, 5), (3,), (3, 0), (3, 1, 1), (3, 7))]
    rows = [None, *(x.mT.mT.to(kinds[n % len(kinds)]) if x.ndim > 1 else x.to(kinds[0]) for n, x in enumerate(some))]
    sent: list[torch.Tensor] = []

    def send(x: torch.Tensor) -> torch.Tensor:
        sent.append(x)
        return x.flip(0)

    found = _in_one_message(rows, send)
    assert len(sent) == 1 and found[0] is None and _in_one_message([None], send) == [None]
    for x, y in zip(rows[1:], found[1:], strict=True):
        assert x is not None and y is not None and x.dtype == y.dtype and torch.equal(x.flip(0), y)


def test_what_is_said_to_read_later_positions_is_not_asked_whether_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """As texts of all devices say of every output: a search for a proof took most of the time of reading them."""
    monkeypatch.setattr("einc.checking.programs.audit.owed", lambda *_: pytest.fail("it was asked"))
    assert typed("index t, s : time(T)\ninput x_s\noutput y_t = Σ_s x_t x_s : all\n").outputs


def test_nobody_is_asked_how_many_rows_a_round_has() -> None:
    """That only the data says it: the file counts them, and its gradient has them of what was saved."""
    text = ("index t : time(T)\nindex f : feature(D)\nindex e : feature(F)\nindex x : expert(E)\ndim k\ninput X_t^f\n"
            "H_t^f = X_t^f\nfor ℓ in 1..N:\n    weight W_f^x, A_{x f}^e, B_{x e}^f\n    G_t^x = H_t^f W_f^x\n"
            "    set C_t = topk_x(G_t^x, k)\n    U_{t x}^e = H_t^f A_{x f}^e\n    Y_{t (x)}^f = U_{t x}^e B_{x e}^f\n"
            "    H_t^f ← H_t^f + Σ_{x ∈ C_t} Y_{t (x)}^f\noutput O_t^f = H_t^f\n"
            "plan it:\n    mesh p = 2\n    shard t, else x over p, pass x by rows\n")
    for grad in (False, True):
        source = front.compile(text, "torch", plan="it", grad=grad).source
        compile(source, "a", "exec")
        assert "A: torch.Tensor, B: torch.Tensor, *, k: int," in source and "_to_rows" in source


CHOSEN = ("index t : time(T)\nindex n, a : batch(P), batch(Q)\nindex m : batch(Q P) = (a n)\n"
          "index f, g : feature(D), feature(G)\nindex x, r : expert(E), feature(R)\ndim k\n")
PLAIN_ROWS = ("input H_t^f\ninput C_{t r} : int\nweight A_{x f}^g\n"
              "output U_t^g = Σ_r sin(H_t^f A_{C_{t r} f}^g)\n")
PAIRS = ("input H_m^f\ninput C_{m r} : int\nweight A_{x f}^g\nD_{n a r} = C_{(a n) r}\n"
         "output U_{(a n)}^g = Σ_r sin(H_{(a n)}^f A_{D_{n a r} f}^g)\n")
BOTH, TEXTS = "shard t, else x over p, pass x by rows", "shard n, else x over p, pass x by rows"
# A text and its lines for which no rows are sent, why, and the text and the lines that a way out gives.
NO_ROWS = {
    "nothing is chosen": (("input H_t^f\nweight A_{x f}^g\noutput U_t^g = Σ_x sin(H_t^f A_{x f}^g)\n", BOTH),
                          "nothing that `p` cuts by x is read at an element that data chooses",
                          ("", "shard t, else x over p")),
    "a letter before": (("input H_t^f\ninput C_{t r} : int\nweight A_{x t f}^g\n"
                         "output U_t^g = Σ_r sin(H_t^f A_{C_{t r} t f}^g)\n", BOTH),
                        "nothing that `p` cuts by x is read at an element", ("", "shard t, else x over p")),
    "not cut": ((PLAIN_ROWS, "shard x over p, pass x by rows"), "`p` cuts no letter of what chooses x before x itself",
                ("", BOTH)),
    "on another axis": ((PLAIN_ROWS, "shard t over q\n    shard x over p, pass x by once"),
                        "`q` cuts what chooses x, and `p` cuts x", ("", "shard t, else x over q, pass x by once")),
    "a computed place": ((PLAIN_ROWS.replace("{C_{t r} f}", "{min(C_{t r} + 1, E) f}"), BOTH), "is made of `C`",
                         (PLAIN_ROWS.replace("{C_{t r} f}", "{D_{t r} f}").replace(
                             "output", "D_{t r} = min(C_{t r} + 1, E)\noutput"), BOTH)),
    "a pair": ((PAIRS.replace("D_{n a r} = C_{(a n) r}\n", "").replace("D_{n a r}", "C_{(a n) r}"),
                TEXTS), "is made of `C`",
               (PAIRS, TEXTS)),
    "inside of a pair": (("input H_m^f\ninput C_{m r} : int\nweight A_{x f}^g\noutput Z_{n a} = Σ_f H_{(a n)}^f\n"
                          "output U_m^g = Σ_r sin(H_m^f A_{C_{m r} f}^g)\n", TEXTS),
                         "`p` cuts what chooses x inside of a composite", (PAIRS, TEXTS)),
    "a letter twice": (("input H_{n t}^f\ninput C_{n t r} : int\nweight A_{x n f}^g\n"
                        "output U_{n t}^g = Σ_r sin(H_{n t}^f A_{C_{n t r} n f}^g)\n", BOTH),
                       "`A` has a letter of what chooses x in another slot, too", ("", "shard t, else x over p")),
    "no round chooses": (("input X_t^f\nH_t^f = X_t^f\nfor ℓ in 1..N:\n    weight A_{x f}\n"
                          "    H_t^f ← H_t^f + Σ_x sin(H_t^f A_x^f)\noutput O_t^f = H_t^f\n", BOTH),
                         "nothing that `p` cuts by x is read at an element", ("", "shard t, else x over p")),
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_why_no_rows_are_sent(name: str) -> None:
    """The reason is the true one, and the way out makes the text sound, as it is said or with other lines."""
    (text, lines), said, (other, instead) = NO_ROWS[name]

    def found(text: str, lines: str) -> list[str]:
        report = Report()
        axes = ", ".join(f"{axis} = 2" for axis in "qp" if f"over {axis}" in lines)
        pipeline.check(Source("a.ein", f"{CHOSEN}{text}plan it:\n    mesh {axes}\n    {lines}\n"), report)
        return [render(problem) for problem in report.problems if problem.code.startswith("E")]

    (told,) = found(text, lines)
    assert "E0119" in told and said in told
    if "pass" in instead and not other:
        assert f"`{instead}`" in told
    assert found(other or text, instead) == []


STEP = """index t, s : time(T)
index f : feature(D)
index x : expert(E)
dim k
input X_t^f
weight W_f^x, A_{x f}
R_t^f = Σ_{s ≤ t} X_s^f
G_t^x = R_t^f W_f^x
set C_t = topk_x(G_t^x, k)
output O_t = Σ_{x ∈ C_t} G_t^x R_t^f A_{x f}
plan NAME:
    mesh p = 2
    shard s, else x over p, pass x by rows
"""


def test_a_step_over_a_cache_sends_no_rows() -> None:
    """Whether the block is of what serves or another that is chosen beside it; without the pass both are sound."""
    said = "every rank has all new positions of a step"
    with pytest.raises(EincError, match=said):
        typed(STEP.replace("NAME", "serve"))
    with pytest.raises(EincError, match=said):
        placing.served_on_mesh(typed(STEP.replace("NAME", "it")), ("serve", "it"), {}, {}, PLAIN)
    plain = STEP.replace(", pass x by rows", "")
    assert placing.served_on_mesh(typed(plain.replace("NAME", "serve")), ("serve",), {}, {}, PLAIN).forward.moves
    assert placing.served_on_mesh(typed(plain.replace("NAME", "it")), ("serve", "it"), {}, {}, PLAIN).forward.moves
