"""For whoever writes an LLM or an adapter to one: a contract to derive tests from, and servers that fail as told."""
