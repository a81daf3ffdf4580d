"""The weights of `services/recall/calibration.py`, for searches by words alone and with meaning.

`bench.calibrate --write` writes them. `bench/README.md` says what they were learned from and how
well they hold elsewhere.
"""

MESSAGES: dict[str, dict[str, float]] = {
    "words": {
        "base": -0.742,
        "matched": 0.351,
        "covered": 0.328,
        "missing": -2.4,
        "rare": 0.185,
        "ahead": 0.199,
        "only_stops": -0.756,
        "everyday": -1.55,
        "vector": 0,
        "window": 0,
        "behind": 0.444,
        "rest": 0.911,
    },
    "meaning": {
        "base": -2.85,
        "matched": 0.212,
        "covered": 0,
        "missing": -1.91,
        "rare": 0.0596,
        "ahead": 0.201,
        "only_stops": -0.202,
        "everyday": -1.18,
        "vector": 0.277,
        "window": 3.5,
        "behind": 0.27,
        "rest": 1.21,
    },
}
"""Of messages."""

CONVERSATIONS: dict[str, dict[str, float]] = {
    "words": {
        "base": -1.46,
        "matched": 1.46,
        "covered": 0,
        "missing": -2.57,
        "rare": -0.403,
        "ahead": 0.185,
        "only_stops": -0.0303,
        "everyday": -1.86,
        "vector": 0,
        "window": 0,
        "behind": 0.74,
        "rest": 0.494,
    },
    "meaning": {
        "base": -3.11,
        "matched": 0.649,
        "covered": 0.343,
        "missing": -1.47,
        "rare": -0.194,
        "ahead": 0.238,
        "only_stops": 0,
        "everyday": -1.27,
        "vector": 1.71,
        "window": 3.62,
        "behind": 0.645,
        "rest": 0.855,
    },
}
"""Of conversations."""
