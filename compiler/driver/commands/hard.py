"""`einc run --hard`: inputs of many magnitudes, and errors held against those of an eager evaluation in the same type.

The truth is the interpreter in float64. Eager is the interpreter, too, with the result of every operation rounded to
the type at random, several times over: so it shows how far rounding alone takes this formula on these inputs, and a
result that no rounding could keep is not asked for. A sum of n numbers of one size is as far off as √n roundings of it.
A result may be FUDGE times as far off. NaN and ∞ have to stand exactly where float64 has them.

What fails is held against two formulas, each in the type with its range and without: the one of the text and the one
that is compiled, by its laws. Where the range alone takes the value away from both, since a step of the text overflows
or vanishes and no law helps, that is said and passes. What a law alone loses fails.
In products of matrices and in tiles of rounds an ∞ or NaN at one position reaches others, as 0 · ∞ (grammar/README.md,
§5.2 and §9.2): where the range takes away one element of an output, it may take the others of that draw. Where data are
infinite the formula may be NaN by itself: relative to what is infinite a number is none. That is said, too. Where some
data are NaN, every number that is given has to be the right one, and none may stand where float64 has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from einc.driver import pipeline
from einc.driver.commands import data
from einc.driver.commands.measure import Numbers
from einc.errors.problems import WrongData
from einc.ir.programs import Program
from einc.meaning.blocks import Array, Rounding
from einc.meaning.interpret import interpret

MAGNITUDES = (0.0, 1e-6, 1.0, 100.0, 1e4, np.inf)
SIGNS = {"": 1.0, "-": -1.0, "±": 0.0}  # 0: of each element its own
BITS = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}  # of a mantissa
FUDGE, SEEDS, ALONE, TOGETHER, ROUNDINGS, LARGEST = 16.0, 2, 32, 12, 3, 16
MEAN = 4.0  # the fudge of a mean over all elements, which a few roundings tell better than the worst of them

Module = Callable[[Mapping[str, data.Array]], Mapping[str, data.Array]]
Kinds = Mapping[str, tuple[str, float]]  # the sign and the magnitude of each input that is drawn


@dataclass(frozen=True)
class Worst:
    """The largest error of one output, as a multiple of the eager one, and the inputs that made it; ∞ for a NaN or an
    ∞.

    `beyond`: the first error that the formula itself has in the type, and its inputs.
    """

    ratio: float = 0.0
    told: str = ""
    beyond: str = ""

    @property
    def good(self) -> bool:
        """Whether the error is no larger than what `--hard` allows."""
        return self.ratio <= FUDGE


@np.errstate(all="ignore")
def tried(program: Program, base: Mapping[str, data.Array], sizes: Mapping[str, int], dtype: str, seed: int,
          module: Module, step: Callable[[], None], most: int | None = None) -> dict[str, Worst]:
    """The worst of each output over all draws, or `most` of them, spread evenly; `base` has the inputs that keep their
    values, and the shapes of the others.
    """
    found, formula = {name: Worst() for name, _ in program.outputs}, pipeline.normal(program)
    usual = {k: _scale(x) for k, x in interpret(program, {k: data.exact(x) for k, x in base.items()}, sizes).items()}
    every = _draws(program, seed)
    few = np.linspace(0, len(every) - 1, min(most or len(every), len(every)), dtype=int)
    for number, kinds in ((n, every[n]) for n in map(int, few)):
        step()
        rng = np.random.default_rng((seed, number))
        inputs = {key: _of(x, *kinds[key], rng) if key in kinds else x for key, x in base.items()}
        exact = {key: data.exact(x) for key, x in inputs.items()}
        try:
            truth = interpret(program, exact, sizes)
        except WrongData:
            continue  # what has no place to be read at is no value of these inputs
        infinite = any(magnitude == np.inf for _, magnitude in kinds.values())
        unknown = any(np.isnan(magnitude) for _, magnitude in kinds.values())
        if infinite and not unknown and not all(np.isfinite(x).all() for x in truth.values()):
            continue  # ∞ is no value of these inputs, as it is of a logit that is masked
        eager = rounded(program, inputs, sizes, dtype, (seed, number, 1))
        where = ", ".join(f"{key} {sign}{magnitude:g}" for key, (sign, magnitude) in kinds.items())
        bounded: list[Mapping[str, Numbers]] = []
        for name, tensor in module(inputs).items():
            held = _Held(truth[name], [e[name] for e in eager], dtype, usual[name])
            result = data.exact(tensor)
            if unknown:  # 0 · NaN in a product of matrices is NaN in other rows, too, which is not silent
                result = np.where(np.isnan(result), truth[name], result)
            ratio, what = held.ratio(result)
            if ratio > FUDGE:
                bounded = bounded or [interpret(form, exact, sizes, rounded=_Rounded(BITS[dtype], rng, largest))
                                      for form in (program, formula) for largest in (_largest(dtype), np.inf)]
                beyond = (held.beyond(bounded[0][name], bounded[1][name], infinite)
                          & held.beyond(bounded[2][name], bounded[3][name], infinite))
                left, rest = held.ratio(np.where(beyond, truth[name], result))
                if left < ratio:
                    found[name] = replace(found[name], beyond=found[name].beyond or f"{what} ({where}; draw {number})")
                ratio, what = left, rest
            if ratio > found[name].ratio:
                found[name] = replace(found[name], ratio=ratio, told=f"{what} ({where}; draw {number})")
    return found


def rounded(program: Program, inputs: Mapping[str, data.Array], numbers: Mapping[str, int], dtype: str,
            seed: int | tuple[int, ...]) -> list[Mapping[str, Numbers]]:
    """The results of several evaluations, one operation at a time, in which each value is rounded to a type at random,
    up or down. The seed decides how."""
    exact, rng = {key: data.exact(x) for key, x in inputs.items()}, np.random.default_rng(seed)
    return [interpret(program, exact, numbers, rounded=_Rounded(BITS[dtype], rng)) for _ in range(ROUNDINGS)]


def lines(found: Mapping[str, Worst], dtype: str) -> Iterator[str]:
    """For each output a line with its worst error and whether it is allowed, and another where a step of the formula
    itself leaves the range of the type."""
    for name, worst in found.items():
        verdict = "ok" if worst.good else "TOO FAR"
        allowed = f"{FUDGE:g} times that of eager {dtype} allowed"
        yield f"hard         {name}: {worst.told or 'no error'}; {verdict} ({allowed})"
        if worst.beyond:
            yield f"beyond       {name}: {worst.beyond}; a step of this formula leaves the numbers of {dtype} there"


def _draws(program: Program, seed: int) -> list[Kinds]:
    """What is drawn of each input, draw by draw."""
    keys = [t.key for t in program.inputs() if not t.integer and t.slots and not _bounded(program, t.key)]
    return [kinds for _ in range(SEEDS) for kinds in _kinds(keys, np.random.default_rng(seed))]


def _bounded(program: Program, key: str) -> bool:
    """Whether an input is no number of any size: a factor that is raised to powers, or a rate."""
    (tensor,) = (t for t in program.inputs() if t.key == key)
    return data.fades(program, tensor) or key in data.rates(program)


def _kinds(keys: list[str], rng: np.random.Generator) -> Iterator[Kinds]:
    """Every magnitude for all inputs, for one among others near 1, and some of each at random; NaN in one of them."""
    every = [(sign, m) for sign, m in product(SIGNS, MAGNITUDES) if m or not sign]
    yield from ({key: kind for key in keys} for kind in every if kind[1] < np.inf)
    alone = [(key, kind) for key in keys for kind in every if kind[1] not in (0.0, 1.0)]
    for n in sorted(rng.choice(len(alone), min(ALONE, len(alone)), replace=False)) if len(keys) > 1 else ():
        yield {key: alone[n][1] if key == alone[n][0] else ("±", 1.0) for key in keys}
    for _ in range(TOGETHER):
        yield {key: every[rng.integers(len(every))] for key in keys}
    yield from ({key: ("", np.nan) if key == one else ("±", 1.0) for key in keys} for one in keys)


def _of(like: data.Array, sign: str, magnitude: float, rng: np.random.Generator) -> data.Array:
    """A tensor of a magnitude; of one that is infinite, or NaN, some elements are, and the others near 1."""
    shape = tuple(like.shape)
    signs = SIGNS[sign] or rng.choice([-1.0, 1.0], shape)
    size = np.where(rng.random(shape) < 1 / 8, magnitude, 1.0) if not np.isfinite(magnitude) else magnitude
    return data.framework().from_numpy(np.asarray(signs * size * rng.uniform(0.5, 1, shape))).to(like.dtype)


class _Rounded(Rounding):
    """Rounds to the mantissa of a type, up or down at random. Without a `largest` number its exponent has no bounds,
    since ours need not overflow.
    """

    def __init__(self, bits: int, rng: np.random.Generator, largest: float = np.inf) -> None:
        self.bits, self.rng, self.largest = bits, rng, largest
        self.scaled = largest == np.inf

    def __call__(self, x: Array) -> Array:
        """The numbers rounded up or down by chance to so many bits; what is exact, infinite or NaN stays as it is."""
        mantissa, exponent = np.frexp(x)
        scaled = np.ldexp(mantissa, self.bits)
        fine = self.bits >= BITS["float64"]
        noisy = (scaled + self.rng.integers(-1, 2, np.shape(x)) if fine
                 else np.floor(scaled + self.rng.random(np.shape(x))))
        exact = mantissa == 0 if fine else scaled == np.rint(scaled)
        made = np.where(exact | ~np.isfinite(x), x, np.ldexp(noisy, exponent - self.bits))
        if self.scaled:
            return made
        made = np.where(np.abs(made) > self.largest, np.copysign(np.inf, made), made)
        # What has fewer digits than others is 0 on some machines.
        return np.where(np.abs(made) * self.largest < 4.0, 0.0, made)

    def total(self, x: Array, sizes: Callable[[int], Array]) -> Array:
        first, second = sizes(1), sizes(2)
        # Additions of one size; of zeros none.
        several = np.maximum(first**2 / np.where(second == 0, np.inf, second) - 1, 0)
        off = first * np.sqrt(several) * 2.0**-self.bits * self.rng.uniform(-1, 1, np.shape(x))
        return self(x + np.where(np.isfinite(off), off, 0.0))


def _largest(dtype: str) -> float:
    return float(data.framework().finfo(getattr(data.framework(), dtype)).max)


def _scale(x: Numbers) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


@dataclass(frozen=True)
class _Held:
    """What a result is held against: the truth, eager evaluations, and the size that the output usually has."""

    truth: Numbers
    eager: list[Numbers]
    dtype: str
    usual: float

    @cached_property
    def near(self) -> Numbers:
        """Where it depends on the order of work whether a float holds the value."""
        return np.abs(self.truth) > _largest(self.dtype) / 2**32

    @cached_property
    def there(self) -> Numbers:
        """The truth, ∞ where the type has no such number."""
        return np.where(np.abs(self.truth) > _largest(self.dtype), np.copysign(np.inf, self.truth), self.truth)

    @cached_property
    def allowed(self) -> float:
        """The largest error of an eager evaluation. What is less than a last digit of this output, or of the usual one,
        is no error.
        """
        sound, info = self._sound, data.framework().finfo(getattr(data.framework(), self.dtype))
        errors = [np.nan_to_num(np.abs(e - self.truth)[sound], nan=0.0, posinf=0.0).max(initial=0.0)
                  for e in self.eager]
        return float(max(*errors, info.eps * max(_scale(self.truth[sound]), self.usual), info.tiny))

    @property
    def _sound(self) -> Numbers:
        return np.isfinite(self.there) & ~self.near

    def _same(self, result: Numbers) -> Numbers:
        """The elements that are near, equal, or NaN, ∞ or finite just where those of float64 are."""
        there = self.there
        both = (np.isnan(result) & np.isnan(there)) | (np.isfinite(result) & np.isfinite(there))
        return np.asarray(self.near | (result == there) | both)

    def far(self, result: Numbers) -> Numbers:
        """The elements that a result has not."""
        off = np.nan_to_num(np.abs(result - self.truth), nan=0.0, posinf=0.0)
        return np.asarray(~self._same(result) | (self._sound & (off > FUDGE * self.allowed)))

    def beyond(self, ranged: Numbers, free: Numbers, infinite: bool) -> Numbers:
        """Where the range of the type takes the value away, by evaluations of one formula with that range and without,
        or, of `infinite` data, the formula has none without: all of the output, where that is so of one element."""
        taken = (self.far(ranged) & ~self.far(free)) | (~np.isfinite(ranged) & np.isfinite(free)) | (
            infinite & np.isnan(free) & ~np.isnan(self.truth))
        over = taken.any() or (np.isfinite(self.truth) & ~np.isfinite(self.there)).any()
        return np.full_like(taken, over)

    def ratio(self, result: Numbers) -> tuple[float, str]:
        """How many times as far off as eager, and that in words; ∞ where NaN or ∞ stand elsewhere."""
        if not result.size:
            return 0.0, ""
        same = self._same(result)
        if not same.all():
            place, many = tuple(np.argwhere(~same)[0]), int((~same).sum())
            return np.inf, (f"{result[place]:g} where float64 has {self.truth[place]:g}, "
                            f"at {many} of {result.size} elements")
        error = np.abs(result - self.truth)[self._sound].max(initial=0.0)
        return float(error / self.allowed), f"error {error:.1e}, {error / self.allowed:.1f} times that of eager"


def count(program: Program, seed: int) -> int:
    """The number of draws of inputs that `run --hard` makes for a program."""
    return len(_draws(program, seed))


def small(sizes: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """Sizes at which many draws take seconds: what is not given is at most LARGEST."""
    return {name: given.get(name, min(value, LARGEST)) for name, value in sizes.items()}
