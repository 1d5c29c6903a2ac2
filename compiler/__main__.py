"""`python -m einc`, the same as `einc`."""

from einc.cli import main

if __name__ == "__main__":
    main()
