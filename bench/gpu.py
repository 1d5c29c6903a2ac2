"""GPUs: `prepare` writes kernels and a runner to be carried where einc is not, `report`
makes a table of what it brought back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
from rich.console import Console

import einc
from bench.carried.cases import CALLS, CASES
from bench.gpu_report import markdown, tables
from bench.record import Run, read, write

HERE = Path(__file__).parent
SHARED = ("__init__", "attention", "case", "cases", "judge", "latents", "losses")
RUN = '''"""What `python -m bench.gpu prepare` wrote: python run.py --help. It needs torch and Triton."""

import sys
from pathlib import Path

folder = Path(__file__).resolve().parent
sys.path.insert(0, str(folder))

from bench.carried.main import main

if __name__ == "__main__":
    sys.exit(main(folder=folder))
'''


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Kernels on a GPU: prepare a folder here, run it where the GPU is, report here."""


def prepare(folder: Path) -> dict[str, str]:
    """Write the kernels of all cases and the runner into the folder; the entry function by kernel.

    What the folder held of an earlier one is replaced. EincError where a spec has errors.
    """
    made = {case.kernel: einc.compile(case.case.spec, backend="triton", own=True) for case in CASES}
    for part in ("kernels", "bench"):
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / "kernels").mkdir(parents=True)
    for kernel, compiled in made.items():
        (folder / "kernels" / f"{kernel}.py").write_text(compiled.source, encoding="utf-8")
    entries = {kernel: str(compiled.function.__name__) for kernel, compiled in made.items()}
    (folder / "manifest.json").write_text(json.dumps({"commit": Run().commit, "entries": entries}, indent=1),
                                          encoding="utf-8")
    (folder / "bench" / "carried").mkdir(parents=True)
    for file in (*(HERE / f"{name}.py" for name in SHARED), *sorted((HERE / "carried").glob("*.py"))):
        shutil.copy(file, folder / "bench" / file.relative_to(HERE))
    (folder / "run.py").write_text(RUN, encoding="utf-8")
    return entries


@main.command("prepare")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def prepare_command(folder: Path) -> None:
    """Write the kernels of all cases, and a runner for them, into FOLDER."""
    entries = prepare(folder)
    click.echo(f"wrote {len(entries)} kernels; on the GPU, one after the other: "
               + ", ".join(f"python {folder / 'run.py'} --call {number}" for number in CALLS))


@main.command("report")
@click.argument("found", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("bench/results"),
              show_default=True,
              help="The folder of the JSON lines and the table.")
def report_command(found: Path | None, out: Path) -> None:
    """Take the figures of FOUND, a gpu.jsonl, into OUT/gpu.jsonl and write OUT/gpu.md; without FOUND, write it anew."""
    file = out / "gpu.jsonl"
    if found is not None:
        write(file, [row for row in read(found) if row["kind"] in ("gpu", "gpu-tile", "gpu-check", "gpu-ceiling")])
    rows = read(file)
    if not rows:
        raise click.ClickException(f"there is no figure in {file}")
    (out / "gpu.md").write_text(markdown(rows), encoding="utf-8")
    terminal = Console(highlight=False)
    console = terminal if terminal.is_terminal else Console(highlight=False, width=180)
    for table in tables(rows):
        console.print(table)
    console.print(f"wrote {out / 'gpu.md'}")


if __name__ == "__main__":
    main(prog_name="python -m bench.gpu")
