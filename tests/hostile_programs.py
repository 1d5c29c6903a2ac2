"""Random texts with an evaluation of their own beside them, one number at a time; nothing of einc is used.

An expression is drawn as its text together with a closure that gives its value where letters stand. Folds run over
domains with data, `or` and rows without a point; reads are shifted, gated and at positions of data; rounds go over
ranges, up and down; numbers of positions, means of masked tensors, sets, maps, composites and sums of all.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

Env = dict[str, int]
Of = Callable[[Env], float]
HEADER = """index t, s : time(T)
index h : head(H)
index d : feature(D)
index a : feature(2)
index e : feature(2 D) = (d a)
index o : latent(-1..1)
index i : time(0..T-1)
dim W
input x_t, z_t, q_{t h}, k_t^d, c, b_h, v_o, X_t^e, j_i
input doc_t : int
input ptr_t : int
input off_t : int
"""
EXTENTS = {"t": "T", "s": "T", "h": "H", "d": "D"}


@dataclass(frozen=True)
class Node:
    """An expression: its text, its value where letters stand, and the letters that it has."""

    text: str
    of: Of
    letters: frozenset[str] = frozenset()


Known = tuple[str, list[str], Of]  # a tensor of the text: its name, its letters, its value


def exp(x: float) -> float:
    """e^x, ∞ where no float holds it."""
    return math.exp(x) if x < 709 else math.inf


def quotient(above: float, below: float) -> float:
    """0 / 0 is 0."""
    return above / below if below else 0.0 if above == 0 else math.copysign(math.inf, above)


def shares(points: list[tuple[float, float]], sink: float = -math.inf) -> float:
    """A sum weighed by a softmax, of logits and values; 0 over nothing."""
    most = max([x for x, _ in points] + [sink], default=0)
    below = sum(exp(x - most) for x, _ in points) + exp(sink - most)
    return sum(exp(x - most) * y for x, y in points) / below if points else 0.0


def logsumexp(xs: list[float]) -> float:
    """-∞ over nothing."""
    most = max(xs, default=-math.inf)
    return most + math.log(sum(exp(x - most) for x in xs)) if most > -math.inf else most


class Hostile:
    """One program: its lines, its data, and what is defined so far."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sizes = {"T": self.pick(5, 4, 3, 1, 2, 7), "H": self.pick(2, 1, 3), "D": self.pick(2, 1, 3),
                      "W": self.pick(1, 2, 3, 9)}
        self.lines: list[str] = []
        self.known: list[Known] = []
        self.memos: list[dict[tuple[int, ...], float]] = []
        draw, n, d = np.random.default_rng(seed), self.sizes["T"], self.sizes["D"]
        shapes = {"x": (n,), "z": (n,), "q": (n, self.sizes["H"]), "k": (n, d), "c": (), "b": (self.sizes["H"],),
                  "v": (3,), "X": (n, 2 * d), "j": (n,)}
        self.data: dict[str, Any] = {key: np.asarray(draw.standard_normal(shape)) for key, shape in shapes.items()}
        self.data |= {"doc": draw.integers(1, 4, n), "ptr": draw.integers(1, n + 1, n),
                      "off": draw.integers(-1, n + 3, n)}
        for _ in range(self.pick(1, 2, 2, 3)):
            self.step()
        self.outputs = self.known[-self.pick(1, 1, 2):]
        left = (name + (f"_{{{' '.join(letters)}}}" if letters else "") for name, letters, _ in self.outputs)
        self.text = HEADER + "\n".join([*self.lines, *(f"output {x} : all" for x in left)])

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self.random.choice(options)

    def at(self, key: str, place: int) -> float:
        """The element of an input at a position."""
        return float(self.data[key][place - 1])

    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs."""
        for memo in self.memos:
            memo.clear()
        found = {}
        for name, letters, of in self.outputs:
            each = [range(1, self.sizes[EXTENTS[i]] + 1) for i in letters]
            made = [of(dict(zip(letters, at, strict=True))) for at in itertools.product(*each)]
            found[name] = np.array(made).reshape([len(r) for r in each])
        return found

    # values at one or two letters of time

    def place(self, p: str) -> tuple[str, Callable[[Env], int], str]:
        """A position made of a letter: its text, its value, and the gate under which it is one."""
        n, w = self.sizes["T"], self.sizes["W"]
        return self.pick(  # type: ignore[no-any-return]
            (p, lambda e: e[p], ""), (p, lambda e: e[p], ""), (f"{p} - 1", lambda e: e[p] - 1, f"1[{p} > 1] "),
            (f"{p} + 1", lambda e: e[p] + 1, f"1[{p} + 1 ≤ T] "), (f"{p} - W", lambda e: e[p] - w, f"1[{p} > W] "),
            (f"{p} + W", lambda e: e[p] + w, f"1[{p} + W ≤ T] "), (f"T + 1 - {p}", lambda e: n + 1 - e[p], ""),
            (f"max({p} - 2, 1)", lambda e: max(e[p] - 2, 1), ""), (f"min({p} + W, T)", lambda e: min(e[p] + w, n), ""),
            (f"2 {p}", lambda e: 2 * e[p], f"1[2 {p} ≤ T] "), (f"ceil({p} / 2)", lambda e: (e[p] + 1) // 2, ""),
            (f"mod({p}, T) + 1", lambda e: e[p] % n + 1, ""), (f"ptr_{p}", lambda e: int(self.at("ptr", e[p])), ""),
            (f"off_{p}", lambda e: int(self.at("off", e[p])), f"1[1 ≤ off_{p}, off_{p} ≤ T] "),
            (f"min(max(off_{p}, 1), T)", lambda e: min(max(int(self.at("off", e[p])), 1), n), ""))

    def read(self, p: str) -> Node:
        """A tensor at a position made of a letter, 0 where a gate says so."""
        name, rest, of = self.pick(*self.given(), *(x for x in self.known for _ in (0, 1)))
        if rest is not None and "t" not in rest and name not in self.data:
            return Node(name + (f"_{{{' '.join(rest)}}}" if rest else ""), of, frozenset(rest))
        where, value, gate = self.place(p)
        others = [x for x in rest if x != "t"]
        text = f"{name}_{{{', '.join([where, *(x for x in others if name != 'k')])}}}" + ("^d" if name == "k" else "")

        def found(e: Env) -> float:
            at = value(e)
            return float(of({**e, "t": at})) if 1 <= at <= self.sizes["T"] else 0.0

        return Node(f"({gate}{text})" if gate else text, found, frozenset([p, *others]))

    def given(self) -> list[Known]:
        """The inputs at a letter t."""
        return [("x", ["t"], lambda e: self.at("x", e["t"])), ("z", ["t"], lambda e: self.at("z", e["t"])),
                ("q", ["t", "h"], lambda e: float(self.data["q"][e["t"] - 1, e["h"] - 1])),
                ("k", ["t", "d"], lambda e: float(self.data["k"][e["t"] - 1, e["d"] - 1]))]

    def atom(self, letters: tuple[str, ...]) -> Node:
        """A read, a number, or a position as a number."""
        p, w, n = self.pick(*letters), self.sizes["W"], self.sizes["T"]
        part = self.pick(1, 2)
        number = self.pick("0.5", "1.5", "2", "1")
        options = [
            *(self.read(p) for _ in range(6)), Node(number, lambda e: float(number)), Node("(W / T)", lambda e: w / n),
            Node(f"({p} / 2)", lambda e: e[p] / 2, frozenset(p)), Node("c", lambda e: float(self.data["c"])),
            Node("b_h", lambda e: self.at("b", e["h"]), frozenset("h")),
            Node(f"doc_{p}", lambda e: self.at("doc", e[p]), frozenset(p)),
            Node(f"j_{{{p} - 1}}", lambda e: self.at("j", e[p]), frozenset(p)),
            Node(f"X_{p}^{{(d {part})}}", lambda e: float(self.data["X"][e[p] - 1, (e["d"] - 1) * 2 + part - 1]),
                 frozenset([p, "d"]))]
        return self.pick(*options)  # type: ignore[no-any-return]

    def value(self, letters: tuple[str, ...], depth: int) -> Node:
        """A value of moderate size."""
        if not depth:
            return self.atom(letters)
        one, two = self.value(letters, depth - 1), self.value(letters, self.pick(0, depth - 1))
        a, b, both = one.of, two.of, one.letters | two.letters
        text, holds, more = self.predicate(letters)
        return self.pick(  # type: ignore[no-any-return]
            one, Node(f"({one.text} + {two.text})", lambda e: a(e) + b(e), both),
            Node(f"({one.text} - {two.text})", lambda e: a(e) - b(e), both),
            Node(f"({one.text}) * ({two.text})", lambda e: a(e) * b(e), both),
            Node(f"tanh({one.text})", lambda e: math.tanh(a(e)), one.letters),
            Node(f"sigmoid({one.text})", lambda e: 1 / (1 + exp(-a(e))), one.letters),
            Node(f"exp(-abs({one.text}))", lambda e: exp(-abs(a(e))), one.letters),
            Node(f"min({one.text}, {two.text})", lambda e: min(a(e), b(e)), both),
            Node(f"abs({one.text})", lambda e: abs(a(e)), one.letters),
            Node(f"({one.text})^2", lambda e: a(e) ** 2, one.letters),
            Node(f"log(1 + exp({one.text}))", lambda e: max(a(e), 0) + math.log1p(exp(-abs(a(e)))), one.letters),
            Node(f"(({one.text}) / (1 + abs({two.text})))", lambda e: a(e) / (1 + abs(b(e))), both),
            Node(f"(1[{text}] ({one.text}) + 1[not ({text})] ({two.text}))", lambda e: a(e) if holds(e) else b(e),
                 both | more))

    def predicate(self, letters: tuple[str, ...]) -> tuple[str, Callable[[Env], bool], frozenset[str]]:
        """A condition on letters of time, its truth, and the letters that it has."""
        p, w, at = self.pick(*letters), self.sizes["W"], self.at
        simple = [(f"{p} > 1", lambda e: e[p] > 1), (f"{p} ≤ W", lambda e: e[p] <= w),
                  (f"mod({p}, 2) = 0", lambda e: e[p] % 2 == 0), (f"doc_{p} = 2", lambda e: at("doc", e[p]) == 2)]
        found = [(text, holds, frozenset(p)) for text, holds in simple]
        if len(letters) == 2:
            found = [*found[:3], *((text, holds, frozenset("ts")) for text, holds in self.pairs())]
        (text, one, mine), (more, two, others) = self.pick(*found), self.pick(*found)
        joined = [(text, one, mine)] * 3 + [
            (f"({text} or {more})", lambda e: one(e) or two(e), mine | others),
            (f"{text} and {more}", lambda e: one(e) and two(e), mine | others),
            (f"not ({text} or {more})", lambda e: not (one(e) or two(e)), mine | others)]
        return self.pick(*joined)  # type: ignore[no-any-return]

    def pairs(self) -> list[tuple[str, Callable[[Env], bool]]]:
        """Conditions on s and t."""
        w, at, n = self.sizes["W"], self.at, self.sizes["T"]
        return [("s ≤ t", lambda e: e["s"] <= e["t"]), ("s < t", lambda e: e["s"] < e["t"]),
                ("s ≥ t", lambda e: e["s"] >= e["t"]), ("s ≠ t", lambda e: e["s"] != e["t"]),
                ("doc_s = doc_t", lambda e: at("doc", e["s"]) == at("doc", e["t"])),
                ("doc_s < doc_t", lambda e: at("doc", e["s"]) < at("doc", e["t"])),
                ("s > t - W", lambda e: e["s"] > e["t"] - w), ("s + W ≤ t", lambda e: e["s"] + w <= e["t"]),
                ("floor((s - 1) / W) < floor((t - 1) / W)", lambda e: (e["s"] - 1) // w < (e["t"] - 1) // w),
                ("mod(t - s, 2) = 0", lambda e: (e["t"] - e["s"]) % 2 == 0),
                ("s ≤ ptr_t", lambda e: e["s"] <= at("ptr", e["t"])),
                ("s = ptr_t", lambda e: e["s"] == at("ptr", e["t"])),
                ("s = off_t", lambda e: e["s"] == at("off", e["t"])), ("s + t ≤ T", lambda e: e["s"] + e["t"] <= n),
                ("s ∈ (t - W, t]", lambda e: e["t"] - w < e["s"] <= e["t"]),
                ("2 s ≤ t", lambda e: 2 * e["s"] <= e["t"]),
                ("abs(t - s) ≤ W", lambda e: abs(e["t"] - e["s"]) <= w), ("s = t - W", lambda e: e["s"] == e["t"] - w)]

    # equations

    def define(self, node: Node) -> Node:
        """A new equation; what it gives is kept, so that a program is evaluated once."""
        letters, memo = sorted(node.letters, key="thd".index), dict[tuple[int, ...], float]()
        self.memos.append(memo)

        def of(e: Env) -> float:
            key = tuple(e[i] for i in letters)
            if key not in memo:
                memo[key] = node.of({i: e[i] for i in letters})
            return memo[key]

        name = f"y{chr(ord('a') + len(self.memos))}"
        left = name + (f"_{{{' '.join(letters)}}}" if letters else "")
        self.lines.append(f"{left} = {node.text}")
        self.known.append((name, letters, of))
        return Node(left, of, frozenset(letters))

    def fold(self) -> Node:
        """A fold over s, and maybe over heads too."""
        text, holds, asked = self.predicate(("t", "s"))
        body, what = self.value(("t", "s"), 2), self.value(("t", "s"), 1)
        if "s" not in body.letters:
            plain = body.of
            body = Node(f"({body.text} + x_s)", lambda e: plain(e) + self.at("x", e["s"]), body.letters | {"s"})
        bound = ["s", *(x for x in "h" if x in body.letters and self.pick(True, False))]
        over, all_ = f"{{{', '.join(bound)}, {text}}}", f"{{{' '.join(bound)}}}"
        b, w = body.of, what.of

        def points(e: Env) -> Iterator[Env]:
            for at in itertools.product(*(range(1, self.sizes[EXTENTS[i]] + 1) for i in bound)):
                if holds(found := {**e, **dict(zip(bound, at, strict=True))}):
                    yield found

        free, wide = (body.letters | asked) - {*bound}, (body.letters | asked | what.letters) - {*bound}
        xs = lambda e: [b(p) for p in points(e)]  # noqa: E731
        mean = lambda e: quotient(sum(xs(e)), len(xs(e)))  # noqa: E731
        pairs = lambda e: [(b(p), w(p)) for p in points(e)]  # noqa: E731
        lowest, c = -9.0, lambda: float(self.data["c"])
        options = [
            Node(f"Σ_{over} ({body.text})", lambda e: sum(xs(e)), free),
            Node(f"Σ_{over} ({body.text}) ({what.text})", lambda e: sum(x * y for x, y in pairs(e)), wide),
            Node(f"max(max_{over} ({body.text}), -9)", lambda e: max([lowest, *xs(e)]), free),
            Node(f"min(min_{over} ({body.text}), 9)", lambda e: min([9.0, *xs(e)]), free),
            Node(f"prod_{over} tanh({body.text})", lambda e: math.prod(map(math.tanh, xs(e))), free),
            Node(f"mean_{over}({body.text})", mean, free),
            Node(f"max(logsumexp_{over}({body.text}), -9)", lambda e: max(logsumexp(xs(e)), lowest), free),
            Node(f"Σ_{all_} softmax_{over}({body.text}) * ({what.text})", lambda e: shares(pairs(e)), wide),
            Node(f"c Σ_{all_} softmax_{over}({body.text})", lambda e: c() * bool(xs(e)), free)]
        if len(bound) == 1:
            options += [
                Node(f"Σ_s softmax_sink_{over}({body.text}, c) * ({what.text})", lambda e: shares(pairs(e), c()), wide),
                Node(f"Σ_s LN_{over}({body.text}) * ({what.text})", lambda e: self.normed(pairs(e)), wide)]
        if "t" in free and len(bound) == 1 and self.pick(True, False, False):
            return self.masked(body, what, text, holds, asked)
        return self.pick(*options)  # type: ignore[no-any-return]

    @staticmethod
    def normed(pairs: list[tuple[float, float]]) -> float:
        """Values less their mean, over their deviation, weighed."""
        xs = [x for x, _ in pairs]
        mean = quotient(sum(xs), len(xs))
        deviation = math.sqrt(quotient(sum((x - mean) ** 2 for x in xs), len(xs)) + 1e-5)
        return sum((x - mean) / deviation * y for x, y in pairs)

    def masked(self, body: Node, what: Node, text: str, holds: Callable[[Env], bool], asked: frozenset[str]) -> Node:
        """A tensor with a mask that says s, and a function of its rows that says no domain."""
        if "s" not in asked:
            said, text, asked = holds, f"({text}) and s ≤ t", asked | {"s"}
            holds = lambda e: said(e) and e["s"] <= e["t"]  # noqa: E731
        letters = sorted(body.letters | asked | {"t"}, key="thds".index)
        self.memos.append({})
        left = f"l{chr(ord('a') + len(self.memos))}_{{{' '.join(letters)}}}"
        self.lines += [f"mask {left} : {text}", f"{left} = {body.text} + 0 x_t x_s"]

        def points(e: Env) -> list[Env]:
            return [p for s in range(1, self.sizes["T"] + 1) if holds(p := {**e, "s": s})]

        free = frozenset(letters) - {"s"}
        wide = free | (what.letters - {"s"})
        xs = lambda e: [body.of(p) for p in points(e)]  # noqa: E731
        pairs = lambda e: [(body.of(p), what.of(p)) for p in points(e)]  # noqa: E731
        return self.pick(  # type: ignore[no-any-return]
            Node(f"mean_s({left})", lambda e: quotient(sum(xs(e)), len(xs(e))), free),
            Node(f"Σ_s {left} ({what.text})", lambda e: sum(x * y for x, y in pairs(e)), wide),
            Node(f"Σ_s softmax_s({left}) * ({what.text})", lambda e: shares(pairs(e)), wide),
            Node(f"max(logsumexp_s({left}), -9)", lambda e: max(logsumexp(xs(e)), -9), free),
            Node(f"max(max_s {left}, -9)", lambda e: max([-9.0, *xs(e)]), free),
            Node(f"Σ_s LN_s({left}) * ({what.text})", lambda e: self.normed(pairs(e)), wide))

    def rounds(self) -> Node:
        """A state over a range of positions, up or down, and what it makes at each of them."""
        n, down = self.sizes["T"], self.pick(False, False, True)
        first, less = self.pick((1, 0), (1, 0), (2, 0), (1, 1))
        one, two = self.value(("t",), 1), self.value(("t",), 1)
        a, b, extra = one.of, two.of, sorted((one.letters | two.letters) - {"t"}, key="hd".index)
        self.memos.append({})
        name = f"{chr(ord('a') + len(self.memos))}"
        state = f"g{name}" + (f"_{{{' '.join(extra)}}}" if extra else "")
        made = f"u{name}_{{{' '.join(['t', *extra])}}}"
        text, new = self.pick(
            (f"tanh({one.text}) {state} + {two.text}", lambda x, e: math.tanh(a(e)) * x + b(e)),
            (f"max({state}, {one.text})", lambda x, e: max(x, a(e))),
            (f"tanh({state} + {one.text})", lambda x, e: math.tanh(x + a(e))),
            (f"max({state} / 2, {one.text}) + {two.text}", lambda x, e: max(x / 2, a(e)) + b(e)))
        after, begin = self.pick(True, False), self.pick("0", "1", "c")
        letters = "".join(" + 0 b_h" if x == "h" else " + 0 k_1^d" for x in extra)
        ends = (str(first), "T - 1" if less else "T")
        lines = [f"{state} = {begin}{letters}", f"for t in {'..'.join(ends[::-1] if down else ends)}:",
                 f"    {made} = {text if after else f'{state} + 0 x_t'}", f"    {state} ← {made if after else text}"]

        def of(e: Env) -> float:
            x, found = float(self.data["c"]) if begin == "c" else float(begin), 0.0
            for t in (range(n - less, first - 1, -1) if down else range(first, n + 1 - less)):
                x, before = new(x, {**e, "t": t}), x
                found = (x if after else before) if t == e["t"] else found
            return found

        gate = {(1, 0): "", (2, 0): "1[t ≥ 2] ", (1, 1): "1[t ≤ T - 1] "}[first, less]
        self.lines += lines
        return Node(f"({gate}{made}) * 2", lambda e: 2 * of(e), frozenset(["t", *extra]))

    def chosen(self) -> Node:
        """A fold over the elements of a set."""
        score, worth = self.pick(("x_s", lambda e: self.at("x", e["s"])), ("doc_s", lambda e: self.at("doc", e["s"])),
                                 ("(z_s - abs(s - t) / 2)", lambda e: self.at("z", e["s"]) - abs(e["s"] - e["t"]) / 2))
        text, holds = self.pick(("s ≤ t", lambda e: e["s"] <= e["t"]), ("s < t", lambda e: e["s"] < e["t"]))
        self.memos.append({})
        name, what = f"S{chr(ord('A') + len(self.memos))}", self.value(("t", "s"), 1)
        self.lines.append(f"set {name}_t = topk_{{{text}}}({score}, W)")

        def members(e: Env) -> list[Env]:
            each = [p for s in range(1, e["t"] + 1) if holds(p := {**e, "s": s})]
            return sorted(each, key=lambda p: (-worth(p), p["s"]))[:self.sizes["W"]]

        xs = lambda e: [what.of(p) for p in members(e)]  # noqa: E731
        free, over = (what.letters | {"t"}) - {"s"}, f"{{s ∈ {name}_t}}"
        return self.pick(  # type: ignore[no-any-return]
            Node(f"Σ_{over} ({what.text})", lambda e: sum(xs(e)), free),
            Node(f"mean_{over}({what.text} + 0 x_s)", lambda e: quotient(sum(xs(e)), len(xs(e))), free),
            Node(f"max(max_{over} ({what.text} + 0 x_s), -9)", lambda e: max([-9.0, *xs(e)]), free),
            Node(f"Σ_{{s ≤ t}} 1[s ∈ {name}_t] ({what.text})", lambda e: sum(xs(e)), free),
            Node(f"Σ_s softmax_{over}(z_s) ({what.text})",
                 lambda e: shares([(self.at("z", p["s"]), what.of(p)) for p in members(e)]), free))

    def step(self) -> None:
        """One equation, with what it needs."""
        kind = self.pick(*["fold"] * 4, "beside", "point", "rounds", "chosen", "number", "near", "parts")
        at = self.at
        match kind:
            case "fold":
                self.define(self.fold())
            case "beside":
                one, two = self.fold(), self.value(("t",), 1)
                # a letter that is bound here and free there has two names
                text = one.text
                if "h" in two.letters - one.letters:
                    text = re.sub(r"(?<![a-z])h(?![a-z])", "h'", text.replace("b_h", "b_{h}"))
                self.define(Node(f"({text}) * ({two.text}) - {two.text}",
                                 lambda e: one.of(e) * two.of(e) - two.of(e), one.letters | two.letters))
            case "point":
                self.define(self.value(("t",), 2))
            case "rounds":
                self.define(self.rounds())
            case "chosen":
                self.define(self.chosen())
            case "number":
                text, of = self.pick(("t", lambda e: e["t"]), ("T - t", lambda e: self.sizes["T"] - e["t"]),
                                     ("mod(t, 2)", lambda e: e["t"] % 2), ("floor(t / 2)", lambda e: e["t"] // 2))
                self.define(Node(text, lambda e: float(of(e)), frozenset("t")))
            case "near":
                self.define(Node("Σ_{o, t + o ≥ 1, t + o ≤ T} v_o x_{t + o}", lambda e: sum(
                    at("v", o + 2) * at("x", e["t"] + o) for o in (-1, 0, 1) if 1 <= e["t"] + o <= self.sizes["T"]),
                    frozenset("t")))
            case _:
                self.define(Node("Σ_e LN_e(X_t^e) (1 + mod(e - 1, 2))", lambda e: self.normed(
                    [(float(y), 1.0 + n % 2) for n, y in enumerate(self.data["X"][e["t"] - 1])]), frozenset("t")))
