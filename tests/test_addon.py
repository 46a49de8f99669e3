"""What one line in ADDONS sets."""

from __future__ import annotations

from scrapy.settings import Settings

from hacs_crawler.addon import HacsAddon

STATE = "redis://localhost:6379/0"


def settings_of(**given: object) -> Settings:
    settings = Settings({"HACS_STATE": STATE, **given})
    HacsAddon().update_settings(settings)
    return settings


def test_a_fleet_gets_a_queue_and_a_filter_of_its_own() -> None:
    fleets = [
        settings_of(HACS_FLEET="a"),
        settings_of(HACS_FLEET="b"),
        settings_of(HACS_FLEET="a", HACS_NAMESPACE="other"),
        settings_of(HACS_FLEET="a%b:c"),
    ]
    for name in ("SCHEDULER_QUEUE_KEY", "SCHEDULER_DUPEFILTER_KEY"):
        keys = [fleet[name] % {"spider": "scholar"} for fleet in fleets]
        assert len(set(keys)) == len(fleets)
        assert keys[0].startswith("hacs:fleet.a:scholar:")


def test_a_fleets_queue_is_on_the_server_of_the_state() -> None:
    assert settings_of(HACS_FLEET="a")["REDIS_URL"] == STATE
    cluster = settings_of(HACS_FLEET="a", HACS_STATE="redis+cluster://localhost:7000")
    assert cluster["REDIS_URL"] == "redis://localhost:7000"
    assert cluster["REDIS_PARAMS"] == {"redis_cls": "redis.cluster.RedisCluster"}


def test_what_the_user_set_stays() -> None:
    settings = settings_of(
        HACS_FLEET="a", REDIS_URL="redis://elsewhere", SCHEDULER_QUEUE_KEY="mine"
    )
    assert settings["REDIS_URL"] == "redis://elsewhere"
    assert settings["SCHEDULER_QUEUE_KEY"] == "mine"


def test_without_a_fleet_nothing_of_scrapy_redis_is_set() -> None:
    assert "REDIS_URL" not in settings_of()
    assert "SCHEDULER_QUEUE_KEY" not in settings_of()
