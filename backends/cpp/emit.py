"""Plan -> the text of a Python file that needs torch alone, and holds the C++ of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

from einc.backends.cpp.kernel import function
from einc.backends.cpp.layout import laid_out
from einc.backends.cpp.passes import scheduled
from einc.backends.cpp.products import declared, product, written
from einc.backends.cpp.schedule import Schedule, Unwritten, shared
from einc.backends.cpp.wrapping import commented
from einc.backends.host.file import write_file
from einc.backends.host.legal import Unspelled, legal
from einc.backends.host.loops import Page
from einc.backends.host.source import Part, Source
from einc.backends.host.spelled import spells
from einc.backends.torch.emit import Torch
from einc.backends.writer import identifier, sized
from einc.ir.plan import (
    Call,
    Contract,
    Gradient,
    InSlices,
    Kernel,
    Leaf,
    Module,
    ModuleClass,
    PerRank,
    Recurrence,
    SegmentedModule,
    StateScan,
)

RUNTIME = ("native", "together", "recurrent", "product")  # the modules of helpers that files of this back end have
LEAST_ROWS = 8  # with fewer, most lanes of a vector would be empty
LANES = 16  # of the widest vectors: more rows fill a tile of two


def emit(plan: Module | Gradient | SegmentedModule | PerRank, module_class: ModuleClass | None = None) -> str:
    """The text of the whole file of a plan, with a class of torch where there is a `module_class`."""
    return write_file(plan, Cpp(), module_class)


@cache
def header(name: str) -> str:
    """C++ that stands before the kernels of a file."""
    return (resources.files("einc.backends.cpp.runtime") / name).read_text(encoding="utf-8")


def _rows(schedule: Schedule) -> str:
    """The number of rows of a kernel, as an expression of the file."""
    return sized(schedule.rows.set.extent, tight=True)


def _many(schedule: Schedule) -> list[str]:
    """Whether the rows of a kernel fill tiles of two vectors, as a condition of the file; with fewer a tile has one.
    A pass over memory has no rows: it has no such condition.
    """
    return [] if schedule.passes else [f"{_rows(schedule)} >= {LEAST_ROWS}"]


def _kept(kernel: Kernel, page: Page) -> dict[str, int]:
    """What a kernel reads that are objects of the cache, with the axes along which they lie."""
    laid = page.laid.axes if page.laid is not None else {}
    return {name: laid[name] for name in kernel.reads if name in laid}


def compiled(step: Leaf, module: Module) -> bool:
    """Whether a step has a kernel in C++, alone or ahead of a library's."""
    match step:
        case Recurrence() | StateScan():
            return True
        case Contract() | InSlices():
            return product(step, module) is not None
        case Kernel() | Call():
            kernel = step.kernel if isinstance(step, Call) else step
            with suppress(Unwritten, Unspelled):
                return bool(function(scheduled(legal(kernel, spells)), module, "k", set()).text)
    return False


