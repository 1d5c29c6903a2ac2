"""Edits that leave no choice, and a text with edits made."""

from __future__ import annotations

from einc.errors.report import Help, Problem, Source


def certain(problems: list[Problem], name: str) -> list[Help]:
    """The edits of the file `name` that leave no choice, in order and apart: a problem
    with two ways out offers none."""
    edits: list[Help] = []
    for problem in problems:
        ways = [h for h in problem.helps if h.span is not None and h.new is not None]
        if len(ways) == 1 and ways[0].certain and ways[0].span is not None and ways[0].span.source.name == name:
            edits.append(ways[0])
    out: list[Help] = []
    end = -1
    for edit in sorted(edits, key=_place):
        start, stop = _place(edit)
        if start >= end and start > (_place(out[-1])[0] if out else -1):
            out.append(edit)
            end = stop
    return out


def _place(edit: Help) -> tuple[int, int]:
    return (edit.span.start, edit.span.end) if edit.span is not None else (0, 0)


def apply(source: Source, edits: list[Help]) -> str:
    """The text with the edits made, from the end backwards so that the places before stay true."""
    text = source.text
    for edit in reversed(edits):
        start, end = _place(edit)
        text = text[:start] + (edit.new or "") + text[end:]
    return text
