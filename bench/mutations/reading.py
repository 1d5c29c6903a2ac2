"""A spec as its referee reads it: sets, names and their slots, by the page of the
language. Shares nothing with the checker."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from einc.driver import pipeline
from einc.errors.report import Report, Source, Span
from einc.syntax import tree as s

CLASSES = frozenset({"time", "request", "batch", "feature", "latent", "head", "expert", "vocab"})
EXPLICIT = frozenset({"time", "request", "batch"})  # never summed implicitly
FOLDS = frozenset({"sum", "prod", "max", "min"})
PRIMITIVES = frozenset({"hash", "chance", "exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "abs", "floor", "ceil",
                        "mod", "max",
                        "min", "uniform", "e4m3", "e5m2", "e2m1", "int8", "int4"})
ACCENTS = frozenset({"hat", "tilde", "bar"})


@dataclass(frozen=True)
class Set:
    """A class and an extent: indices that have both in common run over one set."""

    cls: str
    extent: str


@dataclass(frozen=True)
class Item:
    """What stands in a script: a label, an index (`of` is its set), a pack in parentheses, or anything else."""

    kind: str
    name: str
    level: str
    span: Span
    of: Set | None = None
    parts: tuple[Item, ...] = ()
    node: s.Expression | None = None


@dataclass(frozen=True)
class Tensor:
    """A stem with its labels and slots. `carried`: a `for` around it may add indices; `given`: by the caller."""

    stem: str
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    slots: tuple[tuple[str, Set | None], ...]
    carried: bool = False
    given: bool = False
    total: bool = False


@dataclass(frozen=True)
class Definition:
    """`def f_{s}(x_s) = …`: whether it has a line of its own, whether that is left in its
    value, and what its body sees."""

    line: bool
    keeps: bool


@dataclass(frozen=True)
class Equation:
    """A left side with its items, the right side, what restricts it, and the indices that blocks around it fix."""

    tensor: Tensor
    items: tuple[Item, ...]
    body: s.Expression
    restrictions: tuple[s.Expression, ...]
    withs: tuple[s.Relation, ...]
    around: tuple[str, ...]
    statement: s.Statement
    span: Span


@dataclass
class Reading:
    """All that a text and the specs it uses declare."""

    indices: dict[str, Set] = field(default_factory=dict)
    splits: dict[Set, tuple[Set | None, ...]] = field(default_factory=dict)
    sums: dict[Set, tuple[str, ...]] = field(default_factory=dict)
    sizes: set[str] = field(default_factory=set)
    maps: set[str] = field(default_factory=set)
    sets: dict[str, s.Statement] = field(default_factory=dict)
    blocks: set[str] = field(default_factory=set)
    functions: dict[str, Definition] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    masks: list[s.Statement] = field(default_factory=list)
    unsure: bool = False  # something is written in a way that this page does not try to read

    def of(self, name: str) -> Set | None:
        """The set of an index, a primed one over that of its stem."""
        return self.indices.get(name) or self.indices.get(name.rstrip("'"))

    def labels(self, stem: str) -> frozenset[str]:
        return frozenset(x for t in self.tensors if t.stem == stem for side in t.labels for x in side)


def base(node: s.Expression) -> str | None:
    """The name of a node without its scripts: letters, accents and primes."""
    match node:
        case s.Word(text):
            return text
        case s.Scripted(s.Word(text), accents, scripts):
            marks = [x.text for x in scripts if x.kind == "label_lower" and x.text in ACCENTS][:1]
            return text + "".join(f"_{a}" for a in (*accents,
                                                    *marks)) + "".join(x.text for x in scripts if x.kind == "prime")
    return None


def index_of(node: s.Expression) -> str | None:
    """The name of an index: a word and its primes."""
    plain = isinstance(node, s.Word) or (isinstance(node, s.Scripted) and not node.accents
                                         and all(x.kind == "prime" for x in node.scripts))
    return base(node) if plain else None


def size_of(node: s.Expression) -> str | None:
    """`T`, `d_k`, `d_{\\text{model}}`: the name of an extent, read whole."""
    match node:
        case s.Word(text):
            return text
        case s.Scripted(s.Word(text), (), scripts):
            parts = [text]
            for script in scripts:
                match script:
                    case s.Script("label_lower", _, label):
                        parts.append(label)
                    case s.Script("lower", s.Word(inner) | s.Number(inner)):
                        parts.append(inner)
                    case s.Script("lower", s.Group("{", "}", (s.Word(inner) | s.Number(inner),))):
                        parts.append(inner)
                    case _:
                        return None
            return "_".join(parts)
    return None


def inner_scripts(node: s.Expression) -> tuple[s.Script, ...]:
    """The scripts of a name that hold something."""
    return tuple(x for x in node.scripts if x.kind in ("lower", "upper")) if isinstance(node, s.Scripted) else ()


def bare_labels(node: s.Expression) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Labels that are written as `_model`, lower and upper; the first accent among them is no label."""
    lower: list[str] = []
    upper: list[str] = []
    accented = False
    for script in node.scripts if isinstance(node, s.Scripted) else ():
        if script.kind == "label_lower" and script.text in ACCENTS and not accented:
            accented = True
        elif script.kind == "label_lower":
            lower.append(script.text)
        elif script.kind == "label_upper":
            upper.append(script.text)
    return tuple(lower), tuple(upper)


