"""Conformance: what penstock delivers, held against the real tf.data and against plain Python."""
