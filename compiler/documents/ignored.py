"""Sentences that a side file says change no formula: `ignore "Table 2 has the figures"`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from einc.documents.clauses import Prose
from einc.documents.document import Document, Ignored
from einc.errors.problems import NoSuchSection
from einc.errors.report import Help, Report
from einc.syntax import tree as s


def ignored(document: Document, lines: Iterable[s.Statement], report: Report) -> tuple[Ignored, ...]:
    """The words of `ignore` lines, those of blocks too, with the sentences in which they stand. A problem for words
    that are in none of them goes to the report.
    """
    asked = [x.clauses[0] for line in lines for x in (line, *line.block) if x.keyword == "ignore"]
    found = list[Ignored]()
    every = [x.span for x in Prose.of(document).sentences] if asked else []
    for clause in asked:
        words = clause.body.text if isinstance(clause.body, s.Word) else ""
        parts = r"\s+".join(map(re.escape, words.split()))
        pattern = re.compile(rf"(?<!\w){parts}(?!\w)")
        own = [x for x in every if re.search(r"\w", words) and pattern.search(x.text)]
        if not own:
            report.add(NoSuchSection(f"no sentence of {document.source.name} has the words `{words}`", clause.span,
                                     helps=(Help("copy a part of a sentence, as `einc doc --ask` prints it"),)))
        found.append(Ignored(" ".join(words.split()), tuple(own)))
    return tuple(found)
