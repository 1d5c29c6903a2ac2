"""Tensors in and out of `einc run`: random ones, and `.npz` and `.safetensors` files.

Tensors are those of the framework that emitted files import; it is loaded by name, since
nothing in the compiler needs it.
"""

from __future__ import annotations

import importlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from einc import planning
from einc.driver.commands.sizes import extent, sets
from einc.driver.files import size
from einc.errors.report import EincError, Problem, failure
from einc.ir.indices import WIDTH, Extent
from einc.ir.programs import Program, Tensor
from einc.ir.terms import Apply, Position, Read, Term, walk
from einc.meaning.bytes import in_bytes
from einc.meaning.functions import function

SUFFIXES = (".npz", ".safetensors")
FEW = 4
UNPACKED, RATIO = 2**30, 20  # bytes that any archive may unpack to, and how many times its own size a larger one

Array = Any  # a tensor of the framework


def framework() -> Any:
    """The module torch, imported when it is first needed."""
    return importlib.import_module("torch")


def dtype_of(tensor: Array) -> str:
    """The element type of a tensor by its name, such as `float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def exact(tensor: Array) -> np.ndarray[Any, Any]:
    """The tensor for the interpreter: float64, or integers as they are."""
    plain = tensor.detach().cpu()
    return np.asarray((plain.double() if plain.is_floating_point() else plain).numpy())


# random tensors


def randoms(program: Program, sizes: Mapping[str, int], dtype: str, seed: int) -> dict[str, Array]:
    """A random tensor for each input, normal; weights so that what they make has a spread near 1."""
    generator = np.random.default_rng(seed)
    torch, some = framework(), rates(program)
    out = {}
    for tensor in program.inputs():
        shape = tuple(extent(slot.set.extent, sizes) for slot in tensor.slots)
        if (total := _divided(program, tensor)) is not None:
            ends = np.sort(generator.integers(0, extent(total, sizes) + 1, max(shape[0] - 1, 0)))
            out[tensor.key] = torch.from_numpy(np.diff(ends, prepend=0, append=extent(total, sizes)))
        elif tensor.integer:
            low, high = _range(program, tensor, sizes)
            out[tensor.key] = torch.from_numpy(np.asarray(generator.integers(low, max(low, high) + 1, shape)))
        else:
            fading, rate = fades(program, tensor), tensor.key in some
            values = generator.uniform(0.5, 1, shape) if fading else _normal(generator, tensor, shape, rate)
            if (row := tensor.element.narrow) is not None:  # a quarter of its range, rounded
                values = function(row.name)(np.asarray(generator.standard_normal(shape) * row.high / 4))
                values = in_bytes(values, row) if tensor.element.shared else values
            out[tensor.key] = torch.from_numpy(np.asarray(values)).to(_kind(tensor, getattr(torch, dtype)))
    return out


def rates(program: Program) -> frozenset[str]:
    """The inputs that are a part of 1, as a probability is."""
    return frozenset(planning.class_of(program).rates)


def fades(program: Program, tensor: Tensor) -> bool:
    """Whether the tensor is raised to a power that grows along an axis: beyond 1 nothing could hold it."""
    for equation in program.equations:
        for term in walk(equation.body):
            match term:
                case Apply("pow", (Read(key), power)) if (
                    key == tensor.key and any(isinstance(t, Position) for t in walk(power))
                ):
                    return True
    return False


def _divided(program: Program, tensor: Tensor) -> Extent | None:
    """The extent that the lengths in a tensor add up to."""
    return next((x.extent for x in sets(program) if x.packed is not None and x.packed.lengths == tensor.key), None)


def _normal(generator: np.random.Generator, tensor: Tensor, shape: tuple[int, ...], rate: bool) -> np.ndarray[Any, Any]:
    if not shape:
        # A scalar is a scale, a base or a small constant; near 1 and positive suits most of them. A rate is a part of
        # 1.
        return np.asarray(generator.uniform(0.5, 1.5) / (3 if rate else 1))
    values = generator.standard_normal(shape)
    if tensor.role != "weight":
        return values
    fan_in = [n for slot, n in list(zip(tensor.slots, shape, strict=True))[:-1] if slot.set.cls in WIDTH]
    return np.asarray(values / np.sqrt(max(int(np.prod(fan_in)), 1)))


def _range(program: Program, tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, int]:
    """First and last value that an integer tensor may have: those of a slot it stands in,
    or of a position it is compared with."""
    for equation in program.equations:
        for term in (t for root in (equation.domain, equation.body) for t in walk(root)):
            match term:
                case Read(outer, subs):
                    slots = program.tensors[outer].slots
                    places = [slot.set for slot, sub in zip(slots, subs, strict=True) if _reads(sub, tensor)]
                case Apply("le" | "lt" | "eq", (a, b)):
                    pairs = ((a, b), (b, a))
                    places = [y.index.set for x, y in pairs if isinstance(y, Position) and _reads(x, tensor)]
                case _:
                    continue
            if places:
                return places[0].start, places[0].start + extent(places[0].extent, sizes) - 1
    return 1, FEW


def _reads(term: Term, tensor: Tensor) -> bool:
    return any(isinstance(t, Read) and t.tensor == tensor.key for t in walk(term))


# files


def check_output(path: str) -> None:
    """Refuse, before the work is done, a file that cannot be written after it."""
    _check_suffix(path)
    if not Path(path).parent.is_dir():
        raise failure(f"there is no folder {Path(path).parent} to write {path} in")


def _check_suffix(path: str) -> None:
    if Path(path).suffix not in SUFFIXES:
        raise failure(f"{path} ends neither in .npz nor in .safetensors, the two formats that are read and written")


def load(path: str, program: Program, dtype: str | None) -> dict[str, Array]:
    """The inputs of the program from a file, floats as `dtype` where it is given; every tensor that does not fit is
    told. Raises EincError then."""
    found = everything(path)
    problems = list(_misfits(path, program, found))
    if problems:
        raise EincError(problems)
    torch = framework()
    kinds = {t.key: _kind(t, getattr(torch, dtype) if dtype else found[t.key].dtype) for t in program.inputs()}
    return {key: found[key].to(kind) for key, kind in kinds.items()}


def _kind(tensor: Tensor, real: Any) -> Any:
    """The element type of an input, a type of torch; `real` is that of the data."""
    torch = framework()
    if tensor.element.narrow is not None:
        return getattr(torch, tensor.element.storage)
    return torch.int64 if tensor.integer else real


def everything(path: str) -> dict[str, Array]:
    """All that stands in a file, under its own names."""
    _check_suffix(path)
    return _load_npz(path) if path.endswith(".npz") else _load_safetensors(path)


def _load_npz(path: str) -> dict[str, Array]:
    """The arrays of an .npz file as tensors. EincError where it cannot be read, or torch has no such element type."""
    torch = framework()
    _check_unpacked(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise failure(f"{path} cannot be read as .npz: {str(error) or 'it is cut short'}") from error
    out = {}
    for name, array in arrays.items():
        try:
            out[name] = torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
        except (TypeError, ValueError) as error:
            raise failure(
                f"`{name}` in {path} has elements of type {array.dtype}, which is no type of torch") from error
    return out


def _check_unpacked(path: str) -> None:
    """Refuses what is no archive, and an archive that unpacks to much more than it holds,
    before anything is unpacked."""
    held = size(path)
    most = max(UNPACKED, RATIO * held)
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise failure(f"{path} is no .npz archive") from error
    if total > most:
        raise failure(f"{path} unpacks to {total:,} bytes, more than the {most:,} that are unpacked from a file of "
                      f"{held:,}",
                      "save it uncompressed, with `numpy.savez`, or as .safetensors")


def _load_safetensors(path: str) -> dict[str, Array]:
    size(path)  # A file that is not there is told as for every other file.
    with open(path, "rb"):
        pass
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise failure(f"{path} cannot be read as .safetensors: {error}") from error


def _misfits(path: str, program: Program, found: Mapping[str, Array]) -> Iterator[Problem]:
    """What does not fit in a file: tensors that are missing or not asked for, wrong ranks, wrong kinds of elements."""
    wanted = {tensor.key: tensor for tensor in program.inputs()}
    for key, tensor in wanted.items():
        if key not in found:
            yield Problem(f"{path} has no `{key}` (written `{tensor.text}` in the spec)")
            continue
        array = found[key]
        if array.ndim != len(tensor.slots):
            axes = " ".join(slot.name for slot in tensor.slots)
            yield Problem(f"`{key}` in {path} has {array.ndim} axes, and `{tensor.text}` has {len(tensor.slots)} "
                          f"({axes})")
        kind = ("float" if array.is_floating_point() else "other" if array.is_complex() or dtype_of(array) == "bool"
                else "int")
        if (tensor.element.narrow is not None and dtype_of(array) != tensor.element.storage) or (
                tensor.element.narrow is None and kind != ("int" if tensor.integer else "float")):
            word = tensor.element.word
            declared = f"declared `: {word}`" if word else "not declared `: int`"
            yield Problem(f"`{key}` in {path} has elements of type {dtype_of(array)}, and `{tensor.text}` is "
                          f"{declared}")
    extra = sorted(found.keys() - wanted.keys())
    if extra:
        listed = ", ".join(f"`{name}`"
                           for name in extra[:8]) + (f" and {len(extra) - 8} more" if len(extra) > 8 else "")
        asks = ", ".join(f"`{name}`" for name in wanted)
        yield Problem(f"{path} has {listed}, and the spec asks for {asks or 'nothing'}")


def save(path: str, tensors: Mapping[str, Array]) -> None:
    """Write the tensors; numpy has no bfloat16, so in a `.npz` those are float32."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if path.endswith(".npz"):
        np.savez(path, **{n: (t.float() if dtype_of(t) == "bfloat16" else t).numpy() for n, t in plain.items()})
    else:
        importlib.import_module("safetensors.torch").save_file({n: t.clone() for n, t in plain.items()}, path)
