"""Administration: what callers with the scope `admin` list and change. It is about the server as a
whole, and about spaces whether they are open or not.
"""
