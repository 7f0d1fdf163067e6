"""The examples of a selection: their ids, their segments, and what earlier studies know about them."""
