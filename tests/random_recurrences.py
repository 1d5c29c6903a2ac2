"""Random texts with rounds that run in order, each with a plain loop over positions that says what it means.

Nothing of einc is used: an expression is drawn as its text together with a closure that gives its value at a position.
Values are tensors of torch with an axis for each of `AXES`, of length 1 where a value does not depend on the letter, so
torch differentiates the loop too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import torch

Sizes = Mapping[str, int]
Tensors = dict[str, torch.Tensor]
Places = tuple[int, ...]

AXES = "bhdefkln"
SIZE = {"b": "B", "h": "H", "d": "D", "e": "E", "f": "F", "k": "D", "l": "E", "n": "F"}
NOTHING = (1,) * len(AXES)
HEADER = """index t, s : time(T)
index h : head(H)
index d, k : feature(D)
index e : feature(E)
dim W
"""
INPUTS = {"x": (1, ""), "z": (1, ""), "g": (1, "h"), "u": (1, "d"), "q": (1, "hd"), "p": (1, "hd"), "v": (1, "he"),
          "w": (0, "h"), "c": (0, "d"), "b": (0, "e"), "m": (0, "de"), "r": (0, "")}
STATES = ["", "", "h", "d", "hd", "e", "he", "de", "hde"]


@dataclass
class Frame:
    """What is known while a text is evaluated: every name at its positions, and where letters of time stand."""

    sizes: Sizes
    held: dict[str, dict[Places, torch.Tensor]]
    at: dict[str, int] = field(default_factory=dict)
    doc: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Name:
    """A tensor: whether it has an axis of time, and its other letters."""

    name: str
    times: int
    letters: str

    def written(self, place: str, feature: str = "d", lowered: bool = False) -> str:
        """A read, or a left side, at a position; `feature` stands for the letter d."""
        letters = [feature if x == "d" else x for x in self.letters]
        low = [place] * self.times + [x for x in letters if x == "h" or (lowered and x == feature)]
        high = [x for x in letters if x not in low]
        return (self.name + (f"_{{{', '.join(low)}}}" if low else "") + (f"^{{{' '.join(high)}}}" if high else ""))


@dataclass(frozen=True)
class Value:
    """An expression: its text, and its value where a frame stands."""

    text: str
    of: Callable[[Frame], torch.Tensor]
    letters: frozenset[str] = frozenset()


def shape(letters: str, sizes: Sizes) -> list[int]:
    return [sizes[SIZE[x]] if x in letters else 1 for x in AXES]


def number(text: str) -> Value:
    return Value(text, lambda frame: torch.full(NOTHING, float(text)))


def read(name: Name, letter: str = "", how: str = "here", feature: str = "d", lowered: bool = False) -> Value:
    """A name at a position, at the one before if there is one, or at that or the first."""
    place = {"here": letter, "before": f"{letter} - 1", "first": f"max({letter} - 1, 1)"}[how]
    text = name.written(place, feature, lowered)

    def of(frame: Frame) -> torch.Tensor:
        held, places = frame.held[name.name], (frame.at[letter],) if name.times else ()
        if name.times and how != "here":
            places = (max(frame.at[letter] - 1, 1),)
            if how == "before" and frame.at[letter] == 1:
                return torch.zeros(NOTHING)
        found = held[places].expand(shape(name.letters, frame.sizes))
        return found.transpose(AXES.index("d"), AXES.index("k")) if feature == "k" else found

    gated = name.times and how == "before"
    letters = frozenset([feature if x == "d" else x for x in name.letters] + [letter] * name.times)
    return Value(f"(1[{letter} > 1] {text})" if gated else text, of, letters)


def both(a: Value, b: Value, text: str, of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Value:
    return Value(text, lambda frame: of(a.of(frame), b.of(frame)), a.letters | b.letters)


def one(a: Value, text: str, of: Callable[[torch.Tensor], torch.Tensor]) -> Value:
    return Value(text, lambda frame: of(a.of(frame)), a.letters)


def summed(a: Value, letter: str, text: str) -> Value:
    """The sum over a letter that the value has."""
    at = AXES.index(letter)

    def of(frame: Frame) -> torch.Tensor:
        found = a.of(frame)
        if found.shape[at] == 1:
            found = found.expand([n if x != at else frame.sizes[SIZE[letter]] for x, n in enumerate(found.shape)])
        return found.sum(at, keepdim=True)

    return Value(text, of, a.letters - {letter})


PAIRED: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: both(a, b, f"({a.text} + {b.text})", torch.add),
    "sub": lambda a, b: both(a, b, f"({a.text} - {b.text})", torch.sub),
    "mul": lambda a, b: both(a, b, f"({a.text}) * ({b.text})", torch.mul),
    "max": lambda a, b: both(a, b, f"max({a.text}, {b.text})", torch.maximum),
    "ratio": lambda a, b: both(a, b, f"({a.text} / (1 + abs({b.text})))", lambda x, y: x / (1 + y.abs())),
}
SINGLE: dict[str, Callable[[Value], Value]] = {
    "tanh": lambda a: one(a, f"tanh({a.text})", torch.tanh),
    "exp": lambda a: one(a, f"exp(-abs({a.text}))", lambda x: torch.exp(-x.abs())),
}
CONDITIONS: list[tuple[str, Callable[[int], bool]]] = [
    ("t > 2", lambda t: t > 2), ("mod(t, 2) = 0", lambda t: t % 2 == 0), ("t ≤ 3", lambda t: t <= 3)]
# Each with whether t says no more than where the rounds end, and when a round of s runs for t.
DOMAINS: list[tuple[str, bool, Callable[[Frame, int, int], bool]]] = [
    ("s in 1..t", True, lambda f, s, t: s <= t), ("s ≤ t", True, lambda f, s, t: s <= t),
    ("s < t", True, lambda f, s, t: s < t), ("s ≤ t, mod(s, 2) = 1", True, lambda f, s, t: s <= t and s % 2 == 1),
    ("s ∈ (t - W, t]", False, lambda f, s, t: t - f.sizes["W"] < s <= t),
    ("s ≤ t, s > t - W", False, lambda f, s, t: t - f.sizes["W"] < s <= t),
    ("s ≤ t, doc_s = doc_t", False, lambda f, s, t: s <= t and f.doc[s - 1] == f.doc[t - 1]),
    ("s ≤ t - 1", False, lambda f, s, t: s < t), ("s in max(t - 1, 1)..t", False, lambda f, s, t: t - 1 <= s <= t)]


@dataclass
class Recurrences:
    """One text: its lines, what they compute in order, what may be read after them, and its outputs.

    `kinds` are the features of the language that it has, for tests that leave some of them out.
    """

    random: Random
    smooth: bool = False
    lines: list[str] = field(default_factory=list)
    runs: list[Callable[[Frame], None]] = field(default_factory=list)
    timed: list[Name] = field(default_factory=list)
    still: list[Name] = field(default_factory=list)
    outputs: list[Name] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    made: int = 0

    # expressions

    def fresh(self, first: str) -> str:
        self.made += 1
        return first + chr(ord("a") + self.made - 1)

    def atom(self, names: list[Name], letters: str, letter: str, feature: str) -> Value:
        fitting = [n for n in names if set(n.letters) <= set(letters)]
        if not fitting or self.random.random() < 0.08:
            return number(self.random.choice(["0.5", "1.5", "2"]))
        name = self.random.choice(fitting)
        inner = name not in self.timed
        how = "here" if inner else self.random.choice(["here", "here", "here", "before", "first"])
        return read(name, letter, how, feature)

    def value(self, names: list[Name], letters: str, letter: str, depth: int, feature: str = "d") -> Value:
        """A value at the position of `letter`, of no letters but those allowed."""
        kinds = ["atom", "add", "sub", "mul", "mul", "tanh", "exp", "max", "ratio", "sum", "pair"]
        kind = self.random.choice(kinds) if depth else "atom"
        if kind == "atom":
            return self.atom(names, letters, letter, feature)
        if kind in ("sum", "pair"):
            return self.contracted(names, letters, letter, depth, feature, kind)
        a = self.value(names, letters, letter, depth - 1, feature)
        if kind in SINGLE:
            return SINGLE[kind](a)
        return PAIRED[kind](a, self.value(names, letters, letter, depth - 1, feature))

    def contracted(self, names: list[Name], letters: str, letter: str, depth: int, feature: str, kind: str) -> Value:
        """A sum over a letter that is not yet bound, written or implied."""
        if feature == "k":
            return self.atom(names, letters, letter, feature)
        by_feature = [n for n in names if "d" in n.letters and set(n.letters) <= {*letters, "d"}]
        if kind == "pair" and len(by_feature) > 1:
            a, b = self.random.sample(by_feature, 2)
            low, high = read(a, letter, "here", "k", lowered=True), read(b, letter, "here", "k")
            return summed(both(low, high, "", torch.mul), "k", f"({low.text} {high.text})")
        over = self.random.choice([x for x in "ehk" if x not in letters])
        if over == "k":
            a = self.value(names, letters + "d" * ("d" not in letters), letter, depth - 1, "k")
            if "k" not in a.letters:
                a = PAIRED["mul"](a, read(Name("c", 0, "d"), letter, "here", "k"))
        else:
            a = self.value(names, letters + over, letter, depth - 1)
            if over not in a.letters:
                a = PAIRED["mul"](a, read(Name({"h": "w", "e": "b"}[over], 0, over)))
        return summed(a, over, f"(Σ_{over} ({a.text}))")

    def covered(self, value: Value, name: Name, letter: str) -> Value:
        """The value, or a sum with it that has every letter of the left side."""
        for x, more in (*zip("hde", "wcb", strict=True), (letter, "x")):
            if x not in value.letters and (name.times if more == "x" else x in name.letters):
                value = PAIRED["add"](value, read(Name(more, *INPUTS[more]), letter))
        return value

    def bounded(self, names: list[Name], letters: str, letter: str, state: Name) -> Value:
        """What a state becomes: affine in it, or not, and of moderate size."""
        kind = self.random.choice(["affine", "affine", "free", "product"])
        here = read(state)
        if kind == "affine":
            calm = [n for n in names if n.times or n in self.still]
            gate, more = (self.value(calm, letters, letter, 1) for _ in range(2))
            text = f"tanh({gate.text}) * {here.text} + {more.text}"
            return Value(text, lambda f: torch.tanh(gate.of(f)) * here.of(f) + more.of(f), here.letters)
        free = self.value(names, letters, letter, 3)
        if kind == "product":
            free = PAIRED["mul"](here, free)
        return SINGLE["tanh"](PAIRED["add"](free, self.atom(self.timed, letters, letter, "d")))

    # lines

    def line(self, name: Name, value: Value, output: bool, letter: str = "t", mark: str = "") -> None:
        """An equation outside of rounds."""
        value = self.covered(value, name, letter)
        self.lines.append(f"{'output ' * output}{name.written(letter)} = {value.text}{mark}")

        def run(frame: Frame) -> None:
            for n in range(1, frame.sizes["T"] + 1) if name.times else [0]:
                frame.at[letter] = n
                held = frame.held.setdefault(name.name, {})
                held[(n,) if name.times else ()] = value.of(frame).expand(shape(name.letters, frame.sizes))

        self.runs.append(run)
        if name.times:
            self.timed.append(name)
        elif not output:  # what is shown of a last state depends on every position
            self.still.append(name)
        if output:
            self.outputs.append(name)

    def before(self) -> None:
        """Equations that the rounds may read."""
        for _ in range(self.random.randrange(3)):
            times, letters = self.random.randrange(2), self.random.choice(["", "h", "d", "he"])
            name = Name(self.fresh("B"), times, letters)
            names = self.timed + self.still if times else self.still
            if times and self.random.random() < 0.4:
                self.line(name, self.folded(letters), output=False)
            else:
                self.line(name, self.value(names, letters, "t", 2), output=False)

    def folded(self, letters: str) -> Value:
        """A sum, a maximum or a softmax over the positions up to t of what there is at each."""
        body = self.value(self.timed, letters, "s", 1)
        some = [n for n in self.timed if not n.letters]
        logit = PAIRED["add"](*(read(self.random.choice(some), "s") for _ in range(2)))
        kind = self.random.choice(["sum", "softmax", "softmax", "norm"])
        text = {"sum": f"(Σ_{{s ≤ t}} ({body.text}))", "softmax": f"(Σ_{{s ≤ t}} softmax_{{s, s ≤ t}}({logit.text}) * "
                f"({body.text}))", "norm": f"√(1 + Σ_{{s ≤ t}} ({body.text})^2)"}[kind]

        def of(frame: Frame) -> torch.Tensor:
            found, logits, now = [], [], frame.at["t"]
            for s in range(1, now + 1):
                frame.at["s"] = s
                found.append(body.of(frame))
                if kind == "softmax":
                    logits.append(logit.of(frame))
            rows = torch.stack(torch.broadcast_tensors(*found))
            if kind == "softmax":
                return (torch.softmax(torch.stack(torch.broadcast_tensors(*logits)), 0) * rows).sum(0)
            return rows.sum(0) if kind == "sum" else torch.sqrt(1 + (rows**2).sum(0))

        return Value(text, of, (body.letters | {"t"}) - {"s"})

    def after(self) -> None:
        """Equations that read what rounds gave."""
        for _ in range(self.random.randrange(3)):
            letters = self.random.choice(["", "h", "e"])
            fold = self.random.random() < 0.5
            value = self.folded(letters) if fold else self.value(self.timed + self.still, letters, "t", 2)
            self.line(Name(self.fresh("R"), 1, letters), value, output=self.random.random() < 0.7)

    # rounds

    def states(self, letter: str = "") -> list[tuple[Name, Value]]:
        """States with what they start from."""
        out = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            name = Name(self.fresh("S"), 0, self.random.choice(STATES))
            options = [n for n in self.still if set(n.letters) <= set(name.letters)]
            start = number(self.random.choice(["0.25", "1", "0.5"] if self.smooth else ["0", "0", "1", "0.5"]))
            if options and self.random.random() < 0.4:
                start = self.covered(read(self.random.choice(options)), name, letter)
            if letter and self.random.random() < 0.3:
                start = self.covered(self.value(self.timed, name.letters, letter, 1), Name("", 1, name.letters), letter)
                self.kinds.add("start at t")
            out.append((name, start))
        return out

    def direct(self) -> None:
        """`for t in 1..T:`, with outputs at each position and of the last states."""
        states, inner = self.states(), list[tuple[Name, Value, bool]]()
        for name, start in states:
            self.lines.append(f"{name.written('')} = {start.text}")
        condition = self.random.choice(CONDITIONS) if self.random.random() < 0.25 else None
        self.lines.append(f"for t in 1..T{f', {condition[0]}' if condition else ''}:")
        names, given = [n for n, _ in states], self.timed + self.still
        for _ in range(self.random.randrange(3)):
            name = Name(self.fresh("N"), self.random.randrange(2), self.random.choice(STATES[:7]))
            value = self.covered(self.value(names + given, name.letters, "t", 2), name, "t")
            inner.append((name, value, False))
            self.lines.append(f"    {name.written('t')} = {inner[-1][1].text}")
            names.append(Name(name.name, name.times, name.letters))
        shown = self.random.randrange(3) if condition is None else 0
        for _ in range(shown):
            name = Name(self.fresh("y"), 1, self.random.choice(["", "h", "e", "hd"]))
            value = self.covered(self.value(names * 2 + given, name.letters, "t", 2), name, "t")
            inner.append((name, value, True))
            self.lines.append(f"    output {name.written('t')} = {inner[-1][1].text}")
        updates = self.updated(states, names + given, "t")
        self.runs.append(lambda frame: _direct(frame, states, inner, updates, condition))
        if condition is None:
            self.timed += [n for n, _, _ in inner if n.times]
            self.outputs += [n for n, _, out in inner if out]
        if not shown or self.random.random() < 0.5:
            self.line(Name(self.fresh("F"), 0, states[0][0].letters), read(states[0][0]), output=True)

    def updated(self, states: list[tuple[Name, Value]], names: list[Name], letter: str) -> list[tuple[Name, Value]]:
        """The updates, each as a line; now and then of a value of the round, as it is."""
        out = []
        for name, _ in states:
            same = [n for n in names if n.letters == name.letters and n.name[0] == "N"]
            value = self.covered(self.bounded(names, name.letters, letter, name), name, letter)
            if same and self.random.random() < 0.3:
                value = read(self.random.choice(same), letter)
            out.append((name, value))
            self.lines.append(f"    {'    ' * (letter == 's')}{name.written('')} ← {value.text}")
        return out

    def ended(self) -> None:
        """`for t:` with rounds over the positions s of a domain that t bounds."""
        domain, plain, runs = self.random.choice(DOMAINS)
        own = not plain or self.random.random() < 0.2
        self.lines.append("for t:")
        states = self.states("t" if own else "")
        own = own or "start at t" in self.kinds
        for name, start in states:
            self.lines.append(f"    {name.written('')} = {start.text}")
        self.lines.append(f"    for {domain}:")
        names, given, inner = [n for n, _ in states], self.timed + self.still, list[tuple[Name, Value, bool]]()
        for _ in range(self.random.randrange(2)):
            name = Name(self.fresh("N"), 0, self.random.choice(STATES[:7]))
            value = self.value(names + given, name.letters, "s", 2)
            if own and self.random.random() < 0.5:
                value = PAIRED["add"](value, self.atom(self.timed, name.letters, "t", "d"))
            value = self.covered(value, name, "s")
            inner.append((name, value, False))
            self.lines.append(f"        {name.written('s')} = {value.text}")
            names.append(name)
        updates = self.updated(states, names + given, "s")
        self.kinds |= {"states of their own"} if own else set()
        name = Name(self.fresh("y"), 1, states[0][0].letters)
        out = PAIRED["add"](self.value([n for n, _ in states], name.letters, "t", 2),
                            self.value([n for n, _ in states] + given, name.letters, "t", 1))
        out = PAIRED["add"](out, read(states[0][0]))
        out = self.covered(out, name, "t")
        self.lines.append(f"    output {name.written('t')} = {out.text}{' : all' if own else ''}")
        self.runs.append(lambda frame: _ended(frame, states, inner, updates, runs, (name, out)))
        self.outputs.append(name)
        if not own:
            self.timed.append(name)

    # the whole

    def text(self) -> str:
        body = "\n".join(self.lines)
        given = [n.written("t") for n in self.given()]
        doc = "input doc_t : int\n" if "doc_" in body else ""
        return f"{HEADER if 'W' in body else HEADER.replace('dim W', '')}input {', '.join(given)}\n{doc}{body}\n"

    def given(self) -> list[Name]:
        """The inputs that the text reads."""
        body = "\n".join(self.lines)
        used = [n for n in INPUTS if re.search(rf"(?<![A-Za-z]){n}(?![A-Za-z])", body)]
        return [Name(n, *INPUTS[n]) for n in used]


def _direct(frame: Frame, states: list[tuple[Name, Value]], inner: list[tuple[Name, Value, bool]],
            updates: list[tuple[Name, Value]], condition: tuple[str, Callable[[int], bool]] | None) -> None:
    for name, start in states:
        frame.held[name.name] = {(): start.of(frame)}
    for name, _, _ in inner:
        frame.held[name.name] = {}
    for t in range(1, frame.sizes["T"] + 1):
        frame.at["t"] = t
        if condition is None or condition[1](t):
            for name, value, _ in inner:
                frame.held[name.name][(t,) if name.times else ()] = value.of(frame)
            found = {name.name: value.of(frame) for name, value in updates}
            for key, value in found.items():
                frame.held[key] = {(): value}


def _ended(frame: Frame, states: list[tuple[Name, Value]], inner: list[tuple[Name, Value, bool]],
           updates: list[tuple[Name, Value]], runs: Callable[[Frame, int, int], bool],
           output: tuple[Name, Value]) -> None:
    name, value = output
    frame.held[name.name] = {}
    for t in range(1, frame.sizes["T"] + 1):
        frame.at["t"] = t
        for state, start in states:
            frame.held[state.name] = {(): start.of(frame)}
        for s in range(1, frame.sizes["T"] + 1):
            if runs(frame, s, t):
                frame.at["s"] = s
                for made, body, _ in inner:
                    frame.held[made.name] = {(): body.of(frame)}
                found = {state.name: body.of(frame) for state, body in updates}
                for key, new in found.items():
                    frame.held[key] = {(): new}
        frame.held[name.name][(t,)] = value.of(frame)


@dataclass(frozen=True)
class Drawn:
    """A text, its inputs, what it has of the language, and what its outputs are; `gates` are inputs of which some
    values are exactly 0, 1 and -1.
    """

    text: str
    given: tuple[Name, ...]
    outputs: tuple[Name, ...]
    runs: tuple[Callable[[Frame], None], ...]
    kinds: frozenset[str]
    gates: frozenset[str] = frozenset()

    def inputs(self, sizes: Sizes, seed: int = 0, scale: float = 0.8) -> Tensors:
        """Random inputs of moderate size, and documents."""
        random = torch.Generator().manual_seed(seed)
        out = {}
        for name in self.given:
            axes = [sizes["T"]] * name.times + [sizes[SIZE[x]] for x in name.letters]
            out[name.name] = scale * torch.randn(axes, generator=random, dtype=torch.float64)
            if name.name in self.gates:
                chosen = torch.randint(-3, 9, axes, generator=random).double()
                out[name.name] = torch.where(chosen.abs() < 2, chosen, out[name.name].tanh())
        if "doc_" in self.text:
            out["doc"] = torch.randint(1, 3, [sizes["T"]], generator=random)
        return out

    def means(self, inputs: Mapping[str, torch.Tensor], sizes: Sizes) -> Tensors:
        """Every output, by the loop; the type of torch's numbers must be float64."""
        frame = Frame(sizes, {}, doc=[int(n) for n in inputs.get("doc", ())])
        for name in self.given:
            rows = inputs[name.name] if name.times else inputs[name.name][None]
            held = [row.reshape(shape(name.letters, sizes)) for row in rows]
            frame.held[name.name] = {(n + 1,) if name.times else (): row for n, row in enumerate(held)}
        for run in self.runs:
            run(frame)
        return {name.name: self.stacked(frame, name) for name in self.outputs}

    def stacked(self, frame: Frame, name: Name) -> torch.Tensor:
        full = shape(name.letters, frame.sizes)
        places = [(n,) for n in range(1, frame.sizes["T"] + 1)] if name.times else [()]
        rows = [frame.held[name.name][place].expand(full) for place in places]
        axes = [frame.sizes[SIZE[x]] for x in name.letters]
        found = torch.stack(rows) if rows else torch.zeros(0, *full)
        return found.reshape([len(rows)] * name.times + axes)


def drawn(seed: int, smooth: bool = False) -> Drawn:
    """The text of a seed; with `smooth` it starts from no number at which a function of it has no slope."""
    made = Recurrences(Random(seed), smooth)
    made.timed = [Name(n, *x) for n, x in INPUTS.items() if x[0]]
    made.still = [Name(n, *x) for n, x in INPUTS.items() if not x[0]]
    made.before()
    for _ in range(made.random.choice([1, 1, 2])):
        made.random.choice([made.direct, made.direct, made.ended])()
        made.after()
    return Drawn(made.text(), tuple(made.given()), tuple(made.outputs), tuple(made.runs), frozenset(made.kinds))
