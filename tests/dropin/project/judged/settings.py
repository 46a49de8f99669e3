"""The project of the judged spiders; with the add-on, its line is appended to this file."""

ADDONS: dict[str, int] = {}
EXTENSIONS = {"judged.probe.Probe": 0}
SPIDER_MODULES = ["judged.spiders"]
TELNETCONSOLE_ENABLED = False
USER_AGENT = "judged"
