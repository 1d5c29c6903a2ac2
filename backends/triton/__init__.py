"""The Triton back end: a plan as GPU kernels in one Python file that imports torch and triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

from einc.backends.triton.spelling import spells
from einc.backends.triton.targets import TARGETS
from einc.ir.backend import BackEnd

if TYPE_CHECKING:  # the modules named below are what the record says they are
    from einc.backends.triton import emit, load, offline, tune
    from einc.ir.backend import Builder, Emitter, Loader, Tuner

    PARTS: tuple[Emitter, Loader, Tuner, Builder] = (emit, load, tune, offline)

BACKEND = BackEnd(
    "triton", ordered=False, compiled=True, spells=spells, devices=tuple(gpu.target for gpu in TARGETS.values()),
    emit="einc.backends.triton.emit", load="einc.backends.triton.load", tune="einc.backends.triton.tune",
    offline="einc.backends.triton.offline",
)
