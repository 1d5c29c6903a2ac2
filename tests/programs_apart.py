"""Another generator of random texts, kept apart from the others: values are tensors of torch, drawn with the text.

An expression is its text and its value at all points of the letters that it has, on the axes of AXES; torch
differentiates it. Folds stand inside of folds, over two letters of time and over letters that no term has; reads are at
positions of two letters; a text has functions of its own, tables of distances, products over intervals, blocks of
positions, composites, direct sums, states that are matrices, equations that read themselves, and requests of different
lengths, which are evaluated one by one. Tensors of two positions stand under masks and are read along rows and columns,
in one pass and in two; quotients have divisors that are 0 where what they divide is. Inputs have magnitudes, and of
`wild` programs some numbers are NaN, infinite or far from 1. Nothing of einc is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import torch

Tensor = torch.Tensor
AXES = "tsuhgdf"  # t, h and d are free; s, u, g and f are bound
FREE = "thd"
ODD = (math.nan, math.inf, -math.inf, 1e5, -1e5)
HEADER = """index r : request(R)
index t, s, u : time(T)
index h, g : head(H)
index d, f : feature(D)
index a : feature(2)
index e : feature(2 D) = (a d)
index p : feature(P)
index y : feature = d ⊕ p
index o : latent(0..W)
index j : time(⌈T/B⌉)
dim W, B
def bump(x, c = 0.5) = x / (1 + c abs(x))
def weigh(x^i, v^i) = Σ_{i'} softmax_{i'}(x^{i'}) v^{i'}
def spread(x^i, v) = (Σ_{i'} (x^{i'} - mean_{i'}(x^{i'}))^2) * v
map away(t, s) = min(abs(t - s), W)
input x_t, z_t, w_t, q_{t h}, k_t^d, v_o, n_t^p, c, b_h, X_t^e
input doc_t : int
input ptr_t : int
"""
RAGGED = (("time(T)", "time(T_r)"), ("index j : time(⌈T/B⌉)\n", ""), ("W, B", "W"),
          ("x_t, z_t, w_t", "x_{r t}, z_{r t}, w_{r t}"),
          ("q_{t h}, k_t^d", "q_{r t h}, k_{r t}^d"), ("n_t^p", "n_{r t}^p"), ("X_t^e", "X_{r t}^e"),
          ("doc_t", "doc_{r t}"), ("ptr_t", "ptr_{r t}"))


@dataclass(frozen=True)
class Value:
    """A text, its value on the axes of AXES, and the letters that it has."""

    text: str
    x: Tensor
    letters: frozenset[str] = frozenset()


def axis(letter: str) -> int:
    """The place of a letter in a value."""
    return AXES.index(letter)


def safe(below: Tensor) -> Tensor:
    """A divisor, 1 where it is 0."""
    return torch.where(below == 0, torch.ones_like(below), below)


def largest(x: Tensor, inside: Tensor, dims: list[int]) -> Tensor:
    """The largest of what is inside, -∞ over nothing."""
    kept = torch.where(inside, x, -math.inf)
    shape = [1 if n in dims else size for n, size in enumerate(kept.shape)]
    return kept.amax(dims, keepdim=True) if all(kept.shape[n] for n in dims) else kept.new_full(shape, -math.inf)


def shares(x: Tensor, inside: Tensor, dims: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of a softmax, 0 over nothing; its maximum, and its sum relative to that. Of points that are all −∞
    they are no numbers.
    """
    most = largest(x, inside, dims).detach()
    lost = (most == -math.inf) & (inside & torch.ones_like(x, dtype=torch.bool)).sum(dims, keepdim=True).bool()
    most = torch.where(torch.isfinite(most), most, torch.zeros_like(most))
    weights = torch.where(inside, torch.exp(torch.where(inside, x, most) - most), 0.0)
    weights = torch.where(inside & lost, math.nan, weights)
    total = weights.sum(dims, keepdim=True)
    return weights / safe(total), most, total