def entries(content: s.Expression | None, maps: Container[str] = ()) -> tuple[s.Expression, ...]:
    """The things that stand side by side in a script; a map stands with what it is applied to."""
    items = (content.items if isinstance(content, s.Group) and content.open == "{" else () if content is None
             else (content,))
    out: list[s.Expression] = []
    for item in items:
        several = isinstance(item, s.Product) and not any(item.operators)
        if isinstance(item, s.Product) and several and not (isinstance(item.factors[0], s.Number) and len(items) > 1):
            at = 0
            while at < len(item.factors):
                one, after = item.factors[at], item.factors[at + 1] if at + 1 < len(item.factors) else None
                if isinstance(after, s.Group) and after.open == "(" and index_of(one) in maps:
                    out.append(s.Product((one, after), ("", ""), one.span.to(after.span)))
                    at += 2
                else:
                    out.append(one)
                    at += 1
        else:
            out.append(item)
    return tuple(out)


def ways(word: str, primes: str, names: Iterable[str]) -> list[tuple[str, ...]]:
    """Every way to write a word as names side by side; its primes belong to the last."""
    if not word:
        return [()]
    known = set(names)

    @cache
    def of(at: int) -> list[tuple[str, ...]]:
        if at == len(word):
            return [()]
        return [(word[at:end], *rest) for end in range(at + 1, len(word) + 1) if word[at:end] in known
                for rest in of(end)]

    return [(*found[:-1], found[-1] + primes) for found in of(0)]


def script_items(read: Reading, scripts: tuple[s.Script, ...], labels: frozenset[str] | None) -> list[tuple[Item, ...]]:
    """Every reading of some scripts; without known labels a word that is no index is one."""
    out: list[tuple[Item, ...]] = [()]
    for script in scripts:
        for node in entries(script.content, read.maps | PRIMITIVES):
            options = _entry(read, node, script.kind, labels)
            out = [(*before, *option) for before in out for option in options][:64]
    return out


def _entry(read: Reading, node: s.Expression, level: str, labels: frozenset[str] | None) -> list[tuple[Item, ...]]:
    match node:
        case s.Word(text, span, True):
            return [(Item("label", text, level, span),)]
        case s.Number(text, span):
            label, other = (Item("label", text, level, span),), (Item("other", text, level, span, node=node),)
            return [label] if labels is None else [label, other] if text in labels else [other]
        case s.Word() | s.Scripted() if index_of(node) is not None:
            return _word(read, node, level, labels)
        case s.Group("(", ")", items, span):
            return _parenthesis(read, items, level, span)
        case s.Scripted(s.Word(text, span), (), scripts) if text in (labels or ()):
            inner_ways = script_items(read, tuple(x for x in scripts if x.content is not None), labels)
            return [(Item("label", text, level, span), *(replace(i, level=level) for i in way)) for way in inner_ways]
    return [(Item("other", node.span.text, level, node.span, node=node),)]


