"""SyntaxTree -> LaTeX for a reader: declarations as sentences, equations in displays, comments as prose."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from einc.syntax import tree as s
from einc.syntax.printing.layout import joints
from einc.syntax.printing.names import Names
from einc.syntax.printing.writer import Writer
from einc.syntax.spelling import CANONICAL, LATIN, MARKS, RELATIONS, WRITTEN
from einc.syntax.tokens import trivia

PREAMBLE = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\usepackage{amsmath}
\usepackage{amssymb}
\usepackage[a4paper, margin=25mm]{geometry}
\setlength{\parindent}{0pt}\setlength{\parskip}{0.5ex}
\allowdisplaybreaks
\begin{document}
"""
_ESCAPED = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", **{c: f"\\{c}" for c in "{}$&#%_"}}
_PLAIN = "–—‘’“”…•§"
_SIGNS = {"√": r"\surd", "→": r"\to", "⇒": r"\Rightarrow", "≈": r"\approx", "∑": r"\sum", "∏": r"\prod", "Σ": r"\sum",
          "′": "'",
          "″": "''", "𝟙": r"\mathbf{1}", "ℒ": r"\mathcal{L}", "∂": r"\partial", "∇": r"\nabla", "ᵀ": r"{}^\top",
          "⊤": r"\top"}
_LISTS = {"input": "Given", "weight": "Weights", "dim": "Sizes", "output": "Returned", "index": "Index sets"}
_BLANK = re.compile(r"\n[^\S\n]*\n")


def document(body: str) -> str:
    """A whole LaTeX file around a body, with the preamble that its signs need, for pdflatex."""
    return f"{PREAMBLE}{body}\\end{{document}}\n"


def escaped(text: str) -> str:
    """Words of the author as TeX prints them; what has no glyph is named by its number."""
    out: list[str] = []
    for char in unicodedata.normalize("NFC", text):
        canonical = CANONICAL.get(char, RELATIONS.get(char, char))
        if char in MARKS and out:
            out[-1] = rf"$\{'widehat' if MARKS[char] == 'hat' else MARKS[char]}{{{out[-1].strip('$')}}}$"
        elif char in _SIGNS or canonical in LATIN or (canonical in WRITTEN and not char.isascii()):
            letter = f"\\{LATIN[canonical]}" if canonical in LATIN else WRITTEN.get(canonical, [""])[0]
            out.append(f"${_SIGNS.get(char) or letter}$")
        elif char in "−·":
            out.append("$-$" if char == "−" else r"$\cdot$")
        elif char in _ESCAPED or ord(char) < 0x180 or char in _PLAIN:
            out.append(_ESCAPED.get(char, char))
        else:
            out.append(f"[U+{ord(char):04X}]")
    return "".join(out)


def page(tree: s.SyntaxTree, names: Names, title: str) -> str:
    """The body of a page. `plan` blocks are left out with their comments, since they say nothing of what is computed.
    """
    text = tree.source.text
    plans = [(plan.span.start, (text + "\n").index("\n", plan.span.end)) for plan in tree.plans]
    comments = [(start, end) for kind, start, end in trivia(text)
                if kind == "comment" and not any(a <= start < b for a, b in plans)]
    writer = _Page(Writer("latex", names, page=True), text, comments)
    writer.statements(tree.statements)
    writer.told(len(text))
    writer.close()
    return f"\\section*{{{escaped(title)}}}\n\n" + "\n".join(writer.out) + "\n"


