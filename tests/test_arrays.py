"""Strings of einsum and einops in a spec: read as torch reads them, or asked about, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import einc
from einc.driver import pipeline
from einc.errors.report import Report, Source


def _block(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    q, k, v = (torch.einsum("bld,dhk->bhlk", x, w) for w in (W_Q, W_K, W_V))
    scores = torch.einsum("bhlk,bhmk->bhlm", q, k) / 2 ** 0.5
    scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    return torch.einsum("bhlk,hkd->bld", torch.einsum("bhlm,bhmk->bhlk", scores.softmax(-1), v), W_O)


CASES: dict[str, tuple[str, dict[str, Any], Callable[..., Tensor]]] = {
    "scores": (
        'output Y = einsum("bhtd,bhsd->bhts", Q, K)',
        {"Q": (2, 3, 5, 4), "K": (2, 3, 6, 4)},
        lambda Q, K: torch.einsum("bhtd,bhsd->bhts", Q, K)),
    "no arrow": (
        'output Y = einsum("ba,cb", Q, K)', {"Q": (2, 3), "K": (4, 2)},
        lambda Q, K: torch.einsum("ba,cb", Q, K)),
    "a diagonal and a trace": (
        'output Y = einsum("ii->i", A) * einsum("ii->", A)', {"A": (4, 4)},
        lambda A: torch.diagonal(A) * torch.trace(A)),
    "every sum is its own": (
        'output Y = einsum("ij,jk->ik", A, einsum("ij,jk->ik", A, A)) + einsum("jk,ki->ji", A, A)', {"A": (4, 4)},
        lambda A: A @ A @ A + A @ A),
    "letters that another string gives to other sets": (
        'P = einsum("ab,bc->ac", A, B)\noutput Y = einsum("cb,bd->cd", P, C)',
        {"A": (2, 3), "B": (3, 4), "C": (4, 5)},
        lambda A, B, C: A @ B @ C),
    "a block": (
        'tensor x : B × L × d\ntensor W_Q, W_K, W_V : d × H × d_h\ntensor W_O : H × d_h × d\n'
        'index l, m : time(L)\nq = einsum("bld,dhk->bhlk", x, W_Q)\nk = einsum("bld,dhk->bhlk", x, W_K)\n'
        'v = einsum("bld,dhk->bhlk", x, W_V)\nS_{b h l m} = einsum("bhlk,bhmk->bhlm", q, k) / √d_h\n'
        'index b : batch(B)\nindex h : batch(H)\n'
        'A_{b h l m} = softmax_{m ≤ l}(S_{b h l m})\noutput y = einsum("bhlm,bhmk,hkd->bld", A, v, W_O)',
        {"x": (2, 5, 4), "W_Q": (4, 3, 2), "W_K": (4, 3, 2), "W_V": (4, 3, 2), "W_O": (3, 2, 4)},
        _block),
    "a softmax along an axis": (
        'index m : feature(M)\nS = einsum("ld,md->lm", Q, K)\nA = softmax(S / 2, axis = -1)\n'
        'output Y = einsum("lm,md->ld", A, V)',
        {"Q": (5, 3), "K": (4, 3), "V": (4, 2)},
        lambda Q, K, V: (Q @ K.T / 2).softmax(-1) @ V),
    "folds along an axis": (
        'S = einsum("ld,md->lm", Q, K)\noutput Y = max(S, axis = 0) + sum(S, axis = 0) * exp(S)',
        {"Q": (5, 3), "K": (4, 3)},
        lambda Q, K: (S := Q @ K.T).amax(0) + S.sum(0) * S.exp()),
    "broadcasting from the last axis": (
        'S = einsum("ld,md->lm", Q, K)\nindex m : feature(M)\ninput b_m\noutput Y = (S + b) / 2 - einsum("m->m", b)',
        {"Q": (5, 3), "K": (4, 3), "b": (4,)},
        lambda Q, K, b: (Q @ K.T + b) / 2 - b),
    "an axis in parts": (
        'index h : head(H)\nindex k : feature(D)\nindex c : feature(H D) = (h k)\ninput X_{b c}\nindex b : batch(B)\n'
        'output Y = rearrange(X, "b (h k) -> h b k")',
        {"X": (2, 6), "_": ("H", "D")},
        lambda X: X.reshape(2, 3, 2).transpose(0, 1)),
    "parts of one axis": (
        'Z = einsum("thd,shd->tsh", Q, K)\noutput Y = rearrange(Z, "t s h -> s (h t)")',
        {"Q": (2, 3, 4), "K": (5, 3, 4)},
        lambda Q, K: torch.einsum("thd,shd->sht", Q, K).reshape(5, 6)),
    "a mean, a maximum": (
        'S = einsum("ld,md->lm", Q, K)\noutput Y = reduce(S, "l m -> l", "mean") + einsum("ll->l", '
        'einsum("ld,kd->lk", Q, Q)) * reduce(S, "l m -> ", "max")',
        {"Q": (5, 3), "K": (4, 3)},
        lambda Q, K: (Q @ K.T).mean(1) + (Q * Q).sum(1) * (Q @ K.T).max()),
    "shared heads": (
        'index g : head(G)\nindex r : head(R)\nindex h : head(G R) = (g r)\ninput q_{t h d}, k_{t g d}\n'
        'index t : batch(T)\nindex d : feature(D)\nw = repeat(k, "t g d -> t (g r) d")\n'
        'output Y = einsum("thd,thd->ht", q, w)',
        {"q": (5, 6, 4), "k": (5, 3, 4), "_": ("R",)},
        lambda q, k: torch.einsum("thd,thd->ht", q, k.repeat_interleave(2, 1))),
    "matrices beside strings": (
        'index t, s : time(T)\nmatrix Q, K : T × d_k\noutput S = einsum("td,sd->ts", Q, K) : all',
        {"Q": (5, 3), "K": (5, 3)},
        lambda Q, K: Q @ K.T),
    "tensors by their sizes": (
        'tensor X, Z : B × L\ntensor b : L\nZ = exp(X) * b\noutput Y = Z / 2 + X', {"X": (3, 4), "b": (4,)},
        lambda X, b: X.exp() * b / 2 + X),
    "a view that is given back": (
        'w = rearrange(q, "a b -> b a")\nz = einsum("ba,a->b", w, v)\noutput w', {"q": (2, 3)},
        lambda q: q.T),
    "in an equation with letters": (
        'index t, s : time(T)\nindex h : head(H)\nindex d : feature(D)\ninput Q_t^{h d}, K_t^{h d}, M_{t s}\n'
        'output L_{s t}^h = einsum("thd,shd->hts", Q, K) / 2 + M_{t s} : all',
        {"Q": (5, 2, 3), "K": (5, 2, 3), "M": (5, 5)},
        lambda Q, K, M: (torch.einsum("thd,shd->sth", Q, K) / 2 + M.T[:, :, None])),
}


@pytest.mark.parametrize("name", CASES)
def test_a_string_is_what_torch_makes_of_it(name: str) -> None:
    text, shapes, torchs = CASES[name]
    draw = torch.Generator().manual_seed(7)
    arrays = {k: torch.randn(n, dtype=torch.float64, generator=draw)
              for k, n in shapes.items() if k != "_"}
    want = torchs(**arrays)
    given: dict[str, Tensor | int] = dict(arrays)
    if "_" in shapes:
        given |= {x: {"H": 3, "D": 2, "R": 2}[x] for x in shapes["_"]}
    got = einc.compile(text + "\n")(**given)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def drawn(draw: Random) -> tuple[str, list[list[int]]]:
    """A string of einsum with its operands' shapes: letters anywhere, repeated in one operand or in several."""
    letters = draw.sample("abcdhijklmnopqrstuvwxyz", draw.randint(1, 5))
    sizes = {x: draw.randint(1, 4) for x in letters}
    words = ["".join(draw.choices(letters, k=draw.randint(1, 4))) for _ in range(draw.randint(1, 3))]
    every = sorted({x for word in words for x in word})
    out = draw.sample(every, draw.randint(0, len(every)))
    return f"{','.join(words)}->{''.join(out)}", [[sizes[x] for x in word] for word in words]


