"""Every display equation of the paper, pasted unchanged into a spec with the declarations it needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from einc.driver import pipeline
from einc.errors.report import Report, Source, render
from einc.syntax.printing.show import show
from einc.syntax.tree import Statement, SyntaxTree

PAPER = Path(__file__).parent.parent.parent / "shared" / "seeds" / "einstein-transformer.md"

# The displays in the order of the paper, as they stand there.
DISPLAYS = (
    r"""
U_t{}^{e}=H''_t{}^{f} W_{1 f}{}^{e},    
Z_t{}^{e}=\sigma(U_t{}^{e}),    
F_t{}^{f}=Z_t{}^{e} W_{2 e}{}^{f},    
H^{\text{out}}_t{}^{f}=H'_t{}^{f}+F_t{}^{f}.
""",
    r"""
Q_{t h}{}^{d}=\widetilde H_t{}^{f} W_{Q h f}{}^{d},    
K_{s h}{}^{d}=\widetilde H_s{}^{f} W_{K h f}{}^{d},    
V_{s h}{}^{d}=\widetilde H_s{}^{f} W_{V h f}{}^{d}.
""",
    r"""
\widehat Q_{t h}{}^{k}=Q_{t h}{}^{d}  R_{t}{}_{d}{}^{k},        
\widehat K_{s h}{}^{k}=K_{s h}{}^{d}  R_{s}{}_{d}{}^{k},
""",
    r"""
L_{t s}^{(h)}=\frac{1}{\sqrt{d_k}}   \widehat Q_{t h}{}^{k}  \widehat K_{s h k},         \text{with } \widehat K_{s h k}:=\widehat K_{s h}{}^{m} \delta_{m k}.
""",
    r"""
A_{t s}^{(h)}=\text{softmax}_{s}\big(L_{t s}^{(h)}\big).
""",
    r"""
Y_{t h}{}^{d}=\sum_{s\le t} A_{t s}^{(h)} V_{s h}{}^{d},        
A_t{}^{f}=Y_{t h}{}^{d} W_{O h d}{}^{f}.
""",
    r"""
A_{t s}^{(h)}=\text{softmax}_{s}\!\left(\frac{1}{\sqrt{d_k}} Q_{t h}{}^{d}K_{s h d}-m_h (t-s)\right),     s\le t.
""",
    r"""
