"""Positions of requests, packed on one axis: every program against a loop over the requests in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from helpers import Arrays, assert_close, called, meaning, tensors, typed
from programs import SPECS

from einc import front, pipeline
from einc.errors import EincError, Source, render
from einc.errors import Report as Found
from einc.plan import Kernel, Module, leaves
from einc.problems import WrongData
from einc.show import show
from einc.terms import TypedProgram

Tensor = torch.Tensor
Alone = Callable[[Tensor, Tensor, Tensor], Tensor]  # of x, y and m of one request

HEAD = """
    index r : request(R)
    index t, s : time(T_r)
    index d, k : feature(D)
    input x_{r t}^d, y_{r t}, m_r
"""
WIDTH = 3
LENGTHS = [(5, 0, 1, 9, 0), (1,), (0,), (), (3, 1)]


def past(n: int) -> Tensor:
    return torch.ones(n, n).tril() == 1


def weighted(scores: Tensor, x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ x


def steps(y: Tensor) -> Tensor:
    return torch.arange(1, len(y) + 1, dtype=y.dtype)


def before(y: Tensor) -> Tensor:
    return torch.cat([torch.zeros(1, dtype=y.dtype), y])[: len(y)]


PROGRAMS: dict[str, tuple[str, Alone]] = {
    "gated": ("""
        mask L_{r t, r' s} : s ≤ t
        L_{r t, r' s} = x_{r t}^d x_{r' s d} δ_r^{r'}
        A_{r t, r' s} = softmax_s(L_{r t, r' s})
        output z_{r t}^d = Σ_s A_{r t, r s} x_{r s}^d
    """, lambda x, y, m: weighted(x @ x.T, x, past(len(x)))),
    "one request": ("""
        mask L_{r t s} : s ∈ (t - 3, t]
        L_{r t s} = x_{r t}^d x_{r s d} - m_r (t - s)
        output z_{r t}^d = Σ_s softmax_s(L_{r t s}) x_{r s}^d
    """, lambda x, y, m: weighted(x @ x.T - m * (steps(y)[:, None] - steps(y)), x, past(len(x)).triu(-2))),
    "by a domain": ("""
        output z_{r t} = Σ_{r', s, r' = r, s ≤ t} x_{r t}^d x_{r' s d} y_{r' s}
    """, lambda x, y, m: (x @ x.T).tril() @ y),
    "positions": ("output z_{r t} = t * (y_{r t} + m_r) + sin(t m_r)",
                  lambda x, y, m: steps(y) * (y + m) + torch.sin(steps(y) * m)),
    "before": ("output z_{r t} = 1[t ≥ 2] y_{r, t-1}", lambda x, y, m: before(y)),
    "restricted": ("""
        w_{r t} = y_{r, t-1} y_{r t}, t ≥ 2
        output z_{r t} = Σ_{s ≤ t} w_{r s}
    """, lambda x, y, m: (before(y) * y).cumsum(0)),
    "after": ("output z_{r t} = y_{r, min(t+1, T_r)} : all", lambda x, y, m: torch.cat([y[1:], y[-1:]])),
    "summed": ("output z_r^d = Σ_t x_{r t}^d", lambda x, y, m: x.sum(0)),
    "centred": ("output z_{r t} = y_{r t} - 1/T_r Σ_{s ∈ 1..T_r} y_{r s} : all", lambda x, y, m: y - y.mean()),
    "shares": ("""
        c_r = max_t y_{r t}
        output z_{r t} = exp(y_{r t} - c_r) / Σ_s exp(y_{r s} - c_r) : all
    """, lambda x, y, m: torch.softmax(y, 0)),
    "scaled": ("output z_{r t} = m_r y_{r t}", lambda x, y, m: m * y),
    "counted": ("output z_{r t} = Σ_{s ≤ t} 1", lambda x, y, m: steps(y)),
    "blocks": ("output z_{r t} = Σ_{s ≤ t, floor((s-1)/3) = floor((t-1)/3)} y_{r s}",
               lambda x, y, m: torch.stack([y[n // 3 * 3 : n + 1].sum() for n in range(len(y))]) if len(y) else y),
    "fixed": ("""
        for r, t:
            ℓ_s = x_{r t}^d x_{r s d}
            mask ℓ_s : s ≤ t
            output z^d = Σ_s softmax_s(ℓ_s) x_{r s}^d
    """, lambda x, y, m: weighted(x @ x.T, x, past(len(x)))),
    "nested": ("output z_r = m_r Σ_t (y_{r t} - m_r Σ_s y_{r s})^2", lambda x, y, m: m * ((y - m * y.sum()) ** 2).sum()),
}


@cache
def program_of(name: str) -> TypedProgram:
    return typed(HEAD + PROGRAMS[name][0])


def given(program: TypedProgram, lengths: tuple[int, ...]) -> Arrays:
    random = np.random.default_rng(len(lengths))
    total, count = sum(lengths), len(lengths)
    full: Arrays = {"x": random.standard_normal((total, WIDTH)), "y": random.standard_normal(total),
                    "m": random.standard_normal(count), "T": np.array(lengths, dtype=np.int64)}
    return {t.key: full[t.key] for t in program.inputs()}


def looped(name: str, arrays: Arrays, lengths: tuple[int, ...]) -> Tensor:
    """The requests one by one; what has no position of its own is stacked."""
    ends = np.cumsum([0, *lengths])
    empty = {"x": np.zeros((ends[-1], WIDTH)), "y": np.zeros(ends[-1]), "m": np.zeros(len(lengths))}
    x, y, m = (torch.from_numpy(arrays.get(key, empty[key])) for key in "xym")
    parts = [PROGRAMS[name][1](x[a:b], y[a:b], m[n]) for n, (a, b) in enumerate(pairwise(ends))]
    per_request = name in ("summed", "nested")
    width = (WIDTH,) * (name in ("gated", "one request", "summed", "fixed"))
    return (torch.stack if per_request else torch.cat)([*parts]) if parts else torch.zeros(0, *width)


# what it means


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_request_is_as_if_alone(name: str) -> None:
    """By the interpreter, from every stage and its text, and by the module for any lengths."""
    program = program_of(name)
    normal = pipeline.normal(program)
    function = front.load(front.emit(front.plan(program)), program.name)
    for lengths in LENGTHS:
        arrays = given(program, lengths)
        want = {"z": looped(name, arrays, lengths).numpy()}
        assert_close(meaning(program, arrays, {}), want)
        assert_close(called(function, program, tensors(arrays), {}), want)
        if len(lengths) > 4:
            for other in (normal, typed(show(program)), typed(show(normal))):
                assert_close(meaning(other, arrays, {}), want)


def test_requests_of_different_lengths_are_the_dense_ones_with_a_mask() -> None:
    """The dense spec on padded data, where positions beyond a length are masked away."""
    text = SPECS.joinpath("requests.ein").read_text(encoding="utf-8")
    dense = typed(text.replace(": s ≤ t", ": s ≤ t, s ≤ n_{r'}").replace("input Q", "input n_r : int\ninput Q"))
    packed = typed(SPECS.joinpath("requests_packed.ein").read_text(encoding="utf-8"))
    lengths, random = np.array([4, 0, 7, 1]), np.random.default_rng(0)
    inside = np.arange(7) < lengths[:, None]
    full = {key: random.standard_normal((4, 7, 2, 5)) for key in "QKV"}
    want = meaning(dense, {**full, "n": lengths}, {})["Y"][inside]
    assert_close(meaning(packed, {**{key: x[inside] for key, x in full.items()}, "T": lengths}, {}), {"Y": want})


def test_two_kinds_of_positions() -> None:
    """Positions of a request that are of two lengths: the memory that it reads is its own."""
    program = typed(HEAD + """
        index u : time(U_r)
        input e_{r u}^d
        mask L_{r t u} : all
        L_{r t u} = x_{r t}^d e_{r u d}
        output z_{r t}^d = Σ_u softmax_u(L_{r t u}) e_{r u}^d
    """)
    random, here, there = np.random.default_rng(0), [3, 0, 2, 4], [2, 5, 0, 1]
    x, e = random.standard_normal((9, WIDTH)), random.standard_normal((8, WIDTH))
    pairs = zip(*(torch.from_numpy(a).split(n) for a, n in ((x, here), (e, there))), strict=True)
    want = {"z": torch.cat([torch.softmax(a @ b.T, -1) @ b for a, b in pairs]).numpy()}
    arrays = {"x": x, "e": e, "T": np.array(here), "U": np.array(there)}
    assert_close(meaning(program, arrays, {}), want)
    function = front.load(front.emit(front.plan(program)), program.name)
    assert_close(called(function, program, tensors(arrays), {}), want)


# how it is done


def plan_of(text: str) -> Module:
    return front.plan(typed(text))


def test_one_pass_with_the_reach_of_documents() -> None:
    """The positions of one request are a range of the axis; no tile beside it is visited, and nothing is stored."""
    (kernel,) = leaves(plan_of(SPECS.joinpath("requests_packed.ein").read_text(encoding="utf-8")).steps)
    assert isinstance(kernel, Kernel) and kernel.stream is not None and kernel.stream.bound is not None
    (span,) = kernel.stream.bound.spans
    assert "T_request" in str(span.low) and "T_request" in str(span.high) and "last t" in str(span.high)


def test_what_requests_share_is_made_once_for_each() -> None:
    """A mean over a request has one number for it, not one for each position."""
    module = plan_of(HEAD + PROGRAMS["centred"][0])
    assert [str(b.sets[0]) for b in module.buffers.values() if b.role == "local"] == ["request(R)"]


# what is refused


@pytest.mark.parametrize(("lengths", "said"), [((4, 4), "adds up to 8"), ((3, 3), "adds up to 6"), ((-1, 8), "holds -1"),
                                               ((7,), "R")])
def test_lengths_add_up(lengths: tuple[int, ...], said: str) -> None:
    program = program_of("scaled")
    arrays = {"y": np.zeros(7), "m": np.zeros(2), "T": np.array(lengths)}
    with pytest.raises(WrongData, match=said):
        meaning(program, arrays, {})
    function = front.load(front.emit(front.plan(program)), program.name)
    with pytest.raises(ValueError, match=said):
        called(function, program, tensors(arrays), {})


def problems(body: str) -> list[tuple[str, str]]:
    report = Found()
    pipeline.check(Source("<text>", "\n".join([*(line.strip() for line in HEAD.splitlines()), body])), report)
    return [(p.code, render(p)) for p in report.sorted()]


@pytest.mark.parametrize(("body", "code", "said"), [
    ("input w_t\noutput z_{r t} = y_{r t}", "E0408", "`r t`"),
    ("input w_{r d t}\noutput z_{r t} = y_{r t}", "E0408", "side by side"),
    ("output z_{r t s} = y_{r t} y_{r s}", "E0408", "one position to a request"),
    ("output z_{r t} = Σ_{r'} y_{r', t}", "E0408", "`t'`"),
    ("input w_r : int\noutput z_{r t} = y_{w_r, t}", "E0408", "only the data know"),
    ("output z = Σ_{r, r'} Σ_s s", "E0408", "nothing says"),
    ("output z_{r t} = Σ_{s ≥ t} y_{r s}", "E0501", "after `t`"),
    ("output z_{r t} = m_r + Σ_{r'} Σ_{s, s ≤ t} y_{r' s}", "E0502", "other requests"),
    ("output z_{r t} = Σ_{r'} m_{r'} y_{r t}", "E0502", "other requests"),
    ("output z_{r t} = y_{r, t-1}", "E0601", "fall below 1"),
    ("output z_{r t} = y_{r, t+1} : all", "E0601", "pass T_r"),
    ("output z_r = y_{r 1}", "E0601", "pass T_r"),
    ("input w_{r t} : int\noutput z_{r t} = y_{r, w_{r t}} : all", "E0601", ""),
    ("output z_r = 1[T_r ≥ max_t 1] y_{r, T_r}", "E0601", "fall below 1"),
    ("output z = Σ_s Σ_r y_{r s}", "E0408", "around it"),
    ("output z = Σ_s Σ_r m_r", "E0408", ""),
    ("T_r = 3\noutput z_{r t} = y_{r t}", "E0405", ""),
    ("input T_r\noutput z_{r t} = y_{r t}", "E0404", ": int"),
    ("index u : time(T_r / 2)\noutput z_{r t} = y_{r t}", "E0210", "time(T_r)"),
    ("index u : time(0..T_r-1)\noutput z_{r t} = y_{r t}", "E0210", "time(T_r)"),
    ("index u : time(T_r) = (t d)\noutput z_{r t} = y_{r t}", "E0210", "side by side"),
    ("for r, t:\n    c = 0\n    for B ⊆ {s ≤ t}:\n        c ← c + Σ_{s ∈ B} y_{r s}\noutput c_{r t}", "E0116", ""),
    ("output z_{r t} = attention(X = y_{r t})", "E0116", ""),
])
def test_slips_are_told(body: str, code: str, said: str) -> None:
    found = problems(body)
    assert found and found[0][0] == code and said in found[0][1], found


@pytest.mark.parametrize("body", [
    "output z_{r t} = y_{r t} + y_{r 1}",
    "output z_r = 1[T_r ≥ 1] y_{r, T_r}",
    "input T_r : int\noutput z_{r t} = y_{r t} / T_r",
    "output z_{r t} = Σ_{s ≤ t} y_{r s} + Σ_{r', s', r' = r, s' ≤ t} y_{r' s'}",
])
def test_what_stays_within_a_request_is_allowed(body: str) -> None:
    assert [code for code, _ in problems(body) if code[0] == "E"] == []


def test_the_message_names_the_file(tmp_path: object) -> None:
    with pytest.raises(EincError, match="E0408"):
        front.compile(HEAD + "output z_{r t} = Σ_{r'} y_{r', t}")
