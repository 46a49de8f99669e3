"""The demonstration: a small scholarly web on a fast clock, crawled with an experiment on."""
