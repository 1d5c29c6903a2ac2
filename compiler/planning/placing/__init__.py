"""A program on many devices: on each axis of a mesh one question for every equation, which of its letters is cut.

A cut letter that is summed makes a share, and a share that is read whole is folded over the ranks. Gradients are
programs, so they go the same way.
"""

from einc.planning.placing.levels import Placed
from einc.planning.placing.refusals import Refused
from einc.planning.placing.schedule import placed
from einc.planning.placing.states import Axis, Meeting, Move, Way, with_rings

__all__ = ["Axis", "Meeting", "Move", "Placed", "Refused", "Way", "placed", "with_rings"]
