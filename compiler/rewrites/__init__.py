"""The laws that `normalise` applies. RULES is the table of contents; order does not matter."""

from einc.rewrites import algebra, gates, linear
from einc.rewrites.rule import Rule

RULES: tuple[Rule, ...] = (*algebra.RULES, *gates.RULES, *linear.RULES)
