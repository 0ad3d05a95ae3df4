"""`ps.map_fn`: a function over the rows of arrays, or the elements of a dataset, inside a memory budget."""
