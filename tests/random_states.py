"""Random texts whose states are affine in themselves, and equations that read themselves at earlier positions.

As in `random_recurrences`, an expression is drawn as its text together with what it is at a position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

import torch
from random_recurrences import AXES, NOTHING, PAIRED, Drawn, Frame, Name, Value, both, number, one, shape, summed

HEADER = """index t, s : time(T)
index b : batch(B)
index h : head(H)
index d, k : feature(D)
index e, l : feature(E)
index f, n : feature(F)
"""
OTHER = {"d": "k", "e": "l", "f": "n"}
NONE: Mapping[str, str] = {}
Equations = list[tuple[Name, Value]]


def ordered(letters: Iterable[str]) -> str:
    return "".join(sorted(set(letters), key=AXES.index))


def written(name: Name, place: str = "t", by: Mapping[str, str] = NONE) -> str:
    """A name with its letters, heads and batches below; `by` are letters that stand in place of others."""
    letters = [by.get(x, x) for x in name.letters]
    low = [place] * name.times + [x for x in letters if x in "bh"]
    high = [x for x in letters if x not in "bh"]
    return name.name + (f"_{{{', '.join(low)}}}" if low else "") + (f"^{{{' '.join(high)}}}" if high else "")


def held(name: Name, letter: str = "t", by: Mapping[str, str] = NONE) -> Value:
    """A name at the position of a letter."""

    def of(frame: Frame) -> torch.Tensor:
        found = frame.held[name.name][(frame.at[letter],) if name.times else ()]
        found = found.expand(shape(name.letters, frame.sizes))
        for x, y in by.items():
            found = found.transpose(AXES.index(x), AXES.index(y)) if x in name.letters else found
        return found

    return Value(written(name, letter, by), of, frozenset(by.get(x, x) for x in name.letters))


def times(*values: Value) -> Value:
    """The product of values."""
    out = values[0]
    for value in values[1:]:
        out = both(out, value, f"{out.text} * {value.text}", torch.mul)
    return out


def total(values: list[Value]) -> Value:
    out = values[0]
    for value in values[1:]:
        out = both(out, value, f"{out.text} + {value.text}", torch.add)
    return Value(f"({out.text})", out.of, out.letters)


def over(letters: str, value: Value) -> Value:
    """The sum over letters."""
    out = value
    for letter in letters:
        out = summed(out, letter, "")
    return Value(f"(Σ_{{{', '.join(letters)}}} {value.text})", out.of, out.letters)


def normed(value: Value, letters: str) -> Value:
    """The value over its length along letters; the text has it under other letters there."""
    text = re.sub(r"\^\{[^}]*\}", lambda found: "".join(OTHER[x] if x in letters else x for x in found[0]), value.text)
    axes = [AXES.index(x) for x in letters]

    def of(x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt(1 + x.square().sum(axes, keepdim=True))

    bound = ", ".join(OTHER[x] for x in letters)
    return one(value, f"{value.text} / √(1 + Σ_{{{bound}}} ({text})^2)", of)


@dataclass(frozen=True)
class Kind:
    """A state: its name, and its letters that are summed, that pass, and that each go their own way."""

    name: Name
    met: str
    passing: str
    batch: str


KINDS = [("d", "e"), ("d", "e"), ("d", "e"), ("e", "d"), ("df", "e"), ("d", "ef"), ("df", ""), ("", "de"), ("", "d"),
         ("d", ""), ("", "")]


@dataclass
class Drawing:
    """One text: inputs are named as they are needed."""

    random: Random
    smooth: bool
    given: list[Name] = field(default_factory=list)
    gates: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    runs: list[Callable[[Frame], None]] = field(default_factory=list)
    outputs: list[Name] = field(default_factory=list)
    made: int = 0

    def fresh(self, first: str) -> str:
        self.made += 1
        return first + chr(ord("a") + self.made // 20) + chr(ord("a") + self.made % 20)

    def some(self, letters: str) -> str:
        return "".join(x for x in letters if self.random.random() < 0.5)

    def name(self, letters: str, timed: int = 1, gate: bool = False) -> Name:
        """An input with these letters: a new one, or now and then one that is there."""
        letters = ordered(letters)
        same = [n for n in self.given if (n.times, n.letters, n.name in self.gates) == (timed, letters, gate)]
        if same and self.random.random() < 0.4:
            return self.random.choice(same)
        made = Name(self.fresh("i"), timed, letters)
        self.given.append(made)
        if gate:
            self.gates.add(made.name)
        return made

    def input(self, letters: str, timed: int = 1) -> Value:
        return held(self.name(letters, timed if self.random.random() < 0.9 else 0))

    def gate(self, letters: str) -> Value:
        """A number of at most 1 for some of the letters; exactly 0, 1 and -1 are among them."""
        kind = self.random.choice(["raw", "raw", "tanh", "exp", "step", "number", "two"])
        if kind == "raw":
            return held(self.name(letters, 1, gate=True))
        if kind == "number":
            return number(self.random.choice(["0.9", "0.5", "1", "0"]))
        if kind == "two":
            return times(held(self.name(self.some(letters), 1, gate=True)), self.gate(letters))
        a = self.input(letters)
        if kind == "step":
            return one(a, f"1[{a.text} > 0]", lambda x: (x > 0).to(x.dtype))
        if kind == "exp":
            return one(a, f"exp(-abs({a.text}))", lambda x: torch.exp(-x.abs()))
        return one(a, f"tanh({a.text})", torch.tanh)

    # affine states

    def kind(self) -> Kind:
        met, passing = self.random.choice(KINDS)
        batch = self.random.choice(["", "h", "b", "bh"])
        return Kind(Name(self.fresh("S"), 0, ordered(met + passing + batch)), met, passing, batch)

    def read(self, kind: Kind, of: Name) -> Value:
        """The product of a state with a vector over the letters that are met."""
        by = {x: OTHER[x] for x in kind.met}
        vector = held(self.name(kind.met + self.some(kind.batch)), "t", by)
        return over("".join(by.values()), times(vector, held(of, "t", by)))

    def change(self, kind: Kind) -> tuple[Equations, Value]:
        """What a round makes of a state: values that stand before it, and the next one."""
        letters = kind.name.letters
        scale = self.random.choice(["none", "", kind.batch, kind.met[:1], letters, kind.passing])
        state, before, terms = kind.name, Equations(), list[Value]()
        if scale != "none":
            faded = times(self.gate(scale), held(state))
            if self.random.random() < 0.4:
                state = Name(self.fresh("R"), 0, letters)
                before.append((state, faded))
            terms.append(held(state) if before else faded)
        else:
            terms.append(held(state))
        for _ in range(self.random.choice([0, 1, 1, 2]) if kind.met else 0):
            back = self.read(kind, state)
            if self.random.random() < 0.5:
                more = self.input(kind.passing + kind.batch)
                back = PAIRED["sub"](back, more)
            vector = self.input(kind.met + self.some(kind.batch))
            terms.append(times(number("0.5"), self.gate(self.some(kind.batch)), back, vector))
        for _ in range(self.random.choice([0, 1, 1, 2])):
            parts = [self.input(x + self.some(kind.batch)) for x in (kind.met, kind.passing) if x]
            terms.append(times(*parts, self.input(self.some(kind.batch))))
        self.random.shuffle(terms)
        return before, total(terms)

    def shown(self, kind: Kind, after: Name) -> Value:
        """What an output makes of a state before and after its change."""
        found = self.read(kind, self.random.choice([after, after, kind.name])) if kind.met else held(after)
        how = self.random.choice(["plain", "plain", "times", "tanh", "norm", "both", "more", "whole"])
        if how == "times":
            return times(found, self.input(self.some(kind.passing + kind.batch)))
        if how == "tanh":
            return one(found, f"tanh({found.text})", torch.tanh)
        if how == "norm" and kind.passing:
            return normed(found, kind.passing)
        if how == "both" and kind.met:
            return total([found, self.read(kind, kind.name)])
        if how == "more":
            return total([found, self.input(self.some(kind.passing + kind.batch))])
        if how == "whole" and self.random.random() < 0.3:
            return total([held(after), held(kind.name)])
        return found

    def output(self, value: Value) -> tuple[Name, Value]:
        """An output of each position; it reads t, so that it is one of each."""
        if "_{t" not in value.text:
            value = total([value, self.input("", 1)])
        name = Name(self.fresh("y"), 1, ordered(x for x in value.letters if x != "t"))
        return name, value

    def affine(self) -> None:
        """Rounds with one or two states that are affine, and now and then one that is not."""
        kinds = [self.kind() for _ in range(self.random.choice([1, 1, 1, 2]))]
        body, updates, starts = list[tuple[Name, Value, bool]](), Equations(), Equations()
        for kind in kinds:
            starts.append((kind.name, self.start(kind.name)))
            before, value = self.change(kind)
            after = Name(self.fresh("N"), 0, kind.name.letters)
            body += [(*x, False) for x in before]
            body.append((after, value, False))
            body += [(*self.output(self.shown(kind, after)), True) for _ in range(self.random.choice([1, 1, 2, 0]))]
            updates.append((kind.name, held(after)))
        if self.random.random() < 0.25:
            starts.append((Name(self.fresh("Z"), 0, ""), number("0.5")))
            state = starts[-1][0]
            free = total([times(held(state), self.input("")), self.input("")])
            updates.append((state, one(free, f"tanh({free.text})", torch.tanh)))
            body.append((*self.output(times(held(state), self.input("h"))), True))
        self.rounds(starts, body, updates)
        for name, _ in starts:
            if self.random.random() < 0.4 or not self.outputs:
                self.after(name)

    def start(self, name: Name) -> Value:
        """What a state is before the first round: a number, or an input."""
        if self.random.random() < 0.4:
            return held(self.name(name.letters, 0))
        return number(self.random.choice(["0", "0", "1", "0.5"]))

    def rounds(self, starts: Equations, body: list[tuple[Name, Value, bool]], updates: Equations) -> None:
        self.lines += [f"{written(name)} = {value.text}" for name, value in starts]
        self.lines.append("for t in 1..T:")
        self.lines += [f"    {'output ' * shown}{written(name)} = {value.text}" for name, value, shown in body]
        self.lines += [f"    {written(name)} ← {value.text}" for name, value in updates]
        self.outputs += [name for name, _, shown in body if shown]

        def run(frame: Frame) -> None:
            for name, value in starts:
                frame.held[name.name] = {(): value.of(frame)}
            for name, _, _ in body:
                frame.held[name.name] = {}
            for t in range(1, frame.sizes["T"] + 1):
                frame.at["t"] = t
                for name, value, _ in body:
                    frame.held[name.name][(t,) if name.times else ()] = value.of(frame)
                found = {name.name: value.of(frame) for name, value in updates}
                frame.held |= {key: {(): value} for key, value in found.items()}

        self.runs.append(run)

    def after(self, state: Name) -> None:
        """The last state as an output."""
        name, value = Name(self.fresh("F"), 0, state.letters), held(state)
        self.lines.append(f"output {written(name)} = {value.text}")
        self.outputs.append(name)

        def run(frame: Frame) -> None:
            frame.held[name.name] = {(): value.of(frame)}

        self.runs.append(run)

    # equations that read themselves

    def back(self, name: Name, lag: int, by: Mapping[str, str], start: Value | None) -> Value:
        """A value some positions back: what it starts from or 0 where there is none."""
        here = held(name, "t", by)

        def of(frame: Frame) -> torch.Tensor:
            at = frame.at["t"]
            if at <= lag:
                return torch.zeros(NOTHING) if start is None else start.of(frame)
            frame.at["t"] = at - lag
            found = here.of(frame)
            frame.at["t"] = at
            return found

        text = written(name, f"t - {lag}", by)
        return Value(text if start is not None else f"1[t > {lag}] {text}", of, here.letters)

    def earlier(self, name: Name, start: Value | None) -> Value:
        """A term of a value at earlier positions: times a gate, through a matrix, or of all of them."""
        how = self.random.choice(["gate", "gate", "matrix", "sum"])
        if how == "sum":
            return self.summed_back(name)
        lag = 1 if start is not None else self.random.choice([1, 1, 2, 3])
        if how == "matrix" and "d" in name.letters:
            matrix = held(Name(self.name("dk", 0).name, 0, "dk"))
            by = {"d": "k"}
            begun = None if start is None else Value("", lambda f: start.of(f).transpose(*map(AXES.index, "dk")))
            return over("k", times(number("0.5"), matrix, self.back(name, lag, by, begun)))
        return times(self.gate(self.some(name.letters)), self.back(name, lag, NONE, start))

    def summed_back(self, name: Name) -> Value:
        """The sum over all positions before this one, weighed by a product of vectors of both."""
        pair = self.name("d")
        body = times(held(pair, "t", {"d": "k"}), held(pair, "s", {"d": "k"}))
        body = times(over("k", body), held(name, "s"))

        def of(frame: Frame) -> torch.Tensor:
            found = torch.zeros(NOTHING)
            for s in range(1, frame.at["t"]):
                frame.at["s"] = s
                found = found + 0.2 * body.of(frame)
            return found

        return Value(f"0.2 * (Σ_{{s < t}} {body.text})", of, body.letters)

    def circle(self) -> None:
        """One or two equations that read themselves and each other; the second reads the first where it stands too."""
        letters = self.random.choice(["", "", "d", "h", "hd", "de", "bd"])
        names = [Name(self.fresh("h"), 1, letters) for _ in range(self.random.choice([1, 1, 2]))]
        starts = [self.begun(name) if self.random.random() < 0.5 else None for name in names]
        found = Equations()
        for n, name in enumerate(names):
            sources = [names[1 - n]] if len(names) > 1 else [name]
            sources += [self.random.choice(names) for _ in range(self.random.randrange(2))]
            terms = [self.earlier(x, starts[names.index(x)]) for x in sources]
            terms += [held(names[0])] * (n == 1 and self.random.random() < 0.5)
            terms.append(held(self.name(letters)))
            value = total(terms)
            value = one(value, f"tanh({value.text})", torch.tanh) if self.random.random() < 0.4 else value
            found.append((name, value))
        self.lines += [f"output {written(name)} = {value.text}" for name, value in found]
        self.outputs += names

        def run(frame: Frame) -> None:
            for name in names:
                frame.held[name.name] = {}
            for t in range(1, frame.sizes["T"] + 1):
                for name, value in found:
                    frame.at["t"] = t
                    frame.held[name.name][(t,)] = value.of(frame)

        self.runs.append(run)

    def begun(self, name: Name) -> Value:
        """What a value is at the position before the first one."""
        value = self.start(name)
        self.lines.append(f"{written(name, '0')} = {value.text}")
        return Value(value.text, lambda f: value.of(f).expand(shape(name.letters, f.sizes)), frozenset(name.letters))


def _drawn(made: Drawing, draw: Callable[[], None]) -> Drawn:
    draw()
    lines = "\n".join(made.lines)
    given = [n for n in made.given if n.name in lines]
    inputs = f"input {', '.join(written(n) for n in given)}\n" if given else ""
    text = f"{HEADER}{inputs}{lines}\n"
    return Drawn(text, tuple(given), tuple(made.outputs), tuple(made.runs), frozenset(), frozenset(made.gates))


def affine(seed: int, smooth: bool = False) -> Drawn:
    """Rounds whose states are affine in themselves."""
    made = Drawing(Random(seed), smooth)
    return _drawn(made, made.affine)


def circle(seed: int, smooth: bool = False) -> Drawn:
    """Equations that read themselves at earlier positions."""
    made = Drawing(Random(seed), smooth)
    return _drawn(made, made.circle)
