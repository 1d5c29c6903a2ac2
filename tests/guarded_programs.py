"""Random programs of gates and rows without a point: shifted reads beside plain addends,
weights that are summed further."""

from __future__ import annotations

from random import Random

from programs import Case
from random_programs import indexed, used

HEADER = """index t, s, u : time(T)
index h : head(H)
index d : feature(D)
dim W
input x_t, z_t, q_{t h}, v_{t d}, c
input doc_t : int
"""
# Where a row may have no point: p and r stand for two positions, the one folded and that of the row.
ROWS = ["p < r", "p < r", "p > r", "p + W ≤ r", "p ≤ r - W", "doc_p < doc_r", "doc_p ≠ doc_r, p ≤ r", "p > doc_r",
        "p ≠ r, p < 3",
        "p ≤ r", "p ≥ r", "doc_p = doc_r", "p < r, doc_p = doc_r", "r > 2, p ≤ r", "doc_r = 4", "p > r - W, p < r"]
SHIFTS = ["1[p > 1] x_{p - 1}", "1[p + 1 ≤ T] x_{p + 1}", "1[p > W] z_{p - W}", "1[p + W ≤ T] z_{p + W}",
          "x_{max(p - 1, 1)}",
          "1[p > 1 and doc_p ≠ 2] x_{p - 1}", "1[p > 1, doc_{p - 1} = doc_p] z_{p - 1}", "1[p = 1 or doc_p = 2] z_p",
          "1[p > 2] (x_{p - 1} - x_{p - 2})", "1[T + 1 - p ≥ 2] x_{T + 1 - p}", "1[p > 1] q_{p - 1, h}",
          "1[2 p ≤ T] x_{2 p}"]


