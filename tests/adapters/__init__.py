"""Adapters with the real frameworks."""
