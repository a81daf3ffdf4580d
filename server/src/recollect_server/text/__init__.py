"""Texts, as several features look at them: languages, words and their stems, addresses, snippets.

`words` and `analysis` are the form in which the index takes texts, which the kernel knows as a
port; `ranking` has the arrays that results of searches are.
"""
