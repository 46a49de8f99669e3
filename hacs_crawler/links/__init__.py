"""What a URL names, what a link is, and which site a page is of: no I/O."""
