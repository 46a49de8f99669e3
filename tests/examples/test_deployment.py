"""What examples/ has for containers and systemd fits together, as far as can be seen without them."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hacs_crawler.parts.metrics import metrics_of
from integration_support import ROOT

FOLDER = ROOT / "examples" / "compose"
SYSTEMD = ROOT / "examples" / "systemd"
KUBERNETES = ROOT / "examples" / "kubernetes"
METRIC = re.compile(r"\b(?:hacs|scrapy)_\w+")
COPY = re.compile(r"^COPY (.+)$", re.MULTILINE)


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


COMPOSE = read("compose.yaml")
SERVICES = COMPOSE["services"]
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
DASHBOARD = json.loads((FOLDER / "grafana" / "hacs.json").read_text())
ALERTS = [rule for group in read("alerts.yml")["groups"] for rule in group["rules"]]


def copied() -> list[str]:
    return [part for line in COPY.findall(DOCKERFILE) for part in line.split()[:-1]]


@cache
def served_metrics() -> set[str]:
    """The metrics of every stat that is documented, and of Scrapy's that the dashboard shows."""
    table = (ROOT / "docs" / "reference.md").read_text().split("## Meta keys")[0]
    stats = re.findall(r"^\| `(hacs/[^`]+)` \|", table, re.MULTILINE)
    named = {re.sub(r"<\w+>", "x", stat): 1 for stat in [*stats, "hacs/dropped/x"]}
    scrapys = {"downloader/request_bytes": 1, "downloader/response_bytes": 1}
    waiting = {"hacs/waiting_visits": 1}
    return {family.name for family in metrics_of(named | scrapys | waiting, "news")}


def test_there_are_a_crawl_a_redis_that_keeps_what_it_gets_and_two_that_watch() -> None:
    assert sorted(SERVICES) == ["crawl", "grafana", "prometheus", "redis"]
    redis = shlex.split(SERVICES["redis"]["command"])
    assert redis[redis.index("--appendonly") + 1] == "yes"
    assert redis[redis.index("--maxmemory-policy") + 1] == "noeviction"


def test_every_image_has_a_version_and_no_port_is_open_to_the_network() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    assert all(re.search(r":v?\d", image) for image in images)
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_is_mounted_exists() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", ())]
    sources = [mount.split(":")[0] for mount in mounts]
    files = [source for source in sources if source.startswith(".")]
    assert files
    assert all((FOLDER / file).is_file() for file in files)
    assert sorted(set(sources) - set(files)) == sorted(COMPOSE["volumes"])


def test_the_image_is_made_of_files_that_exist_and_of_all_that_the_package_needs() -> None:
    build = SERVICES["crawl"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]) == FOLDER / "Dockerfile"
    assert all((ROOT / source).exists() for source in copied())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {path.split("/")[0] for path in project["tool"]["setuptools"]["package-dir"].values()}
    licences = {name.split("/")[0] for name in project["project"]["license-files"]}
    assert {"README.md", "pyproject.toml", "setup.py", *folders, *licences} <= set(copied())


def test_the_image_installs_extras_that_exist_and_those_that_the_settings_need() -> None:
    (extras,) = re.findall(r'"/source\[([\w,]+)\]"', DOCKERFILE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert {"redis", "metrics"} <= set(extras.split(","))


def test_the_image_crawls_seeds_that_are_in_it() -> None:
    (command,) = re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)
    (seeds,) = [part for part in json.loads(command) if part.startswith("seeds=")]
    assert seeds.removeprefix("seeds=") in {Path(source).name for source in copied()}


