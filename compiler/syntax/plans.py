"""`plan` blocks: what a text asks of its file beside the mathematics. Read are the lines about what is kept, in which pages.

Non-goals: what the other lines ask for; whether it can be had.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from difflib import get_close_matches

from einc.errors.problems import PlanLine
from einc.errors.report import Help, Report, Source, Span
from einc.ir.requested import Wanted

BLOCK = re.compile(r"^([ \t]*)plan[ \t]+([A-Za-z_]\w*)[ \t]*:([^\n]*\n?(?:\1[ \t]+[^\n]*\n?|[ \t]*\n)*)", re.M)
_CACHE = re.compile(r"cache\s+(?!paged\b)([^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)(?:\s+paged\s+(\d+))?\s*$")
NAME = "serve"  # the plan that keeps
_NAME = re.compile(r"[^\W\d]\w*")


def read(source: Source, tensors: Container[str], report: Report) -> tuple[Wanted, ...]:
    """The blocks of a text, `tensors` being those of its program; a line about a cache that says nothing is in the report."""
    found: dict[str, Wanted] = {}
    for block in BLOCK.finditer(source.text):
        one = found.get(block[2], Wanted(block[2]))
        kept, page, others = one.kept, one.page, one.others
        for line in _lines(source, block):
            word = line.text.split()[0]
            if word != "cache" and get_close_matches(word, ["cache", "caches"], 1, 0.75):
                report.add(PlanLine(f"`{word}` is no word of a plan", Span(source, line.start, line.start + len(word)), helps=(
                    Help("what is kept is said by `cache`", Span(source, line.start, line.start + len(word)), "cache"),)))
            elif word != "cache":
                others += (line,)
            elif block[2] != NAME:
                at = block.start(2)
                report.add(PlanLine(f"nothing is kept in a plan `{block[2]}`", Span(source, at, at + len(block[2])), helps=(
                    Help(f"say `plan {NAME}:`", Span(source, at, at + len(block[2])), NAME),)))
            elif (said := _CACHE.match(line.text)) is None:
                report.add(PlanLine("this is not how a line about what is kept reads", line, helps=(
                    Help("name tensors, and the size of a page if you wish: `cache K, V paged 16`"),)))
            else:
                for name in _NAME.finditer(said[1]):
                    kept += (name[0],)
                    if name[0] not in tensors:
                        at = line.start + said.start(1) + name.start()
                        report.add(PlanLine(f"`{name[0]}` is no tensor of this spec", Span(source, at, at + len(name[0])), helps=(
                            Help("`einc show` prints those there are, each with its name"),)))
                page = int(said[2]) if said[2] else page
                if said[2] and not page:
                    report.add(PlanLine("a page of no position keeps nothing", line, helps=(Help("say `paged 16`, for instance"),)))
        found[one.name] = Wanted(one.name, tuple(dict.fromkeys(kept)), page, others)
    return tuple(found.values())


def _lines(source: Source, block: re.Match[str]) -> Iterator[Span]:
    """The lines of a block without comments and blanks around them, that of its head too where something follows."""
    at = block.start(3)
    for line in block[3].split("\n"):
        text = line.partition("#")[0]
        if text.strip():
            start = at + len(text) - len(text.lstrip())
            yield Span(source, start, start + len(text.strip()))
        at += len(line) + 1
