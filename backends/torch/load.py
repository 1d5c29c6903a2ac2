"""Emitted text -> callable, and where it runs."""

from __future__ import annotations

from einc.backends.host.load import load

__all__ = ["device", "load", "settle"]


def device() -> str:
    """Where tensors are put when nobody says where."""
    return "cpu"


def settle() -> None:
    """Every call is over when it returns."""
