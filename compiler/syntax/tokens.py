"""str -> words: one token stream for the three spellings.

A run of letters is one word, in bodies and in scripts alike, and a macro is its whole run of letters, looked up in
one table. The lexer reports what it cannot read and goes on, so one bad line never hides the next. Beside the mode of
mathematics it has one for lines of a `plan` block, which are identifiers, numbers and marks: `bf16` is a name there.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace

from einc.errors.problems import BadNumber, BadScript, UnknownMacro, UnreadableCharacter
from einc.errors.report import Help, Report, Source, Span
from einc.syntax import cases, matrix
from einc.syntax import spelling as sp
from einc.syntax.brackets import UNITS, Word, braced, bracketed, hatted, raised, unnoted
from einc.syntax.macros import MAX_OF_TEXT, NONE, Macros, Meaning, arguments, filled
from einc.syntax.primes import in_shape, two_primes
from einc.syntax.slices import sliced
from einc.syntax.texts import column

_MASTER = re.compile(
    rf"""(?P<newline>\r?\n)|(?P<space>[^\S\n]+)|(?P<comment>\#[^\n]*)|(?P<empty>\{{\}})|(?P<display>\$\$)
    |\\(?P<text>text|mathrm|operatorname|mathbf|boldsymbol|mathbb|mathsf|textbf|textrm)\*?\s*
        (?:\{{\s*(?P<label>[^{{}}\n]*?)\s*\}}|(?P<letter>(?<![A-Za-z])[A-Za-z]|[0-9]))
    |\\(?P<macro>(?:{sp.NUMBERED})(?![A-Za-z0-9])|[A-Za-z]+)|(?P<lineend>\\\\)|\\(?P<symbol>[^A-Za-z\n])
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |_(?P<low>[A-Za-z]{{2,}})|\^(?P<up>[A-Za-z]{{2,}})
    |(?P<word>(?:{sp.NUMBERED})(?![A-Za-z0-9])|[A-Za-z]+)|(?P<greek>[α-ωΑ-ΡΤ-Ωϵϕϑϱµℓ⊤])|(?P<turned>ᵀ)|(?P<script>ℒ)
    |(?P<big>[Σ∑∏])|(?P<one>𝟙)|(?P<string>"[^"\n]*")|(?P<prime>['′]+|″|‴)|(?P<mark>[\u0302\u0303\u0304\u0305])
    |(?P<operator>\(\+\)|<=|>=|:=|!=|<-|\.\.\.|\.\.|…|[_^()\[\]{{}},;:+\-−*·×/√∞≤≥<>≠≔=←∈⊆⊕⊙∘&~.|‖¬∧∨⌈⌉⌊⌋])
    |(?P<bad>.)""",
    re.X | re.S,
)
_SUBSCRIPT = re.compile(r"([A-Za-z]+)_([A-Za-z0-9])\Z")  # in a font of mathematics: `\\mathrm{head_i}`
_RUN = re.compile(r"[A-Za-z][A-Za-z0-9]*")  # a word whose name may have digits
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAN_WORD = re.compile(r"(?P<NAME>[^\W\d]\w*)|(?P<DIGITS>[0-9]+(?:\.[0-9]+)?)")
_END_OF_LINE = re.compile(r"(?:\\[,;:! ]|\\q?quad\b|[^\S\n]|\{\})*(?:#[^\n]*)?(?:\n|$|\$\$|\\\\)")
_NAMES = ("WORD", "GREEK")
_ENDS = {"ENDCASES": cases.END, "ENDMATRIX": matrix.END}
MAX_DIGITS, MAX_POWER = 40, 300
MAX_EXPANSIONS, MAX_EXPANDED = 20, 100_000


def words(source: Source, report: Report, functions: frozenset[str] = frozenset(),
          skip: tuple[tuple[int, int], ...] = (), within: tuple[int, int] | None = None,
          macros: Macros = NONE, digits: bool = True) -> list[Word]:
    """Every word of the text, or of a part of it. Problems go to the report.

    `functions` are names that a macro may spell, `skip` ranges that are no equations, `macros` the author's own.
    `digits`: whether a word may have digits after its first letter, as nowhere in a formula of a paper.
    """
    at, end = within or (0, len(source.text))
    lexer, skips = _Lexer(source, report, functions, end, macros, digits), dict(skip)
    while at < end:
        if at in skips:
            lexer.put("NEWLINE", "\n", at, at)
            at = skips[at]
        else:
            at = lexer.word(at)
    lexer.put("NEWLINE", "\n", at, at)
    chosen = cases.chosen(raised(hatted(unnoted(sliced(lexer.out)))), source, report)
    return braced(bracketed(matrix.marked(chosen, source, report), source, report))


def trivia(text: str) -> list[tuple[str, int, int]]:
    """What the words leave out and a printer keeps: every "comment" and every "display" mark, and where it stands."""
    return [(m.lastgroup or "", *m.span()) for m in _MASTER.finditer(text) if m.lastgroup in ("comment", "display")]


@dataclass
class _Lexer:
    """The words so far; each method reads one kind."""

    source: Source
    report: Report
    functions: frozenset[str]
    end: int
    macros: Macros
    digits: bool
    depth: int = 0  # how many of the author's macros stand around this text
    used: tuple[str, int] | None = None  # the outermost of them, and where in the text that is used
    room: list[int] = field(default_factory=lambda: [MAX_EXPANDED])  # how many characters they may still come to
    out: list[Word] = field(default_factory=list)
    plan: int | None = None  # inside of a `plan` block the column of its head
    open: list[str] = field(default_factory=list)  # the environments that are open, by the word that closes each

    def put(self, type_: str, value: str, start: int, end: int) -> None:
        self.out.append(Word(type_, value, start, end))

    def word(self, at: int) -> int:
        """Reads one word; the place after it."""
        if self.out and self.out[-1].type == "AS" and (name := _IDENTIFIER.match(self.source.text, at, self.end)):
            self.put("NAME", name[0], at, name.end())
            return name.end()
        if (found := self._environment(at)) is not None:
            return found
        match = _MASTER.match(self.source.text, at, self.end)
        assert match is not None
        if match.lastgroup not in ("newline", "space", "comment") and self._planned(at):
            return self._plan_word(at, match.end())
        kind = "text" if match["text"] else match.lastgroup or ""
        text, start, end = match[0], at, match.end()
        match kind:
            case "space" | "comment" | "empty":
                pass
            case "newline" | "lineend" | "display":
                self.put({"newline": "NEWLINE", "lineend": "LINEEND", "display": "DISPLAY"}[kind], text, start, end)
            case "text":
                self._quoted(match["text"], match["letter"] or match["label"] or "", start, end)
            case "macro":
                end = self._macro(match["macro"], start, end)
            case "symbol":
                self._symbol(match["symbol"], start, end)
            case "number":
                self._number(text, start, end)
            case "low" | "up":
                end = self._run(match[kind], at + 1, end)
                self._label(self.source.text[at + 1 : end], kind, start, end)
            case "word":
                end = self._run(text, at, end)
                self._letters(self.source.text[at:end], start, end)
            case "prime":
                self._prime("'" * {"″": 2, "‴": 3}.get(text, len(text)), start, end)
            case "mark":
                self._mark(sp.MARKS[text], start, end)
            case "operator":
                self._operator(text, start, end)
            case "bad":
                self._other(text, start, end)
            case _:
                self._letter(kind, text, start, end)
        return end

    def _run(self, letters: str, at: int, end: int) -> int:
        """Where a word ends that begins with these letters: digits may follow, but for a word of the language."""
        run = _RUN.match(self.source.text, at, self.end) if self.digits else None
        return end if run is None or letters in sp.KEYWORDS or letters == "inf" else run.end()

    def _environment(self, at: int) -> int | None:
        """Reads a mark of a choice between cases or of a matrix: its ends, and what ends its rows and cells; None where
        none is.
        """
        text, mark = self.source.text, self.source.text[at : at + 1]
        if mark == "\\" and (found := cases.BEGIN.match(text, at, self.end)) is not None:
            self.open.append("ENDCASES")
            kind = "CASES"
        elif mark == "\\" and (found := matrix.BEGIN.match(text, at, self.end)) is not None:
            self.open.append("ENDMATRIX")
            kind = "MATRIX_"
        elif self.open and mark == "\\" and (found := _ENDS[self.open[-1]].match(text, at, self.end)) is not None:
            kind = self.open.pop()
        elif self.open and (found := cases.ROW.match(text, at, self.end)) is not None:
            kind = "ROW"
        elif self.open and mark == "&":
            self.put("CELL", mark, at, at + 1)
            return at + 1
        else:
            return None
        self.put(kind, found[0], at, found.end())
        return found.end()

    def _planned(self, at: int) -> bool:
        """Whether a place belongs to a `plan` block, which a line ends that is not deeper than its head."""
        if self.out and self.out[-1].type != "NEWLINE":
            return self.plan is not None
        here = column(self.source, at)
        if self.plan is not None and here <= self.plan:
            self.plan = None
        if self.plan is None and (found := _IDENTIFIER.match(self.source.text, at, self.end)) and found[0] == "plan":
            self.plan = here
        return self.plan is not None

    def _plan_word(self, at: int, end: int) -> int:
        """Reads one word of a `plan` block; the place after it. The head of the block is a line of its own."""
        text, before = self.source.text, [word.type for word in self.out[-2:]]
        if before[-1:] in ([], ["NEWLINE"]) and column(self.source, at) == self.plan:
            self.put("PLAN", "plan", at, at + len("plan"))
        elif (found := _PLAN_WORD.match(text, at, self.end)) is not None:
            self.put(found.lastgroup or "", found[0], at, found.end())
        elif before == ["PLAN", "NAME"] and text[at] == ":":
            self.put("COLON", ":", at, end)
            self.put("NEWLINE", "", end, end)
        else:
            self.put("MARK", text[at:end], at, end)
        return self.out[-1].end

    def _letter(self, kind: str, text: str, start: int, end: int) -> None:
        """Puts the token of a character that stands for a word."""
        match kind:
            case "greek":
                self.put("GREEK", sp.CANONICAL.get(text, text), start, end)
            case "turned":
                self.put("UP", "^", start, start)
                self.put("GREEK", "⊤", start, end)
            case "script":
                self.put("ACCENT", "cal", start, start)
                self.put("WORD", "L", start, end)
            case "big":
                self.put("WORD", "prod" if text == "∏" else "sum", start, end)
            case "one":
                self.put("NUMBER", "1", start, end)
            case "string":
                self.put("STRING", text[1:-1], start, end)

    def _quoted(self, macro: str, label: str, start: int, end: int) -> None:
        """Puts the tokens of a label in braces: a keyword, a number, a name with its subscript, or a text."""
        if label == "with" and macro.startswith("text"):
            self.put("WITH", "with", start, end)
        elif macro in ("mathbb", "mathbf") and label in ("0", "1"):
            self.put("NUMBER", label, start, end)
        elif (parts := _SUBSCRIPT.match(label)) is not None and not macro.startswith("text"):
            self.put("TEXT", parts[1], start, end)
            self.put("LOW", "_", end, end)
            self.put("NUMBER" if parts[2].isdigit() else "WORD", parts[2], end, end)
        elif label:
            self.put("TEXT", label, start, end)

    def _macro(self, name: str, start: int, end: int) -> int:
        """A macro of the author's, or of the language; the place after it and its arguments."""
        meaning = self.macros.at(name, start if self.used is None else self.used[1])
        if meaning is not None:
            return self._expanded(name, meaning, start, end)
        if name in sp.NOISE:
            pass
        elif name.endswith("arrow") and self._hangs():
            self.put("TEXT", name, start, end)
        elif name in sp.MACROS:
            self.put(*sp.MACROS[name], start, end)
        elif name in self.functions:
            self.put("WORD", name, start, end)
        else:
            near = sp.nearest(name, [*sp.MACROS, *sorted(sp.NOISE | self.functions)])
            self._unknown(name, start, end, near)
            self.put("TEXT", name, start, end)
        return end

    def _hangs(self) -> bool:
        """Whether the next token begins a script: after `_` or `^`, or after one of these and a brace."""
        before = [w.type for w in self.out[-2:]]
        return before[-1:] in (["LOW"], ["UP"]) or before in (["LOW", "LBRACE"], ["UP", "LBRACE"])

    def _expanded(self, name: str, meaning: Meaning, start: int, end: int) -> int:
        """The words of an author's macro, all of them where it is used; so is what is wrong with them."""
        given, end = arguments(self.source.text, end, meaning)
        text = filled(meaning.body, given, self.room[0])
        inner = Report()
        if len(given) < (count := meaning.arguments):
            inner.add(UnknownMacro(f"`\\{name}` takes {count} argument{'s' * (count > 1)}"))
        elif self.depth == MAX_EXPANSIONS:
            inner.add(UnknownMacro(f"`\\{name}` comes to no end"))
        elif text is None or not self._afford(len(text) + 1):
            inner.add(self._dear((self.used or (name, start))[0]))
        text = text or ""
        lexer = replace(self, source=Source("", text), end=len(text), report=inner, depth=self.depth + 1, out=[],
                        used=self.used or (name, start))
        at = 0
        while at < len(text) and not inner.problems:
            at = lexer.word(at)
        body = meaning.body
        notes = () if self.depth else (f"`\\{name}` stands for `{body if len(body) < 80 else body[:79] + '…'}`",)
        for problem in inner.problems[:1]:
            self.report.add(type(problem)(problem.message, Span(self.source, start, end),
                                          notes=(*notes, *problem.notes)))
        self.out += [Word(word.type, word.value, start, end) for word in lexer.out]
        return end

    def _afford(self, characters: int) -> bool:
        """Spends what a macro comes to, where that is left."""
        if characters > min(self.room[0], self.macros.left[0]):
            return False
        self.room[0] -= characters
        self.macros.left[0] -= characters
        return True

    def _dear(self, name: str) -> UnknownMacro:
        """The problem of a macro whose expansion is longer than the limit."""
        whole = self.macros.left[0] < self.room[0]
        most, of = (MAX_OF_TEXT, "text") if whole else (MAX_EXPANDED, "formula")
        return UnknownMacro(f"`\\{name}` stands for too much", notes=(
            f"the macros of a {of} are read as far as they come to {most:,} characters",))

    def _unknown(self, name: str, start: int, end: int, near: str | None) -> None:
        span = Span(self.source, start, end)
        if name in sp.FOREIGN:
            self.report.add(UnknownMacro(f"`\\{name}` is {sp.FOREIGN[name]}", span,
                                         notes=("the macros are in grammar/README.md §1.3",)))
            return
        helps = (Help(f"there is a macro with a similar name: `\\{near}`", span, f"\\{near}", False),) if near else ()
        notes = () if near else ("names of functions, and the macros of grammar/README.md §1.3",)
        self.report.add(UnknownMacro(f"`\\{name}` is not a macro of the language", span, notes=notes, helps=helps))

    def _symbol(self, symbol: str, start: int, end: int) -> None:
        if symbol in "{}":
            self.put("LBRACE" if symbol == "{" else "RBRACE", symbol, start, end)
        elif symbol in sp.MACROS:
            self.put(*sp.MACROS[symbol], start, end)
        elif symbol not in sp.SPACING:
            self._unknown(symbol, start, end, None)

    def _number(self, text: str, start: int, end: int) -> None:
        """Puts a number; one directly after a name, or out of range, is reported, the latter then read as 1. So is one
        whose exponent could as well begin the name of a function.
        """
        digits = text.lower().partition("e")[0]
        run = _RUN.match(self.source.text, start + len(digits), self.end) if self.digits else None
        if run is not None and run[0] in {*self.functions, *sp.BUILT_IN}:
            self.report.add(BadNumber(f"`{digits}{run[0]}` begins with a number, and `{run[0]}` is a function",
                                      Span(self.source, start, run.end()),
                                      helps=(Help(f"for a product write `{digits} {run[0]}`"),)))
        before = self.out[-1] if self.out else None
        if before is not None and before.end == start and before.type in (*_NAMES, "LABEL_LOW", "LABEL_UP"):
            name = before.value
            self.report.add(BadScript(f"a digit directly after `{name}` is neither a script nor a factor",
                                      Span(self.source, start, end),
                                      helps=(Help(f"write `{name}_{text}` for a label, or `{text} {name}` for a "
                                                  f"product"),)))
        digits, _, power = text.lower().partition("e")
        if len(digits) > MAX_DIGITS or len(power) > 4 or abs(int(power or 0)) > MAX_POWER:
            self.report.add(BadNumber("the number is out of range", Span(self.source, start, end),
                                      notes=(f"numbers have at most {MAX_DIGITS} digits and a power of ten up to "
                                             f"{MAX_POWER}",)))
            text = "1"
        self.put("NUMBER", text, start, end)

    def _label(self, text: str, kind: str, start: int, end: int) -> None:
        """Puts the tokens of `_hat`, which is a label; the name of a Greek letter is that letter, and so a script."""
        if text in sp.GREEK:
            self.put("LOW" if kind == "low" else "UP", "_" if kind == "low" else "^", start, start + 1)
            self.put("GREEK", sp.GREEK[text], start + 1, end)
        else:
            self.put("LABEL_LOW" if kind == "low" else "LABEL_UP", text, start, end)

    def _letters(self, text: str, start: int, end: int) -> None:
        """Puts a run of letters as a keyword, a Greek letter, ∞ or a word; `ln` becomes `log`."""
        before = self.out[-1].type if self.out else ""
        if text == "all" and before == "FOR":
            self.put("ALL", text, start, end)
        elif text == "inf":
            self.put("INF", "∞", start, end)
        elif text in sp.KEYWORDS:
            self.put(text.upper(), text, start, end)
        elif text in sp.GREEK:
            self.put("GREEK", sp.GREEK[text], start, end)
        else:
            self.put("WORD", "log" if text == "ln" else text, start, end)

    def _prime(self, marks: str, start: int, end: int) -> None:
        """Puts the tokens of primes. A prime before scripts is the name's, in braces the index's; after a bare script
        it could be either's.
        """
        bare = len(self.out) > 1 and self.out[-1].type in UNITS and self.out[-2].type in ("LOW", "UP")
        if not bare:
            self.put("PRIME", marks, start, end)
            return
        if in_shape(self.source, self.out):  # where a size is read whole
            low = self.out[-2].start
            self.out.insert(len(self.out) - 2, Word("PRIME", marks, low, low))
            return
        self.report.add(two_primes(self.source, self.out, marks, Span(self.source, start, end)))

    def _mark(self, accent: str, start: int, end: int) -> None:
        """Puts a combining mark, which belongs to the last letter: K̂ is \\widehat K."""
        if not self.out or self.out[-1].type not in _NAMES or self.out[-1].end != start:
            self._unreadable(self.source.text[start:end], start, end)
            return
        last = self.out.pop()
        if len(last.value) > 1 and last.type == "WORD":
            self._letters(last.value[:-1], last.start, last.end - 1)
            last = Word(last.type, last.value[-1], last.end - 1, last.end)
        self.put("ACCENT", accent, last.start, last.start)
        self.put(last.type, last.value, last.start, end)

    def _operator(self, text: str, start: int, end: int) -> None:
        if text in "&~":
            return
        if text in ".,;" and _END_OF_LINE.match(self.source.text, end, self.end):
            self.put("STOP", text, start, end)
        elif text in sp.RELATIONS:
            self.put("REL", sp.RELATIONS[text], start, end)
        else:
            self.put(sp.OPERATORS.get(text, "BAD"), sp.CANONICAL.get(text, text), start, end)

    def _other(self, text: str, start: int, end: int) -> None:
        """Puts the tokens of a character: a letter with its accent in one is the letter and the accent."""
        parts = unicodedata.normalize("NFD", text)
        if len(parts) == 2 and parts[1] in sp.MARKS and (parts[0].isascii() or parts[0] in sp.GREEK.values()):
            self.put("ACCENT", sp.MARKS[parts[1]], start, start)
            self.put("WORD" if parts[0].isascii() else "GREEK", parts[0], start, end)
        else:
            self._unreadable(text, start, end)

    def _unreadable(self, text: str, start: int, end: int) -> None:
        name = unicodedata.name(text, f"character U+{ord(text):04X}").lower()
        shown = f"`{text}` ({name})" if text.isprintable() and not unicodedata.combining(text) else name
        self.report.add(UnreadableCharacter(f"{shown} has no meaning here", Span(self.source, start, end),
                                            notes=("the characters of the language: grammar/README.md §1.2",)))
