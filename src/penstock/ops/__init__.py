"""Operators: one file each. They do not know each other; `dataset.py` gives them to users."""
