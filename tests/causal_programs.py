"""Random programs about positions: reads at clamped index expressions, folds over
domains, blocks, sets, indicators, in chains."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

import numpy as np
from helpers import Arrays

from einc.driver import pipeline
from einc.errors.report import Report, Source
from einc.ir.programs import Program, TypedProgram

SIZES = {"T": 6, "J": 3, "B": 2}
HEADER = """index t, s, u : time(T)
index j       : time(J)
index i       : feature(B)
dim   W
input x_t, z_t, v_t, c^i, L_{t s}
input p_t : int
"""
_AT = ["{a} - 1", "{a} + 1", "{a}", "{a} - W", "2 {a}", "floor({a} / 2)", "ceil({a} / 2)", "T - {a} + 1",
       "{a} - mod({a}, 2)",
       "{a} + mod({a}, 2)", "floor(({a} - 1) / B) B + 1", "ceil({a} / B) B", "p_{a}", "min({a}, p_{a})",
       "{a} + 1 - W", "3", "{a} - B"]
_TWO = ["min({a}, {b})", "max({a}, {b})", "{a} - {b}", "abs({a} - {b})", "{a} + {b}", "{a} + {b} - T",
        "max({a}, {b}) - 1",
        "floor(({a} + {b}) / 2)", "ceil(({a} + {b}) / 2)", "min({a}, {b}) + 1"]
_DOMAINS = ["s ≤ t", "s < t", "s ≤ t + 1", "s ≤ T", "s ≥ 1", "s ≤ t - W", "s ≤ t + 1 - W", "s ∈ (t - W, t]",
            "s ≤ p_t", "p_s ≤ t",
            "s ≤ p_t, p_t ≤ t", "s ≤ t or s ≤ 1", "s ≤ t or s ≤ 2", "2 s ≤ t", "2 s ≤ t + 1", "s B ≤ t",
            "s ≤ min(t, W)", "s ≤ max(t, W)",
            "floor((s - 1) / B) = floor((t - 1) / B)", "floor((s - 1) / B) < floor((t - 1) / B)", "s ≥ t", "s = t",
            "mod(s, 2) = 0",
            "ceil(s / B) B ≤ t", "s ≤ ceil(t / B)", "t = T", "abs(t - s) ≤ 1", "abs(t - s) ≤ t - s", "not (s > t)",
            "p_s = p_t",
            "s ≤ t, p_s = p_t"]
_BLOCKS = ["j B ≤ t", "j B < t", "(j - 1) B < t", "j ≤ t", "j B ≤ t + 1", "j ≤ J", "j ≤ floor(t / B)",
           "j ≤ ceil(t / B)", "j = floor(t / B)"]


@dataclass
class Writer:
    """One program as it grows: its lines, and the names of one time index, of blocks, and
    of none that it has so far."""

    random: Random
    lines: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=lambda: ["x", "z", "v"])
    blocks: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)

    def position(self, *letters: str) -> str:
        """An index expression of some letters that stays within 1..T."""
        a = self.random.choice(letters)
        others = [b for b in letters if b != a]
        form = self.random.choice(_TWO if others and self.random.random() < 0.5 else _AT)
        made = form.format(a=a, b=self.random.choice(others or [a]))
        return made if made == a else f"max(min({made}, T), 1)"

    def read(self, *letters: str) -> str:
        """A tensor at some position."""
        if "j" in letters and self.blocks and self.random.random() < 0.5:
            return f"{self.random.choice(self.blocks)}_{{j}}"
        if self.alone and self.random.random() < 0.1:
            return self.random.choice(self.alone)
        return f"{self.random.choice(self.times)}_{{{self.position(*letters)}}}"

    def named(self, right: str, letter: str = "t", mask: str = "") -> str:
        name = f"y{chr(ord('a') + len(self.lines))}"
        self.lines.append(f"{name}_{{{letter}}} = {right}" if letter else f"{name} = {right}")
        {"t": self.times, "j": self.blocks, "": self.alone}[letter].append(name)
        return name

    def step(self) -> None:
        """One more equation of a random kind."""
        pick, domain = self.random.choice, self.random.choice(_DOMAINS)
        if self.random.random() < 0.3:
            domain += ", " + pick(_DOMAINS[:9])
        match pick(["at", "fold", "fold", "two", "block", "blocks", "window", "guard", "max", "alone", "set",
        "softmax", "inner", "pairs"]):
            case "at":
                self.named(f"{self.read('t')} + x_t")
            case "fold":
                self.named(f"Σ_{{s, {domain}}} {self.read('s', 't')} x_s + z_t")
            case "two":
                inner = re.sub(r"(?<![a-z])s(?![a-z])", "u", pick(_DOMAINS))
                self.named(f"Σ_{{s, {domain}}} Σ_{{u, {inner}}} {self.read('s', 'u')} x_u x_t")
            case "block":
                self.named("Σ_{s ∈ ((j - 1) B, j B]} " + self.read("s"), "j")
            case "blocks":
                self.named(f"Σ_{{j, {pick(_BLOCKS)}}} {self.read('j', 't') if self.blocks else 'x_{min(j B, T)}'} (1 / "
                           f"j) + x_t")
            case "window":
                self.named(f"Σ_{{{pick(['i', 'i ≤ B', 'i ≥ 1', 'i ≤ t'])}}} c^i {self.read('t', 'i')} + x_t")
            case "guard":
                here = re.sub(r"\bs\b(?!_)", pick(["min(3, T)", "1", "ceil(T / 2)"]), re.sub(r"p_s", "p_1", domain))
                self.named(f"1[{here}] {self.read('t')} + x_t")
            case "max":
                self.named(f"max_{{s, {domain}}} {self.read('s', 't')} + x_t" if "s" in domain
                           else f"{self.read('t')} + x_t")
            case "alone":
                self.named(f"Σ_{{s{pick(['', ', s ≤ 2', ', s < T'])}}} {self.read('s')}", "")
            case "set":
                name = f"S{chr(ord('a') + len(self.lines))}"
                self.lines.append(f"set {name}_t = topk_{{s ≤ t}}(L_{{t s}} + {self.read('s')} + x_t, 2)")
                self.named(f"Σ_{{s ∈ {name}_t}} {self.read('s', 't')}")
            case "softmax":
                self.named(f"Σ_s softmax_{{s, {domain}}}(L_{{t s}} + {self.read('s', 't')} x_s) {self.read('s')} + x_t")
            case "inner":
                self.named(f"Σ_{{s, {domain}}} 1[{pick(_DOMAINS)}] {self.read('s', 't')} + x_t")
            case "pairs":
                name, value = f"P{chr(ord('a') + len(self.lines))}", f"{self.read('s', 't')} x_{{{self.position('s')}}}"
                gated = f"1[{domain.replace(', ', ' and ')}] {value}"
                self.lines.append(f"{name}_{{t s}} = {pick([gated, f'{value}, {domain}'])}")
                place = f"{self.position('t')}, {self.position('s', 't')}"
                self.named(f"Σ_{{s, {pick(_DOMAINS)}}} {name}_{{{place}}} + x_t")


def text(seed: int, meant: bool = False) -> str:
    """A random program of a few equations; with `meant` its output says that the future is."""
    writer = Writer(Random(seed))
    for _ in range(writer.random.randint(1, 4)):
        writer.step()
    last = next((n for n in reversed(writer.times) if n.startswith("y")), None)
    if last is None:
        last = writer.named(f"{writer.read('t', 'j') if not writer.blocks else writer.read('t')} + x_t"
                            if not writer.blocks
                            else f"Σ_{{j, {writer.random.choice(_BLOCKS)}}} {writer.blocks[-1]}_j + x_t")
    return HEADER + "\n".join(writer.lines) + f"\noutput {last}_t" + " : all" * meant + "\n"


def checked(source: str) -> tuple[TypedProgram | None, list[str]]:
    """The program of a text, and the codes of its errors."""
    report = Report()
    return pipeline.check(Source("<text>", source), report), [p.code for p in report.errors]


def inputs(program: Program, seed: int, sizes: dict[str, int]) -> Arrays:
    """Random arrays for a program; whole numbers are positions."""
    random = np.random.default_rng(seed)
    shapes = {t: tuple(int(slot.set.extent.at(sizes)) for slot in t.slots) for t in program.inputs()}
    return {t.key: random.integers(1, sizes["T"] + 1, shape) if t.integer else random.normal(size=shape)
    for t, shape in shapes.items()}


def changed_after(program: Program, one: Arrays, other: Arrays, last: int) -> Arrays:
    """One set of arrays up to a position, and the other after it."""
    out = {}
    for tensor in program.inputs():
        here = one[tensor.key].copy()
        for axis, slot in enumerate(tensor.slots):
            if slot.set.extent.sizes == {"T"}:
                where = (slice(None),) * axis + (slice(last, None),)
                here[where] = other[tensor.key][where]
        out[tensor.key] = here
    return out
