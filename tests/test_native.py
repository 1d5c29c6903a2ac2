"""Where compiled kernels are kept, and when they are trusted; no compiler; names and texts that mean harm."""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cpp_texts import COMPILER, NEEDED, emitted, globals_of, kernels, quick, running
from helpers import Function, arrays, assert_close, called, distance, meaning, tensors, typed
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

import einc
from einc.driver import front, pipeline
from einc.errors.report import EincError, Report, Source
from einc.ir.programs import TypedProgram

pytestmark = NEEDED

TEXT = """
index t, s : time(T)
input q_t, k_s, v_s
output y_t = Σ_s softmax_{s ≤ t}(q_t k_s) v_s
"""
VARIABLES = ("EINC_CXX", "CXX", "EINC_NATIVE", "EINC_SKIP_CACHE", "EINC_CACHE_DIR", "XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of one test, with no variables of the user's."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EINC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


def text_of(more: str = "") -> str:
    """The file of the text above."""
    return quick(emitted(typed(TEXT + more)))


SOURCE = ""


@pytest.fixture
def source() -> str:
    """The same text in all tests."""
    global SOURCE  # noqa: PLW0603 - made once, after the compiler was looked for
    SOURCE = SOURCE or text_of()
    return SOURCE


def executed(source: str) -> Function:
    """The function of a file that somebody runs without einc."""
    names: dict[str, Any] = {}
    exec(compile(source, "<made>", "exec"), names)
    function: Function = names["text"]
    return function


GIVEN = {key: torch.randn(21, generator=torch.Generator().manual_seed(n)) for n, key in enumerate("qkv")}


def right(function: Function) -> bool:
    """Whether a call gives what plain torch gives; the result is whether the kernel ran."""
    Q, K, V = (GIVEN[key] for key in "qkv")
    logits = torch.outer(Q, K).masked_fill(torch.ones(21, 21).triu(1).bool(), -torch.inf)
    with running(function) as ran:
        torch.testing.assert_close(function(q=Q, k=K, v=V), logits.softmax(-1) @ V)
    assert list(ran) == ["k0"]
    return ran["k0"]


def files(folder: Path) -> list[str]:
    """The kinds of what lies in a folder."""
    return sorted(path.suffix or path.name for path in folder.iterdir()) if folder.exists() else []


def script(path: Path, text: str) -> Path:
    """A program of the shell."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


def counting(folder: Path, then: str = "") -> Path:
    """A compiler that writes a line for each of its runs, and does what a real one does unless told otherwise."""
    real = f'exec {COMPILER} "$@"'
    return script(
        folder / "compiler", f'case "$1" in --version) {real} ;; esac\necho run >> "{folder}/runs"\n{then or real}'
    )


def runs(folder: Path) -> int:
    """How often the compiler was started to compile."""
    path = folder / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def warned(log: pytest.LogCaptureFixture) -> list[str]:
    """The warnings on the logger `einc`, or worse."""
    return [one.getMessage() for one in log.records if one.name == "einc" and one.levelno >= logging.WARNING]


# what is kept


def test_one_compilation_for_all_runs(
    cache: Path, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second file of the same text finds what the first has left: in folders of this user alone."""
    monkeypatch.setenv("EINC_CXX", str(counting(tmp_path)))
    assert right(executed(source)) and right(executed(source))
    assert runs(tmp_path) == 1
    assert files(cache) == [".sha256", ".so"]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert all(not path.stat().st_mode & 0o022 for path in cache.iterdir())


OFFERED = r"""
index t, s : time(T)
index h    : head(H)
index d, e : feature(D)
input q_{t h}^d, k_{s h}^d, v_{s h}^d
output y_{t h}^d = Σ_s softmax_{s ≤ t}(q_{t h}^e k_{s h e} / \sqrt{D}) v_{s h}^d
"""


def test_a_call_compiles_only_the_library_that_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a library of torch would else be called, too: tiles of few rows have one vector, others two."""
    monkeypatch.setenv("EINC_CXX", str(counting(tmp_path)))
    source = quick(einc.compile(OFFERED, backend="cpp").source)
    assert "_native_ready(_CPP" in source and "scaled_dot_product_attention" in source
    function = executed(source)
    for rows, known in ((7, {1}), (8, {1, 2}), (1, {1, 2})):
        with running(function) as ran:
            function(**{key: torch.randn(rows, 2, 5) for key in "qkv"})
        assert all(ran.values()) and ran
        assert {vectors for *_, vectors in globals_of(function)["_LIBRARIES"]} == known
    assert runs(tmp_path) == 2


def test_what_is_prepared_is_all_that_calls_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any number of rows; where one of the libraries is missing, not all is prepared."""
    failing = script(tmp_path / "failing", f'case " $* " in *" -DQV=1 "*) exit 1 ;; esac\nexec {COMPILER} "$@"')
    monkeypatch.setenv("EINC_CXX", str(failing))
    assert not einc.compile(TEXT, backend="cpp").prepare()
    monkeypatch.setenv("EINC_CXX", str(counting(tmp_path)))
    function = einc.compile(TEXT, backend="cpp")
    assert function.prepare()
    for rows in (21, 5):
        function(**{key: x[:rows] for key, x in GIVEN.items()})
        assert function.ran == {"k0": True}
    assert runs(tmp_path) == 2
    assert not einc.compile(TEXT, backend="torch").prepare()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("harm", ["library", "hash", "no hash", "bytes", "empty", "link"])
def test_what_was_tampered_with_is_built_again(
    cache: Path, tmp_path: Path, source: str, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is not what was written, or whose hash is not there or is no text, is not loaded."""
    monkeypatch.setenv("EINC_CXX", str(counting(tmp_path)))
    assert right(executed(source))
    (library,), (told,) = cache.glob("*.so"), cache.glob("*.sha256")
    good = library.read_bytes()
    evil = tmp_path / "evil.so"
    mark = tmp_path / "loaded"
    body = f'std::fclose(std::fopen("{mark}", "w"));'
    evil_text = f"#include <cstdio>\n__attribute__((constructor)) static void f() {{ {body} }}\n"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(evil)], input=evil_text.encode(), check=True
    )
    library.unlink()  # what is loaded stays what it is
    library.write_bytes(good if harm in ("hash", "no hash", "bytes") else b"" if harm == "empty" else evil.read_bytes())
    if harm == "link":
        library.unlink()
        library.symlink_to(evil)
    if harm in ("hash", "bytes"):
        told.write_bytes(b"0" * 64 if harm == "hash" else b"\xff\xfe\x80")
    elif harm == "no hash":
        told.unlink()
    assert right(executed(source))
    assert runs(tmp_path) == 2 and not mark.exists()
    (library,) = cache.glob("*.so")
    assert not library.is_symlink()
    assert right(executed(source)) and runs(tmp_path) == 2


@pytest.mark.parametrize("folder", ["open", "link", "file", "unwritable"])
def test_a_folder_that_is_not_ours_alone(
    cache: Path, source: str, folder: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Nothing is read from it nor written to it; torch computes, and that is told once."""
    cache.parent.mkdir()
    if folder == "open":
        cache.mkdir()
        cache.chmod(0o777)
    elif folder == "link":
        (tmp_path / "other").mkdir(mode=0o700)
        cache.symlink_to(tmp_path / "other")
    elif folder == "file":
        cache.write_text("a file")
    else:
        cache.mkdir(mode=0o500)
        if os.access(cache, os.W_OK):
            pytest.skip("this user writes wherever it wants")
    function = executed(source)
    assert not right(function) and not right(function)
    assert len(warned(caplog)) == 1 and "torch computes" in warned(caplog)[0]
    assert folder == "file" or not list(cache.iterdir())


def test_nothing_is_kept_where_none_is_wanted(
    cache: Path, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EINC_SKIP_CACHE", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "rooms"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "rooms").mkdir()
    assert right(executed(source))
    assert not cache.exists() and not [p for p in (tmp_path / "rooms").iterdir() if p.name.startswith("einc")]


def test_the_oldest_go_first(cache: Path, source: str) -> None:
    """Beyond the limit; what was just made stays, even if it is alone larger than that."""
    cache.mkdir(parents=True, mode=0o700)
    for age, name in enumerate(("new", "middle", "old")):
        for suffix in (".so", ".sha256"):
            (cache / f"{name}{suffix}").write_bytes(b"x" * 2**20)
            os.utime(cache / f"{name}{suffix}", (10**9 - age, 10**9 - age))
    function = executed(source)
    globals_of(function)["_NATIVE_LIMIT"] = 2 * 2**20 + 2**19  # two of them and the kernels
    assert right(function)
    left = {path.name for path in cache.iterdir()}
    assert {"new.so", "new.sha256", "middle.so", "middle.sha256"} <= left and len(left) == 6
    other = executed(text_of("output z_t = 2 y_t\n"))
    globals_of(other)["_NATIVE_LIMIT"] = 1
    with running(other) as ran:
        other(**GIVEN)
    assert all(ran.values())
    assert len(list(cache.iterdir())) == 2


TWICE = """
import sys, time
import torch
space = {}
exec(open(sys.argv[1]).read(), space)
given = {key: torch.linspace(-1, 1, 21) for key in "qkv"}
y = space["text"](**given)
assert space["_RAN"] == {"k0": True}, space["_RAN"]
print(y.sum().item())
"""


@pytest.mark.whole
def test_two_processes_at_once(cache: Path, tmp_path: Path, source: str) -> None:
    """Both compile, both run, and what is left is whole."""
    (tmp_path / "made.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-c", TWICE, str(tmp_path / "made.py")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [one.communicate() for one in started]
    assert [one.returncode for one in started] == [0] * 2, ends
    assert len({out for out, _ in ends}) == 1
    assert files(cache) == [".sha256", ".so"]
    function = executed(source)
    (library,) = cache.glob("*.so")
    assert globals_of(function)["_native_whole"](library)


# no compiler, and those that fail


@pytest.fixture
def none_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINC_CXX", "/nowhere/g++")
    monkeypatch.setenv("PATH", "")


def test_without_a_compiler_compiling_says_what_to_install(none_found: None) -> None:
    with pytest.raises(EincError) as told:
        einc.compile("sdpa", backend="cpp")
    shown = str(told.value)
    assert "C++ compiler" in shown and "install g++ or clang++" in shown and "EINC_CXX" in shown


def test_without_a_compiler_a_file_computes_with_torch(
    none_found: None, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    function = executed(source)
    assert not right(function) and not right(function)
    assert len(warned(caplog)) <= 1


@pytest.mark.parametrize("value", ["0", "false", " OFF "])
def test_no_compiler_is_started_where_none_is_wanted(
    source: str,
    tmp_path: Path,
    value: str,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even to ask for its version, nor by `einc.compile`."""
    monkeypatch.setenv("EINC_CXX", str(script(tmp_path / "compiler", f'echo run >> "{tmp_path}/runs"\nexit 1')))
    monkeypatch.setenv("EINC_NATIVE", value)
    assert not right(executed(source))
    assert einc.compile("sdpa", backend="cpp")(**{key: torch.ones(1, 1, 9, 2) for key in "QKV"}).eq(1).all()
    assert runs(tmp_path) == 0 and not cache.exists() and not warned(caplog)


FAILURES = {
    "fails": 'echo "made.cpp:1: error: no such thing" >&2; exit 1',
    "does not link": 'echo "ld: cannot find -lomp: no such thing" >&2; echo "error: the linker failed" >&2; exit 1',
    "is killed": "kill -9 $$",
    "is killed half-way": 'for a in "$@"; do last="$a"; done; printf half > "$last"; kill -9 $$',
    "writes nothing": "exit 0",
    "writes garbage": 'for a in "$@"; do last="$a"; done; echo garbage > "$last"',
    "writes another library": 'for a in "$@"; do last="$a"; done; '
                              f'echo "" | {COMPILER} -shared -fPIC -x c++ - -o "$last"',
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_compiler_that_fails(
    how: str,
    source: str,
    tmp_path: Path,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch computes, it is told once, the compiler starts no more; once it is repaired a new process compiles."""
    monkeypatch.setenv("EINC_CXX", str(counting(tmp_path, FAILURES[how])))
    function = executed(source)
    assert not right(function) and not right(function)
    assert runs(tmp_path) == 1
    assert len(warned(caplog)) == 1 and (how not in ("fails", "does not link")
                                         or "no such thing" in warned(caplog)[0])
    assert not [path for path in cache.iterdir() if path.name.startswith("making")]
    counting(tmp_path)
    assert right(executed(source)), "what a broken compiler wrote is kept for ever"


@pytest.mark.parametrize("version", ["exit 1", "printf '\\377\\376'; exit 0", "kill -9 $$"])
def test_a_compiler_that_does_not_say_its_version(
    version: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is used or not; the result is right."""
    text = f'case "$1" in --version) {version} ;; esac\nexec {COMPILER} "$@"'
    monkeypatch.setenv("EINC_CXX", str(script(tmp_path / "compiler", text)))
    right(executed(source))


def test_another_compiler_has_libraries_of_its_own(
    cache: Path, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version of it compiles again, too."""
    place = tmp_path / "compiler"
    monkeypatch.setenv("EINC_CXX", str(place))
    for n, version in enumerate(("one", "two", "one")):
        script(place, f'case "$1" in --version) echo {version}; exit ;; esac\nexec {COMPILER} "$@"')
        assert right(executed(source))
        assert len(list(cache.glob("*.so"))) == min(n + 1, 2)


# names and texts


KEYWORDS = """
    int class namespace M W L V TILE rows first count room bad auto float D I QV N CUT DATA HALF KEYS from unit tile p n
    x num put main iota operator template asm and not xor k0 k0_tile one needed over ones linux unix j s i bf16 stage_0
    each threads work own units total cut low high INFINITE __FILE__ y
""".split()  # noqa: SIM905 - as a list it has a hundred quotes
NO_NAMES = frozenset({"and", "not", "__FILE__"})  # the language has no such names
PLACES = {
    "tensor": "index a, b : time(TT)\ninput {0}_a, v_b\noutput y_a = Σ_b softmax_{{b ≤ a}}({0}_a v_b) v_b",
    "output": "index a, b : time(TT)\ninput u_a, v_b\noutput {0}_a = Σ_b softmax_{{b ≤ a}}(u_a v_b) v_b",
    "letter": "index {0}, b : time(TT)\ninput u_{{{0}}}, v_b\n"
    "output z_{{{0}}} = Σ_b softmax_{{b ≤ {0}}}(u_{{{0}}} v_b) v_b",
    "streamed": "index a, {0} : time(TT)\ninput u_a, v_{{{0}}}\n"
    "output z_a = Σ_{{{0}}} softmax_{{{0} ≤ a}}(u_a v_{{{0}}}) v_{{{0}}}",
    "size": "index a, b : time({0})\ninput u_a, v_b\noutput z_a = Σ_b softmax_{{b ≤ a}}(u_a v_b / {0}) v_b",
    "whole": "index a, b : time(TT)\ninput u_a, v_b\ninput {0}_a : int\n"
    "output z_a = Σ_b softmax_{{b ≤ a, {0}_a = {0}_b}}(u_a v_b) v_b",
    "feature": "index a, b : time(TT)\nindex {0} : feature(F)\ninput u_a^{0}, v_b^{0}\noutput z_a^{0} = "
    "Σ_b softmax_{{b ≤ a}}(u_a^{0} v_{{b {0}}}) v_b^{0}",
}


def compiles_right(text: str) -> str:
    """The file of a text whose kernels compile and mean what the interpreter says; empty where the text is refused."""
    if pipeline.check(Source("<text>", text), Report()) is None:
        return ""
    program: TypedProgram = typed(text)
    made = emitted(program)
    function = front.load(quick(made), program.name, "cpp")
    sizes = dict.fromkeys(
        {name for tensor in program.inputs() for slot in tensor.slots for name in slot.set.extent.sizes}, 19
    )
    inputs = arrays(program, sizes, {tensor.key: ("1", "3") for tensor in program.inputs()})
    with running(function) as ran:
        got = called(function, program, tensors(inputs, torch.float32), sizes)
    assert ran and all(ran.values()), ran
    want = meaning(program, {k: x.astype(np.float32) if x.dtype.kind == "f" else x for k, x in inputs.items()}, sizes)
    assert_close({k: y.double() for k, y in got.items()}, want, 2e-4)
    return made


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "word", [pytest.param(w, marks=[pytest.mark.whole] * (n % 12 > 0)) for n, w in enumerate(KEYWORDS)]
)
def test_a_name_means_nothing_in_cpp(word: str) -> None:
    """Words of C++ and of the kernels, as the name of whatever a spec declares."""
    turn, tried = KEYWORDS.index(word) % len(PLACES), 0
    for n in range(len(PLACES)):
        tried += bool(compiles_right(list(PLACES.values())[(turn + n) % len(PLACES)].format(word)))
        if tried == 2:
            break
    assert (tried == 0) == (word in NO_NAMES), "every text is refused" if tried == 0 else "a text is accepted"


COMMENTS = [
    r"# it ends with a backslash \\",
    "# \\",
    "# */ int main() { return 1; } /*",
    "# // \\",
    '# """ + "',
    "# ??/",
    "# ??/\n# ??>",
    "# \\N{BULLET} \\x41 %s {0}",
    "# '''",
    "# /* /* */ */",
    "# #define M 3",
    "# \u2028 \u00a0 \u202e",
    "# `$(touch x)`",
    '# R"(x)"',
]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "comment", [pytest.param(c, id=str(n), marks=[pytest.mark.whole] * (n % 4 > 1)) for n, c in enumerate(COMMENTS)]
)
def test_a_comment_means_nothing_in_cpp(comment: str) -> None:
    """Before, between, behind the equations."""
    first, *lines = TEXT.strip().split("\n")
    text = "\n".join(
        [comment, first, comment, *(f"{line} {comment}" if "\n" not in comment else line for line in lines), comment]
    )
    assert compiles_right(text)


def outside_comments(text: str) -> str:
    """C++ without its block comments, as the compiler reads it."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def cpp_of(source: str) -> str:
    """The C++ of a file."""
    names: dict[str, Any] = {}
    exec(compile(source, "<made>", "exec"), names)
    text: str = names["_CPP"]
    return text


STRANGE = st.text(
    st.sampled_from("ab_αΩé'\"\\/*?#{}$0\t ") | st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]),
    max_size=12,
)
WORDS = st.from_regex(r"[A-Za-zα-ωΑ-Ω][A-Za-z0-9]{0,6}", fullmatch=True) | st.sampled_from(KEYWORDS)


@settings(max_examples=20)
@examples(words=st.lists(WORDS, min_size=4, max_size=4, unique=True), comment=STRANGE)
def test_no_text_of_a_spec_is_in_the_cpp(words: list[str], comment: str) -> None:
    """Outside of block comments there are letters, digits and signs of ASCII; comments end where they should."""
    q, v, a, b = words
    text = (
        f"index {a}, {b} : time(TT)  # hush{comment}\n# hush{comment}\n"
        f"input {q}secret_{a}, {v}_{b}\noutput zsecret_{a} = "
        f"Σ_{b} softmax_{{{b} ≤ {a}}}({q}secret_{a} {v}_{b}) {v}_{b}  # hush{comment}"
    )
    if pipeline.check(Source("<text>", text), Report()) is None:
        return
    found = cpp_of(emitted(typed(text)))
    code = outside_comments(found)
    assert code.isascii() and "hush" not in code
    assert not re.search(r"/\*|\*/", code)
    comments = re.findall(r"/\*.*?\*/", found, flags=re.S)
    assert all("\\" not in part and '"' not in part and "/*" not in part[2:] for part in comments)


@settings(max_examples=3)
@examples(words=st.lists(WORDS, min_size=4, max_size=4, unique=True), comment=STRANGE)
def test_drawn_names_compile(words: list[str], comment: str) -> None:
    q, v, a, b = words
    compiles_right(
        f"index {a}, {b} : time(TT)  # {comment}\ninput {q}_{{{a}}}, {v}_{{{b}}}\noutput ζ_{{{a}}} = "
        f"Σ_{{{b}}} softmax_{{{b} ≤ {a}}}({q}_{{{a}}} {v}_{{{b}}}) {v}_{{{b}}}  # {comment}"
    )


@pytest.mark.whole
@settings(max_examples=60)
@examples(words=st.lists(WORDS, min_size=4, max_size=4, unique=True), comment=STRANGE)
def test_many_drawn_names_compile(words: list[str], comment: str) -> None:
    q, v, a, b = words
    compiles_right(
        f"index {a}, {b} : time(TT)  # {comment}\ninput {q}_{{{a}}}, {v}_{{{b}}}\noutput ζ_{{{a}}} = "
        f"Σ_{{{b}}} softmax_{{{b} ≤ {a}}}({q}_{{{a}}} {v}_{{{b}}}) {v}_{{{b}}}  # {comment}"
    )


def test_a_file_name_means_nothing_in_cpp(tmp_path: Path) -> None:
    """Kernels are named by their numbers."""
    path = tmp_path / 'int main * " .ein'
    path.write_text(TEXT, encoding="utf-8")
    function = einc.compile(path, backend="cpp")
    names: dict[str, Any] = {}
    exec(compile(quick(function.source), "<made>", "exec"), names)
    assert (
        kernels(function.source)
        and distance(names[function.plan.name](**GIVEN).numpy(), executed(text_of())(**GIVEN).numpy()) <= 1e-5
    )
