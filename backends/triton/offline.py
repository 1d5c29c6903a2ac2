"""Kernels of an emitted file compiled without a device: for any target, from the shapes of the inputs alone.

The host function runs on tensors without data; what it would start is recorded, and
compiled as it would be at that call.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from einc.backends.triton.layout import layout
from einc.backends.triton.load import load
from einc.backends.triton.targets import TARGETS, Gpu
from einc.backends.writer import identifier
from einc.ir.plan import Kernel, Module, leaves

_PAGES = 2**16  # of a pool


@dataclass(frozen=True)
class Launch:
    """A kernel as the host function starts it: what it is called with, and by name its constants and options."""

    kernel: str
    function: Any
    programs: int
    arguments: tuple[object, ...]
    named: Mapping[str, object]

    @property
    def tile(self) -> dict[str, int]:
        """Elements of each dimension of the tile, by the names of the text."""
        return {key.removeprefix("BLOCK_"): int(str(n)) for key, n in self.named.items() if key.startswith("BLOCK_")}

    def handed(self) -> list[dict[str, object]]:
        """The arguments that the code reads, in order: tensors, and numbers; a 1 that it is made for is none."""
        out: list[dict[str, object]] = []
        for parameter, value in zip(self.function.params, self.arguments, strict=False):
            name, any_ = parameter.name, parameter.do_not_specialize
            if isinstance(value, torch.Tensor):
                out.append({"name": name, "type": "pointer", "element": str(value.dtype).removeprefix("torch.")})
            elif value is not None and (any_ or value != 1 or isinstance(value, float)):
                kind = ("float64" if isinstance(value, float) else "int32" if -(2**31) <= int(str(value)) < 2**31
                        else "int64")
                out.append({"name": name, "type": kind, "value": value})
        return out

    @cached_property
    def key(self) -> str:
        """Equal for launches with one binary: the text up to names, what is known of the
        arguments, constants and options."""
        kinds = [(str(x.dtype), x.data_ptr() % 16) if isinstance(x, torch.Tensor) else _known(x, p.do_not_specialize)
                 for p, x in zip(self.function.params, self.arguments, strict=False)]
        named = [str(x) for x in self.named.values()]
        return hashlib.sha256(f"{_nameless(self.function.src)} {kinds} {named}".encode()).hexdigest()[:16]


def _known(value: object, any_: bool = False) -> object:
    """What the compiler is told of a number: its width, and where the code is not for any number a 1, a multiple
    of 16."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() > 31 if any_ else (value == 1, value % 16 == 0, value.bit_length() > 31)
    return type(value).__name__


def _nameless(text: str) -> str:
    """A function with its names in the order of their first use, and without what it says of itself."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    function.name, function.body = "", function.body[isinstance(function.body[0], ast.Expr) :]
    own = [x for x in ast.walk(function)
           if isinstance(x, ast.arg) or (isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store))]
    names = {x: f"x{n}" for n, x in enumerate(dict.fromkeys(x.arg if isinstance(x, ast.arg) else x.id for x in own))}
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg = names[node.arg]
        elif isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(function)


@dataclass(frozen=True)
class Binary:
    """A compiled kernel and what it needs.

    `asm` holds each stage by Triton's name for it (ttgir, ptx, cubin, amdgcn, …). `shared` is bytes of a program,
    `registers` those of a thread, on AMD with the accumulation registers.
    """

    kernel: str
    target: str
    asm: Mapping[str, str | bytes]
    warps: int
    stages: int
    shared: int
    registers: int
    symbol: str

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Instructions by name: those of products, of copies to shared memory, of memory in place of registers."""
        if "amdgcn" in self.asm:
            return _found(str(self.asm["amdgcn"]), r"^\s+{}", _COUNTED_AMD)
        return _found(self.disassembled, r"\b{}\b", _COUNTED)

    @cached_property
    def disassembled(self) -> str:
        """The machine code of the kernel as NVIDIA's disassembler prints it."""
        return _read(self.asm["cubin"], knobs.nvidia.nvdisasm.path, "-c")

    @cached_property
    def spills(self) -> int:
        """Registers that found no place: NVIDIA's loads and stores of local memory, which the reduction of a sine's
        large angles has too, or AMD's count."""
        if "amdgcn" in self.asm:
            field = _fields(str(self.asm["amdgcn"]))
            return field["vgpr_spill_count"] + field["sgpr_spill_count"]
        return self.counts["LDL"] + self.counts["STL"]


