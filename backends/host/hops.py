"""Hops of a plan as statements: one call of the helper that passes blocks round, with the function of one hop and the
one that merges, which stand after the entry.
"""

from __future__ import annotations

from einc.backends.host import folding
from einc.backends.host.contractions import element
from einc.backends.host.loops import Dialect, Page, Steps, function
from einc.backends.host.scalars import scalar
from einc.backends.writer import folded, sized
from einc.ir.indices import size
from einc.ir.plan import BLOCK_PLACES, Hops
from einc.ir.terms import Size, Term, transform


def hops(step: Hops, page: Page, dialect: Dialect, write: Steps) -> None:
    """Writes a step that is done in hops."""
    module, body, around = page.module, page.body, step.around
    page.helpers.add("_around")
    own, part = page.names.fresh("own"), page.names.fresh("part")
    order = [n for round_ in (False, True) for n, one in enumerate(step.given) if one.round == round_]
    given = [f"({step.reads[n]}, {step.given[n].axis})" for n in order]
    count = sum(not one.round for one in step.given)
    blocks = {step.given[n].key: page.names.fresh("x") for n in order}
    places = {around.own: own, around.part: part}
    wanted = [one.key for one in step.made]
    compute = _function(step, "_hop", "What one hop makes.", wanted, blocks, places, page, dialect, write)
    merged = [one.key for one in step.made if one.fold and not one.sent]
    merge = "None"
    if step.merge is not None:
        shares = {t.key: page.names.fresh("x") for t in step.merge.inputs}
        merge = _function(step, "_merge", "Shares of two hops as one.", [f"{key}_merged" for key in merged], {
            f"{key}_{end}": shares[f"{key}_{end}"] for end in ("before", "here") for key in merged}, {}, page, dialect,
            write)
    steps = [folding.step(one.fold, page.helpers) if one.fold else "None" for one in step.made]
    made = [f"({fold}, {one.own}, {one.part}, {one.sent})" for fold, one in zip(steps, step.made, strict=True)]
    named = dict(zip(BLOCK_PLACES, (own, part), strict=True))
    test = scalar(transform(around.meets, lambda term: _placed(term, named)))
    page.helpers |= test.calls
    for text in step.texts:
        body(f"# {text}")
    results = ", ".join(step.writes)
    body(f"{results}{',' * (len(step.writes) == 1)} = _around(")
    for text in (f"[{', '.join(given[:count])}], [{', '.join(given[count:])}],", f"{compute},", f"{merge},",
                 f"[{', '.join(made)}],", f"lambda {own}, {part}: {test.text},"):
        body.lines += folded(f"{'    ' * (body.depth + 1)}{text}")
    body(f"    {around.group.ranks}, {around.blocks}, {sized(around.group.place)}, {sized(around.group.told)})")
    for name, one in zip(step.writes, step.made, strict=True):
        after = module.buffers[name]
        if element(step.body.buffers[one.key], named=False) != element(after, named=False):
            body(f"{name} = {name}.to({element(after)})")


def _placed(term: Term, places: dict[str, str]) -> Term:
    """A number with the names of the blocks' places in it."""
    return Size(term.extent.put({old: size(new) for old, new in places.items()})) if isinstance(term, Size) else term


def _function(step: Hops, stem: str, told: str, results: list[str], tensors: dict[str, str], places: dict[str, str],
              page: Page, dialect: Dialect, write: Steps) -> str:
    """Writes a body as a function of its own; a call of it as a function of places and of tensors in their order."""
    plan = step.body if stem == "_hop" else step.merge
    assert plan is not None
    name = page.names.fresh(stem)
    inner, sizes, _ = function(plan, name, told, results, page, dialect, write)
    handed = [f"{mine}={tensors[key]}" for key, mine in inner.items()]
    handed += [f"{mine}={places.get(key) or dict(step.sizes)[key]}" for key, mine in sizes.items()]
    said = ", ".join([*places.values(), *tensors.values()])
    tuple_ = f"{name}({', '.join([*handed, 'device=device', 'dtype=dtype'])})"
    return f"lambda {said}: {tuple_ if len(results) > 1 else f'({tuple_},)'}"
