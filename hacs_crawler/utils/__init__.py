"""Helpers for any folder: files, progress, arrays, times, settings."""