@dataclass
class Cpp:
    """Kernels as C++ functions; torch's statements stand beside each, for where it cannot run."""

    torch: Torch = field(default_factory=Torch)
    functions: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=lambda: ["lanes.h"])  # what stands before them

    needs = "torch, and compiles its kernels where a C++ compiler is"
    imports: tuple[str, ...] = ("import torch",)

    @property
    def runtime(self) -> tuple[Part, ...]:
        """The helpers of torch's statements, and those that compile and call."""
        return (*self.torch.runtime, *(Source(f"einc.backends.cpp.runtime.{name}") for name in RUNTIME))

    def types(self, module: Module) -> list[str]:
        """The element types that a call asks for, as those of the torch statements beside the kernels."""
        return self.torch.types(module)

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """Calls of the compiled kernel, for many rows and for few, and torch's statements for where neither can run."""
        legalised = legal(kernel, spells)
        kept = _kept(kernel, page)
        pieces = page.names.fresh("pieces") if kept else ""
        try:
            schedule = scheduled(legalised)
            many = self._function(schedule, page, kept, pieces)
        except (Unwritten, Unspelled):
            self.torch.kernel(kernel, page)
            return
        alone = bool(kernel.merged) or schedule.passes or schedule.columns  # nothing is gained for few rows
        few, vectors = ("", False) if alone else many, "1"
        with suppress(Unwritten):
            if axis := shared(legalised):
                lanes = scheduled(legalised, axis)
                few, vectors = self._function(lanes, page, kept, pieces), f"2 if {_rows(lanes)} > {LANES} else 1"
        page.helpers.add("_native")
        self.torch.allotted(kernel, page)
        if many[1] or few[1]:
            page.helpers.add("_native_pieces")
            page.body(f"{pieces} = _native_pieces({', '.join(map(identifier, kept))})")
        if page.beside:
            page.waits.add("_native_together")
        rare = f"{_rows(schedule)} < {LEAST_ROWS} and {few[0]}" if few[0] else ""
        self._calls(kernel, page, " and ".join([*_many(schedule), many[0]]), rare, vectors)

    def contracted(self, step: Contract | InSlices, page: Page) -> bool:
        """A call of the compiled kernel where few rows of data meet few bits, with torch's statements beside it."""
        found = product(step, page.module)
        if found is None:
            return self.torch.contracted(step, page)
        name = f"k{len(self.functions)}"
        texts = "".join(f"/* {commented(text)} */\n" for text in step.texts)
        self._stands("product.h", f"{texts}{declared(found, name, page.module)}")
        written(step, found, name, page)
        return True

    def _stands(self, header: str, text: str) -> None:
        """Adds a function to the file, and the C++ before it that it needs."""
        self.headers += [header] * (header not in self.headers)
        self.functions.append(text)

    def _calls(self, kernel: Kernel, page: Page, many: str, few: str, vectors: str) -> None:
        """Writes the statements that try the compiled functions, for many rows and for few, whose tiles have so many
        vectors.
        """
        work, end = sized(kernel.cost.flops), "))" if page.beside else ")"
        page.body.open(f"if {many}, {work}, dtype{end}:")
        if not self.torch.grown(kernel, page):
            page.body("pass")
        page.body.close()
        if few:
            page.body.open(f"elif {few}, {work}, dtype, {vectors}{end}:")
            page.body("pass")
            page.body.close()
        page.body.open("else:")
        self.torch.kernel(kernel, replace(page, places=dict(page.places), wholes=dict(page.wholes)))
        page.body.close()

    def recurrence(self, step: Recurrence | StateScan, work: str) -> tuple[str, ...]:
        """The compiled kernel of a recurrence, which is added to the file; torch runs what it cannot."""
        name = f"k{len(self.functions)}"
        texts = "".join(f"/* {commented(text)} */\n" for text in step.texts)
        if isinstance(step, StateScan):
            self._stands("recurrence.h", f"{texts}SCAN({name})")
        else:
            vectors, later = step.vectors, sum(step.vectors.after)
            counts = f"{vectors.known}, {vectors.unknown}, {later}, {len(vectors.after) - later}"
            each = str(bool(set(step.groups[2]) & set(step.letters[0]))).lower()
            self._stands("recurrence.h", f"{texts}RECURRENCE({name}, {counts}, {each})")
        return "_native_scan" if isinstance(step, StateScan) else "_native_affine", "_CPP", f'"{name}"', work, "dtype"

    def _function(self, schedule: Schedule, page: Page, kept: Mapping[str, int], pieces: str) -> tuple[str, bool]:
        """Adds a function to the file; the beginning of a call of it, and whether that asks for the pieces in which
        what is kept lies. Raises Unwritten where something of it has no text.
        """
        name, helpers = f"k{len(self.functions)}", set[str]()
        made = function(schedule, page.module, name, helpers, kept, pieces)
        self.functions.append(made.text)
        page.helpers |= helpers
        asked = f"{pieces} and " if made.spread else "".join(f"{identifier(one)}.single and " for one in kept)
        call = "(yield (" if page.beside else "_native("
        return f'{asked}{call}_CPP, "{name}", {made.call}', made.spread

    def ahead(self, kernel: Kernel, page: Page) -> str:
        """Where the compiled kernel is the faster one."""
        try:
            schedule = scheduled(legal(kernel, spells))
            function(schedule, page.module, "k", set(), _kept(kernel, page))
        except (Unwritten, Unspelled):
            return ""
        page.helpers.add("_native_ready")
        rows = _many(schedule)
        many = rows if kernel.merged or schedule.columns else []
        vectors = f", 2 if {rows[0]} else 1" if rows and not many else ""  # those of the call that `kernel` writes
        single = [f"{identifier(name)}.single" for name in _kept(kernel, page)]
        ready = f"_native_ready(_CPP, {sized(kernel.cost.flops)}, device, dtype{vectors})"
        return " and ".join([*many, *single, ready])

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        """Whether the kernel takes the buffer tile by tile along the axis: as the torch statements do."""
        return self.torch.streams(module, kernel, buffer, axis)

    def definitions(self) -> list[str]:
        """The lines that hold the text of all compiled kernels as one string; none where nothing is compiled."""
        text = "\n".join([*map(header, self.headers), *self.functions, 'extern "C" L complete() { return 1; }'])
        return ["", "", '_CPP = r"""', *laid_out(text).split("\n"), '"""'] if self.functions else []
