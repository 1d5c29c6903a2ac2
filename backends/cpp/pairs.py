"""Operands of products once more in another layout: as pairs or fours of narrow numbers, or row after row."""

from __future__ import annotations

from einc.backends.cpp.narrow import Narrow
from einc.backends.cpp.places import Places
from einc.backends.cpp.values import At
from einc.ir.plan import Let


def _paired(places: Places, let: Let, kind: str, amount: str, text: str, where: str = "PAIRS") -> None:
    """Allots memory for the pairs of a loaded operand, and the statement that fills it where pairs are multiplied."""
    if f"{let.name} {kind}" in places.pairing.pairs:
        return
    name = places.arguments.fresh(f"{let.name}_pairs")
    places.allot(name, amount)
    (feature,) = places.schedule.features(let)
    found = places.addresses.address(let, At(features=((feature, "0"),)), places.value)
    along = found.rows if places.schedule.has_rows(let) else places.addresses.stride(let, places.schedule.stream.name)
    places.body.lines.append(f"#if {where}")
    places.body(text.format(pointer=found.pointer, along=along, step=places.addresses.stride(let, feature),
                            name=f"(u32*){name}"))
    places.body.lines.append("#endif")
    places.pairing.pairs[f"{let.name} {kind}"] = (f"(const u32*){name}",)


def pack_pairs(places: Places, let: Let) -> None:
    """Writes pairs of features of a tile of rows."""
    count = places.count(let)
    text = f"pack_pairs({{pointer}}, {{along}}, {{step}}, rows, {count}, {{name}});"
    _paired(places, let, "features", f"({count} + 1) / 2 * M", text)


def pack_quads(places: Places, let: Let) -> None:
    """Writes fours of features of a tile of rows, and what is taken off their sums."""
    count = places.count(let)
    text = f"pack_quads({{pointer}}, {{along}}, {{step}}, rows, {count}, {{name}});"
    _paired(places, let, "features", f"(({count} + 3) / 4 + ({count}) / WHOLE + 1) * M", text, "QUADS")


def pair_rows(places: Places, let: Let) -> None:
    """Writes pairs of rows, each with all its features."""
    count, across = places.count(let), places.across(let)
    text = f"pair_positions({{pointer}}, {{along}}, {{step}}, rows, {count}, {across}, {{name}});"
    _paired(places, let, "rows", f"M / 2 * {across}", text)


def pair_stream(places: Places, let: Let) -> None:
    """Writes pairs of positions of the stream, each with all its features."""
    count = places.count(let)
    many = "if (QV > 1 || rows > FEW || {step} != 1) "
    text = f"{many}pair_positions({{pointer}}, {{along}}, {{step}}, count, {count}, {count}, {{name}});"
    _paired(places, let, "stream", f"TILE / 2 * ({count})", text)


def raw_stream(places: Places, let: Let, where: str) -> None:
    """Writes a tile of the stream in the type in which it is stored, its features side by side."""
    if f"{let.name} raw" in places.pairing.pairs:
        return
    name, count = places.arguments.fresh(f"{let.name}_raw"), places.count(let)
    (feature,) = places.schedule.features(let)
    found = places.addresses.address(let, At(features=((feature, "0"),)), places.value)
    along, step = places.addresses.stride(let, places.schedule.stream.name), places.addresses.stride(let, feature)
    kind, numbers = ("DATA", 2) if where == "PAIRS" else ("int8", 4)
    places.allot(name, f"TILE * ({count}) / {numbers} + 1")
    places.body.lines.append(f"#if {where}")
    lies = found.type in ("DATA", "RANGED", kind)  # else it has room of its own, but where few rows read it as it lies
    many = f"QV > 1 || rows > FEW || {step} != 1" if kind == "DATA" else "1"
    places.body(f"const {kind}* {name}_at = {found.pointer if lies else '0'}; L {name}_s = {along};")
    places.body(f"if ({f'{step} != 1' if lies else many}) {{ "
                f"side_by_side({found.pointer}, {along}, {step}, count, {count}, ({kind}*){name}); "
                f"{name}_at = (const {kind}*){name}; {name}_s = {count}; }}")
    places.body.lines.append("#endif")
    places.pairing.pairs[f"{let.name} raw"] = f"{name}_at", f"{name}_s"


def list_rows(places: Places, let: Let) -> None:
    """Writes a tile of few rows with features once more, its rows one after the other without a gap."""
    if let.name not in places.listed:
        places.listed[let.name] = _listed(places, places.names[let.name], places.count(let), "float", "QV == 1")


def list_pairs(places: Places, found: Narrow) -> None:
    """Writes the pairs of features of a tile of few rows once more, its rows one after the other without a gap."""
    (pairs,), count = places.pairing.pairs[f"{found.rows} features"], places.count(places.schedule.lets()[found.rows])
    if pairs not in places.listed:
        places.listed[pairs] = _listed(places, pairs, f"({count} + 1) / 2", "u32", "QV == 1 && PAIRS")


def _listed(places: Places, source: str, count: str, kind: str, where: str) -> str:
    """Writes numbers of few rows one row after the other, where a condition of the preprocessor holds; returns where
    they stand."""
    name = places.arguments.fresh("listed")
    places.allot(name, f"FEW * ({count})")
    places.body.lines.append(f"#if {where}")
    places.body(f"if (rows <= FEW) listed({source}, rows, {count}, ({kind}*){name});")
    places.body.lines.append("#endif")
    return f"(const {kind}*){name}"
