"""Internal helpers: chats, extras, files, forks, the cache of JAX, the terminal, and threads."""
