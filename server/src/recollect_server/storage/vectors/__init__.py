"""Vectors: `store` keeps them durably by what was embedded (`vectors.db`, sqlite-vec), `matrix` is
the copy that searches read.

`scan` is one question to a matrix. `file` opens the database, `checking` looks at it from outside,
`rows` are what a matrix is made of. None of them knows how a vector is worked out. What is kept is
a direction in a byte a dimension, so a cosine is a dot product divided by both lengths. `services`
uses it; errors of SQLite leave this package as `VectorsUnavailable`.
"""
