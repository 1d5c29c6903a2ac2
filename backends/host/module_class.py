"""A class around the emitted function: weights as parameters of a torch module, which asks for the rest at the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einc.backends.host.contractions import element
from einc.backends.host.naming import Named, class_name, entry_name, tuple_name
from einc.backends.writer import Names, Writer, folded, sized
from einc.ir.indices import Extent
from einc.ir.plan import ModuleClass, Weight
from einc.ir.programs import Tensor

# What every module has: an attribute of that name would hide it.
TAKEN = frozenset({
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu",
    "cuda",
    "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer", "get_extra_state",
    "get_parameter",
    "get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children",
    "named_modules",
    "named_parameters", "parameters", "register_backward_hook", "register_buffer", "register_forward_hook",
    "register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook",
    "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_module", "register_parameter",
    "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_", "set_extra_state",
    "set_submodule",
    "_sizes", "_mesh",
    "_flat", "share_memory", "state_dict", "to", "to_empty", "train", "training", "type", "xpu", "zero_grad",
    "self",
})  # fmt: skip

# Torch takes numbers of 8 bits with an exponent for real ones like all others, which `half` and `to` convert.
_STORED = '''\
def _apply(self, fn, recurse=True):
    """What `half`, `to` and their like do to the weights: those of few bits keep their type."""
    def kept(x):
        made = fn(x)
        return made if x.element_size() > 1 or made.dtype == x.dtype else x.to(made.device)

    return super()._apply(kept, recurse)

'''

_SCALAR = "torch.Tensor | float | None"  # of a scalar input, which a call may leave out


@dataclass(frozen=True)
class Spread:
    """How weights lie on a mesh, each as an expression, and what a caller calls the mesh. What is cut in a composite
    behind a part of it is a weight with two axes in place of one: `apart` has the axis and the extent of that part.
    `axes` is what the file calls the axes of the mesh.
    """

    placed: Mapping[str, str]
    apart: Mapping[str, tuple[int, Extent]]
    mesh: str
    axes: str = "MESH"


@dataclass(frozen=True)
class Staged:
    """What a stage is given by the one before, the first of its inputs; others come by their names, with those of other
    stages.
    """

    handed: tuple[str, ...]


def write_class(naming: Named, module_class: ModuleClass, asked: list[str], trained: bool = False,
                spread: Spread | None = None, staged: Staged | None = None) -> list[str]:
    """The lines of the class, after the function that it calls; `trained` where gradients pass through that. On a mesh
    of devices, `spread`, the inputs of the module are whole, and each rank has its part of the weights.
    """
    out = Writer()
    written = _Class(naming, module_class, asked, out, spread, staged)
    written.write("gradients reach them" if trained else "no gradient flows")
    return out.lines


class _Class:
    """The pieces of one class."""

    def __init__(self, naming: Named, module_class: ModuleClass, asked: list[str], out: Writer,
                 spread: Spread | None = None, staged: Staged | None = None) -> None:
        """Names the attributes."""
        self.naming, self.module_class, self.asked, self.out, self.spread = naming, module_class, asked, out, spread
        self.staged = staged
        inputs = naming.module.inputs
        self.weights = [t for t in inputs if t.role == "weight"]
        self.scalars = [t for t in inputs if t.role == "input" and not t.slots]
        self.given = [t for t in inputs if t.role == "input" and t.slots]
        names = Names(set(TAKEN))
        self.attribute = {name: names.fresh(name) for name in [*(naming.public[t.key] for t in inputs), *asked]}
        self.starts = {w.key: w for w in module_class.weights}

    def public(self, tensor: Tensor) -> str:
        return self.naming.public[tensor.key]

    def on_self(self, tensor: Tensor) -> str:
        return f"self.{self.attribute[self.public(tensor)]}"

    def line(self, text: str) -> None:
        """Writes a statement, broken where it is long."""
        self.out.lines += folded("    " * self.out.depth + text)

    def write(self, gradients: str) -> None:
        """Writes the class, with constructor and `forward`; `gradients` ends its docstring and says whether gradients
        reach the weights.
        """
        out, name = self.out, self.naming.module.name
        out()
        out()
        out.open(f"class {class_name(name)}(torch.nn.Module):")
        out(f'"""The weights of {entry_name(name)} as parameters. In evaluation nothing is left to chance; '
            f'{gradients}.{"" if self.spread is None else " A rank has its part."}"""')
        out()
        self._constructor()
        out()
        if any(t.element.narrow is not None and not t.element.narrow.whole for t in self.weights):
            out.lines += [f"    {text}".rstrip() for text in _STORED.splitlines()]
        self._forward()
        out.close()

    def _constructor(self) -> None:
        """Writes `__init__`, which makes the weights as parameters of their initial values, and keeps sizes and scalar
        inputs as attributes.
        """
        out, module = self.out, self.naming.module
        needed = {n for t in self.weights for s in t.slots for n in s.set.extent.sizes}
        sizes = [*sorted(needed - module.fixed.keys()), *(n for n in self.asked if n not in needed)]
        params = [*(f"{name}: int" for name in sizes),
                  *(f"{self.public(t)}: {_SCALAR}{self._default(t)}" for t in self.scalars),
                  "device: torch.device | str | None = None", "dtype: torch.dtype | None = None"]
        params += [f"{self.spread.mesh}: DeviceMesh | None = None"] if self.spread is not None else []
        self.line(f"def __init__(self, *, {', '.join(params)}) -> None:")
        out.depth += 1
        out("super().__init__()")
        if self.staged is not None:
            out("self.register_load_state_dict_pre_hook(partial(_of_stage, WEIGHTS, LAYERS))")
        if self.spread is not None:
            here = '{"device": torch.empty(0, device=device)}'
            out(f"self._mesh = _mesh({self.spread.axes}, {self.spread.mesh}, {here})")
            out("self.register_load_state_dict_pre_hook(_parted)")
        for name in sorted(needed & module.fixed.keys()):
            out(f"{name} = {module.fixed[name]}")
        if self.weights:
            out('made = {"device": device, "dtype": dtype}')
        for tensor in self.weights:
            self.line(f"{self.on_self(tensor)} = {self._start(tensor)}")
        if self.spread is not None:
            flat = [f'"{self.attribute[self.public(t)]}": {self._shape(t)}' for t in self.weights
                    if t.key in self.spread.apart]
            self.line(f"self._flat = {{{', '.join(flat)}}}")
        for name in self.asked:
            out(f"self.{self.attribute[name]} = {name}")
        for tensor in self.scalars:
            out(f"{self.on_self(tensor)} = {self.public(tensor)}")
        known = [*(f"{name}={{{name}}}" for name in sizes), *(f"{n}={module.fixed[n]}" for n in sorted(
            needed & module.fixed.keys()))]
        self.line(f'self._sizes = {"f" * bool(sizes)}"{", ".join(known)}"')
        out.depth -= 1
        out()
        out("def extra_repr(self) -> str:")
        out("    return self._sizes")

    def _kind(self, tensor: Tensor) -> str:
        """Whether a scalar input is the rate or the seed of random numbers: "rate", "seed", or "" for neither."""
        key = self.public(tensor)
        return "rate" if key in self.module_class.rates else "seed" if key in self.module_class.seeds else ""

    def _default(self, tensor: Tensor) -> str:
        return {"rate": " = 0.0", "seed": " = None"}.get(self._kind(tensor), "")

    def _start(self, tensor: Tensor) -> str:
        """A parameter, or a buffer of whole numbers, before anything is learned."""
        shape = self._shape(tensor, apart=True)
        if tensor.constant:
            kind = "torch.int64" if tensor.integer else element(tensor)
            return f"torch.nn.Buffer({self._part(tensor, f'torch.zeros({shape}, dtype={kind}, device=device)')})"
        start = self.starts.get(self.public(tensor), Weight("", "normal", Extent(())))
        made = f"torch.{'randn' if start.start == 'normal' else start.start}({shape}, **made)"
        over = sized(self.naming.inside(start.over))
        spread = "" if start.start != "normal" or over in ("0", "1") else over if over.isidentifier() else f"({over})"
        return f"torch.nn.Parameter({self._part(tensor, made + (f' / {spread}**0.5' if spread else ''))})"

    def _shape(self, tensor: Tensor, apart: bool = False) -> str:
        """The shape of a weight; of one with an axis `apart` that of the parameter."""
        extents = [*tensor.extents]
        if apart and self.spread is not None and tensor.key in self.spread.apart:
            at, first = self.spread.apart[tensor.key]
            extents[at : at + 1] = [first, extents[at].over(first) or extents[at]]
        made = "".join(f"{sized(x)}, " for x in extents)
        return f"({made.removesuffix(', ') if len(extents) > 1 else made.rstrip()})"

    def _own(self, tensor: Tensor) -> str:
        """A weight as the function takes it: what the rank has of it."""
        if self.spread is None:
            return self.on_self(tensor)
        at, _ = self.spread.apart.get(tensor.key, (-1, None))
        return f"{self.on_self(tensor)}.to_local()" + (f".flatten({at}, {at + 1})" if at >= 0 else "")

    def _part(self, tensor: Tensor, made: str) -> str:
        """What a rank has of a weight, from the expression that makes the whole."""
        if self.spread is None:
            return made
        return f"distribute_tensor({made}, self._mesh, {self.spread.placed[tensor.key]})"

    def _forward(self) -> None:
        """Writes `forward`: it takes the inputs that have axes, then the scalar ones, which may be left out, and calls
        the function with the weights.
        """
        out, entry = self.out, entry_name(self.naming.module.name)
        params = self._parameters()
        several = len(self.naming.module.outputs) > 1
        named = "tuple[torch.Tensor, ...]" if self.staged else tuple_name(self.naming.module.name)
        returns = named if several else "torch.Tensor"
        self.line(f"def forward({', '.join(['self', *params])}) -> {returns}:")
        out.depth += 1
        for tensor in self.scalars:
            self._scalar(tensor)
        inner = {t.key for t in self.weights}
        handed = [f"{self.public(t)}={self._own(t) if t.key in inner else self.public(t)}"
                  for t in self.naming.module.inputs]
        handed += [f"{self.naming.size(n)}=self.{self.attribute[n]}" for n in self.asked]
        handed += [] if self.spread is None else [f"{self.spread.mesh}=self._mesh"]
        call = f"{entry}({', '.join(handed)})"
        self.line(f"return tuple({call})" if self.staged and several else f"return {call}")  # torch hands tuples on
        out.depth -= 1

    def _parameters(self) -> list[str]:
        """The parameters of `forward`, with their types."""
        scalars = [f"{self.public(t)}: {_SCALAR} = None" for t in self.scalars]
        named = {t.key: f"{self.public(t)}: torch.Tensor" for t in self.given}
        if self.staged is None:
            return [*named.values(), *scalars]
        others = [*(text for key, text in named.items() if key not in self.staged.handed), *scalars]
        return [*(named[key] for key in self.staged.handed), *(["*", *others] if others else []),
                "**others: torch.Tensor"]

    def _scalar(self, tensor: Tensor) -> None:
        """Writes a scalar that the call leaves out, and all of them as tensors."""
        out, name, kind = self.out, self.public(tensor), self._kind(tensor)
        out(f"if {name} is None:")
        out(f"    {name} = {self.on_self(tensor)}{' if self.training else 0.0' if kind == 'rate' else ''}")
        if kind == "seed":
            out(f"if {name} is None:  # as torch's own generator has it, in training")
            out(f"    {name} = int(torch.randint(2**31, ())) if self.training else 0")
        like = next((self.on_self(t) for t in self.weights if not t.constant),
                    next((self.public(t) for t in self.given), ""))
        if tensor.integer:
            device = f", device={like}.device" if like else ""
            out(f"{name} = torch.as_tensor({name}{device})")
        else:
            kept = f"dtype={like}.dtype, device={like}.device" if like else "dtype=torch.get_default_dtype()"
            out(f"{name} = torch.as_tensor({name}, {kept})")
