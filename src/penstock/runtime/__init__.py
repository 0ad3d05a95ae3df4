"""The runtime: from a plan to cursors, threads and a Run."""