def launches(source: str, entry: str, inputs: Mapping[str, torch.Tensor], sizes: Mapping[str, int], target: Gpu,
             parts: int = 1, first: Mapping[str, torch.Tensor] | None = None, page: int = 0) -> list[Launch]:
    """What `entry` starts on the target for inputs of these shapes, strides and types, in order; only their layout is
    read. `parts` programs share each pass that can be shared. A file that serves has been given the inputs `first`
    before, and keeps them in pages of so many positions, or in a row.

    Of `sizes` it is given those that it asks for; where no input is real, it computes in torch's
    default type. RuntimeError where the process runs Triton's interpreter; ValueError and
    TypeError of the entry where inputs do not fit.
    """
    if knobs.runtime.interpret:
        raise RuntimeError("Triton's interpreter is on, which compiles nothing: unset TRITON_INTERPRET")
    function = load(source, entry)
    space: dict[str, Any] = inspect.unwrap(function).__globals__
    answers: dict[str, Any] = {"_room": lambda _: target.shared, "_precision": lambda _: target.precision}
    answers |= dict.fromkeys(("_within", "_add_up", "_ready"), _nothing)
    answers |= {"_parts": lambda *_: parts, "_bands": lambda *_: 1, "_numbers": lambda _: target.numbers,
                "_groups": _even, "_sorted": _all}
    space.update({name: answer for name, answer in answers.items() if name in space})
    made: list[Launch] = []
    for name, kernel in space.items():
        if isinstance(kernel, JITFunction):
            kernel.run = _recorder(name, kernel, kernel.run, made)
    asked = inspect.signature(function).parameters.keys() - inputs.keys()
    given = {name: sizes[name] for name in asked if name in sizes}
    with torch.device("meta"):
        pool = {"pool": space["Pool"](_PAGES, page)} if page else {}
        cache = () if first is None else (space["prefill"](**_shapes(first), **given, **pool)[1],)
        made.clear()
        function(*cache, **_shapes(inputs), **given)
    return made


def scores(plan: Module, launch: Launch) -> int:
    """The elements of rows by the passed axis in a tile of a launch; 0 where it is of no such kernel of the plan."""
    kernels_ = {identifier(step.name): step for step in leaves(plan.steps) if isinstance(step, Kernel)}
    if launch.kernel not in kernels_:
        return 0
    made = layout(kernels_[launch.kernel])
    rows, passed = made.role("rows"), made.role("passed")
    return launch.tile[rows.name] * launch.tile[passed.name] if rows is not None and passed is not None else 0


def _shapes(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for name, x in inputs.items()}


def _nothing(*_: object) -> None:
    """Does nothing, for checks that read data or ask for a device."""


