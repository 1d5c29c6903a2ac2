"""Which axes run over one set: found by joining those that a string, a name or a sum says are the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import Dimension, told
from einc.errors.problems import ShapesDiffer
from einc.errors.report import Label, Span


@dataclass
class Sets:
    """The sets of axes, by numbers. One has a size, or parts whose pairs it is made of, or neither yet."""

    known: Known
    parents: list[int] = field(default_factory=list)
    sizes: dict[int, str] = field(default_factory=dict)
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)  # the letter of an axis in the text, "" where it has none

    def new(self, span: Span, hint: str = "") -> int:
        """A set of which nothing is known."""
        self.parents.append(len(self.parents))
        self.spans.append(span)
        self.hints.append(hint)
        return len(self.parents) - 1

    def sized(self, size: str, span: Span, hint: str = "") -> int:
        """The set of a size, which may be made of others."""
        made = self.new(span, hint)
        if size in self.known.parts:
            self.parts[made] = tuple(self.sized(x, span) for x in self.known.parts[size])
        else:
            self.sizes[made] = size
        return made

    def composite(self, parts: tuple[int, ...], span: Span) -> int:
        """The set of the tuples of some sets."""
        if len(parts) == 1:
            return parts[0]
        made = self.new(span)
        self.parts[made] = parts
        return made

    def composed(self, axis: int) -> bool:
        """Whether a set is one of tuples of others."""
        return self.root(axis) in self.parts

    def root(self, axis: int) -> int:
        """The number that stands for a set."""
        while self.parents[axis] != axis:
            axis = self.parents[axis]
        return axis

    def join(self, first: int, second: int) -> None:
        """Notes that two axes run over one set. Raises ShapesDiffer."""
        one, two = self.root(first), self.root(second)
        if one == two:
            return
        if one in self.parts and two in self.parts and len(self.parts[one]) == len(self.parts[two]):
            for a, b in zip(self.parts[one], self.parts[two], strict=True):
                self.join(a, b)
        elif self._said(one) and self._said(two) and self.sizes.get(one) != self.sizes.get(two, ""):
            raise ShapesDiffer(
                f"this axis runs over {self._told(two)}, and over {self._told(one)} elsewhere", self.spans[second],
                "", Label(self.spans[first], "here"))
        if self._holds(one, two) or self._holds(two, one):
            raise ShapesDiffer("this axis is a part of itself", self.spans[second], "",
                               Label(self.spans[first], "here"))
        # What is known, and else the letter that came first, stands for both.
        kept, gone = (two, one) if self._said(two) and not self._said(one) else (one, two)
        self.parents[gone] = kept
        self.hints[kept] = self.hints[kept] or self.hints[gone]

    def _holds(self, whole: int, root: int) -> bool:
        """Whether a set is made of another one and more."""
        return any(self.root(x) == root or self._holds(self.root(x), root) for x in self.parts.get(whole, ()))

    def _said(self, root: int) -> bool:
        return root in self.sizes or root in self.parts

    def _told(self, root: int) -> str:
        return f"`{told(self.dimension(root))}`"

    def dimension(self, axis: int) -> Dimension:
        """The sizes of a set; of one without a size the number that stands for it."""
        root = self.root(axis)
        if root in self.parts:
            return tuple(x for part in self.parts[root] for x in self.dimension(part))
        return (self.sizes.get(root, f"?{root}"),)

    def open(self) -> list[int]:
        """The sets of which nothing says the size."""
        roots = dict.fromkeys(self.root(x) for x in range(len(self.parents)))
        return [x for x in roots if not self._said(x)]
