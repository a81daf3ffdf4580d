"""Storage on disk: `logs` is the truth, `index` and `vectors` are derived from it.

All layers above may import it: `services` work with it, `transport` and `jobs` only take types from
it that `services` accept, and `cli` reads and writes files of lines. It raises its own errors and
those of `domain.errors`, and knows neither gRPC nor settings. `failpoints` names the places, here
and in `services`, at which a test may kill the process.
"""
