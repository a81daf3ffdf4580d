"""Background jobs: rounds of work beside the calls. They call `services`; `app` alone starts and
stops them.

`loop` has the threads that all of them share; every other module is one job.
"""
