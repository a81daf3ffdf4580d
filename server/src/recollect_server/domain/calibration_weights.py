"""The weights of `domain/calibration.py`, for searches by words alone and with meaning.

`bench.calibrate --write` writes them. `bench/README.md` says what they were learned from and how well they hold elsewhere.
"""

MESSAGES: dict[str, dict[str, float]] = {
    "words": {
        "base": -1.65,
        "matched": 0.384,
        "covered": 0.313,
        "missing": -2.27,
        "rare": 0.132,
        "ahead": 0.247,
        "only_stops": -1.46,
        "vector": 0,
        "window": 0,
        "behind": 0.476,
        "rest": 0.898,
    },
    "meaning": {
        "base": -3.89,
        "matched": 0.393,
        "covered": 0.0963,
        "missing": -1.12,
        "rare": 0.037,
        "ahead": 0.176,
        "only_stops": 0,
        "vector": 1.33,
        "window": 4.5,
        "behind": 0.44,
        "rest": 0.552,
    },
}
"""Of messages."""

CONVERSATIONS: dict[str, dict[str, float]] = {
    "words": {
        "base": -1.88,
        "matched": 0.944,
        "covered": 0,
        "missing": -2.68,
        "rare": -0.207,
        "ahead": 0.241,
        "only_stops": -0.515,
        "vector": 0,
        "window": 0,
        "behind": 0.827,
        "rest": 0.494,
    },
    "meaning": {
        "base": -2.61,
        "matched": 0.376,
        "covered": 0.256,
        "missing": -1.18,
        "rare": -0.184,
        "ahead": 0.16,
        "only_stops": 0,
        "vector": 1.5,
        "window": 4.55,
        "behind": 0.651,
        "rest": 0.945,
    },
}
"""Of conversations."""
