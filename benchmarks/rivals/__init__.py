"""Other people's methods on the same cells, one file each."""
