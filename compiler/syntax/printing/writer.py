"""Syntax -> text in one of the three spellings. What is printed is read as the same thing
again, and printed as the same text.

Layout of a file is `layout`'s; here a node becomes a piece of a line. Where the author broke a line, it stays broken.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

from einc.errors.report import Source
from einc.syntax import tree as s
from einc.syntax.brackets import NORM
from einc.syntax.printing.hanging import Hung, Items, hung
from einc.syntax.printing.names import Names
from einc.syntax.printing.quotients import bare, big, divided, fractions, grouped, is_indicator, with_norms, with_roots
from einc.syntax.spelling import ACCENTS, GREEK, KEYWORDS, LATIN, UPRIGHT, WRITTEN, is_fold

Spelling = Literal["latex", "unicode", "ascii"]
_COLUMN = {"latex": 0, "unicode": 1, "ascii": 2}
_DOTS = re.compile(r"\.\.|…|\\[cl]?dots")
_ELLIPSIS = {"latex": "\\ldots", "unicode": "…", "ascii": "..."}
_SPECIAL = re.compile(r"[_#%&$]")
_NOTHING = re.compile(r"(?:\\(?:left|[bB]igg?l?)|\\!)*")
_TALL = ("\\frac", "\\sum", "\\prod")


@dataclass(frozen=True, slots=True)
class Writer:
    """One spelling. `pad` is what a continued line starts with, None where lines are not broken.

    `run`: a list of indices is written, in which a bare word is a run of letters. `small`: it hangs on something.
    `page`: it is for a reader alone, and need not be read by einc.
    """

    spelling: Spelling
    names: Names
    pad: str | None = None
    run: bool = False
    small: bool = False
    page: bool = False

    @property
    def latex(self) -> bool:
        """Whether the writer prints LaTeX and not text of the language."""
        return self.spelling == "latex"

    def sign(self, word: str) -> str:
        """Returns a sign or word of the language in this spelling."""
        return WRITTEN[word][_COLUMN[self.spelling]] if word in WRITTEN else word

    def listing(self) -> Writer:
        """The writer of a list of indices."""
        return replace(self, run=True)

    def between(self, one: s.Expression | s.Clause, other: s.Expression | s.Clause) -> str:
        """A space, or a line end where the author has one."""
        if self.pad is None:
            return " "
        source: Source = one.span.source
        return f"\n{self.pad}" if "\n" in source.text[one.span.end : other.span.start] else " "

    def text(self, node: s.Expression) -> str:
        """Returns the text of an expression; within a list of indices, only a list is written in the list's way."""
        inside = replace(self, run=False) if self.run and not _is_list(node) else self
        return inside._text(node)

    def _text(self, node: s.Expression) -> str:
        """Returns the text of an expression by its kind, in the mode that this writer has."""
        match node:
            case s.Number(text):
                return _power_of_ten(text) if self.page else text
            case s.Infinity():
                return self.sign("∞")
            case s.Word():
                return self.word(node)
            case s.Scripted():
                return self._scripted(node)
            case s.Product():
                return self._product(node)
            case s.Sum():
                return self._sum(node)
            case s.DirectSum(parts):
                return self._chain(parts, ["⊕"] * len(parts))
            case s.Relation(operands, operators):
                return self._relation(operands, operators)
            case s.Logic("not", (inner,)):
                return f"{self.sign('not')} {self.text(inner)}"
            case s.Logic(operator, operands):
                return self._chain(operands, [operator] * len(operands))
            case s.Group():
                return self.group(node)
            case s.Matrix():
                return self._matrix(node)
            case s.Range(low, high):
                return f"{self._tight(low)}..{self._tight(high)}"
            case s.Fraction():
                return self._fraction(node)
            case s.Root(inner):
                return self._root(inner)

    # what stands between operators; a line breaks before one, as such a line goes on

    def _chain(self, parts: tuple[s.Expression, ...], operators: list[str]) -> str:
        out = self.text(parts[0])
        for before, part, operator in zip(parts, parts[1:], operators, strict=False):
            out += f"{self.between(before, part)}{self.sign(operator)} {self.text(part)}"
        return out

    def _sum(self, node: s.Sum) -> str:
        out = ("-" if node.signs[0] == "-" else "") + self.text(node.terms[0])
        for before, term, sign in zip(node.terms, node.terms[1:], node.signs[1:], strict=False):
            out += f"{self.between(before, term)}{sign} {self.text(term)}"
        return out

    def _relation(self, operands: tuple[s.Expression, ...], operators: tuple[str, ...]) -> str:
        out = self.text(operands[0])
        for before, operand, operator in zip(operands, operands[1:], operators, strict=False):
            shown = self.text(operand)
            if self.latex and operator in ("in", "subset") and isinstance(operand, s.Group) and shown.startswith("{"):
                shown = f"\\{shown[:-1]}\\}}"
            out += f" {self.sign(operator)}{self.between(before, operand)}{shown}"
        return out

    def _tight(self, node: s.Expression) -> str:
        shown = self.text(node)
        return re.sub(r" ([+-]) ", r"\1", shown) if isinstance(node, s.Sum) else shown

    def group(self, node: s.Group) -> str:
        """Writes what stands in brackets; in LaTeX the brackets grow with tall contents."""
        inner = ""
        for before, item in zip((None, *node.items), node.items, strict=False):
            inner += "" if before is None else self.comma(before, item)
            inner += self.text(item)
        if node.open == NORM:
            bar = NORM if self.spelling == "unicode" else "\\|"
            return f"{bar}{inner}{bar}{node.close and '_'}{node.close}"
        if not self.latex:
            return f"{node.open}{inner}{node.close}"
        if node.open == "{":
            mark = "\\" if node.span.text.startswith("\\") else ""
            return f"{mark}{{{inner}{mark}}}"
        if any(macro in inner for macro in _TALL):
            return f"\\left{node.open}{inner}\\right{node.close}"
        return f"{node.open}{inner}{node.close}"

    def comma(self, before: s.Expression | s.Clause, item: s.Expression | s.Clause) -> str:
        """A comma, with the dots that the author has there: `1, …, n`."""
        gap = before.span.source.text[before.span.end : item.span.start]
        dots = f" {_ELLIPSIS[self.spelling]}," if _DOTS.search(re.sub(r"#[^\n]*", "", gap)) else ""
        return f",{dots}{self.between(before, item)}"

    # products and quotients

    def _product(self, node: s.Product) -> str:
        """Writes a product; fractions become strokes, and in LaTeX displays strokes become fractions."""
        factors, operators = with_roots(*with_norms(node.factors, node.operators))
        if self.run and not any(operators):  # entries of a list, which multiply nothing
            factors = factors if self.latex else tuple(grouped(x) if isinstance(x, s.Fraction) else x for x in factors)
        elif self.latex and not self.small:
            factors, operators = fractions(factors, operators, self.names.functions)
        elif not self.latex:
            factors, operators = divided(factors, operators, self.names.functions)
        out = ""
        for at, factor in enumerate(factors):
            following = factors[at + 1 : at + 2] if operators[at + 1 : at + 2] == ("",) else ()
            out += self._before(factors, operators, at) + self._factor(factor, following)
        return out

    def _factor(self, factor: s.Expression, following: tuple[s.Expression, ...]) -> str:
        if is_indicator(factor, following):
            return {"latex": "\\mathbf{1}" if self.page else "\\mathbb{1}", "unicode": "𝟙", "ascii": "1"}[self.spelling]
        if following and _is_arguments(following[0]) and self._applies(factor, following[0]):
            return replace(self, run=False).text(factor)
        return self.text(factor)

    def _before(self, factors: tuple[s.Expression, ...], operators: tuple[str, ...], at: int) -> str:
        """What joins a factor to the one before it."""
        if not at:
            return ""
        before, factor, operator = factors[at - 1], factors[at], operators[at]
        gap = self.between(before, factor)
        if operator == "/":
            tight = (isinstance(before, s.Number) and (at == 1 or operators[at - 1] != "" or big(factors[at - 2]))
                     and gap == " ")
            return "/" if tight else f"{gap}/ "
        if operator:
            return f"{gap}{self.sign(operator)} "
        if is_indicator(before, factors[at : at + 1]) or (_is_arguments(factor) and self._applies(before, factor)):
            return ""
        return gap

    def _applies(self, name: s.Expression, argument: s.Expression) -> bool:
        """Whether a name is applied to what stands in parentheses, as far as can be known here."""
        base = name.base if isinstance(name, s.Scripted) else name
        if not isinstance(base, s.Word):
            return False
        if isinstance(name, s.Scripted) and is_fold(base.text):
            return False
        gap = name.span.source.text[name.span.end : argument.span.start]
        return base.text in self.names.functions or _NOTHING.fullmatch(gap) is not None

    def _fraction(self, node: s.Fraction) -> str:
        if not self.latex:
            return self._product(s.Product((node,), ("",), node.span))
        inner = replace(self, pad=None)
        return f"\\frac{{{inner.text(bare(node.above))}}}{{{inner.text(bare(node.below))}}}"

    def _matrix(self, node: s.Matrix) -> str:
        """A matrix that is written out, with the dots of what is left out."""
        dash = "- & " if node.form == "rows" else ""
        rows = [" & ".join(r"\dots" if x is None else self.text(x) for x in row) for row in node.cells]
        if node.form == "list":
            return f"[{'; '.join(rows)}]".replace(" & ", ", ")
        lines = (f"{dash}{x}{dash[::-1].rstrip()}" if x != r"\dots" else r"\vdots" for x in rows)
        return r"\begin{bmatrix} " + r" \\ ".join(lines) + r" \end{bmatrix}"

    def _root(self, inner: s.Expression) -> str:
        """A square root; under the sign alone stands what needs no brackets there."""
        inner = bare(inner)
        if self.latex:
            return f"\\sqrt{{{self.text(inner)}}}"
        shown = self.text(inner)
        if self.spelling == "ascii":
            return f"sqrt({shown})"
        named = isinstance(inner, s.Scripted) and isinstance(inner.base, s.Word)
        plain = isinstance(inner, s.Number | s.Word) or (
            named and isinstance(inner, s.Scripted) and all(x.kind in ("lower", "label_lower") for x in inner.scripts))
        return f"√{shown}" if plain else f"√({shown})"

    # names

    def word(self, node: s.Word) -> str:
        """A name without scripts in the spelling that is asked for: Greek letters, upright words and quoted names each
        in their way."""
        text = node.text
        if node.quoted and self.page and not readable(text):
            return f"\\text{{{_SPECIAL.sub(lambda m: chr(92) + m[0], text)}}}"
        if node.quoted and node.span.text.startswith('"'):
            return f'"{text}"'
        if text == "⊤":
            return WRITTEN[text][_COLUMN[self.spelling]]
        if self.run:
            return self._in_run(node)
        if text in GREEK.values():
            return {"latex": f"\\{LATIN[text]}", "unicode": text, "ascii": LATIN[text]}[self.spelling]
        if node.quoted and not readable(text):
            return quoted(text)
        if not self.latex:
            return text
        if text in UPRIGHT:
            return f"\\{text}"
        if len(text) == 1 or not text.isascii():
            return text
        return f"\\{'operatorname' if text in self.names.functions else 'text'}{{{text}}}"

    def _in_run(self, node: s.Word) -> str:
        """A word in a list of indices: one letter after the other where they are indices, a quoted word is a label."""
        if node.quoted:
            return quoted(node.text)
        if node.text not in GREEK.values():
            return " ".join(self.names.split(node.text)) if self.small else node.text
        latin = LATIN[node.text]
        if node.span.text == latin and set(latin) <= self.names.letters:
            return latin
        macro = f"\\{latin}"
        safe = macro if set(latin) <= self.names.letters else latin
        return {"latex": macro, "unicode": node.text, "ascii": safe}[self.spelling]

    def _scripted(self, node: s.Scripted) -> str:
        """Writes a base with its accents, primes and scripts; a base that is no word is written as an expression."""
        base = node.base
        accents, scripts = hung(node, self._outside if isinstance(base, s.Word) else _never, self.latex)
        if not isinstance(base, s.Word):
            shown = self.text(base)
            shown = f"({shown})" if isinstance(base, s.Root | s.Fraction) and not self.latex else shown
            primes = "".join(x.text for x in node.scripts if x.kind == "prime")
            return shown + primes + "".join(f"_{x}" for x in accents) + self._scripts(scripts, False)
        primes = "".join(x.text for x in node.scripts if x.kind == "prime")
        if base.text in ("sum", "prod") and not accents and not primes:
            return self.sign(base.text) + self._scripts(scripts, False)
        plain = base.text not in self.names.functions and base.text != "e"
        writer = self if all(x.kind == "prime" for x in node.scripts) else replace(self, run=False)
        return writer._accented(base, accents, primes) + self._scripts(scripts, plain, bool(primes))

    def _accented(self, base: s.Word, accents: tuple[str, ...], primes: str) -> str:
        """Writes a name with its accents and primes; an accent without a sign in this spelling becomes a label."""
        shown = self.word(base)
        if self.latex:
            for accent in accents:
                shown = f"{ACCENTS[accent][0]}{{{shown}}}"
            return shown + primes
        after = [x for x in accents if x != "cal"]
        if "cal" in accents:
            shown = "ℒ" if base.text == "L" and self.spelling == "unicode" else f"\\mathcal{{{shown}}}"
        elif after and self.spelling == "unicode" and len(shown) == 1:
            shown = unicodedata.normalize("NFC", shown + ACCENTS[after.pop(0)][1])
        return shown + primes + "".join(f"_{x}" for x in after)

    def _scripts(self, scripts: tuple[Hung, ...], stagger: bool, primed: bool = False) -> str:
        """The scripts of a name; in LaTeX `{}` keeps an upper index behind the lower ones
        before it, and behind a prime."""
        out = ""
        used = {"upper"} if primed else set()
        for script in scripts:
            if self.latex:
                behind = stagger and script.level == "upper" and "lower" in used and not script.beside
                if script.level in used or behind:
                    out += "{}"
                    used = set()
                used.add(script.level)
            out += self._hung(script)
        return out

    def _hung(self, script: Hung) -> str:
        """One script, with braces where it is more than one word."""
        mark = "_" if script.level == "lower" else "^"
        if not self.latex and script.labels:
            return "".join(f"{mark}{label}" for label in script.labels)
        parts = [quoted(label) for label in script.labels]
        shown = " ".join([*parts, *([replace(self, run=True, small=True).entries(script.items)] if script.items
                                    else [])])
        greek = self.spelling == "ascii" and shown in GREEK and not set(shown) <= self.names.letters
        one = len(shown) == 1 and (shown.isascii() or shown in LATIN or shown in "∞⊤")
        short = one and script.level == "lower" if self.latex else one or shown.isdigit() or greek
        return f"{mark}{shown}" if short else f"{mark}{{{shown}}}"

    def entries(self, items: Items) -> str:
        """The entries of a script, with commas or the signs that stood between them."""
        out = ""
        before: s.Expression | None = None
        for item, joint in items[1:] if self.page and _named_twice(items) else items:
            out += "" if before is None else self.comma(before, item) if joint == "," else joint
            out += self.text(item)
            before = item
        return out

    def _outside(self, label: str) -> bool:
        """Whether a label needs no quotes below a name: `d_model`. Letters that are all
        indices would be read as those."""
        return (len(label) > 1 and label.isalpha() and readable(label) and label not in ACCENTS
                and not set(label) <= self.names.letters)


