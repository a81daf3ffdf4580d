"""The weights of `domain/fusion.py`: of each feature a base, and what each gate adds.

`bench.learn --write` writes them. Learned from 997 questions over five dialogues of LoCoMo (Maharana et al. 2024), 728 of
five people of RealMem (2026), and the seven kinds that `bench.kinds` makes; `bench/README.md` says what they are worth on
kinds left out.
"""

MESSAGE_WEIGHTS: dict[str, dict[str, float]] = {
    "keyword": {"base": -0.0312, "asks": 0.616, "long": -0.347, "own": 0.25, "blind": 0.0423},
    "keyword_z": {"base": -0.0647, "asks": -0.146, "long": -0.232, "own": -0.161, "blind": -0.0156},
    "keyword_window": {"base": 2.84, "asks": 1.45, "long": 2.07, "own": -1.13, "blind": 1.37},
    "keyword_before": {"base": 0.169, "asks": -0.444, "long": -0.422, "own": -0.61, "blind": 0.334},
    "keyword_after": {"base": -1.22, "asks": -0.115, "long": -0.709, "own": 0.475, "blind": -0.193},
    "vector": {"base": 0.167, "asks": -0.047, "long": -0.186, "own": 0.048, "blind": 0},
    "vector_before": {"base": -0.0246, "asks": 0.184, "long": 0.0289, "own": 0.109, "blind": 0},
    "vector_after": {"base": -0.111, "asks": 0.0872, "long": -0.0366, "own": -0.0297, "blind": 0},
    "window": {"base": 0.422, "asks": 0.123, "long": -0.016, "own": -0.0411, "blind": 0},
    "conversation_keyword": {"base": 1.97, "asks": 0.104, "long": 0.524, "own": -0.707, "blind": 0.673},
    "conversation_vector": {"base": 0.469, "asks": -0.184, "long": -0.17, "own": -0.0231, "blind": 0},
    "conversation_window": {"base": 0.0994, "asks": -0.227, "long": -0.0122, "own": 0.067, "blind": 0},
    "named": {"base": 0.554, "asks": -0.3, "long": -0.248, "own": 0.274, "blind": 0},
    "other": {"base": -0.926, "asks": 0.501, "long": 0.415, "own": -0.458, "blind": 0},
    "length": {"base": 0.509, "asks": 0.303, "long": -0.109, "own": -0.142, "blind": -0.156},
    "short": {"base": 1.14, "asks": -0.343, "long": -0.402, "own": -0.689, "blind": -0.235},
    "answers": {"base": 0.0722, "asks": 0.581, "long": 0.298, "own": -0.52, "blind": 0},
    "agent": {"base": 0.0223, "asks": -0.0331, "long": -0.31, "own": -0.125, "blind": 0},
    "first": {"base": 1.07, "asks": 0.241, "long": 0.939, "own": 0.0474, "blind": -0.102},
    "place": {"base": -0.156, "asks": 0.225, "long": 0.038, "own": -0.0136, "blind": -0.0337},
    "newer": {"base": -0.0448, "asks": -0.156, "long": 0.147, "own": 0.323, "blind": 0.0112},
    "date": {"base": 6.35, "asks": 0.566, "long": -2.55, "own": -2.21, "blind": 0.0527},
}
"""Of the features of messages."""

CONVERSATION_WEIGHTS: dict[str, dict[str, float]] = {
    "keyword": {"base": 1.11, "asks": -0.531, "long": -0.163, "own": -0.022, "notes": -0.32, "blind": 0.537},
    "best_keyword": {"base": 0.701, "asks": 0.505, "long": 0.563, "own": -0.34, "notes": -0.354, "blind": 0.737},
    "vector": {"base": 0.17, "asks": -0.196, "long": -0.0218, "own": -0.0451, "notes": -0.0584, "blind": 0},
    "user_vector": {"base": -0.056, "asks": 0.0318, "long": -0.0645, "own": 0.00663, "notes": 0.065, "blind": 0},
    "window": {"base": 0.286, "asks": -0.0602, "long": -0.131, "own": 0.101, "notes": -0.0846, "blind": 0},
    "vector_mean": {"base": 0.0121, "asks": 0.0415, "long": 0.152, "own": 0.0446, "notes": -0.187, "blind": 0},
    "abbreviation": {"base": 2.16, "asks": 0.153, "long": -0.0865, "own": 0.108, "notes": 0.573, "blind": 0},
    "mass": {"base": 0.174, "asks": -0.0234, "long": -0.00604, "own": -0.00892, "notes": -0.109, "blind": 0.0486},
    "best": {"base": 0.687, "asks": 0.328, "long": -0.11, "own": -0.226, "notes": -0.174, "blind": -0.0776},
    "newer": {"base": 0.299, "asks": -0.263, "long": -0.0308, "own": 0.135, "notes": 0.21, "blind": 0.0263},
    "messages": {"base": -0.0897, "asks": 0.0163, "long": 0.141, "own": -0.0156, "notes": 0.103, "blind": 0.0018},
    "date": {"base": 4.59, "asks": -2.07, "long": -1.42, "own": -2.55, "notes": -0.402, "blind": 0.0761},
    "related": {"base": 0.451, "asks": -0.292, "long": -0.102, "own": 0.343, "notes": -0.011, "blind": 0},
    "related_soft": {"base": -0.314, "asks": 0.279, "long": 0.00886, "own": -0.235, "notes": -0.0633, "blind": 0},
    "related_best": {"base": -0.0112, "asks": -0.0492, "long": 0.0886, "own": 0.106, "notes": 0.0148, "blind": 0},
    "beside": {"base": -0.0711, "asks": 0.0508, "long": -0.061, "own": 0.0337, "notes": -0.0408, "blind": 0.0892},
}
"""Of the features of conversations."""
