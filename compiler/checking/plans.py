"""`plan` blocks: a row for each kind of line, the records that a text's lines become, and the blocks that are chosen
for a file.

A new kind of line is a row of `ROWS`, with its record in `ir/requested.py`. Non-goals: whether what is asked for can
be had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from einc.checking.placements import read_mesh, read_shard
from einc.errors.problems import PlanLine, PlansDisagree
from einc.errors.report import Help, Label, Problem, Report, Span
from einc.ir.elements import DECLARED
from einc.ir.narrow import NARROW
from einc.ir.programs import Program
from einc.ir.requested import (
    SHARES,
    Asked,
    Cache,
    Keep,
    Mesh,
    PlanBlock,
    Products,
    Recompute,
    Record,
    Relative,
    Shard,
    Store,
    joined,
)
from einc.syntax import tree as s
from einc.syntax.plan_lines import plan_words, whole_number
from einc.syntax.spelling import nearest

KINDS = ("call", "serve")  # of files: a function of whole inputs; a step that adds positions to a cache
LARGEST_PAGE = 1 << 24  # positions
LARGEST_BLOCK = 1 << 24  # numbers with one scale
STORED = tuple(name for name, element in DECLARED.items() if element.narrow is not None)
KEPT = tuple(name for name in STORED if not DECLARED[name].shared)  # positions are added to a cache one by one

Of = Program | None  # what the plans are of; None where there is no program, since it has errors
Read = Callable[[s.PlanLine, list[s.PlanWord], Of, Report], Record]


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of line: the word that it begins with, and the grammar of what follows, in the notation of
    `grammar/ein.lark` over NAME, DIGITS, MARK and words in quotes. `read` makes a record of the words that the
    grammar does not quote, and reports what is wrong with them. `files` are the kinds of files that it is for; `done`
    completes "what is …", `usage` "write …".
    """

    word: str
    grammar: str
    record: type[Record]
    read: Read
    files: frozenset[str]
    done: str
    usage: str


def _cache(line: s.PlanLine, words: list[s.PlanWord], program: Of, report: Report) -> Cache:
    """The tensors that are kept, in which type, and the size of a page. Problems go to the report."""
    said = {before.text: word for before, word in zip(line.words, line.words[1:], strict=False)}
    word, per, paged = (said.get(x) for x in ("as", "per", "paged"))
    names = [x for x in words if x.kind == "NAME" and x is not word]
    _known(names, program, report)
    page = _number(paged, LARGEST_PAGE, "a page has from 1 to {} positions", "paged 16", report)
    if word is None:
        return Cache(tuple(name.text for name in names), page)
    _one_of(word, KEPT, "type that numbers are stored in", report)
    count = _number(per, LARGEST_BLOCK, "a block has from 1 to {} numbers", "per 64", report)
    return Cache(tuple(name.text for name in names), page, tuple((name.text, (word.text, count)) for name in names))


def _number(word: s.PlanWord | None, most: int, said: str, usage: str, report: Report) -> int:
    """The number of a word that a line may leave out, 0 without one; one that is not of the rule goes to the report."""
    return 0 if word is None else whole_number(word, most, said, usage, report)


def _store(line: s.PlanLine, words: list[s.PlanWord], program: Of, report: Report) -> Store:
    """The tensors that are stored in few bits, and the type. Problems go to the report."""
    *names, word = words
    _one_of(word, STORED, "type that numbers are stored in", report)
    _known(names, program, report)
    return Store(tuple((name.text, word.text) for name in names))


def _products(line: s.PlanLine, words: list[s.PlanWord], program: Of, report: Report) -> Products:
    """The tensors whose products are rounded, and how. Problems go to the report."""
    sized = words[-1] if words[-1].kind == "DIGITS" else None
    *names, word, share = words if sized is None else words[:-1]
    _one_of(word, NARROW, "type of few bits", report)
    _one_of(share, SHARES, "word for what has one scale", report)
    _known(names, program, report)
    count = _number(sized, LARGEST_BLOCK, "a block has from 1 to {} numbers", "per block 128", report)
    if SHARES.get(share.text, sized is not None) != (sized is not None):
        what = "a block has a size" if sized is None else f"a {share.text} has the size that it has"
        report.add(PlanLine(what, line.span, helps=(Help("say `per block 128`, or `per row`"),)))
    return Products(tuple((name.text, (word.text, share.text, count)) for name in names))


def _relative(line: s.PlanLine, words: list[s.PlanWord], program: Of, report: Report) -> Relative:
    """The tensors that are rounded about their running maximum. Problems go to the report."""
    _known(words, program, report)
    return Relative(tuple(word.text for word in words))


def _keep(line: s.PlanLine, words: list[s.PlanWord], program: Of, report: Report) -> Keep:
    """The tensors that are kept gathered: which there are is known on a mesh alone, as some are arguments of functions.
    """
    return Keep(tuple(word.text for word in words))


