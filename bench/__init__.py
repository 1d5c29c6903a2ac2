"""Whether it is fast: one command, `python -m bench`, that runs cases side by side with their rivals in one process."""
