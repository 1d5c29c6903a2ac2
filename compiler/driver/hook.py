"""`import my_spec` for a `my_spec.ein` on the path: a finder after Python's own, and a
loader whose source is the emitted text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

from einc.driver import back_ends, compiling, pipeline
from einc.driver.options import Options
from einc.errors.report import Report, render


class _Loader(SourceLoader):
    """The module of one spec."""

    def __init__(self, name: str, file: Path, backend: str) -> None:
        self.name, self.file, self.backend = name, file, backend

    @cached_property
    def _text(self) -> str:
        report = Report()
        source = pipeline.read_source(self.file, report)
        program = None if report.errors else pipeline.examine(source, report)
        if program is None:
            said = "\n".join(map(render, report.sorted()))
            raise ImportError(f"{self.file} has errors\n{said}", name=self.name, path=str(self.file))
        return back_ends.emit(compiling.planned(program, Options(self.backend)), self.backend)

    def get_filename(self, fullname: str) -> str:
        """A name beside the spec that is no file, so that tracebacks ask the loader for their lines."""
        return f"{self.file}.py"

    def get_data(self, path: str | bytes) -> bytes:
        """OSError for every other path, so that Python looks for no compiled file."""
        if path != self.get_filename(self.name):
            # There is no compiled file to be read: the text is made anew from the spec.
            raise OSError(f"{path!r} is not made by this loader")
        return self._text.encode()


class _Finder(MetaPathFinder):
    """Finds `NAME.ein` where Python would find `NAME.py`."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        name = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            file = Path(folder or ".") / f"{name}.ein"
            if file.is_file():
                return spec_from_loader(fullname, _Loader(fullname, file.absolute(), self.backend))
        return None


def install_hook(backend: str = "torch") -> None:
    """Let `import` find specs from now on; a second call only changes the back end."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            finder.backend = backend
            return
    sys.meta_path.append(_Finder(backend))
