"""Who is visited first: candidates, policies, selection, arms, plans; and how right p was."""