def quoted(text: str) -> str:
    """A label; `\\text{with}` is the word of the language."""
    return f"\\{'mathrm' if text == 'with' else 'text'}{{{text}}}"


def readable(text: str) -> bool:
    """Whether a quoted word is the same word without its quotes."""
    return (text.isascii() and text[:1].isalpha() and text.isalnum() and text not in GREEK and text not in KEYWORDS
            and text not in ("inf", "ln", "all"))


def _named_twice(items: Items) -> bool:
    """`s, s ≤ t`: to a reader the second says it all."""
    match items:
        case (s.Word(one), _), (s.Relation((s.Word(other), *_)), _), *_:
            return one == other
    return False


def _power_of_ten(number: str) -> str:
    """`1e-5` as people write it."""
    digits, _, power = number.lower().partition("e")
    if not power:
        return number
    return f"10^{{{int(power)}}}" if digits == "1" else f"{digits} \\cdot 10^{{{int(power)}}}"


def _never(label: str) -> bool:
    return False


def _is_list(node: s.Expression) -> bool:
    """Whether the node may be a list of indices, or one of its entries."""
    match node:
        case s.Product(_, operators):
            return not any(operators)
        case s.Group("{" | "("):
            return True
    return isinstance(node, s.Word | s.Number | s.Scripted)


def _is_arguments(node: s.Expression) -> bool:
    base = node.base if isinstance(node, s.Scripted) else node
    return isinstance(base, s.Group) and base.open == "("
