"""Adapters: datasets as the tensors of a framework, and a framework's datasets as ours.

Leaves: nothing imports them but `Dataset.to_…` and `ps.from_…`, when they are called, and each imports its framework
when it is called itself.
"""
