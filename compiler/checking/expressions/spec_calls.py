"""`spec(X = H_t^f)`: a spec as a function of its inputs, by their Python names.

Its extents that an argument ties are the caller's; the others keep their names. What it
is not given is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from einc.checking.declarations.names import head, size_name
from einc.checking.declarations.scope import Called
from einc.checking.declarations.sets import extent_of
from einc.checking.expressions.splice import Copy, Given, mentioned
from einc.checking.expressions.values import Context, Occurrence, Value, once
from einc.errors.problems import CannotCall, DefinedTwice, NotYet, PartialOutput, WrongArguments, WrongSet, WrongType
from einc.errors.report import Help, Span
from einc.ir.indices import Extent, Index, IndexSet, number, size
from einc.ir.programs import Slot, Tensor
from einc.ir.terms import TRUE, Position, Read, Size, Term, free_indices, substitute, walk
from einc.syntax import tree as s
from einc.syntax.spelling import nearest


def is_spec_call(group: s.Group) -> bool:
    """Whether what stands in the parentheses is given by name."""
    return not group.items or any(isinstance(x, s.Relation) and x.operators[0] in ("=", ":=") for x in group.items)


def spec_name(node: s.Expression) -> str | None:
    """The name of the file without its ending; in quotes it may hold more than letters."""
    return node.text if isinstance(node, s.Word) else size_name(node)


def spec_call(context: Context, name: str, group: s.Group, span: Span) -> Value:
    """The value of the only output of a called spec. Raises CannotCall or NotYet."""
    if context.inside.letters is not None or context.scope.texts.library is None:
        raise CannotCall(f"`{span.text}` stands in a definition, which sees its parameters and other definitions "
                         f"alone", span,
                         helps=(Help("call the spec in an equation"),))
    called = context.scope.texts.library(name, span)
    outputs = called.program.outputs
    if len(outputs) != 1:
        listed = ", ".join(f"`{o}`" for o, _ in outputs)
        raise CannotCall(f"`{name}` has {len(outputs)} outputs, and a call is of one: {listed}", span,
                         notes=(f"`{name}(…).{outputs[0][0]}` is not in the language",) if outputs else (),
                         helps=(Help("write a spec that `use`s it and has one `output`"),))
    if any(slot.set.packed is not None for t in called.program.tensors.values() for slot in t.slots):
        raise NotYet(f"`{name}` has positions of requests, and such a spec is not called yet", span,
                     helps=(Help(f"build on its lines instead: `use \"{name}\"`"),))
    return _Call(context, name, called, span).value(group)


@dataclass
class _Call:
    """A call while its arguments are read."""

    context: Context
    name: str
    called: Called
    span: Span
    sizes: dict[str, Extent] = field(default_factory=dict)
    given: dict[str, Given] = field(default_factory=dict)
    # slots of inputs, and what stands there
    tied: dict[tuple[str, IndexSet], list[Index]] = field(default_factory=dict)
    levels: dict[Index, Occurrence] = field(default_factory=dict)
    values: dict[str, tuple[Tensor, Value, tuple[Index, ...], s.Expression]] = field(default_factory=dict)

    def value(self, group: s.Group) -> Value:
        """The output, read at the indices that the arguments and the left side give. Raises CannotCall."""
        for item in group.items:
            self._argument(item)
        self._tie()
        for key, (tensor, value, slots, node) in self.values.items():
            self._given(key, tensor, value, slots, node)
        program, scope = self.called.program, self.context.scope
        layer = self.context.loop.layer
        (_, key), = program.outputs
        output = program.tensors[key]
        letters = self._letters(output)
        self._fix()
        copy = Copy(self.called, scope, self.context.made, self.name.rsplit("/")[-1].replace("-", "_"), self.span,
                    self.given,
                    self.sizes, layer)
        copy.spliced()
        if key in self.given or output.role != "local":
            raise CannotCall(f"`{self.name}` returns what it is given", self.span,
                             helps=(Help("write it without the call"),))
        extra = copy.extra[key]
        free = {i: (self.levels.get(i, Occurrence("label", self.span)),) for i in extra}
        free |= {i: (Occurrence(slot.level, self.span, self.span),)
                 for i, slot in zip(letters, output.slots, strict=True)}
        equation = program.equation(key)
        domain: Term = TRUE
        if equation is not None and equation.domain != TRUE:
            by = dict(zip(map(copy.index, equation.indices), map(Position, letters), strict=True))
            domain = substitute(copy.term(equation.domain), by)
        return Value(Read(copy.keys[key], (*map(Position, extra), *map(Position, letters))), domain, free,
                     integer=output.integer)

    # what is given

    def _argument(self, item: s.Expression) -> None:
        """Reads one `name = value` of the call as an input or an extent; raises for an unknown or repeated name."""
        if not isinstance(item, s.Relation) or item.operators[0] not in ("=", ":=") or len(item.operands) != 2:
            raise WrongArguments(f"`{item.span.text}` is given without a name", item.span,
                                 helps=(Help(f"a spec is called by names: `{self.name}({self._example()} = …)`"),))
        left, node = item.operands
        wanted = size_name(left) or (left.text if isinstance(left, s.Word) else left.span.text)
        inputs = {t.key: t for t in self.called.program.inputs()}
        declared = head(left)
        if wanted not in inputs and declared is not None and declared[0].python in inputs:
            wanted = declared[0].python  # `H'' = …` for what Python calls H_prime2
        if wanted in self.given or wanted in self.values or wanted in self.sizes:
            raise DefinedTwice(f"`{wanted}` is given twice", left.span, helps=(Help("leave out one of the two"),))
        if wanted in inputs:
            self._tensor(inputs[wanted], node)
        elif wanted in self._extents():
            extent = extent_of(node)
            self.context.scope.add_extent_sizes(extent, node.span)
            self.sizes[wanted] = extent
        else:
            near = nearest(wanted, list(inputs))
            listed = ", ".join(f"`{key}`" for key in inputs)
            raise WrongArguments(f"`{wanted}` is no input of `{self.name}`", left.span,
                                 notes=(f"its inputs are {listed}",),
                                 helps=(Help(f"write `{near}`" if near else "leave it out"),))

    def _example(self) -> str:
        return next((t.key for t in self.called.program.inputs()), "X")

    def _extents(self) -> dict[str, None]:
        """The sizes that the called spec speaks of."""
        program = self.called.program
        extents = [slot.set.extent for t in program.tensors.values() for slot in t.slots]
        terms = (t for e in program.equations for root in (e.domain, e.body) for t in walk(root))
        extents += [i.set.extent for e in program.equations for t in (e.domain, e.body) for i in mentioned(t)]
        extents += [t.extent for t in terms if isinstance(t, Size)]
        return dict.fromkeys(n for extent in extents for n in sorted(extent.sizes))

    def _tensor(self, tensor: Tensor, node: s.Expression) -> None:
        """Reads the value of an input into `self.values`; it must exist everywhere and be integer if the input is.
        Raises NotYet, PartialOutput or WrongType."""
        value = self._placed(once(self.context.value(node)), node)
        if any(index.set.by for index in value.free):
            raise NotYet(f"`{self.name}` is called on positions of requests, which this release does not compile",
                         node.span,
                         helps=(Help(f"build on its lines instead: `use \"{self.name}\"`"),))
        if value.domain != TRUE:
            raise PartialOutput(f"what `{tensor.key}` is given does not exist everywhere", node.span,
                                helps=(Help("reduce over the restricted index, or multiply by an indicator `1[…]`"),))
        if tensor.integer and not value.integer:
            raise WrongType(f"`{tensor.key}` of `{self.name}` holds integers, and `{node.span.text}` does not",
                            node.span,
                            helps=(Help("give a tensor that is declared `: int`"),))
        self.values[tensor.key] = (tensor, value, self._matched(tensor, value, node), node)

    def _placed(self, value: Value, node: s.Expression) -> Value:
        """The value with every index that it varies over, those that stand in a domain
        alone too; what counts rounds is none."""
        free = {i: found for i, found in value.free.items() if i not in self.context.loop.layer}
        rest = free_indices(value.term).difference(free, self.context.loop.layer)
        more = {i: (Occurrence("lower", node.span),) for i in sorted(rest, key=lambda i: i.name)}
        return replace(value, free={**more, **free})

    def _matched(self, tensor: Tensor, value: Value, node: s.Expression) -> tuple[Index, ...]:
        """The caller's index for each slot of an input: class by class, in order. Raises the problem of `_unmatched`
        where there are too few, or where they have other names."""
        free = sorted(value.free, key=lambda i: value.free[i][0].level != "lower")
        out: dict[int, Index] = {}
        for cls in dict.fromkeys(slot.set.cls for slot in tensor.slots):
            places = [n for n, slot in enumerate(tensor.slots) if slot.set.cls == cls]
            mine = [i for i in free if i.set.cls == cls]
            if len(mine) > len(places):
                named = {i.name: i for i in mine}
                if not all(tensor.slots[n].name in named for n in places):
                    raise self._unmatched(tensor, value, node, [i.name for i in mine])
                mine = [named[tensor.slots[n].name] for n in places]
            if len(mine) < len(places):
                raise self._unmatched(tensor, value, node, [])
            out.update(zip(places, mine, strict=True))
        return tuple(out[n] for n in range(len(tensor.slots)))

    def _unmatched(self, tensor: Tensor, value: Value, node: s.Expression, many: list[str]) -> WrongArguments:
        wanted = ", ".join(f"`{slot.name}` over {slot.set}" for slot in tensor.slots) or "no index"
        found = ", ".join(f"`{i}` over {i.set}" for i in value.free) or "no index"
        message = f"`{tensor.key}` of `{self.name}` has other indices than `{node.span.text}`"
        way = (f"give the index that is meant the letter that `{self.name}` gives it" if many
               else "give a value with these indices")
        return WrongArguments(message, node.span, notes=(f"`{tensor.key}` has {wanted}; given is {found}",),
                              helps=(Help(way),))

    def _tie(self) -> None:
        """Finds the extents of the spec that the arguments fix, plain names before expressions. Writes their values
        into `self.tied` and `self.sizes`."""
        pairs = [(slot, index, node) for tensor, _, slots, node in self.values.values()
                 for slot, index in zip(tensor.slots, slots, strict=True)]
        pairs.sort(key=lambda pair: pair[0].set.extent not in map(size, pair[0].set.extent.sizes))
        for slot, index, node in pairs:
            self._unify(slot, index, node)
            self.tied.setdefault((slot.name, slot.set), []).append(index)

    def _unify(self, slot: Slot, index: Index, node: s.Expression) -> None:
        """Adds the extents that the index determines to `self.sizes`; raises WrongSet if the two sets differ."""
        mine, theirs = slot.set.extent, index.set.extent
        open_ = [n for n in mine.sizes if n not in self.sizes]
        if len(open_) == 1 and mine.put(self.sizes) != theirs:
            # c · name = theirs, where the others in it are known.
            factor = mine.put(self.sizes).over(size(open_[0]))
            if factor is not None and open_[0] not in factor.sizes and (solved := theirs.over(factor)) is not None:
                self.sizes[open_[0]] = solved
        self.sizes |= {n: size(n) for n in open_ if n not in self.sizes and mine.put(self.sizes) == theirs}
        if mine.put(self.sizes) != theirs or slot.set.start != index.set.start:
            raise WrongSet(f"`{index}` runs over {index.set}, where `{self.name}` has {slot.set}", node.span,
                           notes=tuple(f"`{n}` of `{self.name}` is {self.sizes[n]} here" for n in sorted(mine.sizes)
                                       if n in self.sizes and self.sizes[n] != size(n)),
                           helps=(Help("give a value over the same set"),))

    def _given(self, key: str, tensor: Tensor, value: Value, slots: tuple[Index, ...], node: s.Expression) -> None:
        named = self.context.let(tensor.key, value, node.span.text)
        extra = tuple(i for i in value.free if i not in slots)
        if len(set(slots)) < len(slots):
            raise self._unmatched(tensor, value, node, [])
        missing = set(slots) - free_indices(named.term)
        if missing:
            raise self._unmatched(tensor, value, node, [])
        self.levels.update((i, value.free[i][0]) for i in extra)
        self.given[key] = Given(named.term, slots, extra)

    def _fix(self) -> None:
        """Fixes for the caller the sizes that the called spec fixes. Raises WrongSet where they are others."""
        scope = self.context.scope
        for name, fixed in self.called.program.sizes.items():
            extent = self.sizes.get(name, size(name))
            plain = next(iter(extent.sizes)) if extent in map(size, extent.sizes) else ""
            if plain:
                extent = number(scope.numbers.fixed.setdefault(plain, fixed))
                scope.numbers.sizes.setdefault(plain, self.span)
            if extent != number(fixed):
                raise WrongSet(f"`{self.name}` fixes `{name}` to {fixed}, which is {extent} here", self.span,
                               helps=(Help("give a value over the same set"),))
        for name in self._extents():
            scope.add_extent_sizes(self.sizes.get(name, size(name)), self.span)

    # what comes back

    def _letters(self, output: Tensor) -> tuple[Index, ...]:
        """The caller's index for each slot of the output. Raises CannotCall."""
        out: list[Index] = []
        for slot in output.slots:
            over = replace(slot.set, extent=slot.set.extent.put(self.sizes))
            index = self._letter(slot, over, out) or self._left(slot, out)
            if index is None:
                raise CannotCall(f"nothing says which index stands in the slot `{slot.name}` of what `{self.name}` is",
                                 self.span,
                                 notes=(f"it runs over {over}",),
                                 helps=(Help("declare an index over this set, and write it on the left of its own "
                                             "equation"),))
            out.append(index)
        return tuple(out)

    def _left(self, slot: Slot, taken: list[Index]) -> Index | None:
        """The only index of the class that is left on the left side, where it fixes an
        extent that nothing else does."""
        open_ = [n for n in slot.set.extent.sizes if n not in self.sizes]
        bound = {i for found in self.tied.values() for i in found}
        mine = [i for i in self.context.left or () if i not in bound and i not in taken and i.set.cls == slot.set.cls]
        if len(mine) != 1 or slot.set.extent not in map(size, open_) or mine[0].set.start != slot.set.start:
            return None
        self.sizes[open_[0]] = mine[0].set.extent
        return mine[0]

    def _letter(self, slot: Slot, over: IndexSet, taken: list[Index]) -> Index | None:
        """The index of the argument in a slot of this letter, else the only one left of
        the left side, else one by its name."""
        tied = dict.fromkeys(self.tied.get((slot.name, slot.set), ()))
        if len(tied) == 1 and (only := next(iter(tied))) not in taken:
            return only
        bound = {i for found in self.tied.values()
                 for i in found} | {i for given in self.given.values() for i in given.extra}
        for candidates in (
            [i for i in self.context.left or () if i not in bound],
            [i for i in (self.context.vocabulary(frozenset()).index(slot.name),) if i is not None and i not in bound],
            sorted(bound, key=lambda i: i.name),
        ):
            mine = _over(candidates, over, taken)
            if len(mine) == 1:
                return mine[0]
        return None


def _over(indices: Iterable[Index], over: IndexSet, taken: list[Index]) -> list[Index]:
    return [i for i in indices if i.set == over and i not in taken]
