"""Which pages are visited first: candidates, policies, selection, plans; and how right p was."""
