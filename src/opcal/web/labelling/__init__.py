"""The labelling page: one item at a time for the expert, what it is worth beside it, the whole field for the owner."""
