"""NormalProgram -> Plan, in the order of the flow: what is fused, in which order contractions run, tiles, cost."""

from einc.planning.library import row
from einc.planning.planner import plan
from einc.planning.repeated import trusting
from einc.planning.shell import shell

__all__ = ["plan", "row", "shell", "trusting"]
