"""The made-up web of the demonstration and the tutorial."""
