"""Background jobs: threads that run beside the calls. They call `services`; `app` alone starts and
stops them.

`loop` is the loop that all of them run; every other module is one job.
"""
