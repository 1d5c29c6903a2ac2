"""What `einc.compile` returns, kept in a pickle: the texts of its spec, its options and the version. Reading one checks
and compiles these texts again; of the pickle nothing is executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from einc import __version__
from einc.driver import pipeline
from einc.driver.files import Stamp
from einc.driver.options import Options
from einc.driver.sources import Sources, packed
from einc.errors.report import EincError, Report, failure

COMPILING = "einc.driver.compiling"  # which makes what is restored here
Kept = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Origin:
    """What something was compiled of: the path or text, the texts of files by paths as the folder of the first has
    them, and the options by their names.
    """

    version: str
    path: str
    texts: tuple[tuple[str, str], ...]
    options: Kept

    @property
    def data(self) -> tuple[str, str, tuple[tuple[str, str], ...], Kept]:
        """What is pickled: texts, numbers and options alone."""
        return self.version, self.path, self.texts, self.options


def origin(path_or_text: str | Path, options: Options, noted: Mapping[str, Stamp]) -> Origin | None:
    """What a call of `einc.compile` read, `noted` being the files that it asked for; None where something of that is no
    text, as in an archive.
    """
    folder = os.path.dirname(os.path.abspath(path_or_text)) if os.path.abspath(path_or_text) in noted else os.getcwd()
    texts: list[tuple[str, str]] = []
    if "\n" not in str(path_or_text) and packed(path_or_text):
        return None
    for path in (path for path, stamp in noted.items() if stamp is not None and not os.path.isdir(path)):
        found = Sources().read(path)
        if isinstance(found, Exception):
            return None
        texts.append((_near(path, folder), found.text))
    told = {**asdict(options), "side": None if options.side is None else _near(options.side, folder)}
    named = str(path_or_text) if os.path.abspath(path_or_text) not in noted else _near(path_or_text, folder)
    return Origin(__version__, named, tuple(texts), tuple(told.items()))


def _near(path: str | Path, folder: str) -> str:
    """A path as the folder has it; a text is none."""
    return os.path.relpath(path, folder) if "\n" not in str(path) and "=" not in str(path) else str(path)


@lru_cache(maxsize=64)
def restored(version: str, path: str, texts: tuple[tuple[str, str], ...], options: Kept) -> Any:
    """What these texts compile to, with these options. EincError where another version of einc wrote them down."""
    if version != __version__:
        raise failure(f"this was compiled and saved by einc {version}, and this is einc {__version__}",
                      "compile its spec again; weights are in a module's state_dict(), which any version reads")
    chosen, sources, report = Options(**dict(options)), Sources(dict(texts), alone=True), Report()
    beside = None if chosen.side is None else pipeline.read_source(chosen.side, report, sources)
    program = pipeline.check(pipeline.read_source(path, report, sources), report, strict=chosen.strict, side=beside,
                             section=chosen.section, equation=chosen.equation, sources=sources)
    if program is None:
        raise EincError(report.sorted())
    build: Callable[..., Any] = import_module(COMPILING).built
    return build(program, chosen, Origin(version, path, texts, options))


def restored_class(*data: Any) -> Any:
    """The class of such a thing that holds the weights."""
    return restored(*data).module
