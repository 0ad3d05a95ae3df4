"""Observation: what a pipeline will do and what it did. It reads, it never steers."""
