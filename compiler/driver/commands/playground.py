"""`einc playground`: a page on this machine to try texts on."""

from __future__ import annotations

import webbrowser

import click

from einc.driver.playground.server import serve


@click.command("playground")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; one that is free without it.")
@click.option("--open/--no-open", "opens", default=True, help="Whether a browser opens the page.  [default: open]")
def command(*, port: int, opens: bool) -> None:
    """Open a page on which a text is checked as you type: its equations with all that they imply, its errors, the
    recurrence that is derived, where its tensors exist, the plan, and the kernels of each back end.

    The page is on this machine, at an address that holds a random word. It checks, derives and writes texts, and never
    loads or runs one; `use` finds the specs that come with einc. Ctrl-C ends it.
    """
    def told(address: str) -> None:
        click.echo(f"{address}\nCtrl-C ends it", err=True)
        if opens:
            webbrowser.open(address)

    serve(port, told)
