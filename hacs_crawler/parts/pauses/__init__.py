"""Hosts are left alone for as long as they ask."""
