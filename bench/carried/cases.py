"""The cases of a GPU, in the order in which they matter: a budget may end before the last."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.attention import Attention, Mask
from bench.backward import Backward
from bench.carried.layers import Latents, Retention, Rotary
from bench.carried.paged import PAGE, PAGED, Paged
from bench.case import Case, Sizes, Tensors
from bench.cases import ALIBI, GQA, WINDOW, alibi, document_ids, documents, softcap, window
from bench.losses import LinearCrossEntropy

FULL = """
use "sdpa"
override mask L_{n h t s} : all
output Y_{n h t}^d : all
"""

GQA_DECODE = """
index n    : batch(B)
index h    : head(H)
index g    : head(G)
index t    : time(T)
index s    : time(S)
index d, k : feature(d_k)
map π(h) = ceil(h G / H) : g

input Q_{n h t}^d, K_{n g s}^d, V_{n g s}^d

mask L_{n h t s} : s ≤ t + S - T
L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n, π(h), s k}
output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n, π(h), s}^d
"""

LATENTS = """
index n    : batch(B)
index t    : time(T)
index s    : time(S)
index h    : head(H)
index ρ    : latent(r)
index d, k : feature(d_k)

input  q_{n t h}^d, L_{n s}^ρ
weight P_{h ρ}^d, Q_{h ρ}^d

K_{n s h}^d = L_{n s}^ρ P_{h ρ}^d
V_{n s h}^d = L_{n s}^ρ Q_{h ρ}^d

