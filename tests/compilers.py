"""The C++ compiler of the tests: the one that emitted files would take, and the same one without optimisation."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest


def found() -> str:
    """The compiler that emitted files would take, as a path; empty where there is none."""
    if platform.system() != "Linux":
        return ""
    names = (os.environ.get("EINC_CXX"), os.environ.get("CXX"), "c++", "g++", "clang++")
    return next((path for name in names if name and (path := shutil.which(name))), "")


# GCC has internal errors for some vectors without optimisation: such a text is compiled as usual.
SCRIPT = """#!/bin/sh
case " $* " in
*" - "*) ;;
*) exec {compiler} "$@" ;;
esac
text=$(mktemp) && trap 'rm -f "$text"' EXIT && cat > "$text"
{compiler} "$@" -O0 < "$text" 2> /dev/null || {compiler} "$@" < "$text"
"""


def unoptimised(config: pytest.Config) -> None:
    """Until the run ends EINC_CXX names a script that adds -O0 for a text on its input: the last level is what counts.

    Where there is no compiler nothing is set.
    """
    usual, compiler = os.environ.get("EINC_CXX"), found()
    if not compiler:
        return
    folder = Path(tempfile.mkdtemp(prefix="einc-tests-"))
    script = folder / "c++"
    script.write_text(SCRIPT.format(compiler=shlex.quote(compiler)), encoding="utf-8")
    script.chmod(0o700)
    os.environ["EINC_CXX"] = str(script)

    def undo() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["EINC_CXX"]
        os.environ.update({} if usual is None else {"EINC_CXX": usual})

    config.add_cleanup(undo)
