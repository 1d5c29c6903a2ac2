"""Random programs about shapes: folds over several indices, some of which no term has, extents of 0 and 1, masks of
several spans, sets, composites and direct sums. `One` picks one of its arguments: hypothesis, or a seeded generator.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from programs import Case

One = Callable[..., Any]

HEADER = """index t, s, u : time(T)
index h : head(H)
index d, e : feature(D)
index a : feature(2)
index x : feature(2 D) = (d a)
index p : feature(P)
index y : feature = d ⊕ p
dim W
input x_t, z_t, q_t^d, k_s^d, r_t^p, X_t^x
input doc_t : int
weight c_h
"""
RANGES = {"doc": ("1", "3")}
REACH = ["s ≤ t", "s < t", "s ≥ t", "s > t - W", "s ≠ t", "s ≤ t, s > t - W", "doc_s = doc_t", "s ≤ W", "s + W ≤ t",
         "2 s ≤ t + W"]
SPANS = ["s ≤ t or floor((s - 1) / W) = floor((t - 1) / W)", "s + 1 ≤ t or s ≥ W", "s ≤ W or s ≥ t",
         "s < t or s > T - W",
         "s ≤ t or s > t + W", "abs(s - t) ≥ W or s = t", "mod(s, W) = 0 or s ≤ t", "s ≤ min(t, W) or s ≥ max(t, W)",
         "doc_s ≤ doc_t or s = t", "s ≤ t or s ≥ 2 W or s = W", "floor(s / W) ≠ floor(t / W) or s = t",
         "s = t or s = t - W",
         "mod(s + t, W) = 0 or s = t", "s W ≤ t + W or s = t", "not (s > t and s < W)",
         "s ≤ t or mod(s, W) ≤ mod(t, W)"]


def domain(one: One) -> str:
    return str(one(*REACH, *SPANS))


def body(one: One) -> str:
    """A value at t and s, and maybe at d or h."""
    return str(one("x_s", "(x_t + x_s)", "x_t * z_s", "(x_t - c_h x_s)", "q_{s d}", "(q_{t d} + k_{s d})",
                   "tanh(x_s + t / 2)", "1",
                   "x_t", "(s - t) / 2", "(1.5 * t) * c_h", "exp(-abs(x_s - z_t))", "q_t^d k_{s d}", "c_h"))


def counted(one: One) -> list[str]:
    """A fold over s and others, whatever its body has of them."""
    op, inner = one("Σ", "Σ", "max", "min", "prod", "logaddexp"), body(one)
    others = [i for i in one(("d",), ("h",), ("d", "h"), ("u",), ("e",)) if not (i == "d" and "q_t^d" in inner)]
    free = [i for i in ("h", "d") if i not in others and not (i == "d" and "q_t^d" in inner)]
    left = "".join(f" {i}" for i in free if any(f"{read}{i}" in inner for read in ("c_", "_{t ", "_{s ")))
    more = one("", "", ", u ≤ s" if "u" in others else "", ", d ≤ t" if "d" in others else "")
    over = f"s, {''.join(f'{i}, ' for i in others)}{domain(one)}{more}"
    if not re.search(r"(?<![a-z])t(?![a-z])", f"{over} {inner}"):
        inner = f"({inner} + 0 x_t)"  # the left side has a letter that nothing else would have
    return [f"ya_{{t{left}}} = {op}_{{{over}}} ({f'tanh({inner})' if op == 'prod' else inner})",
            f"output ya_{{t{left}}} : all"]


def weighed(one: One) -> list[str]:
    """Weights of s under a mask, and what they weigh."""
    logits = one("q_t^d k_{s d}", "(x_t + x_s)", "x_t z_s", "(q_t^d k_{s d} - abs(s - t) / 2)", "(x_s + t / 3)")
    what, left = one(("z_s", ""), ("k_s^d", "^d"), ("(z_s + x_s)", ""), ("k_s^d", "^d"))
    kind = one("softmax", "softmax", "logsumexp", "sum")
    lines = [f"mask L_{{t s}} : {domain(one)}", f"L_{{t s}} = {logits}"]
    if kind == "softmax":
        return [*lines, f"ya_t{left} = Σ_s softmax_s(L_{{t s}}) {what}", f"output ya_t{left} : all"]
    if kind == "logsumexp":
        return [*lines, "la_t = max(logsumexp_s(L_{t s}), -9)",
                f"output ya_t = {one('la_t', 'la_t + x_t', 'la_t z_t')} : all"]
    return [*lines, f"ya_t{left} = Σ_s exp(-abs(L_{{t s}})) {what}", f"output ya_t{left} : all"]


def nested(one: One) -> list[str]:
    """A fold of positions read by another one, under another name."""
    first = one("max_{u, D} x_u", "Σ_{u, D} x_u x_t", "logsumexp_{u, D}(x_u x_t)",
                "logsumexp_{u, D}(x_u / (1 + abs(x_u)))",
                "Σ_{u, D} softmax_{u, D}(x_u) z_u",
                "logaddexp_{u, D} (x_u + z_t)").replace("D", _word("s", "u", domain(one)))
    second = one("Σ_s softmax_{s, D}(b_s + x_s) z_s", "Σ_{s, D} b_s x_t", "max_{s, D} (b_s + x_t)",
                 "Σ_{s, d, D} (b_s + x_t)",
                 "max(logsumexp_{s, D}(b_s x_s), -9)").replace("D", domain(one))
    bounded = _at_t(f"min(max({first}, -9), 9)")
    return [f"aa_t = {bounded}", one("b_t = aa_t", "b_t = 2 aa_t"), f"output ya_t = {_at_t(second)} : all"]


def _word(old: str, new: str, text: str) -> str:
    """The text with another word for one of its words."""
    return re.sub(rf"\b{old}\b|(?<=_){old}\b", new, text)


def _at_t(right: str) -> str:
    """A right side that has t."""
    return right if _word("t", "", right) != right else f"{right} + x_t"


def chosen(one: One) -> list[str]:
    """Sums over the elements of a set."""
    score = one("x_s", "x_s x_t", "(x_s + doc_s)", "(x_s - abs(s - t) / 2)")
    what, left = one(("x_s", ""), ("k_s^d", "^d"))
    if one(0, 1):
        return [f"set S_t = topk_{{s ≤ t}}({score}, W)", f"output ya_t{left} = Σ_{{s ∈ S_t}} {what} : all"]
    return [f"set S_t = topk_{{s ≤ t}}({score}, W)", "mask L_{t s} : s ∈ S_t", "L_{t s} = x_t + x_s",
            f"output ya_t{left} = Σ_s softmax_s(L_{{t s}}) {what} : all"]


def composed(one: One) -> list[str]:
    """A composite made of its parts, read whole, in part, or as a norm."""
    made = one("X_t^{(d a)} + 1", "X_t^{(d 1)} + a", "q_t^d a", "Σ_{s ≤ t} X_s^{(d a)}", "X_t^{(d a)} * t")
    read = one(("^x", "RMSNorm(v_t^x)"), ("^x", "LN(v_t^x)"), ("", "max_x v_t^x"), ("^x", "softmax_x(v_t^x)"),
               ("", "Σ_x (v_t^x)^2"), ("^d", "v_t^{(d 1)} - v_t^{(d 2)}"), ("^x", "Σ_{s ≤ t} v_s^x x_s"),
               ("^d", "softmax_d(v_t^{(d 2)})"), ("^x", "v_t^x / 2"))
    return [f"v_t^{{(d a)}} = {made}", f"output ya_t{read[0]} = {read[1]} : all"]


def joined(one: One) -> list[str]:
    """A direct sum, read whole or in part."""
    parts = one("q_t^d ⊕ r_t^p", "(2 q_t^d) ⊕ r_t^p", "q_t^d ⊕ (r_t^p x_t)", "k_t^d ⊕ (Σ_{s ≤ t} r_s^p)")
    read = one(("^y", "RMSNorm(v_t^y)"), ("^d", "2 v_t^d"), ("^y", "softmax_y(v_t^y)"), ("", "max_y v_t^y"),
               ("^p", "v_t^p x_t"),
               ("^y", "Σ_{s ≤ t} v_s^y x_s"), ("^y", "Σ_s softmax_{s ≤ t}(v_t^{y'} v_{s y'}) v_s^y"),
               ("", "Σ_{y s, s < t} v_s^y"))
    return [f"v_t^y = {parts}", f"output ya_t{read[0]} = {read[1]} : all"]


KINDS = (counted, counted, weighed, weighed, nested, chosen, composed, joined)


def shaped(one: One) -> Case:
    """A program of one of the kinds, and sizes for it."""
    lines = one(*KINDS)(one)
    return Case("shaped", HEADER + "\n".join(lines), sizes(one), RANGES)


def sizes(one: One) -> dict[str, int]:
    """Sizes at which something is empty, or single, or does not come out even in tiles."""
    return {"T": one(5, 9, 13, 1, 0, 2), "D": one(2, 3, 1, 0), "H": one(2, 1, 3, 0), "P": one(2, 1, 0),
            "W": one(2, 1, 3, 7, 20)}
