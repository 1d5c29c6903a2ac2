"""What all devices of a mesh make beside what one makes: no claim of a spec that ships is refuted."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.proofs import SPECS, letters, verdicts

NAMES = sorted(str(file.relative_to(SPECS).with_suffix("")) for file in SPECS.rglob("*.ein"))


@pytest.mark.whole
def test_a_command_counts_what_is_proved() -> None:
    """Of each letter, and of all."""
    done = CliRunner().invoke(main, ["proofs", "linear_cross_entropy"])
    assert done.exit_code == 0 and "linear_cross_entropy v: 3 proved" in done.output
    assert done.output.splitlines()[-2:] == ["claims: 14 proved", "texts: 3 proved whole"]


def test_a_spec_that_is_none_is_told() -> None:
    done = CliRunner().invoke(main, ["proofs", "linear_cross_entropies"])
    assert done.exit_code == 2 and "there is no spec `linear_cross_entropies`" in done.output


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_no_claim_of_what_devices_make_is_refuted(name: str) -> None:
    for letter in letters(name):
        found = verdicts(name, letter, grad=False, seconds=600)
        assert isinstance(found, str) or not found["refuted"], letter
