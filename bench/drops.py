"""Minutes of appends with subscribers that drop at random and come back: nothing lost, nothing repeated."""

from pathlib import Path


def soak(data: Path, seconds: float) -> None:
    """Prints what was lost and what was repeated."""
    raise NotImplementedError