def _even(names: torch.Tensor, count: int, first: int = 1) -> list[tuple[int, tuple[torch.Tensor, ...]]]:
    """For groups that data makes: as many places for each element."""
    places = torch.empty(names.numel() // max(count, 1), dtype=torch.int64)
    return [(n, (places,) * names.ndim) for n in range(count)]


def _all(names: torch.Tensor, count: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """For rows that data sorts: a place for each."""
    places = torch.empty(names.numel(), dtype=torch.int64)
    return (places,) * names.ndim, torch.empty(count + 1, dtype=torch.int64)


def _recorder(name: str, kernel: Any, run: Callable[..., Any], made: list[Launch]) -> Callable[..., Any]:
    """In place of a kernel's way to run: keeps what it is started with, and still compiles when asked to."""

    def record(*arguments: object, grid: tuple[int, ...], warmup: bool, **named: object) -> Any:
        if warmup:
            return run(*arguments, grid=grid, warmup=True, **named)
        made.append(Launch(name.strip("_").removesuffix("_kernel"), kernel, grid[0], arguments, named))
        return None

    return record


def built(launches: Sequence[Launch], target: Gpu, workers: int = 1) -> Iterator[tuple[Launch, Binary | Exception]]:
    """Each launch with its binary, or with the error of the compiler, as soon as it and those before it are done."""

    def attempt(launch: Launch) -> Binary | Exception:
        try:
            return _build(launch, target)
        except Exception as error:
            return error

    with _active(target), ThreadPoolExecutor(workers) as pool:
        yield from zip(launches, pool.map(attempt, launches), strict=True)


def compiled(source: str, entry: str, inputs: Mapping[str, torch.Tensor], sizes: Mapping[str, int],
             target: Gpu) -> list[Binary]:
    """The binary of every kernel that a call on inputs of this layout starts, in order.
    Raises what the compiler raises."""
    out: list[Binary] = []
    for _, binary in built(launches(source, entry, inputs, sizes, target), target):
        if isinstance(binary, Exception):
            raise binary
        out.append(binary)
    return out


@dataclass(frozen=True)
class Made:
    """A launch and its binary."""

    launch: Launch
    binary: Binary

    @property
    def kernel(self) -> str:
        """The name of the kernel that was compiled."""
        return self.binary.kernel

    @property
    def code(self) -> Mapping[str, str | bytes]:
        """The text or bytes of each stage of the compiler, by Triton's name for it."""
        return self.binary.asm

    def described(self) -> dict[str, Any]:
        """What a loader must know: the symbol, the programs and threads of the launch,
        shared memory, the arguments in order.

        Arguments are `pointer` for tensors and numbers with their type; a 1 and constants stand in the code and are no
        arguments. After them Triton's launchers hand over two pointers to memory for its own use, here null.
        """
        binary, threads = self.binary, self.binary.warps * TARGETS[self.binary.target].warp
        return {
            "kernel": binary.kernel, "symbol": binary.symbol, "programs": self.launch.programs, "threads": threads,
            "shared": binary.shared, "registers": binary.registers, "spills": binary.spills, "stages": binary.stages,
            "tile": self.launch.tile, "arguments": self.launch.handed(),
        }  # fmt: skip


def kernels(plan: Module, source: str, sizes: Mapping[str, int], dtype: str, target: str) -> list[Made]:
    """Every kernel that a call at these sizes starts, compiled for the target. Raises
    what the entry or the compiler raises."""
    gpu = TARGETS[target]
    real = getattr(torch, dtype)
    types = {"data": real, "wide": torch.promote_types(real, torch.float32),
             "ranged": torch.promote_types(real, torch.bfloat16)}
    inputs = {
        tensor.key: torch.empty([int(extent.at(sizes)) for extent in tensor.extents], device="meta",
                                dtype=types.get(storage := plan.buffers[tensor.key].element.storage)
                                or getattr(torch, storage))
        for tensor in plan.inputs
    }
    asked = inspect.signature(inspect.unwrap(load(source, plan.name))).parameters.keys() - inputs.keys()
    found = launches(source, plan.name, inputs, {name: n for name, n in sizes.items() if name in asked}, gpu)
    out = []
    for launch, binary in built(found, gpu, workers=2):
        if isinstance(binary, Exception):
            raise binary
        out.append(Made(launch, binary))
    return out


class _Stub:
    """A driver without a device: Triton asks it for a target, and for a number to keep what is compiled by."""

    def __init__(self, target: Gpu) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return GPUTarget(self.target.driver, self.target.architecture, self.target.warp)

    def get_current_device(self) -> str:
        return self.target.name

    def get_current_stream(self, device: object) -> int:
        del device
        return 0


@contextmanager
def _active(target: Gpu) -> Iterator[None]:
    before = driver._active  # `active` would look for a device
    driver.set_active(_Stub(target))
    try:
        yield
    finally:
        driver._active = before


def _build(launch: Launch, target: Gpu) -> Binary:
    # Triton warns where the choice of fused multiplications is left to it.
    kernel = launch.function.warmup(*launch.arguments, grid=(launch.programs,),
                                    **{"enable_fp_fusion": True, **launch.named})
    asm, meta = dict(kernel.asm), kernel.metadata
    return Binary(launch.kernel, target.name, asm, meta.num_warps, meta.num_stages, meta.shared, _registers(asm),
                  meta.name)


_COUNTED = ("HGMMA", "QGMMA", "IGMMA", "HMMA", "DMMA", "UTCHMMA", "UTCQMMA", "LDGSTS", "UTMALDG", "LDL", "STL",
            "MUFU.EX2")
_COUNTED_AMD = ("v_mfma", "buffer_load", "global_load", "ds_read", "scratch_", "v_exp")


def _registers(asm: Mapping[str, str | bytes]) -> int:
    if "amdgcn" in asm:
        return _fields(str(asm["amdgcn"]))["vgpr_count"]
    usage = _read(asm["cubin"], knobs.nvidia.cuobjdump.path, "--dump-resource-usage")
    found = re.search(r"REG:(\d+)", usage)
    assert found is not None, usage
    return int(found[1])


def _fields(text: str) -> dict[str, int]:
    """The counts that AMD's assembly lists for a kernel, such as `vgpr_count`, by their names."""
    return {name: int(n) for name, n in re.findall(r"\.(\w+_count): *(\d+)", text)}


def _found(text: str, pattern: str, names: tuple[str, ...]) -> dict[str, int]:
    return {name: len(re.findall(pattern.format(re.escape(name)), text, flags=re.MULTILINE)) for name in names}


def _read(cubin: str | bytes, *command: str) -> str:
    """What a tool says of NVIDIA's machine code."""
    assert isinstance(cubin, bytes)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([*command, file.name], capture_output=True, text=True, check=True).stdout
