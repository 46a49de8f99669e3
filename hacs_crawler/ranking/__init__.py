"""Who is visited first: candidates, policies, selection, arms, plans and their calibration."""
