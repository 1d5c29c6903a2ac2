"""What is done to a program before it is in normal form: the laws that need its terms as they are written."""

from __future__ import annotations

from typing import TypeVar

from einc.ir.programs import Program
from einc.transforms.normal.alternatives import with_alternatives
from einc.transforms.normal.interval_products import with_exponentials, with_logarithms
from einc.transforms.normal.intervals import with_intervals
from einc.transforms.normal.products import with_products
from einc.transforms.normal.scaled import scaled

P = TypeVar("P", bound=Program)


def apart(program: P, slopes: bool = False) -> P:
    """Products and sums over intervals as differences, exponentials with their scales, sums of products apart.

    `slopes`: a gradient is to be made, for which products stay that are of no exponentials, and scales have names.
    """
    made = scaled(with_exponentials(with_alternatives(program), slopes), named=slopes)
    return with_products(with_intervals(made if slopes else with_logarithms(made)))
