"""The contract as Python: generated from `proto/recollect/v1` by `make proto`, never edited by hand."""
