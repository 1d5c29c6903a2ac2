"""Weights of somebody else's model in the names and axes of a spec, by a map that is
written: `specs/maps`, a TOML file each.

    W_O = { from = "attn.c_proj.weight", as = "(h d) f -> h d f" }

On the left stand the axes of theirs, on the right those of ours; what is in parentheses is one axis. A letter of the
spec is as long as its set; of the others one in each axis may be left to be found. Several names in `from` are stacked
in front, and so are all layers where a name has `{l}` in it, in front of these; `take = 0` keeps the first part along
the first axis of the right. `or` names what serves where a file has no `from`, as for a weight that is another one. Two
tables may follow: `[presumes]`, what the spec takes a model's config to say, and `[sizes]`, which of its words say
sizes. Non-goals: reading files, tensors of one framework.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from einc.errors.problems import WrongData
from einc.errors.report import Help, listed
from einc.ir.programs import Program, Tensor

Array = Any  # anything with the methods of torch's tensors
Groups = tuple[tuple[str, ...], ...]  # letters and numbers of each axis
LAYER = "{l}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One weight of ours: where it comes from, and how its axes lie. Without a pattern they lie as they are."""

    key: str
    names: tuple[str, ...]
    stacked: bool
    left: Groups = ()
    right: Groups = ()
    take: int | None = None
    other: str = ""  # where the first name is not there


# what is written


def entries(program: Program, written: Mapping[str, Any], where: str) -> list[Entry]:
    """The lines of a map, one for each weight of the program; WrongData where one is missing or does not fit."""
    weights = {t.key: t for t in program.inputs() if t.role == "weight"}
    for key in written.keys() - weights.keys() - {"presumes", "sizes"}:
        raise WrongData(f"{where} speaks of `{key}`, and `{program.name}` has no such weight",
                        helps=(Help(f"its weights are {listed(weights)}"),))
    if missing := [key for key in weights if key not in written]:
        raise WrongData(f"{where} does not say where {listed(missing)} comes from",
                        helps=(Help(f'add a line: `{missing[0]} = "…"`'),))
    return [_entry(tensor, written[key], where) for key, tensor in weights.items()]


def _entry(tensor: Tensor, line: Any, where: str) -> Entry:
    """One line of a map, read for a tensor. WrongData where it is malformed, or its axes do not fit the tensor's."""
    line = line if isinstance(line, dict) else {"from": line}
    names = line.get("from")
    names = [names] if isinstance(names, str) else names
    shape = {"from": list, "as": str, "take": int, "or": str}
    if not isinstance(names, list) or not names or not all(isinstance(x, str) for x in names) or not all(
            key in shape and (key == "from" or isinstance(value, shape[key])) for key, value in line.items()) or (
            "or" in line and (len(names) > 1 or LAYER in names[0])):
        raise WrongData(f"{where}: `{tensor.key}` cannot be read",
                        helps=(Help('write `"name"`, or `{ from = "name", as = "f e -> e f" }`'),))
    take, other = line.get("take"), line.get("or", "")
    layers = any(LAYER in name for name in names)
    if "as" not in line:
        return Entry(tensor.key, tuple(names), layers, take=take, other=other)
    left, arrow, right = line["as"].partition("->")
    made = Entry(tensor.key, tuple(names), layers, _groups(left), _groups(right), take, other)
    before, after = _letters(made.left), _letters(made.right)
    if not arrow or sorted(before) != sorted(after) or len(set(before)) < len(before):
        raise WrongData(f"{where}: the two sides of `{line['as']}` do not have the same letters, each once")
    if (axes := len(made.right) - (take is not None)) != len(tensor.slots):
        raise WrongData(f"{where}: `{line['as']}` makes {axes} axes, and `{tensor.text}` has {len(tensor.slots)}")
    return made


def _groups(text: str) -> Groups:
    return tuple(tuple(piece.strip("()").split()) for piece in re.findall(r"\([^()]*\)|[^\s()]+", text))


def _letters(groups: Groups) -> list[str]:
    return [x for group in groups for x in group]


# what is done


def mapped(program: Program, lines: Sequence[Entry], state: Mapping[str, Array], prefix: str,
           sizes: Mapping[str, int]) -> tuple[dict[str, Array], dict[str, int]]:
    """The weights of the program, and the sizes: those that some of them tell serve the
    others. WrongData where some are open."""
    known = {**program.sizes, **sizes}
    tensors = {t.key: t for t in program.inputs()}
    found = {line.key: _read(line, state, prefix) for line in lines}
    out: dict[str, Array] = {}
    while todo := [line for line in lines if line.key not in out]:
        for line in todo:
            lengths = _lengths(line, tensors[line.key], tuple(found[line.key].shape), known)
            if lengths is not None:
                out[line.key] = _moved(line, found[line.key], lengths)
                learn(tensors[line.key], tuple(out[line.key].shape), known)
        if not any(line.key in out for line in todo):
            open_ = sorted({n for line in todo for slot in tensors[line.key].slots for n in slot.set.extent.sizes}
                           - known.keys())
            raise WrongData(f"the axes of {listed([line.key for line in todo])} can be cut in several ways",
                            helps=(Help(f"give one of {listed(open_)}"),))
    for key, array in out.items():
        _check(tensors[key], tuple(array.shape), known)
    return {key: out[key] for key in tensors if key in out}, known


