"""`einc cache`: what tuning and compiling have kept on disk."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from einc.driver.commands.common import counted


@click.command("cache")
@click.argument("what", type=click.Choice(["list", "clear"]), default="list")
def command(what: str) -> None:
    """List what is kept on disk, or clear it.

    Of each tile that tuning has found: the kernel, its data, and where and with what it was timed; of compiled kernels
    their number and size.
    """
    cache = import_module("einc.backends.host.cache")
    if what == "clear":
        tiles, libraries = cache.clear(), cache.clear_libraries()
        also = f" and {counted(libraries, 'compiled file')}" if libraries else ""
        click.echo(f"{counted(tiles, 'tile')}{also} cleared from {cache.folder()}")
        return
    console = wide_console()
    rows = [(file.name, found) for file, found in cache.entries()]
    if rows:
        table = Table(box=None, pad_edge=False)
        for heading in ("kernel", "bucket", "tile", "ratio", "device", "with"):
            table.add_column(heading, no_wrap=True)
        for name, found in rows:
            table.add_row(*_row(name, found))
        console.print(table)
    console.print(f"{counted(len(rows), 'tile')} in {cache.folder()}")
    if libraries := cache.libraries():
        size = sum(file.stat().st_size for file in libraries)
        console.print(f"{counted(len(libraries), 'compiled file')}, {size / 2**20:.1f} MiB")


def wide_console() -> Console:
    """Plain text: on a terminal as wide as that is, elsewhere with room for every column of a table."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 1000
    return console


def _row(name: str, found: dict[str, Any] | None) -> tuple[str, ...]:
    """One kept file; a damaged one is told as such, and is written anew by the next tuning that needs it."""
    try:
        key, value = found["key"], found["value"]  # type: ignore[index]
        versions = ", ".join(f"{part} {key[part]}" for part in ("torch", "triton", "einc"))
        return (str(key["kernel"]), f"{key['rows']} × {key['columns']}", " ".join(map(str, value["tile"])),
                f"{value['ratio']:.2f}",
                str(key["device"]), versions)
    except (KeyError, TypeError, ValueError):
        return (name, "damaged", "", "", "", "")
