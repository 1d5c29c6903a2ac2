"""The error of a pool without room."""

from __future__ import annotations


class Exhausted(RuntimeError):
    """A pool has fewer free pages than are needed; nothing has changed."""
