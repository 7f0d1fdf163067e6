"""Studies: a selection that outlives its processes."""
