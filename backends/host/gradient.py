"""A module and its gradient -> the text of one file, whose halves are operators of torch.

So what it computes is compiled, exported, checkpointed and differentiated as torch's own operators are. The caller's function
looks at shapes and types alone: what looks at elements stands inside the operators, which run only where tensors have some.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from einc.backends.host.inputs import check_shapes, given_sizes
from einc.backends.host.module import Dialect, called, head, result, signature
from einc.backends.host.naming import Named, named
from einc.backends.host.operators import Operator, function, live, operator, unpacked
from einc.backends.host.shell import write_shell
from einc.backends.writer import Writer, folded, identifier
from einc.plan import Gradient, Module, Shell

_OWN = {"ctx", "inputs", "output", "cotangents"}  # what torch calls the arguments of the functions that it calls
_NOTES = (
    "",
    "Results have gradients, and gradients have none of their own. Under torch.autocast real inputs, but for float64, are taken",
    "in its type, and nothing is cast again inside.",
)


def write_gradient(gradient: Gradient, dialect: Dialect, shell: Shell | None = None) -> str:
    """The whole file; with a shell, a class around the function too."""
    helpers, body = {"_expect"}, Writer(depth=1)
    pair = Pair(gradient, "", dialect, helpers, set())
    shown, asked = _entry(pair, body, helpers)
    lines = [*pair.functions(), *dialect.definitions()]
    texts = called(helpers, dialect, "\n".join([body.text, *lines]))
    glue = pair.glue()
    out = Writer()
    head(shown, dialect, out, "\n".join([body.text, *lines, *texts, *glue]), _NOTES)
    signature(shown, out, asked)
    out.lines += body.lines
    if shell is not None:
        out.lines += write_shell(shown, shell, asked, trained=True)
    out.lines += lines
    for text in texts:
        out()
        out.lines += text.rstrip().split("\n")
    out.lines += glue
    digest = hashlib.sha256(out.text.encode()).hexdigest()[:8]
    out.lines += ["", "", '_library = torch.library.Library("einc", "FRAGMENT")']
    out.lines += [f'_name = _free("{identifier(gradient.forward.name)}_{digest}")', *pair.registered("_name")]
    return out.text


def _entry(pair: Pair, body: Writer, helpers: set[str]) -> tuple[Named, list[str]]:
    """The statements of the caller's function; the module as the caller sees it, and the sizes that the caller gives."""
    naming = pair.forward.naming
    outputs = naming.module.outputs[: len(pair.gradient.shown)]
    shown = replace(naming, module=replace(naming.module, outputs=outputs), outputs=naming.outputs[: len(outputs)])
    floats = ", ".join(t.key for t in naming.module.inputs if not t.integer)
    if floats:
        helpers.add("_cast")
        body(f"{floats}{'' if ', ' in floats else ','} = _cast({floats})")
    asked, _ = check_shapes(naming, body, helpers, [])
    body()
    call = f"{pair.forward.handle}({', '.join(pair.forward.parameters)})"
    if len(pair.forward.results) == 1:
        body.lines += folded(f"    return {call}")
        return shown, asked
    returned = f"return {result(shown.module)}"
    body.lines += [f"    {line}" for line in unpacked(pair.forward.results, call, [returned])]
    body(returned)
    return shown, asked


