"""str -> statements as lists of words: one token stream for the three spellings.

The lexer has no modes: a run of letters is one word, in bodies and in scripts alike, and a macro is its whole run of
letters, looked up in one table. It reports what it cannot read and goes on, so one bad line never hides the next.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from einc.errors import Help, Report, Source, Span
from einc.problems import BadScript, StrayCloser, TooDeep, Unclosed, UnknownMacro, UnreadableCharacter

MAX_DEPTH = 100
MAX_OPEN_LINES = 64

_MASTER = re.compile(
    r"""(?P<newline>\r?\n)|(?P<space>[^\S\n]+)|(?P<comment>\#[^\n]*)|(?P<empty>\{\})|(?P<display>\$\$)
    |\\(?P<text>text|mathrm|operatorname|mathbf|boldsymbol|mathbb|mathsf|textbf|textrm)\s*\{\s*(?P<label>[^{}\n]*?)\s*\}
    |\\(?P<macro>[A-Za-z]+)|(?P<lineend>\\\\)|\\(?P<symbol>[^A-Za-z\n])
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |_(?P<low>[A-Za-z]{2,})|\^(?P<up>[A-Za-z]{2,})
    |(?P<word>[A-Za-z]+)|(?P<greek>[α-ωΑ-ΡΤ-Ωϵϕϑϱµℓ])|(?P<script>ℒ)|(?P<big>[Σ∑∏])|(?P<one>𝟙)
    |(?P<string>"[^"\n]*")|(?P<prime>['′]+|″|‴)|(?P<mark>[\u0302\u0303\u0304\u0305])
    |(?P<operator>\(\+\)|<=|>=|:=|!=|<-|\.\.\.|\.\.|…|[_^()\[\]{},;:+\-−*·×/√∞≤≥<>≠≔=←∈⊆⊕&~.|¬∧∨])
    |(?P<bad>.)""",
    re.X | re.S,
)

_OPERATORS = {
    "(+)": "OPLUS", "⊕": "OPLUS", "..": "DOTS", "...": "DOTS", "…": "DOTS", "+": "SIGN", "-": "SIGN", "−": "SIGN",
    "*": "OP", "/": "OP", "·": "OP", "×": "OP", "√": "ROOT", "∞": "INF", "(": "LPAR", ")": "RPAR", "[": "LSQB",
    "]": "RSQB", "{": "LBRACE", "}": "RBRACE", ",": "COMMA", ";": "COMMA", ":": "COLON", "_": "LOW", "^": "UP",
    "¬": "NOT", "∧": "AND", "∨": "OR", "∈": "IN",
}
_RELATIONS = {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">=", "<": "<", ">": ">", "!=": "!=", "≠": "!=", ":=": ":=",
              "≔": ":=", "=": "=", "<-": "<-", "←": "<-", "⊆": "subset"}
_CANONICAL = {"−": "-", "·": "*", "×": "*", "µ": "μ", "ϵ": "ε", "ϕ": "φ", "ϑ": "θ", "ϱ": "ρ", "∈": "in"}
_RELATION_MACROS = {"le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=", "ne": "!=",
                    "neq": "!=", "lt": "<", "gt": ">", "subseteq": "subset", "leftarrow": "<-", "gets": "<-", "coloneqq": ":="}
_ACCENTS = {"hat": "hat", "widehat": "hat", "tilde": "tilde", "widetilde": "tilde", "bar": "bar", "overline": "bar",
            "mathcal": "cal"}
MARKS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "bar"}
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "varrho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "ell": "ℓ", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
    "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}
_WORD_MACROS = "sum max min prod exp log ln sin cos tanh softmax arg".split()
_NOISE = set(
    "quad qquad left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr limits nolimits displaystyle "
    "textstyle scriptstyle nonumber notag middle mathrm".split()
)
KEYWORDS = set(
    "index dim input weight output mask map set def use override for claim section with as in and or not assuming".split()
)
_CONTINUES = {"REL", "SIGN", "OP", "OPLUS", "AND", "OR", "NOT", "IN", "ROOT", "DOTS", "WITH"}
_OPENERS = {"LPAR": "(", "LSQB": "[", "LBRACE": "{"}
_CLOSERS = {"RPAR": ")", "RSQB": "]", "RBRACE": "}"}


@dataclass(frozen=True, slots=True)
class Word:
    """A token: its type, its canonical value, and where it stands."""

    type: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Line:
    """The words of one statement, and the column it starts in."""

    words: tuple[Word, ...]
    column: int
    display: bool


def lines(source: Source, report: Report, skip: tuple[tuple[int, int], ...] = ()) -> Iterator[Line]:
    """Every statement of the text; `skip` are ranges that are not in the language of equations."""
    yield from _split(source, _words(source, report, skip), report)


def _words(source: Source, report: Report, skip: tuple[tuple[int, int], ...]) -> list[Word]:
    text, at, out = source.text, 0, []
    skips = {start: end for start, end in skip}
    while at < len(text):
        if at in skips:
            out.append(Word("NEWLINE", "\n", at, at))
            at = skips[at]
            continue
        match = _MASTER.match(text, at)
        assert match is not None
        at = match.end()
        out.extend(_word(source, match, out, report))
    out.append(Word("NEWLINE", "\n", len(text), len(text)))
    return out


def _word(source: Source, match: re.Match[str], before: list[Word], report: Report) -> list[Word]:
    kind, text, start, end = match.lastgroup or "", match[0], match.start(), match.end()
    if match["text"]:
        kind = "text"
    span = Span(source, start, end)

    def one(type_: str, value: str | None = None) -> list[Word]:
        return [Word(type_, text if value is None else value, start, end)]

    match kind:
        case "space" | "comment" | "empty":
            return []
        case "newline" | "lineend":
            return one("NEWLINE" if kind == "newline" else "LINEEND")
        case "display":
            return one("DISPLAY")
        case "text":
            return _quoted(match["text"], match["label"], one)
        case "macro":
            return _macro(match["macro"], span, one, report)
        case "symbol":
            return one({"{": "LBRACE", "}": "RBRACE"}[match["symbol"]]) if match["symbol"] in "{}" else []
        case "number":
            if before and before[-1].end == start and before[-1].type in ("WORD", "GREEK"):
                name = before[-1].value
                report.add(BadScript(f"a digit directly after `{name}` is neither a script nor a factor", span, "",
                                     helps=(Help(f"write `{name}_{text}` for a label, or `{text} {name}` for a product"),)))
            return one("NUMBER")
        case "low" | "up":
            return _label(match[kind], kind, start, end)
        case "word":
            if text == "all":
                return one("ALL" if before and before[-1].type == "FOR" else "WORD")
            if text in KEYWORDS:
                return one(text.upper())
            return one("GREEK", GREEK[text]) if text in GREEK else one("WORD", "log" if text == "ln" else text)
        case "greek":
            return one("GREEK", _CANONICAL.get(text, text))
        case "script":
            return [Word("ACCENT", "cal", start, start), Word("WORD", "L", start, end)]
        case "big":
            return one("WORD", "prod" if text == "∏" else "sum")
        case "one":
            return one("NUMBER", "1")
        case "string":
            return one("STRING", text[1:-1])
        case "prime":
            return one("PRIME", "'" * {"″": 2, "‴": 3}.get(text, len(text)))
        case "mark":
            return _combine(before, MARKS[text], start, end)
        case "operator":
            return _operator(source, text, start, end)
    name = unicodedata.name(text, "an unnamed character").lower()
    report.add(UnreadableCharacter(f"`{text}` ({name}) has no meaning here" if text.isprintable() else f"{name} has no meaning here", span))
    return []


def _quoted(macro: str, label: str, one: type) -> list[Word]:
    if label == "with":
        return one("WITH", "with")
    if macro == "mathbb":
        return one("NUMBER", "1") if label == "1" else one("TEXT", label)
    return one("TEXT", label)


def _macro(name: str, span: Span, one: type, report: Report) -> list[Word]:
    if name in _NOISE:
        return []
    for table, type_ in ((GREEK, "GREEK"), (_RELATION_MACROS, "REL"), (_ACCENTS, "ACCENT")):
        if name in table:
            return one(type_, table[name])
    if name in _WORD_MACROS:
        return one("WORD", "log" if name == "ln" else name)
    simple = {"in": ("IN", "in"), "cdot": ("OP", "*"), "times": ("OP", "*"), "oplus": ("OPLUS", "⊕"), "infty": ("INF", "∞"),
              "sqrt": ("SQRT", "sqrt"), "frac": ("FRAC", "frac"), "tfrac": ("FRAC", "frac"), "dfrac": ("FRAC", "frac"),
              "land": ("AND", "and"), "wedge": ("AND", "and"), "lor": ("OR", "or"), "vee": ("OR", "or"), "neg": ("NOT", "not"),
              "lnot": ("NOT", "not"), "cdots": ("DOTS", ".."), "ldots": ("DOTS", ".."), "dots": ("DOTS", ".."),
              "lbrace": ("LBRACE", "{"), "rbrace": ("RBRACE", "}"), "prime": ("PRIME", "'")}
    if name in simple:
        return one(*simple[name])
    known = sorted({*_NOISE, *GREEK, *_RELATION_MACROS, *_ACCENTS, *_WORD_MACROS, *simple})
    near = _nearest(name, known)
    helps = (Help(f"there is a macro with a similar name: `\\{near}`", span, f"\\{near}"),) if near else ()
    report.add(UnknownMacro(f"`\\{name}` is not a macro of the language", span, helps=helps))
    return one("TEXT", name)


def _nearest(name: str, known: list[str]) -> str | None:
    best = min(known, key=lambda other: edit_distance(name, other))
    return best if edit_distance(name, best) <= max(1, len(name) // 3) else None


def edit_distance(a: str, b: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def _label(text: str, kind: str, start: int, end: int) -> list[Word]:
    """`_hat` is a label; the name of a Greek letter is that letter, and so a script."""
    if text in GREEK:
        return [Word("LOW" if kind == "low" else "UP", "", start, start + 1), Word("GREEK", GREEK[text], start + 1, end)]
    return [Word("LABEL_LOW" if kind == "low" else "LABEL_UP", text, start, end)]


def _combine(before: list[Word], accent: str, start: int, end: int) -> list[Word]:
    """A combining mark belongs to the last letter: K̂ is \\widehat K."""
    if not before or before[-1].type not in ("WORD", "GREEK") or before[-1].end != start:
        return []
    last = before.pop()
    if len(last.value) > 1:
        before.append(Word(last.type, last.value[:-1], last.start, last.end - 1))
    return [Word("ACCENT", accent, last.end - 1, last.end - 1), Word(last.type, last.value[-1], last.end - 1, end)]


def _operator(source: Source, text: str, start: int, end: int) -> list[Word]:
    if text in "&~":
        return []
    if text in ".,;" and _ends_line(source.text, end):
        return [Word("STOP", text, start, end)]
    if text in _RELATIONS:
        return [Word("REL", _RELATIONS[text], start, end)]
    if text in _OPERATORS:
        return [Word(_OPERATORS[text], _CANONICAL.get(text, text), start, end)]
    return [Word("BAD", text, start, end)]


_END_OF_LINE = re.compile(r"(?:\\[,;:! ]|\\q?quad\b|[^\S\n]|\{\})*(?:#[^\n]*)?(?:\n|$|\$\$|\\\\)")


def _ends_line(text: str, at: int) -> bool:
    return _END_OF_LINE.match(text, at) is not None


def _split(source: Source, words: list[Word], report: Report) -> Iterator[Line]:
    at = 0
    while at < len(words):
        if words[at].type in ("NEWLINE", "STOP"):
            at += 1
        elif words[at].type == "DISPLAY":
            at, found = _display(source, words, at, report)
            yield from found
        else:
            at, line = _statement(source, words, at, report)
            if line.words:
                yield line


def _column(source: Source, offset: int) -> int:
    start = source.text.rfind("\n", 0, offset) + 1
    return len(source.text[start:offset].expandtabs(8))


def _display(source: Source, words: list[Word], at: int, report: Report) -> tuple[int, list[Line]]:
    """The statements between two `$$`; a line end inside carries no meaning, `\\\\` does."""
    end = next((i for i in range(at + 1, len(words)) if words[i].type == "DISPLAY"), None)
    column = _column(source, words[at].start)
    if end is None:
        report.add(Unclosed("`$$` is not closed", Span(source, words[at].start, words[at].end), "opened here",
                            helps=(Help("close the display with `$$`"),)))
        return at + 1, []
    out: list[Line] = []
    piece: list[Word] = []
    for i in range(at + 1, end + 1):
        word = words[i]
        if word.type in ("LINEEND", "DISPLAY"):
            while piece and piece[-1].type == "STOP":
                piece.pop()
            if piece and _balanced(source, piece, report):
                out.append(Line(tuple(_stops(piece)), column, True))
            piece = []
        elif word.type != "NEWLINE":
            piece.append(word)
    return end + 1, out


def _stops(words: list[Word]) -> list[Word]:
    """Inside a display a comma at a line's end still separates equations; a full stop is nothing."""
    return [Word("COMMA", w.value, w.start, w.end) if w.type == "STOP" else w for w in words if w.type != "STOP" or w.value != "."]


def _statement(source: Source, words: list[Word], at: int, report: Report) -> tuple[int, Line]:
    piece: list[Word] = []
    depth, start, first_end = 0, at, None
    opened = 0
    while at < len(words):
        word = words[at]
        if word.type in ("NEWLINE", "LINEEND"):
            following = next((w for w in words[at + 1 : at + 400] if w.type not in ("NEWLINE", "STOP")), None)
            joined = depth > 0 or (piece and piece[-1].type in _CONTINUES)
            joined = joined or (following is not None and following.type in _CONTINUES - {"NOT", "ROOT", "WITH"})
            first_end = at if first_end is None and depth > 0 else first_end
            opened += depth > 0
            if not joined or following is None or opened > MAX_OPEN_LINES or (depth > 0 and _starts(following, source)):
                break
        elif word.type == "DISPLAY":
            break
        else:
            if word.type == "STOP" and word.value in ",;" and depth > 0:
                word = Word("COMMA", word.value, word.start, word.end)
            depth += (word.type in _OPENERS) - (word.type in _CLOSERS)
            if word.type != "STOP":
                piece.append(word)
        at += 1
    if depth > 0 and first_end is not None:
        at = first_end
        piece = [w for w in words[start:first_end] if w.type not in ("STOP", "NEWLINE")]
    column = _column(source, piece[0].start) if piece else 0
    return at + 1 if at < len(words) and words[at].type != "DISPLAY" else at, Line(
        tuple(piece) if piece and _balanced(source, piece, report) else (), column, False)


def _starts(word: Word, source: Source) -> bool:
    """A keyword that can only stand at the head of a line ends what an open bracket would swallow."""
    heads = {"INDEX", "DIM", "INPUT", "WEIGHT", "OUTPUT", "MASK", "MAP", "DEF", "USE", "OVERRIDE", "CLAIM", "SECTION"}
    return word.type in heads


def _balanced(source: Source, words: list[Word], report: Report) -> bool:
    """Every bracket of the statement has its partner; `(` may close with `]`, as an interval does."""
    stack: list[Word] = []
    roots = 0
    for word in words:
        roots = roots + 1 if word.type == "ROOT" or word.type == "NOT" else 0
        if word.type in _OPENERS:
            stack.append(word)
        if len(stack) > MAX_DEPTH or roots > MAX_DEPTH:
            report.add(TooDeep(f"brackets are nested more than {MAX_DEPTH} deep", Span(source, word.start, word.end),
                               helps=(Help("name an inner expression in an equation of its own"),)))
            return False
        if word.type in _CLOSERS:
            if not stack or (stack[-1].type == "LBRACE") != (word.type == "RBRACE"):
                _stray(source, stack, word, report)
                return False
            stack.pop()
    if stack:
        first, last = stack[-1], words[-1]
        closer = {"LPAR": ")", "LSQB": "]", "LBRACE": "}"}[first.type]
        report.add(Unclosed(f"`{_OPENERS[first.type]}` is not closed", Span(source, first.start, first.end), "opened here",
                            helps=(Help(f"insert `{closer}` where it ends", Span(source, last.end, last.end), closer),)))
    return not stack


def _stray(source: Source, stack: list[Word], word: Word, report: Report) -> None:
    span = Span(source, word.start, word.end)
    if not stack:
        report.add(StrayCloser(f"`{_CLOSERS[word.type]}` closes nothing", span, helps=(Help("remove it", span, ""),)))
        return
    opener = stack[-1]
    report.add(Unclosed(f"`{_OPENERS[opener.type]}` is not closed before `{_CLOSERS[word.type]}`",
                        Span(source, opener.start, opener.end), "opened here"))
