"""The report: what HACS knows, plans and has found, as one HTML page that loads nothing."""
