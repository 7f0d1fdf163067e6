"""Internal helpers for chats, extras, files, forks, the cache of JAX, the terminal, and threads."""
