"""A Redis Cluster of three nodes whose nodes die, are replaced, and give slots to each other."""

from pathlib import Path

import numpy as np
import pytest
from redis.crc import key_slot

from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.database import State
from integration_support import Project
from reliability_support import (
    PROMPT,
    Moments,
    assert_nothing_is_lost,
    fill,
    opened,
    record,
    visits_of,
)
from servers import RedisCluster, Site

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
URLS = [f"http://example.edu/~{number}/" for number in range(40)]
LATER = 1_700_086_400


@pytest.mark.cluster
def test_visits_wait_while_a_node_is_dead_and_nothing_is_lost(
    site: Site, project: Project, tmp_path: Path
) -> None:
    urls = fill(site)
    with RedisCluster(tmp_path, *DURABLE) as cluster:
        project.state = cluster.url
        record(cluster.url, visits_of(urls))
        site.asked = Moments({15: cluster.nodes[1].kill, 40: cluster.nodes[1].start})
        crawl = project.crawl(urls, "level=homepage", **PROMPT)
        cluster.wait_until_ok()
        assert_nothing_is_lost(crawl, cluster.url, urls, visits=2)
    assert "waiting in memory: " in crawl.log
    assert "The state is back" in crawl.log


def test_a_replica_takes_over_for_a_dead_node_and_the_crawl_goes_on(
    site: Site, project: Project, tmp_path: Path
) -> None:
    urls = fill(site)
    options = (*DURABLE, "--cluster-node-timeout", "2000")
    with RedisCluster(tmp_path, *options, replicas=1) as cluster:
        project.state = cluster.url
        site.asked = Moments({15: cluster.nodes[0].kill})
        crawl = project.crawl(urls, "level=homepage", **PROMPT)
        # the node that HACS_STATE names is gone, others answer for it
        others = f"redis+cluster://127.0.0.1:{cluster.ports[1]}"
        assert_nothing_is_lost(crawl, others, urls)
        with cluster.client(3) as replica:
            assert replica.info("replication")["role"] == "master"
    assert "The state is back" in crawl.log


@pytest.mark.cluster
def test_a_write_to_a_cluster_waits_for_the_replicas_of_each_node(tmp_path: Path) -> None:
    with (
        RedisCluster(tmp_path, replicas=3) as cluster,
        opened(f"{cluster.url}?replicas=1") as state,
    ):
        assert len(state.record(visits_of(URLS))) == len(URLS)
        cluster.nodes[4].kill()
        with pytest.raises(StateUnavailableError, match="has 0 replicas that keep up, of the 1"):
            state.record(visits_of(URLS, LATER))


@pytest.mark.cluster
def test_every_operation_follows_a_slot_to_its_new_node(tmp_path: Path) -> None:
    with RedisCluster(tmp_path) as cluster:
        record(cluster.url, visits_of(URLS))
        with opened(cluster.url) as before:
            before.load([page_id_of(URLS[0])])
            slot = key_slot(b"%04x" % (page_id_of(URLS[0]) % 65_536))
            source = cluster.node_of(f"{{{page_id_of(URLS[0]) % 65_536:04x}}}")
            cluster.migrate_slot(slot, source, (source + 1) % 3)
            see_every_operation(before, LATER)
        with opened(cluster.url) as after:
            see_every_operation(after, LATER + 1)


def see_every_operation(state: State, at: int) -> None:
    ids = np.array([page_id_of(one) for one in URLS], np.int64)
    assert len(state.record(visits_of(URLS, at))) == len(URLS)
    pages = state.load(ids.tolist()).values()
    assert len(pages) == len(URLS)
    assert all(at in page.visits for page in pages)
    assert (state.rows(ids)["last_visit"] >= at).all()
    assert sum(len(found) for found, _ in state.store.all_rows()) == len(URLS)
    assert (state.store.count(), len(state.outcomes())) == (len(URLS), 0)
    state.store.trim_outcomes(5)
    state.store.write_meta({"x": 1})
    assert state.store.read_meta("x") == 1
    assert state.store.size_bytes() > 0
