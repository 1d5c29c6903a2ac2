"""`python -m bench`. The guard is for the processes that measure memory, which import this file again."""

from bench import sass
from bench.cli import main

if __name__ == "__main__":
    main.add_command(sass.command)
    main(prog_name="python -m bench")
