"""Orders of products: every one means the same, the cheapest is found, and where sizes decide the call decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import opt_einsum
import pytest
import torch
from helpers import arrays, assert_close, called, each, examples, meaning, plan_of, tensors, typed, typed_of
from hypothesis import note
from hypothesis import strategies as st
from programs import CASES, DRAWN, FILES, Case

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.driver.reports.table import table
from einc.ir.indices import Index, IndexSet, number, size
from einc.ir.plan import Choose, Contract, Kernel, Module
from einc.ir.programs import NormalProgram
from einc.planning.contractions.associate import Search, associate, samples
from einc.planning.contractions.choose import leading, price, taken
from einc.planning.contractions.materialise import peeled
from einc.planning.contractions.order import FEW, path
from einc.planning.planner import plan, plan_as_written
from einc.syntax.printing.show import show

LARGE = {"H": 128, "d_k": 128, "r": 512, "S": 4096}


def spec(name: str) -> Case:
    return next(c for c in FILES if c.name == name)


@cache
def planned(text: str) -> Module:
    return front.plan(typed(text))


def normal(text: str) -> NormalProgram:
    return peeled(pipeline.normal(typed(text)))


# every order means the same

HEADER = """
index t : time(T)
index s : time({S})
index h : head(H)
index f : feature(F)
index d, k : feature(D)
index ρ, σ : latent(R)
"""
ASKS = ["input q_{t h}^d", "input q_t^d", "input x_t^f\nweight A_{h f}^d\nq_{t h}^d = x_t^f A_{h f}^d",
        "input x_t^f\nweight A_f^ρ, B_{h ρ}^d\na_t^ρ = x_t^f A_f^ρ\nq_{t h}^d = a_t^ρ B_{h ρ}^d"]
KEYS = ["input l_s^ρ\nweight P_{h ρ}^d\nK_{s h}^d = l_s^ρ P_{h ρ}^d", "input l_s^ρ\nweight P_ρ^d\nK_s^d = l_s^ρ P_ρ^d",
        "input l_s^ρ\nweight P_{h ρ}^d, G_d^k\ne_{s h}^d = l_s^ρ P_{h ρ}^d\nK_{s h}^k = e_{s h}^d G_d^k",
        "input l_s^ρ\nweight P_{h ρ}^d\ninput R_{s d}^k\ne_{s h}^d = l_s^ρ P_{h ρ}^d\nK_{s h}^k = e_{s h}^d R_{s d}^k"]
VALUES = ["weight U_{h ρ}^d\nV_{s h}^d = l_s^ρ U_{h ρ}^d", "weight U_ρ^d\nV_s^d = l_s^ρ U_ρ^d",
          "input z_s^f\nweight U_{h f}^d\nV_{s h}^d = z_s^f U_{h f}^d"]
WEIGHTS = ["softmax_s(L_{t s}^{(h)})", "exp(L_{t s}^{(h)}) / sum_{s'} exp(L_{t s'}^{(h)})", "tanh(L_{t s}^{(h)})",
           "L_{t s}^{(h)} / (1 + sum_{s'} abs(L_{t s'}^{(h)}))"]
ENDS = ["output y_t^d = Σ_h Y_{t h}^d", "output Y_{t h}^d", "weight W_{h d}^f\noutput y_t^f = Σ_h Y_{t h}^d W_{h d}^f",
        "output y_t^d = Σ_h exp(Y_{t h}^d)\n"]
MASKS = [("T", "s ≤ t"), ("T", "s < t"), ("T", "s > t - 3, s ≤ t"), ("S", "all"), ("S", "s ≤ t + S - T")]


@st.composite
def layers(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """Sums of products before and after weights that are not linear, with or without heads in each part."""
    def one(options: list[Any]) -> Any:
        return draw(st.sampled_from(options))

    end, mask = one(MASKS)
    asks, keys, values = one(ASKS), one(KEYS), one(VALUES)
    heads = "h" if "q_{t h}" in asks else ""
    key, value = ("K_{s h d}" if "K_{s h}" in keys else "K_{s d}"), ("V_{s h}^d" if "V_{s h}" in values else "V_s^d")
    logits = "L_{t s}^{(h)} = 0.5 " + ("q_{t h}^d " if heads else "q_t^d ") + key
    if not heads and "h" not in key:
        logits = "weight g_h\n" + logits.replace("0.5", "g_h")
    lines = [HEADER.replace("{S}", end), asks, keys, values, f"mask L_{{t s}}^{{(h)}} : {mask}", logits,
             f"Y_{{t h}}^d = Σ_s ({one(WEIGHTS)}) {value}", one(ENDS)]
    sizes = {name: one([2, 3, 1]) for name in ("T", "S", "H", "F", "D", "R")}
    text = "\n".join(lines)
    return Case("layer", text, {n: v for n, v in sizes.items() if n != "S" or end == "S"})


def orders_of(search: Search, draw: st.DataObject) -> NormalProgram:
    """Some definitions gone, and for every root one of its orders."""
    gone = frozenset(draw.draw(st.sets(st.sampled_from(search.open)))) if search.open else frozenset()
    roots = search.roots(gone)
    if not all(roots.values()):
        return search.program
    chosen = [draw.draw(st.sampled_from(found)) for found in roots.values()]
    return search.assembled(gone, chosen)


@examples(20, 100, layers(), st.data())
def test_every_order_means_the_same(case: Case, draw: st.DataObject) -> None:
    program = normal(case.text)
    made = orders_of(Search(program), draw)
    note(case.text)
    note(show(made))
    inputs = arrays(program, case.sizes, case.ranges)
    assert_close(meaning(made, inputs, case.sizes), meaning(program, inputs, case.sizes), 1e-10)


@examples(15, 100, layers(), st.data())
def test_a_name_is_one_thing_in_all_programs_of_a_search(case: Case, draw: st.DataObject) -> None:
    """Their steps stand side by side in one module, and what they store in one list."""
    search = Search(normal(case.text))
    shapes: dict[str, set[tuple[str, ...]]] = {}
    made = [orders_of(search, draw) for _ in range(4)]
    for program in [search.program, *made, *(c.program for c in associate(search.program))]:
        for key, tensor in program.tensors.items():
            shapes.setdefault(key, set()).add(tuple(str(s.set) for s in tensor.slots))
    assert {key: found for key, found in shapes.items() if len(found) > 1} == {}


@examples(8, 25, layers(), st.data())
def test_every_order_runs(case: Case, draw: st.DataObject) -> None:
    """The emitted module of an order, and that of each way it may itself choose from."""
    program = typed(case.text)
    made = orders_of(Search(normal(case.text)), draw)
    note(case.text)
    note(show(made))
    inputs = arrays(program, case.sizes, case.ranges)
    want = meaning(program, inputs, case.sizes)
    for module in (plan_as_written(made, program.inputs()), *ways(plan(made, program.inputs()))):
        assert_close(called(emitted(module), program, tensors(inputs), case.sizes), want, 1e-10)


def ways(module: Module) -> Iterator[Module]:
    """The module with each option of its choice taken whatever the sizes."""
    for n in range(max([len(s.options) for s in module.steps if isinstance(s, Choose)], default=1)):
        steps = [s.bodies[n] if isinstance(s, Choose) else (s,) for s in module.steps]
        yield replace(module, steps=tuple(one for some in steps for one in some))


def emitted(module: Module) -> Callable[..., Any]:
    return load(front.emit(module), module.name)


# The plans with a choice: named, so that nothing is planned before the first test runs.
CHOOSING = """
call cross_attention cross_attention_rope fp8_block memory_layer mla_decode perceiver shared_logits tanh_gate
llama_lm nsa""".split()  # noqa: SIM905 - as a list it has twenty quotes


@each(CASES, {}, few=DRAWN)
def test_which_plans_have_a_choice(case: Case) -> None:
    assert any(isinstance(s, Choose) for s in plan_of(case).steps) == (case.name in CHOOSING)


@pytest.mark.drawn(2)
@each([case for case in CASES if case.name in CHOOSING], {})
def test_each_way_means_what_the_interpreter_says(case: Case) -> None:
    program = typed_of(case)
    for seed, sizes in enumerate(case.trials()):
        inputs = arrays(program, sizes, case.ranges, seed)
        want = meaning(program, inputs, sizes)
        for module in ways(plan_of(case)):
            assert_close(called(emitted(module), program, tensors(inputs), sizes), want)


def test_there_are_choices() -> None:
    assert {*CHOOSING} >= {"mla_decode", "shared_logits", "cross_attention"}


# the cheapest is found


def total(module: Module, sizes: Mapping[str, int]) -> float:
    """What the plan costs where a call at these sizes takes its way."""
    return sum(max(float(s.cost.flops.at(sizes)), 10 * float((s.cost.read + s.cost.written).at(sizes)), 1.0)
               for s in taken(module, sizes))


@examples(10, 30, layers())
def test_what_is_chosen_costs_no_more_than_what_is_written(case: Case) -> None:
    program = normal(case.text)
    module, before = plan(program), plan_as_written(program)
    note(case.text)
    for sizes in samples(program):
        begun = 10**6 * max(len(taken(module, sizes)), len(before.steps))
        assert total(module, sizes) <= 1.11 * (total(before, sizes) + begun)


def stored(module: Module, sizes: Mapping[str, int]) -> set[str]:
    """The names of what is made on the way at these sizes."""
    out: set[str] = set()
    for step in taken(module, sizes):
        out |= {s.buffer for s in step.stores} if isinstance(step, Kernel) else {step.out}
    return out


def test_few_positions_ask_the_latents_and_many_ask_what_is_expanded() -> None:
    module = plan_of(spec("mla_decode"))
    few, many = (stored(module, {**LARGE, "T": n}) for n in (1, 4096))
    assert (few, many) == ({"q_P", "Y_L", "Y"}, {"K", "V", "Y"})
    crossed = next(n for n in range(1, 4096) if "K" in stored(module, {**LARGE, "T": n}))
    assert 64 <= crossed <= 512
    assert total(module, {**LARGE, "T": 1}) * 50 < total(next(ways(module)), {**LARGE, "T": 1})


def test_the_call_takes_the_way_with_the_lowest_price() -> None:
    """The numbers in the emitted text are those of the plan."""
    module = plan_of(spec("mla_decode"))
    (choice,) = (s for s in module.steps if isinstance(s, Choose))
    lines = [line.strip() for line in front.emit(module).splitlines() if line.strip().startswith("price")]
    for n in (1, 100, 200, 400, 3000):
        sizes = {**LARGE, "T": n}
        scope: dict[str, Any] = dict(sizes)
        exec("\n".join(lines), scope)
        assert [scope["price"], scope["price2"]] == [price(choice, o, sizes) for o in choice.options]


def test_the_plan_shows_each_way_and_which_is_taken() -> None:
    module = plan_of(spec("mla_decode"))
    assert "choose the cheapest" in table(module)
    assert "<- taken" not in table(module)
    for n, label in ((1, "b  through q_P, Y_L"), (4096, "a  through K, V")):
        (line,) = (x for x in table(module, {**LARGE, "T": n}).splitlines() if "<- taken" in x)
        assert line.strip().startswith(label)


def test_the_memory_of_a_plan_is_that_of_the_way_it_takes() -> None:
    """Beside what every way stores: K and V of all heads in one, products with a position of the other."""
    module = plan_of(spec("mla_decode"))
    sizes = {**LARGE, "T": 1}
    (line,) = (x for x in table(module, sizes).splitlines() if x.startswith("memory"))
    assert "8·H·T·r" in line and "8·H·S·d_k" not in line
    (line,) = (x for x in table(module, {**sizes, "T": 4096}).splitlines() if x.startswith("memory"))
    assert "8·H·S·d_k" in line and "8·H·T·r" not in line
    assert "beside it in step 1: a 8·H·S·d_k, b 8·H·T·r" in table(module)


def test_a_price_never_divides() -> None:
    """A size that is 0 at the call is no reason to fail before the work begins."""
    assert str(leading(size("T") * size("T") * number(Fraction(1, 2)) + size("T") + number(3))) == "T * T / 2"
    per_block = (size("T") * size("T")).over(size("B"))
    assert per_block is not None
    assert str(leading(per_block)) == "T * T"


def test_many_open_sizes_are_not_crossed() -> None:
    letters = "abcdefg"
    lines = [f"index {x} : time({x.upper()})" for x in letters]
    x = f"x_{{{' '.join(letters)}}}"
    lines += [f"input {x}", f"output y_a = {''.join(f'Σ_{y} ' for y in letters[1:])}{x}"]
    found = samples(normal("\n".join(lines)))
    assert len(found) == 2 * 7 + 3
    assert set(found[-1].values()) == {8192}


def test_one_plan_for_both_spellings() -> None:
    """Written through the latents, the expanded form is found, and costs what it costs when it is written."""
    text = spec("mla_decode").text
    text = text.replace("K_{s h}^d = L_s^ρ P_{h ρ}^d",
                        "p_{t h}^ρ = q_{t h}^d P_h^ρ_d").replace("V_{s h}^d = L_s^ρ Q_{h ρ}^d", "")
    text = text.replace("q_{t h}^k K_{s h k}", "p_{t h}^ρ L_{s ρ}").replace("V_{s h}^d", "L_s^ρ")
    text = text.replace("Y_{t h}^d = Σ", "z_{t h}^ρ = Σ")
    text = text.replace("output z", "z") + "\noutput Y_{t h}^d = z_{t h}^ρ Q_{h ρ}^d"
    for n in (1, 64, 4096):
        sizes = {**LARGE, "T": n}
        assert total(planned(text), sizes) == pytest.approx(total(plan_of(spec("mla_decode")), sizes), rel=0.01)


def test_sizes_that_are_fixed_leave_nothing_to_choose() -> None:
    """The same text with its sizes in it: the order is known when it is compiled."""
    for length, made in ((1, {"q_P", "Y_L", "Y"}), (4096, {"K", "V", "Y"})):
        module = planned(spec("mla_decode").text
                         + "".join(f"\ndim {name} = {n}" for name, n in {**LARGE, "T": length}.items()))
        assert not any(isinstance(s, Choose) for s in module.steps)
        assert stored(module, {}) == made


def test_with_positions_of_its_own_each_side_is_expanded() -> None:
    """Where all positions ask, K and V are made once; at no size is the other order better."""
    module = plan_of(spec("mla"))
    assert not any(isinstance(s, Choose) for s in module.steps)
    assert {"K", "V"} <= stored(module, {**LARGE, "T": 1, "d_model": 4096})


@pytest.mark.parametrize("rotation", ["input R_{s d}^k", None])
def test_a_rotation_in_between_keeps_the_keys_expanded(rotation: str | None) -> None:
    """Neither as a matrix for every position nor as sums of products can it leave: only the values are absorbed."""
    text = spec("mla_decode").text.replace("q_{t h}^k K_{s h k}", "q_{t h}^k \\widehat K_{s h k}")
    if rotation is None:
        text = 'use "rope"\n' + text
        text += "\nR'_{s (i a)}^{(j b)} = δ_i^j (cos((s - 1) θ_i) δ_a^b + sin((s - 1) θ_i) ε_a^b)"
        text += "\n\\widehat K_{s h}^k = K_{s h}^d R'_s_d^k"
    else:
        text += f"\n{rotation}\n\\widehat K_{{s h}}^k = K_{{s h}}^d R_{{s d}}^k"
    module = planned(text)
    assert {"K_hat", "Y_L"} <= stored(module, {**LARGE, "T": 1})
    assert "V" in stored(module, {**LARGE, "T": 4096})


def test_heads_with_the_same_logits_collapse() -> None:
    """The lemma of the paper's §9: one value matrix for all heads, where that is less work."""
    module = plan_of(spec("shared_logits"))
    sizes = {"H": 16, "d_k": 128, "d_model": 2048}
    *_, last = taken(module, {**sizes, "T": 16384})
    assert isinstance(last, Contract)
    assert [last.operands[n][0] for n in last.path[0]] == ["W_V", "W_O"]
    assert "V" in stored(module, {**sizes, "T": 128})
    text = spec("shared_logits").text
    per_head = text.replace("M_{f g}", "M_{h f g}").replace("L_{t s}",
                                                            "L_{t s}^{(h)}").replace("A_{t s}", "A_{t s}^{(h)}")
    assert "V" in stored(planned(per_head), {**sizes, "T": 16384})


