"""Where HACS_POLICY found the policies before; they live in `hacs_crawler.ranking.policies`."""

from hacs_crawler.ranking.policies import *  # noqa: F403