def _parenthesis(read: Reading, items: tuple[s.Expression, ...], level: str, span: Span) -> list[tuple[Item, ...]]:
    """`(h)` is one index, `(i a)` and `(ia)` the parts of a composite."""
    parts: list[Item] = []
    for node in (x for item in items for x in entries(item)):
        words = _word(read, node, level, frozenset()) if index_of(node) is not None else []
        parts += words[0] if words else (Item("other", node.span.text, level, node.span, node=node),)
    if len(parts) == 1:
        return [(replace(parts[0], level="label"),)]
    return [(Item("pack", span.text, level, span, parts=tuple(parts)),)]


def _word(read: Reading, node: s.Expression, level: str, labels: frozenset[str] | None) -> list[tuple[Item, ...]]:
    name = index_of(node) or ""
    stem = name.rstrip("'")
    primes = name[len(stem):]
    out: list[tuple[Item, ...]] = []
    for found in ways(stem, primes, {*read.indices, *(labels or ())}):
        items, at = [], node.span.start
        for part in found:
            plain, of = part.rstrip("'"), read.of(part)
            here = node.span if len(found) == 1 else Span(node.span.source, at, at + len(part))
            items.append(Item("label", plain, level, here) if plain in (labels or ()) and of is None else
                         Item("index", part, level, here, of))
            at += len(part)
        out.append(tuple(items))
        if len(found) == 1 and stem in (labels or ()) and read.of(name) is not None:
            out.append((Item("label", stem, level, node.span),))
    spelled = node.span.text
    if (not out and spelled != name and spelled.isascii() and spelled.isalpha()
        and (found_ := ways(spelled, "", read.indices))):
        # A run of letters that spells a Greek letter may also be several Latin ones.
        out += [tuple(Item("index", part, level, node.span, read.of(part)) for part in way) for way in found_]
    if not out and labels is None:
        out.append((Item("label", stem, level, node.span),))
        read.unsure |= len(stem) > 1 and any(ways(stem[at:], primes, read.indices) for at in range(1, len(stem)))
    if not out and stem in {t.stem for t in read.tensors if not t.slots}:
        out.append((Item("other", name, level, node.span, node=node),))
    return out


def fits(read: Reading, slot: Set | None, item: Item) -> bool:
    """Whether an item may stand in a slot."""
    if slot is None or item.kind == "other":
        return True
    inside = [read.indices[p] for p in read.sums.get(slot, ()) if p in read.indices]
    if item.kind == "index":
        return item.of == slot or item.of in inside
    parts = [read.splits[x] for x in (slot, *inside) if x in read.splits]
    return any(len(p) == len(item.parts)
               and all(a is None or b.of is None or a == b.of for a, b in zip(p, item.parts, strict=True))
               for p in parts)


def matches(read: Reading, tensor: Tensor, node: s.Expression, items: tuple[Item, ...]) -> bool:
    """Whether a use with these items is of this tensor: labels equal, slots filled level
    by level or in the order written."""
    lower, upper = bare_labels(node)
    labels = ((*lower, *(i.name for i in items if i.kind == "label" and i.level == "lower")),
              (*upper, *(i.name for i in items if i.kind == "label" and i.level != "lower")))
    slots = [i for i in items if i.kind != "label"]
    if (labels != tensor.labels
        or (len(slots) != len(tensor.slots) and not (tensor.carried and len(slots) >= len(tensor.slots)))):
        return False
    if tensor.carried:
        return True
    down, up = [i for i in slots if i.level == "lower"], [i for i in slots if i.level != "lower"]
    if len(down) == sum(level == "lower" for level, _ in tensor.slots):
        ordered = [down.pop(0) if level == "lower" else up.pop(0) for level, _ in tensor.slots]
        if all(fits(read, of, i) for (_, of), i in zip(tensor.slots, ordered, strict=True)):
            return True
    return all(fits(read, of, i) for (_, of), i in zip(tensor.slots, slots, strict=True))