def test_a_product_without_anything_between_is_not_the_square_of_the_length() -> None:
    text = """
        index t, s : time(T)
        index d, e : feature(D)
        input q_t^d, k_t^d, v_t^e
        a_{t s} = q_t^d k_{s d}
        y_t^e = Σ_s a_{t s} v_s^e
        output y_t^e : all
    """
    module = planned(text)
    assert [step.cost.flops.at({"T": 10000, "D": 10})
            for step in taken(module, {"T": 10000, "D": 10})] == [4 * 10000 * 100]


def test_what_no_order_can_run_stays_as_it_is_written() -> None:
    """Two open indices leave at once, so that no single one can be streamed before the rest."""
    text = """
        index t, s : time(T)
        index d, e : feature(D)
        input q_t^d, k_s^d, v_s^d, u_t^d, g
        weight W_d^e
        w_{t s} = exp(q_t^d k_{s d})
        a^d = (Σ_{t s} w_{t s} v_s^d u_t^d) / g
        output y^e = a^d W_d^e
    """
    program, sizes = typed(text), {"T": 5, "D": 3}
    inputs = arrays(program, sizes, {})
    for module in ways(planned(text)):
        assert_close(called(emitted(module), program, tensors(inputs), sizes), meaning(program, inputs, sizes))


