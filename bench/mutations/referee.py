"""What is surely wrong with a text, by the rules of the language's page: a second
reading, made from the syntax tree alone.

It says only what it is sure of: where it does not try to read something it is silent, so a text without a word from it
may still be wrong. Each finding names its rule; `EXPECTED` are the codes that tell a user so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from bench.mutations import reading as r
from bench.mutations.future import leaks
from einc.driver import pipeline
from einc.errors.report import Report, Source, Span
from einc.syntax import tree as s

EXPECTED = {
    "§1 brackets have partners": {"E0101", "E0102", "E0103", "E0108"},
    "§1 a statement has a form": {"E0101", "E0102", "E0103", "E0104", "E0105", "E0106", "E0108", "E0109", "E0112",
                                  "E0201", "E0210",
                                  "E0212"},
    "§1 several letters after a bare script are a label": {"E0108", "E0201", "E0205", "E0207", "E0301", "E0302",
                                                           "E0203", "E0204"},
    "§2 a class is one of eight": {"E0210"},
    "§2 an index is declared": {"E0204", "E0215", "E0201", "E0207", "E0203", "E0210", "E0401", "E0205"},
    "§2 a temporal index is summed explicitly": {"E0306", "E0301", "E0308", "E0506", "E0305", "E0304", "E0205",
                                                 "E0401", "E0302"},
    "§2 an index stands once, or once up and once down": {"E0301", "E0304", "E0305", "E0308", "E0204", "E0205"},
    "§2 a pair that is on the left has two readings": {"E0305"},
    "§2 an index on the left stands on the right": {"E0302"},
    "§2 a binder's index is its own": {"E0308", "E0309", "E0506"},
    "§3 a name is declared": {"E0201", "E0204", "E0207", "E0210", "E0215", "E0205", "E0212", "E0404", "E0213", "E0103",
                              "E0301",
                              "E0217"},
    "§3 a use fits a declaration": {"E0205", "E0401", "E0207", "E0204", "E0203", "E0216", "E0213"},
    "§3 two equations for one signature": {"E0209", "E0405"},
    "§3 an index once on the left": {"E0210", "E0305"},
    "§5 a line over time has a domain": {"E0503", "E0507", "E0508"},
    "§5 a domain speaks of what is in scope": {"E0506", "E0215", "E0301", "E0306"},
    "§5 an output reads no future": {"E0501", "E0701"},
    "§6 an override replaces something": {"E0213"},
}


@dataclass(frozen=True)
class Finding:
    """A rule that a text breaks, and where."""

    rule: str
    span: Span


Free = dict[str, list[str]]


@dataclass
class _Line:
    """One equation while it is read: its left indices, what is bound around, and what was found."""

    read: r.Reading
    left: frozenset[str]
    local: frozenset[str]
    found: list[Finding]
    given: bool = False  # something restricts it that a function of a line may take as its domain
    unsure: bool = False
    argument: bool = False  # an argument of a function of a line, which may leave the line out

    def say(self, rule: str, span: Span) -> None:
        self.found.append(Finding(next(x for x in EXPECTED if x.startswith(rule)), span))

    # expressions -> the occurrences of each index that is free in them

    def closed(self, node: s.Expression, held: frozenset[str]) -> Free:
        """A product term of its own: pairs are contracted."""
        return self.close(self.free(node, held), held, node.span)

    def close(self, free: Free, held: frozenset[str], span: Span) -> Free:
        out: Free = {}
        for name, levels in free.items():
            of = self.read.of(name)
            if name in held or of is None:
                continue
            plain = [x for x in levels if x in ("lower", "upper")]
            if name in self.left:
                if of.cls not in r.EXPLICIT and {"lower", "upper"} <= set(levels):
                    self.say("§2 a pair", span)
                out[name] = levels[:1]
            elif of.cls in r.EXPLICIT or of.cls == "layer" or len(levels) == 1:
                out[name] = levels[:1]
            elif len(plain) == len(levels) and len(levels) > 2:
                self.say("§2 an index stands once, or", span)
        return out

    def once(self, node: s.Expression, held: frozenset[str]) -> Free:
        return {name: ["inside"] for name in self.closed(node, held)}

    def free(self, node: s.Expression, held: frozenset[str]) -> Free:
        match node:
            case s.Number() | s.Infinity():
                return {}
            case s.Word():
                return self.name(node, held)
            case s.Scripted(s.Word()):
                return self.name(node, held)
            case s.Scripted(inner, _, scripts):
                powers = [x.content for x in scripts if x.content is not None]
                return _merged([self.once(inner, held), *(self.once(x, held) for x in powers)])
            case s.Product(factors, _):
                return self.product(factors, held, node.span)
            case s.Sum(parts) | s.DirectSum(parts):
                return _united([self.once(x, held) for x in parts])
            case s.Relation(parts) | s.Logic(_, parts):
                return {name: ["label"] for name in _united([self.free(x, held) for x in parts])}
        return _merged([self.once(x, held) for x in r.kids(node)])

    def product(self, factors: tuple[s.Expression, ...], held: frozenset[str], span: Span) -> Free:
        out: list[Free] = []
        at = 0
        while at < len(factors):
            factor, after = factors[at], factors[at + 1] if at + 1 < len(factors) else None
            group = after.base if isinstance(after, s.Scripted) else after
            name, called = r.base(factor), r._called(factor)
            scripts = r.inner_scripts(factor)
            if name in r.FOLDS and scripts and after is not None:
                bound, around = self.bound(factor, held)
                out.append(around)
                inner = self.close(self.product(factors[at + 1:], held | bound, span), held | bound, span)
                return _merged([*out, {n: levels for n, levels in inner.items() if n not in bound}])
            if isinstance(
                group, s.Group) and group.open == "(" and (called in self.read.functions or called in r.PRIMITIVES
                                                                     or name in self.read.maps or called == "topk"):
                out.append(self.call(factor, called, group, held))
                at += 2
            elif isinstance(group, s.Group) and any(isinstance(x, s.Relation) and x.operators == ("=",)
                                                    for x in group.items
                                                    ) and group.open == "(" and name is not None:
                self.unsure = True
                called = called if not isinstance(factor, s.Word) else factor.text
                if pipeline.find(factor.span.source, called, Report()) is None:
                    self.say("§3 a name is declared", factor.span)
                at += 2
            else:
                out.append(self.free(factor, held) if isinstance(factor, s.Word | s.Scripted)
                           else self.once(factor, held))
                at += 1
        return _merged(out)

    def call(self, factor: s.Expression, called: str, group: s.Group, held: frozenset[str]) -> Free:
        """A function of values: every index passes through, but the line where the definition has none left."""
        made = self.read.functions.get(called)
        scripts = r.inner_scripts(factor)
        self.argument = made is not None and made.line and not scripts
        args = [self.once(x, held) for x in group.items]
        self.argument = False
        free = _united(args)
        if made is None or not made.line:
            return free
        line: str | None = None
        if scripts:
            names, conditions = self.script(scripts[0])
            alone = names or [n for n in self.alone(conditions) if n not in held] or self.alone(conditions)
            line = alone[0] if alone else None
            self.conditions(conditions, held | {line or ""})
            args += [{n: ["label"] for n in _united([self.free(x, frozenset()) for x in conditions]) if n in self.left}]
            free = _united(args)
            if line is not None and not conditions and not self.given:
                self.domain(line, group)
        else:
            self.unsure = self.unsure or not made.keeps
        if not made.keeps and line is not None:
            free = {n: x for n, x in free.items() if n != line}
        elif line is not None:
            free[line] = ["inside"]
        return free

    def domain(self, line: str, group: s.Group) -> None:
        """A function of a line over time with no domain at all."""
        of = self.read.of(line)
        if of is None or of.cls != "time" or any(restricted(self.read, x, set()) for x in group.items):
            return
        self.say("§5 a line over time", group.span)

    def bound(self, factor: s.Expression, held: frozenset[str]) -> tuple[frozenset[str], Free]:
        """What a big operator binds; its conditions speak of that and of what is around."""
        scripts = r.inner_scripts(factor)
        names, conditions = self.script(scripts[0])
        around = held | self.left
        if not names:
            names = [n for n in self.alone(conditions) if n not in around][:1]
        if not names:
            self.unsure = True
        for name in names:
            if name in around:
                self.say("§2 a binder's index", factor.span)
        self.conditions(conditions, held | set(names))
        speaks = _united([self.free(x, frozenset()) for x in conditions])
        return frozenset(names), {name: ["label"] for name in speaks if name in self.left}

    def script(self, script: s.Script) -> tuple[list[str], list[s.Expression]]:
        """The plain indices under an operator, and its conditions."""
        content = script.content
        items = content.items if isinstance(content, s.Group) and content.open == "{" else (content,)
        names: list[str] = []
        conditions: list[s.Expression] = []
        for item in items:
            if isinstance(item, s.Relation | s.Logic):
                conditions.append(item)
                continue
            for node in r.entries(item):
                inner = node.items if isinstance(node, s.Group) and node.open == "(" else (node,)
                for one in (x for i in inner for x in r.entries(i)):
                    name = r.index_of(one)
                    ways = ([] if name is None
                            else r.ways(name.rstrip("'"), name[len(name.rstrip("'")):], self.read.indices))
                    if not ways:
                        self.say("§2 an index is declared", one.span)
                    names += ways[0] if ways else ()
        return names, conditions

    def alone(self, conditions: list[s.Expression]) -> list[str]:
        out: list[str] = []
        for node in conditions:
            element = isinstance(node, s.Relation) and node.operators[0] == "in"
            operands = getattr(node, "operands", ())[: 1 if element else None]
            out += [n for x in operands if (n := r.index_of(x)) is not None and self.read.of(n) is not None]
        return out

    def conditions(self, nodes: list[s.Expression], scope: frozenset[str] | set[str]) -> None:
        for node in nodes:
            for name in self.free(node, frozenset()):
                if name not in scope and name not in self.left and name not in self.local:
                    self.say("§5 a domain speaks", node.span)

    # names

    def name(self, node: s.Expression, held: frozenset[str]) -> Free:
        name, stem, scripts = r.index_of(node), r.base(node) or "", r.inner_scripts(node)
        if stem in self.local:
            return self.items(r.script_items(self.read, scripts, frozenset())[:1], held)
        if name is not None and self.read.of(name) is not None:
            return {name: ["label"]}
        if r.size_of(node) in self.read.sizes or stem in self.read.blocks or (
                isinstance(node, s.Word) and (node.quoted or node.text in ("all", "int"))):
            return {}
        if stem in self.read.sets:
            return self.items(r.script_items(self.read, scripts, frozenset())[:1], held)
        if stem in ("δ", "ε") and scripts and not any(t.stem == stem for t in self.read.tensors):
            found = [x for x in r.script_items(self.read, scripts, frozenset()) if all(i.kind == "index" for i in x)]
            if not found:
                self.say("§2 an index is declared", node.span)
            return self.items(found[:1], held)
        if stem == "e" and scripts and not any(t.stem == "e" for t in self.read.tensors):
            return _merged([self.once(x.content, held) for x in scripts if x.content is not None])
        if not any(t.stem == stem for t in self.read.tensors):
            self.say("§3 a name is declared", node.span)
            return {}
        found_uses = r.uses(self.read, node) or (r.lineless(self.read, node) if self.argument else [])
        if not found_uses:
            self.say("§3 a use fits", node.span)
            return {}
        self.unsure |= found_uses[0][0].carried
        return self.items([found_uses[0][1]], held)

    def items(self, found: list[tuple[r.Item, ...]], held: frozenset[str]) -> Free:
        out: list[Free] = []
        for item in (x for way in found for i in way for x in (i.parts or (i,))):
            if item.kind == "index":
                out.append({item.name: [item.level]})
            elif item.kind == "other" and item.node is not None:
                out.append({name: ["label"] for name in self.free(item.node, held)})
        return _merged(out)


def _merged(found: list[Free]) -> Free:
    out: Free = {}
    for one in found:
        for name, levels in one.items():
            out.setdefault(name, []).extend(levels)
    return out


def _united(found: list[Free]) -> Free:
    return {name: ["inside"] for one in found for name in one}


def restricted(read: r.Reading, node: s.Expression, seen: set[int]) -> bool:
    """Whether anything in it may have a domain: a mask, a gate, a restriction, a condition, or what it is read from."""
    match node:
        case s.Relation() | s.Logic():
            return True
        case s.Word() | s.Scripted(s.Word()):
            if r.base(node) in ("δ", "ε") or any(restricted(read, x, seen) for y in r.inner_scripts(node)
                                                 if y.content is not None
                                                 for x in r.entries(y.content) if isinstance(x, s.Relation | s.Logic)):
                return True
            hits = r.masked(read)
            for tensor, _ in r.uses(read, node):
                place = read.tensors.index(tensor)
                if place in hits or tensor.carried or tensor.total:
                    return True
                if place in seen:
                    continue
                seen.add(place)
                for equation in read.equations:
                    said = equation.tensor == tensor and (equation.restrictions or equation.withs)
                    if said or (equation.tensor == tensor and restricted(read, equation.body, seen)):
                        return True
            return False
        case s.Scripted(inner, _, scripts):
            return (restricted(read, inner, seen)
                    or any(restricted(read, x.content, seen) for x in scripts if x.content is not None))
    return any(restricted(read, x, seen) for x in r.kids(node))


# a whole text


@dataclass
class Verdict:
    """What the referee says of a text: the rules that it breaks."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def rules(self) -> list[str]:
        return list(dict.fromkeys(f.rule for f in self.findings))


