"""Further random texts with an evaluation of their own, one number at a time: windows in windows, chosen elements
under masks, composites at places that data gives, definitions whose parameters may be left out, and results that share
a fold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hostile_programs import Env, Hostile, Node, Of, quotient, shares

DEFINED = ("def bend(x, c = 0.5, k = 2 c) = x / (1 + c + k abs(x))\n"
           "def leant(x^i, w = 0.25) = Σ_{i'} (x^{i'} - w mean_{i'}(x^{i'}))")


class Further(Hostile):
    """A program of these constructs, each beside what others draw."""

    def step(self) -> None:
        """One construct, perhaps after an equation of the others."""
        if not self.lines:
            self.lines.append(f"index u : time(T)\n{DEFINED}")
        if self.pick(True, False, False):
            super().step()
        self.pick(self.nested, self.under_a_mask, self.gathered, self.applied, self.shared)()

    def near(self, at: int, most: int) -> Iterable[int]:
        """The positions of a window that ends at a position."""
        return range(max(1, at - most + 1), at + 1)

    def nested(self) -> None:
        """What is folded over a window is itself made over the window of each of its positions."""
        w, one, two = self.sizes["W"], self.value(("s",), 1), self.value(("t",), 1)
        a, z = one.of, lambda s: self.at("z", s)

        def inner(u: int, e: Env) -> list[tuple[float, float]]:
            return [(z(s), a({**e, "s": s})) for s in self.near(u, w)]

        body, value = self.pick(
            (f"Σ_{{s ∈ (u - W, u]}} z_s ({one.text})", lambda u, e: sum(x * y for x, y in inner(u, e))),
            (f"Σ_s softmax_{{s ∈ (u - W, u]}}(z_s) ({one.text})", lambda u, e: shares(inner(u, e))),
            (f"max_{{s ∈ (u - W, u]}} (z_s + {one.text})", lambda u, e: max(x + y for x, y in inner(u, e))))
        text, over = self.pick(
            (f"Σ_{{u ∈ (t - W, t]}} x_u ({body})",
             lambda us, e: sum(self.at("x", u) * value(u, e) for u in us)),
            (f"Σ_u softmax_{{u ∈ (t - W, t]}}(x_u) ({body})",
             lambda us, e: shares([(self.at("x", u), value(u, e)) for u in us])),
            (f"max_{{u ∈ (t - W, t]}} ({body} + x_u)", lambda us, e: max(value(u, e) + self.at("x", u) for u in us)),
            (f"mean_{{u ∈ (t - W, t]}}({body} + 0 x_u)",
             lambda us, e: quotient(sum(value(u, e) for u in us), len(us))))
        free = (one.letters - {"s"}) | {"t"}
        self.define(Node(text, lambda e: over(list(self.near(e["t"], w)), e), frozenset(free)))
        if self.pick(True, False):
            name, _, of = self.known[-1]
            left = name + f"_{{{' '.join(self.known[-1][1])}}}"
            self.define(Node(f"({left}) * ({two.text})", lambda e: of(e) * two.of(e), frozenset(free | two.letters)))

    def under_a_mask(self) -> None:
        """Elements of a set, where a mask leaves them."""
        text, holds, asked = self.predicate(("t", "s"))
        body, what = self.value(("t", "s"), 1), self.value(("t", "s"), 1)
        letters = sorted(body.letters | asked | {"t", "s"}, key="thds".index)
        self.memos.append({})
        mark = chr(ord("a") + len(self.memos))
        left, chosen = f"l{mark}_{{{' '.join(letters)}}}", f"S{mark.upper()}"
        self.lines += [f"set {chosen}_t = topk_{{s ≤ t}}(z_s, W)", f"mask {left} : ({text}) and s ≤ t",
                       f"{left} = {body.text} + 0 x_t x_s"]

        def points(e: Env) -> list[Env]:
            members = sorted(range(1, e["t"] + 1), key=lambda s: (-self.at("z", s), s))[:self.sizes["W"]]
            return [p for s in members if holds(p := {**e, "s": s})]

        free = (frozenset(letters) | what.letters) - {"s"}
        over = f"{{s ∈ {chosen}_t}}"
        self.define(self.pick(
            Node(f"Σ_s softmax_{over}({left}) * ({what.text})", lambda e: shares(
                [(body.of(p), what.of(p)) for p in points(e)]), free),
            Node(f"Σ_{over} {left} ({what.text})", lambda e: sum(body.of(p) * what.of(p) for p in points(e)), free),
            Node(f"max(max_{over} ({left}), -9)", lambda e: max([-9.0, *map(body.of, points(e))]),
                 frozenset(letters) - {"s"})))

    def gathered(self) -> None:
        """Parts of a composite at places that are computed or data."""
        where, place, _ = self.pick(*[p for p in (self.place("t") for _ in range(40)) if not p[2]] or [
            ("t", lambda e: e["t"], "")])
        part, n = self.pick(1, 2), self.sizes["D"]

        def element(at: int, d: int, a: int) -> float:
            return float(self.data["X"][at - 1, (d - 1) * 2 + a - 1])

        def row(at: int) -> list[float]:
            return [element(at, d, a) for d in range(1, n + 1) for a in (1, 2)]

        read: Of = lambda e: element(place(e), e["d"], part)  # noqa: E731
        pairs: Of = lambda e: sum(x * y for x, y in zip(row(place(e)), row(e["t"]), strict=True))  # noqa: E731
        told: Of = lambda e: shares([(self.at("x", s), element(int(self.at("ptr", s)), e["d"], part))  # noqa: E731
                                     for s in range(1, e["t"] + 1)])
        self.define(self.pick(
            Node(f"X_{{{where}}}^{{(d {part})}}", read, frozenset("td")),
            Node(f"Σ_e X_{{{where}}}^e X_t^e", pairs, frozenset("t")),
            Node(f"max_e X_{{{where}}}^e", lambda e: max(row(place(e))), frozenset("t")),
            Node(f"Σ_s softmax_{{s ≤ t}}(x_s) X_{{ptr_s}}^{{(d {part})}}", told, frozenset("td"))))

    def applied(self) -> None:
        """A definition with some of its parameters."""
        one = self.value(("t",), 1)
        x = one.of

        def bent(y: float, c: float = 0.5, k: float | None = None) -> float:
            return y / (1 + c + (2 * c if k is None else k) * abs(y))

        def leant(e: Env, w: float) -> float:
            found = [float(y) for y in self.data["X"][e["t"] - 1]]
            return sum(y - w * sum(found) / len(found) for y in found)

        self.define(self.pick(
            Node(f"bend({one.text})", lambda e: bent(x(e)), one.letters),
            Node(f"bend({one.text}, 1.5)", lambda e: bent(x(e), 1.5), one.letters),
            Node(f"bend({one.text}, k = 3)", lambda e: bent(x(e), k=3), one.letters),
            Node(f"bend(bend({one.text}), c = 1, k = 0.5)", lambda e: bent(bent(x(e)), 1, 0.5), one.letters),
            Node("leant(X_t^e)", lambda e: leant(e, 0.25), frozenset("t")),
            Node("leant_e(X_t^e, w = 0.5)", lambda e: leant(e, 0.5), frozenset("t"))))

    def shared(self) -> None:
        """Two values that are made of one fold, written out in both."""
        one = self.fold()
        of = one.of
        extra = "" if "t" in one.letters else " + 0 x_t"
        self.define(Node(f"tanh({one.text}){extra}", lambda e: math.tanh(of(e)), one.letters | {"t"}))
        self.define(Node(f"x_t * ({one.text})", lambda e: self.at("x", e["t"]) * of(e), one.letters | {"t"}))