class Apart:
    """One program of a number: its text, its sizes, its data and its outputs. Without `data` it draws its own."""

    def __init__(self, seed: int, data: dict[str, Tensor] | None = None) -> None:
        self.random = Random(f"apart {seed}")
        self.wild = self.pick(*[False] * 5, True)
        self.ragged = not self.wild and self.pick(*[False] * 5, True)  # 0 x is 0, also of an x that is no number
        small = self.ragged or self.pick(True, True, False)
        self.deep = small  # whether three letters of time may stand together
        self.lengths = [self.pick(1, 2, 3, 5, 9) for _ in range(self.pick(1, 2, 3))] if self.ragged else []
        self.sizes = {"T": self.pick(4, 5, 7, 1, 2, 0, 12) if small else self.pick(65, 70, 129),
                      "H": self.pick(2, 1, 3), "D": self.pick(2, 1, 3), "P": self.pick(1, 2),
                      "W": self.pick(1, 2, 3, 7), "B": self.pick(2, 1, 3, 5)}
        if self.ragged:
            del self.sizes["B"]
        self.data = self.drawn(seed) if data is None else data
        self.length = len(self.data["x"])
        self.lines: list[str] = []
        self.known: dict[str, Value] = {}
        self.count = 0
        for _ in range(self.pick(1, 2, 2, 3)):
            self.pick(*[self.equation] * 4, self.recurrence, self.earlier, self.matrix, self.interval, self.blocks,
                      self.joined, self.composite, *[self.pairs] * 3, *[self.chosen] * (not self.wild))()
        self.outputs = list(self.known)[-self.pick(1, 1, 2):]
        made = [self.left(name, self.known[name].letters) for name in self.outputs]
        head = HEADER
        for old, new in RAGGED if self.ragged else ():
            head = head.replace(old, new)
        self.text = head + "\n".join([*self.lines, *(f"output {x} : all" for x in made)]) + "\n"

    def drawn(self, seed: int) -> dict[str, Tensor]:
        """Random inputs, those with positions of all requests one after the other."""
        draw, n = torch.Generator().manual_seed(seed), sum(self.lengths) if self.ragged else self.sizes["T"]
        random = Random(f"data {seed}")
        h, d = self.sizes["H"], self.sizes["D"]
        shapes = {"x": (n,), "z": (n,), "w": (n,), "q": (n, h), "k": (n, d), "v": (self.sizes["W"] + 1,),
                  "n": (n, self.sizes["P"]), "c": (), "b": (h,), "X": (n, 2 * d)}
        made = {key: torch.randn(shape, generator=draw, dtype=torch.float64) * random.choice((1, 1, 1, 1e-6, 30))
                for key, shape in shapes.items()}
        made["w"] = torch.where(made["w"] < 0, 0.0, 1 + made["w"])
        for key in random.sample("xzqkn", 2) if self.wild else ():
            odd = torch.tensor([random.choice(ODD) for _ in range(made[key].numel())], dtype=torch.float64)
            at = torch.rand(made[key].shape, generator=draw) < random.choice((0.1, 0.3, 1))
            made[key] = torch.where(at, odd.view(made[key].shape), made[key])
        lengths = self.lengths if self.ragged else [n]
        return made | {"doc": torch.randint(1, 4, (n,), generator=draw),
                       "ptr": torch.cat([torch.randint(1, max(m, 1) + 1, (m,), generator=draw) for m in lengths])}

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self.random.choice(options)

    # names

    def at(self, name: str, letters: str | list[str]) -> str:
        """A tensor at letters or index expressions, with its request before the position."""
        where = ", ".join([*("r" if self.ragged else ""), *letters])
        return f"{name}_{{{where}}}"

    def left(self, name: str, letters: frozenset[str]) -> str:
        """A tensor at its own letters."""
        each = [i for i in FREE if i in letters]
        if "t" in letters:
            return self.at(name, each)
        return f"{name}_{{{' '.join(each)}}}" if each else name

    def extent(self, letter: str) -> int:
        """How many points a letter has."""
        return self.length if letter in "tsu" else self.sizes["H" if letter in "hg" else "D"]

    def place(self, letter: str) -> Tensor:
        """The positions of a letter, as whole numbers."""
        shape = [self.extent(i) if i == letter else 1 for i in AXES]
        return torch.arange(1, self.extent(letter) + 1).view(shape)

    def wide(self, x: Tensor, letters: list[str]) -> Tensor:
        """A value with all points of these letters."""
        return x.expand([self.extent(i) if i in letters else n for i, n in zip(AXES, x.shape, strict=True)])

    def input(self, key: str, letters: str) -> Value:
        """An input with a position, at its letters."""
        shape = [self.extent(i) if i in letters else 1 for i in AXES]
        return Value(key, self.data[key].view(shape), frozenset(letters))

    def number(self, text: str, x: Tensor | float) -> Value:
        """A value without letters."""
        return Value(text, torch.as_tensor(x, dtype=torch.float64).view([1] * len(AXES)))

    # reads

    def pool(self) -> list[tuple[str, Value]]:
        """What has positions."""
        given = [(key, self.input(key, letters)) for key, letters in
                 (("x", "t"), ("z", "t"), ("q", "th"), ("k", "td"))]
        return given + [item for item in self.known.items() if "t" in item[1].letters] * 2

    def read(self, scope: str) -> Value:
        """A tensor at letters that are in scope, or at a position made of them, 0 where a gate says so."""
        name, value = self.pick(*self.pool())
        change = {i: self.pick(*(x for x in pair if x in scope or x == pair[0]))
                  for i, pair in (("h", "hg"), ("d", "df"))}
        text, where, gate, letters = self.position(scope)
        x = value.x
        for i, other in change.items():
            x = x.transpose(axis(i), axis(other))
        each = [text, *(change[i] for i in "hd" if i in value.letters)]
        found = x.index_select(0, (where.clamp(1, self.length) - 1).flatten() if self.length else where.flatten())
        found = found.view(*where.shape[:3], *x.shape[3:])
        has = frozenset(letters) | {change[i] for i in "hd" if i in value.letters}
        if not gate:
            return Value(self.at(name, each), found, has)
        inside = (where >= 1) & (where <= self.length)
        return Value(f"(1[{gate}] {self.at(name, each)})", torch.where(inside, found, 0.0), has)

    def position(self, scope: str) -> tuple[str, Tensor, str, str]:
        """A position made of letters in scope: its text, its number, its gate and its letters."""
        times = [i for i in scope if i in "tsu"]
        i, k, n, w = self.pick(*times), self.pick(*times), self.length, self.sizes["W"]
        at, to = self.place(i), self.place(k)
        ptr = self.data["ptr"].view(-1, *[1] * (len(AXES) - 1)).transpose(0, axis(i))
        end = "T_r" if self.ragged else "T"
        said = f"1 ≤ {self.at('ptr', [i])}, {self.at('ptr', [i])} ≤ T_r" if self.ragged else ""
        simple = [(i, at, "", i)] * 6 + [
            (f"{i} - 1", at - 1, f"{i} > 1", i), (f"{i} + W", at + w, f"{i} + W ≤ {end}", i),
            (f"max({i} - 2, 1)", (at - 2).clamp(min=1), "", i), (f"ceil({i} / 2)", (at + 1) // 2, "", i),
            (self.at("ptr", [i]), ptr, said, i), (f"{end} + 1 - {i}", n + 1 - at, "", i)]
        pairs = [(f"{i} - {k}", at - to, f"{i} > {k}", i + k),
                 (f"max({i} - {k}, 1)", (at - to).clamp(min=1), "", i + k),
                 (f"abs({i} - {k}) + 1", (at - to).abs() + 1, "", i + k),
                 (f"min({i} + {k}, {end})", (at + to).clamp(max=n), "", i + k)] if i != k else []
        return self.pick(*simple, *pairs)  # type: ignore[no-any-return]

    def leaf(self, scope: str) -> Value:
        """A read, a number, a table of distances or a position as a number."""
        times = [i for i in scope if i in "tsu"]
        i = self.pick(*times)
        k = self.pick(*(x for x in times if x != i or len(times) == 1))
        number = self.pick(0.5, 1.0, 2.0)
        head = self.pick(*(x for x in "hg" if x in scope or x == "h"))
        away = (self.place(i) - self.place(k)).abs().clamp(max=self.sizes["W"])
        b = self.data["b"].view(1, 1, 1, -1, 1, 1, 1).transpose(3, axis(head))
        return self.pick(  # type: ignore[no-any-return]
            *(self.read(scope) for _ in range(7)), self.number(f"{number:g}", number), self.number("c", self.data["c"]),
            Value(f"({i} / 4)", self.place(i) / 4, frozenset(i)), Value(f"b_{head}", b, frozenset(head)),
            Value(f"v_{{away({i}, {k})}}", self.data["v"][away], frozenset(i + k)),
            Value(f"(away({i}, {k}) / 2)", away / 2, frozenset(i + k)))

    # expressions

    def value(self, scope: str, depth: int) -> Value:
        """A value of moderate size."""
        if not depth:
            return self.leaf(scope)
        if self.random.random() < 0.3 and (free := self.unused(scope)):
            return self.fold(scope, free, depth - 1)
        one, two = self.value(scope, depth - 1), self.value(scope, self.pick(0, depth - 1))
        a, b, both = one.x, two.x, one.letters | two.letters
        text, holds, more = self.condition(scope)
        return self.pick(  # type: ignore[no-any-return]
            Value(f"({one.text} + {two.text})", a + b, both), Value(f"({one.text} - {two.text})", a - b, both),
            Value(f"({one.text} * {two.text})", a * b, both), Value(f"tanh({one.text})", a.tanh(), one.letters),
            Value(f"silu({one.text})", a * a.sigmoid(), one.letters),
            Value(f"bump({one.text})", a / (1 + 0.5 * a.abs()), one.letters), self.divided(one, scope),
            Value(f"bump({one.text}, c = 2)", a / (1 + 2 * a.abs()), one.letters),
            Value(f"exp(-({one.text})^2)", torch.exp(-a**2), one.letters),
            Value(f"sqrt(1 + ({one.text})^2)", (1 + a**2).sqrt(), one.letters),
            Value(f"max({one.text}, {two.text})", torch.maximum(a, b), both),
            Value(f"(1[{text}] {one.text} + 1[not ({text})] {two.text})", torch.where(holds, a, b), both | more),
            Value(f"(1[{text}] {one.text} - {two.text})", torch.where(holds, a, 0.0) - b, both | more))

    def divided(self, one: Value, scope: str) -> Value:
        """A value times and by a number that may be 0, and then is 0: as keys of padding and their norms are. A value
        that is no number makes it none.
        """
        i, k = self.pick(*(x for x in scope if x in "tsu")), self.pick(*(x for x in scope if x in "tsu"))
        mine, theirs = (self.input("w", "t").x.transpose(0, axis(x)) for x in (i, k))
        own = mine * theirs if i != k else mine
        text = f"{self.at('w', i)} * {self.at('w', k)}" if i != k else self.at("w", i)
        found = torch.where(own == 0, (one.x * own).detach(), one.x * own / torch.where(own == 0, 1.0, own))
        return Value(f"(({one.text} * {text}) / ({text}))", found, one.letters | {i, k})

    def unused(self, scope: str) -> str:
        """Letters of time that a fold may bind."""
        return "".join(i for i in ("su" if self.deep else "s") if i not in scope)

    def condition(self, scope: str) -> tuple[str, Tensor, frozenset[str]]:
        """A condition on letters of time in scope, of the last and another one above all."""
        times = [i for i in scope if i in "tsu"]
        i = times[-1]
        k, m = self.pick(*(times[:-1] or times)), self.pick(*(times[:-1] or times))
        p, r, q, w = self.place(i), self.place(k), self.place(m), self.sizes["W"]
        doc = self.data["doc"].view(-1, *[1] * (len(AXES) - 1))
        mine, theirs = (doc.transpose(0, axis(x)) for x in (i, k))
        options = [
            (f"{i} ≤ {k}", p <= r, i + k), (f"{i} < {k}", p < r, i + k), (f"{i} ≥ {k}", p >= r, i + k),
            (f"{i} > {k} - W", p > r - w, i + k), (f"{i} ≠ {k}", p != r, i + k), (f"2 {i} ≤ {k}", 2 * p <= r, i + k),
            (f"{self.at('doc', [i])} = {self.at('doc', [k])}", mine == theirs, i + k),
            (f"{self.at('doc', [i])} < {self.at('doc', [k])}", mine < theirs, i + k),
            (f"mod({i} + {k}, 3) = 0", (p + r) % 3 == 0, i + k), (f"mod({i}, W) = 0", p % w == 0, i),
            (f"{i} > W", p > w, i),
            (f"floor(({i} - 1) / W) = floor(({k} - 1) / W)", (p - 1) // w == (r - 1) // w, i + k),
            (f"{i} + {k} ≤ {m} + W", p + r <= q + w, i + k + m), (f"{i} ≤ {m} - W", p <= q - w, i + m),
            (f"away({i}, {k}) < W", (p - r).abs() < w, i + k)]
        (text, one, has), (more, two, others) = self.pick(*options), self.pick(*options)
        kind = self.pick("", "", "", "and", "or", "not")
        if not kind:
            return text, one, frozenset(has)
        both = frozenset(has) | frozenset(others)
        if kind == "not":
            return f"not ({text} and {more})", ~(one & two), both
        return f"({text} {kind} {more})", one & two if kind == "and" else one | two, both

    def fold(self, scope: str, free: str, depth: int) -> Value:
        """A fold over one or more letters, whatever the terms have of them."""
        bound = self.pick(free[0], free[0], free[0], free) + self.pick("", "", "", "g", "f")
        if set(bound) & set(scope):
            bound = free[0]
        inner = scope + bound
        text, holds, asked = self.condition("".join(sorted(inner, key="thdgfus".index)) if self.pick(0, 1) else inner)
        body, what = self.value(inner, depth), self.value(inner, self.pick(0, 0, depth))
        dims, each = [axis(i) for i in bound], list(bound)
        x, y, inside = (self.wide(v, each) for v in (*torch.broadcast_tensors(body.x, what.x), holds))
        x, own = self.wide(body.x, each), self.wide(holds, each)
        weights, most, total = shares(x, own, dims)
        count = (own & torch.ones_like(x, dtype=torch.bool)).sum(dims, keepdim=True).double()
        total_of = lambda v: torch.where(own, v, 0.0).sum(dims, keepdim=True)  # noqa: E731
        mean = total_of(x) / safe(count)
        log = torch.where(total == 0, -math.inf, most + safe(total).log())
        over, has = f"{{{', '.join(bound)}, {text}}}", (body.letters | asked) - set(bound)
        wide, all_ = (body.letters | asked | what.letters) - set(bound), f"{{{' '.join(bound)}}}"
        product = torch.where(own, x.tanh(), 1.0)
        for n in dims:
            product = product.prod(n, keepdim=True)
        weighed = torch.where(own & torch.ones_like(y, dtype=torch.bool), weights * y, 0.0).sum(dims, keepdim=True)
        anything = [
            Value(f"(Σ_{over} {body.text})", total_of(x), has),
            Value(f"(Σ_{over} {body.text} * {what.text})", 
                  torch.where(inside, x * y, 0.0).sum(dims, keepdim=True), wide),
            Value(f"max(max_{over} {body.text}, -9)", largest(x, own, dims).clamp(min=-9), has),
            Value(f"(prod_{over} tanh({body.text}))", product, has)]
        if not set(bound) <= body.letters:
            return self.pick(*anything)  # type: ignore[no-any-return]
        return self.pick(  # type: ignore[no-any-return]
            *anything,
            Value(f"mean_{over}({body.text})", mean, has),
            Value(f"max(logsumexp_{over}({body.text}), -9)", log.clamp(min=-9), has),
            Value(f"(Σ_{all_} softmax_{over}({body.text}) * {what.text})", weighed, wide),
            Value(f"weigh_{over}({body.text}, {what.text})", weighed, wide),
            Value(f"(c Σ_{all_} softmax_{over}({body.text}))", self.data["c"] * weights.sum(dims, keepdim=True), has),
            Value(f"spread_{over}({body.text}, c)", total_of((x - mean) ** 2) * self.data["c"], has))

    # equations

    def define(self, right: str, x: Tensor, letters: frozenset[str]) -> str:
        """A new equation; in requests everything has a position."""
        if self.ragged and "t" not in letters:
            right, letters = f"{right} + 0 {self.at('x', 't')}", letters | {"t"}
        name = self.named()
        self.lines.append(f"{self.left(name, letters)} = {right}")
        self.known[name] = Value(name, self.wide(x, [i for i in FREE if i in letters]), letters)
        return name

    def named(self) -> str:
        """A new name."""
        self.count += 1
        return f"y{'abcdefghijk'[self.count]}"

    def equation(self) -> None:
        """Any expression."""
        made = self.value("t", self.pick(2, 2, 3)) if self.pick(0, 1) else self.fold("t", self.unused("t"), 1)
        self.define(made.text, made.x, made.letters)

    def pairs(self) -> None:
        """A tensor of two positions under a mask, its rows in several ways, its columns, and what needs two passes."""
        if self.ragged:
            return self.equation()
        body, what, (text, holds, _) = self.value("ts", 1), self.read("s"), self.condition("ts")
        name, mean = f"L{'abcdefghijk'[self.count]}", f"m{'abcdefghijk'[self.count]}"
        rest = [i for i in "hd" if i in body.letters]
        row, column = (f"{name}_{{{', '.join([*ends, *rest])}}}" for ends in ("ts", "st"))
        self.lines += [f"mask {row} : ({text}) and s < t + 3 W", f"{row} = {body.text} + (t - s) / 8"]
        t, s = self.place("t"), self.place("s")
        x = self.wide(body.x + (t - s) / 8, ["t", "s"])
        own = self.wide(holds & (s < t + 3 * self.sizes["W"]), ["t", "s"])
        y = self.wide(what.x, ["s"])
        own, wide = own & torch.ones_like(x, dtype=torch.bool), own & torch.ones_like(x * y, dtype=torch.bool)
        letters = frozenset(["t", *rest])
        weights, most, total = shares(x, own, [1])
        exact = torch.where(own, x.exp(), 0.0)
        middle = torch.where(wide, weights * y, 0.0).sum(1, keepdim=True)
        self.lines.append(f"{self.left(mean, letters | what.letters - {'s'})} = Σ_s softmax_s({row}) {what.text}")
        center = self.at(mean, [i for i in FREE if i in letters | what.letters - {"s"}])
        both = letters | what.letters - {"s"}
        ways = [
            Value(center, middle, both),
            Value(f"max(max_s {row}, -9)", largest(x, own, [1]).clamp(min=-9), letters),
            Value(f"max(logsumexp_s({row}), -9)",
                  torch.where(total == 0, -math.inf, most + safe(total).log()).clamp(min=-9), letters),
            Value(f"(Σ_s {row} * {what.text})", torch.where(wide, x * y, 0.0).sum(1, keepdim=True), both),
            Value(f"(Σ_s (softmax_s({row}))^2)", (weights**2).sum(1, keepdim=True), letters),
            # An exponential without s stands above the stroke and below it, and is struck out.
            Value(center, middle, both) if self.wild and "s" not in body.letters else
            Value(f"((Σ_s exp({row}) {what.text}) / (Σ_s exp({row})))", middle if not self.wild else
                  torch.where(wide, exact * y, 0.0).sum(1, keepdim=True) / safe(exact.sum(1, keepdim=True)), both),
            Value(f"(Σ_s softmax_s({row}) ({what.text} - {center})^2)",
                  torch.where(wide, weights * (y - middle) ** 2, 0.0).sum(1, keepdim=True), both),
            Value(f"tanh(Σ_s {column})", torch.where(own, x, 0.0).sum(0, keepdim=True).transpose(0, 1).tanh(), letters)]
        one, two = self.pick(*ways), self.pick(*ways)
        self.define(*self.pick((one.text, one.x, one.letters),
                               (f"{one.text} + {two.text}", one.x + two.x, one.letters | two.letters),
                               (f"{one.text} * tanh({two.text})", one.x * two.x.tanh(), one.letters | two.letters)))
        return None

    def recurrence(self) -> None:
        """An equation that reads itself at the position before."""
        gate, more = self.value("t", 1), self.value("t", 1)
        letters = gate.letters | more.letters | {"t"}
        name = self.named()
        a, b = (self.wide(torch.broadcast_tensors(x, gate.x + more.x)[0], ["t"]) for x in (gate.x.tanh(), more.x))
        rest = [i for i in FREE if i in letters and i != "t"]
        before = self.at(name, ["t - 1", *rest])
        self.lines.append(f"{self.left(name, letters)} = 1[t > 1] tanh({gate.text}) {before} + {more.text}")
        state, found = torch.zeros_like(b[:1]), [b[:0]]
        for t in range(self.length):
            state = (a[t : t + 1] * state if t else 0) + b[t : t + 1]
            found.append(state)
        self.known[name] = Value(name, torch.cat(found), letters)

    def earlier(self) -> None:
        """An equation that sums what it is at earlier positions."""
        weight, more = self.value("ts", 1), self.value("t", 1)
        letters = (weight.letters | more.letters | {"t"}) - {"s"}
        name, w = self.named(), self.wide(weight.x.tanh() / 4, ["t", "s"])
        rest = [i for i in FREE if i in letters and i != "t"]
        self.lines.append(f"{self.left(name, letters)} = {more.text} + "
                          f"Σ_{{s < t}} (tanh({weight.text}) / 4) {self.at(name, ['s', *rest])}")
        own = self.wide(torch.broadcast_tensors(more.x, w[:, :1])[0], ["t"])
        w = torch.broadcast_to(w, (*w.shape[:2], *own.shape[2:]))
        found: list[Tensor] = []
        for t in range(self.length):
            past = [w[t : t + 1, s : s + 1] * x for s, x in enumerate(found)]
            found.append(own[t : t + 1] + (torch.stack(past).sum(0) if past else 0))
        self.known[name] = Value(name, torch.cat(found) if found else own, letters)

    def matrix(self) -> None:
        """A state that is a matrix, written in rounds and read by a product."""
        gate, key = self.value("t", 1), self.input("k", "td").x
        if self.ragged or "t" not in gate.letters or gate.letters - {"t"}:
            return self.equation()
        name, made, decay = f"S{'abcdefghijk'[self.count]}", self.named(), self.wide(gate.x.sigmoid(), ["t"])
        self.lines += [f"{name}_{{d f}} = 0", "for t in 1..T:",
                       f"    {name}_{{d f}} ← sigmoid({gate.text}) {name}_{{d f}} + k_t^d tanh(k_t^f)",
                       f"    {made}_{{t d}} = Σ_f {name}_{{d f}} k_t^f"]
        other = key.transpose(axis("d"), axis("f"))
        state, found = torch.zeros_like(key[:1] * other[:1]), [key[:0]]
        for t in range(self.length):
            found.append((state * other[t : t + 1]).sum(axis("f"), keepdim=True))
            state = decay[t : t + 1] * state + key[t : t + 1] * other[t : t + 1].tanh()
        self.known[made] = Value(made, torch.cat(found), frozenset("td"))
        return None

    def interval(self) -> None:
        """A sum over earlier positions, weighed by products over intervals; some factors are 0 or negative."""
        text, gate = self.pick(
            (self.at("x", "u"), self.input("x", "t").x), (f"tanh({self.at('z', 'u')})", self.input("z", "t").x.tanh()),
            (f"max({self.at('x', 'u')}, 0)", self.input("x", "t").x.clamp(min=0)),
            (f"sigmoid({self.at('q', 'uh')})", self.input("q", "th").x.sigmoid()))
        what, letters = self.read("s"), frozenset("th" if "q_" in text else "t")
        w, columns = self.wide(what.x, ["s"]), []
        for s in range(self.length):  # the products from s on
            after = torch.cat([torch.zeros_like(gate[:s]), torch.ones_like(gate[s : s + 1]), gate[s + 1:].cumprod(0)])
            columns.append(torch.where(self.place("t") > s, after * w[:, s : s + 1], 0.0))
        total = torch.stack(columns).sum(0) if columns else gate * 0
        self.define(f"Σ_{{s ≤ t}} (∏_{{u ∈ (s, t]}} {text}) {what.text}", total, letters | what.letters - {"s"})

    def blocks(self) -> None:
        """Sums of blocks of positions, read at the position's own block or over those that are over."""
        if self.ragged:
            return self.equation()
        body, name, size = self.value("s", 1), f"C{'abcdefghijk'[self.count]}", self.sizes["B"]
        many = -(-self.length // size)
        rest = [i for i in FREE if i in body.letters]
        s, j = torch.arange(self.length), torch.arange(many)
        member = ((s // size)[None] == j[:, None]).double().view(many, self.length, 1, 1, 1, 1, 1)
        sums = torch.where(member > 0, self.wide(body.x, ["s"]), 0.0).sum(1, keepdim=True)
        scripts = " ".join(["j", *rest])
        self.lines.append(f"{name}_{{{scripts}}} = Σ_{{s ∈ ((j-1) B, j B]}} {body.text}")
        letters = frozenset(["t", *rest])
        if self.pick(0, 1):
            self.define(f"{name}_{{{', '.join(['ceil(t / B)', *rest])}}}", sums.index_select(0, s // size), letters)
            return None
        over = (((j + 1) * size)[None] <= (s + 1)[:, None]).view(self.length, many, 1, 1, 1, 1, 1)
        lined = sums.transpose(0, 1)
        weights, _, _ = shares(lined, over & torch.ones_like(lined, dtype=torch.bool), [1])
        self.define(f"Σ_j softmax_{{j, j B ≤ t}}({name}_{{{scripts}}}) tanh({name}_{{{scripts}}})",
                    torch.where(over, weights * lined.tanh(), 0.0).sum(1, keepdim=True), letters)
        return None

    def joined(self) -> None:
        """A direct sum, and what is made of all of it or of a part."""
        name, one = f"J{'abcdefghijk'[self.count]}", self.input("k", "td").x
        text, gate = self.pick((self.at("z", "t"), self.input("z", "t").x), ("c", self.number("c", self.data["c"]).x))
        first, second = one * gate, self.data["n"].view(self.length, 1, 1, 1, 1, self.sizes["P"], 1)
        whole = f"{name}_{{{'r ' * self.ragged}t}}^y"
        k, n = (f"{key}_{{{'r ' * self.ragged}t}}^{i}" for key, i in ("kd", "np"))
        self.lines.append(f"{whole} = {text} * {k} ⊕ tanh({n})")
        both = torch.cat([first, second.tanh()], axis("d"))
        if self.pick(0, 1):
            self.define(f"Σ_y softmax_y({whole}) sqrt(1 + ({whole})^2)",
                        (both.softmax(axis("d")) * (1 + both**2).sqrt()).sum(axis("d"), keepdim=True), frozenset("t"))
        else:
            self.define(f"{whole.replace('^y', '^d')} * {k} + max_y {whole}",
                        first * one + both.amax(axis("d"), keepdim=True), frozenset("td"))

    def composite(self) -> None:
        """A composite taken apart, and one that is put together."""
        request, d = "r " * self.ragged, self.sizes["D"]
        halves = self.data["X"].view(self.length, 1, 1, 1, 1, 2, d)
        first, second = (halves[:, :, :, :, :, n].unsqueeze(-1) for n in (0, 1))
        x = [f"X_{{{request}t}}^{{({n}, d)}}" for n in (1, 2)]
        if self.pick(0, 1):
            self.define(f"{x[0]} * sin(t / 3) - {x[1]} * cos(t / 3)",
                        first * (self.place("t") / 3).sin() - second * (self.place("t") / 3).cos(), frozenset("td"))
            return
        name, key = f"K{'abcdefghijk'[self.count]}", self.input("k", "td").x
        self.lines.append(f"{name}_{{{request}t}}^{{(a d)}} = X_{{{request}t}}^{{(a d)}} * k_{{{request}t}}^d")
        made = torch.stack([first * key, second * key])
        self.define(f"Σ_e ({name}_{{{request}t}}^e)^2 / (1 + max_{{e'}} abs({name}_{{{request}t}}^{{e'}}))",
                    (made**2).sum((0, 1 + axis("d"))).unsqueeze(axis("d"))
                    / (1 + made.abs().amax((0, 1 + axis("d"))).unsqueeze(axis("d"))), frozenset("t"))

    def chosen(self) -> None:
        """A fold over the largest elements of all positions or of those that are not later."""
        score, what = self.pick("x", "z"), self.read("s")
        name, n, free = f"M{'abcdefghijk'[self.count]}", self.sizes["W"], self.pick(False, True)
        numbers = self.data[score].detach()
        reach = torch.ones(self.length, self.length).tril() > 0
        rank = torch.where(reach, numbers[None], -math.inf).sort(dim=1, descending=True, stable=True).indices[:, :n]
        inside = (torch.zeros(self.length, self.length).scatter(1, rank, 1.0) > 0) & reach
        inside = inside.view(self.length, self.length, *[1] * (len(AXES) - 2))
        self.lines.append(f"set {name}{'_{r t}' if self.ragged else '_t'} = topk_{{s ≤ t}}({self.at(score, 's')}, W)")
        member, w = f"s ∈ {name}{'_{r t}' if self.ragged else '_t'}", self.wide(what.x, ["s"])
        inside = torch.broadcast_to(inside, (self.length, self.length, *w.shape[2:]))
        letters = (what.letters | {"t"}) - {"s"}
        if free:
            self.define(f"Σ_{{{member}}} {what.text}", torch.where(inside, w, 0.0).sum(1, keepdim=True), letters)
        else:
            z = self.wide(self.input("z", "t").x.transpose(0, 1), ["s"])
            weights, _, _ = shares(torch.broadcast_to(z, inside.shape), inside, [1])
            self.define(f"Σ_s softmax_{{{member}}}({self.at('z', 's')}) {what.text}",
                        (weights * w).sum(1, keepdim=True), letters)

    # results

    def results(self) -> dict[str, Tensor]:
        """The outputs, each with the axes of its letters."""
        found = {}
        for name in self.outputs:
            x, letters = self.known[name].x, self.known[name].letters
            found[name] = x.reshape([n for i, n in zip(AXES, x.shape, strict=True) if i in letters])
        return found


def evaluated(case: Apart, seed: int, data: dict[str, Tensor]) -> dict[str, Tensor]:
    """The outputs for other data: of all requests together, each of which is a program of its own."""
    if not case.ragged:
        return Apart(seed, data).results()
    ends = torch.tensor([0, *case.lengths]).cumsum(0).tolist()
    along = {"x", "z", "w", "q", "k", "n", "X", "doc", "ptr"}
    each = [Apart(seed, {key: x[one:two] if key in along else x for key, x in data.items()}).results()
            for one, two in pairwise(ends)]
    return {name: torch.cat([one[name] for one in each]) for name in case.outputs}


Evaluation = Callable[[dict[str, Tensor]], dict[str, Tensor]]
