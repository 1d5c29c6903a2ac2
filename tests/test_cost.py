"""What a plan says it costs: how it grows with each open size, the points of a domain
against a count of them; how it is told."""

from __future__ import annotations

import math

import pytest
from helpers import each, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import DRAWN, FILES, Case

from einc.driver.reports.screen import screen
from einc.driver.reports.table import numbers, table, tile_lengths
from einc.ir.indices import Index, IndexSet, number, size
from einc.ir.plan import Module
from einc.ir.terms import Apply, Position, Size, Term, both, const
from einc.planning.analysis.cost import points, size_of
from einc.planning.contractions.choose import taken

OPEN = ("T", "S", "U", "V", "T_sum")
SQUARE = {"decoder_lm", "llama_lm",
          "attention", "alibi", "gqa", "llama_attention", "sdpa", "causal", "latest", "documents", "prefix_lm",
          "softcap",
          "attention_backward", "argmax_payload", "min_plus", "variance", "two_domains", "mla", "shared_logits",
          "blocks_before", "online_softmax", "preblock", "preblock_relu", "preblock_silu", "swiglu_block",
          "gpt2_block", "requests",
          "requests_packed",
          "partial_rotary", "alibi_any_heads", "mla_rope", "deepseek_attention", "qk_norm", "sigmoid", "softmax1",
          "relu_squared", "log_n", "cosine", "kerple", "head_windows", "entropy_penalty", "differential",
          "relative_table",
          "t5_bias", "local_global", "clip_loss", "fire", "attention_dropout",
          "indexer", "sparse_attention", "deepseek_sparse", "top_keys", "moba", "nsa", "forgetting_transformer",
          "stick_breaking", "path", "deltaformer", "softpick", "shaw", "cope", "simplicial", "fp8_turned", "int8_cache",
          "fp8_block", "fp8_lm"}
STORED = {"top_keys", "sparse_attention", "deepseek_sparse",  # what is compared stands whole, so that it can be ordered
          "stick_breaking"}  # the weights of each row stand whole
ROWS = {"deepseek_sparse": "T", "sparse_attention": "T", "indexer": "T", "argmax_payload": "T", "group_norm": "T",
        "scaled_norm": "S", "deltaformer": "T", "softpick": "T", "fp8_turned": "T",
        "fp8_ffn": "T"}  # a tile has these whole
ORDERED = {"titans_momentum"}  # a step for each position: few of them, which a tile may hold whole
LONG = 2**24


def grown(module: Module, case: Case, name: str, times: int) -> dict[str, float]:
    """Flops, bytes and what is held at one time where one size is long and the others are short."""
    sizes = {**dict.fromkeys(case.sizes, 8), "d_k": 64, **module.fixed,
             name: (2**9 if case.name in ORDERED else LONG) * times}
    costs = [step.cost for step in taken(module, sizes)]
    known = numbers(module, sizes)
    tiles = [step.cost.held.at({**known, **tile_lengths(step, known, few=False)}) for step in taken(module, sizes)]
    return {"flops": float(sum(c.flops.at(sizes) for c in costs)),
            "bytes": float(sum((c.read + c.written).at(sizes) for c in costs)),
            "held": float(max(tiles)),
            "given": float(sum(size_of(b).at(sizes) for b in module.buffers.values() if b.role != "local"))}


@each(FILES, {"selective_attention cope": "a sum of what pairs have, over positions, is made anew for each pair",
              "simplicial": "a tile holds all pairs of positions, and not those of two windows alone",
              "stick_breaking": "what a tile of a block of rows holds is told in tiles that nobody has a size for"},
      few=DRAWN)
def test_cost_grows_as_it_should(case: Case) -> None:
    """Twice and four times the length: work by the square where every row sees all before it, memory as what is given,
    and a tile by no more than its rows, where these are whole."""
    module = plan_of(case)
    for name in (n for n in OPEN if n in case.sizes):
        for times in (1, 2):
            before, after = (grown(module, case, name, n) for n in (times, 2 * times))
            powers = {key: math.log2(after[key] / before[key]) if before[key] else 0.0 for key in before}
            work = (1 + (case.name in SQUARE)) if name in ("T", "T_sum") else 1
            given = max(powers.pop("given"), 2 * (name == "T" and case.name in STORED))
            tile = powers["held"] if case.name in ORDERED else int(ROWS.get(case.name) == name)
            assert powers == pytest.approx({"flops": work, "bytes": given, "held": tile}, abs=0.02), name


