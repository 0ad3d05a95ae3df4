"""The plan: what a pipeline is, before anything runs."""
