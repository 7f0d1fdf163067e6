"""What the docs show: the demo, and the generated parts of pages."""
