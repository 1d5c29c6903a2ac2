"""Loops of compiled attention kernels: what a warp issues for a tile that no mask cuts. Nothing runs on a device.

Machine code is the same wherever it is compiled, so the figures are exact; Triton keeps it by the hash of the text.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import record, sass

# Instructions of a warp for 1,000 scores at d = 64 and 128, at most. With `--whole` all are compiled.
MOST = {
    ("causal", 64): 235, ("causal", 128): 270, ("gqa", 64): 235, ("gqa", 128): 276, ("full", 64): 235,
    ("full", 128): 277, ("alibi", 64): 280, ("alibi", 128): 320, ("softcap", 64): 520, ("softcap", 128): 520,
    ("window", 64): 235, ("window", 128): 275, ("sinks", 64): 250, ("sinks", 128): 290, ("documents", 64): 250,
    ("documents", 128): 290,
}  # fmt: skip
QUICK = {("causal", 64), ("alibi", 64), ("sinks", 64)}

TEXT = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   HMMA.16816.F32.BF16 R4, R8, R2, R4 ;
        /*0020*/               @P0 BRA `(.L_x_2) ;
        /*0030*/                   FSEL R4, R4, -INF, P1 ;
        /*0040*/                   DMUL R6, R6, R8 ;
.L_x_2:
        /*0050*/                   F2F.F32.F64 R3, R6 ;
        /*0060*/              @!P1 BRA `(.L_x_1) ;
.L_x_3:
        /*0070*/                   FADD R3, R3, R4 ;
        /*0080*/                   BRA.U !UP0, `(.L_x_3) ;
        /*0090*/                   EXIT ;
"""


def test_loops_are_read_by_their_shortest_way() -> None:
    """A loop without a product is none; what a branch leaves out is not counted."""
    (loop,) = sass.loops(TEXT)
    assert loop.kinds == {"product": 1, "float64": 1, "other": 2, "all": 4}
    (whole,) = sass.loops(TEXT.replace("@P0 BRA `(.L_x_2)", "NOP"))
    assert whole.kinds == {"product": 1, "float64": 2, "select": 1, "other": 2, "all": 6}


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("name", "width"), [
    pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.whole]) for case in MOST])
def test_whole_tiles_are_lean(name: str, width: int) -> None:
    """No mask, no float64 and no memory in place of registers; two rows of a thread may be without a point so far."""
    (one,) = sass.read(sass.CASES[name], width)
    kinds = one.loops[0].kinds
    assert one.rate <= MOST[name, width], (one.rate, kinds)
    assert kinds.get("select", 0) <= 2 and not {"float64", "spill"} & kinds.keys(), kinds
    assert kinds["exp2"] >= one.scores / (32 * one.binary.warps)


@pytest.mark.whole
@pytest.mark.parametrize("width", [64, 128])
def test_gradients_have_no_masks_in_whole_tiles(width: int) -> None:
    for one in sass.read(sass.CASES["gradient"], width):
        assert not {"select", "float64", "spill"} & one.loops[0].kinds.keys(), one.loops[0].kinds


def test_the_command_prints_and_keeps_a_table(tmp_path: Path) -> None:
    done = CliRunner().invoke(sass.command, ["--case", "causal", "--width", "64", "--out", str(tmp_path)])
    assert done.exit_code == 0 and "causal/Y" in done.output, done.output
    (row,) = record.read(tmp_path / "sass.jsonl")
    assert row["case"] == "causal/Y" and row["spills"] == 0 and row["whole"]["exp2"] == 66
