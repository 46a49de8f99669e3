"""How pages are requested is written down, and known pages are visited again so (HACS_REVISIT)."""
