"""The demonstration: a small scholarly web on a fast clock."""
