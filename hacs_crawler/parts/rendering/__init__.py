"""Pages that are complete only in a browser: detecting and rendering them."""