@dataclass
class _Page:
    """The lines so far; `rows` are those of the open display, `listed` the sentence that declarations add to."""

    writer: Writer
    text: str
    comments: list[tuple[int, int]]
    out: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    kind: str = ""
    end: int = 0

    def close(self) -> None:
        """Ends the display, or the sentence. Changes `self.out`."""
        if self.rows:
            self.out += ["\\begin{align*}", " \\\\\n".join(self.rows), "\\end{align*}"]
        if self.listed:
            self.out += [f"{_LISTS[self.kind]}: {', '.join(self.listed)}.", ""]
        self.rows, self.listed, self.kind = [], [], ""

    def told(self, until: int) -> None:
        """Writes the comments up to a place, as a paragraph."""
        found: list[str] = []
        while self.comments and self.comments[0][0] < until:
            start, end = self.comments.pop(0)
            found.append(self.text[start:end].strip("# "))
        if any(found):
            self.close()
            self.out += [escaped(" ".join(found)), ""]

    def remark(self, end: int) -> str:
        """The comment behind a statement, on its line. Changes `self.comments`."""
        if self.comments and "\n" not in self.text[end : self.comments[0][0]]:
            start, stop = self.comments.pop(0)
            return self.text[start:stop].strip("# ")
        return ""

    def statements(self, found: tuple[s.Statement, ...]) -> None:
        for statement in found:
            self.told(statement.span.end if not statement.block else statement.span.start)
            if _BLANK.search(self.text[self.end : statement.span.start]):
                self.close()
            self.end = statement.span.end
            self.statement(statement)

    def statement(self, statement: s.Statement) -> None:
        """Adds a statement to the page, as prose, a sentence of declarations or rows of a display, with its remark."""
        match statement.keyword:
            case "use":
                self.close()
                self.out += [f"This builds on \\texttt{{{escaped(_string(statement))}}}.", ""]
            case "ignore":
                self.close()
                self.out += [f"It changes no formula that ``{escaped(_string(statement))}''.", ""]
            case "section":
                self.close()
                self.out.append(f"\\paragraph{{{escaped(_string(statement))}.}}")
                self.statements(statement.block)
                self.close()
            case "for":
                self.block(statement)
            case "index" | "dim" | "input" | "weight":
                self.declared(statement)
            case "output" if not isinstance(statement.clauses[0].body, s.Relation):
                self.declared(statement)
            case _:
                if self.listed:
                    self.close()
                remark = self.remark(statement.span.end)
                self.rows += list(self.equations(statement, escaped(remark)))
        remark = self.remark(statement.span.end)
        if remark and self.listed:
            self.listed[-1] += f" ({escaped(remark)})"

    def block(self, statement: s.Statement) -> None:
        """Writes what heads a block as a sentence, and the block set in."""
        self.close()
        heads = ", ".join(self.writer.text(c.body) for c in statement.clauses)
        first = statement.clauses[0].body
        how = "In turn, for" if isinstance(first, s.Relation) else "For fixed"
        how = "For each block" if isinstance(first, s.Relation) and "subset" in first.operators else how
        self.out += [f"{how} ${heads}$:", "\\begin{quote}"]
        self.statements(statement.block)
        self.close()
        self.out.append("\\end{quote}")

    # sentences

    def declared(self, statement: s.Statement) -> None:
        """Adds the names of a declaration to the open sentence; another kind of declaration begins a new one."""
        if self.rows or self.kind != statement.keyword:
            self.close()
        self.kind = statement.keyword
        if statement.keyword == "index":
            self.listed += self.sets(statement)
            return
        for clause in statement.clauses:
            kinds = [c.body.text for c in statement.tail if isinstance(c.body, s.Word)]
            told = " (whole numbers)" if "int" in kinds else ""
            self.listed.append(f"${self.writer.text(clause.body)}${told}")

    def sets(self, statement: s.Statement) -> Iterator[str]:
        """`$t, s \\in \\{1..T\\}$ (time)`"""
        letters = [self.writer.text(c.body) for c in statement.clauses]
        kinds = [c.body for c in statement.tail]
        if len(kinds) == len(letters) > 1:
            yield from (self.set([letter], kind) for letter, kind in zip(letters, kinds, strict=True))
        elif kinds:
            yield self.set(letters, kinds[0])

    def set(self, letters: list[str], kind: s.Expression) -> str:
        """Returns LaTeX that says over which set the letters run, with the parts of a composite set."""
        structure = ""
        match kind:
            case s.Relation((whole, parts), ("=",)):
                structure, kind = self.writer.listing().text(parts), whole
        shown = ", ".join(letters)
        match kind:
            case s.Product((s.Word(name), s.Group(_, _, (inner,)))):
                extent = self.writer.text(inner) if isinstance(inner, s.Range) else f"1..{self.writer.text(inner)}"
                pairs = f", the pairs ${structure}$" if structure else ""
                return f"${shown} \\in \\{{{extent}\\}}$ ({escaped(name)}{pairs})"
            case s.Word(name):
                return f"${shown} \\in {structure}$ ({escaped(name)})"
        return f"${shown} \\in {self.writer.text(kind)}$"

    # displays

    def equations(self, statement: s.Statement, remark: str) -> Iterator[str]:
        """A row for each equation of a statement, what restricts it behind it."""
        found = {"output": "returned", "claim": "claimed"}.get(statement.keyword, "")
        remarks = [x for x in ("in place of the used one" if statement.override else "", found, remark) if x]
        note = f" \\tag*{{({'; '.join(remarks)})}}" if remarks else ""
        tail = self.tail(statement)
        row = ""
        for clause in statement.clauses:
            shown = self.aligned(clause.body)
            if not row:
                row = shown
            elif clause.after == "with":
                row += rf"\quad \text{{with }} {self.writer.text(clause.body)}"
            elif self.is_equation(clause.body):
                yield row + tail + note
                row, note = shown, ""
            else:
                row += rf",\quad {self.writer.text(clause.body)}"
        yield row + tail + note

    def aligned(self, node: s.Expression) -> str:
        """A relation with a mark at its first sign."""
        if not isinstance(node, s.Relation):
            return f"{self.writer.text(node)} &"
        rest = self.writer.text(s.Relation(node.operands[1:], node.operators[1:], node.span) if len(node.operands) > 2
                                else node.operands[1])
        return f"{self.writer.text(node.operands[0])} &{self.writer.sign(node.operators[0])} {rest}"

    def is_equation(self, node: s.Expression) -> bool:
        """Whether a later clause says what something is, and does not restrict: it names no index and no input."""
        names = self.writer.names
        match node:
            case s.Relation((s.Word(name) | s.Scripted(s.Word(name)), *_), ("=", *_)):
                return name not in names.indices | names.inputs
            case s.Relation((s.Word() | s.Scripted(), *_), (":=" | "<-", *_)):
                return True
        return False

    def tail(self, statement: s.Statement) -> str:
        """What stands behind the colon: where a tensor exists, what a map gives; of a claim, what it is said of."""
        shown = [self.writer.text(c.body) for c in statement.tail]
        match statement.keyword:
            case "mask" if [c.body.text for c in statement.tail if isinstance(c.body, s.Word)] == ["all"]:
                return r"\text{ exists everywhere}"
            case "mask":
                return rf"\text{{ exists where }} {', '.join(shown)}"
            case "map":
                return rf",\quad \text{{a value of }} {', '.join(shown)}"
            case "claim":
                said = zip(joints(statement), shown, strict=True)
                return "".join(f", {text}" if joint == "," else rf" \quad \text{{{joint} }} {text}"
                               for (joint, _), text in said)
        return ""


def _string(statement: s.Statement) -> str:
    first = statement.clauses[0].body
    return first.text if isinstance(first, s.Word) else ""
