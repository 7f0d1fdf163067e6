"""Internal helpers: files, forks, extras, the terminal."""
