"""Ways out that were tried: an edit of the text without which there is an error, and with which there is none.

An edit is offered where two things hold: the text is sound with it, but for its other errors, and every equation that
is not marked as wrong means what it meant before. What an error itself offers is tried in the same way, and left out
where it fails. Where one edit of all that were tried mends an error, or all that do mean the same, it is offered as
certain; where several do, each is offered. Non-goal: to know the rules. What an edit is worth, the checker says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise, zip_longest

from einc.checking.programs.readings import Place, Reading
from einc.errors.problems import PlanLine
from einc.errors.report import Help, Label, Problem, Report, Source, Span
from einc.ir.folds import FOLDS
from einc.ir.indices import CLASSES
from einc.ir.programs import Equation, TypedProgram
from einc.ir.terms import canonical
from einc.syntax.brackets import Word
from einc.syntax.lines import Line, lines
from einc.syntax.spelling import edit_distance

Edit = tuple[int, int, str]

_FLIPS = (("<=", ">="), ("≤", "≥"), ("<", ">"), ("\\le", "\\ge"), ("\\leq", "\\geq"))
_BEFORE = 5  # words in front of an argument in which its function's script is looked for
MOST_ERRORS, MOST_TRIES, MOST_OFFERS = 2, 60, 3
MOST_READ = 40_000  # characters that are read again, edit by edit, for one error: a message is not waited for
_OPENERS, _CLOSERS = {"LPAR": "(", "LSQB": "(", "LBRACE": "{"}, {"RPAR": "(", "RSQB": "(", "RBRACE": "{"}
_PARTNER = {"(": ")", "{": "}"}
_NAMES = ("WORD", "GREEK")
_LETTERS = (*_NAMES, "LABEL_LOW", "LABEL_UP", "TEXT")
_LABELS = ("LABEL_LOW", "LABEL_UP")
_TERM_END = ("SIGN", "COMMA", "COLON", "REL", "STOP", "WITH", "DISPLAY", "NEWLINE", "LINEEND")
_HEAD_END = ("REL", "COLON")
_OF_BRACKETS = ("E0101", "E0102")
_OF_NAMES = ("E0201", "E0204", "E0207", "E0210", "E0212", "E0215")
_OF_DOMAINS = ("E0501", "E0503", "E0701")
_OF_BINDERS = ("E0106",)
_OF_COUNTS = ("E0205", "E0210")
_OF_NOTHING = ("W0310", "W0905")


@dataclass(frozen=True)
class Checks:
    """How a text is checked once it, or a file that it uses, is another one: `program` reports its errors, `meanings`
    says what each of its equations means by itself.
    """

    program: Callable[[Source, Report], TypedProgram | None]
    meanings: Callable[[Source], Mapping[Place, Reading]]


@dataclass(frozen=True)
class _Text:
    """A text with its lines, and the words of the line that an error stands in."""

    source: Source
    lines: list[Line]
    known: frozenset[str]  # words of the language that are names: functions and classes

    def at(self, span: Span) -> tuple[Word, ...]:
        return next((x.words for x in self.lines if x.words[0].start <= span.start and span.end <= x.words[-1].end), ())

    @property
    def indices(self) -> list[str]:
        """The indices that the text declares."""
        heads = (line.words for line in self.lines if line.words[0].type == "INDEX")
        return list(dict.fromkeys(w.value for found in heads for w in _before_colon(found)))

    def others(self, name: str) -> set[str]:
        """The letters whose declaration says another set than that of a letter."""
        sets = dict[str, str]()
        for head in (line.words for line in self.lines if line.words[0].type == "INDEX"):
            each = re.split(r"\s*,(?![^()]*\))\s*",
                            self.source.text[head[0].start : head[-1].end].partition(":")[2].strip())
            sets |= {w.value: each[min(n, len(each) - 1)] for n, w in enumerate(_before_colon(head))}
        return {other for other, said in sets.items() if said != sets.get(name, said)}

    @property
    def words(self) -> list[Word]:
        return [w for line in self.lines for w in line.words]


def mend(source: Source, report: Report, checks: Checks, functions: frozenset[str] = frozenset()) -> None:
    """Gives the first errors of a report the edits that mend them, and takes from all what was tried in vain or not
    tried.

    What an error offers may stand in a file that the text uses.
    """
    known = functions.union(FOLDS, CLASSES)
    trial = _Trial(_Text(source, lines(source, Report(), functions), known), report, checks)
    tries = MOST_READ // max(1, len(source.text))
    for number, problem in enumerate(p for p in report.sorted() if p.severity == "error"):
        own = [h for h in problem.helps if h.new is not None and h.span is not None]
        tries -= len(own)
        if tries < 0 and number >= MOST_ERRORS:
            problem.helps = tuple(map(_in_words, problem.helps))
            continue
        enough = _kept(trial, problem, own) and problem.code not in (*_OF_BRACKETS, *_OF_NAMES)
        # Of a line of a plan an edit would only make one that nobody reads.
        here = problem.span is not None and problem.span.source == source and not isinstance(problem, PlanLine)
        if here and not enough and number < MOST_ERRORS and len(source.text) <= MOST_READ // 2:
            _offered(trial, problem)


def untried(problems: Iterable[Problem]) -> None:
    """Takes the edits from problems, and leaves their words: where none of them is tried."""
    for problem in problems:
        problem.helps = tuple(map(_in_words, problem.helps))


def _in_words(help_: Help) -> Help:
    return replace(help_, span=None, new=None)


@dataclass(frozen=True)
class _Trial:
    """A text with its errors, and how it is checked."""

    text: _Text
    report: Report
    checks: Checks

    @cached_property
    def before(self) -> Mapping[Place, Reading]:
        """What the equations of the text mean that have a meaning."""
        return self.checks.meanings(self.text.source)

    def mends(self, problem: Problem, place: Span, new: str) -> tuple[bool, TypedProgram | None]:
        """Whether an edit leaves the other errors and equations as they are and makes no error; the program where there
        is none.

        An operator that does nothing is no way out either.
        """
        before = {(p.code, p.message) for p in self.report.problems if p is not problem}
        edited, after = _edited(place, new), Report()
        program = self.checks.program(edited, after)
        left = {(p.code, p.message) for p in after.problems if p.severity == "error" or p.code in _OF_NOTHING}
        mends = len(after.errors) < len(self.report.errors) and left <= before and self._untouched(problem, edited)
        return mends, program

    def _untouched(self, problem: Problem, edited: Source) -> bool:
        """Whether the equations without a caret of the problem mean what they meant."""
        carets = [x for x in (problem.span, *(label.span for label in problem.labels if label.caret)) if x is not None]
        rest = {place: found.meaning for place, found in self.before.items()
                if not any(span.meets(caret) for span in found.spans for caret in carets)}
        after = self.checks.meanings(edited) if rest else {}
        return all(place in after and after[place].meaning == meant for place, meant in rest.items())


def _kept(trial: _Trial, problem: Problem, own: list[Help]) -> bool:
    """Whether an edit that the error itself offers mends it: that one stands first, and what does not mend is left out.

    Where nothing else would be said, it stays as words.
    """
    mend = [h for h in own if h.span is not None and h.new is not None and trial.mends(problem, h.span, h.new)[0]]
    rest = [h for h in problem.helps if h not in own]
    said = bool(mend or rest or problem.notes)
    problem.helps = (*mend, *rest, *(() if said else map(_in_words, own)))
    return any(h.new is not None and "\n" not in h.new for h in mend)


def _offered(trial: _Trial, problem: Problem) -> None:
    """Adds to a problem the edits of the text near the error that mend it: certain where what was meant is evident, and
    no other meaning left.
    """
    found: list[tuple[Edit, bool, TypedProgram | None]] = []
    most = min(MOST_TRIES, MOST_READ // max(1, len(trial.text.source.text)))
    edits = dict.fromkeys(islice(_edits(trial.text, problem), 2 * MOST_TRIES))
    for edit, evident in islice(edits, most):
        mends, program = trial.mends(problem, Span(trial.text.source, *edit[:2]), edit[2])
        if mends:
            found.append((edit, evident, program))
            if len(found) > MOST_OFFERS and not _alike([p for *_, p in found]):
                break
    if not found:
        return
    only = _alike([program for *_, program in found])
    chosen = found[:1] if only else found[:MOST_OFFERS]
    certain = only and len(edits) <= most and all(evident for _, evident, _ in found)
    rest = () if certain else tuple(h for h in problem.helps if h.new is None or "\n" in h.new)
    problem.helps = (*(_help(trial.text.source, problem, edit, certain) for edit, *_ in chosen), *rest)
    if only:
        _shown(problem, Span(trial.text.source, *chosen[0][0][:2]))


def _shown(problem: Problem, place: Span) -> None:
    """Shows the error at the one place where it can be mended."""
    if problem.code in _OF_BRACKETS and problem.span is not None:
        # Where a bracket has no partner a reader of brackets finds it; where the partner belongs, it is missing.
        problem.labels = (Label(problem.span, problem.label or "without a partner"), *problem.labels)
        problem.span, problem.label = place, ""
    else:
        problem.labels = (*problem.labels, Label(place, "here it can be mended"))


def _alike(programs: list[TypedProgram | None]) -> bool:
    """Whether all programs are there and mean the same; one program alone does, even where it is None."""
    return len(programs) == 1 or (None not in programs and all(meaning(a) == meaning(b) for a, b in pairwise(programs)
                                                               if a is not None and b is not None))


def meaning(program: TypedProgram) -> tuple[object, ...]:
    """A program without its places in a text and without the letters of its indices."""
    def plain(equation: Equation) -> tuple[object, ...]:
        own = equation.indices
        return (equation.target, *(canonical(x, own) for x in (*equation.axes, equation.domain, equation.body)))

    rounds = [[plain(e) for e in x.equations] for x in program.recurs]
    given = {t.key: (t.role, t.element, tuple((x.set, x.level) for x in t.slots)) for t in program.inputs()}
    return ({e.target: plain(e) for e in program.equations}, given, program.outputs, dict(program.sizes), rounds,
            program.repeats)


def _edited(place: Span, new: str) -> Source:
    text = place.source.text
    return Source(place.source.name, text[: place.start] + new + text[place.end :])


def _help(source: Source, problem: Problem, edit: Edit, certain: bool) -> Help:
    """The edit in words: those of the error, if it offers the same."""
    start, end, new = edit
    own = next((h for h in problem.helps if h.span == Span(source, start, end) and h.new == new), None)
    if own is not None:
        return replace(own, certain=certain)
    old = source.text[start:end]
    said = f"write `{new.strip()}` for `{old.strip()}`" if old.strip() and new.strip() else (
        f"remove `{old.strip()}`" if old.strip() else f"insert `{new.strip()}`")
    return Help(said, Span(source, start, end), new, certain)


# what is tried


def _edits(text: _Text, problem: Problem) -> Iterator[tuple[Edit, bool]]:
    """Edits by the kind of an error, and whether it is evident what was meant: so with brackets where
    one is missing and names that nothing has; not so with domains and indices in scripts, where
    others may be meant that were not tried."""
    assert problem.span is not None
    spans = (problem.span, *(x.span for x in problem.labels if x.span.source == text.source))
    for help_ in problem.helps:
        if (help_.span is not None and help_.new is not None and help_.span.source == text.source
            and "\n" not in help_.new):
            yield (help_.span.start, help_.span.end, help_.new), problem.code in (*_OF_BRACKETS, *_OF_NAMES)
    if problem.code in _OF_BRACKETS:
        yield from ((edit, True) for edit in _brackets(text, text.at(problem.span)))
        return
    alone = _word(text, problem.span) if problem.code == "E0201" else None
    if alone is not None and len(alone.value) == 1:
        return  # a letter that stands for a number is no slip of another one
    if problem.code in _OF_NAMES:
        yield from ((edit, True) for edit in _names(text, problem.span))
    if alone is not None:
        return  # there are no indices to exchange
    if problem.code in _OF_BINDERS:
        yield from ((edit, False) for edit in _wrapped(text, problem.span))
        return
    domains, counts = problem.code in _OF_DOMAINS, problem.code in _OF_COUNTS
    by_place = [_domains(text, span) if domains else _scripts(text, span, counts) for span in spans]
    yield from ((edit, False) for row in zip_longest(*by_place) for edit in row if edit is not None)


def _word(text: _Text, span: Span) -> Word | None:
    """The word that a place is that of, without a script; None for any other place."""
    return next((w for w in text.at(span) if (w.start, w.end) == (span.start, span.end)), None)


def _brackets(text: _Text, here: tuple[Word, ...]) -> Iterator[Edit]:
    """A bracket put in wherever all of them have partners then; what is one too many taken out."""
    often = Counter(w.value for w in text.words)
    for kind in ("{", "("):
        lack = sum((_OPENERS.get(w.type) == kind) - (_CLOSERS.get(w.type) == kind) for w in here)
        if lack not in (1, -1):
            continue
        new = _PARTNER[kind] if lack > 0 else kind
        types = [w.type for w in here]
        put = {"}": "RBRACE", ")": "RPAR", "{": "LBRACE", "(": "LPAR"}[new]
        for at in range(len(here) + 1):
            if not _nested([*types[:at], put, *types[at:]]):
                continue
            place = here[at - 1].end if lack > 0 and at else here[min(at, len(here) - 1)].start
            yield place, place, new
            if lack < 0 and at < len(here) and (here[at].type in _LABELS or often[here[at].value] == 1):
                # Without its bracket a name has run into what it stood in front of.
                ends = (here[at].start + 1,) if here[at].type in _LABELS else range(here[at].start + 1, here[at].end)
                yield from ((inside, inside, new) for inside in ends)
        for at, word in enumerate(here):
            if (_OPENERS if lack > 0 else _CLOSERS).get(word.type) == kind and _nested([*types[:at], *types[at + 1 :]]):
                yield word.start, word.end, ""


def _wrapped(text: _Text, span: Span) -> Iterator[Edit]:
    """The term with its sign that follows a big operator, in parentheses: up to the next
    sign or the end of what is around it."""
    line, depth = text.at(span), 0
    rest = [w for w in line if w.start >= span.end]
    for word, following in pairwise(rest):
        depth += (word.type in _OPENERS) - (word.type in _CLOSERS)
        if depth == 0 and (following.type in (*_CLOSERS, *_TERM_END) or following is rest[-1]):
            end = following.end if following is rest[-1] and following.type not in (*_CLOSERS, *_TERM_END) else word.end
            start = rest[0].start
            yield start, end, f"({text.source.text[start:end]})"
            return


def _nested(types: Iterable[str]) -> bool:
    stack: list[str] = []
    for kind in types:
        if kind in _OPENERS:
            stack.append(_OPENERS[kind])
        elif kind in _CLOSERS and (not stack or stack.pop() != _CLOSERS[kind]):
            return False
    return not stack


def _names(text: _Text, span: Span) -> Iterator[Edit]:
    """A word for one of the text that is spelled much the same; and the other way round,
    where that stands there alone."""
    everything = [w for w in text.words if w.type in _LETTERS]
    counts: dict[str, int] = {}
    for word in everything:
        counts[word.value] = counts.get(word.value, 0) + 1
    indices = text.indices
    for wrong in (w for w in everything if span.start <= w.start and w.end <= span.end):
        # What is written otherwise once, and more often so, is more likely the slip.
        others = [w for w in everything
                  if counts[w.value] == 1 and w.value != wrong.value and _near(w.value, wrong.value)]
        turned = [_respelled(text.source, w, wrong.value) for w in others]
        yield from turned if counts[wrong.value] > 1 else ()
        words = (*counts, *sorted(text.known - counts.keys()))
        known = [other for other in words if other != wrong.value and _near(wrong.value, other)]
        near = sorted((edit_distance(wrong.value, other), other not in indices, other) for other in known)
        yield from (_respelled(text.source, wrong, other) for *_, other in near[:12])
        yield from turned if len(wrong.value) == 1 else ()


def _near(a: str, b: str) -> bool:
    most = max(1, max(len(a), len(b)) // 3)
    return abs(len(a) - len(b)) <= most and max(len(a), len(b)) < 40 and edit_distance(a, b) <= most


def _respelled(source: Source, word: Word, new: str) -> Edit:
    """The letters of a word alone: a label keeps its sign."""
    lead = 1 if word.type in ("LABEL_LOW", "LABEL_UP") else 0
    return word.start + lead, word.end, new


def _scripts(text: _Text, span: Span, counts: bool) -> Iterator[Edit]:
    """An index in a script near the error exchanged, left out or put in; those that are rare in the line first."""
    indices = text.indices
    line = Counter(w.value for w in text.at(span) if w.type in _NAMES and w.value in indices)
    choices = sorted(line, key=lambda i: line[i]) + [i for i in indices if i not in line]
    often = Counter(w.value for w in text.words)
    here = [w for w in text.at(span) if w.type in _NAMES and span.start <= w.start and w.end <= span.end]
    if text.at(span)[:1] and text.at(span)[0].type == "INDEX":
        here = [w for w in here if w.value in indices]  # a class and an extent have no indices
    inside = [w for w in here if w.value in indices or (len(w.value) == 1 and often[w.value] == 1)]
    exchanged = [(w.start, w.end, other) for other in choices for w in inside if other != w.value]
    fewer = [(w.start, w.end, "") for w in inside]
    more = [(at, at, new) for other in choices for w in inside
            for at, new in ((w.end, f" {other}"), (w.start, f"{other} "))]
    more += [(w.end, w.end, f"_{other}") for other in choices for w in here[:1]]
    more += [(span.end, span.end, f"^{other}") for other in choices if here]
    yield from (*fewer, *more, *exchanged) if counts else (*exchanged, *fewer, *more)


def _domains(text: _Text, span: Span) -> Iterator[Edit]:
    """A comparison the other way round; an index under an operator, there or just before, bounded by one of its set."""
    line = text.at(span)
    inside = [n for n, w in enumerate(line) if span.start <= w.start and w.end <= span.end]
    for word in (line[n] for n in inside if line[n].type == "REL"):
        written = text.source.text[word.start : word.end]
        for signs in _FLIPS:
            if written in signs:
                yield word.start, word.end, signs[1 - signs.index(written)]
    others = list(dict.fromkeys(w.value for w in line if w.type in _NAMES and len(w.value) == 1))
    first = inside[0] if inside else 0
    for at in (n for n in (*inside, *range(max(0, first - _BEFORE), first)) if line[n].type == "LOW"):
        braced = at + 1 < len(line) and line[at + 1].type == "LBRACE"
        word = line[min(at + 1 + braced, len(line) - 1)]
        if word.type in _NAMES and (not braced or line[min(at + 3, len(line) - 1)].type == "RBRACE"):
            for other in others:
                if other != word.value and other not in text.others(word.value):
                    bound = f"{word.value} ≤ {other}"
                    yield word.start, word.end, bound if braced else f"{{{bound}}}"


def _before_colon(found: tuple[Word, ...]) -> Iterator[Word]:
    for word in found[1:]:
        if word.type in _HEAD_END:
            return
        if word.type in _NAMES:
            yield word
