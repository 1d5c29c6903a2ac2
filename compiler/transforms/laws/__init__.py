"""The laws that `normalise` applies. RULES is the table of contents; order does not matter."""

from einc.transforms.laws import algebra, exponentials, gates, linear
from einc.transforms.laws.rule import Rule

RULES: tuple[Rule, ...] = (*algebra.RULES, *gates.RULES, *linear.RULES)

# With the laws of exp and log, for what stands outside the folds of a pass.
ALL: tuple[Rule, ...] = (*RULES, *(rule for rule in exponentials.RULES if rule.name != "power"))
