"""Random requests that join, go on, fork and leave over one pool of pages, against a plain model of what each has kept.

The model is a list of rows for each request; outputs are made of these rows alone. Before each
operation everything in the pool that no request has is no number, so whatever reads it shows. A child
that saves its pool is killed, and goes on.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

import einc

Rows = list[tuple[list[float], list[float]]]  # k and v of each position

WIDTH, REACH = 2, 5
SPEC = """index t, s : time(T)
index d    : feature(D)
input q_t^d, k_s^d, v_s^d
mask L_{t s} : RANGE
L_{t s} = q_t^d k_{s d}
output y_t^d = Σ_s softmax_s(L_{t s}) v_s^d
"""
RANGES = {"all": "s ≤ t", "few": f"s ∈ (t - {REACH}, t]"}
POOLS = ((150, 1), (60, 3), (24, 16), (5, 256))  # pages, and positions in each


@cache
def emitted(kind: str) -> Any:
    """The emitted file as a module: every past position read, or the last few."""
    space: dict[str, Any] = {"__name__": f"soak_{kind}"}
    exec(compile(einc.compile(SPEC.replace("RANGE", RANGES[kind]), "torch", plan="serve").source,
                 f"<soak {kind}>", "exec"),
         space)
    return space


class LostError(Exception):
    """The pool and the model differ."""


def _must(holds: bool, said: str) -> None:
    if not holds:
        raise LostError(said)


@dataclass
class Soak:
    """A pool, its caches, and what they should hold: the rows of each request by the number of its cache."""

    kind: str
    pool: Any
    rows: dict[int, Rows] = field(default_factory=dict)
    caches: dict[int, Any] = field(default_factory=dict)

    @staticmethod
    def begin(kind: str, pages: int, page: int) -> Soak:
        return Soak(kind, emitted(kind)["Pool"](pages, page))

    # operations

    def join(self, table: list[int] | None = None) -> int:
        made = emitted(self.kind)["Cache"](pool=self.pool, table=table)
        self.rows[made.number], self.caches[made.number] = [], made
        return int(made.number)

    def append(self, counts: Mapping[int, int], random_: random.Random) -> bool:
        """One step with so many positions of some requests; whether there was room. What
        each may see is what its rows say."""
        self.poison()
        made = [self.caches[number] for number in counts]
        _must(all(one.length == len(self.rows[number]) for number, one in zip(counts, made, strict=True)),
              "lengths differ")
        q, k, v = ([[random_.gauss(0, 1) for _ in range(WIDTH)] for _ in range(sum(counts.values()))] for _ in "qkv")
        before = self.told()
        try:
            given = {name: torch.tensor(x, dtype=torch.float64) for name, x in (("q", q), ("k", k), ("v", v))}
            y = emitted(self.kind)["step"](made, **given, lengths=list(counts.values())).tolist()
        except emitted(self.kind)["Exhausted"]:
            _must(self.told() == before, "an exhausted pool has changed")
            room = [max(-(-(one.length - one.dropped + n) // self.pool.page) - len(one.table.pages), 0) + 1
                    for n, one in zip(counts.values(), made, strict=True)]
            _must(sum(room) > self.pool.free, "a pool with room said that it has none")
            return False
        at = 0
        for number, count in counts.items():
            rows = self.rows[number]
            rows += zip(k[at : at + count], v[at : at + count], strict=True)
            for n in range(count):
                upto = len(rows) - count + n + 1
                want = _mixed(q[at + n], rows[0 if self.kind == "all" else max(upto - REACH, 0) : upto])
                near = all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(y[at + n], want, strict=True))
                _must(near, f"request {number} gave {y[at + n]} at position {upto}, not {want}")
            at += count
        return True

    def reserve(self, counts: Mapping[int, int]) -> bool:
        """Room for several at once, or for none."""
        before = self.told()
        try:
            emitted(self.kind)["_reserve"]([self.caches[number] for number in counts], list(counts.values()))
        except emitted(self.kind)["Exhausted"]:
            _must(self.told() == before, "an exhausted pool has changed")
            return False
        return True

    def fork(self, number: int, length: int) -> int | None:
        made = self.caches[number]
        lost = made.dropped and length - made.dropped < REACH - 1
        try:
            other = made.fork(length)
        except ValueError:
            _must(lost, "a fork was refused")
            return None
        _must(not lost, "a fork has not what it reads")
        self.rows[other.number], self.caches[other.number] = self.rows[number][:length], other
        return int(other.number)

    def free(self, number: int) -> None:
        made = self.caches.pop(number)
        made.free()
        made.free()
        del self.rows[number]

    def drop(self, number: int) -> None:
        """Nobody has the cache any more."""
        del self.caches[number], self.rows[number]

    def reload(self, path: Path) -> None:
        """Goes on from a file, with the caches that come with it."""
        self.pool.save(str(path))
        self.pool = emitted(self.kind)["Pool"].load(str(path))
        self.caches = {**self.pool.loaded}
        self.pool.loaded.clear()

    # what must hold

    def told(self) -> object:
        """All that the pool says of itself."""
        caches = {n: (c.length, c.dropped, list(c.table.pages), list(c.table.given))
                  for n, c in self.pool.caches.items()}
        return self.pool.free, list(self.pool.counts), bytes(self.pool.held), caches

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Request, position and slot of all that is kept."""
        for number, made in self.pool.caches.items():
            for at in range(made.dropped, made.length):
                yield number, at, made.table.run(at - made.dropped)[0]

    def poison(self) -> None:
        """No numbers where no request has any."""
        kept = {slot for _, _, slot in self.places()}
        free = [slot for slot in range(len(self.pool.counts) * self.pool.page) if slot not in kept]
        for store in self.pool.stores.values():
            store.rows[free] = math.nan

    def check(self) -> None:
        """Every row where it should be, every page counted, none lost."""
        self.pool.sweep()
        tables = [page for made in self.pool.caches.values() for page in made.table.pages]
        counts = [tables.count(page) for page in range(len(self.pool.counts))]
        _must(counts == self.pool.counts, "pages are counted wrong")
        _must(self.pool.free == counts.count(0), "free pages are counted wrong")
        _must(set(self.rows) == set(self.pool.caches), "requests are missing")
        _must(all(self.pool.caches[n].length == len(rows) for n, rows in self.rows.items()), "lengths differ")
        stored = {name: store.rows.tolist() for name, store in self.pool.stores.items()}
        for number, at, slot in self.places():
            found = tuple(stored[name][slot] for name in ("k", "v"))
            _must(found == tuple(self.rows[number][at]), f"request {number} has another row at position {at}")


