"""Floor 3, beside storage: models. `weights` says where they lie and whether they are whole, `embedder` turns texts into vectors.

onnxruntime and tokenizers are imported when an embedder is made, not before: a start does not wait for them.
"""
