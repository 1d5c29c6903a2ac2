"""Results of a kernel in memory: stored from the tile of rows, from blocks, or added to by tile after tile."""

from __future__ import annotations

from einc.backends.cpp.places import Places
from einc.backends.cpp.schedule import Unwritten
from einc.backends.cpp.values import At, converted
from einc.ir.plan import Let, Store


def write_store(places: Places, store: Store) -> None:
    """Writes the statements that store a value of rows, with its features if it has some."""
    let, strides = places.schedule.lets()[store.value], places.addresses.slots(store)
    rows, features = strides[places.schedule.rows.name], places.schedule.features(let)
    if not features:
        places.body.open("for (int i = 0; i < QV; i++) {")
        value = converted(places.value(let.name, At()), "real", True)
        places.body(f"save({places.addresses.base(store, strides)} + i * W * {rows}, {rows}, rows - i * W, {value});")
        places.close("i")
        return
    inner = places.open(features[:-1], At())
    last = features[-1]
    flat = places.flat(let, At(features=(*inner.features, (last, "0"))))
    base = places.addresses.base(store, strides, inner.features)
    places.body(f"unpack({base}, {rows}, {strides[last]}, rows, "
              f"{places.arguments.size(places.addresses.extent(last))}, "
              f"{places.names[let.name]} + {flat} * M);")
    places.close(features[:-1])


def store_block(places: Places, store: Store, at: At) -> None:
    """Writes the statement that stores a vector of a block."""
    strides = places.addresses.slots(store)
    rows, along = strides[places.schedule.rows.name], strides[places.schedule.stream.name]
    value = converted(places.value(store.value, at), "real", True)
    first = f"{places.addresses.base(store, strides)} + {at.position} * {along} + i * W * {rows}"
    places.body(f"save({first}, {rows}, rows - i * W, {value});")


def target(places: Places, let: Let, store: Store) -> tuple[str, str, str]:
    """Where the shares of a tile of the stream are added: the first element, the strides along stream and features.
    Raises Unwritten where the value has several features."""
    strides, features = places.addresses.slots(store), places.schedule.features(let)
    if len(features) != 1:
        raise Unwritten(f"`{let.name}` has several features")
    return places.addresses.base(store, strides), strides[places.schedule.stream.name], strides[features[0]]
