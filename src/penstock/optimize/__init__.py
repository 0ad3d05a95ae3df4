"""The optimizer: rules that make a plan better and never change what it yields."""
