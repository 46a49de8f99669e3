"""The mathematics: pure functions on numpy arrays."""
