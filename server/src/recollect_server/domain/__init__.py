"""Floor 2: the words of the product as frozen dataclasses and pure functions, on the standard
library and numpy.

Every floor above may import it; it imports nothing of the house. Times are whole milliseconds since
1970 in UTC.
"""
