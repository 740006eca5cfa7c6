"""What can be said of the image without building it: its Dockerfile, what it may copy, and the compose files."""

import re
import tomllib

import pytest
import yaml

from tests.harness.source_tree import ROOT, names

DOCKER = ROOT / "docker"
LINES = {
    name: re.sub(r"\\\n\s*", "", (DOCKER / name).read_text()).splitlines()
    for name in ("Dockerfile", "Dockerfile.spark")
}
PACKAGES = re.findall(
    r'"(\w+)\*"', (ROOT / "pyproject.toml").read_text().partition("\ninclude = [")[2].partition("]")[0]
)


def of(instruction: str, name: str = "Dockerfile") -> list[str]:
    return [line.partition(" ")[2] for line in LINES[name] if line.startswith(f"{instruction} ")]


def test_each_package_of_the_distribution_is_copied() -> None:
    copied = {name for line in of("COPY") for name in line.split()[:-1]}
    assert set(PACKAGES) <= copied
    assert sorted(PACKAGES) == sorted({name.partition("/")[0] for name in names(*PACKAGES)})


@pytest.mark.parametrize("file", LINES)
def test_what_is_copied_is_there_and_let_through(file: str) -> None:
    copied = {name for line in of("COPY", file) if "--from" not in line for name in line.split()[:-1]}
    ignored = (DOCKER / f"{file}.dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in ignored if line[0] == "!"}
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert [name for name in copied if name not in let_through and name.partition("/")[0] not in let_through] == []


def test_what_runs_is_not_root_and_is_stopped_in_order() -> None:
    assert of("USER") == ["10001:10001"], "Kubernetes looks for a number"
    assert of("FROM")[-1] == "scratch"
    assert of("STOPSIGNAL") == ["SIGTERM"]
    assert of("ENTRYPOINT") == ['["tallystick"]'], "not by way of a shell, which would keep the signal"


@pytest.mark.parametrize("file", LINES)
def test_packages_are_pinned(file: str) -> None:
    installs = [
        part for line in of("RUN", file) for part in line.split("&&") if " install " in part and "apt-get" not in part
    ]
    assert installs
    assert [part for part in installs if "--require-hashes" not in part and "--no-deps" not in part] == []


def test_compose_files_take_rights_away() -> None:
    """From what runs an image of ours; a database in a file is to be as it comes, and a bucket has its own test."""
    files = sorted(DOCKER.glob("compose*.yml"))
    assert len(files) >= 4
    for file in files:
        services = yaml.safe_load(file.read_text())["services"]
        ours = {name: service for name, service in services.items() if service["image"].startswith("tallystick")}
        assert set(services) - set(ours) <= {"postgresql", "s3"}, file.name
        for name, service in ours.items():
            taken = (service["read_only"], service["cap_drop"], service["security_opt"])
            assert taken == (True, ["ALL"], ["no-new-privileges:true"]), f"{file.name}: {name}"


def test_what_is_in_the_image_serves_over_a_store_too() -> None:
    """Every extra of a server is in the lock that is installed there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    served = re.findall(r"^SERVED = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
    extras = re.findall(r"--extra (\S+)", served)
    assert {"postgresql", "security", "http", "traces"} <= set(extras)
    wanted = [one for extra in extras for one in project["optional-dependencies"][extra]] + project["dependencies"]
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE))
    assert {re.split("[^A-Za-z0-9-]", one)[0] for one in wanted} - locked == set()
    assert any("requirements/runtime.txt" in line for line in of("RUN"))
