"""How long it takes to start: the commands on a spec, the growth of parsing, and the first call."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

import einc
from bench import cases, measure, rivals
from bench.case import make
from bench.checkouts import ended, environment

ROOT = Path(__file__).parent.parent
BUDGETS = {"check": 0.5, "compile": 1.5}
COUNTS = (10, 100, 1000)
GROWTH = 1.1

Row = dict[str, Any]
Tell = Callable[[str], None]


def process_seconds(words: Sequence[str], variables: Mapping[str, str]) -> float:
    """User and system time of a command in this environment, start of the interpreter included."""
    found = ended(words, ROOT, variables)
    if found.status:
        raise RuntimeError(f"einc {' '.join(words)}: {found.stderr.strip()[:200]}")
    return found.seconds


def commands(rounds: int, tell: Tell, spec: str = "specs/attention.ein") -> list[Row]:
    """`einc check` and `einc compile` of a spec against their budgets."""
    words = {"check": ["check", spec], "compile": ["compile", spec, "-o", os.devnull]}
    times: dict[str, list[float]] = {name: [] for name in words}
    with environment(ROOT) as variables:
        for turn in range(rounds + 1):  # the first one only warms the disk and leaves its bytecode
            for name, line in words.items():
                tell(f"einc {name}, round {turn}")
                taken = process_seconds(line, variables)
                times[name] += [taken] if turn else []
    return [{"case": f"einc {name}", "spec": spec, "seconds": round(statistics.median(series), 3),
             "fastest": round(min(series), 3), "rounds": rounds, "budget": BUDGETS[name]}
             for name, series in times.items()]


def generated(count: int) -> str:
    """A sound spec of so many equations: each has its own label and reads the one before
    it, and they are of four kinds."""
    kinds = (
        "Z_{{{0} t h}}^d = Z_{{{1} t h}}^d + 1/√d_k Z_{{{1} t h}}^k W_{{Q h k}}^d",
        "Z_{{{0} t h}}^d = Σ_{{s ≤ t}} exp(-(t - s)) Z_{{{1} s h}}^d",
        "Z_{{{0} t h}}^d = tanh(Z_{{{1} t h}}^d) / (1 + (Z_{{{1} t h}}^d)^2)",
        "Z_{{{0} t h}}^d = softcap(2 Z_{{{1} t h}}^d - 0.5, 30)  # and a comment",
    )
    head = ["index t, s : time(T)", "index h : head(H)", "index d, k : feature(d_k)", "input X_{t h}^d",
            "weight W_{Q h d}^k",
            "Z_{0 t h}^d = X_{t h}^d"]
    return "\n".join([*head, *(kinds[i % len(kinds)].format(i, i - 1) for i in range(1, count))]) + "\n"


def parsing(rounds: int, tell: Tell, counts: Sequence[int] = COUNTS) -> list[Row]:
    """Seconds over the number of equations: to read a spec (`einc show --stage syntax`, less that of an empty one) and
    to check it (in this process). The fastest of the rounds: what is disturbed here is only slower."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, environment(ROOT) as variables:
        for count in (0, *counts):
            file = Path(folder) / f"generated_{count}.ein"
            file.write_text(generated(count) if count else "index t : time(T)\n", encoding="utf-8")
            tell(f"{count} equations")
            words = ["show", "--stage", "syntax", str(file)]
            read = min(process_seconds(words, variables) for _ in range(rounds + 1))  # one leaves its bytecode
            if count == 0:
                empty = read
                continue
            check = min(_check_seconds(file.read_text(encoding="utf-8")) for _ in range(min(rounds, 3)))
            rows.append({"equations": count, "parse": round(max(read - empty, 0.0), 4), "check": round(check, 4),
                         "rounds": rounds})
    return rows


def _check_seconds(text: str) -> float:
    start = time.process_time()
    problems = einc.check(text)
    taken = time.process_time() - start
    if any(problem.severity == "error" for problem in problems):
        raise RuntimeError(f"the generated spec has an error: {problems[0].message}")
    return taken


# the first call


def first_seconds(rival: str, case: str, again: int) -> tuple[float, float, float]:
    """In a process of its own, torch already imported: seconds to the first result, those to the first one at another
    size with what is already compiled where the rival can keep it, and those of a later call."""
    task = make(cases.BY_NAME[case], cases.BY_NAME[case].sizes(False)[0], "float32")
    prepared, _, taken = measure.first(task, rivals.BY_NAME[rival])
    other = make(task.case, {**task.sizes, "T": again}, "float32")
    given = {**other.tensors, **{name: other.sizes[name] for name in other.case.asks}}
    if rival.startswith("einc"):
        module = einc.compile(task.case.spec, "torch")
        module(**{**task.tensors, **{name: task.sizes[name] for name in task.case.asks}})
        second = measure.seconds(lambda: module(**given))
    else:
        second = measure.first(other, rivals.BY_NAME[rival])[2]
    return taken, second, measure.seconds(prepared.call)


def first_calls(names: Sequence[str], rounds: int, tell: Tell, case: str = "causal", again: int = 1000) -> list[Row]:
    """Each time in a fresh process and with empty caches."""
    rows = []
    for name in names:
        found = []
        for turn in range(rounds):
            tell(f"first call of {name}, round {turn + 1}")
            found.append(_fresh(name, case, again))
        first, second, later = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append({"case": case, "rival": name, "first": round(first, 3), "other_size": round(second, 4),
                     "later": round(later, 4), "rounds": rounds})
    return rows


def _fresh(rival: str, case: str, again: int) -> tuple[float, float, float]:
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        try:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), torch.set_num_threads,
                                     (torch.get_num_threads(),)) as worker:
                return worker.submit(first_seconds, rival, case, again).result()
        finally:
            if before is None:
                del os.environ["TORCHINDUCTOR_CACHE_DIR"]
            else:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = before
