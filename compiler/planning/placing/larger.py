"""Values with more elements than what they are made of, as rows that several letters share: what they are made of is
sent, and each rank makes them then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from fractions import Fraction

from einc.ir.programs import Equation, Program
from einc.ir.terms import Fold, Read
from einc.planning.placing.cuts import Cut
from einc.planning.placing.states import WHOLE, Part, State

Sent = Callable[[str, State, State], Fraction]  # how much a rank sends so that a tensor is in another state


def larger(program: Program, cuts: Mapping[str, Cut], state: Callable[[str], State], wants: Mapping[str, Set[State]],
           sent: Sent) -> Iterator[str]:
    """What is made point by point in parts and read whole by all that read it, where sending what it is made of takes
    less than sending it, or as much where it is a copy.
    """
    shown = {key for _, key in program.outputs}
    for key, made in cuts.items():
        alone = wants.get(key) == {WHOLE} and key not in shown and made.tag is None
        if not alone or not isinstance(made.state, Part) or isinstance(program.by_target[key].body, Fold):
            continue
        apart = [one for one, want in made.needs.items() if isinstance(want, Part) and WHOLE not in wants.get(one, ())]
        before = sum((sent(one, state(one), WHOLE) for one in apart), Fraction(0))
        after, copied = sent(key, made.state, WHOLE), isinstance(program.by_target[key].body, Read)
        if before < after or (copied and before == after):
            yield key


def of_what_comes(equation: Equation, cut: Cut, state: Callable[[str], State]) -> bool:
    """Whether each rank makes a value of what the parts of all ranks are, so that in a ring it makes it of each part.
    `cut` and `state` are those over the ranks.
    """
    return not isinstance(equation.body, Fold) and not cut.letters and cut.state == WHOLE and any(
        isinstance(state(key), Part) for key in cut.needs)
