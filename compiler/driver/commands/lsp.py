"""`einc lsp`: the server that an editor starts."""

from __future__ import annotations

from importlib import import_module

import click

from einc.errors.report import failure

SERVER = "einc.driver.integrations.language_server"  # it loads what speaks the protocol, which may not be there


@click.command("lsp")
@click.option("--stdio", is_flag=True, help="Speak over standard input and output, as it does without it.")
def command(*, stdio: bool) -> None:
    """Answer an editor over standard input and output, in the Language Server Protocol: problems as you type, what a
    name is and where it is defined, implied sums and shapes, completion, renaming, tried fixes, kernels and layout.

    Editors start it by themselves: grammar/editors has what they need.
    \f
    Raises EincError where pygls is not installed.
    """
    try:
        serve = import_module(SERVER).serve
    except ImportError as error:
        if str(error.name).partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise failure("`einc lsp` needs pygls from version 2 on, which is not installed",
                      "pip install 'einc[editor]'") from None
    serve()
