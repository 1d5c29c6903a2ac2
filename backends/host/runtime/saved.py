"""Files of what caches hold."""

from __future__ import annotations

import os

import torch


def _written(path: str, told: object) -> None:
    """Writes a file whole or not at all: whoever is stopped goes on from the last one."""
    part = f"{path}.{os.urandom(8).hex()}.part"  # no other save writes there
    try:
        with open(part, "xb") as file:
            torch.save(told, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
