"""Vectors: `store` keeps them durably by what was embedded (`vectors.db`, sqlite-vec), `matrix` is the copy that searches read.

Neither knows where a vector comes from. What is kept is a direction in a byte a dimension, so a cosine is a dot product divided by
both lengths. Errors of SQLite leave this package as `VectorsUnavailable`.
"""