mask L_{n t s}^{(h)} : s ≤ t + S - T
L_{n t s}^{(h)} = 1/√d_k q_{n t h}^k K_{n s h k}
A_{n t s}^{(h)} = softmax_s(L_{n t s}^{(h)})
output Y_{n t h}^d = Σ_s A_{n t s}^{(h)} V_{n s h}^d
"""

ROTARY = """
use "rope"
index n : batch(B)
index h : head(H)
input x_{n h t}^d
output y_{n h t}^k = x_{n h t}^d R_t_d^k
"""


def sinks(sizes: Sizes, tensors: Tensors) -> Mask:
    width = sizes["W"]
    return lambda b, h, t, s: (s <= t) & ((s < 4) | (s > t - width))


KERNELS = ("sdpa-flash", "sdpa-cudnn", "sdpa", "flex", "flex-tuned", "flex-mask")
UNMASKED = ("sdpa-flash", "sdpa-cudnn", "sdpa", "flex", "flex-tuned")
MASKED = ("sdpa", "flex", "flex-tuned", "flex-mask")
WRITTEN = ("eager", "compiled")
BACKWARD = ("sdpa-flash", "sdpa-cudnn", "flex")


@dataclass(frozen=True)
class Measured:
    """A case at one size and in one type. `tiny` is for the interpreter; `bytes_bound` says which ceiling is meant."""

    case: Case
    sizes: Sizes
    tiny: Sizes
    rivals: tuple[str, ...]
    dtype: str = "bfloat16"
    bytes_bound: bool = False

    @property
    def name(self) -> str:
        """What `--case` takes."""
        D = f"-d{self.sizes['D']}" if self.sizes.get("D", 128) != 128 else ""
        D += "-b1" if self.sizes.get("B") == 1 else ""
        kind = "" if self.dtype == "bfloat16" else f"-{self.dtype}"
        return f"{self.case.name}-{self.sizes.get('S', self.sizes['T'])}{D}{kind}"

    def shrunk(self) -> Measured:
        """For the interpreter, which has no bfloat16."""
        return replace(self, sizes=self.tiny, dtype="float32")

    @property
    def kernel(self) -> str:
        """The file of the generated module."""
        return self.case.name.replace("-", "_")


def _square(T: int, **changes: int) -> Sizes:
    return {"B": 4, "H": 16, "T": T, "D": 128, **changes}


def _small(**changes: int) -> Sizes:
    return {"B": 1, "H": 2, "T": 24, "D": 8, **changes}


CAUSAL = Attention("causal", "causal", "sdpa", ())
ENTIRE = Attention("full", "every position sees all", FULL, (), mask=None)
SLOPES = Attention("alibi", "causal with ALiBi", ALIBI, (), score=alibi, additive=True)
CAPPED = Attention("softcap", "softcap 50", "gallery/softcap", (), score=softcap)
NEAR = Attention("window", "a window", WINDOW, (), asks=("W",), mask=window)
SINKS = Attention("sinks", "four sinks and a window", "gallery/sinks_window", (), asks=("W",), mask=sinks)
PACKED = Attention("documents", "packed documents", "gallery/documents", (), mask=documents, extra=document_ids)
GROUPS = Attention("gqa", "grouped queries 8:1", GQA, ())
DECODE = Attention("decode", "one query over a cache", "gallery/decode", (), mask=None)
GROUPED = Attention("decode-gqa", "one query over a cache, 8:1", GQA_DECODE, (), mask=None)
PAGES = Paged("paged", f"one query over pages of {PAGE}, 8:1", PAGED, (), mask=None)
BACK = Backward("causal-grad", "causal, forward and backward", "sdpa", ())
BACK_NEAR = Backward("window-grad", "a window, forward and backward", WINDOW, (), asks=("W",), mask=window)
LATENT = Latents("mla-decode", "one query over latents, absorbed", LATENTS, ())
LOSS = LinearCrossEntropy("cross-entropy", "linear cross-entropy", "linear_cross_entropy", ())
FADING = Retention("retention", "retention", "gallery/retention", ())
TURNED = Rotary("rotary", "rotary positions", ROTARY, ())

CASES: tuple[Measured, ...] = (
    Measured(CAUSAL, _square(8192), _small(), KERNELS),
    Measured(DECODE, {"B": 16, "H": 8, "T": 1, "S": 16384, "D": 128}, _small(T=1, S=40), (*UNMASKED, "eager"),
             bytes_bound=True),
    Measured(GROUPS, _square(8192, H=32, G=4), _small(H=4, G=1), KERNELS),
    Measured(SLOPES, _square(8192), _small(), MASKED),
    Measured(NEAR, _square(8192, W=1024), _small(W=5), MASKED),
    Measured(ENTIRE, _square(8192), _small(), UNMASKED),
    Measured(PACKED, _square(8192), _small(), MASKED),
    Measured(LATENT, {"B": 64, "H": 128, "T": 1, "S": 16384, "D": 128, "R": 512},
             {"B": 2, "H": 2, "T": 1, "S": 40, "D": 8, "R": 16}, ("sdpa", "flex", *WRITTEN), bytes_bound=True),
    Measured(GROUPED, {"B": 16, "H": 64, "G": 8, "T": 1, "S": 16384, "D": 128}, _small(H=4, G=1, T=1, S=40), UNMASKED,
             bytes_bound=True),
    *(Measured(GROUPED, {"B": 1, "H": 64, "G": 8, "T": 1, "S": S, "D": 128}, _small(H=4, G=1, T=1, S=S // 512),
               UNMASKED, bytes_bound=True) for S in (4096, 16384, 131072)),
    *(Measured(PAGES, {"B": B, "H": 64, "G": 8, "T": 1, "S": S, "D": 128}, _small(B=B // 8 + 1, H=4, G=1, T=1, S=100),
               UNMASKED, bytes_bound=True) for B, S in ((1, 4096), (1, 16384), (1, 131072), (16, 16384))),
    Measured(CAUSAL, _square(1024), _small(T=9), KERNELS),
    Measured(CAUSAL, _square(512), _small(T=8), KERNELS),
    Measured(CAPPED, _square(8192), _small(), ("flex", "flex-mask")),
    Measured(FADING, {"H": 64, "T": 16384, "D": 128}, {"H": 2, "T": 24, "D": 8}, WRITTEN, bytes_bound=True),
    Measured(TURNED, {"B": 4, "H": 32, "T": 8192, "D": 128}, _small(), WRITTEN, bytes_bound=True),
    Measured(CAUSAL, _square(8192, H=32, D=64), _small(D=4), KERNELS),
    Measured(CAUSAL, _square(4096), _small(), ("sdpa", "flex"), dtype="float32"),
    Measured(LOSS, {"T": 4096, "V": 131072, "F": 4096}, {"T": 20, "V": 40, "F": 12}, ("sdpa", *WRITTEN)),
    Measured(CAUSAL, _square(16384), _small(T=40), KERNELS),
    Measured(ENTIRE, _square(16384), _small(T=40), UNMASKED),
    Measured(SINKS, _square(8192, W=1024), _small(W=5), MASKED),
    Measured(BACK, _square(8192), _small(), BACKWARD),
    Measured(BACK, _square(8192, H=32, D=64), _small(D=4), BACKWARD),
    Measured(BACK, _square(2048), _small(T=17), BACKWARD),
    Measured(BACK_NEAR, _square(8192, W=1024), _small(W=5), ("sdpa", "flex")),
    Measured(CAUSAL, _square(4096), _small(T=17), KERNELS),
    Measured(ENTIRE, _square(4096), _small(T=17), UNMASKED),
)

BY_NAME = {case.name: case for case in CASES}

# What one call of the machine measures, of at most seven minutes: all kernels are checked before the first one's cases.
CALLS = {
    1: tuple(case.name for case in CASES if case.case is CAUSAL),
    2: tuple(case.name for case in CASES if case.case is not CAUSAL and not case.bytes_bound and not case.case.grad),
    3: tuple(case.name for case in CASES if case.bytes_bound or case.case.grad),
}