def _check(tensor: Tensor, shape: tuple[int, ...], known: Mapping[str, int]) -> None:
    """Raises WrongData where the sizes say something else than the shape."""
    names = sorted({name for slot in tensor.slots for name in slot.set.extent.sizes})
    wanted = tuple(int(slot.set.extent.at(known)) if slot.set.extent.sizes <= known.keys() else -1
                   for slot in tensor.slots)
    if len(wanted) != len(shape) or any(n not in (-1, m) for n, m in zip(wanted, shape, strict=True)):
        told = ", ".join(f"{name} = {known[name]}" for name in names if name in known)
        shown = ", ".join("…" if n < 0 else str(n) for n in wanted)
        raise WrongData(f"`{tensor.key}` would have the shape {shape}, and `{tensor.text}` has ({shown})",
                        notes=(f"where {told}",) if told else ())


def _read(line: Entry, state: Mapping[str, Array], prefix: str) -> Array:
    """What the names stand for, stacked where there are several."""
    if line.other and prefix + line.names[0] not in state and prefix + line.other in state:
        return state[prefix + line.other]
    if not line.stacked:
        return _stack([_get(prefix + name, state) for name in line.names], len(line.names) > 1)
    first = prefix + next(name for name in line.names if LAYER in name)
    pattern = re.compile(re.escape(first).replace(re.escape(LAYER), r"(\d+)"))
    count = max((int(m[1]) + 1 for key in state if (m := pattern.fullmatch(key))), default=1)
    layers = [[_get((prefix + name).replace(LAYER, str(n)), state) for name in line.names] for n in range(count)]
    return _stack([_stack(layer, len(line.names) > 1) for layer in layers], True)


def _get(name: str, state: Mapping[str, Array]) -> Array:
    """A weight by its name in the file. Raises WrongData where there is none."""
    if name in state:
        return state[name]
    near = [key for key in state if key.endswith(name) or key.rsplit(".", 2)[-2:] == name.rsplit(".", 2)[-2:]][:3]
    raise WrongData(f"there is no `{name}` among the weights that are given", helps=(
        Help(f"there are {listed(near)}: give the prefix of one layer" if near else _first(list(state))),))


def _first(names: list[str]) -> str:
    """A statement of the first few names of weights, and of how many more there are."""
    if not names:
        return "no weight is given at all"
    more = len(names) - 3
    return f"there are {listed(names[:3])}" + (f", and {more} more" if more > 0 else "")


def _stack(arrays: list[Array], new: bool) -> Array:
    """Side by side along a new first axis. Raises WrongData where their shapes differ."""
    if not new:
        return arrays[0]
    if any(a.shape != arrays[0].shape for a in arrays):
        raise WrongData(f"weights of shapes {', '.join(str(tuple(a.shape)) for a in arrays)} cannot be stacked")
    out = arrays[0].new_empty((len(arrays), *arrays[0].shape))
    for n, array in enumerate(arrays):
        out[n] = array
    return out


def _lengths(line: Entry, tensor: Tensor, shape: tuple[int, ...], known: Mapping[str, int]) -> dict[str, int] | None:
    """How long each letter of the pattern is; None where that is not known yet. Raises WrongData."""
    if line.left and len(line.left) != len(shape):
        raise WrongData(f"`{line.key}` comes from an array of {len(shape)} axes, and its map speaks of "
                        f"{len(line.left)}")
    lengths = dict(_known_lengths(tensor, known))
    for group, n in zip(line.left, shape, strict=False):
        lengths |= {x: int(x) for x in group if x.isdigit()}
        unknown = [x for x in group if x not in lengths]
        rest = math.prod(lengths[x] for x in group if x in lengths)
        if len(unknown) > 1:
            return None
        if (not unknown and rest != n) or (unknown and (not rest or n % rest)):
            told = " · ".join(f"{x} = {lengths[x]}" if x in lengths and not x.isdigit() else x for x in group)
            raise WrongData(f"`{line.key}`: an axis of {n} elements is not ({told})")
        lengths |= {x: n // rest for x in unknown}
    return lengths


def _known_lengths(tensor: Tensor, known: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The letters of a tensor whose length the sizes tell."""
    for slot in tensor.slots:
        if slot.set.extent.sizes <= known.keys():
            yield slot.name, int(slot.set.extent.at(known))


def learn(tensor: Tensor, shape: tuple[int, ...], known: dict[str, int]) -> None:
    """Adds to `known` the sizes that are the extent of a slot, where nothing told them yet."""
    for slot, n in zip(tensor.slots, shape, strict=False):
        match slot.set.extent.terms:
            case ((((str(name), 1),), coefficient),) if coefficient == 1:
                known.setdefault(name, n)


def _moved(line: Entry, array: Array, lengths: Mapping[str, int]) -> Array:
    """The array with its axes as ours. Raises WrongData."""
    if line.left:
        flat = _letters(line.left)
        array = array.reshape([lengths[x] for x in flat]).permute([flat.index(x) for x in _letters(line.right)])
        array = array.reshape([math.prod(lengths[x] for x in group) for group in line.right])
    if line.take is not None:
        if not -array.shape[0] <= line.take < array.shape[0]:
            raise WrongData(f"`{line.key}` takes part {line.take} of {array.shape[0]}: they count from 0")
        array = array[line.take]
    return array.contiguous()