def uses(read: Reading, node: s.Expression) -> list[tuple[Tensor, tuple[Item, ...]]]:
    """The tensors that a name with its scripts may be, each with its items; a last upper number may be a power."""
    stem, scripts = base(node), inner_scripts(node)
    out: list[tuple[Tensor, tuple[Item, ...]]] = []
    known = read.labels(stem or "")
    for shorter in (scripts, scripts[:-1] if scripts and scripts[-1].kind == "upper" else scripts):
        for items in script_items(read, shorter, known):
            out += [(t, items) for t in read.tensors if t.stem == stem and matches(read, t, node, items)]
        if out:
            break
    return out


def lineless(read: Reading, node: s.Expression) -> list[tuple[Tensor, tuple[Item, ...]]]:
    """The tensors that a name may be which leaves out its last upper index, the line of a function."""
    out = []
    for tensor in read.tensors:
        at = next((n for n in reversed(range(len(tensor.slots))) if tensor.slots[n][0] == "upper"), None)
        if tensor.stem == base(node) and at is not None:
            shorter = replace(tensor, slots=(*tensor.slots[:at], *tensor.slots[at + 1:]))
            out += [(tensor, items) for items in script_items(read, inner_scripts(node), read.labels(tensor.stem))
                    if matches(read, shorter, node, items)]
    return out


# declarations


def read_tree(tree: s.SyntaxTree) -> Reading:
    """What a text and the specs it uses say; equations are those of both, those of the text last."""
    read = Reading()
    statements = [*prelude(), *used(tree, set())]
    flat = list(_flat(statements, ()))
    for statement, _ in flat:
        if statement.keyword == "index":
            _index(read, statement)
    for statement, _ in flat:
        _names(read, statement)
    for statement, around in flat:
        _tensors(read, statement, around)
    return read


@cache
def prelude() -> tuple[s.Statement, ...]:
    text = (Path(__file__).parent.parent.parent / "grammar" / "prelude.ein").read_text(encoding="utf-8")
    return pipeline.syntax(Source("prelude.ein", text), Report()).statements


def used(tree: s.SyntaxTree, seen: set[str]) -> Iterator[s.Statement]:
    """The statements of the specs that a text uses, and its own."""
    for statement in tree.statements:
        if statement.keyword != "use":
            yield statement
            continue
        found = pipeline.find(tree.source, statement.clauses[0].span.text.strip('"'), Report())
        if found is not None and found.name not in seen:
            seen.add(found.name)
            yield from used(_shipped(found), seen)


@cache
def _shipped(source: Source) -> s.SyntaxTree:
    return pipeline.syntax(source, Report())


def _flat(statements: Iterable[s.Statement], around: tuple[str, ...]) -> Iterator[tuple[s.Statement, tuple[str, ...]]]:
    """Every statement with the indices that blocks around it fix."""
    for statement in statements:
        yield statement, around
        if statement.block:
            yield from _flat(statement.block, (*around, *_fixed(statement)))


def _fixed(statement: s.Statement) -> tuple[str, ...]:
    """The indices of `for t, h:`, `for s in 1..T:`, `for ℓ in 1..N:`, and of `for B ⊆ {s ≤ t}:`."""
    out: list[str] = []
    for clause in statement.clauses:
        for node in _words(clause.body):
            name = index_of(node)
            out += [name] if name is not None else []
    return tuple(dict.fromkeys(out))


def _words(node: s.Expression) -> Iterator[s.Expression]:
    """Every name in an expression, with its scripts."""
    if isinstance(node, s.Word) or (isinstance(node, s.Scripted) and isinstance(node.base, s.Word)):
        yield node
        return
    for kid in kids(node):
        yield from _words(kid)


