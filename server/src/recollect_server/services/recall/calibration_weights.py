"""The weights of `services/recall/calibration.py`, for searches by words alone and with meaning.

`bench.calibrate --write` writes them. `bench/README.md` says what they were learned from and how
well they hold elsewhere.
"""

MESSAGES: dict[str, dict[str, float]] = {
    "words": {
        "base": -0.478,
        "matched": 0.316,
        "covered": 0.32,
        "missing": -2.4,
        "rare": 0.137,
        "ahead": 0.208,
        "only_stops": -0.0952,
        "everyday": -1.69,
        "vector": 0,
        "window": 0,
        "behind": 0.468,
        "rest": 0.942,
    },
    "meaning": {
        "base": -3.3,
        "matched": 0.406,
        "covered": 0.112,
        "missing": -1.22,
        "rare": -0.00583,
        "ahead": 0.16,
        "only_stops": 0,
        "everyday": -1.24,
        "vector": 1.31,
        "window": 4.17,
        "behind": 0.448,
        "rest": 0.537,
    },
}
"""Of messages."""

CONVERSATIONS: dict[str, dict[str, float]] = {
    "words": {
        "base": -0.314,
        "matched": 0.895,
        "covered": 0,
        "missing": -2.76,
        "rare": -0.278,
        "ahead": 0.167,
        "only_stops": 0,
        "everyday": -1.74,
        "vector": 0,
        "window": 0,
        "behind": 0.842,
        "rest": 0.495,
    },
    "meaning": {
        "base": -1.98,
        "matched": 0.427,
        "covered": 0.256,
        "missing": -1.24,
        "rare": -0.267,
        "ahead": 0.145,
        "only_stops": 0,
        "everyday": -1.31,
        "vector": 1.35,
        "window": 4.3,
        "behind": 0.65,
        "rest": 0.955,
    },
}
"""Of conversations."""
