"""`python -m bench`. The guard is for the processes that measure memory, which import this file again."""

from bench import collectives, precision, proofs, sass
from bench.cli import main

main.add_command(sass.command)
main.add_command(precision.command)
main.add_command(collectives.command)
main.add_command(proofs.command)

if __name__ == "__main__":
    main(prog_name="python -m bench")