def test_a_domain_has_its_share() -> None:
    """Half of the pairs below the diagonal, a strip of them between two lines."""
    sizes = {"T": 1000, "H": 1, "d_k": 64, "d_model": 64, "W": 10, "B": 1}
    flops = {name: taken(plan_of(next(c for c in FILES if c.name == name)), sizes)[-2].cost.flops.at(sizes)
             for name in ("attention", "sliding_window")}
    assert flops["attention"] / (4 * 64 * 1000 * 1000 / 2) == pytest.approx(1, abs=0.05)
    assert flops["sliding_window"] / (4 * 64 * 1000 * 10) == pytest.approx(1, abs=0.1)


# the points of a domain


def _set(name: str, start: int) -> IndexSet:
    return IndexSet("time", size(name), start)


@st.composite
def bounds(draw: st.DrawFn) -> tuple[Index, Index, list[Term]]:
    """Linear bounds of s by t, sizes and numbers."""
    t = Index("t", _set("T", draw(st.sampled_from([1, 0]))))
    s = Index("s", draw(st.sampled_from([t.set, _set("S", 1)])))
    far: st.SearchStrategy[Term] = st.sampled_from([const(0), const(1), const(3), Size(size("W")),
                                                    Size(size("S") - size("T"))])

    def atom() -> Term:
        line = Apply(draw(st.sampled_from(["add", "sub"])), (draw(st.sampled_from([Position(t), const(2)])), draw(far)))
        sides = (Position(s), line)
        return Apply(draw(st.sampled_from(["le", "lt"])), sides if draw(st.booleans()) else sides[::-1])

    return t, s, [atom() for _ in range(draw(st.integers(1, 3)))]


def counted(t: Index, s: Index, atoms: list[Term], sizes: dict[str, int]) -> int:
    def value(term: Term, at: dict[Index, int]) -> int:
        match term:
            case Position(index):
                return at[index]
            case Size(extent):
                return int(extent.at(sizes))
            case Apply("add", (a, b)):
                return value(a, at) + value(b, at)
            case Apply("sub", (a, b)):
                return value(a, at) - value(b, at)
            case Apply("floor", (Apply("div", (a, b)),)):
                return value(a, at) // value(b, at)
            case Apply("and", args):
                return all(value(a, at) for a in args)
            case Apply("or", args):
                return any(value(a, at) for a in args)
            case Apply("le", (a, b)):
                return value(a, at) <= value(b, at)
            case Apply("lt", (a, b)):
                return value(a, at) < value(b, at)
        return int(term.value)  # type: ignore[union-attr]

    def places(index: Index) -> range:
        return range(index.set.start, index.set.start + int(index.set.extent.at(sizes)))

    return sum(all(value(a, {t: i, s: j}) for a in atoms) for i in places(t) for j in places(s))


@given(bounds(), st.integers(1, 6), st.integers(1, 9), st.integers(1, 4))
def test_points_are_never_fewer_than_there_are(drawn: tuple[Index, Index, list[Term]], rows: int, width: int,
                                               far: int) -> None:
    t, s, atoms = drawn
    sizes = {"T": rows, "S": width, "W": far}
    found = points(both(*atoms), s, t).at(sizes)
    assert found >= counted(t, s, atoms, sizes)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("op", ["le", "lt"])
@pytest.mark.parametrize("turned", [False, True])
def test_points_below_and_above_a_diagonal_are_exact(start: int, op: str, turned: bool) -> None:
    t, s = (Index(name, _set("T", start)) for name in "ts")
    sides = (Position(s), Position(t))
    atom = Apply(op, sides[::-1] if turned else sides)
    for rows in range(6):
        assert points(atom, s, t).at({"T": rows}) == counted(t, s, [atom], {"T": rows})


