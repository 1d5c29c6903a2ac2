"""The three spellings of one word: tables from LaTeX, Unicode and ASCII to one canonical
form; names beside known ones."""

from __future__ import annotations

from collections.abc import Iterable

from einc.ir.folds import FOLDS
from einc.ir.primitives import PRIMITIVES

OPERATORS = {
    "(+)": "OPLUS", "⊕": "OPLUS", "..": "DOTS", "...": "DOTS", "…": "DOTS", "+": "SIGN", "-": "SIGN", "−": "SIGN",
    "*": "OP", "/": "OP", "·": "OP", "×": "OP", "⊙": "OP", "∘": "OP", "√": "ROOT", "∞": "INF", "(": "LPAR",
    ")": "RPAR", "[": "LSQB", "]": "RSQB",
    "{": "LBRACE", "}": "RBRACE", ",": "COMMA", ";": "COMMA", ":": "COLON", "_": "LOW", "^": "UP",
    "¬": "NOT", "∧": "AND", "∨": "OR", "∈": "IN", "|": "BAR", "‖": "BAR",
    "⌈": "OPEN", "⌉": "CLOSE", "⌊": "OPEN", "⌋": "CLOSE",
}
RELATIONS = {
    "<=": "<=", "≤": "<=", ">=": ">=", "≥": ">=", "<": "<", ">": ">", "!=": "!=", "≠": "!=", ":=": ":=", "≔": ":=",
    "=": "=",
    "<-": "<-", "←": "<-", "⊆": "subset",
}
CANONICAL = {"−": "-", "∘": "⊙", "·": "*", "×": "*", "µ": "μ", "ϵ": "ε", "ϕ": "φ", "ϑ": "θ", "ϱ": "ρ", "∈": "in",
             "(+)": "⊕", "…": "..", "...": "..", "|": "abs", "⌈": "ceil", "⌉": "ceil", "⌊": "floor", "⌋": "floor"}
MARKS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "bar"}
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "varrho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "ell": "ℓ", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
    "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}
KEYWORDS = frozenset({
    "index", "dim", "input", "weight", "output", "mask", "map", "set", "def", "use", "override", "for", "claim",
    "section", "ignore", "matrix", "vector", "tensor",
    "plan", "with", "as", "in", "and", "or", "not", "assuming",
})

HEADS = ("index", "dim", "input", "weight", "output", "mask", "map", "set", "def", "use", "override", "for", "claim",
         "section", "ignore", "matrix", "vector", "tensor")
SHAPED = ("matrix", "vector", "tensor")  # what declares names by the sizes of their axes

# Macros that say nothing: spacing, sizing, and how a formula is set.
NOISE = frozenset({
    "quad", "qquad", "left", "right", "middle", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl",
    "biggr",
    "Biggl", "Biggr", "limits", "nolimits", "mathtt", "displaystyle", "textstyle", "scriptstyle", "nonumber", "notag",
    "IEEEnonumber", "IEEEyesnumber", "IEEEeqnarraynumspace",
})
SPACING = frozenset(",;:!> \t")

# The names that the language itself gives a meaning, as folds and as functions.
BUILT_IN = (*FOLDS, *(row.name for row in PRIMITIVES.values() if row.callable))
NUMBERED = "|".join(name for name in BUILT_IN if not name.isalpha())  # these have digits in them; no other name may
MACROS = {name: ("WORD", name) for name in BUILT_IN}
MACROS |= {name: ("GREEK", letter) for name, letter in GREEK.items()} | {
    "le": ("REL", "<="), "leq": ("REL", "<="), "leqslant": ("REL", "<="), "ge": ("REL", ">="), "geq": ("REL", ">="),
    "geqslant": ("REL", ">="), "ne": ("REL", "!="), "neq": ("REL", "!="), "lt": ("REL", "<"), "gt": ("REL", ">"),
    "subseteq": ("REL", "subset"), "leftarrow": ("REL", "<-"), "gets": ("REL", "<-"), "coloneqq": ("REL", ":="),
    "equiv": ("REL", ":="), "triangleq": ("REL", ":="),
    "hat": ("ACCENT", "hat"), "widehat": ("ACCENT", "hat"), "tilde": ("ACCENT", "tilde"),
    "widetilde": ("ACCENT", "tilde"),
    "bar": ("ACCENT", "bar"), "overline": ("ACCENT", "bar"), "mathcal": ("ACCENT", "cal"),
    "in": ("IN", "in"), "cdot": ("OP", "*"), "odot": ("OP", "⊙"), "circ": ("OP", "⊙"),
    "top": ("GREEK", "⊤"), "intercal": ("GREEK", "⊤"),
    "times": ("OP", "*"), "oplus": ("OPLUS", "⊕"), "infty": ("INF", "∞"),
    "sqrt": ("SQRT", "sqrt"), "frac": ("FRAC", "frac"), "tfrac": ("FRAC", "frac"), "dfrac": ("FRAC", "frac"),
    "land": ("AND", "and"), "wedge": ("AND", "and"), "lor": ("OR", "or"), "vee": ("OR", "or"), "neg": ("NOT", "not"),
    "lnot": ("NOT", "not"), "cdots": ("DOTS", ".."), "ldots": ("DOTS", ".."), "dots": ("DOTS", ".."),
    "vdots": ("DOTS", ".."), "ddots": ("DOTS", ".."),
    "lbrace": ("LBRACE", "{"), "rbrace": ("RBRACE", "}"), "prime": ("PRIME", "'"), "ln": ("WORD", "log"),
    "underbrace": ("NOTED", "_"), "overbrace": ("NOTED", "^"),
    "lceil": ("OPEN", "ceil"), "rceil": ("CLOSE", "ceil"), "lfloor": ("OPEN", "floor"), "rfloor": ("CLOSE", "floor"),
    "lvert": ("OPEN", "abs"), "rvert": ("CLOSE", "abs"), "vert": ("BAR", "abs"),
    "lVert": ("OPEN", "‖"), "rVert": ("CLOSE", "‖"), "Vert": ("BAR", "‖"), "|": ("BAR", "‖"),
}

