"""GPUs: `prepare` writes kernels and a runner to be carried where einc is not, `report`
makes a table of what it brought back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import triton
from rich.console import Console

import einc
from bench import gpu_cubins
from bench.carried.cases import BY_NAME, CALLS, CASES
from bench.gpu_report import BEFORE, markdown, placed, tables
from bench.record import Row, Run, read, write
from einc.driver.timing import judge

MOST = 64 * 2**20  # bytes that may be carried
Tell = Callable[[str], None]
HERE = Path(__file__).parent
SHARED = ("__init__", "attention", "backward", "case", "cases", "latents", "losses")
RUN = '''"""What `python -m bench.gpu prepare` wrote: python run.py --help. It needs torch and Triton."""

import sys
from collections.abc import Callable, Sequence
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


def prepare(folder: Path, carry: str = "", names: Sequence[str] = (), tell: Tell | None = None) -> dict[str, str]:
    """Write the kernels of all cases and the runner into the folder; the entry function by kernel.

    With `carry`, a target, also machine code for it of the cases of these names, or of all; `tell` is told of each.

    What the folder held of an earlier one is replaced. EincError where a spec has errors.
    """
    made = {case.kernel: einc.compile(case.case.spec, backend="triton", own=True, grad=case.case.grad,
                                      **({"plan": case.case.plan} if case.case.plan else {}))
            for case in CASES}
    for part in ("kernels", "bench"):
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / "kernels").mkdir(parents=True)
    for kernel, compiled in made.items():
        (folder / "kernels" / f"{kernel}.py").write_text(compiled.source, encoding="utf-8")
    entries = {kernel: str(compiled.function.__name__) for kernel, compiled in made.items()}
    cubins: list[Row] = []
    shutil.rmtree(folder / "cubins", ignore_errors=True)
    cases = [case for case in CASES if (not names or case.name in names) and not case.case.grad] if carry else []
    sources = {kernel: compiled.source for kernel, compiled in made.items()}
    for name, found in gpu_cubins.compiled(cases, sources, entries, folder, carry):
        cubins += found if isinstance(found, list) else []
        if tell is not None:
            tell(f"{name}: {found if isinstance(found, str) else f'{len(found)} kernels'}")
    told = {"commit": Run().commit, "entries": entries, "cubins": cubins,
            "compiled": {"triton": triton.__version__, "target": carry}}
    (folder / "manifest.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    (folder / "bench" / "carried").mkdir(parents=True)
    for file in (*(HERE / f"{name}.py" for name in SHARED), *sorted((HERE / "carried").glob("*.py"))):
        shutil.copy(file, folder / "bench" / file.relative_to(HERE))
    shutil.copy(judge.__file__, folder / "bench" / "judge.py")
    (folder / "run.py").write_text(RUN, encoding="utf-8")
    return entries


@main.command("prepare")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--carry", type=click.Choice(["sm_90"]), default=None,
              help="Also machine code for this target, compiled here, which takes minutes.")
@click.option("--case", "names", multiple=True, type=click.Choice(list(BY_NAME)),
              help="With --carry: of which cases; of all without it.")
def prepare_command(folder: Path, carry: str | None, names: tuple[str, ...]) -> None:
    """Write the kernels of all cases, and a runner for them, into FOLDER."""
    entries = prepare(folder, carry or "", names, click.echo)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > MOST:
        raise click.ClickException(f"{folder} has {size} bytes, and {MOST} may be carried: name fewer cases")
    click.echo(f"wrote {len(entries)} kernels; on the GPU, one after the other: "
               + ", ".join(f"python {folder / 'run.py'} --call {number}" for number in CALLS))


@main.command("report")
@click.argument("found", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("bench/results"),
              show_default=True,
              help="The folder of the JSON lines and the table.")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=None,
              help="A page, such as backends/README.md: tables of cases take the place of earlier ones there, or stand "
              "before `## Tuning`.")
def report_command(found: Path | None, out: Path, page: Path | None) -> None:
    """Take the figures of FOUND, a gpu.jsonl, into OUT/gpu.jsonl and write OUT/gpu.md; without FOUND, write it anew."""
    file = out / "gpu.jsonl"
    if found is not None:
        write(file, [row for row in read(found) if row["kind"] in ("gpu", "gpu-tile", "gpu-check", "gpu-ceiling")])
    rows = read(file)
    if not rows:
        raise click.ClickException(f"there is no figure in {file}")
    (out / "gpu.md").write_text(markdown(rows), encoding="utf-8")
    if page is not None:
        text = placed(page.read_text(encoding="utf-8"), rows)
        if text is None:
            raise click.ClickException(f"{page} has no tables of an earlier run and no heading `{BEFORE}`")
        page.write_text(text, encoding="utf-8")
    terminal = Console(highlight=False)
    console = terminal if terminal.is_terminal else Console(highlight=False, width=180)
    for table in tables(rows):
        console.print(table)
    console.print(f"wrote {out / 'gpu.md'}")


if __name__ == "__main__":
    main(prog_name="python -m bench.gpu")
