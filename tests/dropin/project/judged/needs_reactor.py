"""A component whose module imports Twisted's reactor, and so installs one if none is."""

from twisted.internet import reactor


class NeedsReactor:
    reactor = reactor