def _mixed(q: list[float], rows: Rows) -> list[float]:
    weights = [math.exp(sum(a * b for a, b in zip(q, k, strict=True))) for k, _ in rows]
    return [sum(w * v[d] for w, (_, v) in zip(weights, rows, strict=True)) / sum(weights) for d in range(WIDTH)]


def operation(soak: Soak, random_: random.Random, longest: int, path: Path) -> str:
    """One operation drawn at random; its name."""
    numbers = sorted(soak.rows)
    drawn = random_.choices(("join", "append", "fork", "free", "drop", "reserve", "reload"), (8, 60, 10, 9, 5, 4, 1))[0]
    if not numbers or (drawn == "join" and len(numbers) < 12):
        pages = list(range(len(soak.pool.counts)))
        random_.shuffle(pages)
        soak.join(pages if random_.random() < 0.3 else None)
        return "join"
    number = random_.choice(numbers)
    match drawn:
        case "fork" if len(numbers) < 12:
            soak.fork(number, random_.randint(0, len(soak.rows[number])))
        case "free":
            soak.free(number)
        case "drop":
            soak.drop(number)
        case "reserve":
            soak.reserve({n: random_.randint(0, 9) for n in random_.sample(numbers, random_.randint(1, len(numbers)))})
        case "reload":
            soak.reload(path)
        case _ if len(soak.rows[number]) < longest:
            drawn = "append"
            others = [n for n in numbers if n != number and len(soak.rows[n]) < longest and random_.random() < 0.3]
            if not soak.append({n: random_.choice((1, 1, 1, 2, 5, 17)) for n in (number, *others)}, random_):
                soak.free(random_.choice(numbers))
                drawn = "exhausted"
        case _:
            soak.free(number)
            drawn = "free"
    return drawn


