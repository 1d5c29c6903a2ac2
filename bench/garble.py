"""Texts that are no specs, and some that are: what a fuzzer feeds to the commands. The
same number gives the same bytes."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

ROOT = Path(__file__).parent.parent

HEAD = ("index t, s, u : time(T)\nindex h : head(H)\nindex f : feature(D)\nindex d, k : feature(d_k)\nindex r : "
        "request(R)\n")
WORDS = (
    "index", "dim", "input", "weight", "output", "mask", "map", "set", "def", "use", "override", "claim", "section",
    "for", "in", "as", "with", "and", "or", "not", "inf", "assuming", "plan", "all", "int", "time(T)", "feature(D)",
    "head(H)", "time(T_r)", "t", "s", "h", "f", "t'", "s''", "x", "x_t", "y_t", "A_{t s}^{(h)}", "Q_{t h}^d",
    "K_{s h d}", "x_{t+1}", "x_{th}", "W_{Q h f}^d", "\\rho", "ρ", "rho", "=", ":=", "≔", "←", "<-", "+", "-", "*", "/",
    "^", "_", "^2", "_t", "'", "(", ")", "[", "]", "{", "}", "{}", ",", ";", ":", ".", "..", "...", "…", "|", "&", "~",
    "@", "#", "$", "$$", "\\\\", "\\", "\\,", "\\frac", "\\frac{1}{2}", "\\frac12", "\\sqrt", "√", "\\sum",
    "\\sum_{s \\le t}", "Σ_{s ≤ t}", "sum_s", "∑", "∏", "max_{s}", "max", "min(", "\\max_{s\\in B}", "softmax_s(",
    "softmax_{s ≤ t}(", "exp(", "log", "topk_{s ≤ t}(x_s, 3)", "1[", "𝟙[", "\\mathbb{1}[", "δ_r^{r'}", "\\delta_a{}^b",
    "ε_a^b", "⊕", "(+)", "≤", "<=", "\\le", "≥", "<", ">", "≠", "!=", "∈", "⊆", "∞", "-∞", "\\infty", "\\text{softmax}",
    "\\text{", "\\mathrm{x}", "\\widehat K", "\\widehat{", "K̂", "\\hat", "\\left(", "\\right)", "\\big", "\\quad",
    "\\fraq", "\\begin{align}", "\\end{align}", "\\underbrace{", "0", "1", "2", "3.5", "1e9", "1e999", "0.0", "00",
    "10000000000000000000000", "d_k", "T", "H", "W", '"attention"', '"', '"../a"', "π(h)", "ceil(h G / H)", "floor(",
    "mod(t, 3)", "1..T", "(t-W, t]", "B", "S_t", "for t, h:", "for B ⊆ {s ≤ t}:", "for s in 1..T:", "for ℓ in 1..N:",
    "\n    ", "\n", "\n\n", "\t", "\r\n", "\x00", "\x1b", "\u200b", "\u202e", "\ufeff", "é", "漢", "😀", "\ud7ff",
    "\u0302", "ª", "\u2028", "½", "²",
)
_CUTS = (r"[\s\S]", r"\w+|[^\w\n]|\n", r"[^\n]*\n")


@cache
def specs() -> tuple[str, ...]:
    """Every spec that comes with einc."""
    return tuple(file.read_text(encoding="utf-8") for file in sorted((ROOT / "specs").rglob("*.ein")))


@cache
def lines() -> tuple[str, ...]:
    return tuple(line for text in specs() for line in text.splitlines() if line.strip())


def soup(random: Random) -> str:
    """Words of the language in any order."""
    glue = random.choice(("", " ", " ", " "))
    return random.choice(("", HEAD)) + glue.join(random.choices(WORDS, k=random.randint(0, 40)))


def equations(random: Random) -> str:
    """A few declarations, then equations whose right sides are words in any order."""
    sides = (" ".join(random.choices(WORDS, k=random.randint(1, 8))) for _ in range(random.randint(1, 4)))
    return f"{HEAD}input x_t, A_{{t s}}^{{(h)}}, V_{{s h}}^d\n" + "\n".join(f"{random.choice('yzw')}_t = "
                                                                            f"{side}" for side in sides)


def spliced(random: Random) -> str:
    """Lines of several specs under each other."""
    return "\n".join(random.choices(lines(), k=random.randint(1, 14)))


def edited(random: Random) -> str:
    """A spec with a few characters, words or lines taken out, doubled, exchanged or put in."""
    return _changed(random.choice(specs()), random)


def _changed(text: str, random: Random) -> str:
    for _ in range(random.randint(1, 4)):
        pieces = re.findall(random.choice(_CUTS), text) or [text]
        at, other = random.randrange(len(pieces)), random.randrange(len(pieces))
        match random.randrange(4):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(at, pieces[other])
            case 2:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces.insert(at, random.choice(WORDS))
        text = "".join(pieces)
    return text


def truncated(random: Random) -> str:
    """The beginning of a spec, or its end."""
    text = random.choice(specs())
    at = random.randint(0, len(text))
    return text[:at] if random.random() < 0.8 else text[at:]


def characters(random: Random) -> str:
    """Any characters at all, alone or within a spec."""
    planes = (0x80, 0x250, 0x3000, 0xD7FF, 0x10FFFF)
    found = "".join(chr(random.randrange(random.choice(planes))) for _ in range(random.randint(0, 40)))
    if random.random() < 0.5:
        return found
    text = random.choice(specs())
    at = random.randint(0, len(text))
    return text[:at] + found[:4] + text[at:]


def nested(random: Random) -> str:
    """Brackets, scripts, roots, powers, calls and blocks inside each other, closed or not."""
    forms = (("(", ")"), ("x_{", "}"), ("x^{", "}"), ("\\frac{1}{", "}"), ("√", ""), ("exp(", ")"), ("Σ_{s'} (", ")"),
             ("1[", " < 2]"), ("-", ""), ("softmax_s(", ")"), ("not ", ""), ("\\text{", "}"), ("\\widehat{", "}"),
             ("(x + ", ")"), ("{", "}"), ("[", "]"))
    depth = random.choice((3, 20, 90, 101, 400, 3000))
    chosen = [random.choice(forms) for _ in range(depth)] if random.random() < 0.3 else [random.choice(forms)] * depth
    closing = "".join(b for _, b in reversed(chosen)) if random.random() < 0.8 else ""
    if random.random() < 0.1:
        return HEAD + "".join("  " * n + "for t:\n" for n in range(min(depth, 200))) + "y_t = 1"
    return f"{HEAD}input x_t\ny_t = " + "".join(a for a, _ in chosen) + random.choice(("x_t", "1", "")) + closing


def numbers(random: Random) -> str:
    """A spec with other numbers in it: huge, tiny, none."""
    new = ("0", "1", "-1", "2.5", "1e300", "1e-300", "1e301", "9" * 40, "9" * 400, "0.1", "1e400000000", "7/3", "∞",
           "4294967296")
    text = random.choice(specs())
    found = [m.span() for m in re.finditer(r"\d+(?:\.\d+)?", text)]
    for start, end in sorted(random.sample(found, k=min(len(found), random.randint(1, 3))), reverse=True):
        text = text[:start] + random.choice(new) + text[end:]
    return text


def repeated(random: Random) -> str:
    """One piece many times."""
    piece = random.choice((*WORDS, *random.choices(lines(), k=20)))
    return random.choice(("", HEAD)) + (piece + random.choice(("", " ", "\n"))) * random.choice((2, 50, 700))


def raw(random: Random) -> bytes:
    """Bytes that are no UTF-8, or another encoding, or a spec with some of its bytes changed."""
    data = random.choice(specs()).encode()
    match random.randrange(4):
        case 0:
            return random.randbytes(random.randint(0, 200))
        case 1:
            return data.decode().encode(random.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))
        case 2:
            return data[: random.randint(0, len(data))]
        case _:
            changed = bytearray(data)
            for _ in range(random.randint(1, 5)):
                changed[random.randrange(len(changed))] = random.randrange(256)
            return bytes(changed)


WAYS: dict[str, tuple[int, Callable[[Random], str | bytes]]] = {
    "soup": (24, soup), "equations": (24, equations), "spliced": (14, spliced), "edited": (14, edited),
    "truncated": (7, truncated),
    "characters": (4, characters), "nested": (4, nested), "numbers": (3, numbers), "repeated": (2, repeated),
    "raw": (4, raw),
}


def equation(random: Random) -> str:
    """The mathematics of a line of a spec, or words in any order."""
    found = random.choice(lines()).split("#")[0].strip()
    return found if "=" in found and random.random() < 0.8 else " ".join(random.choices(WORDS, k=random.randint(1, 8)))


def markdown(random: Random) -> str:
    """A paper in Markdown: headings, prose, formulas and fences, some of them not closed."""
    forms = (
        "# Part {n}", "## Part {n}", "Let $t, s \\in \\{{1..T\\}}$ and ${e}$ be given.", "$$ {e} $$",
        "$$\n{e} \\\\ {e}\n$$",
        "> $$ {e} $$", "- item\n  $$ {e}\n  $$", "```ein\n{l}\n{l}\n```",
        "```ein\nindex t, s : time(T)\ninput x_t\n```",
        "`$x$` \\$5",
        "\\begin{{align}}\n{e} &= {e} \\\\\n{e}\n\\end{{align}}", "\\[ {e} \\]", "<!-- ein: skip for readers -->",
        "| ${e}$ | b |",
        "$$ {e}", "<details>\n\n$$ {e} $$", "$$ y_t = 2 x_t $$", "$$ y_t = x_t + x_t $$", "For fixed $(t,h)$: ${e}$",
        "{e}",
    )
    pieces = (random.choice(forms).format(n=n, e=equation(random), l=random.choice(lines()))
              for n in range(random.randint(1, 9)))
    return random.choice(("", "# A layer\n\n")) + "\n\n".join(pieces)


def latex(random: Random) -> str:
    """A paper in LaTeX, likewise."""
    forms = (
        "\\section{{Part {n}}}", "\\subsection*{{Part {n}}}", "Let $t, s \\in \\{{1..T\\}}$ and \\({e}\\).",
        "\\[ {e} \\]", "$$ {e} $$",
        "\\begin{{equation}}\n{e}\n\\end{{equation}}", "\\begin{{align*}}\n{e} &= 1 \\\\ {e}\n\\end{{align*}}",
        "% {e}", "%! {l}",
        "\\newcommand{{\\R}}[1]{{R_#1 {e}}}", "\\DeclareMathOperator{{\\sm}}{{softmax}}", "%! index t, s : time(T)",
        "\\begin{{cases}} {e}",
        "\\R{{t}}", "\\[ y_t = 2 x_t \\]",
        "\\begin{{equation}} \\begin{{aligned}} {e} \\end{{aligned}} \\end{{equation}}", "{e}",
    )
    pieces = (random.choice(forms).format(n=n, e=equation(random), l=random.choice(lines()))
              for n in range(random.randint(1, 9)))
    return random.choice(("", "\\section{A layer}\n")) + "\n".join(pieces)


MATRICES = (
    "Let $Q, K, V \\in \\mathbb{R}^{n \\times d}$.", "Let $W_i \\in \\mathbb{R}^{d \\times d_k}$, $i = 1, \\dots, h$.",
    "Softmax is applied row-wise.", "for tokens $t = 1, \\dots, n$ let $x_t \\in \\mathbb{R}^d$", "with $h_0 = 0$",
    "$$ O = \\mathrm{softmax}(Q K^\\top / \\sqrt{d}) V $$", "$$ Y = \\mathrm{Concat}(H_1, \\dots, H_h) W_O $$",
    "$$ F(Q, K) = Q K^\\top $$", "$$ h_t = A h_{t-1} + B x_t $$",
    "$$ D_{ij} = \\begin{cases} \\gamma^{i-j} & i \\ge j \\\\ 0 & i < j \\end{cases} $$", "$$ y = [a; b] W $$",
    "$$ R = \\begin{bmatrix} a & 0 \\\\ 0 & b \\end{bmatrix} $$",
    "$$ K = \\begin{bmatrix} - k_1 - \\\\ \\vdots \\\\ - k_n - \\end{bmatrix}_{n \\times d} $$", "$$ n = |Q| $$",
    "$$ \\underbrace{X}_{n \\times d} W^Q = F(X, X) $$", "$$ (Q K^\\top) V = Q (K^\\top V) $$",
    "$$ \\begin{aligned} m_0 &= -\\infty \\\\ \\text{for } 1 \\leq i \\leq N \\text{ do} \\\\ "
    "m_i &= \\max(m_{i-1}, x_i) \\\\ \\text{return } m_N \\end{aligned} $$",
    "```python\nY = einsum('bhtd,bhsd->bhts', Q, K)  # Y[B, H, T, T]\n```",
    "```python\nA = softmax(Y / sqrt(d), axis=-1)\nZ = rearrange(A, 'b h t s -> b t (h s)')\nZ += 1\n```",
    "\\begin{IEEEeqnarray}{rCl} y &=& Q V \\\\ &=& K^\\top \\end{IEEEeqnarray}",
    "$$ \\begin{array}{rcl} y &=& Q V \\\\ z &=& K^\\top \\end{array} $$", "\\begin{empheq}[box=\\fbox]{align} y &= Q",
)


def matrices(random: Random) -> str:
    """A paper in the notation of matrices, strings and algorithms; some of it changed."""
    text = "# A\n\n" + "\n\n".join(random.choices(MATRICES, k=random.randint(1, 10)))
    return _changed(text, random) if random.random() < 0.7 else text


def macros(random: Random) -> str:
    """A paper in LaTeX whose macros are defined, used, nested and left open."""
    forms = ("\\newcommand{\\a}[1][x]{#1_t}", "\\def\\b#1{\\a[#1] + #1}", "{\\let\\c\\b", "}", "\\begin{figure}",
             "\\end{figure}", "\\usepackage{own}", "\\input{other}", "\\includeonly{a,b", "\\include{a}",
             "\\[ y_t = \\a \\]", "$$ z_t = \\b{\\a} $$", 
             "\\begin{equation} \\label{eq:x} w_t = \\c{x} \\end{equation}",
             "\\iffalse", "\\fi",
             "\\newcommand{\\d}{\\d \\d}", "\\[ v_t = \\d \\]", "%! index t : time(T)", "%! input x_t",
             "\\end{document}", "\\begin{document}", "\\documentclass{article}", "\\verb|$|", "% $",
             "\\DeclareMathOperator{\\e}{exp}")
    text = "\n".join(random.choices(forms, k=random.randint(1, 16)))
    return _changed(text, random) if random.random() < 0.5 else text


def notebook(random: Random) -> str:
    """A notebook of such texts; of some the JSON is changed."""
    cells = [{"cell_type": random.choice(("markdown", "markdown", "code", "raw")), "metadata": {}, "outputs": [],
              "source": random.choice((str, lambda x: x.splitlines(keepends=True)))(random.choice((markdown, matrices))(
                  random))} for _ in range(random.randint(0, 4))]
    text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    return _changed(text, random) if random.random() < 0.4 else text


def archive(random: Random) -> bytes:
    """Sources of a paper in several files, packed; of some archives bytes are changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name in random.sample(("main.tex", "other.tex", "own.sty", "a.tex", "b.tex"), k=random.randint(1, 5)):
            text = random.choice((latex, macros))(random)
            packed.writestr(name, ("\\documentclass{article}\n" if name == "main.tex" else "") + text)
    data = bytearray(out.getvalue())
    for _ in range(random.randint(1, 4) if random.random() < 0.3 else 0):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def damaged(random: Random) -> str:
    """A paper in Markdown with a few characters, words or lines changed."""
    return _changed(markdown(random), random)


PAPERS: dict[str, tuple[int, Callable[[Random], str | bytes]]] = {
    "markdown": (5, markdown), "latex": (3, latex), "damaged": (2, damaged),
    "matrices": (6, matrices), "macros": (3, macros), "notebook": (2, notebook), "archive": (2, archive),
}
ENDINGS = {"markdown": ".md", "latex": ".tex", "damaged": ".md", "matrices": ".md",
           "macros": ".tex", "notebook": ".ipynb", "archive": ".zip"}


def garbled(seed: int, number: int, papers: bool = False) -> tuple[str, bytes]:
    """An input: how it was made, and its bytes."""
    ways = PAPERS if papers else WAYS
    random = Random(f"{seed}:{number}")
    (way,) = random.choices(list(ways), weights=[weight for weight, _ in ways.values()])
    made = ways[way][1](random)
    return way, made if isinstance(made, bytes) else made.encode("utf-8", errors="surrogatepass")
