"""Statements that hold with a stated probability at every look: confidence sequences, and claims over them."""
