"""The report: what HACS knows, plans and has found, as a self-contained HTML page."""
