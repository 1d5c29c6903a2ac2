"""`python -m bench`. The guard is for the processes that measure memory, which import this file again."""

from bench.cli import main

if __name__ == "__main__":
    main(prog_name="python -m bench")