def _recompute(line: s.PlanLine, words: list[s.PlanWord], program: Of, report: Report) -> Recompute:
    """The letter of rounds that are made again, and how many together. Problems go to the report."""
    letter, *counts = words
    rounds = [] if program is None else [loop.index.name for loop in program.every_repeat]
    if program is not None and letter.text not in rounds:
        listed = f"those there are: {', '.join(f'`{name}`' for name in rounds)}" if rounds else "leave the line out"
        report.add(PlanLine(f"`{letter.text}` counts no rounds of this spec, and rounds are what is made again",
                            letter.span, helps=(Help(listed),)))
    every = _number(counts[0] if counts else None, LARGEST_BLOCK, "from 1 to {} rounds are made again together",
                    "every 4", report)
    return Recompute(((letter.text, every or 1),))


def _one_of(word: s.PlanWord, rows: Iterable[str], what: str, report: Report) -> None:
    """Reports a word that is none of these."""
    if word.text not in (known := list(rows)):
        near = nearest(word.text, known)
        listed = ", ".join(f"`{name}`" for name in known)
        report.add(PlanLine(f"`{word.text}` is no {what}", word.span, helps=(
            Help(f"those there are: {listed}") if near is None else Help(f"write `{near}`", word.span, near),)))


def _known(names: Iterable[s.PlanWord], program: Of, report: Report) -> None:
    """Reports each name that no tensor has."""
    for name in names:
        if program is not None and name.text not in program.tensors:
            report.add(PlanLine(f"`{name.text}` is no tensor of this spec", name.span, helps=(
                Help("`einc show` prints those there are, each with its name"),)))


ROWS = {row.word: row for row in (
    Row("cache", 'NAME ("," NAME)* ("as" NAME ("per" DIGITS)?)? ("paged" DIGITS)?', Cache, _cache, frozenset({"serve"}),
        "kept", "name tensors, and if you wish the type to which they are rounded and the size of a page: `cache K, V "
        "paged 16`, `cache K as e4m3 per 64`"),
    Row("keep", 'NAME ("," NAME)* "gathered"', Keep, _keep, frozenset({"call"}), "kept gathered for the gradient",
        "name tensors that a mesh gathers: `keep X_H gathered`"),
    Row("mesh", 'NAME ("=" DIGITS)? ("," NAME ("=" DIGITS)?)*', Mesh, read_mesh, frozenset(KINDS),
        "laid out as a mesh",
        "name its axes, with their ranks where those are no matter of the call: `mesh dp = 2, tp = 4`"),
    Row("shard", 'NAME ("," "else"? NAME)* "over" NAME "balanced"? ("," "pass" NAME "by" NAME NAME?)* '
        '("," NAME "in" DIGITS "parts" "by" DIGITS? NAME)?', Shard, read_shard, frozenset(KINDS), "cut over a mesh",
        "name letters in the order in which they are tried, and the axis; where two letters of one set meet, what is "
        "done: `shard t over cp, pass s by gather`; where rounds are stages, what goes through them: `shard ℓ over pp, "
        "n in 8 parts by 1F1B`"),
    Row("recompute", 'NAME ("every" DIGITS)?', Recompute, _recompute, frozenset({"call"}), "made again",
        "name the letter of a `for`, and if you wish how many rounds are made again together: `recompute ℓ every 4`"),
    Row("store", 'NAME ("," NAME)* "as" NAME', Store, _store, frozenset(KINDS), "stored in few bits",
        "name tensors and the type in which they are stored: `store K, V as int8`"),
    Row("products", '"of" NAME ("," NAME)* "by" NAME "per" NAME DIGITS?', Products, _products, frozenset(KINDS),
        "multiplied in few bits",
        "name tensors, the type to which both factors of their products are rounded, and what has one scale: `products "
        "of K by e4m3 per row`, `per tensor`, `per block 128`"),
    Row("round", 'NAME ("," NAME)* "about" "its" "running" "maximum"', Relative, _relative, frozenset(KINDS),
        "rounded about its running maximum", "name exponentials whose multiples are rounded: `round E about its "
        "running maximum`"),
)}
# Words that plans had before, and what says it now.
BEFORE = {"dtype": "numbers have the type of the tensors of a call, and those of few bits are said by `store`, "
                   "`products of` or `cache … as`"}


