"""The studies: a folder each, with the program of a node and the report of a desk."""
