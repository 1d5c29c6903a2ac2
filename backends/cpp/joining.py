"""The stream of a tile in parts, which threads pass side by side: the states that they leave are joined by the law of
each fold, by the part that is done last, in the order of the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from einc.backends.cpp.places import Places
from einc.backends.cpp.schedule import Schedule, product_at_end, shown
from einc.backends.cpp.values import begun, stepped
from einc.backends.host.lets import referred
from einc.backends.writer import Writer
from einc.ir.plan import Dot, Let, PreviousCarry, Reduce


def splits(schedule: Schedule) -> bool:
    """Whether parts of the stream can be passed apart: the stream is one span, all that is carried are folds of real
    numbers that know nothing of what was before, and nothing else leaves the stream.
    """
    kernel = schedule.kernel
    if kernel.stream is None or kernel.merged:
        return False
    carried = [let for let in kernel.lets if let.carry is not None]
    bound = schedule.stream.bound
    one_span = bound is None or bound.spans is None or len(bound.spans) == 1
    folds = all(isinstance(let.op, Dot | Reduce) and let.kind == "real" for let in carried)
    alone = not any(isinstance(let.op, PreviousCarry) or product_at_end(let, schedule) == "rows" for let in kernel.lets)
    inner = not any(schedule.streams(schedule.lets()[store.value]) for store in kernel.stores)
    return bool(carried) and one_span and folds and alone and inner


def joined(places: Places, body: Writer) -> str:
    """Writes, behind the stream, how the states of parts are left and joined; the numbers of one state, as an
    expression. All parts but the last end there.
    """
    carried = [let for let in places.schedule.kernel.lets if let.carry is not None]
    size = f"M * ({' + '.join(_count(let, places) for let in carried)})"
    body.open("if (parts > 1) {")
    body(f"float* state = states + 16 + part * ({size});")
    for let in carried:
        _vectors(let, places, body, lambda mine, theirs: f"stu({theirs}, {mine.text});")
    body("if (!last_of(parts, states)) return;")
    for let in carried:
        _begun(let, places, body)
    body.open("for (L q = 0; q < parts; q++) {")
    body(f"float* state = states + 16 + q * ({size});")
    for let in carried:
        _joined(let, places, body)
    for _ in range(2):
        body.close()
        body("}")
    return size


def _begun(let: Let, places: Places, body: Writer) -> None:
    """Writes the start of what is carried."""
    assert let.carry is not None
    start = f"splat((float){begun(let.carry.fold)})"
    _vectors(let, places, body, lambda mine, _: mine.set(start))


def _count(let: Let, places: Places) -> str:
    """How many numbers of a value each row has."""
    return places.count(let) if places.schedule.features(let) else "1"


@dataclass(frozen=True)
class _Vector:
    """A vector of a value, in memory or in a variable."""

    place: str
    memory: bool

    @property
    def text(self) -> str:
        """The vector as an expression."""
        return f"ld({self.place})" if self.memory else self.place

    def set(self, value: str) -> str:
        """The statement that sets it."""
        return f"st({self.place}, {value});" if self.memory else f"{self.place} = {value};"


def _vectors(let: Let, places: Places, body: Writer, statement: Callable[[_Vector, str], str]) -> None:
    """Writes a statement for each vector of a value: `statement` is given the vector and the address of the same one in
    the state, which the next value follows.
    """
    name, count = places.names[let.name], _count(let, places)
    memory = bool(places.schedule.features(let))
    body.open(f"for (L f = 0; f < {count}; f++) UNROLL for (int i = 0; i < QV; i++) {{")
    body(statement(_Vector(f"{name} + f * M + i * W" if memory else f"{name}[i]", memory), "state + f * M + i * W"))
    body.close()
    body("}")
    body(f"state += {count} * M;")


def _joined(let: Let, places: Places, body: Writer) -> None:
    """Writes how what a part has of a value joins that of the parts before."""
    name, carry = places.names[let.name], let.carry
    assert carry is not None
    if not referred(places.schedule.kernel, let.name):
        if carry.reference is None:
            _vectors(let, places, body, lambda mine, theirs: mine.set(
                stepped(carry.fold, mine.text, f"ldu({theirs})")))
        else:
            about = places.names[carry.reference]
            _vectors(let, places, body, lambda mine, theirs: mine.set(
                f"{mine.text} * {about}_own[i] + ldu({theirs}) * {about}_other[i]"))
        return
    power = "exp2_" if carry.base2 else "exp_"
    merged = stepped(carry.fold, "before", "other") if shown(let, places.schedule) else "top(before, other)"
    body(f"V {name}_own[QV], {name}_other[QV];")
    _vectors(let, places, body, lambda mine, theirs: (
        f"const V before = {mine.text}, other = ldu({theirs}); {mine.set(merged)} "
        f"const V finite = choose({mine.text} == splat(-INFINITE), V{{}}, {mine.text}); "
        f"{name}_own[i] = {power}(before - finite); {name}_other[i] = {power}(other - finite);"))