def judged(source: Source) -> Verdict:
    """The rules that a text surely breaks."""
    if (broken := unbalanced(source)) is not None:
        return Verdict([Finding("§1 brackets have partners", broken)])
    report = Report()
    tree = pipeline.syntax(source, report)
    if report.errors:
        bare = report.errors[0].code == "E0108"
        rule = "§1 several letters after a bare script are a label" if bare else "§1 a statement has a form"
        return Verdict([Finding(rule, p.span or Span(source, 0, 0)) for p in report.errors])
    read = r.read_tree(tree)
    found: list[Finding] = []
    own = {id(x) for x in _all(tree.statements)}
    _declarations(read, tree, found)
    for equation in read.equations:
        if id(equation.statement) in own:
            _equation(read, equation, found)
    for statement in _all(tree.statements):
        _others(read, statement, found)
    if not found and not read.unsure:
        found += [Finding("§5 an output reads no future", span) for span in leaks(read, frozenset(own))]
    return Verdict(found)


def unbalanced(source: Source) -> Span | None:
    """Whether the text has more of one kind of bracket than of its partner; `(` and `[` may close each other."""
    counts = Counter(c for line in source.text.splitlines() for c in line.split("#")[0])
    curly = counts["{"] - counts["}"]
    round_ = counts["("] + counts["["] - counts[")"] - counts["]"]
    return Span(source, 0, 0) if curly or round_ or source.text.count("$$") % 2 else None


