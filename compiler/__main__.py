"""`python -m einc`, the same as `einc`."""

from einc.driver.cli import main

if __name__ == "__main__":
    main()
