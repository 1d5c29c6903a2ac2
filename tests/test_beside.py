"""Libraries beside a file, for machines without a compiler: what `einc compile --target … --emit so` writes, which of
them is taken, and when none is trusted."""

from __future__ import annotations

import logging
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from cpp_texts import COMPILER, NEEDED

from einc.backends.cpp import libraries
from einc.backends.cpp.runtime import native
from einc.backends.cpp.targets import TARGETS
from einc.backends.host.load import load as executed
from einc.driver.cli import main
from einc.driver.front import load as loaded

pytestmark = NEEDED

TEXT = """
index t, s : time(T)
index d, e : feature(D)
input x_t^d
weight W_d^e
q_t^e = x_t^d W_d^e
output y_t^e = Σ_s softmax_{s ≤ t}(q_t^d q_{s d}) x_s^e
"""
HERE = set(native._native_features().split())
RUNS = [name for name, cpu in TARGETS.items()
        if cpu.machine in ("", platform.machine()) and HERE.issuperset(cpu.needs.split())]


def compiled(folder: Path, *args: str, spec: str = TEXT, name: str = "layer") -> Path:
    """The folder that the command has written."""
    (folder / f"{name}.ein").write_text(spec, encoding="utf-8")
    out = folder / "made"
    result = CliRunner().invoke(main, ["compile", str(folder / f"{name}.ein"), "-o", str(out), *args])
    assert result.exit_code == 0, result.output
    return out


def refused(folder: Path, *args: str, spec: str = TEXT) -> str:
    """What the command says that it does not do."""
    (folder / "layer.ein").write_text(spec, encoding="utf-8")
    result = CliRunner().invoke(main, ["compile", str(folder / "layer.ein"), *args])
    assert result.exit_code == 1, result.output
    return result.stderr


def _quickly(patch: pytest.MonkeyPatch) -> None:
    """Kernels compile fast, whatever the variables of the user are."""
    patch.setattr(libraries, "load", lambda source, entry: executed(source.replace('"-O3"', '"-O1"'), entry))
    for name in ("EINC_NATIVE", "EINC_SKIP_CACHE"):
        patch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _quickly(monkeypatch)
    monkeypatch.setenv("EINC_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the text above, and libraries of float32 for all processors that this machine is."""
    with pytest.MonkeyPatch.context() as patch:
        _quickly(patch)
        folder = tmp_path_factory.mktemp("beside")
        return compiled(folder, "--target", ",".join(RUNS), "--emit", "so", "--dtype", "float32", "--module", "--grad")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler is found."""
    monkeypatch.setenv("PATH", "")
    for name in ("EINC_CXX", "CXX"):
        monkeypatch.delenv(name, raising=False)


def imported(folder: Path, name: str = "layer") -> ModuleType:
    """The file, as somebody imports it who has no einc."""
    module = ModuleType(name)
    module.__file__ = str(folder / f"{name}.py")
    exec(compile((folder / f"{name}.py").read_text(encoding="utf-8"), module.__file__, "exec"), module.__dict__)
    return module


def given(rows: int = 21) -> dict[str, torch.Tensor]:
    """Inputs of the text above."""
    random = torch.Generator().manual_seed(0)
    return {"x": torch.randn(rows, 5, generator=random), "W": torch.randn(5, 5, generator=random)}


def want(x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    """The text above in plain torch."""
    q = x @ W
    hidden = torch.ones(len(x), len(x)).triu(1).bool()
    return (q @ q.T).masked_fill(hidden, -torch.inf).softmax(-1) @ x


def runs(module: ModuleType, rows: int = 21) -> bool:
    """Whether the kernels run compiled; the result is right either way."""
    torch.testing.assert_close(module.layer(**given(rows)), want(**given(rows)), rtol=1e-4, atol=1e-5)
    ran: dict[str, bool] = module._RAN
    return bool(ran) and all(ran.values())


def warned(log: pytest.LogCaptureFixture) -> list[str]:
    """The warnings on the logger `einc`."""
    return [one.getMessage() for one in log.records if one.name == "einc" and one.levelno >= logging.WARNING]


def opened(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the libraries that are loaded from now on."""
    found: list[str] = []
    kept = module._native_opened
    monkeypatch.setattr(module, "_native_opened", lambda path: found.append(path.name) or kept(path))
    return found


BARE = """
import os, sys
assert not os.environ["PATH"]
import torch
import layer
ran = []
for count in (21, 3):
    x, W = torch.randn(count, 5), torch.randn(5, 5)
    q = x @ W
    y = (q @ q.T).masked_fill(torch.ones(count, count).triu(1).bool(), -torch.inf).softmax(-1) @ x
    torch.testing.assert_close(layer.layer(x=x, W=W), y, rtol=1e-4, atol=1e-5)
    assert layer._RAN and all(layer._RAN.values()), layer._RAN
made = layer.Layer(D=5)
x = torch.randn(21, 5, requires_grad=True)
made(x=x).square().sum().backward()
assert all(layer._RAN.values()) and made.W.grad.isfinite().all() and x.grad.abs().sum() > 0
assert not [name for name in sys.modules if name == "einc" or name.startswith("einc.")]
print("done", sorted(layer._RAN))
"""


def test_a_machine_without_a_compiler(made: Path, tmp_path: Path) -> None:
    """A process that finds no program at all: many rows, few, a module and its gradient run compiled."""
    (tmp_path / "script.py").write_text(BARE, encoding="utf-8")
    plain = {key: x for key, x in os.environ.items() if key not in ("EINC_CXX", "CXX", "PYTHONPATH")}
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, check=False,
                          env={**plain, "PATH": "", "PYTHONPATH": str(made), "EINC_CACHE_DIR": str(tmp_path / "none")})
    assert done.returncode == 0 and done.stdout.startswith("done"), done.stderr
    assert not done.stderr and not (tmp_path / "none").exists()


