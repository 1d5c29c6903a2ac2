"""The folders of the house, mapped to one import root; see README's floor plan."""

from setuptools import find_packages, setup

ROOTS = {"einc": "compiler", "einc.backends": "backends", "einc.grammar": "grammar", "einc.specs": "specs"}
setup(package_dir=ROOTS, packages=[p for r, d in ROOTS.items() for p in [r, *(f"{r}.{q}" for q in find_packages(d))]])