def soaked(kind: str, pages: int, page: int, seed: int, operations: int, folder: Path) -> dict[str, int]:
    """So many operations, each checked; how often each was drawn."""
    soak, random_ = Soak.begin(kind, pages, page), random.Random(seed)
    drawn: dict[str, int] = {}
    for _ in range(operations):
        name = operation(soak, random_, 4 * page + 60, folder / "pool")
        drawn[name] = drawn.get(name, 0) + 1
        soak.check()
    for number in list(soak.rows):
        soak.free(number)
    _must(soak.pool.free == pages, "pages have leaked")
    return drawn


# stopped and gone on

SEGMENT = 10  # operations from one save to the next


def saved(folder: Path, kind: str) -> tuple[Soak, int]:
    """What a child has left: its pool, and the model that was written just before that or one save later."""
    numbers = sorted(int(file.stem) for file in folder.glob("*.json"))[-2:]
    pool = emitted(kind)["Pool"].load(str(folder / "pool"))
    why = LostError("no model was saved")
    for number in reversed(numbers):
        found = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
        soak = Soak(kind, pool, {int(n): [(k, v) for k, v in rows] for n, rows in found.items()}, {**pool.loaded})
        try:
            soak.check()
        except LostError as error:
            why = error
        else:
            pool.loaded.clear()
            return soak, number
    raise why


def child(folder: Path, kind: str, pages: int, page: int, seed: int, until: int) -> None:
    """Goes on from what was saved, and says after each save how many operations that has."""
    torch.set_num_threads(1)
    soak, done = saved(folder, kind) if (folder / "pool").exists() else (Soak.begin(kind, pages, page), 0)
    while done < until:
        random_ = random.Random(f"{seed} {done}")
        for _ in range(SEGMENT):
            operation(soak, random_, 4 * page + 60, folder / "other")
            soak.check()
        done += SEGMENT
        text = json.dumps(soak.rows)
        (folder / "model.part").write_text(text, encoding="utf-8")
        os.replace(folder / "model.part", folder / f"{done}.json")
        soak.pool.save(str(folder / "pool"))
        print(done, flush=True)


def killed(folder: Path, kind: str, pages: int, page: int, seed: int, kills: int, lines: int, pause: float) -> int:
    """A child that is killed after some saves, begun again as often, and then lets be; what it lost is an error."""
    folder.mkdir()
    random_, done = random.Random(seed), 0
    for turn in range(kills + 1):
        until = done + SEGMENT * (3 * lines if turn < kills else 2)
        words = [str(folder), kind, str(pages), str(page), str(seed), str(until)]
        run = subprocess.Popen([sys.executable, "-m", "bench.soak", *words], stdout=subprocess.PIPE, text=True,
                               cwd=Path(__file__).parent.parent)
        assert run.stdout is not None
        told = 0
        for _, line in zip(range(random_.randint(1, lines)) if turn < kills else iter(int, 1), run.stdout,
                           strict=False):
            told = int(line)
        if turn < kills:
            time.sleep(random_.random() * pause)
            os.kill(run.pid, signal.SIGKILL)
        run.stdout.close()
        code = run.wait()
        _must(code == (-signal.SIGKILL if turn < kills else 0), f"the child ended with {code}")
        _, done = saved(folder, kind)
        _must(done >= told, f"{told} operations were saved, {done} are there")
    return done


if __name__ == "__main__":
    child(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