@pytest.mark.parametrize("seed", range(40))
def test_a_drawn_string_is_what_torch_makes_of_it(seed: int) -> None:
    string, shapes = drawn(Random(seed))
    names = ["Q", "K", "V"][: len(shapes)]
    draw = torch.Generator().manual_seed(seed)
    arrays = {n: torch.randn(shape, dtype=torch.float64, generator=draw)
              for n, shape in zip(names, shapes, strict=True)}
    text = f'output Y = einsum("{string}", {", ".join(names)})\n'
    got = einc.compile(text)(**arrays)
    torch.testing.assert_close(got, torch.einsum(string, *arrays.values()), rtol=1e-12, atol=1e-12)


@dataclass
class Drawing:
    """Draws a program of arrays, each value with what torch makes of it. `axes` are the words of each array."""

    draw: Random
    lines: list[str] = field(default_factory=list)
    arrays: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, tuple[str, Tensor]] = field(default_factory=dict)  # a name -> its axes, one letter each

    def new(self, letters: str) -> str:
        """A new input."""
        name = "ABCDEFGHIJKLM"[len(self.arrays)]
        shape = ["tsdhk".index(x) % 3 + 2 for x in letters]
        self.arrays[name] = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(
            self.draw.randrange(1000)))
        self.values[name] = (letters, self.arrays[name])
        sizes = " × ".join(f"N_{x}" for x in letters)
        self.lines.append(f"tensor {name} : {sizes}")
        return name

    def step(self) -> None:
        """One more equation."""
        name = "PQRSUVWXYZ"[len(self.values) - len(self.arrays)]
        one = self.draw.choice(list(self.values))
        axes, value = self.values[one]
        match self.draw.choice(["einsum", "turn", "softmax", "fold", "entries", "parts"]):
            case "einsum":
                other = self.draw.choice(list(self.values))
                words = [axes, self.values[other][0]]
                every = sorted({*words[0], *words[1]})
                out = self.draw.sample(every, self.draw.randint(1, min(3, len(every))))
                string = f"{words[0]},{words[1]}->{''.join(out)}"
                made, axes = torch.einsum(string, value, self.values[other][1]), "".join(out)
                text = f'einsum("{string}", {one}, {other})'
            case "turn":
                order = self.draw.sample(range(len(axes)), len(axes))
                made, new = value.permute(order), "".join(axes[x] for x in order)
                text, axes = f'rearrange({one}, "{" ".join(axes)} -> {" ".join(new)}")', new
            case "parts" if len(axes) > 1 and len({*axes}) == len(axes):
                text = (f'einsum("{axes}->{axes[::-1]}", rearrange(rearrange({one}, "{axes[0]} {" ".join(axes[1:])} -> '
                        f'({" ".join(axes)})"), "({" ".join(axes)}) -> {" ".join(axes)}"))')
                made, axes = value.permute(*range(len(axes))[::-1]), axes[::-1]
            case "softmax":
                at = self.draw.randrange(-len(axes), len(axes))
                made, text = value.softmax(at), f"softmax({one}, axis = {at})"
            case "fold" if len(axes) > 1:
                at = self.draw.randrange(-len(axes), len(axes))
                made, text = value.amax(at), f"max({one}, axis = {at})"
                axes = "".join(x for n, x in enumerate(axes) if n != at % len(axes))
            case _:
                last = self.new(axes[-1]) if len(self.arrays) < 12 else one
                made, text = value * 2 + self.values[last][1] * value, f"{one} * 2 + {last} * {one}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = (axes, made)


