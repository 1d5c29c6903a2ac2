"""`einc run --hard`: inputs of many magnitudes, and errors held against those of an eager evaluation in the same type.

The truth is the interpreter in float64. Eager is the interpreter, too, with the result of every operation rounded
to the type at random, several times over: so it shows how far rounding alone takes this formula on these inputs,
and a result that no rounding could keep is not asked for. A result may be FUDGE times as far off. NaN and ∞ have
to stand exactly where float64 has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from einc.driver.commands import data
from einc.driver.commands.measure import Numbers
from einc.ir.programs import Program
from einc.meaning.interpret import interpret

MAGNITUDES = (0.0, 1e-6, 1.0, 100.0, 1e4, np.inf)
SIGNS = {"": 1.0, "-": -1.0, "±": 0.0}  # 0: of each element its own
BITS = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}  # of a mantissa
FUDGE, SEEDS, ALONE, TOGETHER, ROUNDINGS, LARGEST = 16.0, 2, 32, 12, 3, 16

Module = Callable[[Mapping[str, data.Array]], Mapping[str, data.Array]]
Kinds = Mapping[str, tuple[str, float]]  # the sign and the magnitude of each input that is drawn


@dataclass(frozen=True)
class Worst:
    """The largest error of one output, as a multiple of the eager one, and the inputs
    that made it; ∞ for a NaN or an ∞."""

    ratio: float = 0.0
    told: str = ""

    @property
    def good(self) -> bool:
        """Whether that passes."""
        return self.ratio <= FUDGE


@np.errstate(all="ignore")
def tried(program: Program, base: Mapping[str, data.Array], sizes: Mapping[str, int], dtype: str, seed: int,
          module: Module, step: Callable[[], None]) -> dict[str, Worst]:
    """The worst of each output over all draws; `base` has the inputs that keep their
    values, and the shapes of the others."""
    found = {name: Worst() for name, _ in program.outputs}
    usual = {k: _scale(x) for k, x in interpret(program, {k: data.exact(x) for k, x in base.items()}, sizes).items()}
    drawn = [t.key for t in program.inputs() if not t.integer and t.slots and not _bounded(program, t.key)]
    for number, kinds in enumerate(kinds for _ in range(SEEDS) for kinds in _kinds(drawn, np.random.default_rng(seed))):
        step()
        rng = np.random.default_rng((seed, number))
        inputs = {key: _of(x, *kinds[key], rng) if key in kinds else x for key, x in base.items()}
        exact = {key: data.exact(x) for key, x in inputs.items()}
        truth = interpret(program, exact, sizes)
        infinite = any(magnitude == np.inf for _, magnitude in kinds.values())
        if infinite and not all(np.isfinite(x).all() for x in truth.values()):
            continue  # ∞ is no value of these inputs, as it is of a logit that is masked
        eager = [interpret(program, exact, sizes, rounded=_rounding(dtype, rng)) for _ in range(ROUNDINGS)]
        for name, tensor in module(inputs).items():
            ratio, what = _ratio(data.exact(tensor), truth[name], [e[name] for e in eager], dtype, usual[name])
            if ratio > found[name].ratio:
                where = ", ".join(f"{key} {sign}{magnitude:g}" for key, (sign, magnitude) in kinds.items())
                found[name] = Worst(ratio, f"{what} ({where}; draw {number})")
    return found


def lines(found: Mapping[str, Worst], dtype: str) -> Iterator[str]:
    """A line on each output."""
    for name, worst in found.items():
        verdict = "ok" if worst.good else "TOO FAR"
        allowed = f"{FUDGE:g} times that of eager {dtype} allowed"
        yield f"hard         {name}: {worst.told or 'no error'}; {verdict} ({allowed})"


def _bounded(program: Program, key: str) -> bool:
    """Whether an input is no number of any size: a factor that is raised to powers, or a rate."""
    (tensor,) = (t for t in program.inputs() if t.key == key)
    return data.fades(program, tensor) or key in data.rates(program)


def _kinds(keys: list[str], rng: np.random.Generator) -> Iterator[Kinds]:
    """Every magnitude for all inputs, for one among others near 1, and some of each at random."""
    every = [(sign, m) for sign, m in product(SIGNS, MAGNITUDES) if m or not sign]
    yield from ({key: kind for key in keys} for kind in every if kind[1] < np.inf)
    alone = [(key, kind) for key in keys for kind in every if kind[1] not in (0.0, 1.0)]
    for n in sorted(rng.choice(len(alone), min(ALONE, len(alone)), replace=False)) if len(keys) > 1 else ():
        yield {key: alone[n][1] if key == alone[n][0] else ("±", 1.0) for key in keys}
    for _ in range(TOGETHER):
        yield {key: every[rng.integers(len(every))] for key in keys}


def _of(like: data.Array, sign: str, magnitude: float, rng: np.random.Generator) -> data.Array:
    """A tensor of a magnitude; of infinite ones some elements are, and the others near 1."""
    shape = tuple(like.shape)
    signs = SIGNS[sign] or rng.choice([-1.0, 1.0], shape)
    size = np.where(rng.random(shape) < 1 / 8, magnitude, 1.0) if magnitude == np.inf else magnitude
    return data.framework().from_numpy(np.asarray(signs * size * rng.uniform(0.5, 1, shape))).to(like.dtype)


def _rounding(dtype: str, rng: np.random.Generator) -> Callable[[Numbers], Numbers]:
    """Rounds to the mantissa of a type, up or down at random; its exponent has no bounds,
    since ours need not overflow."""
    bits = BITS[dtype]

    def rounded(x: Numbers) -> Numbers:
        mantissa, exponent = np.frexp(x)
        noisy = np.floor(np.ldexp(mantissa, bits) + rng.random(np.shape(x))) if bits < BITS["float64"] else np.ldexp(
            mantissa, bits) + rng.integers(-1, 2, np.shape(x))
        exact = (np.ldexp(mantissa, bits) == np.rint(np.ldexp(mantissa, bits)) if bits < BITS["float64"]
                 else mantissa == 0)
        return np.where(exact | ~np.isfinite(x), x, np.ldexp(noisy, exponent - bits))

    return rounded


def _scale(x: Numbers) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def _ratio(result: Numbers, truth: Numbers, eager: list[Numbers], dtype: str, usual: float) -> tuple[float, str]:
    """How many times as far off as eager, and that in words; ∞ where NaN or ∞ stand elsewhere.

    What is less than a last digit of this output, or of the `usual` one, is no error.
    """
    if not result.size:
        return 0.0, ""
    info = data.framework().finfo(getattr(data.framework(), dtype))
    near = np.abs(truth) > info.max / 2**32  # where it depends on the order of work whether a float holds it
    there = np.where(np.abs(truth) > info.max, np.copysign(np.inf, truth), truth)
    same = near | ((result == there) | (np.isnan(result) & np.isnan(there))
                   | (np.isfinite(result) & np.isfinite(there)))
    if not same.all():
        place = tuple(np.argwhere(~same)[0])
        return (np.inf, f"{result[place]:g} where float64 has {truth[place]:g}, at {int((~same).sum())} of "
                        f"{result.size} elements")
    sound = np.isfinite(there) & ~near
    scale = max(_scale(truth[sound]), usual)
    errors = [np.nan_to_num(np.abs(e - truth)[sound], nan=0.0, posinf=0.0).max(initial=0.0) for e in eager]
    error, allowed = np.abs(result - truth)[sound].max(initial=0.0), max(*errors, info.eps * scale, info.tiny)
    return float(error / allowed), f"error {error:.1e}, {error / allowed:.1f} times that of eager"


def count(program: Program) -> int:
    """How many draws there are."""
    drawn = [t.key for t in program.inputs() if not t.integer and t.slots and not _bounded(program, t.key)]
    return SEEDS * sum(1 for _ in _kinds(drawn, np.random.default_rng(0)))


def small(sizes: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """Sizes at which many draws take seconds: what is not given is at most LARGEST."""
    return {name: given.get(name, min(value, LARGEST)) for name, value in sizes.items()}
