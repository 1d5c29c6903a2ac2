"""Small programs that cover the language, each with the sizes it is tried at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

SPECS = Path(__file__).parent.parent / "specs"
# Of many kernels; what they call is tried in more ways.
MODELS = frozenset({"decoder_lm", "llama_lm", "fp8_lm", "gated_deltanet_lm"})
TILED = frozenset({"fp8_block"})  # of sizes that are multiples of others
# Named, so that nothing is checked before the first test runs; `test_stages` holds the names against the programs.
WITH_ROUNDS = """
rounds rounds_of_numbers decoder_lm llama_lm fp8_lm gated_deltanet_lm deltaformer deltanet ema gated_deltanet gla kda
longhorn mamba1 mlstm path rg_lru rwkv6 rwkv7 ssd titans_momentum""".split()  # noqa: SIM905 - as a list it has forty quotes


@dataclass(frozen=True, eq=False)
class Case:
    """A spec, sizes at which nothing is round, and for each integer input the first and last value it may hold.

    `sizes` has every named size, also those that no tensor fixes.
    """

    name: str
    text: str
    sizes: Mapping[str, int]
    ranges: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def trials(self) -> list[dict[str, int]]:
        """The case's own sizes; one step, none at all, and many where there is time; one
        of everything that may be one."""
        out = [dict(self.sizes)]
        if self.name in MODELS or self.name in TILED:
            return out
        if self.name.startswith("rounds"):
            out += [{**self.sizes, "N": n} for n in (0, 1)]
        many = 19 if self.name == "simplicial" else 37  # of triples there are many more
        for name in ("T", "U", "S", "V", "T_sum"):
            out += [{**self.sizes, name: n} for n in (0, 1, many)
                    if name in self.sizes and (n or name == "T" or not self.ranges)]
        ones = {name: 1 for name, size in self.sizes.items() if name in ("H", "B", "T", "W", "d_model")}
        return [*out, {**self.sizes, **ones}] if len(ones) > 1 else out


def _rope(pair: str, left: str, right: str) -> str:
    return f"""
        index t : time(T)
        index h : head(H)
        index i, j : feature(d / 2)
        index a, b : feature(2)
        index x, y : feature(d) = {pair}
        input q_{{t h}}^x
        θ_i = 100^{{-2 (i - 1) / d}}
        R_{{t {left}}}^{{{right}}} = δ_i^j (cos(t θ_i) δ_a^b + sin(t θ_i) ε_a^b)
        output z_{{t h}}^y = q_{{t h}}^x R_t_x^y
    """


def _masked(predicate: str, declared: str = "", suffix: str = "") -> str:
    return f"""
        index t, s : time(T)
        index h : head(H)
        index d : feature(D)
        {declared}
        input q_{{t h}}^d, k_{{s h}}^d, v_{{s h}}^d
        mask L_{{t s}}^{{(h)}} : {predicate}
        L_{{t s}}^{{(h)}} = 1/√D q_{{t h}}^d k_{{s h d}}
        y_{{t h}}^d = Σ_s softmax_s(L_{{t s}}^{{(h)}}) v_{{s h}}^d
        output y_{{t h}}^d{suffix}
    """


TIME = {"T": 11}
HEADS = {"T": 11, "H": 3, "D": 5}
PARTS = {"T": 7, "C": 3, "R": 2}
FOUR = {"B": 2, "H": 3, "T": 9, "d_k": 5}
STATE = {"T": 9, "H": 2, "D": 3, "E": 4}
MODEL = {"T": 9, "d_model": 7, "H": 3, "d_k": 6}
SUM = "index c : feature(C)\nindex r : feature(R)\nindex e : feature = c ⊕ r\nindex t, s : time(T)\n"

TEXTS: dict[str, tuple[str, dict[str, int], dict[str, tuple[str, str]]]] = {
    # δ, ε, metric
    "rope_pairs": (_rope("(i a)", "(i a)", "(j b)"), {"T": 7, "H": 3, "d": 6}, {}),
    "rope_halves": (_rope("(a i)", "(a i)", "(b j)"), {"T": 7, "H": 3, "d": 6}, {}),
    "delta": ("index t : time(T)\nindex i, j : feature(n)\ninput x_t^i\noutput y_t^j = x_t^i δ_i^j", {"T": 4, "n": 3},
              {}),
    "delta_matrix": ("index i, j : feature(n)\nweight c\noutput y_i^j = c δ_i^j", {"n": 3}, {}),
    "epsilon": ("index t : time(T)\nindex a, b : feature(2)\ninput x_t^a\noutput y_t^b = x_t^a ε_a^b", {"T": 4}, {}),
    "epsilon_twice": ("index t : time(T)\nindex a, b, c : feature(2)\ninput x_t^a\noutput y_t^c = x_t^a ε_a^b ε_b^c",
                      {"T": 4}, {}),
    "metric": ("index t : time(T)\nindex m, k : feature(n)\ninput a_t^m, b_t^k\noutput y_t = a_t^m δ_{m k} b_t^k",
               {"T": 4, "n": 3}, {}),
    "lowered": ("index t : time(T)\nindex m : feature(n)\ninput a_t^m, b_t^m\noutput y_t = a_t^m b_{t m}",
                {"T": 4, "n": 3}, {}),
    "trace": ("index i, j : feature(n)\ninput M_i^j\noutput y = M_i^j δ_j^i", {"n": 3}, {}),
    # numbers that Python refuses
    "over_a_size": ("index s : time(S)\nindex c : feature(C)\ninput x_s, y^c\noutput z = (Σ_c y^c) / S\noutput u_s = "
                    "x_s S / S",
                    {"S": 4, "C": 3}, {}),
    "over_zero": ("index t : time(T)\ninput x_t\noutput y_t = x_t + 1/0\noutput u_t = x_t - 1/(T - T)", TIME, {}),
    "of_an_empty_size": ("""
        index t : time(T)
        index c : feature(C)
        input x_t, y^c
        output u = T / T + C
        output v = (Σ_c y^c) + log(T) + 1/√T
        output w = max(sqrt(T - 2), 1) + min(1, log(T - 2))
        output z = exp(1000 T) + 10^{400 T} - cos(1/T)
    """, {"T": 5, "C": 2}, {}),
    # names of names
    "alias": ("""
        index t : time(T)
        index b : batch(B)
        input x_{b t}
        μ_b = (Σ_t x_{b t}) / T
        ν_b = μ_b
        output y_b = (Σ_t (x_{b t} - ν_b)^2) / T
        output z_b = ν_b
    """, {"T": 7, "B": 3}, {}),
    "results_of_one_value": ("index t : time(T)\ninput x_t\na_t = x_t + 1\noutput y_t = a_t\noutput z_t = a_t\noutput "
                             "u_t = x_t",
                             TIME, {}),
    # maps and gathers
    "map": ("""
        index t : time(T)
        index h : head(H)
        index g : head(G)
        map π(h) = ceil(h G / H) : g
        input x_{t g}, w_h
        output y_{t h} = x_{t, π(h)} w_h
    """, {"T": 4, "H": 5, "G": 2}, {}),
    "map_mod": ("""
        index h : head(H)
        index g : head(G)
        map π(h) = mod(h - 1, G) + 1 : g
        input x_g, w_h
        output y_h = x_{π(h)} w_h
    """, {"H": 5, "G": 2}, {}),
    "map_log": ("""
        index t : time(T)
        index p : feature(0..5)
        map β(t) = min(max(floor(3/2 log(t)), 0), 5) : p
        input x_t
        weight c_p
        output y_t = c_{β(t)} x_t
    """, {"T": 9}, {}),
    "map_alone": ("""
        index t : time(T)
        index h : head(H)
        index g : head(G)
        map π(h) = ceil(h G / H) : g
        input x_{t g}, w_{t h}
        output y_{t h} = x_{t, π(h)}
        output z_{t h} = w_{t h} + y_{t h}
    """, {"T": 4, "H": 6, "G": 2}, {}),
    "map_solved": ("""
        index t : time(T)
        index h : head(H)
        index g : head(G)
        map π(h) = ceil(h G / H) : g
        input x_{t h}
        output y_{t g} = Σ_{h, π(h) = g} x_{t h}
    """, {"T": 4, "H": 5, "G": 2}, {}),
    "gather": ("""
        index t : time(T)
        index f : feature(D)
        index v : vocab(0..V-1)
        input w_t : int
        weight E_v^f
        output y_t^f = E_{w_t}^f
    """, {"T": 9, "D": 3, "V": 5}, {"w": ("0", "V-1")}),
    "gather_sum": ("""
        index t, s : time(T)
        index f : feature(D)
        index v : vocab(V)
        input w_t : int
        input x_t^f
        weight E_v^f
        output y_t^f = Σ_{s ≤ t} E_{w_s}^f x_s^f
    """, {"T": 9, "D": 3, "V": 5}, {"w": ("1", "V")}),
    "gather_pages": ("""
        index t : time(T)
        index s : time(S)
        index p : time(P)
        index d : feature(D)
        input page_p : int
        input k_s^d, q_t^d
        output y_t = Σ_p q_t^d k_{page_p d}
    """, {"T": 9, "D": 3, "P": 4, "S": 6}, {"page": ("1", "S")}),
    # shifts
    "shift_restricted": ("index t, s : time(T)\ninput x_t\noutput y_t = Σ_{s, s + 1 ≤ t} x_{s+1} x_s", TIME, {}),
    "shift_indicator": ("index t : time(T)\ninput x_t\ny_t = 1[t + 1 ≤ T] x_{t+1} - x_t\noutput y_t : all", TIME, {}),
    "shift_max": ("""
        index t : time(T)
        index j : feature(n)
        input x_t
        weight c_j
        output y_t = Σ_j c_j x_{max(t - j + 1, 1)}
    """, {"T": 9, "n": 3}, {}),
    "shift_gated": ("""
        index t, s : time(T)
        index f : feature(D)
        input x_t, w_f
        y_t = Σ_f (Σ_s 1[s = t + 1] x_s) w_f
        output y_t : all
    """, {"T": 9, "D": 3}, {}),
    "shift_min": ("index t : time(T)\ninput x_t\ny_t = x_{min(t + 2, T)} x_t\noutput y_t : all", TIME, {}),
    "convolution": ("""
        index t : time(T)
        index j : feature(n)
        index f : feature(D)
        input x_t^f
        weight c_j^f
        output y_t^f = Σ_{j, j ≤ t} c_j^f x_{t - j + 1}^f
    """, {"T": 9, "n": 3, "D": 2}, {}),
    # composites and direct sums
    "composite": ("""
        index i : feature(n)
        index a : feature(3)
        index x : feature(3 n) = (i a)
        index t : time(T)
        input q_t^x
        weight w^i, v^a
        output y_t^{(i a)} = q_t^{(i a)} w^i v^a
    """, {"T": 4, "n": 2}, {}),
    "composite_merge": ("""
        index h : head(H)
        index d : feature(D)
        index f : feature(H D) = (h d)
        index t : time(T)
        input y_{t h}^d
        output z_t^{(h d)} = 2 y_{t h}^d
    """, {"T": 4, "H": 3, "D": 2}, {}),
    "direct_sum": (f"""{SUM}
        input a_t^c, b_t^r
        q_t^e = a_t^c ⊕ b_t^r
        output y_t = Σ_{{s ≤ t}} q_t^e q_{{s e}}
    """, PARTS, {}),
    "direct_out": (f"{SUM}input a_t^c, b_t^r\noutput q_t^e = 2 a_t^c ⊕ b_t^r exp(b_t^r)", PARTS, {}),
    "direct_in": (f"{SUM}input q_t^e, a_t^c, b_t^r\noutput y_t = q_t^c a_{{t c}} + q_t^r b_{{t r}}", PARTS, {}),
    "direct_weights": (f"""{SUM}
        index f : feature(C) = (i b)
        index i : feature(C / 2)
        index b : feature(2)
        input x_t^f, u_i
        weight W_f^e, v_c
        output y_t^r = x_t^f W_f^r
        output z_t^b = x_t^{{(i b)}} u_i
        output w_t = x_t^f W_f^c v_c
    """, {**PARTS, "C": 4}, {}),
    # rows that are needed again after a fold along them
    "row_weights": ("""index t : time(T)
        index x : expert(E)
        index f : feature(F)
        input G_t^x
        weight W_x^f
        p_t^x = softmax_x(G_t^x)
        output y_t^f = p_t^x W_x^f
        output z_t = max_x p_t^x
    """, {"T": 5, "E": 4, "F": 3}, {}),
    "row_twice": ("""index t, s : time(T)
        index f : feature(F)
        input x_t^f, r_t^f
        weight g^f
        h_t^f = x_t^f + r_t^f
        output y_t^f = g^f LN(RMSNorm(h_t^f)) + h_t^f
        c_{t s} = h_t^f h_{s f}
        output c_{t s} : all
    """, {"T": 5, "F": 7}, {}),
    "row_and_product": ("""index t, s : time(T)
        index f : feature(F)
        input x_t^f, M_{t s}
        s_t = Σ_f (x_t^f)^2
        c_t = Σ_{s ∈ 1..T} M_{t s} s_s
        y_t^f = x_t^f s_t / (1 + c_t^2)
        output y_t^f : all
    """, {"T": 5, "F": 7}, {}),
    "row_elsewhere": ("""index t, s : time(T)
        index f : feature(F)
        input x_t^f
        s_t = Σ_f exp(x_t^f)
        y_{t s}^f = x_t^f exp(x_s^f) / s_s
        output y_{t s}^f : all
    """, {"T": 5, "F": 7}, {}),
    # masks
    "mask_causal": (_masked("s ≤ t"), HEADS, {}),
    "mask_strict": (_masked("s < t"), HEADS, {}),
    "mask_all": (_masked("all"), HEADS, {}),
    "mask_future": (_masked("s ≥ t", suffix=" : all"), HEADS, {}),
    "mask_window": (_masked("s ∈ (t - W, t]", "dim W"), {**HEADS, "W": 4}, {}),
    "mask_window_behind": (_masked("s ∈ [t - W, t - 2]", "dim W"), {**HEADS, "W": 4}, {}),
    "mask_prefix": (_masked("s ≤ t or s ≤ p", "input p : int", " : all"), HEADS, {"p": ("1", "T")}),
    "mask_and_not": (_masked("s ≤ t and not (s = t and t > 2)"), HEADS, {}),
    "mask_parity": (_masked("s ≤ t, mod(t - s, 2) = 0"), HEADS, {}),
    "mask_documents": (_masked("s ≤ t, doc_s = doc_t", "input doc_t : int"), HEADS, {"doc": ("1", "3")}),
    "mask_pages": (_masked("s ≤ t, floor((s - 1) / P) = floor((t - 1) / P)", "dim P"), {**HEADS, "P": 4}, {}),
    "mask_sinks": (_masked("s ≤ t, s ≤ 2 or s > t - W", "dim W"), {**HEADS, "W": 3}, {}),
    "mask_strided": (_masked("s ≤ t, s > t - W or mod(s, 3) = 0", "dim W"), {**HEADS, "W": 3}, {}),
    "mask_not_one": (_masked("s ≤ t, s ≠ t - 1"), HEADS, {}),
    "mask_empty": (_masked("s ≤ t, t > 4"), HEADS, {}),
    "mask_by_data": (_masked("s ≤ t, s < cut_t", "input cut_t : int"), HEADS, {"cut": ("0", "T")}),
    "mask_two": (_masked("s ≤ t").replace("mask L", "mask L_{t s}^{(h)} : s > t - 4\n        mask L"), HEADS, {}),
    # cascades
    "capped": ("""
        index t, s : time(T)
        index d : feature(D)
        input q_t^d, v_s
        mask L_{t s} : s ≤ t
        L_{t s} = softcap(q_t^d q_{s d}, 5)
        output y_t = Σ_s softmax_s(L_{t s}) v_s
    """, {"T": 11, "D": 3}, {}),
    "sink": ("""
        index t, s : time(T)
        index h : head(H)
        index d : feature(D)
        input q_{t h}^d, v_{s h}
        weight b_h
        mask L_{t s}^{(h)} : s < t
        L_{t s}^{(h)} = q_{t h}^d q_{s h d}
        output y_{t h} = Σ_s softmax_sink_s(L_{t s}^{(h)}, b_h) v_{s h}
    """, HEADS, {}),
    "bias": ("""
        index t, s : time(T)
        index h : head(H)
        input x_t
        m_h = 2^{-8 h / H}
        mask L_{t s}^{(h)} : s ≤ t
        L_{t s}^{(h)} = x_t x_s - m_h (t - s)
        output y_{t h} = Σ_s softmax_s(L_{t s}^{(h)}) x_s
    """, {"T": 11, "H": 3}, {}),
    "bias_of_positions": ("index n : batch(N)\nindex t, s : time(T)\nindex k : feature(d)\ninput q_{n t}^k\n"
                          "output y_{n t} = logsumexp_{s ≤ t}(q_{n t}^k q_{n s k} + log(1 + t - s))",
                          {"N": 2, "T": 7, "d": 3}, {}),
    "logsumexp": ("index t, s : time(T)\ninput x_t\noutput y_t = logsumexp_{s < t}(x_t x_s)", TIME, {}),
    "moments": ("""
        index t, s : time(T)
        input x_t
        mu_t = Σ_{s ≤ t} x_s / t
        output y_t = 1 + Σ_{s ≤ t} (x_s - mu_t)^2 / t
    """, TIME, {}),
    "moments_of_weights": ("""
        index t, s : time(T)
        input w_t, x_t
        n_t = Σ_{s ≤ t} w_s w_s
        μ_t = (Σ_{s ≤ t} w_s w_s x_s) / n_t
        output y_t = Σ_{s ≤ t} w_s w_s (x_s - μ_t)^2
    """, TIME, {}),
    "tiles_without_points": ("""
        index t, s : time(T)
        index h : head(H)
        dim W
        input x_t, q_{t h}
        input r_t : int
        y_{t h} = Σ_s softmax_{s, h ≤ s, r_s = r_t}(x_s + x_t) x_s
        output y_{t h} : all
        z_t = max_{s ≤ t + W} x_s
        u_{t h} = Σ_s softmax_{s ≤ t + W}(x_s) q_{s h}
        output z_t : all
        output u_{t h} : all
    """, {"T": 5, "H": 9, "W": 3}, {"r": ("1", "2")}),
    "one_value_in_two_kernels": ("""
        index t, s : time(T)
        index h : head(H)
        input q_{t h}, k_{s h}, x_t, z_t
        input doc_t : int
        weight c_h
        a_{t h} = max_{s, s ≤ t, s ≥ t} abs(q_{t h} k_{s h})
        b_{t h} = Σ_{s, s ≤ t, s ≥ t} (q_{t h} k_{s h} / a_{t h})^2
        y_{t h} = Σ_s softmax_{s, s < doc_t and doc_t > 1, t > 2}(c_h + x_s) (max(b_{t h}, x_t))
        u_{t h} = min(max(min_{s ≤ t} (y_{s h} b_{t h} / (1 + abs(q_{t h} k_{s h}))), -9), 9)
        output y_{t h} : all
        output u_{t h} : all
    """, {"T": 11, "H": 2}, {"doc": ("1", "3")}),
    "least_of_a_sum": ("""
        index t, s : time(T)
        index h : head(H)
        input x_{t h}, z_t
        y_{t h} = Σ_{s ≤ t} x_{s h}
        u_{t h} = min_{s ≤ t} (z_s + 2 y_{t h})
        output v_{t h} = Σ_{s ≤ t} exp(u_{t h} - abs(z_s))
    """, HEADS, {}),
    "softmax_of_softmax": ("""
        index t, s, u : time(T)
        input x_t, v_t
        mask L_{t s} : s ≤ t
        L_{t s} = x_t x_s
        y_t = Σ_s softmax_s(L_{t s}) v_s
        mask M_{t s} : s ≤ t
        M_{t s} = y_t y_s
        output z_t = Σ_s softmax_s(M_{t s}) y_s
    """, TIME, {}),
    "attention_weights": ("""
        index t, s : time(T)
        input x_t
        mask L_{t s} : all
        L_{t s} = x_t x_s
        output A_{t s} = softmax_s(L_{t s})
    """, TIME, {}),
    "gates_in_gates": ("index t : time(T)\ninput x_t\noutput y_t = 1[t > 2] (1[t < 5] x_t) + 1[t < 3] (x_t 1[t > 1] "
                       "x_t)",
                       TIME, {}),
    "positions_behind": ("""
        index t, s : time(T)
        index h : head(H)
        index d : feature(D)
        input q_{t h}^d, k_{s h}^d, v_{s h}^d, b_t
        mask L_{t s}^{(h)} : s ≤ t - 3
        L_{t s}^{(h)} = q_{t h}^d k_{s h d} + b_t b_s
        output y_{t h}^d = Σ_s softmax_s(L_{t s}^{(h)}) v_{s h}^d
    """, {"T": 7, "H": 2, "D": 3}, {}),
    "one_projection": ("""
        index t, s : time(T)
        index h : head(H)
        index d, e : feature(D)
        index k : feature(d_k)
        input X_t^d
        weight W_{K d h}^k, W_{O h k}^e
        mask L_{t s}^{(h)} : s ≤ t
        L_{t s}^{(h)} = X_t^d W_{K d h}^k X_s^e W_{K e h k} / √d_k
        A_{t s}^{(h)} = softmax_s(L_{t s}^{(h)})
        output Y_t^e = tanh(Σ_h Σ_s A_{t s}^{(h)} X_s^d W_{K d h}^k W_{O h k}^e)
    """, {"T": 7, "H": 2, "D": 5, "d_k": 3}, {}),
    "one_term_two_domains": ("""
        index t, s : time(T)
        input x_t, z_t
        y_t = Σ_{s ≤ t} exp(x_t x_s) z_s + Σ_{s ≥ t} exp(x_t x_s) z_s
        output y_t : all
    """, TIME, {}),
    # functions
    "cross_entropy": ("index t : time(T)\nindex v : vocab(0..V-1)\ninput o_t^v\ninput w_t : int\noutput y_t = "
                      "CE(o_t^v, w_t)",
                      {"T": 4, "V": 6}, {"w": ("0", "V-1")}),
    "loss": ("""
        index t : time(T)
        index v : vocab(0..V-1)
        index f : feature(D)
        input x_t^f
        input w_t : int
        weight W_f^v
        O_t^v = x_t^f W_f^v
        output l = Σ_t CE(O_t^v, w_t)
    """, {"T": 4, "V": 6, "D": 3}, {"w": ("0", "V-1")}),
    "activations": ("""
        index t : time(T)
        index f : feature(D)
        input x_t^f
        output y_t^f = gelu(x_t^f) + gelu_tanh(x_t^f) silu(x_t^f) - relu(x_t^f)
    """, {"T": 4, "D": 3}, {}),
    "primitives": ("""
        index t : time(T)
        input x_t
        output y_t = sqrt(abs(x_t)) + log(1 + x_t^2) - sin(x_t) cos(x_t) / (2 + tanh(x_t)) + erf(x_t)
        output z_t = min(x_t, 1/2, 2 x_t) + floor(t / 2) - mod(t, 3) + x_t^3 + 2^{-t} + ceil(x_t)
    """, TIME, {}),
    # folds
    "folds": ("""
        index t, s : time(T)
        input x_t
        output y_t = prod_{s ≤ t} x_s
        output z_t = max_{s < t} x_s
        output u_t = min_{s ≤ t} (x_s x_t)
    """, TIME, {}),
    "fold_features": ("""
        index t : time(T)
        index f : feature(D)
        input x_t^f
        output y_t = max_f x_t^f - min_f x_t^f + prod_f x_t^f
    """, {"T": 4, "D": 5}, {}),
    "batch": ("""
        index n : batch(B)
        index t, s : time(T)
        index f : feature(D)
        input x_{n t}^f
        output y_{n t}^f = Σ_{s ≤ t} x_{n s}^f / t
    """, {"B": 3, "T": 5, "D": 2}, {}),
    "no_mask": ("index t : time(T)\nindex f, g : feature(D)\ninput x_t^f\nweight w_f\noutput y^f = Σ_t x_t^g x_t^f w_g",
                {"T": 5, "D": 3}, {}),
    "prefix_sum": ("index t, s : time(T)\nindex f : feature(D)\ninput x_t^f\noutput y_t^f = Σ_{s ≤ t} x_s^f",
                   {"T": 9, "D": 3}, {}),
    "two_outputs": ("index t, s : time(T)\ninput x_t\noutput y_t = Σ_{s ≤ t} x_s\noutput z_t = exp(y_t)", TIME, {}),
    "scalar": ("index t : time(T)\ninput x_t\ninput c\noutput y = c Σ_t x_t^2", TIME, {}),
    "constant": ("index t : time(T)\ninput x_t\noutput y_t = x_t\noutput z_t = 3", TIME, {}),
    "count": ("""
        index t, s : time(T)
        input doc_t : int
        input x_t
        y_t = x_t Σ_{s ≤ t, doc_s = doc_t} 1
        output y_t : all
    """, TIME, {"doc": ("1", "3")}),
    "linear_attention": ("""
        index t, s : time(T)
        index d, e : feature(D)
        input q_t^d, k_t^d, v_t^e
        S_t^{d e} = Σ_{s ≤ t} k_s^d v_s^e
        output y_t^e = q_t^d S_{t d}^e
    """, {"T": 9, "D": 3}, {}),
    # smallest programs that were once wrong
    "power_of_nothing": ("""
        index t, s : time(T)
        input x_t
        output y_t = x_t + Σ_{s, s ≤ t, s ≠ 1} (x_s - x_s)^2 + Σ_{s, s ≤ t, s ≠ 1} (1/2)^2
    """, TIME, {}),
    "exact_factor": ("""
        index t, s : time(T)
        input z_t
        yb_t = Σ_{s ≠ t} 1
        yc_t = (Σ_{s ≠ t} (t - s) / 2 z_s) / yb_t
        output yd_t = (Σ_{s ≠ t} ((t - s) / 2 z_s - yc_t)^2) / yb_t : all
    """, TIME, {}),
    "carried_twice": ("""
        index t, s : time(T)
        input x_t, z_t
        a_t = Σ_s softmax_{s < t}(x_s) z_s
        output y_t = abs(a_t / (1 + abs(a_t)))
        output a_t
    """, TIME, {}),
    "number_max": ("index t, s : time(T)\ninput x_t\noutput y_t = x_t + max_{s < t} 1", TIME, {}),
    "unread": ("index t, s : time(T)\ninput x_t, z_t\noutput y_t = x_t + Σ_{s ≤ t} (1/2 - 0.5) z_s", TIME, {}),
    "reciprocal": ("index t, s : time(T)\ninput x_t\noutput y_t = 1 / x_t + Σ_{s ≤ t} abs(0.5 / x_s)", TIME, {}),
    "places": ("index t, s : time(T)\ninput x_t\noutput y_t = Σ_{s ≤ t} s x_s + Σ_{s ≤ t} (t - s)^2", TIME, {}),
    "difference": ("""
        index t, s : time(T)
        input x_t, z_t
        m_t = max_{s ≥ t} abs(x_t * (z_s - z_s))
        y_t = Σ_{s ≥ t} m_t^2
        output y_t : all
    """, TIME, {}),
    "value_twice": ("index t, s : time(T)\ninput q_t, k_s, x_t\noutput y_t = Σ_{s ≤ t} (x_s - (q_t k_s + abs(q_t "
                    "k_s)))", TIME, {}),
    "constant_sum": ("index t, s : time(T)\ninput x_t\noutput y_t = x_t + Σ_{s < t} 0.5", TIME, {}),
    "constant_max": ("index t, s : time(T)\ninput x_t\noutput y_t = max_{s < t} x_t\noutput z_t = min_{s ≤ t} x_t",
                     TIME, {}),
    "constant_prod": ("index t, s : time(T)\ninput x_t\noutput y_t = prod_{s < t} x_t", TIME, {}),
    "constant_mean": ("index t, s : time(T)\ninput x_t\nn_t = Σ_{s < t} 1\noutput y_t = x_t + Σ_{s < t} 0.5 / n_t",
                      TIME, {}),
    "constant_gated": ("index t, s : time(T)\ninput x_t\noutput y_t = Σ_s 1[s ≤ t, t > 2] x_t", TIME, {}),
    "constant_of_weights": ("index t, s : time(T)\ninput x_t\noutput y_t = Σ_s softmax_{s < t}(x_s) x_t", TIME, {}),
    "value_in_weights": ("""
        index t, s : time(T)
        input q_t, k_s, x_t
        output y_t = Σ_s softmax_{s ≤ t}(abs(q_t k_s) + x_s) abs(q_t k_s)
    """, TIME, {}),
    "whole_exponents": ("""
        index t, s : time(T)
        input x_t
        m_t = Σ_{s < t} x_s
        output y_t = Σ_{s < t} exp(s / 2 - m_t)
    """, TIME, {}),
    "whole_max": ("index t, s : time(T)\ninput x_t\noutput y_t = x_t + max_{s ≤ t} (t - s)", TIME, {}),
    "whole_max_empty": ("index t, s : time(T)\ninput x_t\nm_t = max_{s < t} (t - s)\noutput y_t = x_t + m_t", TIME, {}),
    "empty_reference": ("""
        index t, s : time(T)
        input x_t
        m_t = max_{s < t} x_s
        output y_t = Σ_{s < t} exp(1 - m_t)
        output z_t = Σ_{s < t} x_s m_t
    """, TIME, {}),
    "positions_after": ("""
        index t, s : time(T)
        input x_t
        m_t = max_{s, t + s ≤ T} x_s
        y_t = Σ_{s, t + s ≤ T} exp(x_s - m_t) 1[t > 1] x_t
        output y_t : all
    """, TIME, {}),
    "infinite_within": ("""
        index t, s, u : time(T)
        dim W
        input x_t, z_t
        m_t = max_{s < t} x_s
        output y_t = Σ_{s, s ≤ t, s > t - W} m_s z_t
        output w_t = Σ_{s < t} z_s / Σ_{u < s} 1
    """, {"T": 11, "W": 3}, {}),
    "two_runs": ("""
        index t, s : time(T)
        index h : head(H)
        index g : head(G)
        index d : feature(D)
        map π(h) = ceil(h G / H) : g
        map μ(h) = mod(h - 1, G) + 1 : g
        input q_{t h}^d, k_{s g}^d
        weight c_g
        m_{t h} = max_{s ≤ t} (abs(q_{t h}^d k_{s, π(h) d}) + abs(c_{μ(h)}))
        output y_{t h} = Σ_{s ≤ t} ((abs(q_{t h}^d k_{s, π(h) d}) + abs(c_{μ(h)})) / m_{t h})^2
        output m_{t h}
    """, {"T": 7, "H": 4, "G": 2, "D": 2}, {}),
    "waiting": ("""
        index t, s : time(T)
        input x_t, b_{t s}
        m_t = max_{s ≥ t} x_s
        y_t = Σ_{s ≥ t} max(b_{t s}, x_t) / (1 + abs(m_t))
        z_t = Σ_{s ≥ t} (max(b_{t s}, x_t) / (1 + abs(m_t)) - y_t)^2
        output z_t : all
    """, TIME, {}),
    "exact_and_whole": ("""
        index t, s : time(T)
        input doc_t : int
        input x_t
        a_t = max_{s ≤ t} (s / 2)
        output y_t = x_t + Σ_{s ≤ t} a_t doc_s
    """, TIME, {"doc": ("1", "3")}),
    "added_to_a_number": ("""
        index t, s : time(T)
        index h : head(H)
        input x_t, z_{t h}
        weight c_h
        output y_{t h} = Σ_{s ≤ t} max(1 + c_h x_s, z_{t h})
    """, {"T": 7, "H": 3}, {}),
    "nothing_below": ("""
        index t, s : time(T)
        input x_t, z_t
        a_t = Σ_s softmax_{s < t}(x_s) z_s
        output y_t = Σ_{s < t} a_t x_s^2
        output a_t
    """, TIME, {}),
    "names_of_sizes": ("index n : batch(B)\nindex h : head(H)\ninput B_n, H_{n h}\noutput y_h = Σ_n B_n H_{n h}",
                       {"B": 3, "H": 2}, {}),
    "running_apart": ("""
        index t : time(T)
        index s : time(S)
        index u : time(T)
        dim W
        input x_s, z_t
        output y_t = Σ_{s ≤ t + W} x_s
        output m_t = max_{s ≥ t - W} (-abs(x_s))
        p_t = z_t prod_{u ≤ t + W} z_u
        output p_t : all
    """, {"T": 11, "S": 17, "W": 3}, {}),
    "packs_on_both_sides": ("""
        index t, s : time(T)
        index h : head(H)
        index c : feature(C)
        index d : feature(D)
        index f : feature(F)
        input q_{t h}^c, k_s^c, v_s^{d f}
        mask L_{t s}^{(h)} : s ≤ t
        L_{t s}^{(h)} = q_{t h}^c k_{s c}
        output y_{t h}^{d f} = Σ_s softmax_s(L_{t s}^{(h)}) v_s^{d f}
    """, {"T": 11, "H": 3, "C": 4, "D": 3, "F": 5}, {}),
    "beyond_32_bits": ("""
        index t, s : time(T)
        dim W
        input x_t
        output y_t = x_t + mod(t 3000000019, 97) + t 5000000000 / 3000000000
        output z_t = Σ_{s ≤ t} x_s mod((s + W) (t + W), 7)
        output u_t = Σ_{s, 100 W W s ≥ (100 W W - 1) t, s ≤ t, t < 3000000000} x_s
        output w_t = Σ_{s ≤ t} x_s mod((t + W + s - s)^2, 1009)
    """, {"T": 11, "W": 50000}, {}),
    "over_a_negative": ("""
        index t, s : time(T)
        input x_t
        input n_t : int
        output y_t = x_t + floor(t / (n_t - 7)) + mod(t, n_t - 7) + floor(t / (-3)) + mod(t - 4, n_t)
        output z_t = Σ_{s ≤ t, mod(s, n_t - 7) = mod(t, n_t - 7)} x_s
    """, TIME, {"n": ("1", "5")}),
    "turned_part": ("""
        index t : time(T)
        index c : feature(C)
        index i, j : feature(d / 2)
        index a, b : feature(2)
        index x, y : feature(d) = (i a)
        index e : feature = x ⊕ c
        input q_t^x, p_t^c, k_t^e
        θ_i = 100^{-2 (i - 1) / d}
        R_{t (i a)}^{(j b)} = δ_i^j (cos(t θ_i) δ_a^b + sin(t θ_i) ε_a^b)
        output z_t^e = q_t^y R_t_y^x ⊕ p_t^c
        output u_t^y = k_t^x R_t_x^y
    """, {"T": 7, "C": 3, "d": 6}, {}),
    "every_other": ("""
        index n : batch(B)
        index t : time(T)
        index g : head(G)
        index h : head(2 G)
        input x_{n h t}, m_g
        output y_{n g t} = m_g x_{n, 2 g, t} - x_{n, 2 g - 1, t}
    """, {"T": 5, "B": 2, "G": 3}, {}),
    "mask_of_parts": ("""
        index y, v : time(M)
        index x, u : time(C)
        index t, s : time(M C) = (y x)
        index d : feature(D)
        dim W
        input q_t^d, k_s^d, v_s^d
        mask L_{(y x) (v u)} : abs(y - v) ≤ W, abs(x - u) ≤ W
        L_{(y x) (v u)} = q_{(y x)}^d k_{(v u) d}
        output z_t^d = Σ_s softmax_s(L_{t s}) v_s^d : all
        output w_{(y x)} = Σ_s L_{(y x) s} : all
    """, {"M": 3, "C": 4, "D": 2, "W": 1}, {}),
    "packed_sums": ("""
        index r : request(R)
        index t, s : time(T_r)
        input x_{r t}, m_r
        output y_{r t} = m_r (x_{r t} - 1/T_r Σ_s x_{r s}) : all
        output z_r = max_t x_{r t}
        output u = Σ_r m_r Σ_t t x_{r t}
    """, {"T_sum": 11, "R": 4}, {}),
    "packed_shift": ("""
        index r : request(R)
        index t, s : time(T_r)
        input x_{r t}
        mask w_{r t s} : s ∈ (t - 3, t]
        w_{r t s} = x_{r t} x_{r s} - (t - s)
        z_{r t} = 1[t ≥ 2] x_{r, t-1}
        output y_{r t} = Σ_s softmax_s(w_{r t s}) x_{r s} + z_{r t} x_{r t} + sin(t)
    """, {"T_sum": 11, "R": 4}, {}),
    "distances": ("""
        index t, s : time(T)
        index f : feature(D)
        input x_t^f
        output y_t = min_{s < t} Σ_f (x_t^f - x_s^f)^2
    """, {"T": 9, "D": 3}, {}),
    # calls of specs, rounds in order
    "call": ("""
        index n : batch(B)
        index t : time(T)
        index f : feature(D)
        input x_{n t}^f
        weight u_f^g
        index g : feature(D)
        output y_{n t}^f = attention(X = x_{n t}^g u_g^f) + x_{n t}^f
    """, {"B": 2, "T": 7, "D": 5, "d_model": 5, "H": 2, "d_k": 4}, {}),
    "rounds": ("""
        index t, s : time(T)
        index f, g : feature(D)
        use "rope"
        input x_t^f, c_t
        h_t^f = x_t^f + 1
        k_t = c_t
        for ℓ in 1..N:
            weight W_{1 f}^d, W_{2 d}^g, m
            mask L_{t s} : s ≤ t
            q_t^k = h_t^f W_{1 f}^d R_t_d^k
            L_{t s} = m q_t^k q_{s k} + k_s
            h_t^g ← h_t^g + Σ_s softmax_s(L_{t s}) q_s^d W_{2 d}^g
            k_t ← (h_t^f c_t h_{t f} - ℓ) / √ℓ
        output h_t^f
        output z_t = k_t + 1
    """, {"T": 7, "D": 5, "d_k": 4, "N": 3}, {}),
    "rounds_of_numbers": ("""
        index t, s : time(T)
        index f : feature(D)
        input x_t^f
        input n_t : int
        h_t^f = x_t^f
        m_t = min(n_t + 1, t)
        for i in 0..N-1:
            h_t^f ← Σ_{s ∈ (t - i n_t - 1, t]} h_s^f 2^{s - t} + x_{m_t}^f
        k^f = max_t h_t^f
        for i in 1..M:
            k^f ← k^f / 2 + i
        output y_t^f = h_t^f : all
        output k^f
    """, {"T": 7, "D": 3, "N": 4, "M": 2}, {"n": ("0", "2")}),
}

TEXTS |= {
    # chance
    "dropped": ("""
        index n : batch(B)
        index t, s : time(T)
        index h : head(H)
        index d : feature(D)
        input q_{n t h}^d, k_{n s h}^d, v_{n s h}^d
        input p
        input seed : int
        mask L_{n t s}^{(h)} : s ≤ t
        L_{n t s}^{(h)} = 1/√D q_{n t h}^d k_{n s h d}
        A_{n t s}^{(h)} = dropout(softmax_s(L_{n t s}^{(h)}), p, seed)
        y_{n t h}^d = Σ_s A_{n t s}^{(h)} v_{n s h}^d
        output z_{n t h}^d = y_{n t h}^d + dropout(y_{n t h}^d, 1/3, seed + 1)
    """, {"B": 2, "T": 11, "H": 3, "D": 5}, {"seed": ("0", "7")}),
    "mixed_numbers": ("""
        index t, s : time(T)
        index n : batch(B)
        index i : feature(D)
        index a : feature(2)
        index x : feature(2 D) = (i a)
        input u_t, w_{n t}^x
        input seed, id_t : int
        output y_t = Σ_{s ≤ t, mod(hash(hash(seed, t), s), 3) = 1} u_s
        output z_{n t}^x = uniform(w_{n t}^x, seed) - uniform(w_{n t}^x, 5)
        output r_t = u_t uniform(3, 4) + chance(T, seed - 3000000000 id_t) + mod(hash(T, 7), 11)
    """, {"T": 9, "B": 2, "D": 3}, {"seed": ("0", "7"), "id": ("0", "9")}),
}


def _flush(text: str) -> str:
    """The text from the margin on; only what stands in a block is indented."""
    return dedent(text).strip() if "for " in text else "\n".join(line.strip() for line in text.strip().splitlines())


INLINE = [Case(name, _flush(text), sizes, ranges) for name, (text, sizes, ranges) in TEXTS.items()]

SPEC_SIZES: dict[str, dict[str, int]] = {
    "attention": MODEL,
    "attention_backward": {"T": 9, "H": 3, "d_k": 5},
    "alibi": MODEL,
    "gqa": {**MODEL, "H": 5, "G": 2},
    "sliding_window": {**MODEL, "W": 4},
    "cross_attention": {**MODEL, "U": 5},
    "linear_cross_entropy": {"T": 9, "d_model": 5, "V": 11},
    "llama_attention": {**MODEL, "B": 2, "H": 6, "G": 2},
    "rope": {"T": 7, "d_k": 6},
    "rope_half": {"T": 7, "d_k": 6},
    "causal": {"T": 7, "d_k": 4},
    "full": {"T": 5, "S": 7, "d_k": 4},
    "latest": {"T": 3, "P": 4, "d_k": 4},
    "sdpa": {"B": 2, "H": 3, "T": 9, "d_k": 5},
    "decode": {"B": 2, "H": 3, "T": 4, "S": 9, "d_k": 5},
    "mla": {**MODEL, "r": 5},
    "mla_decode": {"T": 4, "S": 9, "H": 3, "d_k": 6, "r": 5},
    "shared_logits": MODEL,
    "documents": {"B": 2, "H": 3, "T": 9, "d_k": 5},
    "sinks_window": {"B": 2, "H": 3, "T": 9, "d_k": 5, "W": 3},
    "block_diagonal": {"B": 2, "H": 3, "T": 9, "d_k": 5, "W": 4},
    "paged_window": {**MODEL, "P": 4, "N": 2},
    "dilated": {"B": 2, "H": 3, "T": 9, "d_k": 5, "W": 3, "D": 2},
    "blocks_before": {"N": 2, "H": 3, "T": 9, "S": 4, "d_k": 5, "B": 2},
    "prefix_lm": {"B": 2, "H": 3, "T": 9, "d_k": 5, "P": 4},
    "gated": {"H": 2, "T": 9, "d_k": 3, "d_v": 4},
    "linear": {"H": 2, "T": 9, "d_k": 3, "d_v": 4},
    "retention": {"H": 2, "T": 9, "d_k": 3, "d_v": 4},
    "three_loops": {"N": 9},
    "two_loops": {"N": 9},
    "one_loop": {"N": 9, "d_k": 5, "d_v": 3},
    "online_softmax": {"T": 9, "H": 3, "d_k": 5},
    "softcap": {"B": 2, "H": 3, "T": 9, "d_k": 5},
    "argmax_payload": {"T": 9, "D": 3},
    "collision": {"B": 3, "V": 7},
    "entropy": {"B": 3, "V": 7},
    "kl": {"B": 3, "V": 7},
    "min_plus": {"T": 9, "D": 3},
    "norm_projection": {"B": 3, "S": 7, "D": 4},
    "prefix": {"T": 9, "D": 3},
    "scaled_norm": {"T": 5, "S": 7},
    "two_domains": {"T": 9, "D": 3, "W": 4},
    "variance": {"T": 9},
    "preblock": {**MODEL, "d_ff": 11},
    "preblock_relu": {**MODEL, "d_ff": 11},
    "preblock_silu": {**MODEL, "d_ff": 11},
    "swiglu_block": {**MODEL, "d_ff": 11, "H": 5, "G": 2},
    "decoder_lm": {"B": 2, "T": 5, "d_model": 6, "H": 2, "d_k": 3, "d_ff": 7, "N": 2, "V": 5, "C": 4},
    "llama_lm": {"B": 2, "T": 5, "d_model": 6, "H": 4, "G": 2, "d_k": 2, "d_ff": 7, "N": 2, "V": 5},
    "gated_deltanet_lm": {"B": 2, "T": 5, "d_model": 6, "H": 2, "D": 3, "d_ff": 7, "N": 2, "V": 5},
    "gpt2_block": {**MODEL, "B": 2, "d_k": 5, "d_ff": 11},
    "attention_dropout": {**MODEL, "B": 2, "d_k": 5},
    "requests_packed": {"R": 4, "T_sum": 11, "H": 2, "d_k": 5},
    "requests": {"R": 3, "T": 7, "H": 2, "d_k": 5},
    "partial_rotary": {**MODEL, "d_c": 3},
    "yarn": {"T": 7, "d_k": 6},
    "yarn_dynamic": {"T": 7, "d_k": 6, "L": 5},
    "yarn_parts": {"T": 7, "d_k": 10, "L": 900},
    "alibi_any_heads": {**MODEL, "H": 5},
    "mtp": {"T": 9, "n": 3, "d_model": 5, "V": 11},
    "cross_attention_rope": {**MODEL, "U": 5},
    "mla_rope": {"T": 9, "d_model": 7, "H": 3, "d_k": 6, "d_h": 5, "r": 4, "r_Q": 3},
    "deepseek_attention": {"T": 9, "d_model": 7, "H": 3, "d_k": 6, "d_h": 5, "r": 4, "r_Q": 3},
    "qk_norm": FOUR,
    "sigmoid": FOUR,
    "softmax1": FOUR,
    "relu_squared": FOUR,
    "log_n": FOUR,
    "cosine": FOUR,
    "kerple": FOUR,
    "fire": {**FOUR, "w": 4},
    "head_windows": FOUR,
    "entropy_penalty": FOUR,
    "differential": {**FOUR, "d_v": 4},
    "relative_table": {**FOUR, "W": 3},
    "t5_bias": {**FOUR, "E": 3, "D": 7},
    "local_global": {**FOUR, "G": 2, "W": 2},
    "neighbourhood": {**FOUR, "T": 15, "C": 5, "W": 1},
    "perceiver": {"M": 3, "S": 9, "H": 3, "d_model": 7, "d_k": 5},
    "tanh_gate": {**MODEL, "U": 5},
    "rope_2d": {"R": 3, "C": 5, "d_k": 12},
    "rms_norm": {"T": 5, "d_model": 7},
    "layer_norm": {"T": 5, "d_model": 7},
    "group_norm": {"B": 2, "T": 5, "G": 3, "C": 2},
    "swiglu": {"T": 5, "d_model": 7, "d_ff": 11},
    "geglu": {"T": 5, "d_model": 7, "d_ff": 11},
    "reglu": {"T": 5, "d_model": 7, "d_ff": 11},
    "z_loss": {"T": 9, "d_model": 5, "V": 11},
    "focal": {"T": 9, "d_model": 5, "V": 11},
    "clip_loss": {"T": 9, "D": 3},
    "distillation": {"B": 3, "V": 7},
    **{name: {"T": 7, "d_model": 5, "d_ff": 6, "E": 7, "n": 3} for name in ("moe", "moe_swiglu")},
    "moe_shared": {"T": 7, "d_model": 5, "d_ff": 6, "d_s": 4, "E": 7, "n": 3},
    "moe_balance": {"T": 7, "d_model": 5, "E": 7, "n": 3},
    "deepseek_moe": {"T": 7, "d_model": 5, "d_ff": 6, "d_s": 4, "E": 9, "N": 3, "n": 4, "m": 2},
    "top_keys": {"B": 2, "H": 3, "T": 7, "d_k": 5, "n": 3},
    "expert_choice": {"T": 7, "d_model": 5, "d_ff": 6, "E": 3, "n": 3},
    "memory_layer": {"T": 7, "d_model": 5, "d_k": 3, "M": 9, "n": 3},
    "indexer": {"T": 9, "d_model": 7, "H_I": 3, "d_I": 5, "n": 4},
    "sparse_attention": {**MODEL, "H_I": 3, "d_I": 5, "n": 4},
    "ema": {"T": 9, "D": 3},
    "rg_lru": {"T": 9, "N": 2, "D": 3},
    "mamba1": {"T": 9, "D": 4, "N": 3, "R": 2},
    "ssd": {"T": 9, "H": 2, "P": 4, "N": 3},
    "ssd_sum": {"T": 9, "H": 2, "P": 4, "N": 3},
    **dict.fromkeys(("rwkv6", "rwkv7", "deltanet", "gla", "mlstm", "titans_momentum"), STATE),
    **{name: {"B": 2, **STATE} for name in ("gated_deltanet", "kda")},
    "longhorn": {"T": 9, "N": 3, "E": 4},
    **dict.fromkeys(("path", "deltaformer", "based"), STATE),
    **dict.fromkeys(("selective_attention", "forgetting_transformer", "stick_breaking"), FOUR),
    "softpick": FOUR,
    "performer": {**FOUR, "M": 4},
    "shaw": {**FOUR, "W": 3},
    "cope": {**FOUR, "M": 3},
    "simplicial": {**FOUR, "W_1": 4, "W_2": 3},
    "moba": {"N": 2, "H": 3, "T": 9, "d_k": 5, "B": 2, "n": 2},
    "nsa": {"T": 9, "G": 2, "R": 3, "D": 4, "E": 3, "B": 2, "n": 2, "W": 3},
    "deepseek_sparse": {"T": 5, "d_model": 7, "H": 2, "d_k": 6, "d_h": 5, "r": 4, "r_Q": 3, "H_I": 3, "d_x": 2, "n": 3},
    **{name: {"T": 9, "d_model": 7, "d_ff": 11} for name in ("fp8_ffn", "fp8_rowwise")},
    "fp8_step": {"T": 9, "d_model": 7, "d_ff": 11, "H": 3},
    "fp8_blockwise": {"T": 9, "N": 4, "P": 4, "M": 2},
    **{name: {"T": 9, "H": 3, "d_k": 5} for name in ("fp8_turned", "int8_cache")},
    "int4_linear": {"T": 9, "N": 4, "P": 4, "d_out": 5},
    "fp8_block": {"B": 2, "T": 5, "D": 2, "H": 2, "d_k": 3, "d_model": 4, "d_ff": 6},
    "fp8_lm": {"B": 2, "T": 5, "D": 2, "H": 2, "d_k": 3, "d_model": 4, "d_ff": 6, "N": 2, "V": 5, "C": 4},
    **{name: {"N": 4, "P": 4, "H": 3, "d_k": 5} for name in ("sage1", "sage2", "fp8_attention")},
}
SPEC_RANGES = {
    "attention_dropout": {"seed": ("0", "7")},
    **{name: {"w": ("0", "V-1")} for name in ("decoder_lm", "llama_lm", "fp8_lm", "gated_deltanet_lm")},
    "mtp": {"w": ("0", "V-1")},
    **{name: {"w": ("1", "V")} for name in ("linear_cross_entropy", "z_loss", "focal")},
    "documents": {"doc": ("1", "3")},
    "head_windows": {"W": ("1", "T")},
}



def is_module(text: str) -> bool:
    """Whether a spec returns something: claims without an output do not, nor what stands beside a paper."""
    if re.search(r"^section ", text, re.M):
        return False
    return re.search(r"^claim ", text, re.M) is None or re.search(r"^ *output ", text, re.M) is not None


SPEC_TEXTS = {path.relative_to(SPECS).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
         for path in sorted(SPECS.rglob("*.ein"))}
CLAIMS = [name for name, text in SPEC_TEXTS.items() if not is_module(text) and re.search(r"^claim ", text, re.M)]
FILES = [Case(stem, text, SPEC_SIZES.get(stem, {}), SPEC_RANGES.get(stem, {}))
         for name, text in SPEC_TEXTS.items() if is_module(text) for stem in [name.rpartition("/")[2]]]

CASES = [*INLINE, *FILES]
# What tests over all programs try without `--whole`: one of eight, in the order above, so that each kind is among them.
DRAWN = frozenset(case.name for case in CASES[::8])