@pytest.mark.parametrize("seed", range(30))
def test_a_drawn_program_is_what_torch_makes_of_it(seed: int) -> None:
    drawing = Drawing(Random(seed))
    for _ in range(2):
        drawing.new("".join(drawing.draw.sample("tsdhk", drawing.draw.randint(1, 3))))
    for _ in range(4):
        drawing.step()
    _, want = list(drawing.values.values())[-1]
    heads = [f"index {x} : feature(N_{x})" for x in "tsdhk"]
    text = "\n".join([*heads, *drawing.lines[:-1], f"output {drawing.lines[-1]}"]) + "\n"
    report = Report()
    program = pipeline.check(Source("drawn.ein", text), report)
    assert program is not None, (text, [p.message for p in report.errors])
    compiled = einc.compile(text)
    got = compiled(**{t.key: drawing.arrays[t.key] for t in program.inputs()})
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


HEAD = "index t, s : time(T)\nindex d : feature(D)\ninput X_{t d}, Y_{d}, Y_{t d}\n"


@pytest.mark.parametrize(("text", "code", "said"), [
    ('output Z = einsum("td,sd-ts", X, X)', "E0233", "is no letter"),
    ('output Z = einsum("td,sd->ts", X)', "E0233", "2 operands, and 1 is given"),
    ('output Z = einsum("td->tu", X)', "E0233", "stands in no operand"),
    ('output Z = einsum("...d->...", X)', "E0233", "`...`"),
    ("output Z = einsum(X, X)", "E0233", "no string"),
    ('output Z = einsum("tdu->t", X)', "E0231", "has 2 axes, and 3 words"),
    ('output Z = einsum("ds->ds", X)', "E0231", "runs over `D`"),
    ('output Z = einsum("tt->t", X)', "E0231", "runs over `T`"),
    ('output Z = rearrange(X, "t d -> d s")', "E0233", "one side of the pattern alone"),
    ('output Z = rearrange(X, "t (d -> d t")', "E0233", "do not match"),
    ('output Z = rearrange(X, "t t -> t")', "E0233", "stands twice"),
    ('output Z = rearrange(X, "t d -> t 1 d")', "E0233", "one element"),
    ('output Z = reduce(X, "t d -> t", "median")', "E0233", "no way to reduce"),
    ('output Z = reduce(X, "t d -> t")', "E0233", "nothing says how to reduce"),
    ('output Z = repeat(X, "t d -> t d r")', "E0233", "how often `r` repeats"),
    ('output Z = repeat(X, "t d -> t d r", r = 3)', "E0233", "an output repeats"),
    ('output Z = rearrange(X, "t d -> d t", u = 3)', "E0233", "no number of a word"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = softmax(S)', "E0232", "along which axis"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = softmax(S, axis = 2)', "E0230", "no axis 2"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = softmax(S, axis = x)', "E0233", "whole number"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = softmax(S, axis = -1)', "E0503", "over which part of time(T)"),
    ('S = einsum("ab,cb->ac", U, U)\noutput Z = softmax(S, axis = -1)', "E0232", "time?"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = S S', "E0232", "meet those"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = S X_{t d}', "E0232", "has letters"),
    ('output Z = einsum("td->t", X) + bias', "E0230", "which axes `bias` has"),
    ('output Z = einsum("td->td", X) + Y', "E0232", "one with 2 axes"),
    ('output Z = einsum("td,sd->ts", X, Z)', "E0230", "before its own"),
    ('S = einsum("td,sd->ts", X, X)\noutput Z = S, s <= t', "E0233", "no conditions"),
    ('tensor Z : T × D\noutput Z = einsum("td,sd->ts", X, X)', "E0231", "runs over `T`"),
    ('tensor Z : T\noutput Z = einsum("td,sd->ts", X, X)', "E0231", "declared with 1 axes"),
    ('a = repeat(einsum("td->t", X), "t -> t r", r = 3)\noutput Z = einsum("tr->t", a)', "E0233", "along axis 1"),
    ('a = exp(repeat(X, "t d -> t d r", r = 3))\noutput Z = einsum("tdr->t", a)', "E0233", "along axis 2"),
    ('tensor Z : T × 1\noutput W = einsum("tu->t", Z)', "E0210", "one element"),
    ('matrix Z : T × 1\noutput W = einsum("tu->t", Z)', "E0231", "has 1 axes"),
    ("tensor Z\noutput W = exp(Z)", "E0210", "which sizes"),
    ("tensor Z_t : D\noutput W_{t d} = X_{t d}", "E0210", "no name of a tensor"),
    ("tensor A : T × D\ntensor B : D × T\noutput Z = A + B", "E0231", "runs over"),
    ('output Z = einsum("td->td", X)[2]', "E0233", "takes a part"),
    ('output Z = reduce(X, "t d -> t", "sum", "mean")', "E0233", "stands behind"),
    ('output Z = rearrange(X, "t d -> d t", X)', "E0233", "stands behind"),
    ("tensor A : T × D\ntensor A : D × T\noutput Z = 2 A", "E0231", "two shapes"),
    ("tensor A : T × D\noutput Z = 2 exp(A)[1]", "E0233", "takes a part"),
])
def test_what_cannot_be_read_is_refused_at_its_place(text: str, code: str, said: str) -> None:
    report = Report()
    assert pipeline.check(Source("a.ein", HEAD + text + "\n"), report) is None
    assert [p.code for p in report.errors] == [code], [p.message for p in report.errors]
    assert said in report.errors[0].message
    assert report.errors[0].span is not None


def test_a_view_is_never_made() -> None:
    """What is put in another order, or repeated, is read where its array lies."""
    text = ("index h : head(H)\nindex r : head(R)\nindex g : head(H R) = (h r)\nindex t : batch(T)\n"
            'index d : feature(D)\ninput q_{t g d}, k_{t h d}\nw = rearrange(repeat(k, "t h d -> t (h r) d"), '
            '"t g d -> g t d")\noutput L = einsum("tgd,gtd->gt", q, w)\n')
    program = pipeline.check(Source("v.ein", text), Report())
    assert program is not None
    assert len(program.tensors) == 3
