"""What is merged tile by tile: neutral elements, a tile's share, a reference that grows;
and the states of several programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from einc.backends.host.code import PRODUCT, SUM, Code
from einc.backends.host.lets import referred
from einc.backends.triton import spelling
from einc.backends.triton.prologue import Frame
from einc.backends.triton.tile import TYPES
from einc.ir.folds import FOLDS
from einc.ir.plan import Dot, Kernel, Let, Map, PreviousCarry, Reduce, Scan, ScatterAdd


def shared(kernel: Kernel) -> bool:
    """Whether the passed axis of a tile can be shared among programs: all that is carried are folds, merged by their
    own law, or sums about such folds, which follow them to the whole.
    """
    carried = [let for let in kernel.lets if let.carry is not None]
    if kernel.stream is None or not carried or any(let.kind != "real" for let in carried):
        return False
    about = [let for let in carried if not _is_fold(let)]
    before = {let.args[0] for let in kernel.lets if isinstance(let.op, PreviousCarry)}
    return before <= {let.name for let in carried if _is_fold(let)} and all(map(_follows, about)) and (
        not before or bool(about))


def _is_fold(let: Let) -> bool:
    """Whether a let is a fold over elements, so that two states of it merge by its law."""
    return isinstance(let.op, Dot | Reduce | ScatterAdd)


def _follows(let: Let) -> bool:
    """Whether what is carried is a sum with a scale, of which each state is moved to other maxima from its own."""
    return isinstance(let.op, Map) and let.carry is not None and let.carry.fold == "sum" and (
        let.carry.reference is not None)


@dataclass
class Merger(Frame):
    """A frame with the values that go from tile to tile."""

    states: dict[str, str] = field(default_factory=dict)  # let -> the variable that is merged
    scales: dict[str, str] = field(default_factory=dict)  # reference -> the factor of this tile

    def start(self, let: Let) -> None:
        """Writes the neutral element of a let, before the first tile."""
        op = let.op
        fold = let.carry.fold if let.carry is not None else op.fold if isinstance(op, Reduce | Scan) else "sum"
        if isinstance(op, Scan):
            shape = tuple(d for d in self.scribe.shape(let.args[0]) if d.role != "passed")
            kind = "tl.float64" if FOLDS[fold].rounds else "WIDE"
        else:
            shape, kind = self.scribe.shape(let.name), TYPES[let.kind]
        name = self.fresh(f"{let.name}_run" if isinstance(op, Scan) else let.name if not let.name.startswith("_")
                          else "fold")
        blocks = ", ".join(self.given.block(d.name) for d in shape)
        self.body(f"{name} = tl.full(({blocks}{',' * (len(shape) == 1)}), {spelling.start(fold)}, {kind})")
        self.states[let.name] = name

    def before(self, let: Let) -> None:
        """Writes what is merged so far of the let's argument, under a name that stays."""
        state = self.states[let.args[0]]
        name = self.fresh(f"{state}_before")
        self.body(f"{name} = {state}")
        self.scribe.variables[let.name] = Code(name)

    def merge(self, let: Let) -> None:
        """Writes one tile's share, merged into what the tiles before gave; a reference that grows rescales what refers
        to it.
        """
        name, carry, scribe = self.states[let.name], let.carry, self.scribe
        if isinstance(let.op, ScatterAdd):
            self.body(f"{name} = {scribe.scatter_add(let, let.op, name)}")
            scribe.variables[let.name] = Code(name)
            return
        fold = carry.fold if carry is not None else let.op.fold if isinstance(let.op, Reduce) else "sum"
        scaled = name
        if carry is not None and carry.reference is not None:
            marks = scribe.marks(scribe.shape(carry.reference), scribe.shape(let.name))
            scaled = f"{name} * {self.scales[carry.reference]}{marks}"
        if not isinstance(let.op, Dot | Reduce):
            share, merged = scribe.expression(let), False
        else:
            share, merged = scribe.fold(let, scaled if fold == "sum" else "")
            share = Code(f"{share.text} * {share.factor}", PRODUCT) if share.factor else share
        scribe.variables[let.name] = Code(name)
        if merged:
            self.body(f"{name} = {share.text}")
        elif referred(self.kernel, let.name):
            self._reference(let, name, share.text)
        elif fold in ("sum", "prod"):
            text = share.at(SUM if fold == "sum" else PRODUCT + 1)
            self.body(f"{name} = {spelling.merged(fold, scaled, text, scribe.helpers)}")
        else:
            self.body(f"{name} = {spelling.merged(fold, name, share.text, scribe.helpers)}")

    def _reference(self, let: Let, name: str, share: str) -> str:
        """Writes the running maximum, and the factor by which everything relative to it shrinks when it grows."""
        assert let.carry is not None
        before, scale = self.fresh(f"{name}_before"), self.fresh(f"{name}_scale")
        self.scales[let.name] = scale
        self.body(f"{before} = {name}")
        self.body(f"{name} = tl.maximum({name}, {share})")
        finite = name
        if self.parts or not let.carry.full:
            finite = self.fresh(f"{name}_finite")
            self.body(f'{finite} = tl.where({name} == float("-inf"), 0.0, {name})  # rows without a point so far')
            self.scribe.variables[let.name] = Code(finite)
        self.body(f"{scale} = {self._power(let, before, finite)}")
        return finite

    @staticmethod
    def _power(let: Let, old: str, new: str) -> str:
        power = "exp2" if let.carry is not None and let.carry.base2 else "exp"
        return f"tl.{power}({old} - {new}){'.to(WIDE)' if let.kind == 'exact' else ''}"

    # states of several programs

    def _addresses(self, place: str) -> list[tuple[Let, str]]:
        """Where the states of a program stand in memory, one after the other."""
        out: list[tuple[Let, str]] = []
        offset = place
        for let in self.kernel.lets:
            if let.carry is not None:
                shape = self.scribe.shape(let.name)
                blocks = [self.given.block(d.name) for d in shape]
                steps = []
                for n, dim in enumerate(shape):
                    later = "".join(f" * {b}" for b in blocks[n + 1 :])
                    steps.append(f"tl.arange(0, {blocks[n]}){self.scribe.marks((dim,), shape)}{later}")
                out.append((let, " + ".join([offset, *steps])))
                offset += f" + {' * '.join(blocks) or '1'}"
        return out

    def numel(self) -> str:
        """Numbers of the states of one program, in the blocks of its tile."""
        shapes = [self.scribe.shape(let.name) for let in self.kernel.lets if let.carry is not None]
        return " + ".join(" * ".join(self.given.block(d.name) for d in shape) or "1" for shape in shapes)

    def leave(self) -> None:
        """Writes the states of this program, for the kernel that joins the parts."""
        self.body(f"place = states + tl.program_id(0).to(tl.int64) * ({self.numel()})")
        for let, address in self._addresses("place"):
            self.body(f"tl.store({address}, {self.states[let.name]})")

    def join(self) -> None:
        """Writes the states of all parts, merged by the law of each."""
        carried = [let for let in self.kernel.lets if let.carry is not None]
        for let in carried:
            self.start(let)
        self.body.open("for part in range(0, parts):")
        self.body(f"place = states + (tl.cast(part, tl.int64) * tl.num_programs(0) + tl.program_id(0)) * "
                  f"({self.numel()})")
        previous = [let for let in self.kernel.lets if isinstance(let.op, PreviousCarry)]
        for let in previous:
            self.before(let)
        ours = {let.name: self.scribe.variables[let.name] for let in previous}
        stored = self._addresses("place")
        parts = {let.name: self.fresh(f"{self.states[let.name]}_part") for let, _ in stored
                 if referred(self.kernel, let.name) or any(let.name == p.args[0] for p in previous)}
        for name, address in ((let.name, address) for let, address in stored if let.name in parts):
            self.body(f"{parts[name]} = tl.load({address})")
        theirs = {let.name: Code(parts[let.args[0]]) for let in previous}
        shares: dict[str, str] = {}
        for let, address in stored:
            carry, name = let.carry, self.states[let.name]
            assert carry is not None
            share, moved = parts.get(let.name, f"tl.load({address})"), ""
            if not _is_fold(let):
                moved = "".join(f" + {self._moved(let, state)}" for state in (ours, theirs))
            if referred(self.kernel, let.name):
                finite = self._reference(let, name, share)
                shares[let.name] = self.fresh(f"{name}_share")
                self.body(f"{shares[let.name]} = {self._power(let, share, finite)}")
                continue
            if carry.reference is not None:
                marks = self.scribe.marks(self.scribe.shape(carry.reference), self.scribe.shape(let.name))
                own, other = self.scales[carry.reference], shares[carry.reference]
                self.body(f"{name} = {name} * {own}{marks} + {share} * {other}{marks}{moved}")
            else:
                self.body(f"{name} = {spelling.merged(carry.fold, name, share, self.scribe.helpers)}")
            self.scribe.variables[let.name] = Code(name)
        self.body.close()
        for name, variable in self.states.items():
            self.scribe.variables[name] = Code(variable)

    def _moved(self, let: Let, state: Mapping[str, Code]) -> str:
        """What a sum about maxima gains where those of one state become those of all: what is carried without the share
        of a tile, with this state as the one before it. Changes `self.scribe.variables`."""
        lets, waiting = {x.name: x for x in self.kernel.lets}, [*let.args]
        before = dict(self.scribe.variables)
        self.scribe.variables |= state
        while waiting:
            found = lets[waiting.pop()]
            if found.carry is None and _is_fold(found):
                self.scribe.variables[found.name] = Code("0.0")
            elif found.carry is None and found.name not in state:
                waiting += found.args
        text = self.scribe.expression(let).at(SUM)
        self.scribe.variables.clear()
        self.scribe.variables |= before
        return f"({text})"
