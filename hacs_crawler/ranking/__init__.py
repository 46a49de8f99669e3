"""The order of visits: candidates, policies, selection, plans; and the calibration of p."""
