"""What all devices of a mesh make beside what one makes: no claim of a spec that ships is refuted."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from placing_cases import CUT
from programs import Case

from bench.__main__ import main
from bench.proofs import cut, letters, verdicts
from einc.driver.sources import names
from einc.errors.report import EincError

FORM = {name.rpartition("/")[2]: name for name in names()}


def test_a_command_counts_what_is_proved() -> None:
    """Of each letter, and of all; a letter that two devices do not divide is told."""
    done = CliRunner().invoke(main, ["proofs", "not_attention/softmax_entropy"])
    assert done.exit_code == 2 and "there is no spec" in done.output
    done = CliRunner().invoke(main, ["proofs", "linear_cross_entropy"])
    assert done.exit_code == 0 and "linear_cross_entropy v: 3 proved" in done.output
    assert done.output.splitlines()[-2:] == ["claims: 14 proved", "texts: 3 proved whole"]


@pytest.mark.whole
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CUT if case.name in FORM])
def test_no_claim_of_what_devices_make_is_refuted(case: Case) -> None:
    for letter in letters(FORM[case.name]):
        try:
            found = verdicts(cut(FORM[case.name], letter), letter, grad=False)
        except EincError:
            continue  # an extent that two do not divide, or a slot in which its letter stands twice
        assert not found["refuted"] and found["proved"], letter
