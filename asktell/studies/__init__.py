"""Studies: selections that are stored, so that they survive crashes and can be shared by workers."""
