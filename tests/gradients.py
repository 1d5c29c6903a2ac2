"""Gradients written by hand: a forward text that gives what is saved too, and the text of its backward."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from helpers import typed

from einc.driver import front, pipeline
from einc.ir.plan import Gradient, Module, SegmentedModule
from einc.ir.programs import NormalProgram
from einc.planning import chained, plan

_HEADS = """index h    : head(H)
index t, s : time(T)
index d, k : feature(d_k)
input Q_{h t}^k, K_{h s}^k, V_{h s}^d
"""
FORWARD = _HEADS + """mask L_{h t s} : s ≤ t
L_{h t s} = 1/√d_k Q_{h t}^k K_{h s k}
output Y_{h t}^d = Σ_s softmax_s(L_{h t s}) V_{h s}^d
output lse_{h t} = logsumexp_s(L_{h t s})
"""
BACKWARD = _HEADS + """input Y_{h t}^d, dY_{h t}^d, lse_{h t}, dlse_{h t}
mask P_{h t s} : s ≤ t
P_{h t s}  = exp(1/√d_k Q_{h t}^k K_{h s k} - lse_{h t})
Δ_{h t}    = Y_{h t}^d dY_{h t d} - dlse_{h t}
dL_{h t s} = P_{h t s} (V_{h s}^d dY_{h t d} - Δ_{h t})
output dQ_{h t}^k = 1/√d_k Σ_s dL_{h t s} K_{h s}^k
output dK_{h s}^k = 1/√d_k Σ_t dL_{h t s} Q_{h t}^k : all
output dV_{h s}^d = Σ_t P_{h t s} dY_{h t}^d : all
"""


def modules(forward: str, backward: str, name: str) -> tuple[Module, Module]:
    made = [front.plan(typed(text, f"specs/{name}.ein")) for text in (forward, backward)]
    return made[0], made[1]


def pairs(names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(names.items())


@cache
def weighted(shown: bool) -> Gradient:
    """Weighted means; with `shown` their log-sum-exp is a result as well, else it is merely saved."""
    backward = BACKWARD if shown else BACKWARD.replace(", dlse_{h t}", "").replace(" - dlse_{h t}", "")
    there, back = modules(FORWARD, backward, "weighted")
    cotangents = {"Y": "dY", "lse": "dlse"} if shown else {"Y": "dY"}
    saved, gradients = {"Y": "Y", "lse": "lse"}, {"Q": "dQ", "K": "dK", "V": "dV"}
    return Gradient(there, back, pairs(saved), pairs(cotangents), pairs(gradients))


_ROWS = """index t : time(T)
index v : vocab(0..V-1)
index f : feature(D)
dim W
input w_t : int
"""


@cache
def looked_up() -> Gradient:
    """Rows of a table by number, a size that no shape tells, and whole numbers as a result."""
    there, back = modules(
        _ROWS + "weight E_v^f\noutput n_t = 2 w_t\noutput y_t^f = W E_{w_t}^f",
        _ROWS + "input E_v^f, dy_t^f\noutput dE_v^f = Σ_t 𝟙[w_t = v] W dy_t^f + 0 E_v^f",
        "looked_up",
    )
    return Gradient(there, back, (), pairs({"y": "dy"}), pairs({"E": "dE"}))


_LAYERS = """index t : time(T)
index f, g : feature(D)
"""
LAYERS = _LAYERS + """input X_t^f
weight c^f, γ^f
U_t^f = c^f X_t^f
H_t^f = U_t^f + X_t^f
for n in 1..N:
    weight M_f^g
    H_t^g ← tanh(H_t^f M_f^g) + n U_t^g
output Y_t^f = H_t^f γ^f
"""
# For each piece, by what it makes: its backward, and the gradients that this gives.
_BACK = {
    "H_start": ("input X_t^f, c^f, dU_t^f, dH_t^f\noutput dX_t^f = (dU_t^f + dH_t^f) c^f + dH_t^f\n"
                "output dc^f = Σ_{t ∈ 1..T} (dU_t^f + dH_t^f) X_t^f", {"U": "dU", "H_start": "dH"},
                {"X": "dX", "c": "dc"}),
    "H_next": ("input M_f^g, U_t^g, H_t^f, dN_t^g\ninput n : int\nB_t^g = (1 - tanh(H_t^f M_f^g)^2) dN_t^g\n"
               "output dH_t^f = B_t^g M_{f g}\noutput dM_f^g = Σ_{t ∈ 1..T} H_{t f} B_t^g\noutput dU_t^g = n dN_t^g",
               {"H_next": "dN"}, {"H": "dH", "M": "dM", "U": "dU"}),
    "Y": ("input H_t^f, γ^f, dY_t^f\noutput dH_t^f = dY_t^f γ^f\noutput dgamma^f = Σ_{t ∈ 1..T} dY_t^f H_t^f",
          {"Y": "dY"}, {"H": "dH", "gamma": "dgamma"}),
}


@cache
def layers() -> SegmentedModule:
    """A program with rounds, of which each takes a weight of its own, its number, and a
    tensor that all rounds share."""

    def derive(piece: NormalProgram) -> Gradient:
        text, cotangents, made = next(_BACK[key] for _, key in piece.outputs if key in _BACK)
        return Gradient(plan(piece, piece.inputs()), front.plan(typed(_LAYERS + text)), (), pairs(cotangents),
                        pairs(made))

    program = typed(LAYERS, "specs/layers.ein")
    return chained(pipeline.normal(program), program.inputs(), derive)
