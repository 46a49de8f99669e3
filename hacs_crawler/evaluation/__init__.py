"""Judging policies and estimators on histories of which the truth is known."""