def _all(statements: tuple[s.Statement, ...]) -> list[s.Statement]:
    return [y for x in statements for y in (x, *_all(x.block))]


def _declarations(read: r.Reading, tree: s.SyntaxTree, found: list[Finding]) -> None:
    for statement in tree.statements:
        if (statement.keyword == "use"
            and pipeline.find(tree.source, statement.clauses[0].span.text.strip('"'), Report()) is None):
            found.append(Finding("§3 a name is declared", statement.span))
        if statement.keyword == "index":
            for clause in statement.tail:
                body = clause.body.operands[0] if isinstance(clause.body, s.Relation) else clause.body
                word = body.factors[0] if isinstance(body, s.Product) else body
                if word.span.text not in r.CLASSES:
                    found.append(Finding("§2 a class is one of eight", word.span))


def _equation(read: r.Reading, equation: r.Equation, found: list[Finding]) -> None:
    names = [x.name for i in equation.items for x in (i.parts or (i,)) if x.kind == "index"]
    if len(set(names)) < len(names):
        found.append(Finding("§3 an index once on the left", equation.span))
    direct = isinstance(equation.body, s.DirectSum)
    parts = [p for i in equation.items if direct and i.of in read.sums for p in read.sums[i.of]]
    local = frozenset(r.base(w.operands[0]) or "" for w in equation.withs) | frozenset(
        x for x in equation.around if read.of(x) is None)
    line = _Line(read, frozenset((*names, *parts, *equation.around)), local, found, bool(equation.restrictions))
    free = line.closed(equation.body, frozenset())
    line.conditions(list(equation.restrictions), set())
    if line.unsure or equation.withs:
        return
    for name in free:
        of = read.of(name)
        if name not in line.left and of is not None and of.cls != "layer":
            line.say("§2 a temporal index" if of.cls in r.EXPLICIT else "§2 an index stands once, or",
                     equation.body.span)
    there = set(line.free(equation.body, frozenset()))
    for restriction in equation.restrictions:
        there |= set(line.free(restriction, frozenset()))
    if there and not equation.around and not isinstance(equation.body, s.DirectSum):
        for name in names:
            if name not in there:
                line.say("§2 an index on the left", equation.span)


