"""`einc cost --devices`: plans for many devices, what each costs by count, and which is best."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers import typed, typed_of
from placing_cases import BY_NAME, axes
from programs import FILES, Case

from einc.driver import pipeline, placing
from einc.driver.cli import main
from einc.driver.commands.sizes import names
from einc.driver.placing import pieces, put
from einc.driver.reports import devices
from einc.errors.report import EincError, Report, Source
from einc.planning.placing.prices import bubble, priced

SIZES = "T=4096,H=32,d_k=128,d_model=4096"


def cost(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["cost", *words])
    return done.exit_code, done.output


@pytest.mark.parametrize(("stages", "parts"), [(1, 4), (2, 1), (4, 8), (8, 32), (3, 7)])
def test_stages_wait_for_each_other(stages: int, parts: int) -> None:
    """A stage takes a part when the one before has it: of P stages and M parts each waits P - 1 of M + P - 1 turns."""
    ends = [[0] * parts for _ in range(stages + 1)]
    for stage in range(1, stages + 1):
        for part in range(parts):
            ends[stage][part] = 1 + max(ends[stage - 1][part], ends[stage][part - 1] if part else 0)
    turns = ends[stages][-1]
    assert bubble(stages, parts) == Fraction(turns - parts, turns) == Fraction(stages - 1, parts + stages - 1)


def test_the_best_plan_of_attention_is_the_known_one() -> None:
    """Heads on each device: two sums of T · d_model numbers, by a ring, and every plan shows its reasons."""
    code, text = cost("attention", "--devices", "8", "--sizes", SIZES, "--grad", "--dtype", "bfloat16", "--format",
                      "json")
    told = json.loads(text)
    first = told["plans"][0]
    assert code == 0 and first["plan"] == ["mesh a = 8", "shard h over a"] and first["messages"] == 2
    assert first["sent"] == 2 * 2 * 7 / 8 * 4096 * 4096 * 2
    assert len(told["plans"]) == 5 and all(plan["why"] for plan in told["plans"])
    assert [plan["time"] for plan in told["plans"]] == sorted(plan["time"] for plan in told["plans"])


def test_the_plan_that_is_printed_can_be_copied(tmp_path: Path) -> None:
    code, text = cost("attention", "--devices", "4", "--sizes", SIZES)
    lines = text[text.index("plan best:"):].split("\n\n")[0]
    (tmp_path / "a.ein").write_text(f'use "attention"\n{lines}\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["show", str(tmp_path / "a.ein"), "--stage", "plan", "--plan", "best"])
    assert code == 0 and done.exit_code == 0 and done.output.startswith("a on a = 2, b = 2: ")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=() if case.name in ("yarn", "partial_rotary")
                                               else pytest.mark.whole) for case in FILES])
def test_every_plan_that_is_printed_reads_back(case: Case) -> None:
    """With its gradient, of every spec; none names a slot that is written as several letters."""
    program = typed_of(case)
    sizes = {name: program.sizes.get(name) or 8 * max(case.sizes.get(name, 1), 1)
             for name in (*names(program), *case.sizes)}
    for grad in (False, True):
        try:
            told = devices.found(program, 2, None, grad, sizes, 4)
        except EincError as error:
            assert any(said in str(error) for said in ("no gradient", "are not put on several devices yet",
                                                       "different lengths")), error
            continue
        for lines in {tuple(plan["plan"]) for plan in told["plans"]}:
            text = "".join(f"    {line}\n" for line in lines)
            again = typed(f"{case.text}\nplan printed:\n{text}", f"specs/{case.name}.ein")
            assert placing.on_mesh(again, ("printed",), {}, sizes, grad).mesh


def test_rounds_in_rounds_are_told(tmp_path: Path) -> None:
    """And not that sizes would do; the gradient neither."""
    (tmp_path / "a.ein").write_text('use "gated_deltanet_lm"\nplan it:\n    mesh p = 2\n    shard h over p\n',
                                    encoding="utf-8")
    said = "has rounds over positions, for t, in each round for ℓ: these are not put on several devices yet"
    sizes = ",".join(f"{name}=8" for name in names(typed_of(BY_NAME["gated_deltanet_lm"])))
    for more in ((), ("--grad",)):
        code, text = cost("gated_deltanet_lm", "--devices", "4", "--sizes", sizes, *more)
        assert code == 1 and said in text and "give sizes" not in text
        done = CliRunner().invoke(main, ["show", str(tmp_path / "a.ein"), "--stage", "plan", "--plan", "it", *more])
        assert done.exit_code == 1 and said in done.output


def test_a_plan_that_holds_too_much_is_left_out() -> None:
    """Whole weights do not fit where parts of them do."""
    every = json.loads(cost("attention", "--devices", "8", "--sizes", SIZES, "--format", "json")[1])["plans"]
    room = min(plan["held"] for plan in every)
    left = json.loads(cost("attention", "--devices", "8", "--sizes", SIZES, "--format", "json", "--memory",
                           f"{room / 1e6 + 1:.0f}M")[1])
    assert left["left_out"] > 0 and all(plan["held"] <= room + 2e6 for plan in left["plans"])


def test_what_is_counted() -> None:
    """A letter that every equation has shares out all that is done and held; without a mesh all of it is on one."""
    case = BY_NAME["gpt2_block"]
    program, sizes = typed_of(case), {"B": 8, "T": 4, "H": 2, "d_k": 4, "d_model": 8, "d_ff": 16}
    some = pieces(program, grad=False)
    one, many = (priced(mesh, *put(some, mesh, sizes), sizes, 4).price
                 for mesh in ((), axes(program, {"p": 8}, {"p": "n"}, {})))
    weights = 4 * (4 * 8 + 8 * 24 + 24 + 2 * 4 * 8 + 8 + 8 * 16 + 16 + 16 * 8 + 8)
    data = 4 * 8 * 4 * 8 * 2  # what is given and what is returned
    assert one.operations == 8 * many.operations and many.sent == 0
    assert (one.held, many.held) == (weights + data, weights + data / 8)


def test_every_round_is_counted() -> None:
    program = typed("index t : time(T)\nindex f, g : feature(D)\ninput x_t^f\nh_t^f = x_t^f\nfor ℓ in 1..N:\n"
                    "    weight W_f^g\n    h_t^g ← h_t^f W_f^g\noutput h_t^f\n")
    some, counts = pieces(program, grad=False), ({"T": 4, "D": 3, "N": count} for count in (1, 2, 5))
    one, two, five = (priced((), *put(some, (), sizes), sizes, 4).price.operations for sizes in counts)
    assert five - one == 4 * (two - one) > 0


@pytest.mark.parametrize(("spec", "letter", "share"), [("kda", "h", 8), ("kda", "e", 1), ("ssd", "h", 1)])
def test_a_recurrence_is_counted(spec: str, letter: str, share: int) -> None:
    """Heads share it out; by a letter that not all of it has, a width or heads with keys for all, each does all of it.
    """
    program = typed_of(BY_NAME[spec])
    some, sizes, found = pieces(program, grad=True), dict.fromkeys(names(program), 8), []
    for mesh in ((), axes(program, {"p": 8}, {"p": letter}, {})):
        links, steps = put(some, mesh, sizes)
        with_, without = (priced(mesh, links, one, sizes, 4).price.operations for one in (steps, ()))
        found.append(with_ - without)
    assert found[0] == share * found[1] > 0


def test_rounds_are_told_as_stages() -> None:
    code, text = cost("llama_lm", "--devices", "2", "--sizes", "B=2,T=8,H=4,G=2,d_k=4,d_model=8,d_ff=8,V=8,N=2")
    text = " ".join(text.split())
    assert code == 0 and "as 2 stages for ℓ" in text and "a device waits 33%" in text
    assert "stages" not in cost("llama_lm", "--devices", "2", "--sizes",
                                "B=2,T=8,H=4,G=2,d_k=4,d_model=8,d_ff=8,V=8,N=3")[1]


def test_rows_are_tried_where_data_chooses() -> None:
    """And the lines that are printed of such a plan are read."""
    code, text = cost("moe_swiglu", "--devices", "4", "--memory", "2200", "--sizes", "T=16,d_model=8,E=8,n=2,d_ff=8")
    assert code == 0
    lines = text[text.index("plan best:"):].split("\n\n")[0].replace("plan best", "plan it")
    assert "pass x by rows" in lines
    source = f'use "moe_swiglu"\n{lines}\n'
    assert pipeline.check(Source("a.ein", source), Report()) is not None


@pytest.mark.parametrize(("words", "said", "way"), [
    (("--memory", "80G"), "--memory is for --devices", "--devices 8"),
    (("--devices", "8"), "a number for each size: T, d_model, H, d_k", "--sizes T=64"),
    (("--devices", "8", "--sizes", SIZES, "--memory", "much"), "`much` is no number of bytes", "80GiB"),
    (("--devices", "8", "--sizes", SIZES, "--memory", "1k"), "fits into 1 kB a device", "the smallest holds"),
    (("--devices", "8", "--sizes", "T=3,H=3,d_k=6,d_model=5"), "can be cut over 8 devices", "that 8 divides"),
    (("--devices", "8", "--sizes", SIZES, "--plan", "x"), "finds plans of one spec", "leave out"),
    (("--devices", "8", "--sizes", SIZES, "--memory", "9" * 400), "is no number of bytes", "80GiB"),
    (("--devices", "8", "--sizes", "T=0,H=8,d_k=8,d_model=8"), "nothing is computed where T is 0", "--sizes T=64"),
])
def test_what_cannot_be_told(words: tuple[str, ...], said: str, way: str) -> None:
    code, text = cost("attention", *words)
    assert code == 1 and said in text and way in text
