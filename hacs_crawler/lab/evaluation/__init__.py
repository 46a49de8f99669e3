"""Judging policies and estimators on histories whose truth is known."""