class Pair:
    """The two operators of a gradient, and what torch calls between them. `stem` begins the names of both."""

    def __init__(self, gradient: Gradient, stem: str, dialect: Dialect, helpers: set[str], taken: set[str]) -> None:
        self.gradient, self.stem = gradient, stem
        forward, backward = named(gradient.forward, _OWN), named(gradient.backward, _OWN)
        made = [key for _, key in forward.module.outputs]
        seen, self.hidden = made[: len(gradient.shown)], made[len(gradient.shown) :]
        told = f"{_listed(seen)}{f'; {_listed(self.hidden)} for the gradients' if self.hidden else ''}."
        self.forward = operator(forward, f"{stem}_forward", told, dialect, helpers, taken)
        told = f"The gradients of {_listed([key for key, _ in gradient.gradients])}."
        self.backward = operator(backward, f"{stem}_backward", told, dialect, helpers, taken, checked=True)
        helpers |= {"_filled", "_operator", "_uncast", "_once", "_free"}

    def functions(self) -> list[str]:
        """The two halves."""
        return [line for half in (self.forward, self.backward) for line in [*half.lines, *half.functions]]

    def glue(self) -> list[str]:
        """What makes results without elements, what is saved, and what becomes of cotangents."""
        return [*self.forward.shapes(), *self.backward.shapes(), *self._save(), *self._derive()]

    def registered(self, name: str) -> list[str]:
        """The statements that make operators of the functions."""
        forward, backward, stem = self.forward, self.backward, self.stem
        lines = [f"{backward.handle} = _operator(", f'    {name} + "_backward",', f'    "{backward.schema}",']
        lines += [f"    {backward.name}, {backward.fake},", ")", f"{forward.handle} = _operator("]
        lines += [f"    {name},", f'    "{forward.schema}",']
        return [*lines, f"    {forward.name}, {forward.fake}, {stem}_save, {stem}_derive,", ")"]

    # what torch calls

    def _parts(self) -> tuple[dict[str, str], dict[str, str]]:
        """What the backward operator reads of the forward one: inputs of the first, by the names of the second."""
        inputs = dict(zip((t.key for t in self.gradient.forward.inputs), self.forward.tensors, strict=True))
        outputs = _inner(self.gradient.forward, self.forward)
        mine = dict(zip((t.key for t in self.gradient.backward.inputs), self.backward.tensors, strict=True))
        saved, cotangents = ({b: a for a, b in pairs} for pairs in (self.gradient.saved, self.gradient.cotangents))
        kept = {mine[key]: outputs[saved[key]] if key in saved else inputs[key] for key in mine if key not in cotangents}
        return kept, {mine[key]: outputs[cotangents[key]] for key in mine if key in cotangents}

    def _save(self) -> list[str]:
        forward, (kept, cotangents) = self.forward, self._parts()
        lines = given_sizes(forward.naming, forward.given, [])
        inner = {name: key for key, name in forward.naming.declared.items()}
        sizes = [inner[self.backward.naming.declared[size]] for size in self.backward.given]
        lines += [f"ctx.save_for_backward({', '.join(kept.values())})"]
        lines += folded(f"ctx.like = [{', '.join(f'({x}.shape, {x}.dtype, {x}.device)' for x in cotangents.values())}]", 126)
        lines += [f"ctx.sizes = [{', '.join(sizes)}]"] if sizes else []
        lines += [f"ctx.mark_non_differentiable({', '.join(self.hidden)})"] if self.hidden else []
        lines = live(lines)
        lines.append("ctx.set_materialize_grads(False)")
        read = unpacked(forward.parameters, "inputs", lines)
        read += unpacked(forward.results, "output", lines)
        return function(f"{self.stem}_save", ["ctx", "inputs", "output"], "What the gradients are computed from.", [*read, *lines])

    def _derive(self) -> list[str]:
        backward, (kept, cotangents) = self.backward, self._parts()
        order = {name: n for n, name in enumerate(self.forward.results)}
        lines = [f"{name} = _filled(cotangents[{order[of]}], ctx.like[{n}])" for n, (name, of) in enumerate(cotangents.items())]
        made = ", ".join(backward.results)
        sizes = ["*ctx.sizes"] if backward.given else []
        lines.append(f"{made} = {backward.handle}({', '.join([*backward.tensors, *sizes])})")
        outputs = _inner(self.gradient.backward, backward)
        gradients = {key: outputs[made] for key, made in self.gradient.gradients}
        returned = [gradients.get(t.key, "None") for t in self.gradient.forward.inputs] + ["None"] * len(self.forward.given)
        lines.append(f"return {', '.join(returned)}")
        lines = [part for line in lines for part in folded(line, 126)]
        read = unpacked(list(kept), "ctx.saved_tensors", lines)
        text = "The gradients of what went in, one for each argument."
        return function(f"{self.stem}_derive", ["ctx", "*cotangents"], text, [*read, *lines])


def _inner(module: Module, made: Operator) -> dict[str, str]:
    """The outputs of a module by their keys, as its operator calls them."""
    return {key: inner for (_, key), (_, inner) in zip(module.outputs, made.naming.module.outputs, strict=True)}


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
