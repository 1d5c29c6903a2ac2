"""Plan: how a program is cut. Data only; narrower than terms: assigned once, axes by name, folds have become steps.

Module  inputs, outputs, buffers, steps
ModuleClass  what a class around the module's function holds: how its weights begin, which scalars speak of chance
Step    Kernel, or an Operation: what it reads, what it writes, its equations, its cost, and steps within it
Kernel  axes, lets, stores: a tile of every grid axis at a time, the other axes whole
Let     one value: its axes, its kind, the one operation that makes it, and the values that this reads
"""

from einc.ir.plan.gradients import Gradient, GradientLoop, ModuleClass, PerRank, SegmentedModule, Stages, Weight
from einc.ir.plan.kernels import FREE, Axis, Bound, Cost, Kernel, Role, Store, summed
from einc.ir.plan.lets import (
    AxisRef,
    Carry,
    Dot,
    Flatten,
    Gather,
    Interval,
    Iota,
    Let,
    Load,
    Map,
    Op,
    PreviousCarry,
    Reduce,
    Scalar,
    Scan,
    ScatterAdd,
    Select,
    Slice,
    Subscript,
    axes_of,
    end,
)
from einc.ir.plan.modules import (
    LEAST_ROWS,
    PAIRS,
    PLACES,
    Around,
    Buffer,
    Choose,
    Generation,
    Given,
    Hops,
    Lengths,
    Loop,
    Made,
    Module,
    Option,
    PerRequest,
    RowBlocks,
    Rows,
    Share,
    Step,
)
from einc.ir.plan.operations import (
    Along,
    Append,
    BroadcastView,
    Call,
    Concat,
    Contract,
    GroupedMatmul,
    Leaf,
    LibraryCall,
    Move,
    Operation,
    RankGroup,
    Recurrence,
    SegmentSum,
    StateScan,
    TopK,
    Vectors,
    last_kernel,
)
from einc.ir.plan.walks import leaves, makes, renamed, replaced, takes, takes_all, within

__all__ = [
    "FREE", "LEAST_ROWS", "PAIRS", "PLACES", "Along", "Append", "Around", "Axis", "AxisRef", "Bound",
    "BroadcastView", "Buffer", "Call", "Carry", "Choose", "Concat", "Contract", "Cost", "Dot", "Flatten", "Gather",
    "Generation", "Given", "Gradient", "GradientLoop", "GroupedMatmul", "Hops", "Interval", "Iota", "Kernel",
    "Leaf", "Lengths", "Let", "LibraryCall", "Load", "Loop", "Made", "Map", "Module", "ModuleClass", "Move", "Op",
    "Operation", "Option", "PerRank", "PerRequest", "PreviousCarry", "RankGroup", "Recurrence", "Reduce", "Role",
    "RowBlocks", "Rows", "Scalar", "Scan", "ScatterAdd", "SegmentSum", "SegmentedModule", "Select", "Share",
    "Slice", "Stages", "StateScan", "Step", "Store", "Subscript", "TopK", "Vectors", "Weight", "axes_of", "end",
    "last_kernel", "leaves", "makes", "renamed", "replaced", "summed", "takes", "takes_all", "within",
]
