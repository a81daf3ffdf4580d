"""Floor 5: the threads that nobody calls. They call `services`; of the server `app` alone imports
them, starts and stops them.

`loop` is how they run; every other module is one of them.
"""
