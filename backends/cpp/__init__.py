"""The C++ back end: the kernels of a plan as C++ for the processor at hand,
in a Python file that imports torch alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from einc.backends.cpp.targets import TARGETS
from einc.backends.host.spelled import spells
from einc.ir.backend import BackEnd

if TYPE_CHECKING:  # the modules named below are what the record says they are
    from einc.backends.cpp import emit, libraries, load
    from einc.ir.backend import Binder, Emitter, Loader

    PARTS: tuple[Emitter, Loader, Binder] = (emit, load, libraries)

BACKEND = BackEnd(
    "cpp", ordered=True, compiled=False, spells=spells, devices=tuple(cpu.target for cpu in TARGETS.values()),
    emit="einc.backends.cpp.emit", load="einc.backends.cpp.load", beside="einc.backends.cpp.libraries",
)
