"""The embedding model: `weights` finds its files and checks them, `embedder` turns texts into
vectors, and `workers` are the threads that do so. Slow libraries are imported when a model is made,
so that a start does not wait for them.
"""
