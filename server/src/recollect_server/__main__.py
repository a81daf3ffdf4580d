"""Floor 7: `recollect-server`, or `python -m recollect_server`."""

from recollect_server.cli import commands


def main() -> None:
    """Runs the command line."""
    commands(prog_name="recollect-server")


if __name__ == "__main__":
    main()
