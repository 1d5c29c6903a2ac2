"""The subcommands of `einc`: a file for each with a click command named `command`, and what they share.

`common` has the options that several take, `data` reads and writes tensors, `sizes` finds a number for each size. A
new command is a file here and its line in `COMMANDS` of `driver/cli.py`, which `einc --help` prints.
"""