def test_long_chains_are_searched_in_time() -> None:
    """More definitions than can be tried in every combination."""
    lines = ["index t : time(T)", "index s : time(S)", "index a : feature(A)", "input x_t^a, y_s^a"]
    lines += ["index b, c, d, e, f, g : feature(A)", "weight M_a^b, N_b^c, O_c^d, P_d^e, Q_e^f"]
    lines += ["i_t^b = x_t^a M_a^b", "j_t^c = i_t^b N_b^c", "k_t^d = j_t^c O_c^d", "l_t^e = k_t^d P_d^e",
              "m_t^f = l_t^e Q_e^f"]
    lines += ["n_s^b = y_s^a M_a^b", "o_s^c = n_s^b N_b^c", "z_{t s} = exp(m_t^f o_{s f})",
              "output w_t^b = Σ_s z_{t s} n_s^b"]
    text, sizes = "\n".join(lines), {"T": 1, "S": 8192, "A": 128}
    assert total(planned(text), sizes) < 0.6 * total(plan_as_written(normal(text)), sizes)


# what is kept in range


@pytest.mark.parametrize("weights", ["softmax_s(L_{t s}^{(h)})", "exp(L_{t s}^{(h)}) / sum_{s'} exp(L_{t s'}^{(h)})"])
@pytest.mark.parametrize("name", ["mla_decode", "cross_attention"])
def test_large_logits_do_not_overflow_on_any_way(name: str, weights: str) -> None:
    """Also where the source takes no maximum, which is too much for the interpreter: what
    is stored is already scaled."""
    text = spec(name).text
    if name == "mla_decode":
        text = text.replace("softmax_s(L_{t s}^{(h)})", weights)
    program = typed_of(spec(name))
    sizes = {"T": 3, "S": 9, "U": 9, "H": 2, "d_k": 4, "r": 5, "d_model": 6}
    inputs = {key: 12 * x for key, x in arrays(program, sizes, {}).items()}
    want = meaning(program, inputs, sizes)
    for module in ways(planned(text)):
        got = called(emitted(module), program, tensors(inputs, torch.float32), sizes)
        assert_close({key: x.double() for key, x in got.items()}, want, 1e-4)


LETTERS = "abcdefg"


@examples(60, 300, st.lists(st.lists(st.sampled_from(LETTERS), max_size=4, unique=True), min_size=2, max_size=FEW + 1),
       st.lists(st.sampled_from(LETTERS), unique=True),
       st.lists(st.sampled_from([1, 2, 3, 64, 4096]), min_size=7, max_size=7))
def test_few_factors_are_ordered_as_opt_einsum_does(factors: list[list[str]], out: list[str],
                                                    lengths: list[int]) -> None:
    """Of two orders that cost the same, too, the one that the library finds first."""
    known = dict(zip(LETTERS, lengths, strict=True))
    index = {letter: Index(letter, IndexSet("feature", number(n))) for letter, n in known.items()}
    text = ",".join(map("".join, factors)) + "->" + "".join(x for x in out if any(x in factor for factor in factors))
    way = "optimal" if len(factors) < FEW else "auto"
    wanted, _ = opt_einsum.contract_path(text, *[tuple(known[x] for x in factor) for factor in factors], shapes=True,
                                         optimize=way)
    found = path(tuple(tuple(index[x] for x in factor) for factor in factors), tuple(index[x] for x in out), {})
    assert found == tuple(map(tuple, wanted))