def kids(node: s.Expression) -> tuple[s.Expression, ...]:
    """What stands directly in a node, scripts left out."""
    match node:
        case s.Scripted(inner):
            return (inner,)
        case s.Product(parts) | s.Sum(parts) | s.DirectSum(parts) | s.Relation(parts) | s.Logic(_, parts):
            return parts
        case s.Group(_, _, parts):
            return parts
        case s.Fraction(a, b) | s.Range(a, b):
            return (a, b)
        case s.Root(inner):
            return (inner,)
    return ()


def _extent(read: Reading, node: s.Expression) -> str:
    for word in _words(node):
        name = size_of(word)
        if name is not None:
            read.sizes.add(name)
    return "".join(node.span.text.split())


def _index(read: Reading, statement: s.Statement) -> None:
    for n, clause in enumerate(statement.clauses):
        name = index_of(clause.body)
        if name is None or not statement.tail:
            read.unsure = True
            continue
        body, structure = statement.tail[n if len(statement.tail) > 1 else 0].body, None
        if isinstance(body, s.Relation):
            body, structure = body.operands[0], body.operands[1]
        match body:
            case s.Product((s.Word(cls), s.Group("(", ")", (extent,))), _):
                ragged = [x for x in inner_scripts(extent)
                          if isinstance(x.content, s.Word) and x.content.text in read.indices
                          and read.indices[x.content.text].cls == "request"]
                made = Set(cls, _extent(read, extent))
                if ragged:
                    read.tensors.append(Tensor(base(extent) or "", ((), ()), (("lower", None),), given=True))
            case _:
                made = Set(body.span.text, "" if structure is None else "".join(structure.span.text.split()))
        read.indices[name] = made
        match structure:
            case s.Group("(", ")", items):
                parts = [x for item in items for x in entries(item)]
                read.splits[made] = tuple(read.of(index_of(x) or "") for x in parts)
            case s.DirectSum(parts):
                read.sums[made] = tuple(index_of(x) or "" for x in parts)


def _names(read: Reading, statement: s.Statement) -> None:
    first = statement.clauses[0].body if statement.clauses else None
    left = first.operands[0] if isinstance(first, s.Relation) else first
    match statement.keyword:
        case "dim":
            for clause in statement.clauses:
                node = clause.body.operands[0] if isinstance(clause.body, s.Relation) else clause.body
                read.sizes.add(size_of(node) or "")
        case "map" if isinstance(left, s.Product):
            read.maps.add(base(left.factors[0]) or "")
        case "def" if isinstance(left, s.Product):
            read.functions[_called(left.factors[0])] = _definition(statement, left)
        case "set" if left is not None:
            read.sets[base(left) or ""] = statement
        case "for" if isinstance(first, s.Relation) and first.operators[0] == "subset":
            read.blocks.add(base(left) or "" if left is not None else "")
        case "for" if isinstance(first, s.Relation) and first.operators[0] == "in":
            name = index_of(first.operands[0])
            if name is not None and name not in read.indices:
                read.indices[name] = Set("layer", "")


def _called(node: s.Expression) -> str:
    """The name of a function, its label read whole: `gelu_tanh`."""
    lower, _ = bare_labels(node)
    return "_".join((base(node) or "", *lower))


def _definition(statement: s.Statement, left: s.Product) -> Definition:
    """Whether the line of a definition is left in its value: whether its letter stands free in the body."""
    letters: set[str] = set()
    group = left.factors[1]
    for param in group.items if isinstance(group, s.Group) else ():
        for script in inner_scripts(param):
            letters |= {index_of(x) or "" for x in entries(script.content)}
    body = statement.clauses[0].body
    assert isinstance(body, s.Relation)
    return Definition(bool(letters), bool(letters & free_letters(body.operands[1])))


