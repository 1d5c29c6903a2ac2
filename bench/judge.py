"""The judge of the package, by the name that it has where the bench is carried to a machine without einc."""

from einc.driver.timing.judge import BOUNDS, FUDGE, Verdict, judge, ratio, relative_error

__all__ = ["BOUNDS", "FUDGE", "Verdict", "judge", "ratio", "relative_error"]
