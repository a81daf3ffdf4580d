"""Layer 3: what is on the disk. `logs` is the truth, `index` and `vectors` are derived from it.

All floors above may import it: `services` do their work with it, `transport` and `jobs` only take
the types from it that they ask `services` with, and `cli` reads and writes files of lines. It
raises its own words and those of `domain.errors`, and knows neither gRPC nor settings. `failpoints`
names the places in it, and in `services`, at which a test may kill the process.
"""
