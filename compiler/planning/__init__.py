"""NormalProgram -> Plan, in the order of the flow: what is fused, in which order contractions run, tiles, cost."""

from einc.planning.associate import usual
from einc.planning.choose import reckoned
from einc.planning.library import row
from einc.planning.planner import plan
from einc.planning.repeated import chained, trusting
from einc.planning.shell import shell
from einc.planning.signs import least
from einc.planning.storage import kept_wide

__all__ = ["chained", "kept_wide", "least", "plan", "reckoned", "row", "shell", "trusting", "usual"]
