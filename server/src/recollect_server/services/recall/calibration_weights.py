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
        "few": 0,
        "few_vector": 0,
        "few_rare": 0,
        "few_foreign": 0,
        "behind": 0.444,
        "rest": 0.911,
    },
    "meaning": {
        "base": -3.33,
        "matched": 0.511,
        "covered": 0.102,
        "missing": -1.56,
        "rare": 0.133,
        "ahead": 0.125,
        "only_stops": 0,
        "everyday": -1.09,
        "vector": 2.13,
        "window": 2.19,
        "few": 0.858,
        "few_vector": 5.78,
        "few_rare": -0.81,
        "few_foreign": -0.982,
        "behind": 0.425,
        "rest": 0.614,
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
        "few": 0,
        "few_vector": 0,
        "few_rare": 0,
        "few_foreign": 0,
        "behind": 0.74,
        "rest": 0.494,
    },
    "meaning": {
        "base": -0.981,
        "matched": 0.752,
        "covered": 0.633,
        "missing": -1.14,
        "rare": -0.279,
        "ahead": 0,
        "only_stops": 0,
        "everyday": -1.51,
        "vector": 2.57,
        "window": 2.42,
        "few": 0.713,
        "few_vector": 6.09,
        "few_rare": -0.451,
        "few_foreign": -1.15,
        "behind": 0.5,
        "rest": 0.919,
    },
}
"""Of conversations."""
