"""The names of values that passes make: the letters that a paper would take, by what a value is.

m is an extreme, z a sum that something is divided by, N a sum above such a z, S any other sum, E an exponential, ℓ
a logarithm. A letter that one value alone has stands by itself. Where several values or a declared name have it,
each takes the letter of the tensor that it is made for as a label, z_A, and then a number. K_at has values of K at
other places, q_P is the product of q and P.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar

from einc.ir.draft import unused, with_other_names
from einc.ir.programs import Equation, IndexLoop, Program
from einc.ir.sums import factors
from einc.ir.terms import Apply, Fold, Read, Size, walk

P = TypeVar("P", bound=Program)

# What a value is -> the letters for it, the best one first, as Python spells them.
LETTERS: Mapping[str, tuple[str, ...]] = {
    "max": ("m", "M"), "min": ("m", "M"), "divisor": ("z", "Z"), "numerator": ("N", "U"), "sum": ("S", "R"),
    "prod": ("P", "Pi"),
    "mean": ("mu", "r"), "moment": ("M", "C"), "exp": ("E", "P"), "exp2": ("E", "P"), "log": ("ell", "Lambda"),
    "sqrt": ("r", "rho"), "cos": ("C", "c"), "sin": ("D", "eta"), "pick": ("I", "J"), "ties": ("n", "nu"),
}  # fmt: skip
_OTHERS = ("u", "w", "U")  # of a value that is none of these
# What Python spells otherwise: an index or an input may have the letter itself.
_WRITTEN = {"mu": "μ", "ell": "ℓ", "Lambda": "Λ", "rho": "ρ", "eta": "η", "nu": "ν", "Pi": "Π"}
# In names that only a pass knows:
MADE = "·"  # stands between a value and what is made for it,
TIMES = "×"  # between the factors of a product.


def letter(what: str, owner: str, taken: Container[str]) -> str:
    """A free name for one value that is made for the tensor `owner`; `what` is an entry
    of `LETTERS`, or anything else."""
    return _free(what, taken) or unused(labelled(what, owner), taken)


def _free(what: str, taken: Container[str]) -> str | None:
    """The first letter of a value that nothing else has, written or spelled; None where all are taken."""
    return next((x for x in LETTERS.get(what, _OTHERS) if x not in taken and _WRITTEN.get(x, x) not in taken), None)


def labelled(what: str, owner: str) -> str:
    """The letter of a value with that of the tensor it is made for as a label, where
    other values have the letter, too."""
    return with_label(LETTERS.get(what, _OTHERS)[0], owner)


def with_label(name: str, owner: str) -> str:
    """A name with the letter of a tensor as its label, or with a prime where that letter could be one of an index."""
    label = owner.split("_", maxsplit=1)[0]
    return f"{name}_prime" if len(label) == 1 and label.islower() else f"{name}_{label}"


def with_letters(program: P, known: Container[str]) -> P:
    """The program with a letter for every value that it defines and that is not known."""
    made = {e.target: e for e in program.equations if e.target not in known}
    if not made:
        return program
    names = _chosen(made, program.equations, taken_names(program, made))
    loops = [x.change(lambda key: names.get(key, key)) if isinstance(x, IndexLoop) else x for x in program.loops]
    return with_other_names(program, names).but(loops=loops)


def letters_for(made: Mapping[str, str], owners: Mapping[str, str], taken: Iterable[str]) -> dict[str, str]:
    """A name for each value of `made`, which says what it is; `owners` says for which tensor it is made."""
    used, names = set(taken), dict[str, str]()
    heads = {key: _free(what, used) for key, what in made.items()}
    for key, what in made.items():
        head = heads[key]
        alone = head is not None and list(heads.values()).count(head) == 1
        names[key] = head if alone and head else unused(labelled(what, owners[key]), used)
        used.add(names[key])
    return names


def taken_names(program: Program, made: Container[str] = ()) -> set[str]:
    """What stands for something else in a program: its tensors but those in `made`, its
    sizes, and the letters of its indices."""
    tensors = [t for t in program.tensors.values() if t.key not in made]
    slots = [slot for t in program.tensors.values() for slot in t.slots]
    sizes = {n for slot in slots for n in slot.set.extent.sizes} | {*program.sizes}
    taken = {*sizes, *(s.name for s in slots), *words(program.equations)}
    return taken | {t.key for t in tensors} | {t.text for t in tensors}


def words(equations: Iterable[Equation]) -> set[str]:
    """The letters of all indices in some equations, and the sizes of these and in the terms."""
    equations = tuple(equations)
    terms = [x for e in equations for root in (*e.axes, e.domain, e.body) for x in walk(root)]
    indices = {i for x in terms if isinstance(x, Fold) for i in x.bound} | {i for e in equations for i in e.indices}
    sizes = [x.extent for x in terms if isinstance(x, Size)] + [i.set.extent for i in indices]
    return {i.name for i in indices} | {n for extent in sizes for n in extent.sizes}


def what_it_is(equation: Equation, below: Container[str], above: Container[str]) -> str:
    """The entry of `LETTERS` for a value; `below` are values that something is divided
    by, `above` those that are divided."""
    match equation.body:
        case Fold("sum"):
            return "divisor" if equation.target in below else "numerator" if equation.target in above else "sum"
        case Fold(op):
            return op
        case body:
            return next((x.op for x in walk(body) if isinstance(x, Apply) and x.op in LETTERS), "")


def strokes(equations: Iterable[Equation]) -> tuple[set[str], set[str]]:
    """The values that stand as factors below a stroke, and those that stand above a
    stroke with a value of the program below."""
    below, above = set[str](), set[str]()
    for equation in equations:
        for term in walk(equation.body):
            if isinstance(term, Apply) and term.op == "div":
                over, under = ({f.tensor for f in factors(x) if isinstance(f, Read)} for x in term.args)
                below |= under
                above |= over if under else set()
    return below, above - below



def _chosen(made: Mapping[str, Equation], equations: Iterable[Equation], taken: set[str]) -> dict[str, str]:
    """A name for each value that was made."""
    below, above = strokes(equations)
    owners = dict[str, str]()
    for equation in equations:
        if equation.target not in made:
            _own(equation.target, equation, made, owners)
    kinds = {key: what_it_is(e, below, above) for key, e in made.items()
             if not isinstance(e.body, Read) and TIMES not in key}
    names = letters_for(kinds, {key: owners.get(key, key) for key in kinds}, taken)
    for key, equation in made.items():
        if key not in names:
            of = (f"{names.get(equation.body.tensor, equation.body.tensor)}_at" if isinstance(equation.body, Read)
                  else _joined(key))
            names[key] = unused(of, taken | {*names.values()})
    return names


def _joined(key: str) -> str:
    """The letters of the factors of which a value is the product: q_P."""
    return "_".join(part.split("_", maxsplit=1)[0] for part in key.split(TIMES))


def _own(owner: str, equation: Equation, made: Mapping[str, Equation], owners: dict[str, str]) -> None:
    """Says of everything made that an equation reads, or that what is made reads, whom it
    is for, where nobody had it."""
    for key in equation.reads:
        if key in made and key not in owners:
            owners[key] = owner
            _own(owner, made[key], made, owners)
