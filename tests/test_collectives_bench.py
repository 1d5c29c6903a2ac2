"""`python -m bench collectives`: what it counts is what is sent."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from click.testing import CliRunner
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import einc
from bench.__main__ import main
from bench.collectives import RANKS, SIZES, Counting, boundary, counted, fake, python_calls, seconds


def test_a_collective_is_counted_with_what_a_ring_sends() -> None:
    with fake(), Counting() as counting:
        dist.all_reduce(torch.zeros(16))
        dist.all_gather_into_tensor(torch.zeros(8 * RANKS), torch.zeros(8))
        torch.zeros(4) + 1
    assert counting.sent.counts == Counter({"all_reduce": 1, "all_gather": 1})
    assert counting.sent.bytes == (2 * 16 + 8 * RANKS) * 4 * (RANKS - 1) / RANKS


def test_heads_are_summed_twice_each_way_and_torch_does_so_four_times_for_the_gradient() -> None:
    """8 (W - 1) / W numbers for each of the data, where torch's plan sends 12."""
    data = 4 * SIZES["B"] * SIZES["T"] * SIZES["d_model"] * (RANKS - 1) / RANKS
    for way, count in (("einc", 2), ("torch", 4)):
        forward, gradient = counted(way, "heads")
        assert forward.counts == {"all_reduce": 2} and forward.bytes == 4 * data
        assert gradient.counts == {"all_reduce": count} and gradient.bytes == 2 * count * data


def test_the_page_has_what_the_command_prints(tmp_path: Path) -> None:
    """Every row of the table stands in bench/README.md."""
    done = CliRunner().invoke(main, ["collectives", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (Path(__file__).parent.parent / "bench" / "README.md").read_text(encoding="utf-8")
    rows = [line for line in done.output.splitlines()[1:] if " all_" in line]
    assert len(rows) == 6
    for line in rows:
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        assert f"| {' | '.join(cells)} |" in page


ROWS = """index t : time(T)
index d : feature(D)
input X_t^d
output Y_t^d = exp(X_t^d)
plan it:
    mesh p = 2, q = 4
    shard d over p
    shard t over q
"""


def test_a_tensor_of_the_mesh_has_equal_parts() -> None:
    """What lies otherwise is moved first; an axis of which the ranks would have unlike parts is told."""
    made = einc.compile(ROWS, "torch", plan="it")
    with fake(p=2, q=4) as mesh:
        whole = [Replicate(), Replicate()]
        y = made(distribute_tensor(torch.ones(8, 6), mesh, whole))
        assert y.shape == (8, 6) and y.to_local().shape == (2, 3) and y.placements == (Shard(1), Shard(0))
        with pytest.raises(ValueError, match=re.escape("X has 6 elements along its axis 0, no multiple of q = 4")):
            made(distribute_tensor(torch.ones(6, 6), mesh, whole))


@pytest.mark.parametrize("grad", (False, True))
def test_a_tensor_of_the_mesh_is_taken_with_little_more_than_taking_it_by_hand(grad: bool) -> None:
    """Counted in calls of functions, which are the same on a busy machine."""
    assert 0 < boundary(python_calls, 1, grad) <= 1.5


@pytest.mark.whole
def test_the_boundary_is_a_figure() -> None:
    assert boundary(seconds, 1) != 0
