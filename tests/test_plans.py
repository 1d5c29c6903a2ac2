"""What a text asks for in `plan serve`: the same as by options, and a lesson where it asks for nothing."""

from __future__ import annotations

import inspect

import pytest
from click.testing import CliRunner

from einc.driver import front
from einc.driver.cli import main
from einc.errors.report import EincError

SPEC = 'use "attention"\nplan serve:\n    dtype bf16\n    {}\n'


def test_what_is_kept_and_in_which_pages() -> None:
    made = front.compile(SPEC.format("cache K, V paged 32  # unturned"), plan="serve")
    assert {t.key for t in made.plan.inputs if t.role == "cache"} == {"K_past", "V_past"}
    own = inspect.unwrap(made.function).__globals__
    assert own["Pool"](4).page == 32
    assert {t.key for t in front.compile(SPEC.format("cache K, V"), plan="serve", keep=["K_hat", "V"]).plan.inputs
            if t.role == "cache"} == {"K_hat_past", "V_past"}
    assert not any(t.role == "cache" for t in front.compile(SPEC.format("cache K, V")).plan.inputs)


@pytest.mark.parametrize(("line", "said"), [
    ("cache", "not how a line about what is kept reads"), ("cache K V", "not how a line"), ("cache K paged", "not how a line"),
    ("cache K, Z", "`Z` is no tensor"), ("cache K, V paged 0", "keeps nothing"), ("cach K, V", "`cach` is no word of a plan"),
])
def test_a_line_that_asks_for_nothing(line: str, said: str) -> None:
    with pytest.raises(EincError, match=said) as refused:
        front.compile(SPEC.format(line))
    (problem,) = refused.value.problems
    assert problem.code == "E0119" and problem.span.text in line and problem.helps


def shown(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["show", *words])
    return done.exit_code, done.output


def test_the_plan_of_a_step_is_shown_with_what_a_request_costs() -> None:
    code, text = shown("gqa", "--stage", "plan", "--plan", "serve", "--sizes", "T=1,past=4000,H=16,G=4,d_k=64,d_model=512")
    assert code == 0
    (line,) = [line for line in text.splitlines() if "each" in line.split()]
    assert "Y of one request" in line and "16.7 M" in line
    assert "for each request: Y" in shown("gqa", "--stage", "plan", "--plan", "serve", "--full")[1]
    assert "def prefill(" in shown("gqa", "--stage", "source", "--plan", "serve")[1]


@pytest.mark.parametrize(("words", "said"), [
    (("--stage", "typed"), "--plan is for the stages plan and source, not for typed"),
    (("--stage", "plan", "--grad"), "what serves has no gradient"),
    (("--stage", "plan", "--sizes", "pats=3"), "`pats` is no size of the spec"),
])
def test_what_cannot_be_shown_of_a_step(words: tuple[str, ...], said: str) -> None:
    code, text = shown("gqa", "--plan", "serve", *words)
    assert code == 1 and said in text


def test_a_plan_of_another_name_keeps_nothing() -> None:
    with pytest.raises(EincError, match="nothing is kept in a plan `serv`"):
        front.compile(SPEC.replace("serve", "serv").format("cache K, V"))


def test_a_pool_has_the_pages_that_the_text_says() -> None:
    made = front.compile(SPEC.format("cache K, V paged 3"), plan="serve")
    assert made.pool(5).page == 3 and made.pool(5, page=4).page == 4
