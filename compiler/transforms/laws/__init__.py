"""The laws that `normalise` applies. RULES is the table of contents; order does not matter.

sympy does not serve here: a law has side conditions on domains and keeps the order of what floats would round
differently, which sympy's `simplify` does not; it takes about 10 times as long where exponentials cancel
(`python -m bench algebra`), and each compile applies laws thousands of times. Both sides of each law are
compared by sympy in `tests/test_referee.py`.
"""

from einc.transforms.laws import algebra, deltas, exponentials, linear
from einc.transforms.laws.rule import Rule

RULES: tuple[Rule, ...] = (*algebra.RULES, *deltas.RULES, *linear.RULES)

# With the laws of exp and log, for what stands outside the folds of a pass.
ALL: tuple[Rule, ...] = (*RULES, *(rule for rule in exponentials.RULES if rule.name != "power"))
