"""Plan: how a program is cut. Data only; narrower than terms: assigned once, axes by name, folds have become steps.

Module  inputs, outputs, buffers, steps
ModuleClass  what a class around the module's function holds: how its weights begin, which scalars speak of chance
Step    Kernel, or an Operation: what it reads, what it writes, its equations, its cost, and steps within it
Kernel  axes, lets, stores: a tile of every grid axis at a time, the other axes whole
Let     one value: its axes, its kind, the one operation that makes it, and the values that this reads
"""

from einc.ir.plan.gradients import *
from einc.ir.plan.kernels import *
from einc.ir.plan.lets import *
from einc.ir.plan.modules import *
from einc.ir.plan.operations import *
from einc.ir.plan.products import *
from einc.ir.plan.sent import *
from einc.ir.plan.walks import *
