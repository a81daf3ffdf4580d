"""The weights of `domain/fusion.py`: of each feature a base, and what each gate adds. `bench.learn --write` writes them."""

MESSAGE_WEIGHTS: dict[str, dict[str, float]] = {
    "keyword": {"base": 0.123, "asks": 0.506, "long": -0.219, "own": 0.37, "blind": 0.0585},
    "keyword_z": {"base": -0.0876, "asks": -0.127, "long": -0.25, "own": -0.222, "blind": -0.0177},
    "keyword_window": {"base": 2.85, "asks": 1.43, "long": 2.06, "own": -1, "blind": 1.37},
    "keyword_before": {"base": 0.193, "asks": -0.455, "long": -0.404, "own": -0.62, "blind": 0.332},
    "keyword_after": {"base": -1.16, "asks": -0.162, "long": -0.707, "own": 0.456, "blind": -0.193},
    "vector": {"base": 0.158, "asks": -0.0412, "long": -0.187, "own": 0.0374, "blind": 0},
    "vector_before": {"base": -0.0238, "asks": 0.183, "long": 0.0311, "own": 0.0879, "blind": 0},
    "vector_after": {"base": -0.115, "asks": 0.0932, "long": -0.0351, "own": -0.0471, "blind": 0},
    "window": {"base": 0.412, "asks": 0.133, "long": -0.00158, "own": 0.00433, "blind": 0},
    "conversation_keyword": {"base": 1.94, "asks": 0.133, "long": 0.572, "own": -0.745, "blind": 0.683},
    "conversation_vector": {"base": 0.444, "asks": -0.163, "long": -0.175, "own": -0.0577, "blind": 0},
    "conversation_window": {"base": 0.135, "asks": -0.257, "long": -0.0107, "own": 0.0865, "blind": 0},
    "named": {"base": 0.539, "asks": -0.284, "long": -0.246, "own": 0.253, "blind": 0},
    "other": {"base": -0.901, "asks": 0.474, "long": 0.411, "own": -0.422, "blind": 0},
    "length": {"base": 0.52, "asks": 0.31, "long": -0.128, "own": -0.164, "blind": -0.156},
    "short": {"base": 1.16, "asks": -0.368, "long": -0.383, "own": -0.651, "blind": -0.22},
    "answers": {"base": 0.0736, "asks": 0.582, "long": 0.308, "own": -0.528, "blind": 0},
    "agent": {"base": 0.0353, "asks": -0.0437, "long": -0.299, "own": -0.111, "blind": 0},
    "first": {"base": 1.1, "asks": 0.217, "long": 0.968, "own": 0.0258, "blind": -0.094},
    "place": {"base": -0.148, "asks": 0.219, "long": 0.0447, "own": -0.0213, "blind": -0.0328},
    "newer": {"base": -0.0572, "asks": -0.146, "long": 0.152, "own": 0.335, "blind": 0.0102},
    "date": {"base": 6.26, "asks": 0.677, "long": -2.68, "own": -2.1, "blind": 0.0795},
}
"""Of the features of messages."""

CONVERSATION_WEIGHTS: dict[str, dict[str, float]] = {
    "keyword": {"base": 0.789, "asks": 0.000864, "long": 0.168, "own": -0.0617, "notes": -0.366, "blind": 0.6},
    "best_keyword": {"base": 1.43, "asks": 0.128, "long": 0.0997, "own": -0.182, "notes": -0.512, "blind": 1.07},
    "vector": {"base": 0.241, "asks": -0.163, "long": -0.0364, "own": 0.0196, "notes": -0.147, "blind": 0},
    "user_vector": {"base": -0.0499, "asks": 0.0303, "long": -0.103, "own": -0.0755, "notes": 0.17, "blind": 0},
    "window": {"base": 0.329, "asks": -0.0593, "long": -0.117, "own": 0.0821, "notes": -0.124, "blind": 0},
    "vector_mean": {"base": -0.0334, "asks": 0.101, "long": 0.149, "own": 0.0873, "notes": -0.182, "blind": 0},
    "abbreviation": {"base": 2.4, "asks": -0.00686, "long": -0.334, "own": -0.0212, "notes": 0.698, "blind": 0},
    "mass": {"base": 0.152, "asks": -0.136, "long": 0.0357, "own": -0.0066, "notes": -0.15, "blind": 0.0638},
    "best": {"base": 0.687, "asks": 0.314, "long": -0.0655, "own": -0.222, "notes": -0.225, "blind": -0.158},
    "newer": {"base": 0.0815, "asks": -0.149, "long": -0.0137, "own": 0.204, "notes": 0.285, "blind": 0.0154},
    "messages": {"base": -0.162, "asks": 0.157, "long": 0.136, "own": -0.0866, "notes": 0.197, "blind": 0.0593},
    "date": {"base": 5.15, "asks": -2.04, "long": -1.67, "own": -2.66, "notes": -0.485, "blind": 0.284},
    "related_3": {"base": 0.272, "asks": -0.0858, "long": -0.103, "own": 0.223, "notes": 0.0337, "blind": 0},
    "related_5": {"base": -0.192, "asks": 0.0755, "long": 0.0901, "own": -0.0385, "notes": 0.0381, "blind": 0},
}
"""Of the features of conversations."""
