"""The papers' evaluations of policies and estimators, on known histories."""