@settings(max_examples=50)
@given(st.sampled_from([0, 1]), st.integers(1, 4), st.integers(1, 4), st.integers(0, 4), st.booleans())
def test_whole_pages_are_exact(start: int, length: int, pages: int, back: int, past: bool) -> None:
    """A page and so many before it, but for those that would stand before the first."""
    t, s = (Index(name, _set("T", start)) for name in "ts")
    here, there = (Apply("floor", (Apply("div", (Apply("sub", (Position(i), const(start))), Size(size("P")))),))
                   for i in (t, s))
    atoms = [Apply("le", (there, here)), Apply("le", (Apply("sub", (here, const(back))), there))]
    atoms += [Apply("le", (Position(s), Position(t)))] if past else []
    sizes = {"T": length * pages, "P": length}
    missing = sum(max(0, back - page) for page in range(pages)) * length**2
    assert points(both(*atoms), s, t).at(sizes) == counted(t, s, atoms, sizes) + missing


@given(st.integers(1, 9), st.integers(0, 9))
def test_what_ends_at_the_later_of_two_is_no_more_than_the_sum(rows: int, more: int) -> None:
    t, s = (Index(name, _set("T", 1)) for name in "ts")
    atom = Apply("or", tuple(Apply("le", (Position(s), far)) for far in (Position(t), Size(size("P")))))
    sizes = {"T": rows, "P": more}
    assert counted(t, s, [atom], sizes) <= points(atom, s, t).at(sizes) <= rows * (rows + 1) / 2 + rows * more


# how it is told


def _case(name: str) -> Case:
    return next(c for c in FILES if c.name == name)


@each(FILES, {"deepseek_sparse fp8_block fp8_lm gated_deltanet_lm": "a layer of 25 steps and more"}, few=DRAWN)
def test_a_plan_fits_a_screen(case: Case) -> None:
    """With formulas and with numbers; with numbers no formula is left."""
    module = plan_of(case)
    sizes = {**dict.fromkeys(module.sizes, 4096), **case.sizes}
    for lines in (screen(module).splitlines(), screen(module, sizes).splitlines()):
        assert len(lines) <= 50
        assert max(map(len, lines)) <= 120
    assert "·" not in screen(module, sizes)
    assert len(table(module).splitlines()) >= len(module.steps)


def test_the_totals_are_those_of_the_steps() -> None:
    sizes = {"T": 1000, "H": 8, "d_k": 64, "d_model": 512}
    module = plan_of(_case("attention"))
    (line,) = (x for x in screen(module, sizes).splitlines() if "total" in x)
    costs = [s.cost for s in taken(module, sizes)]
    flops, moved = sum(c.flops.at(sizes) for c in costs), sum((c.read + c.written).at(sizes) for c in costs)
    assert float(line.split()[1]) == pytest.approx(float(flops) / 1e9, rel=0.01)
    assert float(line.split()[-1]) == pytest.approx(float(flops / moved), rel=0.01)


def test_a_long_formula_keeps_what_is_largest() -> None:
    """The square of the length first, and a sign for what is left out."""
    module = plan_of(_case("attention"))
    (row,) = (x for x in screen(module).splitlines() if " Y  " in x and "Q_hat, K_hat, V" in x)
    assert "2·H·T²·d_k + 2.5·H·T² + 4·H·T·d_k + …" in row
    (line,) = (x for x in screen(module).splitlines() if x.startswith("total bytes out"))
    costs = sum((s.cost.written for s in taken(module, {})), number(0))
    assert line.split("  ")[-1] == "24·H·T·d_k + 12·T·d_k + 4·T·d_model + 4·d_k"
    assert len(costs.terms) == 4


def test_a_choice_on_a_screen() -> None:
    """Both ways with their steps; where the sizes choose, the steps of the way that is taken."""
    module = plan_of(_case("mla_decode"))
    assert all(f"\n{n}  " in screen(module) for n in ("a1", "a3", "b1", "b3"))
    sizes = {"T": 1, "S": 4096, "H": 128, "d_k": 128, "r": 512}
    said = screen(module, sizes)
    assert "<- taken" in said
    assert "\nb1  " in said
    assert "\na1  " not in said
    assert "total bytes" not in said
