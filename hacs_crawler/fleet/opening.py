"""From settings to a worker's board."""

from __future__ import annotations

from hacs_crawler.config import Config
from hacs_crawler.exceptions import ConfigError
from hacs_crawler.fleet.board import Board


def open_board(config: Config, fleet: str) -> Board:
    """Return the board of a fleet on the server of HACS_STATE; raises ConfigError without redis-py."""
    try:
        from hacs_crawler.fleet.redis_board import RedisBoard  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = f"HACS_FLEET needs Redis: pip install 'hacs-crawler[redis]' ({error})"
        raise ConfigError(msg) from error
    return RedisBoard(config.state, config.namespace, fleet, lease_seconds=config.lease_seconds)
