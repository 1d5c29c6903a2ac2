"""A gradient as two operators of torch: their functions, what torch calls between them,
and what makes both known to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from einc.backends.host.inputs import given_sizes
from einc.backends.host.loops import Dialect
from einc.backends.host.naming import named
from einc.backends.host.operators import LIST, Operator, Steps, function, live, operator, registered, unpacked
from einc.backends.writer import folded
from einc.ir.plan import Gradient, Module

# What torch calls the arguments of the functions that it calls, and what these call their own.
_OWN = {"ctx", "inputs", "output", "cotangents", "wanted", "made", LIST}

Apart = Callable[[str, bool], Steps]


class Pair:
    """The two operators of a gradient. `stem` begins the names of both; without gradients there is no second one."""

    def __init__(self, gradient: Gradient, stem: str, dialect: Dialect, helpers: set[str], taken: set[str],
                 also: Iterable[str] = (), apart: Apart | None = None) -> None:
        """Writes both operators; adds the helpers that they call to `helpers`, and the
        names that they use to `taken`. No name of theirs is one of `also`. `apart` says what writes the steps of the
        function of a name where these do not stand in it, and whether elements have been checked there."""
        self.gradient, self.stem = gradient, stem
        forward, backward = named(gradient.forward, {*_OWN, *also}), named(gradient.backward, {*_OWN, *also})
        made = [key for _, key in forward.module.outputs]
        seen, kept = made[: len(gradient.shown)], made[len(gradient.shown) :]
        told = f"{_listed(seen)}{f'; {_listed(kept)} for the gradients' if kept else ''}."
        first, second = (f"{stem}_forward", f"{stem}_backward")
        self.forward = operator(forward, first, told, dialect, helpers, taken,
                                written=None if apart is None else apart(first, False))
        self.backward: Operator | None = None
        if gradient.gradients:
            told = f"The gradients of {_listed([key for key, _ in gradient.gradients])}."
            self.backward = operator(backward, second, told, dialect, helpers, taken, checked=True,
                                     written=None if apart is None else apart(second, True))
            helpers |= {"_wanted"} if self.backward.chosen and not self.forward.listed else set()
        self.plain: Operator | None = None
        if gradient.plain is not None:
            told = f"{_listed(seen)}, where no gradient is asked."
            self.plain = operator(named(gradient.plain, _OWN), f"{stem}_plain", told, dialect, helpers, taken)
            helpers.add("_asked")
        helpers |= {"_operator", "_free"} | ({"_filled"} if self.backward else {"_constant"})

    def functions(self) -> list[str]:
        """The two halves, and the forward one without the other."""
        halves = (self.plain, self.forward, self.backward)
        return [line for half in halves if half is not None for line in [*half.lines, *half.functions]]

    def call(self, tensors: Sequence[str], sizes: Mapping[str, str], targets: Mapping[str, str]) -> list[str]:
        """The statements that call it. What goes in, in order; sizes by what the spec
        calls them; results by their keys."""
        lines = self._called(self.forward, self.gradient.forward, tensors, sizes, targets)
        if self.plain is None or self.gradient.plain is None:
            return lines
        other = self._called(self.plain, self.gradient.plain, tensors, sizes, targets)
        test = folded(f"if _asked({', '.join(tensors)}):", 122)
        return [*test, *(f"    {line}" for line in lines), "else:", *(f"    {line}" for line in other)]

    def _called(
        self, half: Operator, module: Module, tensors: Sequence[str], sizes: Mapping[str, str],
        targets: Mapping[str, str]
    ) -> list[str]:
        key = {inner: key for key, inner in self.outputs(module, half).items()}
        made = ", ".join(targets.get(key[x], "_") for x in half.results)
        given = [sizes[half.naming.declared[x]] for x in half.given]
        return folded(f"{made} = {half.called(tensors, given)}", 122)

    def glue(self) -> list[str]:
        """What makes results without elements, what is saved, and what becomes of cotangents."""
        lines = [*(self.plain.shapes() if self.plain is not None else []), *self.forward.shapes()]
        if self.backward is not None:
            lines += [*self.backward.shapes(), *self.rules()]
        return lines

    def rules(self) -> list[str]:
        """What torch calls after the first half, and with the cotangents."""
        return [] if self.backward is None else [*self._save(self.backward), *self._derive(self.backward)]

    def registered(self) -> list[str]:
        """The statements that make operators of the functions."""
        forward, backward, stem = self.forward, self.backward, self.stem
        if backward is None:
            return registered(forward, stem, ["_constant"])
        first = [] if self.plain is None else registered(self.plain, f"{stem}_plain", [])
        first += registered(backward, f"{stem}_backward", [])
        return first + registered(forward, stem, [f"{stem}_save", f"{stem}_derive"])

    # what torch calls

    def outputs(self, module: Module, made: Operator) -> dict[str, str]:
        """The outputs of a half by their keys, as its operator calls them."""
        return {key: inner for (_, key), (_, inner) in zip(module.outputs, made.naming.module.outputs, strict=True)}

    def _read(self, backward: Operator) -> tuple[dict[str, str], dict[str, str]]:
        """What the backward operator reads of the forward one, and cotangents of what: by its own names."""
        inputs = dict(zip((t.key for t in self.gradient.forward.inputs), self.forward.tensors, strict=True))
        outputs = self.outputs(self.gradient.forward, self.forward)
        mine = dict(zip((t.key for t in self.gradient.backward.inputs), backward.tensors, strict=True))
        saved, cotangents = ({b: a for a, b in pairs} for pairs in (self.gradient.saved, self.gradient.cotangents))
        kept = {mine[key]: outputs[saved[key]] if key in saved else inputs[key] for key in mine
                if key not in cotangents}
        return kept, {mine[key]: outputs[cotangents[key]] for key in mine if key in cotangents}

    def _save(self, backward: Operator) -> list[str]:
        """The function that torch calls after the forward operator: it keeps in `ctx` what the backward operator reads,
        and the shape, type and device of each result that has a cotangent.
        """
        forward, (kept, cotangents) = self.forward, self._read(backward)
        inner = {name: key for key, name in forward.naming.declared.items()}
        sizes = [inner[backward.naming.declared[size]] for size in backward.given]
        still = [x for x in forward.results if x not in cotangents.values()]
        lines = given_sizes(forward.naming, forward.given, [])
        lines += folded(f"ctx.save_for_backward({', '.join(kept.values())})", 126)
        lines += folded(f"ctx.like = "
                        f"[{', '.join(f'({x}.shape, {x}.dtype, {x}.device)' for x in cotangents.values())}]", 126)
        lines += [f"ctx.sizes = [{', '.join(sizes)}]"] if sizes else []
        lines += [f"ctx.mark_non_differentiable({', '.join(still)})"] if still else []
        lines = [*live(lines), "ctx.set_materialize_grads(False)"]
        first = unpacked(forward.tensors, LIST, lines) if forward.listed else []
        read = [*unpacked(forward.parameters, "inputs", [*lines, *first]), *first,
                *unpacked(forward.results, "output", lines)]
        return function(f"{self.stem}_save", ["ctx", "inputs", "output"], "What the gradients are computed from.",
                        [*read, *lines])

    def _derive(self, backward: Operator) -> list[str]:
        """The function that torch calls with the cotangents: it calls the backward operator and returns a gradient, or
        None, for each argument of the forward one.
        """
        kept, cotangents = self._read(backward)
        order = {name: n for n, name in enumerate(self.forward.results)}
        lines = [f"{name} = _filled(cotangents[{order[of]}], ctx.like[{n}])"
                 for n, (name, of) in enumerate(cotangents.items())]
        more = ["*ctx.sizes"] * bool(backward.given) + ["wanted"] * bool(backward.chosen)
        outputs = self.outputs(self.gradient.backward, backward)
        gradients = {key: outputs[made] for key, made in self.gradient.gradients}
        returned = [gradients.get(t.key, "None") for t in self.gradient.forward.inputs]
        rest = ["None"] * len(self.forward.given)
        asked, listed = "ctx.needs_input_grad" + "[0]" * self.forward.listed, self.forward.listed
        if backward.chosen:
            places = ", ".join(str(returned.index(x)) for x in backward.results)
            lines.append(f"wanted = sum({asked}[at] << n for n, at in enumerate(({places})))")
        lines.append(f"{', '.join(backward.results)} = {backward.called(backward.tensors, more)}")
        made = ", ".join(returned if listed else [*returned, *rest])
        if listed and backward.chosen:
            lines.append(f"made = [x if needed else None for x, needed in zip(({made},), {asked})]")
        made = (("made" if backward.chosen else f"[{made}]") if listed
                else f"_wanted(ctx, {made})" if backward.chosen else made)
        lines.append(f"return {', '.join([made, *rest] if listed else [made])}")
        lines = [part for line in lines for part in folded(line, 126)]
        read = unpacked(list(kept), "ctx.saved_tensors", lines)
        text = "The gradients of what went in, one for each argument."
        return function(f"{self.stem}_derive", ["ctx", "*cotangents"], text, [*read, *lines])


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
