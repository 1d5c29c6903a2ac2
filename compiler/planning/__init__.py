"""How a program is computed: what is fused, in which order contractions run, tiles, prices.

In: A `NormalProgram`.
Out: A `Module`: the plan, which a back end writes as a file.
May import: ir, syntax, transforms.
"""

from einc.planning.analysis.signs import told
from einc.planning.analysis.storage import kept_wide
from einc.planning.contractions.associate import usual
from einc.planning.contractions.choose import reckoned
from einc.planning.fusing.library import row
from einc.planning.module_class import class_of
from einc.planning.planner import plan
from einc.planning.repeated import chained, trusting

__all__ = ["chained", "class_of", "kept_wide", "plan", "reckoned", "row", "told", "trusting", "usual"]
