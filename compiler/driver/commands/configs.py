"""What the `config.json` beside weights says of the model, held against what a spec presumes: a map says both words.

    [presumes]
    rope_theta = 10000.0
    [sizes]
    H = "n_head"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from einc.driver.files import contents
from einc.errors.report import failure
from einc.syntax.texts import MAX_BYTES


def beside(path: str) -> dict[str, Any]:
    """The words of the file and what they say, those of its tables too; nothing where there is none."""
    file = (Path(path) if Path(path).is_dir() else Path(path).parent) / "config.json"
    try:
        found = json.loads(contents(file, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    inner = [value for value in found.values() if isinstance(value, dict)]
    return {**{word: value for table in inner for word, value in table.items()}, **found}


def agreed(written: Mapping[str, Any], config: Mapping[str, Any], spec: str,
           sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that the file tells, beside those that are given. EincError where the file and the spec say two
    things."""
    for word, value in written.get("presumes", {}).items():
        if config.get(word) not in (None, value):
            raise failure(f"config.json says {word} = {config[word]}, and `{spec}` computes with {value}",
                          f'write a spec of its own, `use "{spec}"` and the line that differs, and give it --map '
                          f'{spec}')
    told = {size: config[word] for size, word in written.get("sizes", {}).items() if isinstance(config.get(word), int)}
    for size, value in told.items():
        if sizes.get(size, value) != value:
            raise failure(f"config.json says {written['sizes'][size]} = {value}, and --sizes {size}={sizes[size]}",
                          "leave it out")
    return {**told, **sizes}
