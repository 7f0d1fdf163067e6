"""The command `asktell`."""
