"""For whoever writes an evaluator or an adapter: fakes with scripted faults."""
