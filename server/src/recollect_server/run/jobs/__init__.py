"""Background jobs: rounds of work beside the calls. They call features; `run.app` alone starts and
stops them.

`loop` has the threads that all of them share; every other module is one job.
"""
