"""Random texts with rounds over positions in each round of layers, each with plain loops that say what it means.

A drawn text becomes a layer: one of its inputs is what the layers hand on, which they change by what the text puts out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import torch
from random_recurrences import AXES, Drawn, Frame, Name, shape

LAYERS = 3


def stack(found: Drawn) -> Drawn | None:
    """The text as the layer of a text with several; None where nothing at each position goes in and comes out, or where
    indices are fixed around its rounds.
    """
    given = next((n for n in found.given if n.times and n.name not in found.gates), None)
    made = [n for n in found.outputs if n.times]
    if given is None or not made or "for t:" in found.text or "doc_" in found.text:
        return None
    head, body = list[str](), list[str]()
    left = re.search(rf"(?<![A-Za-z]){given.name}_\{{t[^}}]*\}}(\^\{{[^}}]*\}})?(?=[,\n])", found.text)
    assert left is not None
    for line in found.text.splitlines():
        if line.startswith("input"):
            head.append(re.sub(rf"(?<![A-Za-z]){given.name}(?![A-Za-z])", "first", line))
        else:
            (head if line.startswith(("index", "dim")) else body).append(line.replace("output ", ""))
    here = left[0]
    added = " + ".join(_summed(n, given, found.text) for n in made)
    lines = [*head, f"{here} = {here.replace(given.name, 'first', 1)}", f"for ℓ in 1..{LAYERS}:",
             *(f"    {line}" for line in body), f"    {here} ← tanh({here} / ℓ + 1/4 ({added}))",
             f"output {here.replace(given.name, 'last', 1)} = {here}"]
    first = Name("first", 1, given.letters)
    return replace(found, text="\n".join(lines) + "\n", outputs=(Name("last", 1, given.letters),),
                   given=tuple(first if n is given else n for n in found.given), runs=(_run(found, given, made),))


def _summed(name: Name, onto: Name, text: str) -> str:
    """An output, summed over the letters that what is handed on does not have."""
    found = re.search(rf"(?<![A-Za-z]){name.name}_\{{t[^}}]*\}}(\^\{{[^}}]*\}})? =", text)
    assert found is not None
    gone = [x for x in name.letters if x not in onto.letters]
    read = found[0].removesuffix(" =")
    return f"(Σ_{{{', '.join(gone)}}} {read})" if gone else read


def _run(found: Drawn, given: Name, made: list[Name]) -> Callable[[Frame], None]:
    """One layer after the other."""
    def run(frame: Frame) -> None:
        steps = range(1, frame.sizes["T"] + 1)
        frame.held[given.name] = frame.held["first"]
        for layer in range(1, LAYERS + 1):
            for inner in found.runs:
                inner(frame)
            rows = {}
            for t in steps:
                held = frame.held[given.name][t,] / layer
                for name in made:
                    value = frame.held[name.name][t,].expand(shape(name.letters, frame.sizes))
                    gone = [AXES.index(x) for x in name.letters if x not in given.letters]
                    held = held + (value.sum(gone, keepdim=True) if gone else value) / 4
                rows[t,] = torch.tanh(held)
            frame.held[given.name] = rows
        frame.held["last"] = frame.held[given.name]

    return run
