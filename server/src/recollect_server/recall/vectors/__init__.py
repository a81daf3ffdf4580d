"""Vectors: `store` keeps them durably, keyed by the hash of the embedded text (`vectors.db`,
sqlite-vec); `matrix` is the copy in memory that searches read.

`texts` are the texts of the store, each with its vectors. `scan` compares one question with a
matrix. `file` opens the database, `checking` examines it from outside, `rows` are the parts of a
matrix. None of them knows how vectors are computed. A vector is stored as a direction with one byte
per dimension, so a cosine is a dot product divided by both lengths. Recall alone uses it; errors of
SQLite leave this package as `VectorsUnavailable`.
"""
