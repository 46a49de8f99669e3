"""Experiments: compare crawls of the same pages with separate states."""
