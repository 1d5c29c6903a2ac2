"""Lines of `plan` blocks that say what is cut over a mesh of devices: `mesh` and `shard`.

Non-goals: what becomes of a program that is cut, and whether the ranks divide its extents, which needs numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from einc.errors.problems import PlanLine, PlansDisagree
from einc.errors.report import Help, Label, Report
from einc.ir.indices import LAYER, IndexSet
from einc.ir.programs import Program
from einc.ir.requested import MOST_RANKS, SCHEDULES, WAYS, Cut, Mesh, Parts, Pass, Shard
from einc.ir.terms import Join, Position, bound_indices
from einc.syntax import tree as s
from einc.syntax.plan_lines import whole_number
from einc.syntax.spelling import nearest

RANKS_RULE = "an axis of a mesh has from 1 to {} ranks"


def letters_of(program: Program) -> Mapping[str, IndexSet]:
    """The set of each letter of a program: as its tensors are declared, equations write them, rounds are counted. A
    slot that is written as several letters, `(i a)`, has none of its own.
    """
    out: dict[str, IndexSet] = {}
    for tensor in program.tensors.values():
        for slot in tensor.slots:
            if not slot.name.startswith("("):
                out.setdefault(slot.name, slot.set)
    for term in program.terms:
        found = (term.index,) if isinstance(term, Position | Join) else bound_indices(term)
        for index in found:
            out.setdefault(index.name, index.set)
    for loop in program.every_repeat:
        out.setdefault(loop.index.name, loop.index.set)
    return out


def read_mesh(line: s.PlanLine, words: list[s.PlanWord], program: Program | None, report: Report) -> Mesh:
    """The axes of a mesh with their ranks. Problems go to the report."""
    axes: dict[str, int] = {}
    for n, word in enumerate(words):
        if word.kind != "NAME":
            continue
        after = words[n + 1] if n + 1 < len(words) else None
        ranks = 0
        if after is not None and after.kind == "DIGITS":
            ranks = whole_number(after, MOST_RANKS, RANKS_RULE, f"{word.text} = 2", report)
        if word.text in axes:
            report.add(PlanLine(f"the mesh has `{word.text}` twice", word.span, helps=(
                Help("give each axis a name of its own"),)))
        axes[word.text] = ranks
    return Mesh(tuple(axes.items()))


def read_shard(line: s.PlanLine, words: list[s.PlanWord], program: Program | None, report: Report) -> Shard:
    """What is cut over one axis. Problems go to the report."""
    over = next(n for n, word in enumerate(words) if _after(line, word, "over"))
    named, axis, rest = words[:over], words[over], words[over + 1:]
    at = next((n for n, word in enumerate(rest) if _before(line, word, "in")), len(rest))
    rest, turns = rest[:at], rest[at:]
    known = None if program is None else letters_of(program)
    for letter in named:
        _known(letter, known, report)
    passes: list[Pass] = []
    for n, word in enumerate(rest):
        if _after(line, word, "pass"):
            passes.append(_pass(line, rest[n:], known, report))
            sets = {known.get(letter.text) for letter in named} if known is not None else set()
            if known is not None and word.text in known and known[word.text] not in sets:
                report.add(PlanLine(f"`{word.text}` is of no set that is cut over `{axis.text}`", word.span, helps=(
                    Help("name a letter that runs over the set of one that is cut"),)))
            if known is not None and passes[-1].by and known.get(passes[-1].by) in sets:
                by = next(one for one in rest[n + 2:] if one.text == passes[-1].by)
                report.add(PlanLine(f"`{by.text}` is of a set that is cut over `{axis.text}`, so nothing is cut by it "
                                    f"instead", by.span, helps=(
                    Help(f"say `pass {word.text} by gather`, or name a letter of another set"),)))
    _once(rest, passes, line, report)
    if known is not None:
        _one_stays([word for word in rest if _after(line, word, "pass")], passes, known, report)
    balanced = next((word for word in line.words if word.text == "balanced" and _after(line, word, axis.text)), None)
    if balanced is not None and all(one.way != "ring" for one in passes):
        report.add(PlanLine("`balanced` is for what goes round", balanced.span, helps=(
            Help("say which letter does: `balanced, pass s by ring`, for instance"), Help("or leave it out",
                                                                                        balanced.span, ""))))
    said = tuple(dict.fromkeys(passes))
    parts = _parts(line, named, turns, known, report)
    return Shard((Cut(axis.text, tuple(word.text for word in named), said, balanced is not None, parts),))


def _parts(line: s.PlanLine, named: list[s.PlanWord], turns: list[s.PlanWord], known: Mapping[str, IndexSet] | None,
           report: Report) -> Parts | None:
    """What goes through stages, where rounds are cut: the letter, the number of its parts, and the order."""
    rounds = [word for word in named if known is not None and word.text in known and known[word.text].cls == LAYER]
    if rounds and len(named) > 1:
        report.add(PlanLine(f"`{rounds[0].text}` counts rounds, which are stages of an axis of their own", line.span,
                            helps=(Help("cut the other letters over another axis"),)))
    if not turns:
        if rounds:
            report.add(PlanLine(f"`{rounds[0].text}` counts rounds, so what goes from stage to stage comes in parts",
                                line.span, helps=(Help(f"say of which letter: `shard {rounds[0].text} over pp, n in 8 "
                                                       "parts by 1F1B`, for instance"),)))
        return None
    letter, count, *words = turns
    if known is not None and not rounds:
        report.add(PlanLine(f"`{named[0].text}` counts no rounds, so there are no stages for parts to go through",
                            letter.span, helps=(Help("cut the letter of a `for`, or leave out the parts"),)))
    _known(letter, known, report)
    parts = whole_number(count, MOST_RANKS, "there are from 1 to {} parts", "8", report)
    word = "".join(one.text for one in words)
    if word not in SCHEDULES:
        listed = ", ".join(f"`{name}`" for name in SCHEDULES)
        report.add(PlanLine(f"stages have no order `{word}`", words[0].span, helps=(
            Help(f"those there are: {listed}"),)))
    return Parts(letter.text, parts, word)


def _once(rest: list[s.PlanWord], passes: list[Pass], line: s.PlanLine, report: Report) -> None:
    """Reports a letter for which a line says two ways; one that is said twice is said once."""
    said: dict[str, tuple[Pass, s.PlanWord]] = {}
    letters = (word for word in rest if _after(line, word, "pass"))
    for word, one in zip(letters, passes, strict=True):
        before, at = said.setdefault(word.text, (one, word))
        if before != one:
            report.add(PlansDisagree(f"the line says two ways in which `{word.text}` passes", word.span, "this one",
                                     Label(at.span, "and this one"), helps=(Help("leave out one of them"),)))


def _one_stays(letters: list[s.PlanWord], passes: list[Pass], known: Mapping[str, IndexSet], report: Report) -> None:
    """Reports two letters of one set that both go round: what has the other has to stay where it is."""
    round_: dict[IndexSet, s.PlanWord] = {}
    for word, one in zip(letters, passes, strict=True):
        if one.way == "ring" and word.text in known:
            first = round_.setdefault(known[word.text], word)
            if first.text != word.text:
                report.add(PlanLine(f"`{first.text}` and `{word.text}` are of one set and both go round, so nothing "
                                    "stays that they could meet", word.span, helps=(
                    Help(f"leave out `pass {word.text} by ring`, and `{word.text}` stays"),)))


def _before(line: s.PlanLine, word: s.PlanWord, said: str) -> bool:
    """Whether a word of a line stands before another."""
    at = line.words.index(word) + 1
    return at < len(line.words) and line.words[at].text == said


def _after(line: s.PlanLine, word: s.PlanWord, said: str) -> bool:
    """Whether a word of a line stands behind another."""
    return line.words[line.words.index(word) - 1].text == said


def _pass(line: s.PlanLine, words: list[s.PlanWord], known: Mapping[str, IndexSet] | None, report: Report) -> Pass:
    """What is done with one letter; `words` begin with it."""
    letter, way, *others = words
    by = next((word for word in others[:1] if not _after(line, word, "pass")), None)
    _known(letter, known, report)
    if way.text not in WAYS:
        near = nearest(way.text, WAYS)
        listed = ", ".join(f"`{name} h`" if takes else f"`{name}`" for name, takes in WAYS.items())
        report.add(PlanLine(f"there is no pass by `{way.text}`", way.span, helps=(
            Help(f"those there are: {listed}") if near is None else Help("write it so", way.span, near),)))
        return Pass(letter.text, way.text)
    if not WAYS[way.text]:
        if by is not None:
            report.add(PlanLine(f"a pass by `{way.text}` takes no letter", by.span, helps=(
                Help("leave it out", by.span, ""),)))
        return Pass(letter.text, way.text)
    if by is None:
        report.add(PlanLine(f"a pass by `{way.text}` needs a letter that is cut instead", way.span, helps=(
            Help(f"say `pass {letter.text} by {way.text} h`, for instance"),)))
        return Pass(letter.text, way.text)
    _known(by, known, report)
    return Pass(letter.text, way.text, by.text)


def _known(word: s.PlanWord, known: Mapping[str, IndexSet] | None, report: Report) -> None:
    """Reports a letter that the program does not have."""
    if known is None or word.text in known:
        return
    near = nearest(word.text, known) if len(word.text) > 2 else None  # any letter is near to any other
    listed = ", ".join(f"`{name}`" for name in sorted(known) if name.isidentifier())
    report.add(PlanLine(f"`{word.text}` is no letter of this spec", word.span, helps=(
        Help(f"its letters are {listed}"), *([Help("write it so", word.span, near)] if near else []))))
