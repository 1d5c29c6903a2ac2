"""Drawn texts with rounds over positions, as texts over the positions of requests of different lengths.

A name that depends on a position, and every state, gets the request ρ before its other letters; what the text means is
what the drawn text means for each request by itself, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from random_recurrences import Drawn, Tensors

_NAME = r"(?<![A-Za-z\\])({names})(?![A-Za-z])(?:_(?:\{{([^}}]*)\}}|([a-z])))?"


def _names(found: Drawn) -> set[str]:
    """The names that depend on a request: inputs by position, states, and what is made of these."""
    names = {n.name for n in found.given if n.times} | ({"doc"} if "doc_" in found.text else set())
    own = re.findall(r"^    (?:    )?(S\w|N\w)", found.text[found.text.find("for t:"):].split("\noutput")[0], re.M)
    inner = set(own) if "for t:" in found.text else set()
    lines = [line.strip().removeprefix("output ") for line in found.text.splitlines()]
    # What rounds of `for t:` make has no letter of its own for the request that is fixed around them.
    defined = [(re.split(r"[_^ ]", line)[0], line) for line in lines
               if re.match(r"[A-Za-z]+[_^{} a-z0-9,]* (=|←) ", line)]
    names |= {name for name, line in defined if " ← " in line}
    names -= inner
    while True:
        more = {name for name, line in defined if name not in names | inner
                and re.search(_NAME.format(names="|".join(sorted(names))), re.split(" = | ← ", line, maxsplit=1)[1])}
        if not more:
            return names
        names |= more


def packed_text(found: Drawn) -> str:
    """The text over requests."""
    names = "|".join(sorted(_names(found), key=len, reverse=True))

    def changed(match: re.Match[str]) -> str:
        name, low, letter = match.groups()
        inner = low or letter or ""
        return f"{name}_{{ρ, {inner}}}" if inner else f"{name}_ρ"

    out = []
    for line in found.text.splitlines():
        if line.startswith("index "):
            out.append(line.replace("time(T)", "time(T_ρ)"))
        elif line.startswith("dim"):
            out.append(line)
        else:
            made = re.sub(_NAME.format(names=names), changed, line).replace("for t:", "for ρ, t:")
            made = re.sub(r"(in \S+\.\.)T\b", r"\1T_ρ", made)
            # A left side has no letter that its right side lacks.
            mark = None if made.strip().startswith("for ") else re.search(" = | ← ", made)
            lacks = (mark is not None and "ρ" in made[: mark.start()] and "ρ" not in made[mark.end() :]
                     and re.search("[a-z]", made[mark.end() :]) is not None)
            out.append(f"{made} + 0 * T_ρ" if lacks else made)
    return "index ρ : request(R)\n" + "\n".join(out) + "\n"


def packed_inputs(found: Drawn, sizes: Mapping[str, int], lengths: Sequence[int], seed: int = 0
                  ) -> tuple[Tensors, list[Tensors]]:
    """The inputs of the text over requests, and those of each request by itself."""
    apart = [found.inputs({**sizes, "T": length}, seed + n) for n, length in enumerate(lengths)]
    timed = {n.name for n in found.given if n.times} | {"doc"}
    first = found.inputs({**sizes, "T": 1}, seed)
    apart = [{key: x if key in timed else first[key] for key, x in one.items()} for one in apart]
    whole = {key: torch.cat([one[key] for one in apart]) if key in timed else x for key, x in first.items()}
    return whole | {"T": torch.tensor(lengths)}, apart


def packed_means(found: Drawn, sizes: Mapping[str, int], lengths: Sequence[int], apart: Sequence[Tensors]) -> Tensors:
    """Every output: positions of all requests one after the other, or one value for each request."""
    made = [found.means(one, {**sizes, "T": length}) for one, length in zip(apart, lengths, strict=True)]
    return {name.name: torch.cat([one[name.name] for one in made]) if name.times
            else torch.stack([one[name.name] for one in made]) for name in found.outputs}
