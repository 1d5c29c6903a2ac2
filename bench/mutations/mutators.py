"""One slip in a sound text: each mutator takes its places from the words and the tree of the text, never from a guess.

A mutant knows where it was changed, and what else a reader may be shown instead: where nothing is left
to point at (a line that is gone, a name declared otherwise) the uses of what was there, and where a
sum or a domain is gone what it ran over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from zlib import crc32

from bench.mutations import reading as r
from einc.driver import pipeline
from einc.errors.report import Report, Source
from einc.syntax import tree as s
from einc.syntax.tokens import Word, words

FLIPPED = {"<=": ">=", "≤": "≥", ">=": "<=", "≥": "≤", "<": ">", ">": "<", "\\le": "\\ge", "\\leq": "\\geq",
           "\\ge": "\\le",
           "\\geq": "\\leq"}
BRACKETS = {"LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE"}
LATIN, GREEK = "xqzjwkup", "χξζωψ"

Edit = tuple[int, int, str]


@dataclass(frozen=True)
class Mutant:
    """A text with one slip. `changes` are where it was changed and `about` where else the
    fault shows, both in its own text."""

    original: Source
    mutator: str
    what: str
    text: str
    changes: tuple[tuple[int, int], ...]
    about: tuple[tuple[int, int], ...] = ()

    @property
    def source(self) -> Source:
        return Source(self.original.name, self.text)


@dataclass(frozen=True)
class Place:
    """An index in a script of a name."""

    node: s.Expression
    script: s.Script
    items: tuple[r.Item, ...]
    at: int

    @property
    def item(self) -> r.Item:
        return self.items[self.at]


@dataclass
class Spec:
    """A sound text, its tree and its words."""

    source: Source
    tree: s.SyntaxTree = field(init=False)
    read: r.Reading = field(init=False)

    def __post_init__(self) -> None:
        self.tree = pipeline.syntax(self.source, Report())
        self.read = r.read_tree(self.tree)

    @cached_property
    def tokens(self) -> list[Word]:
        return [w for w in words(self.source, Report(), frozenset(self.read.functions)) if w.end > w.start]

    @cached_property
    def statements(self) -> list[s.Statement]:
        def flat(found: tuple[s.Statement, ...]) -> list[s.Statement]:
            return [y for x in found for y in (x, *flat(x.block))]
        return flat(self.tree.statements)

    @cached_property
    def nodes(self) -> list[s.Expression]:
        """Every expression, what stands in scripts included."""
        out: list[s.Expression] = []
        stack = [c.body for x in reversed(self.statements) for c in reversed((*x.clauses, *x.tail))
                 if x.keyword != "use"]
        while stack:
            node = stack.pop()
            out.append(node)
            scripts = [x.content for x in r.inner_scripts(node) if x.content is not None]
            stack += [*reversed(scripts), *reversed(r.kids(node))]
        return out

    @cached_property
    def places(self) -> list[Place]:
        """Every index in a script of a tensor, in declarations and on both sides of equations."""
        out: list[Place] = []
        for node in self.nodes:
            if not isinstance(node, s.Scripted) or not isinstance(node.base, s.Word):
                continue
            known = r.uses(self.read, node)
            items = known[0][1] if known else ()
            if not known and r.base(node) in ("δ", "ε"):
                items = (r.script_items(self.read, r.inner_scripts(node), frozenset()) or [()])[0]
            for script in r.inner_scripts(node):
                own = tuple(x for i in items for x in (i.parts or (i,))
                            if script.span.start <= x.span.start and x.span.end <= script.span.end)
                out += [Place(node, script, own, n) for n, x in enumerate(own) if x.kind == "index"]
        return out

    def made(self, mutator: str, what: str, *edits: Edit, about: tuple[tuple[int, int], ...] = (),
             names: set[str] | None = None
             ) -> Mutant:
        """The text with the edits; `about` are spans of the original, `names` words whose uses the fault shows at."""
        text, changes = self.source.text, []
        ordered = sorted(edits)
        for start, end, new in reversed(ordered):
            text = text[:start] + new + text[end:]

        def moved(at: int, after: bool) -> int:
            return at + sum(len(new) - (end - start) for start, end, new in ordered
                            if end <= at and (after or end < at))

        for n, (start, _, new) in enumerate(ordered):
            begin = start + sum(len(w) - (b - a) for a, b, w in ordered[:n])
            end = begin + len(new)
            while begin > 0 and text[begin - 1] in " \t":
                begin -= 1
            while end < len(text) and text[end] in " \t":
                end += 1
            changes.append((begin, end))
        spans = [(moved(a, True), moved(b, True)) for a, b in about]
        if names:
            left = words(Source("", text), Report(), frozenset(self.read.functions))
            spans += [(w.start, w.end) for w in left if w.value in names]
        return Mutant(self.source, mutator, what, text, tuple(changes), tuple(spans))

    def line_of(self, statement: s.Statement) -> Edit:
        """The edit that takes a statement out, with its line where nothing else stands on it."""
        text = self.source.text
        end = max([statement.span.end, *(x.span.end for x in statement.block)])
        start = statement.span.start
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        if not text[end:stop].split("#")[0].strip():
            end = stop
        before = text.rfind("\n", 0, start) + 1
        return ((before, min(end + 1, len(text)), "") if not text[before:start].strip() and end == stop
                else (start, end, ""))


# the mutators


def swap_index(spec: Spec) -> Iterator[Mutant]:
    """An index for another one that is declared: one of its own set, and one of another."""
    for n, place in enumerate(spec.places):
        own = [i for i, of in spec.read.indices.items() if of == place.item.of and i != place.item.name]
        other = [i for i, of in spec.read.indices.items() if of != place.item.of and of.cls != "layer"]
        for pick in (own, other):
            if pick:
                new = pick[n % len(pick)]
                yield spec.made("swap index", f"{place.item.name} → {new}",
                                (place.item.span.start, place.item.span.end, new))


def drop_binder(spec: Spec) -> Iterator[Mutant]:
    """A big operator, or the script of a function of a line."""
    for node in spec.nodes:
        if not isinstance(node, s.Product):
            continue
        for n, factor in enumerate(node.factors[:-1]):
            if not r.inner_scripts(factor) or not isinstance(factor, s.Scripted):
                continue
            rest = (node.factors[n + 1].span.start, node.factors[-1].span.end)
            if r.base(factor) in r.FOLDS:
                yield spec.made("drop binder", factor.span.text, (factor.span.start, rest[0], ""), about=(rest,))
            elif r.base(factor) in spec.read.functions:
                script = r.inner_scripts(factor)[0].span
                yield spec.made("drop binder", script.text, (script.start, script.end, ""), about=(rest,))


def drop_domain(spec: Spec) -> Iterator[Mutant]:
    """The condition of a binder, a mask, a restriction after a comma, `: all` after an output."""
    for product in spec.nodes:
        for factor in product.factors[:-1] if isinstance(product, s.Product) else ():
            for script in r.inner_scripts(factor) if r.base(factor) in (*r.FOLDS, *spec.read.functions, "topk") else ():
                yield from _without_condition(spec, script, (factor.span.start, product.span.end))
    for statement in spec.statements:
        if statement.keyword == "mask":
            yield spec.made("drop domain", statement.span.text, spec.line_of(statement),
                            names={r.base(statement.clauses[0].body) or ""})
        if statement.keyword == "output" and statement.tail:
            start, end = statement.clauses[-1].span.end, statement.tail[-1].span.end
            yield spec.made("drop domain", ": all", (start, end, ""),
                            names={r.base(c.body) or "" for c in statement.clauses})
        for before, clause in zip(statement.clauses, statement.clauses[1:], strict=False):
            if statement.keyword in ("", "output") and isinstance(clause.body, s.Relation) and any(
                    clause.body in e.restrictions for e in spec.read.equations):
                yield spec.made("drop domain", clause.span.text, (before.span.end, clause.span.end, ""),
                                about=((statement.span.start, before.span.end),))


def _without_condition(spec: Spec, script: s.Script, rest: tuple[int, int]) -> Iterator[Mutant]:
    content = script.content
    items = content.items if isinstance(content, s.Group) else ()
    for item in items:
        if isinstance(item, s.Relation):
            operands = item.operands[:1] if item.operators[0] == "in" else item.operands
            named = [n for x in operands if (n := r.index_of(x)) is not None and spec.read.of(n) is not None]
            if named:
                yield spec.made("drop domain", item.span.text, (item.span.start, item.span.end, named[0]),
                                about=(rest,))


def flip_level(spec: Spec) -> Iterator[Mutant]:
    """A script up that was down, or down that was up."""
    for script in dict.fromkeys(p.script for p in spec.places):
        at = script.span.start
        sign = spec.source.text[at]
        if sign in "_^":
            yield spec.made("flip level", script.span.text, (at, at + 1, "^" if sign == "_" else "_"),
                            about=((script.span.start, script.span.end),))


def merge_script(spec: Spec) -> Iterator[Mutant]:
    """The space between two words of a script, or the braces around it."""
    for script in dict.fromkeys(p.script for p in spec.places):
        content = script.content
        if not isinstance(content, s.Group) or content.open != "{":
            continue
        inside = [w for w in spec.tokens if content.span.start < w.start and w.end < content.span.end]
        for a, b in pairwise(inside):
            if a.end < b.start and a.type in ("WORD", "GREEK") and b.type in ("WORD", "GREEK"):
                yield spec.made("merge script", f"{a.value}{b.value}", (a.end, b.start, ""))
        if all(w.type in ("WORD", "GREEK", "NUMBER") for w in inside):
            start, end = content.span.start, content.span.end
            yield spec.made("merge script", "braces", (start, start + 1, ""), (end - 1, end, ""),
                            about=((script.span.start, script.span.end),))


def delete_brace(spec: Spec) -> Iterator[Mutant]:
    """One bracket of any kind."""
    for word in spec.tokens:
        if word.type in BRACKETS:
            yield spec.made("delete bracket", word.value, (word.start, word.end, ""))


def flip_relation(spec: Spec) -> Iterator[Mutant]:
    """`s ≤ t` as `s ≥ t`, and as `t ≤ s`."""
    for node in spec.nodes:
        if not isinstance(node, s.Relation):
            continue
        for a, b in zip(node.operands, node.operands[1:], strict=False):
            sign = next((w for w in spec.tokens
                         if w.type == "REL" and a.span.end <= w.start and w.end <= b.span.start), None)
            new = FLIPPED.get(spec.source.text[sign.start : sign.end]) if sign is not None else None
            if sign is not None and new is not None:
                whole = ((node.span.start, node.span.end),)
                yield spec.made("flip relation", node.span.text, (sign.start, sign.end, new), about=whole)
                if len(node.operands) == 2:
                    yield spec.made("flip relation", f"{b.span.text} {sign.value} {a.span.text}", (
                        node.span.start, node.span.end,
                        f"{b.span.text} {spec.source.text[sign.start : sign.end]} {a.span.text}"))


def misspell(spec: Spec) -> Iterator[Mutant]:
    """A word with one letter changed, and a longer one with one letter left out."""
    heads = [span for x in spec.statements for span in _declares(spec, x)]
    for n, word in enumerate(spec.tokens):
        text = spec.source.text[word.start : word.end]
        lead = len(text) - len(text.lstrip("\\_^"))
        letters = text[lead:]
        if not letters.isalpha() or word.type in ("NAME", "STRING") or "{" in text:
            continue
        at = n % len(letters)
        pool = LATIN if letters[at].isascii() else GREEK
        new = next(c for c in (*pool[n % len(pool):], *pool) if c.lower() != letters[at].lower())
        new = new.upper() if letters[at].isupper() else new
        here = word.start + lead + at
        names = {word.value, letters} if any(a <= word.start and word.end <= b for a, b in heads) else set()
        yield spec.made("misspell", f"{letters} → {letters[:at]}{new}{letters[at + 1:]}", (here, here + 1, new),
                        names=names,
                        about=((word.start, word.end),))
        if len(letters) > 2:
            yield spec.made("misspell", f"{letters} → {letters[:at]}{letters[at + 1:]}", (here, here + 1, ""),
                            names=names,
                            about=((word.start, word.end),))


def _declares(spec: Spec, statement: s.Statement) -> Iterator[tuple[int, int]]:
    """The spans of the names that a statement declares: without indices, which are declared elsewhere."""
    clauses = [c.body for c in statement.clauses]
    if statement.keyword == "index":
        clauses += [c.body for c in statement.tail]
    for body in clauses:
        node = body.operands[0] if isinstance(body, s.Relation) and statement.keyword != "index" else body
        if (statement.keyword in ("index", "dim")
            or (statement.keyword in ("map", "def") and isinstance(node, s.Product))):
            yield (node.span.start, node.span.end)
        elif statement.keyword not in ("mask", "use", "for") and (statement.keyword or isinstance(body, s.Relation)):
            taken = {p.item.span for p in spec.places
                     if node.span.start <= p.item.span.start and p.item.span.end <= node.span.end}
            inside = [w for w in spec.tokens if node.span.start <= w.start and w.end <= node.span.end]
            yield from ((w.start, w.end) for w in inside
                        if not any(x.start <= w.start and w.end <= x.end for x in taken))


def drop_index(spec: Spec) -> Iterator[Mutant]:
    """One index of a script too few."""
    for place in spec.places:
        mine, node = place.item.span, (place.node.span.start, place.node.span.end)
        if len(place.items) == 1:
            start, end = place.script.span.start, place.script.span.end
        elif place.at:
            start, end = place.items[place.at - 1].span.end, mine.end
        else:
            start, end = mine.start, place.items[1].span.start
        text = spec.source.text
        if text[start:end].count("(") == text[start:end].count(")"):
            yield spec.made("drop index", place.item.name, (start, end, ""), about=(node,))


def double_index(spec: Spec) -> Iterator[Mutant]:
    """One index of a script twice."""
    for place in spec.places:
        mine = place.item.span
        twice = f"{mine.text} {mine.text}"
        braced = isinstance(place.script.content, s.Group)
        yield spec.made("double index", place.item.name, (mine.start, mine.end, twice if braced else f"{{{twice}}}"),
                        about=((place.node.span.start, place.node.span.end),))


def swap_operands(spec: Spec) -> Iterator[Mutant]:
    """An index of one factor with one of the next."""
    by_node: dict[tuple[int, int], list[Place]] = {}
    for place in spec.places:
        by_node.setdefault((place.node.span.start, place.node.span.end), []).append(place)
    for node in spec.nodes:
        for a, b in zip(node.factors, node.factors[1:], strict=False) if isinstance(node, s.Product) else ():
            first, second = (by_node.get((x.span.start, x.span.end), []) for x in (a, b))
            pairs = [(p.item, q.item) for p in first for q in second if p.item.name != q.item.name]
            for one, other in (pairs[0], pairs[-1]) if len(pairs) > 1 else pairs:
                yield spec.made("swap operands", f"{one.name} ↔ {other.name}",
                                (one.span.start, one.span.end, other.span.text),
                                (other.span.start, other.span.end, one.span.text))


def drop_declaration(spec: Spec) -> Iterator[Mutant]:
    """A line, or one of the names that it declares."""
    text = spec.source.text
    for statement in spec.statements:
        if statement.keyword in ("mask", "for", "override"):
            continue
        if statement.keyword == "use":
            gone = r.read_tree(s.SyntaxTree(spec.source, (statement,)))
            names = {t.stem for t in gone.tensors} | set(gone.indices)
            yield spec.made("drop declaration", statement.span.text, spec.line_of(statement), names=names)
            continue
        spans = list(_declares(spec, statement))
        names = {w.value for w in spec.tokens if any(a <= w.start and w.end <= b for a, b in spans)}
        yield spec.made("drop declaration", statement.span.text, spec.line_of(statement), names=names)
        if len(statement.clauses) > 1 and statement.keyword in ("index", "dim", "input", "weight", "output"):
            for n, clause in enumerate(statement.clauses):
                start = statement.clauses[n - 1].span.end if n else clause.span.start
                end = clause.span.end if n else statement.clauses[1].span.start
                mine = {w.value for w in spec.tokens if clause.span.start <= w.start and w.end <= clause.span.end
                        and any(a <= w.start and w.end <= b for a, b in spans)}
                if text[start:end].count("$$") == 0:
                    yield spec.made("drop declaration", clause.span.text, (start, end, ""), names=mine)


MUTATORS = (swap_index, drop_binder, drop_domain, flip_level, merge_script, delete_brace, flip_relation, misspell,
            drop_index,
            double_index, swap_operands, drop_declaration)


def mutants(source: Source, each: int | None = None) -> Iterator[Mutant]:
    """The mutants of a text; `each`: at most so many of every mutator, spread over the text."""
    spec = Spec(source)
    for mutator in MUTATORS:
        found = list({m.text: m for m in mutator(spec) if m.text != source.text}.values())
        if each is not None and len(found) > each:
            phase = crc32(f"{source.name} {mutator.__name__}".encode()) % len(found)
            found = [found[(phase + n * len(found) // each) % len(found)] for n in range(each)]
        yield from found
