"""Experiments: two crawls of the same pages, each with a state of its own, compared."""
