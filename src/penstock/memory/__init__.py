"""Memory: who may hold how many bytes, and the buffers themselves."""
