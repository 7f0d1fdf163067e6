"""For authors of LLM adapters: a contract to derive tests from, and local servers with scripted faults."""
