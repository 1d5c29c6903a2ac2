"""Emitted text -> callable."""

from __future__ import annotations

from einc.backends.host.load import load

__all__ = ["load"]