class Guarded:
    """One program: its lines, and what is defined so far, each name with its letters of t, h and d."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.known: list[tuple[str, str]] = []

    def one(self, *options: str) -> str:
        return self.random.choice(options)

    # values at a letter

    def read(self, p: str, gated: bool = True) -> str:
        """A value at a position, maybe one that is defined already; with `gated` maybe at the position before it."""
        if not self.known or self.random.random() < 0.5:
            return self.one(f"x_{p}", f"z_{p}", "c", "0.5", f"q_{{{p} h}}", f"({p} / 2)")
        name, letters = self.random.choice(self.known)
        if gated and "t" in letters and self.random.random() < 0.3:
            before = indexed(name, [f"{p} - 1" if i == "t" else i
                                    for i in letters]).replace(" h", ", h").replace(" d", ", d")
            return f"1[{p} > 1] {before}"
        return indexed(name, letters.replace("t", p))

    def shift(self, p: str) -> str:
        return self.one(*SHIFTS).replace("1[p", f"1[{p}").replace("p", p).replace(f"ex{p}", "exp")

    def value(self, p: str, depth: int) -> str:
        """A value of moderate size at a letter."""
        if not depth:
            return self.shift(p) if self.random.random() < 0.45 else self.read(p)
        a, b = self.value(p, depth - 1), self.value(p, depth - 1)
        return self.one(a, f"({a} + {b})", f"({a} + {b})", f"({b} - {a})", f"({a} - {b})^2", f"({a}) * ({b})",
                        f"tanh({a})",
                        f"exp(-abs({a} + x_{p}))", f"({a} / (1 + abs({b})))", f"max({a} + x_{p}, {b} + 2 z_{p})")

    def rows(self, p: str, r: str) -> str:
        text = self.one(*ROWS)
        return "".join({"p": p, "r": r}.get(x, x) for x in text.replace("or", "OR")).replace("OR", "or")

    # equations

    def define(self, right: str, summed: str = "") -> None:
        """A new equation; what is `summed` in it over the whole of its set is no letter of the result."""
        name = f"y{chr(ord('a') + len(self.lines))}"
        letters = "".join(i for i in used("thd", right) if i not in summed)
        self.lines.append(f"{indexed(name, letters)} = {right}")
        self.known.append((name, letters))

    def weights(self, p: str, r: str) -> str:
        """A sum of weights of a row, times what may not depend on the position."""
        logit = self.one(f"x_{p}", f"({p} - {r}) c",
                         f"q_{{{p} h}}", f"(q_{{{p} h}} + x_{r})", f"(x_{p} x_{r})", f"(0 {p} + c)", f"(c / {p})",
                         f"(x_{p} + {self.read(p, False)})")
        other = self.one("1", "1", "0.25", "c", f"v_{{{p} d}}", f"x_{p}", f"x_{r}",
                         f"({self.shift(p)} + {self.read(p)})")
        return f"Σ_{p} softmax_{{{p}, {self.rows(p, r)}}}({logit}) * {other}"

    def step(self) -> None:
        """One equation."""
        a, b = self.value("s", 2), self.value("t", 1)
        kind = self.one("variation", "fold", "fold", "weights", "weights", "scaled", "heads", "rows", "nested",
                        "logsumexp", "hand",
                        "hand", "extreme", "point", "ratio")
        match kind:
            case "variation":
                self.define(f"Σ_s ({self.read('s')} - {self.shift('s')})^2")
            case "fold":
                self.define(f"Σ_{{s, {self.rows('s', 't')}}} ({a} + {b})")
            case "weights":
                self.define(self.weights("s", "t"))
            case "scaled":
                self.define(f"({self.weights('s', 't')}) * {self.one('0.25', 'c', 'x_t')} + {self.read('t')}")
            case "heads":
                self.define(f"Σ_h (({self.weights('s', 't')}) * {self.one('1', 'q_{t h}', 'c')})", "h")
            case "rows":
                self.define(f"Σ_{{s, {self.rows('s', 't')}}} (({self.weights('u', 's')}) * "
                            f"{self.one('1', 'x_s', 'x_t', a)})")
            case "nested":
                inner = f"Σ_{{s, {self.rows('s', 't')}}} (c + (s - u) x_s)"
                self.define(f"Σ_u softmax_{{u, {self.rows('u', 't')}}}({inner}) * {self.one('c', '1', 'x_u')}")
            case "logsumexp":
                found = f"logsumexp_{{s, {self.rows('s', 't')}}}({self.one('x_s', 'q_{s h}', '(x_s x_t)')})"
                self.define(self.one(f"max({found}, -9)", f"exp({found})"))
            case "hand":
                over, e = self.rows("s", "t"), self.one("exp(x_s)", "exp(x_s - x_t)", "exp(q_{s h} - 1)")
                self.define(f"Σ_{{s, {over}}} {e}")
                total = indexed(*self.known[-1])
                self.define(f"(Σ_{{s, {over}}} {e} ({self.read('s')})) / {total} + {self.read('t')}")
            case "extreme":
                self.define(b)
                body = indexed(self.known[-1][0], self.known[-1][1].replace("t", "s"))
                self.define(f"min(max(max_{{s, {self.rows('s', 't')}}} ({body} + x_s), -9), 9)")
            case "ratio":
                over = self.rows("s", "t")
                self.define(f"(Σ_{{s, {over}}} ({a})) / (Σ_{{s, {over}}} 1)")
            case _:
                self.define(f"{self.value('t', 2)} + {self.shift('t')}")


def guarded(seed: int) -> Case:
    """The program of a seed, of one to three equations; the last few are outputs, the
    last of all now and then summed whole."""
    writer = Guarded(seed)
    for _ in range(writer.random.choice((1, 2, 2, 3))):
        writer.step()
    if "t" in writer.known[-1][1] and writer.random.random() < 0.3:
        name, letters = writer.known[-1]
        writer.define(f"Σ_t {indexed(name, letters)}{writer.one('', ' x_t')}", "t")
    outputs = writer.known[-int(writer.one("1", "1", "2")):]
    text = HEADER + "\n".join([*writer.lines, *(f"output {indexed(*one)} : all" for one in outputs)])
    sizes = {"T": writer.random.choice((5, 4, 5, 3, 1, 2)), "H": 2, "D": 2, "W": writer.random.choice((1, 2, 2, 3, 8))}
    return Case(f"guarded{seed}", text, sizes, {"doc": ("1", "3")})
