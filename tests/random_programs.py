"""Random programs in the language: contractions, and cascades of folds over random domains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st
from programs import Case
from random_shapes import shaped

SETS = {"t": "time(T)", "s": "time(T)", "h": "head(H)", "d": "feature(D)", "e": "feature(E)", "f": "feature(D)",
        "n": "batch(B)"}
HEADER = """index t, s, u : time(T)
index h : head(H)
index d : feature(D)
dim W
input q_{t h}^d, k_{s h}^d, x_t, z_t
input doc_t : int
weight c_h
"""
PREDICATES = ["s ≤ t", "s < t", "s > t - W", "t - W < s, s ≤ t", "s ≤ t or s ≤ 2", "mod(t - s, 2) = 0",
              "doc_s = doc_t", "s ≠ t",
              "not (s = t or s = 1)", "s ≥ t", "floor((s - 1) / W) = floor((t - 1) / W)", "s ≤ min(t, W)", "t > 2",
              "doc_s ≤ t",
              "s < doc_t and doc_t > 1", "h ≤ s", "s + 1 ≤ t", "2 s ≤ t", "s ≤ t, s > t - W or s ≤ 1"]

EARLIER = {"s < t", "s + 1 ≤ t", "2 s ≤ t"}  # what says that s is before t, wherever it holds


def indexed(name: str, letters: Iterable[str]) -> str:
    return f"{name}_{{{' '.join(letters)}}}" if letters else name


def used(letters: str, text: str) -> str:
    return "".join(x for x in letters if re.search(rf"(?<![a-z]){x}(?![a-z])", text))


@dataclass
class Writer:
    """One program: its lines, and what is defined so far, each name with its letters of t and h."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    lines: list[str] = field(default_factory=list)
    known: list[tuple[str, str]] = field(default_factory=list)

    def one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def atom(self, folded: bool) -> str:
        names = ["x_t", "c_h", "1.5", "0.5", "(t / 2)",
                 *(indexed(name, letters) for name, letters in self.known[-2:] * 2)]
        if folded:
            names += ["x_s", "x_s", "z_s", "((t - s) / 2)", "(q_{t h}^d k_{s h d})", "(q_{t h}^d k_{s h d})"]
            names += [indexed(name, letters.replace("t", "s")) for name, letters in self.known[-1:]]
        return str(self.one(*names))

    def value(self, folded: bool, depth: int) -> str:
        """A value of moderate size; with `folded` at s too."""
        kind = self.one("atom", "add", "sub", "mul", "mul", "tanh", "exp", "max", "abs", "ratio") if depth else "atom"
        if kind == "atom":
            return self.atom(folded)
        a = self.value(folded, depth - 1)
        b = self.value(folded, depth - 1) if kind in ("add", "sub", "mul", "max", "ratio") else ""
        return {"add": f"({a} + {b})", "sub": f"({a} - {b})", "mul": f"{a} * {b}", "tanh": f"tanh({a})",
                "exp": f"exp(-abs({a}))",
                "max": f"max({a}, {b})", "abs": f"abs({a})", "ratio": f"({a} / (1 + abs({b})))"}[str(kind)]

    def domain(self) -> str:
        first, more = self.one(*(p for p in PREDICATES if "s" in p)), self.one("", "", *PREDICATES)
        if "s ≥ t" in (first, more) and EARLIER & {first, more}:
            return str(first)  # together they hold nowhere, which is E0504
        return f"{first}, {more}" if more and more != first else str(first)

    def define(self, right: str) -> str:
        name = f"y{chr(ord('a') + len(self.lines))}"
        letters = used("th", right)
        self.lines.append(f"{indexed(name, letters)} = {right}")
        self.known.append((name, letters))
        return indexed(name, letters)

    def step(self) -> None:
        """One equation, or the few of one cascade."""
        over = self.domain()
        body = self.value(True, 2)
        kind = self.one("fold", "fold", "softmax", "logsumexp", "safe", "moments", "relative", "point", "plain")
        if kind == "fold":
            op = self.one("Σ", "max", "min", "prod")
            fold = f"{op}_{{s, {over}}} ({f'tanh({body})' if op == 'prod' else body})"
            self.define(f"min(max({fold}, -9), 9)" if op in ("max", "min") else fold)
        elif kind == "softmax":
            self.define(f"Σ_s softmax_{{s, {over}}}({body} + x_s) ({self.value(True, 1)})")
        elif kind == "logsumexp":
            logits = indexed(f"l{chr(ord('a') + len(self.lines))}", used("tsh", f"{body} + x_s"))
            self.lines.append(f"{logits} = {body} + x_s")
            self.define(f"max(logsumexp_{{s, {over}}}({logits}), -9)")
        elif kind == "safe":
            m = self.define(f"max_{{s, {over}}} ({body})")
            total = self.define(f"Σ_{{s, {over}}} exp({body} - {m})")
            del self.known[-2:]
            self.define(f"Σ_{{s, {over}}} (exp({body} - {m}) / {total}) ({self.value(True, 1)})")
        elif kind == "moments":
            n = self.define(f"Σ_{{s, {over}}} 1")
            mean = self.define(f"(Σ_{{s, {over}}} ({body})) / {n}")
            self.define(f"(Σ_{{s, {over}}} ({body} - {mean})^2) / {n}")
        elif kind == "relative":
            m = self.define(f"max_{{s, {over}}} abs({body})")
            del self.known[-1:]
            self.define(f"Σ_{{s, {over}}} (({body}) / {m})^2")
        elif kind == "plain":
            self.define(f"Σ_s 1[{over}] ({body})")
        else:
            self.define(self.value(False, 2))