L_{r t,  r' s}^{(h)}=\frac{1}{\sqrt{d_k}}  Q_{r t h}{}^{d} K_{r' s h d}  \delta_{r}{}^{r'}.
""",
    r"""
\alpha=\exp(m-m'),        
z\leftarrow \alpha  z + \sum_{s\in B}\exp(\ell_s-m'),        
N_{t h}{}^{d}\leftarrow \alpha  N_{t h}{}^{d} + \sum_{s\in B}\exp(\ell_s-m')  V_{s h}{}^{d},        
m\leftarrow m'.
""",
    r"""
Y_{t h}{}^{d}=\frac{N_{t h}{}^{d}}{z}.
""",
    r"""
L_{t s}^{(h)}=\tfrac{1}{\sqrt{d_k}}  Q_{t h}{}^{d} K_{s, \pi(h)}{}_{d},        
Y_{t h}{}^{d}=\sum_{s\le t} A_{t s}^{(h)} V_{s, \pi(h)}{}^{d}.
""",
    r"""
K_{s h}{}^{d}=L_s{}^{\rho} P_{h \rho}{}^{d},        
V_{s h}{}^{d}=L_s{}^{\rho} Q_{h \rho}{}^{d}.
""",
    r"""
O^{(j)}_{t}{}^{v}=H^{\text{final}}_{t}{}^{f} W_{O_j f}{}^{v},    
\mathcal{L}=\frac{1}{n}\sum_{j=1}^{n}\text{CE}\big(O^{(j)}_{t},  w_{t+j}\big).
""",
    r"""
Q^{\text{x}}_{t h}{}^{d}=\widetilde H_t{}^{f} W^{\text{x}}_{Q h f}{}^{d},    
K^{\text{x}}_{u h}{}^{d}=E_{u}{}^{f} W^{\text{x}}_{K h f}{}^{d},    
V^{\text{x}}_{u h}{}^{d}=E_{u}{}^{f} W^{\text{x}}_{V h f}{}^{d}.
""",
    r"""
L^{\text{x}(h)}_{t u}=\tfrac{1}{\sqrt{d_k}}  \widehat Q^{\text{x}}_{t h}{}^{k}\widehat K^{\text{x}}_{u h k},    
A^{\text{x}(h)}_{t u}=\text{softmax}_{u}(L^{\text{x}(h)}_{t u}),    
Y^{\text{x}}_{t h}{}^{d}=\sum_{u} A^{\text{x}(h)}_{t u} V^{\text{x}}_{u h}{}^{d}.
""",
)
CLAUSES = (4, 3, 2, 2, 1, 2, 2, 1, 4, 1, 2, 2, 2, 3, 3)


def display(*numbers: int, depth: int = 0) -> str:
    """The displays of these numbers, from 1, between dollars."""
    pad = " " * depth
    return "\n".join(f"{pad}$${DISPLAYS[number - 1]}{pad}$$" for number in numbers)


ATTENTION = rf"""
index t, s : time(T)
index h : head(H)
index f : feature(d_{{\text{{model}}}})
index d, k, m : feature(d_k)
input \widetilde H_t^f, R_{{t d}}^k
weight W_{{Q h f}}^d, W_{{K h f}}^d, W_{{V h f}}^d, W_{{O h d}}^f
mask L_{{t s}}^{{(h)}} : s <= t
output A_t^f
{display(2, 3, 4, 5, 6)}
"""
SPECS = {
    "feed_forward": rf"""
index t : time(T)
index f : feature(d_model)
index e : feature(d_ff)
def σ(x) = silu(x)
input H''_t^f, H'_t^f
weight W_{{1 f}}^e, W_{{2 e}}^f
{display(1)}
""",
    "layer": ATTENTION,
    "bias": rf"""
index t, s : time(T)
index h : head(H)
index d : feature(d_k)
input Q_{{t h}}^d, K_{{s h}}^d, m_h, V_{{s h}}^d
{display(7)}
output Y_{{t h}}^d = Σ_s A_{{t s}}^{{(h)}} V_{{s h}}^d
""",
    "groups": rf"""
index t, s : time(T)
index h : head(H)
index g : head(G)
index d : feature(d_k)
map π(h) = ceil(h G / H) : g
input Q_{{t h}}^d, K_{{s g}}^d, V_{{s g}}^d
mask L_{{t s}}^{{(h)}} : s ≤ t
A_{{t s}}^{{(h)}} = softmax_s(L_{{t s}}^{{(h)}})
{display(11)}
""",
    "latent": rf"""
index s, t : time(T)
index h : head(H)
index f : feature(d_model)
index d : feature(d_k)
index ρ : latent(d_c)
input \widetilde H_t^f, Q_{{t h}}^d
weight U_f^ρ, P_{{h ρ}}^d, Q_{{h ρ}}^d as Q_up
L_s{{}}^{{\rho}}=\widetilde H_s{{}}^{{f}} U_{{f}}{{}}^{{\rho}}
{display(12)}
L_{{t s}}^{{(h)}} = 1/√d_k q_{{t h}}^ρ L_s^ρ, q_{{t h}}{{}}^{{\rho}}=Q_{{t h}}{{}}^{{d}} P_{{h \rho d}}
mask L_{{t s}}^{{(h)}} : s ≤ t
A_{{t s}}^{{(h)}} = softmax_s(L_{{t s}}^{{(h)}})
z_{{t h}}^ρ = Σ_s A_{{t s}}^{{(h)}} L_s^ρ
output Y_{{t h}}^d = z_{{t h}}^ρ Q_{{h ρ}}^d
""",
    "cross": rf"""
index t : time(T)
index u : time(U)
index h : head(H)
index f : feature(d_model)
index d, k : feature(d_k)
input \widetilde H_t^f, E_u^f
weight W^{{\text{{x}}}}_{{Q h f}}^d, W^{{\text{{x}}}}_{{K h f}}^d, W^{{\text{{x}}}}_{{V h f}}^d
{display(14)}
\widehat Q^{{\text{{x}}}}_{{t h}}^k = Q^{{\text{{x}}}}_{{t h}}^k
\widehat K^{{\text{{x}}}}_{{u h}}^k = K^{{\text{{x}}}}_{{u h}}^k
mask L^{{\text{{x}}(h)}}_{{t u}} : all
{display(15)}
""",
    "requests": rf"""
index r : request(R)
index t, s : time(T)
index h : head(H)
index d : feature(d_k)
input Q_{{r t h}}^d, K_{{r s h}}^d, V_{{r s h}}^d
mask L_{{r t, r' s}}^{{(h)}} : s ≤ t
{display(8)}
A_{{r t, r' s}}^{{(h)}} = softmax_s(L_{{r t, r' s}}^{{(h)}})
output Y_{{r t h}}^d = Σ_{{r' s}} A_{{r t, r' s}}^{{(h)}} V_{{r' s h}}^d
""",
}
# What stands under "for fixed (t, h)" and "for block B" in the paper.
BLOCKS = {
    "blocks": rf"""
index t, s : time(T)
index h : head(H)
index d, k : feature(d_k)
input \widehat Q_{{t h}}^k, \widehat K_{{s h}}^k, V_{{s h}}^d, b_{{t s}}^{{(h)}}
for t, h:
    m = -\infty
    z = 0
    N_{{t h}}^d = 0
    for B \subseteq \{{s\le t\}}:
        \ell_s=\tfrac{{1}}{{\sqrt{{d_k}}}}\widehat Q_{{t h}}{{}}^{{k}}\widehat K_{{s h k}}+b_{{t s}}^{{(h)}}
        m_B=\max_{{s\in B}}\ell_s
        m'=\max(m,m_B)
{display(9, depth=8)}
{display(10, depth=4)}
""",
    "tokens": rf"""
index t : time(T)
index j : head(n)
index f : feature(d_model)
index v : vocab(0..V-1)
input H^{{\text{{final}}}}_t^f
input w_t : int
weight W_{{O j f}}^v
for t:
{display(13, depth=4)}
""",
}


def parsed(text: str) -> SyntaxTree:
    report = Report()
    tree = pipeline.syntax(Source("seed.ein", text), report)
    assert report.problems == [], "\n".join(map(render, report.problems))
    return tree


def test_the_displays_are_those_of_the_paper() -> None:
    if not PAPER.is_file():
        pytest.skip("the paper is not beside this repository")
    found = re.findall(r"^\$\$(.*?)^\$\$", PAPER.read_text(encoding="utf-8"), re.M | re.S)
    assert tuple(found) == DISPLAYS


def test_every_display_is_in_some_spec() -> None:
    everything = "".join([*SPECS.values(), *BLOCKS.values()])
    assert [number for number, text in enumerate(DISPLAYS, 1) if text not in everything] == []


@pytest.mark.parametrize("number", range(1, len(DISPLAYS) + 1))
def test_a_display_parses_alone(number: int) -> None:
    """One statement, with a clause for each equation and for what follows it."""
    (statement,) = parsed(display(number)).statements
    assert len(statement.clauses) == CLAUSES[number - 1]


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_of_displays_checks(name: str) -> None:
    report = Report()
    program = pipeline.check(Source(f"{name}.ein", SPECS[name]), report)
    assert program is not None, "\n".join(map(render, report.problems))
    assert not report.errors
    again = Report()
    assert pipeline.check(Source(f"{name}.ein", show(program)),
                          again) is not None, "\n".join(map(render, again.problems))


def test_the_merge_of_the_paper_is_a_warning() -> None:
    """`Y_{th}^d W_{Ohd}^f` sums h though both stand below: read, and told."""
    report = Report()
    assert pipeline.check(Source("seed.ein", ATTENTION), report) is not None
    assert [(p.code, p.span.text if p.span else "") for p in report.problems] == [("W0301", "h")]
    assert pipeline.check(Source("seed.ein", ATTENTION), Report(), strict=True) is None


@pytest.mark.parametrize(("name", "told"), [("blocks", []), ("tokens", ["E0601", "E0501"])])
def test_a_block_checks(name: str, told: list[str]) -> None:
    """The recurrence of the paper is legal as printed; the loss reads tokens past the
    end, which the paper leaves open."""
    report = Report()
    program = pipeline.check(Source("seed.ein", BLOCKS[name]), report)
    assert [p.code for p in report.problems] == told
    assert program is None or [name for name, _ in program.outputs] == ["Y"]


def depth(statement: Statement) -> int:
    return 1 + max(map(depth, statement.block), default=0)


def test_blocks_nest_by_indentation() -> None:
    (outer,) = [s for s in parsed(BLOCKS["blocks"]).statements if s.keyword == "for"]
    assert [s.keyword for s in outer.block] == ["", "", "", "for", ""]
    assert depth(outer) == 3
