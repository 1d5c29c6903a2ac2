"""What a kernel is started with: a function that finds the tile, the programs, the numbers and the constants, and keeps
them by the sizes, the layout, the type and the device of the data."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from einc.backends.host.code import tight
from einc.backends.host.loops import Page
from einc.backends.triton.arguments import Arguments
from einc.backends.triton.kernel import Written
from einc.backends.triton.loads import extent_text
from einc.backends.triton.resources import text as polynomial
from einc.backends.writer import Names, Writer, folded, identifier, sized
from einc.ir.plan import Kernel, Store

_COLUMNS, _DEPTH = 256, 256  # the longest columns, and the longest depth of a product, that a tile holds whole
_STEP = 64  # of a depth that it does not
_ORDERED = 64  # columns where tiles go in order: programs are few, and each holds a state
_KNOWN = frozenset({"float", "int", "min", "max", "abs", "dict", "tuple", "torch", "tl", "math"})  # in every file

# The types that a kernel is compiled for by their names in it, and what the host calls them.
TYPED = {"DTYPE": "dtype", "WIDE": "wide", "RANGED": "ranged"}


@dataclass(frozen=True, slots=True)
class Paging:
    """The slots of positions in buffers that may lie in pages; the host's names for the
    pages, and for the rows of one."""

    slots: dict[str, int]
    pages: str = ""
    page: str = ""
    line: str = ""  # what gives these names their values


@dataclass
class Start:
    """The function in the making, for a kernel that may be joined by another; `usual` is what its tiles are kept by."""

    kernel: Kernel
    page: Page
    paging: Paging
    made: Written
    usual: str

    def __post_init__(self) -> None:
        self.body = Writer(depth=1)
        self.names = Names(set(self.page.names.taken))  # those of the function alone
        self.asked: dict[str, str] = {}  # parameter -> what it is given
        self.blocks: dict[str, str] = {}  # parameter of the kernel -> the host's name for the length of the tile
        self.tile: list[str] = []  # the function that chooses the tile, where data may grow
        self.tiled = ""

    def written(self, name: str, kernel: str) -> tuple[list[str], str]:
        """The lines of the function of this name, for the kernel of that one, and the expression that calls it. Changes
        `self.page.helpers`."""
        body, made = self.body, self.made
        self.page.helpers |= {"_padded", "_tile", "lru_cache"}
        self._tile(name)
        tiles = ""
        if self.kernel.merged:
            (rows,) = (made.counts[d.name] for d in made.layout.dims if d.role == "rows")
            tiles = self.names.fresh("tiles")
            body(f"{tiles} = {self._hosted(rows)}")
        programs = self.names.fresh("programs")
        body(f"{programs} = {self._hosted(' * '.join(made.counts.values()) or '1')}")
        if made.joined is not None:
            self._parts(programs)
        made_of = [self._handed(made, tiles), *([self._handed(made.joined, tiles)] if made.joined is not None else [])]
        if made.joined is not None:
            room = f"{programs} * parts * ({self._hosted(made.states)})"
            start = f"{programs}, parts, {room}, {made_of[0]}, {made_of[1]}"
        else:
            start = f"{programs}, {made_of[0]}"
        body(f"return ({start}), {tiles}" if tiles else f"return {start}")
        told = f"How `{kernel}` is started for data of these sizes and this layout."
        lines, call = self._defined(name, told, body, self.asked)
        return [*lines, *self.tile], call

    def _defined(self, name: str, told: str, body: Writer, asked: Mapping[str, str]) -> tuple[list[str], str]:
        """A function that keeps what it returns, with the names that it reads as its parameters; a call of it."""
        lines = [part for line in body.lines for part in folded(line)]
        own = self.page.helpers | _KNOWN | asked.keys() | {self.tiled}
        asked = {**{word: word for word in _read("\n".join(lines)) if word not in own}, **asked}
        out = Writer(["", "", "@lru_cache(1024)"])
        out.lines += [*folded(f"def {name}({', '.join(asked)}):"),
                      f'    """{told}"""']
        return [*out.lines, *lines], f"{name}({', '.join(asked.values())})"

    def _hosted(self, text: str) -> str:
        """The text with the host's names for the lengths of the tile."""
        for parameter, block in self.blocks.items():
            text = re.sub(rf"\b{parameter}\b", block, text)
        return text

    # the tile

    def _tile(self, name: str) -> None:
        """Whole dimensions padded, the others as the device has room for them. Changes `self.tiled` and
        `self.blocks`."""
        made, kernel, body, helpers = self.made, self.kernel, self.body, self.page.helpers
        given, products = made.arguments, uses(made, "tl.dot(")
        rows, passed = made.layout.role("rows"), made.layout.role("passed")
        lengths: dict[str, str] = {}
        for dim in made.layout.dims:
            if dim.role in ("whole", "columns"):
                lengths[dim.name] = self.names.fresh(f"block_{dim.name}")
                extent = extent_text(given, kernel, dim.axes)
                most = f", {_ORDERED if kernel.resumed is not None else _COLUMNS}" if dim.role == "columns" else ""
                least = "16" if products else "2" if dim.name in made.paired else "1" if most else ""
                padded = f"_padded({extent}{f', {least}' * bool(least)}{most})"
                cut = f" if {extent} <= {_DEPTH} else {_STEP}" if dim.name in made.deep else ""
                body(f"{lengths[dim.name]} = {padded}{cut}")
        lengths |= {rows.name: "rows"} if rows is not None else {}
        lengths |= {passed.name: "columns"} if passed is not None else {}
        many = extent_text(given, kernel, rows.axes) if rows is not None else "1"
        if kernel.resumed is not None and kernel.grid is not None and kernel.grid.length is not None:
            many = f"min({many}, {kernel.grid.length})"
        long = extent_text(given, kernel, passed.axes[:1]) if passed is not None else "1"
        shapes = "_PRODUCTS" if products else "_POINTS" if passed is None else "_SUMS"
        helpers.add(shapes)
        if products and (deep := [dim for dim in made.layout.dims if dim.name in made.deep]):
            helpers.add("_DEEP")
            short = " and ".join(f"{extent_text(given, kernel, dim.axes)} <= {_DEPTH}" for dim in deep)
            shapes = f"_PRODUCTS if {short} else _DEEP"
        needed = made.room
        shared = [polynomial(needed.kept, lengths), polynomial(needed.moved, lengths)]
        shared = [*([shared[0]] if shared[0] != "0" else []),
                  *([f"stages * ({shared[1]})"] if shared[1] != "0" else [])]
        if passed is not None:  # data that grows has the same tile for long
            whole, body = body, Writer(depth=1)
            self.tiled = f"{name.removesuffix('_start')}_tile"
        body(f"{'rows, columns, warps, stages =' if passed is None else 'return'} _tile(")
        extents = f"{many}, {long}" if passed is None else "many, long"
        body(f'    "{self.usual}", {shapes}, {extents}, device,')
        numbers, fed = polynomial(needed.registers, lengths), polynomial(needed.fed, lengths)
        helpers |= {"_twofold"} if products else set()
        numbers += f" + _spread(rows, warps) * {tight(fed)}" if fed != "0" else ""
        helpers |= {"_spread"} if fed != "0" else set()
        body(f"    registers=lambda rows, columns, warps: "
             f"{f'_twofold(dtype, 2.2) * ({numbers})' if products else numbers},")
        each = "_twofold(dtype, 1.7) * dtype.itemsize" if products else "dtype.itemsize"
        body(f"    shared=lambda rows, columns, stages: {f'{each} * (' + ' + '.join(shared) + ')' if shared else '0'},")
        body(")")
        if passed is not None:
            asked = {"many": f"_padded({many})", "long": f"_padded({long})"}
            self.tile, call = self._defined(self.tiled, f"The tile of `{self.usual}` for as much data.", body, asked)
            whole(f"rows, columns, warps, stages = {call}")
        self.blocks = {given.block(name): length for name, length in lengths.items()}

    def _parts(self, programs: str) -> None:
        """Where tiles are too few for the device, several programs share the pass of each."""
        passed = self.made.layout.role("passed")
        assert passed is not None
        self.page.helpers.add("_parts")
        long = tight(extent_text(self.made.arguments, self.kernel, passed.axes[:1]))
        uneven = f", {self._hosted(self.made.uneven)} > 1" if self.made.uneven else ""
        self.body(f"parts = _parts({programs}, -(-{long} // columns), device{uneven}) if {programs} else 1")

    # what a kernel is called with beside its tensors

    def _handed(self, made: Written, tiles: str) -> str:
        """Writes the numbers and the constants that the kernel is called with, in the order of its parameters; both."""
        given, joined = read(made), made.joined is None and self.made.joined is not None
        for text in (*given.whole.values(), *(text for text, _ in given.numbers)):
            self.page.helpers |= given.calls[text]
        laid = {key: self._laid(key, pointer, tiles, given) for key, pointer in given.tensors.pointers.items()}
        strides = [f"*{laid[key][1]}" for key in laid if (key, 0) in given.tensors.strides]
        sizes = [s for s in given.sizes if s not in given.static]
        numbers = [text if text.startswith("float(") else f"float({text})" for text, _ in given.numbers]
        whole = [*strides, *sizes, *map(self._hosted, given.whole.values()), *["parts"] * bool(made.states), *numbers]
        values, constants = (self.names.fresh(f"joined_{word}" if joined else word) for word in ("values", "constants"))
        self.body(f"{values} = ({', '.join(whole)}{',' * (len(whole) == 1)})")
        fixed = ", ".join([*self._constants(made), *self._types(made, list(laid.values())), *self._last(made)])
        self.body(f"{constants} = dict({fixed})")
        return f"{values}, {constants}"

    def _laid(self, key: str, pointer: str, tiles: str, given: Arguments) -> tuple[str, str]:
        """The extents and the strides of a tensor: asked of what is there, and worked out for what the call makes."""
        store = next((s for s in self.kernel.merged if tiles and given.share(s.buffer) == key), None)
        made = {identifier(s.buffer): s.buffer for s in self.kernel.stores if not s.merge}
        buffer = store.buffer if store is not None else made.get(pointer)
        shape, strides = f"{pointer}_shape", f"{pointer}_strides"
        if buffer is None:
            self.asked |= {shape: f"{pointer}.shape", strides: f"{pointer}.stride()"}
        elif not any(line.strip().startswith(f"{shape} = ") for line in self.body.lines):
            least = [tiles if store is None or store.merge == "sum" else f"max(1, {tiles})"] * (store is not None)
            extents = [*least, *(sized(s.extent) for s in self.page.module.buffers[buffer].sets)]
            self.body(f"{shape} = ({', '.join(extents)}{',' * (len(extents) == 1)})")
            self.body(f"{strides} = _contiguous({shape})")
            self.page.helpers.add("_contiguous")
        return shape, strides

    def _constants(self, made: Written) -> list[str]:
        """Sizes that the text is made for, lengths of the tile, whether the pass is shared, positions of a page."""
        given = made.arguments
        mine = set(given.blocks.values())
        fixed = [f"{s}={s}" for s in given.static] + [f"{p}={text}" for p, text in self.blocks.items() if p in mine]
        fixed += ["SHARED=parts > 1"] * (made.joined is not None)
        return fixed + [f"{given.paging[1]}={self.paging.page}"] * bool(given.paging[0])

    def _types(self, made: Written, laid: list[tuple[str, str]]) -> list[str]:
        """The types of elements and of offsets, and how products are formed."""
        spans = ", ".join(f"({shape}, {strides})" for shape, strides in laid)
        typed = {**{name: f"_tl_type({kind})" for name, kind in TYPED.items()}, "OFFSET": f"_offset({spans})",
                 "PRECISION": "precision"}
        mine = {constant: text for constant, text in typed.items() if uses(made, constant)}
        if "PRECISION" in mine:
            self.asked["precision"] = "_precision(device)"
        return [f"{constant}={text}" for constant, text in mine.items()]

    def _last(self, made: Written) -> list[str]:
        """Options of the compiler; pages are read ahead, too."""
        page = self.paging.page if made.arguments.paging[0] else ""
        depth = f"2 * stages - 1 if {page} else stages" if page else "stages"
        return [*["SPLIT=True"] * made.split, "num_warps=warps", f"num_stages={depth}", "enable_fp_fusion=True"]


