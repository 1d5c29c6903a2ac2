"""The pieces of a program with rounds as plain Python, which torch differentiates: each
piece is an operator with a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einc.backends.host.loops import Dialect, stacked
from einc.backends.host.naming import Named
from einc.backends.host.pair import Apart, Pair
from einc.backends.host.recurrences import recur
from einc.backends.writer import Names, Writer, folded, sized
from einc.ir.indices import number
from einc.ir.plan import Gradient, GradientLoop, Recurrence, SegmentedModule, StateScan


class SegmentWriter:
    """The statements between the pieces, in the names of the whole."""

    def __init__(self, chain: SegmentedModule, naming: Named, dialect: Dialect, helpers: set[str],
                 body: Writer, apart: Apart | None = None, taken: set[str] | None = None,
                 stems: Names | None = None) -> None:
        """Begins with the names of the whole chain; `apart` writes pieces as operators, where the file is a pair of
        them; `taken` and `stems` are names that the file has before."""
        self.naming, self.dialect, self.helpers, self.body = naming, dialect, helpers, body
        self.names, self.taken, self.apart = Names(set(naming.taken)), set[str]() if taken is None else taken, apart
        self.module = naming.module
        keys = [*(t.key for t in chain.whole.inputs), *chain.whole.buffers]
        inner = [*(t.key for t in naming.module.inputs), *naming.module.buffers]
        self.inner = dict(zip(keys, inner, strict=True))
        self.sizes = {declared: name for name, declared in naming.declared.items()}
        self.stems = Names(set()) if stems is None else stems
        self.pairs: list[Pair] = []

    def write(self, chain: SegmentedModule, stems: tuple[str, str, str] = ("_first", "_part", "_last")) -> None:
        """Writes the calls of the pieces of a chain in their order; `stems` begin the names of the first, of those
        between, and of the last.
        """
        for at, piece in enumerate(chain.pieces):
            self.body() if at else None
            if isinstance(piece, GradientLoop):
                self._turns(piece)
            elif isinstance(piece, Recurrence | StateScan):
                inner = replace(piece, reads=tuple(self.inner[x] for x in piece.reads),
                                writes=tuple(self.inner[x] for x in piece.writes))
                recur(inner, self.module, self.body, self.names.fresh, self.helpers, self.dialect.recurrence,
                      self.naming.inside)
            else:
                pair = self._pair(piece, stems[0 if not at else 2 if at == len(chain.pieces) - 1 else 1])
                made = {key: self.inner[key] for _, key in piece.shown}
                self._call(pair, self.inner, self.sizes, made)

    def _pair(self, gradient: Gradient, stem: str) -> Pair:
        self.pairs.append(Pair(gradient, self.stems.fresh(stem), self.dialect, self.helpers, self.taken,
                               apart=self.apart))
        return self.pairs[-1]

    def _call(self, pair: Pair, tensors: Mapping[str, str], sizes: Mapping[str, str], made: Mapping[str, str]) -> None:
        """Writes one call: what goes in by the keys of the piece, and what its results are called here."""
        given = [tensors[t.key] for t in pair.gradient.forward.inputs]
        self.body.lines += ["    " * self.body.depth + line for line in pair.call(given, sizes, made)]

    def _turns(self, piece: GradientLoop) -> None:
        """Writes a loop; of what is given by rounds each takes its own part, and the gradient of the whole is one
        stack.
        """
        body, over = self.body, self.naming.inside(piece.index.set.extent)
        for state, first, _ in piece.states:
            body(f"{self.inner[state]} = {self.inner[first]}")
        lists = {buffer: self.names.fresh(f"{self.inner[buffer]}_parts") for buffer, _, _ in piece.kept}
        for listed in lists.values():
            body(f"{listed} = []")
        tensors, places, parts = dict[str, str](), list[str](), list[str]()
        if piece.counter or not any(axis is not None for _, _, axis in piece.given):
            places.append(self.names.fresh(piece.index.name))
            start = piece.index.set.start
            parts.append(f"range({start}, {sized(over + number(start))})")
            tensors[piece.counter] = f"torch.full((), {places[0]}, device=device)"
        for key, buffer, axis in piece.given:
            tensors[key] = self.inner[buffer]
            if axis is not None:
                tensors[key] = self.names.fresh(f"{self.inner[buffer]}_here")
                places.append(tensors[key])
                parts.append(f"{self.inner[buffer]}.unbind({axis})")
        over_all = parts[0] if len(parts) == 1 else f"zip({', '.join(parts)})"
        again = self._again(piece, over_all, [*lists.values()]) if piece.every else ""
        body.lines += folded(f"{'    ' * body.depth}for {', '.join(places)} in {again or over_all}:")
        body.depth += 1
        sizes = {inside: self.sizes[outside] for inside, outside in piece.sizes}
        made = {part: self.names.fresh(f"{self.inner[buffer]}_part") for buffer, part, _ in piece.kept}
        results = {following: self.inner[state] for state, _, following in piece.states} | made
        if isinstance(piece.body, SegmentedModule):
            self._round(piece.body, tensors, results)
        else:
            self._call(self._pair(piece.body, "_round"), tensors, sizes, results)
        for state, _, following in piece.states:
            if following in made:
                body(f"{self.inner[state]} = {made[following]}")
        for buffer, part, _ in piece.kept:
            body(f"{lists[buffer]}.append({made[part]})")
        body.depth -= 1
        if again:
            self._made_again(piece, again, [*lists.values()])
        for buffer, _, axis in piece.kept:
            body(stacked(self.module, self.inner[buffer], lists[buffer], axis, self.helpers))

    def _again(self, piece: GradientLoop, over_all: str, lists: list[str]) -> str:
        """Writes the head of what makes some rounds; returns what these are called."""
        body, some = self.body, self.names.fresh("some_rounds")
        every, begin = self.names.fresh("every_round"), self.names.fresh("begin")
        body.lines += folded(f"{'    ' * body.depth}{every} = [*{over_all}]")
        body.open(f"for {begin} in range(0, len({every}), {piece.every}):")
        states = ", ".join(self.inner[state] for state, _, _ in piece.states)
        body.open(f"def {some}_made({states}, {some}={every}[{begin}:{begin} + {piece.every}]):")
        for listed in lists:
            body(f"{listed} = []")
        return some

    def _made_again(self, piece: GradientLoop, some: str, lists: list[str]) -> None:
        """Writes the end of what makes some rounds, and the call that saves nothing of them."""
        body, states = self.body, ", ".join(self.inner[state] for state, _, _ in piece.states)
        more = [self.names.fresh(f"{listed}_more") for listed in lists]
        body(f"return {', '.join([states, *lists])}")
        body.close()
        body(f"{', '.join([states, *more])} = checkpoint({some}_made, {states}, use_reentrant=False)")
        for listed, found in zip(lists, more, strict=True):
            body(f"{listed} += {found}")
        body.close()
        self.helpers.add("checkpoint")

    def _round(self, chain: SegmentedModule, tensors: Mapping[str, str], results: Mapping[str, str]) -> None:
        """Writes the pieces of one round: `tensors` are what it is given, by the keys of the chain, and `results` the
        names of what it makes.
        """
        around, module = self.inner, self.module
        inner = {key: self.names.fresh(key) for key in chain.whole.buffers if key not in tensors}
        inner |= {key: self.names.fresh(key) for key, text in tensors.items() if not text.isidentifier()}
        for key in inner.keys() & tensors.keys():
            self.body(f"{inner[key]} = {tensors[key]}")
        self.inner = {**tensors, **inner}
        named = {name: self.naming.named(chain.whole.buffers[key], name) for key, name in self.inner.items()}
        self.module = replace(module, buffers={**module.buffers, **named})
        self.write(chain, ("_round", "_round", "_round"))
        made = {name: self.inner[key] for key, name in results.items()}
        self.body(f"{', '.join(made)} = {', '.join(made.values())}")
        self.inner, self.module = around, module