def test_the_gradient_is_that_of_torch(made: Path, bare: None) -> None:
    module, inputs = imported(made), {key: x.requires_grad_() for key, x in given().items()}
    y = module.layer(**inputs)
    got = torch.autograd.grad(y.square().sum(), tuple(inputs.values()))
    assert module._RAN and all(module._RAN.values()) and len(module._RAN) > 1
    right = torch.autograd.grad(want(**inputs).square().sum(), tuple(inputs.values()))
    for x, z in zip(got, right, strict=True):
        torch.testing.assert_close(x, z, rtol=1e-3, atol=1e-4)


def test_the_best_for_a_processor_is_taken(made: Path, bare: None, monkeypatch: pytest.MonkeyPatch,
                                           caplog: pytest.LogCaptureFixture) -> None:
    """Of those whose needs it meets the one that needs most; where it meets none, torch computes, told once."""
    for name in RUNS:
        module = imported(made)
        have = TARGETS[name].needs if name != "native" else native._native_features()
        monkeypatch.setattr(module, "_native_features", lambda have=have: f"{have} another")
        found = opened(module, monkeypatch)
        assert runs(module) and runs(module, 3)
        assert found == [f"layer.{name}.float32.2.so", f"layer.{name}.float32.1.so"]
    assert not warned(caplog)
    module = imported(made)
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    assert not runs(module) and not runs(module, 3)
    (said,) = warned(caplog)
    assert "no library beside this file" in said and "einc compile --target native --emit so" in said


def test_a_type_without_a_library(made: Path, bare: None, caplog: pytest.LogCaptureFixture) -> None:
    module = imported(made)
    y = module.layer(**{key: x.bfloat16() for key, x in given().items()})
    assert y.dtype == torch.bfloat16 and not any(module._RAN.values())
    assert len(warned(caplog)) == 1 and "bfloat16" in warned(caplog)[0]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("harm", ["garbage", "longer", "another", "other rows", "missing", "text"])
def test_what_is_not_what_was_written_is_refused(made: Path, tmp_path: Path, bare: None, harm: str,
                                                 caplog: pytest.LogCaptureFixture) -> None:
    """With what to do; the next one that fits is taken, and without any torch computes."""
    folder = tmp_path / "copied"
    shutil.copytree(made, folder)
    assert runs(imported(folder))
    marked = tmp_path / "loaded"
    evil = (f"#include <cstdio>\n__attribute__((constructor)) static void f() {{ std::fclose(std::fopen(\"{marked}\", "
            '"w")); }\nextern "C" long long complete() { return 1; }\n')
    for name in RUNS:
        library, few = folder / f"layer.{name}.float32.2.so", folder / f"layer.{name}.float32.1.so"
        whole = library.read_bytes()
        if harm != "text":
            library.unlink()  # what is loaded stays what it is
        if harm == "garbage":
            library.write_bytes(b"garbage")
        elif harm == "longer":
            library.write_bytes(whole + b"\0")
        elif harm == "another":
            subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)], input=evil.encode(),
                           check=True, env={**os.environ, "PATH": os.defpath})
        elif harm == "other rows":
            shutil.copy(few, library)
    if harm == "text":
        file = folder / "layer.py"
        file.write_text(file.read_text().replace("#define TILE 256", "#define TILE 128"))
    module = imported(folder)
    assert not runs(module) and not runs(module)
    assert not marked.exists()
    says = warned(caplog)
    assert len(says) == len(RUNS) + 1
    for said in says[:-1]:
        assert ("cannot be loaded" if harm == "missing" else "is not the library that was written") in said
        assert "copy all files" in said and "write them again" in said


