"""Spiders that come with the package."""
