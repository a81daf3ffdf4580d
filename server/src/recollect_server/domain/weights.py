"""The weights of `domain/fusion.py`: of each feature a base, and what each gate adds. `bench.learn --write` writes them."""

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
    "keyword": {"base": 0.798, "asks": 0.0288, "long": 0.0989, "own": 0.0133, "notes": -0.365, "blind": 0.638},
    "best_keyword": {"base": 1.38, "asks": 0.195, "long": 0.111, "own": -0.159, "notes": -0.576, "blind": 1.05},
    "vector": {"base": 0.257, "asks": -0.175, "long": -0.0572, "own": 0.0477, "notes": -0.158, "blind": 0},
    "user_vector": {"base": -0.0427, "asks": 0.023, "long": -0.105, "own": -0.0708, "notes": 0.162, "blind": 0},
    "window": {"base": 0.295, "asks": -0.0233, "long": -0.108, "own": 0.109, "notes": -0.13, "blind": 0},
    "vector_mean": {"base": -0.0241, "asks": 0.107, "long": 0.152, "own": 0.0527, "notes": -0.161, "blind": 0},
    "abbreviation": {"base": 2.29, "asks": 0.0524, "long": -0.128, "own": -0.0965, "notes": 0.685, "blind": 0},
    "mass": {"base": 0.149, "asks": -0.137, "long": 0.0436, "own": -0.0292, "notes": -0.144, "blind": 0.0604},
    "best": {"base": 0.712, "asks": 0.283, "long": -0.0542, "own": -0.241, "notes": -0.234, "blind": -0.153},
    "newer": {"base": 0.0663, "asks": -0.127, "long": 0.017, "own": 0.21, "notes": 0.296, "blind": 0.00863},
    "messages": {"base": -0.142, "asks": 0.158, "long": 0.135, "own": -0.0835, "notes": 0.206, "blind": 0.0418},
    "date": {"base": 5.18, "asks": -1.85, "long": -1.73, "own": -2.66, "notes": -0.411, "blind": 0.195},
    "related": {"base": 0.338, "asks": -0.198, "long": -0.0766, "own": 0.353, "notes": 0.041, "blind": 0},
    "related_soft": {"base": -0.222, "asks": 0.255, "long": 0.0164, "own": -0.275, "notes": -0.112, "blind": 0},
    "related_best": {"base": -0.0572, "asks": -0.0622, "long": 0.0335, "own": 0.132, "notes": 0.0998, "blind": 0},
    "beside": {"base": 0.00592, "asks": -0.0324, "long": -0.118, "own": 0.053, "notes": -0.0676, "blind": 0.0682},
}
"""Of the features of conversations."""
