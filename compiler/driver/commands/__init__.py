"""The subcommands of `einc`, one file each, with a click command named `command`."""
