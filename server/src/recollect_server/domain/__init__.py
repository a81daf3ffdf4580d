"""The vocabulary of the product: frozen dataclasses and pure functions, on the standard library and
numpy.

Every layer may import it; it imports nothing else of the package. Times are whole milliseconds
since 1970 in UTC.
"""
