"""How pages are asked for is kept, and known pages are visited again like that (HACS_REVISIT)."""