def read(plans: Iterable[s.Plan], program: Of, report: Report) -> tuple[PlanBlock, ...]:
    """The blocks of a text by their names, those of one name joined. Lines that no row reads, that name no tensor, or
    that contradict each other are in the report.
    """
    blocks: dict[str, PlanBlock] = {}
    for plan in plans:
        lines = [asked for line in plan.lines if (asked := _read(line, plan.name, program, report)) is not None]
        name = plan.name.text
        blocks[name] = PlanBlock(name, (*blocks.get(name, PlanBlock(name)).lines, *lines))
    for block in blocks.values():
        try:
            _agreed(block.lines)
        except PlansDisagree as problem:
            report.add(problem)
    every = [line for block in blocks.values() for line in block.lines]
    if program is not None and (idle := _kept_of_nothing(every, "text")) is not None:
        report.add(idle)
    return tuple(blocks.values())


def chosen(plans: Sequence[PlanBlock], names: Sequence[str]) -> PlanBlock:
    """The blocks of these names, joined: a name is a kind of file or one of the `plans`; without a kind the file is
    called.

    The result has the name of the kind. Raises Problem where there is no such block, where a line is not for this
    kind of file, or where two contradict each other.
    """
    known = {plan.name: plan for plan in plans}
    for name in names:
        if name not in known and name not in KINDS:
            listed = ", ".join(f"`{x}`" for x in dict.fromkeys((*KINDS, *known)))
            raise Problem(f"there is no plan `{name}`", helps=(Help(f"those there are: {listed}"),))
    kinds = dict.fromkeys(name for name in names if name in KINDS)
    if len(kinds) > 1:
        raise Problem("`call` and `serve` contradict each other: a file has one of the two", helps=(
            Help("choose one of them"),))
    kind = next(iter(kinds), KINDS[0])
    lines: list[Asked] = []
    for name in dict.fromkeys((kind, *names)):
        for line in known[name].lines if name in known else ():
            row = ROWS[line.word]
            if kind not in row.files:
                both = ",".join((*sorted(row.files)[:1], *(x for x in names if x not in KINDS)))
                raise PlanLine(f"nothing is {row.done} in a plan `{kind}`", line.span, helps=(
                    Help(f"choose `{both}`"),))
            lines.append(line)
    _agreed(lines)
    if (problem := _kept_of_nothing(lines, "plan")) is not None:
        raise problem
    return PlanBlock(kind, tuple(lines))


def _read(line: s.PlanLine, name: s.PlanWord, program: Of, report: Report) -> Asked | None:
    """What one line of the block `name` asks for; None where no row reads it, which is reported."""
    first = line.words[0]
    row = ROWS.get(first.text)
    if row is None:
        report.add(PlanLine(f"`{first.text}` is no word of a plan", first.span, helps=(_instead(line, first),)))
        return None
    meant = name.text if name.text in KINDS else nearest(name.text, KINDS)
    if meant is not None and (meant != name.text or meant not in row.files):
        (right, *_) = sorted(row.files)
        report.add(PlanLine(f"nothing is {row.done} in a plan `{name.text}`", name.span, helps=(
            Help(f"say `plan {right}:`", name.span, right),)))
        return None
    told = len(report.errors)
    try:
        record = row.read(line, plan_words(line, row.grammar), program, report)
    except PlanLine as problem:
        said = f"this is not how a line about what is {row.done} reads"
        report.add(PlanLine(said, problem.span, problem.message, helps=(Help(row.usage),)))
        return None
    return Asked(row.word, record, line.span) if len(report.errors) == told else None


def _instead(line: s.PlanLine, first: s.PlanWord) -> Help:
    """What to write in place of a word that begins no line."""
    if first.text in BEFORE:
        return Help(f"remove the line; {BEFORE[first.text]}", line.span, "", certain=False)
    near = nearest(first.text, ROWS)
    if near is not None:
        return Help(f"what is {ROWS[near].done} is said by `{near}`", first.span, near)
    words = ", ".join(f"`{word}`" for word in ROWS)
    return Help(f"remove the line; the words of a plan are {words}", line.span, "", certain=False)


def _kept_of_nothing(lines: Sequence[Asked], of: str) -> PlanLine | None:
    """What is wrong with a line that keeps something gathered where no line cuts anything; None where nothing is."""
    kept = next((line for line in lines if isinstance(line.record, Keep)), None)
    if kept is None or any(isinstance(line.record, Shard) for line in lines):
        return None
    return PlanLine(f"nothing is gathered, since no line of the {of} cuts anything over a mesh", kept.span, helps=(
        Help("leave the line out", kept.span, "", certain=False),
        Help("or say in this plan what is cut: `shard t over tp`, for instance")))


def _agreed(lines: Iterable[Asked]) -> None:
    """Raises PlansDisagree where two lines contradict each other."""
    found: dict[str, tuple[Record, Span]] = {}
    for line in lines:
        before, at = found.get(line.word, (None, line.span))
        both = line.record if before is None else joined(before, line.record)
        if both is None:
            said = f"two lines say different things of what is {ROWS[line.word].done}"
            raise PlansDisagree(said, line.span, "this one", Label(at, "and this one"), helps=(
                Help("leave out one of them"),))
        found[line.word] = both, line.span
