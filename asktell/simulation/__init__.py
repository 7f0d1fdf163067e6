"""What methods would have found on scores that are recorded: `asktell.simulate`."""
