"""A team of processes that run emitted files on a mesh, with gloo between them: it lives as long as its tests do."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from helpers import Arrays

AFTER_A_FAILURE = 20.0  # seconds
WORKER = Path(__file__).parent / "rank_worker.py"


class TeamError(Exception):
    """What the ranks of a team said when it ended; one line for each, empty for those that were ended."""


@dataclass
class Team:
    """So many ranks, and a folder for what they are told and make."""

    ranks: int
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    jobs: int = 0

    def start(self) -> None:
        """Starts the processes, unless they run."""
        if self.processes:
            return
        self.jobs += 1
        meeting = self.folder / f"meeting_{self.jobs}"
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.processes = [
            subprocess.Popen([sys.executable, str(WORKER), str(rank), str(self.ranks), str(meeting)], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
            for rank in range(self.ranks)]

    def run(self, source: str, entry: str, given: Arrays, outputs: list[str], *, grad: bool, plain: bool = False,
            sizes: Mapping[str, int] | None = None, differs: list[Arrays] | None = None,
            traced: bool = False, some: list[str] | None = None, early: bool = False) -> tuple[Arrays, list[Any]]:
        """What the ranks make of whole arrays, put together, and the collectives of each half: as they are sent, or, if
        it is `traced`, as they stand in the graphs of `torch.compile`. `differs` are inputs that each rank has one of
        its own of, `some` those inputs alone that have a gradient. Raises TeamError, and the team begins anew, unless
        all ranks are to refuse the call `early`, before they send anything, and do.
        """
        job: dict[str, Any] = {"entry": entry, "outputs": outputs, "grad": grad, "plain": plain,
                               "sizes": dict(sizes or {}), "traced": traced, "early": early}
        job |= {} if some is None else {"some": some}
        if differs is not None:
            self.folder.joinpath("own").mkdir(exist_ok=True)
            at = self.folder / "own" / str(self.jobs)
            own = [at.with_suffix(f".{rank}.npz") for rank in range(self.ranks)]
            for path, arrays in zip(own, differs, strict=True):
                np.savez(path, **arrays)
            job |= {"differs": list(differs[0]), "own": [str(path) for path in own]}
        return self.done(job, source, given)

    def train(self, source: str, given: Arrays, sizes: Mapping[str, int], optimizer: str, steps: int,
              shared: bool = False) -> Arrays:
        """The weights of the class of a file after some steps of an optimizer, each as `w/` and its name, and the
        result then, `out`. `shared` are texts and optimizer by torch over twice as many ranks. Raises TeamError.
        """
        folder = self.folder / f"saved_{self.jobs}"
        folder.mkdir()
        job = {"sizes": dict(sizes), "steps": steps, "optimizer": optimizer, "folder": str(folder),
               "shared": shared}
        return self.done(job, source, given)[0]

    def staged(self, source: str, given: Arrays, sizes: Mapping[str, int], steps: int,
               own: list[dict[str, int]] | None = None) -> Arrays:
        """What stages make by a schedule of torch, `out`, with the loss and, as `d/` and their names, the gradients of
        the weights, whole; and the weights after so many steps of an optimizer, as `w/`. `own` are sizes that each rank
        says otherwise. Raises TeamError.
        """
        job = {"sizes": dict(sizes), "stages": True, "steps": steps} | ({} if own is None else {"own": own})
        return self.done(job, source, given)[0]

    def done(self, job: dict[str, Any], source: str, given: Arrays) -> tuple[Arrays, list[Any]]:
        """What the ranks make of a job with a file and arrays, and what they count."""
        self.start()
        self.jobs += 1
        at = self.folder / str(self.jobs)
        file, data, out = (at.with_suffix(end) for end in (".py", ".npz", ".out.npz"))
        file.write_text(source, encoding="utf-8")
        np.savez(data, **given)
        job |= {"file": str(file), "data": str(data), "out": str(out)}
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        answers = self.answers()
        if any("error" in answer for answer in answers):
            if not (job.get("early") and all(answer.get("error") for answer in answers)):
                self.end()
            raise TeamError("\n".join(answer.get("error", "") for answer in answers))
        assert all(answer == answers[0] for answer in answers)
        return dict(np.load(out)), answers[0]["counts"]

    def answers(self) -> list[dict[str, Any]]:
        """What each rank says. Once one has failed the others have so long to say what they were told, for they may
        wait for it.
        """
        out: dict[int, dict[str, Any]] = {}
        with selectors.DefaultSelector() as waiting:
            for rank, process in enumerate(self.processes):
                assert process.stdout is not None
                waiting.register(process.stdout, selectors.EVENT_READ, (rank, process.stdout))
            while len(out) < self.ranks:
                failed = any("error" in answer for answer in out.values())
                ready = waiting.select(AFTER_A_FAILURE if failed else None)
                if not ready:
                    break
                for key, _ in ready:
                    rank, stream = key.data
                    line = stream.readline()
                    out[rank] = json.loads(line) if line.strip() else {"error": ""}
                    waiting.unregister(stream)
        return [out.get(rank, {"error": ""}) for rank in range(self.ranks)]

    def end(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            process.kill()
            process.communicate()
        self.processes = []
