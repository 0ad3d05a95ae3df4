"""Backends: where a stage's work is done. They differ in nothing else."""
