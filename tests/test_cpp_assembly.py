"""What a compiler makes of the products: their sums stay in registers."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator

import pytest
import torch
from cpp_texts import COMPILER, NAMES, NEEDED, globals_of
from test_cpp import derived

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

MACHINE = "-march=cooperlake"  # with products of pairs of bfloat16
PRODUCT, SUMS = {torch.bfloat16: "vdpbf16ps", torch.float32: "vfmadd"}, 16


def assembly(dtype: torch.dtype, name: str = "mask_causal", vectors: int = 2) -> str:
    """What the compiler writes for the kernels of a case and of its gradient, or why it writes nothing."""
    names = globals_of(derived(NAMES[name], "cpp"))
    flags = [x for x in names["_native_flags"](dtype, vectors)
             if x.startswith(("-D", "-std")) or x == "-fno-math-errno"]
    done = subprocess.run([COMPILER, *flags, "-O3", MACHINE, "-w", "-S", "-x", "c++", "-", "-o", "-"],
                          input=names["_CPP"].encode(), capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the compiler does not know {MACHINE}: {done.stderr.decode()[:200]}")
    return done.stdout.decode()


def loops(text: str) -> Iterator[list[str]]:
    """The instructions from a label to the first jump behind it, where that is back to this label."""
    label, found = "", list[str]()
    for line in text.split("\n"):
        if re.match(r"\.?\w+:", line):
            label, found = line.partition(":")[0], []
        elif re.match(r"\t[a-z]", line):
            found.append(line.strip())
            if line.startswith("\tj"):
                if line.split()[1] == label:
                    yield found
                found = []


@pytest.mark.whole
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions of x86-64 are counted")
@pytest.mark.parametrize("dtype", PRODUCT, ids=str)
def test_sums_of_products_stay_in_registers(dtype: torch.dtype) -> None:
    """A loop that forms sixteen sums hardly reads a vector from the stack, or writes one: an address that leaves the
    function, or a lane at a computed place, puts all sums into memory, and doubles the instructions.
    """
    found = [loop for loop in loops(assembly(dtype)) if sum(PRODUCT[dtype] in x for x in loop) == SUMS]
    assert len(found) >= 4
    for loop in found:
        kept = [x for x in loop if re.search(r"\(%r[sb]p", x) and "zmm" in x]
        assert len(kept) < SUMS // 2, "\n".join(loop)


@pytest.mark.whole
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions of x86-64 are counted")
def test_what_divides_a_whole_call_divides_once() -> None:
    """A scale and a cap divide each score: there are few divisions, and tests of a divisor, beside the many places at
    which scores are capped."""
    text = assembly(torch.bfloat16, "softcap")
    divided, capped = (len(re.findall(rf"\t(?:{names})", text)) for names in ("v?div[ps][sd]|v?ucomi", "vrcp14ps"))
    assert capped > 32 and divided < capped // 2


@pytest.mark.whole
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions of x86-64 are looked for")
@pytest.mark.parametrize("dtype", PRODUCT, ids=str)
def test_what_few_rows_read_is_asked_for_into_the_second_cache(dtype: torch.dtype) -> None:
    """The first cache has few places for lines that are on their way, and reading waits for one."""
    text = assembly(dtype, vectors=1)
    assert "prefetcht1" in text
    assert "prefetcht0" not in text
