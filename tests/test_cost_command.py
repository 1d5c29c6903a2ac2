"""`einc cost`: figures that the einsum deck prints, formulas against their values, growth, crossings, memory,
formats.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import CliRunner
from helpers import plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import FILES

from einc.driver import checking, front
from einc.driver.cli import main
from einc.driver.reports.costing import account
from einc.driver.reports.formulas import Formulas, expression, symbol
from einc.driver.reports.table import numbers, tile_lengths
from einc.ir.indices import Extent, number, size
from einc.ir.plan import Kernel, Module, leaves
from einc.planning.analysis.memory import largest
from einc.planning.contractions.choose import taken

STORED = """index t, s : time(L)
index d, k : feature(d_h)
input Q_t^d, K_s^d, V_s^d
output S_{t s} = Q_t^k K_{s k}
output A_{t s} = softmax_{s ≤ L}(S_{t s}) : all
output Y_t^d = Σ_s A_{t s} V_s^d : all
"""
ONE_PASS = """index t, s : time(L)
index d, k : feature(d_h)
input Q_t^d, K_s^d, V_s^d
output Y_t^d = Σ_s softmax_{s ≤ L}(Q_t^k K_{s k}) V_s^d : all
"""
PROJECTION = """index b : batch(B)
index l : time(L)
index d : feature(d)
index h : head(H)
index k : feature(d_h)
input x_{b l}^d
weight W_{Q d h}^k
output q_{b l h}^k = x_{b l}^d W_{Q d h}^k
"""


@pytest.fixture
def cost(tmp_path: Path) -> Callable[..., Any]:
    """Runs the command on texts, given to it as files a.ein, b.ein."""
    def call(*texts: str, options: tuple[str, ...] = ()) -> Any:
        paths = [tmp_path / f"{name}.ein" for name in "ab"[: len(texts)]]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        beside = ("--against", str(paths[1])) if len(paths) > 1 else ()
        return CliRunner().invoke(main, ["cost", str(paths[0]), *beside, *options])

    return call


def way(page: dict[str, Any], plan: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = page["plans"][plan]["modules"][0]["ways"][0]
    return found


# the figures of the einsum deck


def test_scores_of_one_head_take_two_gigabytes(cost: Callable[..., Any]) -> None:
    """The einsum deck, §05: at L = 32k, in half precision, the score matrix of one head takes about 2 GB."""
    options = ("--dtype", "float16", "--sizes", "L=32768,d_h=64")
    page = json.loads(cost(STORED, options=(*options, "--format", "json")).stdout)
    step = next(s for s in way(page)["steps"] if s["makes"] == ["S"])
    assert step["written"] == {"formula": "2*L**2", "value": 2 * 2**30}
    assert "written 2·L² = 2 GiB" in cost(STORED, options=options).stdout


def test_one_pass_moves_five_hundred_times_less(cost: Callable[..., Any]) -> None:
    """The einsum deck, §05: a pass that stores no scores moves 500 times less, which is L / d_h = 512 for heads of 64:
    scores and weights are each written and read, against Q, K, V and Y."""
    options = ("--dtype", "float16", "--sizes", "L=32768,d_h=64", "--format", "json")
    page = json.loads(cost(STORED, ONE_PASS, options=options).stdout)
    whole, passed = (way(page, n)["read"]["value"] + way(page, n)["written"]["value"] for n in (0, 1))
    assert passed == 4 * 2 * 32768 * 64
    assert whole / passed == pytest.approx(512, rel=0.01)
    assert way(page, 1)["memory"][0]["value"] == 2 * 32768 * 64


def test_a_tile_of_scores_is_rows_by_columns() -> None:
    """The einsum deck, §05: of the scores a tile of B_r × B_c is in fast memory, with the running maximum, sum and
    output.
    """
    (kernel,) = (s for s in leaves(front.plan(_program(ONE_PASS)).steps) if isinstance(s, Kernel))
    terms = dict(kernel.cost.held.terms)
    assert terms[(("tile(s)", 1), ("tile(t)", 1))] == 4
    assert {(("d_h", 1), ("tile(t)", 1)), (("tile(t)", 1),)} <= terms.keys()


def test_a_projection_of_the_deck(cost: Callable[..., Any]) -> None:
    """The einsum deck, §03: q = einsum("bld,dhk->bhlk") multiplies and adds once for each of B, L, d, H and d_h."""
    page = json.loads(cost(PROJECTION, options=("--format", "json")).stdout)
    names = {n: symbol(n) for n in ("B", "L", "d", "H", "d_h")}
    assert sympy.sympify(way(page)["flops"]["formula"], names) == 2 * sympy.prod(names.values())
    assert way(page)["growth"]["exponents"] == dict.fromkeys(names, 1)


def test_two_experts_of_eight() -> None:
    """The einsum deck, §06: only k = 2 of E = 8 experts are computed for a token, a quarter of the products of all."""
    sizes = {"T": 1000, "d_model": 64, "d_ff": 256, "E": 8, "n": 2}
    module = plan_of(next(c for c in FILES if c.name == "moe"))
    products = [s for s in taken(module, sizes) if getattr(s, "instead", None) is not None]
    assert len(products) == 2
    assert all(s.cost.flops.at(sizes) * 4 == s.instead.at(sizes) for s in products)


def _program(text: str) -> Any:
    return checking.typed(text)


# formulas


SIZES = st.sampled_from(["T", "S", "d"])
MONOMIALS = st.dictionaries(SIZES, st.integers(-1, 2), max_size=3)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    total = number(0)
    for powers in draw(st.lists(MONOMIALS, min_size=1, max_size=5)):
        term = number(draw(st.fractions(min_value=0, max_value=8, max_denominator=6)))
        for name, power in powers.items():
            for _ in range(abs(power)):
                term = term * size(name) if power > 0 else term.over(size(name)) or term
        total = total + term
    return total


@settings(max_examples=60)
@given(extents(), st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)))
def test_a_readable_formula_has_the_same_value(extent: Extent, at: tuple[int, ...]) -> None:
    """Simplified, and as it is printed."""
    formulas, sizes = Formulas({}), dict(zip(("T", "S", "d"), at, strict=True))
    found = formulas.readable(extent)
    assert found.subs({symbol(n): v for n, v in sizes.items()}) == sympy.Rational(str(extent.at(sizes)))
    spelled = formulas.text(found).replace("·", "*").replace("²", "**2").replace("³", "**3").replace("⁴", "**4")
    assert eval(spelled, {}, sizes) == pytest.approx(float(extent.at(sizes)))


def test_a_formula_is_short() -> None:
    four = number(4) * size("B") * size("H") * size("T") * size("T") * size("d_k")
    formulas = Formulas({"T": 4096, "d_k": 64})
    assert formulas.text(formulas.readable(four)) == "4·B·H·T²·d_k"
    assert formulas.tex(formulas.readable(four)) == "4 B H T^{2} d_{k}"
    both = four + four.over(size("T")) if (four.over(size("T"))) is None else four + number(8) * size("T") * size("B")
    assert formulas.text(formulas.readable(both)) == "4·B·T·(H·T·d_k + 2)"


def test_how_a_formula_grows() -> None:
    square, line = size("T") * size("T") * size("d"), size("T") * size("d") * size("m") * number(4)
    found = Formulas({"T": 4096}).growth(square + line + size("d"))
    assert found is not None
    assert dict(found.exponents) == {"T": 2, "d": 1, "m": 1}
    assert (found.dominant, str(found.leading), str(found.overtakes)) == ("T", "T**2*d", "4*m")
    assert Formulas({}).growth(number(3)) is None


def test_where_two_formulas_are_equal() -> None:
    stored, passed = number(4) * size("T") * size("T"), number(4) * size("T") * size("d")
    assert [str(x) for x in Formulas({}).equal_at(stored, passed, "T")] == ["d"]
    assert Formulas({}).equal_at(stored, stored + number(1), "T") == []
    quotient = Formulas({}).ratio(stored, passed)
    assert quotient == symbol("T") / symbol("d") == expression(stored) / expression(passed)


# plans


def test_where_absorbed_and_expanded_latents_cross() -> None:
    """Both ways cost the same flops at the T that is printed; and the call changes its way where its prices do."""
    done = CliRunner().invoke(main, ["cost", "gallery/mla_decode", "--format", "json"])
    page = json.loads(done.stdout)
    a, b = page["plans"][0]["modules"][0]["ways"]
    (at,) = (x["at"] for x in page["equal"] if (x["what"], x["size"]) == ("flops", "T"))
    sizes = {"S": 4096, "H": 128, "d_k": 128, "r": 512}
    here = {symbol(n): v for n, v in sizes.items()}
    crossing = sympy.sympify(at, {n: symbol(n) for n in (*sizes, "T")}).subs(here)
    names = {n: symbol(n) for n in (*sizes, "T")}
    work = [sympy.sympify(w["flops"]["formula"], names).subs({**here, symbol("T"): crossing}) for w in (a, b)]
    assert float(work[0] / work[1]) == pytest.approx(1, rel=0.01)
    given_ = ",".join(f"{n}={v}" for n, v in sizes.items())
    done = CliRunner().invoke(main, ["cost", "gallery/mla_decode", "--format", "json", "--sizes", given_])
    turned = json.loads(done.stdout)
    (turn,) = turned["plans"][0]["modules"][0]["turns"]
    assert [x["way"] for x in turn["from"]] == ["b", "a"]
    assert turn["from"][1]["at"] == int(crossing) + 1


def test_memory_is_what_is_read_later() -> None:
    """Of a chain each value goes when the next is there; what two steps read stays; an input counts for nothing."""
    chain = "index t : time(T)\nindex a, b, c, d : feature(D)\ninput x_t^a\nweight W_a^b\nU_t^b = relu(x_t^a W_a^b)\n" \
            "V_t^c = relu(U_t^b W_b^c)\noutput Y_t^d = V_t^c W_c^d\n"
    module = front.plan(_program(chain))
    (only,) = account("", module, number(1), {}, 4).ways
    value = number(4) * size("T") * size("D")
    assert {p.alive for p in only.parts} <= {value, value + value}
    assert only.peak == (value + value,)


@given(st.lists(extents(), min_size=1, max_size=5))
def test_the_largest_of_some_formulas(found: list[Extent]) -> None:
    """At every size the greatest value is that of one that is left."""
    sizes = {"T": 3, "S": 5, "d": 2}
    assert max(x.at(sizes) for x in largest(found)) == max(x.at(sizes) for x in found)


@pytest.mark.parametrize("dtype", [2, 8])
@pytest.mark.parametrize("name", ["moe", "gqa", "decoder_lm", "mla_decode", "variance"])
def test_bytes_of_other_elements(name: str, dtype: int) -> None:
    """Between those of whole numbers and what they would be were all numbers of the data; flops are the same."""
    module = plan_of(next(c for c in FILES if c.name == name))
    sizes = {**dict.fromkeys(module.sizes, 16), **module.fixed}
    one, other = (account("", module, number(1), sizes, real).ways[0] for real in (4, dtype))
    assert one.flops == other.flops
    for what in ("read", "written"):
        before, after = (float(getattr(x, what).at(numbers(module, sizes))) for x in (one, other))
        assert min(before, before * dtype / 4) <= after <= max(before, before * dtype / 4)


def test_the_whole_is_the_sum_of_the_steps() -> None:
    module = plan_of(next(c for c in FILES if c.name == "decoder_lm"))
    sizes = {**dict.fromkeys(module.sizes, 16), **module.fixed}
    (only,) = account("", module, number(1), sizes, 4).ways
    assert float(only.flops.at(numbers(module, sizes))) == sum(float(s.cost.flops.at(numbers(module, sizes)))
                                                                for s in taken(module, sizes))


# tiles


def test_tiles_are_as_long_as_the_emitted_file_makes_them() -> None:
    """The rule of the plan is the text of the file: both give the same numbers at the same sizes."""
    for name in ("attention", "sliding_window", "sdpa", "gqa", "rms_norm", "linear_cross_entropy"):
        module = plan_of(next(c for c in FILES if c.name == name))
        for length in (40, 3000, 100_000):
            sizes = {**dict.fromkeys(module.sizes, 24), "d_k": 64, **module.fixed}
            sizes |= {n: length for n in ("T", "V") if n in module.sizes}
            assert _written(module, numbers(module, sizes)) == _reckoned(module, numbers(module, sizes)), (name, length)


def _reckoned(module: Module, sizes: dict[str, int]) -> list[int]:
    return [n for s in leaves(module.steps) for n in tile_lengths(s, sizes, few=False).values()]


def _written(module: Module, sizes: dict[str, int]) -> list[int]:
    """What the lines that set the steps of loops give, cut to the extents of the axes."""
    out, text = [], front.emit(module)
    kernels = [k for s in leaves(module.steps) if isinstance(k := getattr(s, "kernel", s), Kernel)]
    known = {**sizes, "min": min, "max": max}
    lines = re.findall(r"^ *((?:rows|columns)\d* = .+)$", text.partition("\n\n\ndef _")[0], flags=re.MULTILINE)
    for line in lines:
        exec(line, {}, known)
    named = [(line.split(" = ")[0], known[line.split(" = ")[0]]) for line in lines]
    axes = [a for k in kernels for a in (k.grid, k.stream) if a is not None]
    for (_, length), axis in zip(named, axes, strict=False):
        out.append(max(1, min(int(length), int(axis.set.extent.at(sizes)))))
    return out


# the command


def test_the_formats(cost: Callable[..., Any]) -> None:
    done = cost(ONE_PASS)
    assert done.exit_code == 0 and max(map(len, done.stdout.splitlines())) <= 120
    assert "flops 4·L²·(d_h + 1)" in done.stdout and "grows as L^2, d_h" in done.stdout
    tex = cost(ONE_PASS, options=("--format", "tex")).stdout
    assert tex.count(r"\begin{array}") == 1 and "L^{2}" in tex and r"\text{the whole}" in tex


def test_the_gradient_and_a_step_that_serves() -> None:
    both = CliRunner().invoke(main, ["cost", "sdpa", "--grad"]).stdout
    assert "(forward)" in both and "(backward)" in both
    served = CliRunner().invoke(main, ["cost", "gallery/decode", "--plan", "serve"])
    assert served.exit_code == 0


@pytest.mark.parametrize(("options", "words"), [
    (("--sizes", "Q=3"), ["`Q` is no size of the spec", "d_h"]),
    (("--grad", "--plan", "serve"), ["what serves has no gradient"]),
])
def test_what_is_wrong_is_told(cost: Callable[..., Any], options: tuple[str, ...], words: list[str]) -> None:
    done = cost(ONE_PASS, options=options)
    assert done.exit_code == 1 and all(word in done.output for word in words)


def test_sympy_is_not_loaded_by_other_commands() -> None:
    """It takes half a second."""
    code = ("import sys; from einc.driver.cli import main\n"
            "for words in (['check', 'sdpa'], ['compile', 'sdpa'], ['show', 'sdpa', '--stage', 'plan']):\n"
            "    main(words, standalone_mode=False)\n"
            "sys.exit('sympy' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_left_once_weights_are_rounded(tmp_path: Path) -> None:
    """Bytes before and after: of the part that takes weights of 4 bits, those that two share."""
    file = tmp_path / "a.ein"
    file.write_text("index t : time(T)\nindex f : feature(F)\nindex e : feature(D)\ninput X_t^f\nweight W_f^e\n"
                    "output Y_t^e = X_t^f W_f^e\nplan few:\n    products of W by int4 per row\n", encoding="utf-8")

    def read(plan: str) -> float:
        said = CliRunner().invoke(main, ["cost", str(file), "--plan", plan, "--format", "json",
                                         "--sizes", "T=1,F=64,D=32"])
        (way,) = json.loads(said.output)["plans"][0]["modules"][0]["ways"]
        return sum(float(step["read"]["value"]) for step in way["steps"] if step["does"] == "contract")

    assert (read("call"), read("few"), read("few,rest")) == (4 * (64 * 32 + 64), 64 * 32 + 64, 64 * 32 / 2 + 64)
    assert read("few,once") == 0
