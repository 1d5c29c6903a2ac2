"""The torch back end: a plan as plain Python that imports torch alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from einc.backends.host.spelled import spells
from einc.ir.backend import BackEnd

if TYPE_CHECKING:  # the modules named below are what the record says they are
    from einc.backends.torch import emit, load
    from einc.ir.backend import Emitter, Loader

    PARTS: tuple[Emitter, Loader] = (emit, load)

BACKEND = BackEnd(
    "torch", ordered=True, compiled=False, spells=spells, devices=(),
    emit="einc.backends.torch.emit", load="einc.backends.torch.load",
)
