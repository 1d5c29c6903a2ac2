"""A compiled spec as a Python callable."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from importlib import import_module
from inspect import unwrap
from pickle import PicklingError
from typing import Any

from einc.driver.restoring import Origin, restored, restored_class
from einc.ir.plan import Gradient, Module, PerRank, SegmentedModule
from einc.ir.programs import TypedProgram

# Loaded where they are asked for.
DRAWN, COSTS, DERIVED = "einc.driver.drawing.drawn", "einc.driver.reports.costs", "einc.driver.reports.derivations"


@dataclass(eq=False, repr=False)
class Compiled:
    """A compiled spec: call it with the declared names. `source` is the emitted file, `plan` how it was cut.

    One that serves is called with a cache first, which `prefill` makes.
    """

    program: TypedProgram
    plan: Module | Gradient | SegmentedModule | PerRank
    source: str
    function: Callable[..., Any]
    weights_class: type[Any] | None = None  # what `module` is
    first_call: Callable[..., Any] | None = None  # what `prefill` is
    origin: Origin | None = None  # what a pickle of it has

    def __post_init__(self) -> None:
        update_wrapper(self, self.function, updated=())  # What the function itself holds stays its own.

    def __repr__(self) -> str:
        return f"<einc.Compiled {self.program.name}: {', '.join(t.key for t in self.program.inputs())}>"

    def __get__(self, instance: object, owner: object = None) -> Compiled:
        """Itself, also of a class: that there is such a method makes `help` tell of it as of a function."""
        return self

    @property
    def module(self) -> type[Any]:
        """The class that holds the weights. Raises AttributeError where none was asked for."""
        if self.weights_class is None:
            raise AttributeError(f"{self!r} was compiled without a class of its weights: compile it with module=True")
        return self.weights_class

    @property
    def prefill(self) -> Callable[..., Any]:
        """The call of the first positions, which makes a cache. Raises AttributeError where nothing is kept."""
        if self.first_call is None:
            raise AttributeError(self._keeps_nothing)
        return self.first_call

    @property
    def _keeps_nothing(self) -> str:
        return f'{self!r} keeps nothing from one call to the next: compile it with plan="serve"'

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: object) -> Compiled:
        """Itself: it holds nothing that changes."""
        return self

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        if self.origin is None:
            raise unpicklable(self.function.__name__)
        return restored, self.origin.data

    def __call__(self, *values: Any, **tensors: Any) -> Any:
        return self.function(*values, **tensors)

    def prepare(self, dtype: str = "float32") -> bool:
        """Compiles the kernels for data of a type, those for many rows and those for few, so that no first call need;
        whether there are both now.
        """
        names = unwrap(self.function).__globals__
        if "_native_library" not in names:
            return False
        kind = getattr(names["torch"], dtype)
        return all(names["_native_library"](names["_CPP"], kind, vectors) is not None for vectors in (2, 1))

    @property
    def ran(self) -> dict[str, bool]:
        """By the name of each kernel that has C++ whether its last call ran compiled;
        torch's statements ran where not.
        """
        return dict(unwrap(self.function).__globals__.get("_RAN", {}))

    def cache(self, chunk: int = 256, pool: Any = None) -> Any:
        """A cache of no position yet, for steps: its room grows by at least `chunk` positions, or in pages of a pool.
        """
        return self.named("Cache")(chunk) if pool is None else self.named("Cache")(chunk, pool)

    def pool(self, pages: int, page: int = 0) -> Any:
        """Memory for so many pages of so many positions each, by default as the spec says it, else 16; caches share
        them. ValueError where only states are kept, which lie in no pages.
        """
        if isinstance(self.plan, Module) and self.plan.unpaged:
            raise ValueError("only states are kept, one for each text, which lie in no pages: a cache needs no pool")
        return self.named("Pool")(pages, page) if page else self.named("Pool")(pages)

    def draw(self, what: str, *, data: str | None = None, of: str = "", seed: int = 0, **sizes: int) -> Any:
        """Pictures of its program: `mask`, `tiles`, `plan` or `weights`, as `einc draw` has them. One prints on a
        terminal, a notebook shows it, and it has a `text` and an `svg`.
        """
        return import_module(DRAWN).drawn(
            self.program, what, sizes, data_file=data, seed=seed, of=of)

    def cost(self, dtype: str = "float32", **sizes: int) -> Any:
        """What its plan costs at these sizes, as `einc cost` says it: a table that prints, with its `data`."""
        return import_module(COSTS).costs(self.program.name, self.plan, sizes, dtype)

    def derive(self) -> Any:
        """The recurrence that was found for it, as `einc derive` has it: it prints, a notebook shows it, and its
        `_repr_latex_` is a display of LaTeX.
        """
        return import_module(DERIVED).derivation(self.program)

    def named(self, name: str) -> Any:
        """What the emitted file calls so. TypeError where nothing is kept."""
        if self.first_call is None:
            raise TypeError(self._keeps_nothing)
        return unwrap(self.function).__globals__[name]


class Loaded(type):
    """The class of a class that stands in no file: its modules are copied as any are, and a pickle of one has what it
    was made of.
    """


def _pickled(made: Loaded) -> str | tuple[Any, ...]:
    """What pickle writes of a class: what einc's was compiled of, and of one of users that extends it the name by
    which it is imported. Raises PicklingError for one that was made of no text."""
    if not made.__module__.startswith("einc.emitted."):
        return made.__qualname__
    of: Origin | None = vars(made).get("_einc_origin")
    if of is None:
        raise unpicklable(made.__name__)
    return restored_class, of.data


copyreg.pickle(Loaded, _pickled)


def unpicklable(name: str) -> PicklingError:
    """What is said of something that only an execution of emitted text could bring back:
    reading a pickle executes none."""
    return PicklingError(f"`{name}` was made by einc of what is no text that a pickle could keep: write it to a file "
                         "with einc compile -o, and import that, or save a module's state_dict()")
