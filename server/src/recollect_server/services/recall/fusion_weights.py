"""The weights of `services/recall/fusion.py`: of each feature a base, and what each gate adds.

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
    "keyword": {"base": 1.22, "asks": -0.716, "long": -0.227, "own": -0.0466, "notes": -0.325, "blind": 0.499},
    "best_keyword": {"base": 0.455, "asks": 0.618, "long": 0.704, "own": -0.359, "notes": -0.291, "blind": 0.623},
    "vector": {"base": 0.115, "asks": -0.187, "long": 0.000739, "own": -0.0894, "notes": -0.00973, "blind": 0},
    "user_vector": {"base": -0.0473, "asks": 0.0242, "long": -0.0658, "own": 0.0531, "notes": 0.022, "blind": 0},
    "window": {"base": 0.286, "asks": -0.0724, "long": -0.131, "own": 0.0914, "notes": -0.0694, "blind": 0},
    "vector_mean": {"base": 0.0254, "asks": 0.0139, "long": 0.149, "own": 0.0415, "notes": -0.194, "blind": 0},
    "abbreviation": {"base": 2.15, "asks": 0.154, "long": -0.0965, "own": 0.138, "notes": 0.569, "blind": 0},
    "mass": {"base": 0.184, "asks": 0.018, "long": -0.0205, "own": 0.000704, "notes": -0.0983, "blind": 0.0483},
    "best": {"base": 0.66, "asks": 0.361, "long": -0.12, "own": -0.22, "notes": -0.154, "blind": -0.0639},
    "newer": {"base": 0.388, "asks": -0.314, "long": -0.0487, "own": 0.101, "notes": 0.179, "blind": 0.0339},
    "messages": {"base": -0.0813, "asks": -0.0312, "long": 0.147, "own": -0.00142, "notes": 0.0734, "blind": -0.00745},
    "date": {"base": 4.38, "asks": -2.14, "long": -1.33, "own": -2.49, "notes": -0.392, "blind": 0.0449},
    "related": {"base": 0.494, "asks": -0.326, "long": -0.105, "own": 0.333, "notes": -0.0333, "blind": 0},
    "related_soft": {"base": -0.339, "asks": 0.287, "long": 0.00785, "own": -0.229, "notes": -0.0496, "blind": 0},
    "related_best": {"base": -0.00188, "asks": -0.0448, "long": 0.0947, "own": 0.114, "notes": -0.00767, "blind": 0},
    "beside": {"base": -0.0993, "asks": 0.0749, "long": -0.0437, "own": 0.0315, "notes": -0.0314, "blind": 0.0915},
}
"""Of the features of conversations."""