# What papers write that is no mathematics of indices, and what it is.
FOREIGN = {
    "begin": "an environment, such as a matrix written out: a tensor is written with its indices",
    "implies": "a step of an argument, not an equation", "Rightarrow": "a step of an argument, not an equation",
    "iff": "a step of an argument, not an equation",
    "Longleftrightarrow": "a step of an argument, not an equation",
    "Leftrightarrow": "a step of an argument, not an equation",
    "approx": "no equality", "sim": "no equality", "propto": "no equality",
    "to": "an arrow between sets, not an equation", "rightarrow": "an arrow, not an equation",
    "longrightarrow": "an arrow, not an equation", "mapsto": "an arrow, not an equation",
    "downarrow": "an arrow in a name: a label is a word", "uparrow": "an arrow in a name: a label is a word",
    "otimes": "a product without indices: write both factors with theirs",
    "mathbb": "a set such as ℝ: shapes stand in declarations", "hline": "a table",
}

# Which spelling of a word is written, where there are several: in LaTeX, in Unicode, in ASCII.
WRITTEN = {
    "<=": (r"\le", "≤", "<="), ">=": (r"\ge", "≥", ">="), "!=": (r"\ne", "≠", "!="), ":=": (":=", "≔", ":="),
    "<-": (r"\leftarrow", "←", "<-"), "subset": (r"\subseteq", "⊆", r"\subseteq"), "in": (r"\in", "∈", "in"),
    "*": (r"\cdot", "·", "*"), "×": (r"\times", "×", "*"), "⊙": (r"\odot", "⊙", r"\odot"), "⊤": (r"\top", "⊤", r"\top"),
    "⊕": (r"\oplus", "⊕", "(+)"), "∞": (r"\infty", "∞", "inf"),
    "and": (r"\land", "and", "and"),
    "or": (r"\lor", "or", "or"), "not": (r"\neg", "not", "not"), "with": (r"\text{with }", "with", "with"),
    "sum": (r"\sum", "Σ", "sum"), "prod": (r"\prod", "∏", "prod"),
}
ACCENTS = {"hat": (r"\widehat", "\u0302"), "tilde": (r"\widetilde", "\u0303"), "bar": (r"\bar", "\u0304"),
           "cal": (r"\mathcal", "")}
LATIN = {symbol: name for name, symbol in reversed(GREEK.items())}
# Names that TeX itself sets upright, with a macro of their own.
UPRIGHT = frozenset({"exp", "log", "sin", "cos", "tanh", "max", "min"})


def is_fold(name: str) -> bool:
    """Whether a name with an index below it is a big operator, which takes the rest of its product."""
    return name in FOLDS and not FOLDS[name].ordered


def edit_distance(a: str, b: str) -> int:
    """Levenshtein's distance: the least number of characters to insert, delete or change that makes b of a."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs least, where it differs in few letters."""
    most = max(1, len(name) // 3)
    near = [(edit_distance(name, other), other) for other in known
            if abs(len(other) - len(name)) <= most and len(name) < 40]
    return min(near)[1] if near and min(near)[0] <= most else None
