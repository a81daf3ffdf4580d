"""The vocabulary of the kernel: frozen dataclasses and pure functions, on the standard library and
numpy.

Every package may import it; it imports nothing else of the server. Times are whole milliseconds
since 1970 in UTC.
"""