def free_letters(node: s.Expression) -> set[str]:
    """Letters in scripts that no big operator in front of them holds."""
    if isinstance(node, s.Product):
        out: set[str] = set()
        held: set[str] = set()
        for factor in node.factors:
            if base(factor) in FOLDS and inner_scripts(factor):
                held |= {index_of(x) or "" for script in inner_scripts(factor) for x in entries(script.content)}
            else:
                out |= free_letters(factor) - held
        return out
    if isinstance(node, s.Scripted) and isinstance(node.base, s.Word):
        return {index_of(x) or "" for script in inner_scripts(node) for x in entries(script.content)}
    return set().union(*(free_letters(k) for k in kids(node))) if kids(node) else set()


def left_items(read: Reading, node: s.Expression) -> tuple[Item, ...]:
    """The items of a name that is declared here, or is there already."""
    for items in script_items(read, inner_scripts(node), read.labels(base(node) or "")):
        named = (t for t in read.tensors if t.stem == base(node))
        if all(i.kind != "other" for i in items) and any(matches(read, t, node, items) for t in named):
            return items
    return script_items(read, inner_scripts(node), None)[0]


def declared(read: Reading, node: s.Expression, around: tuple[str, ...] = (),
             **said: bool) -> tuple[Tensor, tuple[Item, ...]]:
    """The tensor that a left side or a declaration makes."""
    items = left_items(read, node)
    lower, upper = bare_labels(node)
    labels = ((*lower, *(i.name for i in items if i.kind == "label" and i.level == "lower")),
              (*upper, *(i.name for i in items if i.kind == "label" and i.level != "lower")))
    slots = tuple((i.level, i.of if i.kind == "index" else _packed(read, i)) for i in items if i.kind != "label")
    return Tensor(base(node) or "", labels, slots, carried=bool(around), **said), items


def _packed(read: Reading, item: Item) -> Set | None:
    parts = tuple(p.of for p in item.parts)
    return next((of for of, split in read.splits.items() if split == parts), None)


def _tensors(read: Reading, statement: s.Statement, around: tuple[str, ...]) -> None:
    total = any(isinstance(t.body, s.Word) and t.body.text == "all" for t in statement.tail)
    match statement.keyword:
        case "input" | "weight":
            for clause in statement.clauses:
                if base(clause.body) is None:
                    read.unsure = True
                    continue
                read.tensors.append(declared(read, clause.body, around, given=True, total=total)[0])
        case "mask":
            read.masks.append(statement)
        case "" | "output":
            _equations(read, statement, around)


def _equations(read: Reading, statement: s.Statement, around: tuple[str, ...]) -> None:
    """The equations of a line, each with its restrictions and what `with` gives it."""
    found: list[tuple[s.Relation, list[s.Expression], list[s.Relation], Span]] = []
    for clause in statement.clauses:
        body = clause.body
        if isinstance(body, s.Relation) and clause.after == "with" and found:
            found[-1][2].append(body)
        elif isinstance(body, s.Relation) and body.operators[0] in ("=", ":=", "<-") and (
                not found or body.operators[0] != "=" or read.of(index_of(body.operands[0]) or "·") is None):
            found.append((body, [], [], clause.span))
        elif found:
            found[-1][1].append(body)
    for relation, restrictions, withs, span in found:
        if base(relation.operands[0]) is None or len(relation.operands) != 2:
            read.unsure = True
            continue
        tensor, items = declared(read, relation.operands[0], around)
        if tensor not in read.tensors:
            read.tensors.append(tensor)
        read.equations.append(Equation(tensor, items, relation.operands[1], tuple(restrictions), tuple(withs), around,
                                       statement,
                                       span))


def masked(read: Reading) -> Mapping[int, list[s.Statement]]:
    """The masks of each tensor, by its place in the list."""
    out: dict[int, list[s.Statement]] = {}
    for statement in read.masks:
        for tensor, _ in uses(read, statement.clauses[0].body):
            out.setdefault(read.tensors.index(tensor), []).append(statement)
    return out
