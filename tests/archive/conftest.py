"""A real web archive for the tests of what archives say."""

from pywb_archive import pywb  # noqa: F401 - a fixture
