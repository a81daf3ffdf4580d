"""The weights of `recall/fusion.py`: of each feature a base, and what each gate adds.

`bench.learn --write` writes them. Learned from openly licensed text alone: questions of RealMem
(2026, Apache-2.0), FriendsQA (Yang and Choi 2019, Apache-2.0) and QMSum (Zhong et al. 2021, MIT),
and the kinds that `bench.kinds` makes from them and from docstrings. `docs/decisions/ranking.md`
says what they are worth on each kind, and on kinds left out. What the gate `unsaid` adds is chosen,
not learned: `bench.learn.with_unsaid`.
"""

MESSAGE_WEIGHTS: dict[str, dict[str, float]] = {
    "keyword": {"base": 0.611, "long": -1.86, "own": 0.824, "blind": 0.919, "unsaid": -0.305},
    "keyword_z": {"base": 0, "long": -0.183, "own": -0.0624, "blind": -0.16},
    "keyword_window": {"base": 2, "long": 1.41, "own": 0.262, "blind": 1.28, "unsaid": -1},
    "keyword_before": {"base": 0.169, "long": -0.457, "own": -0.948, "blind": 0.348},
    "keyword_after": {"base": -0.392, "long": -1.04, "own": 0.103, "blind": -0.109},
    "vector": {"base": 0.29, "long": -0.302, "own": 0.359, "blind": 0, "unsaid": 2},
    "vector_before": {"base": 0.128, "long": -0.0138, "own": 0.0482, "blind": 0},
    "conversation_keyword": {
        "base": 3,
        "long": -0.00679,
        "own": -1.25,
        "blind": 0.806,
        "unsaid": -1.5,
    },
    "conversation_vector": {"base": 0.673, "long": -0.127, "own": 0.02, "blind": 0},
    "named": {"base": 0.379, "long": -0.0381, "own": 0.454, "blind": 0},
    "other": {"base": -0.338, "long": 0.034, "own": -0.406, "blind": 0},
    "length": {"base": 0.601, "long": -0.495, "own": -0.0355, "blind": -0.0766},
    "short": {"base": -0.249, "long": 0.49, "own": -0.14, "blind": -0.335},
    "agent": {"base": 0.513, "long": 0.338, "own": -0.768, "blind": 0},
    "first": {"base": 1.02, "long": -0.214, "own": 1.33, "blind": -0.0474},
    "first_to_agent": {"base": 0.129, "long": 0.535, "own": -0.671, "blind": 0},
    "newer": {"base": -0.0614, "long": 0.185, "own": 0.21, "blind": -0.0135},
    "date": {"base": 7, "long": -5.19, "own": 1.64, "blind": 0.996},
}

CONVERSATION_WEIGHTS: dict[str, dict[str, float]] = {
    "keyword": {"base": 1.1, "long": 0.558, "own": -0.643, "notes": -0.674, "blind": 0.194},
    "best_keyword": {"base": 2.05, "long": -0.395, "own": -0.999, "notes": -0.833, "blind": 0.857},
    "vector": {"base": 0.105, "long": 0.101, "own": -0.124, "notes": 0.187, "blind": 0},
    "abbreviation": {"base": 0.821, "long": 0.636, "own": -0.245, "notes": 0.217, "blind": 0},
    "mass": {"base": 0.351, "long": 0.0321, "own": 0.16, "notes": 0.142, "blind": -0.0186},
    "best": {"base": 0.551, "long": -0.0804, "own": -0.0383, "notes": 0.0261, "blind": -0.0468},
    "newer": {"base": -0.0159, "long": 0.0682, "own": 0.0528, "notes": -0.0183, "blind": 0.0218},
    "messages": {"base": -0.716, "long": 0.13, "own": 0.4, "notes": 0.001, "blind": 0.0573},
    "related": {"base": 0, "long": -0.0185, "own": 0.151, "notes": 0.112, "blind": 0},
    "related_best": {"base": 0.0935, "long": 0.0316, "own": -0.0448, "notes": 0.0311, "blind": 0},
    "beside": {"base": 0.118, "long": -0.114, "own": -0.104, "notes": -0.0086, "blind": -0.0214},
}