@dataclass
class Dealt(Writer):
    """A writer whose choices a seeded generator makes."""

    random: Random = field(default_factory=Random)

    def one(self, *options: Any) -> Any:
        return self.random.choice(options)


@st.composite
def cascades(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """A cascade that hypothesis draws."""
    return cascade(Writer(draw))


def cascade(writer: Writer) -> Case:
    """Equations over t and h, each of them folds over s of those before it; the last few are outputs."""
    for _ in range(writer.one(1, 2, 2, 3)):
        writer.step()
    outputs = writer.known[-writer.one(1, 1, 2) :]
    text = HEADER + "\n".join([*writer.lines, *(f"output {indexed(*one)} : all" for one in outputs)])
    sizes = {"T": writer.one(5, 1, 2, 9, 13, 0), "H": writer.one(2, 1, 3), "D": writer.one(2, 1),
             "W": writer.one(2, 1, 3, 20)}
    return Case("cascade", text, sizes, {"doc": ("1", "3")})


def numbered(seed: int, number: int) -> Case:
    """The program of a number: a cascade, or one about shapes."""
    random = Random(f"{seed}:{number}")
    if random.random() < 0.5:
        return cascade(Dealt(lambda strategy: None, random=random))
    return shaped(lambda *options: random.choice(options))


@st.composite
def contractions(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """A sum of a product of two to four tensors over random letters."""
    letters = list(SETS)
    operands = draw(st.lists(st.lists(st.sampled_from(letters), min_size=1, max_size=3, unique=True), min_size=2,
                             max_size=4))
    used = sorted({letter for operand in operands for letter in operand}, key=letters.index)
    kept = draw(st.lists(st.sampled_from(used), max_size=3, unique=True))
    bound = [letter for letter in used if letter not in kept]
    names = [indexed("PQRS"[n], operand) for n, operand in enumerate(operands)]
    lines = [f"index {letter} : {over}" for letter, over in SETS.items()]
    lines += [f"input {name}" for name in names]
    left, big = indexed("y", kept), indexed("Σ", bound) if bound else ""
    lines += [f"{left} = {big} {' * '.join(names)}", f"output {left} : all"]
    sizes = {name: draw(st.sampled_from([2, 3, 1, 4, 0])) for name in ("T", "H", "D", "E", "B")}
    return Case("contraction", "\n".join(lines), sizes)