def test_prometheus_asks_the_crawl_where_it_serves_its_stats() -> None:
    (job,) = read("prometheus.yml")["scrape_configs"]
    (discovery,) = job["dns_sd_configs"]
    assert discovery["names"] == ["crawl"]
    assert SERVICES["crawl"]["environment"]["HACS_METRICS"].endswith(f":{discovery['port']}")
    assert read("prometheus.yml")["rule_files"] == ["alerts.yml"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = read("grafana/datasources.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    asked = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]}
    assert asked == {source["uid"]}
    (provider,) = read("grafana/dashboards.yml")["providers"]
    mounts = SERVICES["grafana"]["volumes"]
    assert f"./grafana/hacs.json:{provider['options']['path']}/hacs.json:ro" in mounts


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_a_panel_shows_metrics_that_crawls_serve(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        asked = set(METRIC.findall(target["expr"]))
        assert asked <= served_metrics()
        assert asked or target["expr"] == 'sum(up{job="hacs"})'


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_crawls_serve_and_says_what_to_do(
    rule: dict[str, Any],
) -> None:
    asked = set(METRIC.findall(rule["expr"]))
    assert asked or "up{" in rule["expr"]
    assert asked <= served_metrics()
    assert rule["annotations"]["description"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is Prometheus's")
def test_alerts_fire_when_a_crawl_never_started_or_died(tmp_path: Path) -> None:
    """Without their texts, which promtool would want to see repeated."""
    rules = [read("alerts.yml"), yaml.safe_load((SYSTEMD / "alerts.yml").read_text())]
    for number, one in enumerate(rules):
        for rule in one["groups"][0]["rules"]:
            del rule["annotations"]
        (tmp_path / f"{number}.yml").write_text(yaml.safe_dump(one))
    cases = yaml.safe_load((Path(__file__).parent / "alerts_test.yml").read_text())
    (tmp_path / "test.yml").write_text(yaml.safe_dump(cases))
    command = ["promtool", "test", "rules", "test.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_alerts_for_a_crawl_that_died_no_visits_a_wrong_p_and_an_absent_state() -> None:
    names = ["HacsDown", "HacsNoVisits", "HacsPredictionsOff", "HacsStateAway"]
    assert [rule["alert"] for rule in ALERTS] == names


def test_the_timer_starts_the_service_and_the_service_crawls() -> None:
    timer, service = (unit(name) for name in ("hacs-crawl.timer", "hacs-crawl.service"))
    assert timer["Timer"]["OnCalendar"]
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert shlex.split(service["Service"]["ExecStart"])[1:3] == ["crawl", "news"]
    assert service["Service"]["ReadWritePaths"] == service["Service"]["WorkingDirectory"]


def unit(name: str) -> ConfigParser:
    parsed = ConfigParser(interpolation=None)
    parsed.optionxform = str
    parsed.read(SYSTEMD / name)
    return parsed


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize(("unit_name", "started"), [("hacs-crawl", ""), ("hacs-shard@", "3")])
def test_systemd_takes_the_units(unit_name: str, started: str, tmp_path: Path) -> None:
    """It wants to see the program, which is not installed here."""
    for kind in ("timer", "service"):
        text = (SYSTEMD / f"{unit_name}.{kind}").read_text()
        program = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
        (tmp_path / f"{unit_name}.{kind}").write_text(program)
    files = [str(tmp_path / f"{unit_name}{started}.{kind}") for kind in ("timer", "service")]
    done = subprocess.run(
        ["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shard_of_systemd_has_the_number_of_its_unit() -> None:
    command = shlex.split(unit("hacs-shard@.service")["Service"]["ExecStart"])
    assert "HACS_SHARD=%i/16" in command


def job_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / name).read_text())
    return found["spec"]["jobTemplate"]["spec"] if name == "cronjob.yaml" else found["spec"]


def test_a_job_of_kubernetes_has_as_many_pods_as_there_are_shards() -> None:
    job = job_of("job.yaml")
    assert job == job_of("cronjob.yaml")
    assert job["completionMode"] == "Indexed"
    (crawl,) = job["template"]["spec"]["containers"]
    # Kubernetes puts the index in place of this variable
    shard = f"$(JOB_COMPLETION_INDEX)/{job['completions']}"
    assert f"HACS_SHARD={shard}" in crawl["command"]
    assert job["parallelism"] < job["completions"]


@pytest.mark.parametrize("name", ["job.yaml", "cronjob.yaml"])
def test_kubernetes_takes_the_jobs(name: str) -> None:
    """`tox -e cluster` has the schemas; they take 100 MB."""
    schemas = pytest.importorskip("kubernetes_validate")
    found = yaml.safe_load((KUBERNETES / name).read_text())
    schemas.validate(found, "1.31", strict=True)
    del found["spec"]
    with pytest.raises(schemas.ValidationError):
        schemas.validate({**found, "spec": {"completion": 3}}, "1.31", strict=True)