def test_one_bad_library_leaves_the_next(made: Path, tmp_path: Path, bare: None, monkeypatch: pytest.MonkeyPatch,
                                         caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "copied"
    shutil.copytree(made, folder)
    (folder / "layer.native.float32.2.so").write_bytes(b"garbage")
    module = imported(folder)
    found = opened(module, monkeypatch)
    assert runs(module) and found and "native" not in found[0]
    assert len(warned(caplog)) == 1


def test_where_nothing_fits_a_compiler_is_asked(made: Path, tmp_path: Path) -> None:
    """And not at all where no native code is wanted."""
    module = imported(made)
    module._NATIVE_BESIDE = ()
    assert runs(module) and list((tmp_path / "cache" / "native").glob("*.so"))


@pytest.mark.parametrize("value", ["0", "off"])
def test_none_is_loaded_where_none_is_wanted(made: Path, value: str, monkeypatch: pytest.MonkeyPatch,
                                             caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("EINC_NATIVE", value)
    module = imported(made)
    found = opened(module, monkeypatch)
    assert not runs(module) and not found and not warned(caplog)


@pytest.mark.whole
def test_what_serves_has_libraries_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all types, where none is named."""
    folder = compiled(tmp_path, "--target", "native", "--emit", "so", "--plan", "serve")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("EINC_CXX", raising=False)
    assert {path.name.split(".", 2)[2] for path in folder.glob("*.so")} == {
        f"{kind}.{vectors}.so" for kind in ("float32", "bfloat16", "float16") for vectors in (1, 2)}
    module, inputs = imported(folder), given(12)
    first, cache = module.prefill(x=inputs["x"][:9], W=inputs["W"])
    rest = module.step(cache, x=inputs["x"][9:], W=inputs["W"])
    torch.testing.assert_close(torch.cat([first, rest]), want(**inputs), rtol=1e-4, atol=1e-5)
    assert module._RAN and all(module._RAN.values())


NONE = "index i : feature(n)\ninput a_i\noutput y_i = 2 a_i\n"


@pytest.mark.parametrize(("args", "said"), [
    (["--target", "x86-64-v5", "-o", "o"], "did you mean `x86-64-v"),
    (["--target", "x86-64-v3,sm_90", "-o", "o"], "targets of several back ends"),
    (["--target", "sm_80,sm_90", "-o", "o"], "give one device at a time"),
    (["--target", "x86-64-v3"], "give a folder with -o"),
    (["--target", "x86-64-v3", "--emit", "ptx", "-o", "o"], "there is no ptx for x86-64-v3"),
    (["--target", "x86-64-v3,sm_90", "--backend", "triton", "-o", "o"], "give --backend cpp"),
    (["--target", "native", "--sizes", "T=3", "-o", "o"], "libraries work on any sizes"),
    (["--target", "native", "--dtype", "float64", "-o", "o"], "give --dtype float32 or bfloat16 or float16"),
    (["--target", "native", "-o", __file__], "is a file"),
])
def test_what_is_refused(tmp_path: Path, args: list[str], said: str) -> None:
    assert said in refused(tmp_path, *args)


def test_nothing_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is written in C++; no compiler; a compiler for another processor."""
    target = ["--target", "native", "-o", str(tmp_path / "o")]
    assert "torch computes all of it" in refused(tmp_path, *target, spec=NONE)
    other = "aarch64" if platform.machine() == "x86_64" else "x86-64-v3"
    said = refused(tmp_path, "--target", other, "-o", str(tmp_path / "o"))
    assert f"does not compile the kernels for {other}" in said and "EINC_CXX" in said
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("EINC_CXX", raising=False)
    assert "install g++ or clang++" in refused(tmp_path, *target)
    assert not (tmp_path / "o").exists()


def test_libraries_are_known_by_the_file_alone(made: Path) -> None:
    """The table of the file names every library that lies beside it, and nothing else."""
    text = (made / "layer.py").read_text(encoding="utf-8")
    beside = {path.name for path in made.iterdir() if path.is_file()}
    assert beside == {"layer.py", *re.findall(r'"(layer\.\S+\.so)"', text)}
    assert all(len(line) <= 120 for line in text[text.index("_NATIVE_BESIDE"):].split("\n}),\n)")[0].split("\n"))
    assert text.count("_NATIVE_BESIDE = ") == 1


# systems without a compiler


def test_other_systems_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                     caplog: pytest.LogCaptureFixture) -> None:
    """torch computes, `einc.compile` raises nothing, and one line says why."""
    (tmp_path / "layer.ein").write_text(TEXT, encoding="utf-8")
    result = CliRunner().invoke(main, ["compile", str(tmp_path / "layer.ein"), "--backend", "cpp"])
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    function: Any = loaded(result.stdout, "layer", "cpp")
    for rows in (21, 3, 21):
        torch.testing.assert_close(function(**given(rows)), want(**given(rows)), rtol=1e-4, atol=1e-5)
    assert warned(caplog) == ["torch computes, for kernels are compiled on Linux alone"]
