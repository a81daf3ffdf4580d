"""Floor 3: what is on the disk. `transcript` is the truth, `index` is derived from it.

`services` may import it. It raises its own words and those of `domain.errors`, and knows neither gRPC nor settings.
"""