def _others(read: r.Reading, statement: s.Statement, found: list[Finding]) -> None:
    """Masks, bare outputs, overrides and sets: each speaks of something that is there."""
    match statement.keyword:
        case "mask":
            node = statement.clauses[0].body
            known = r.uses(read, node)
            if not known:
                found.append(Finding("§3 a use fits a declaration" if any(t.stem == r.base(node) for t in read.tensors)
                                     else
                                     "§3 a name is declared", node.span))
                return
            left = frozenset(x.name for i in known[0][1] for x in (i.parts or (i,)) if x.kind == "index")
            line = _Line(read, left, frozenset(read.blocks), found)
            if not known[0][0].carried:
                line.conditions([c.body for c in statement.tail if isinstance(c.body, s.Relation | s.Logic)], set())
        case "output":
            for clause in statement.clauses:
                if (not isinstance(clause.body, s.Relation) and r.base(clause.body) is not None
                    and not r.uses(read, clause.body)):
                    known_stem = any(t.stem == r.base(clause.body) for t in read.tensors)
                    found.append(Finding("§3 a use fits a declaration" if known_stem else "§3 a name is declared",
                                         clause.span))
        case "" if statement.override:
            mine = [e for e in read.equations if e.statement is statement]
            there = [e for e in read.equations
                     if mine and _same(e.tensor, mine[0].tensor) and e.statement is not statement]
            if mine and not there and not any(t.given and t.stem == mine[0].tensor.stem for t in read.tensors):
                found.append(Finding("§6 an override replaces something", statement.span))
        case "":
            mine = [e for e in read.equations if e.statement is statement and not _updates(e)]
            for one in mine:
                twin = next((e for e in read.equations
                             if e.tensor == one.tensor and e is not one and not e.statement.override
                             and not _updates(e) and not e.around and e.span.source == one.span.source), None)
                if twin is not None and not one.around:
                    found.append(Finding("§3 two equations for one signature", one.span))


def _same(a: r.Tensor, b: r.Tensor) -> bool:
    """Whether two tensors have one signature: levels do not make another."""
    return a.stem == b.stem and sorted(map(sorted, a.labels)) == sorted(map(sorted, b.labels)) and (
        sorted(str(x[1]) for x in a.slots) == sorted(str(x[1]) for x in b.slots))


def _updates(equation: r.Equation) -> bool:
    return any(isinstance(c.body, s.Relation) and c.body.operators[0] == "<-" and c.body.operands[1] is equation.body
               for c in equation.statement.clauses)


@cache
def clean(source: Source) -> bool:
    """Whether the referee has no word about a text."""
    return not judged(source).findings