def _read(text: str) -> list[str]:
    """The names that statements read and do not give a value, in the order of their first use."""
    nodes = sorted((n for n in ast.walk(ast.parse("if 1:\n" + text)) if isinstance(n, ast.Name | ast.arg)),
                   key=lambda n: (n.lineno, n.col_offset))
    own = {n.arg if isinstance(n, ast.arg) else n.id for n in nodes
           if isinstance(n, ast.arg) or isinstance(n.ctx, ast.Store)}
    return [name for name in dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name)) if name not in own]


def uses(made: Written, word: str) -> bool:
    """Whether the text of the kernel has the word."""
    return any(word in line for line in [*made.lines, *numbered(made)])


def numbered(made: Written) -> list[str]:
    """Statements that give the numbers of the host their type."""
    return [f"{name} = tl.full((), {name}, {kind})" for (_, kind), name in made.arguments.numbers.items()]


def read(made: Written) -> Arguments:
    """The arguments, without those that no statement reads: the host asks for the sizes of more than a kernel does."""
    given, words = made.arguments, set(re.findall(r"\w+", "\n".join(made.lines)))
    tensors = given.tensors
    for key, pointer in [*tensors.pointers.items()]:
        mine = {place: stride for place, stride in tensors.strides.items() if place[0] == key}
        if words.isdisjoint({pointer, *mine.values()}):
            del tensors.pointers[key]
            tensors.strides = {place: stride for place, stride in tensors.strides.items() if place not in mine}
    given.sizes = {name: text for name, text in given.sizes.items() if text in words}
    given.static = {name: text for name, text in given.static.items() if text in words}
    given.numbers = {key: name for key, name in given.numbers.items() if name in words}
    given.whole = {name: text for name, text in given.whole.items() if name in words}
    given.blocks = {dim: name for dim, name in given.blocks.items() if name in words}
    return given


def growing(made: Written) -> list[str]:
    """The whole numbers that the kernel is not compiled for, so that others compile nothing anew: all but the extents
    of last axes, by which the compiler knows how many elements it may load at a time."""
    given = read(made)
    module, last = made.arguments.module, set[str]()
    for key in given.tensors.pointers:
        buffer = module.buffers.get(key)
        last |= buffer.sets[-1].extent.sizes if buffer is not None and buffer.sets else set()
    sizes = [s for s in given.sizes if s not in given.static and s not in last]
    return [*sizes, *given.whole, *["parts"] * bool(made.states)]


def shares(made: Written, store: Store) -> str:
    """The tensor in which tiles leave their shares of a result."""
    return made.arguments.tensors.pointers[made.arguments.share(store.buffer)]
