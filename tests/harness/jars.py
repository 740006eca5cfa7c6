"""The jars of `ivy.xml`: Apache Kafka (oracle, rival, DumpLogSegments), an older client, Connect, Flink, Spark, Delta.

`python -m tests.harness.jars kafka spark` brings them into `.jars/<set>`. A set is complete when every file of
`jars.sha256` is there with its checksum; then nothing is downloaded. Resolving is done by Maven where it is
installed (seconds), and else, or where that fails, from the same list by the Ivy that ships inside PySpark's wheel (a
minute). A set is retrieved into a folder of its own and renamed, so that two runs may race. After a pin was raised,
`--record` retrieves anew and writes the checksums of what arrived. `--java` only reports, by its status, whether there
is a Java that Spark takes. `TALLYSTICK_KAFKA_JARS` names a folder that has Kafka's jars already.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IVY_FILE = ROOT / "ivy.xml"
CHECKSUMS = Path(__file__).with_name("jars.sha256")
JARS = ROOT / ".jars"
SETS = ("kafka", "kafka-3.9", "connect", "flink", "testcontainers", "spark", "delta")
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a Java that does little: `ConfigCommand --help` takes 1.3 s of processor with these and 2.3 s without."""
OLDEST_JAVA = 17
"""What PySpark 4 needs."""
_PATIENCE_S = 600


class JarsMissing(Exception):
    """The jars cannot be had here, in a sentence that says why."""


def expected(jar_set: str) -> dict[str, str]:
    """File name → SHA-256 of one set."""
    lines = [line.split() for line in CHECKSUMS.read_text().splitlines() if line and not line.startswith("#")]
    return {path.split("/")[1]: digest for digest, path in lines if path.startswith(f"{jar_set}/")}


def is_complete(jar_set: str) -> bool:
    folder = JARS / jar_set
    wanted = expected(jar_set)
    return bool(wanted) and all((folder / name).is_file() for name in wanted) and not _wrong(folder, wanted)


def class_path(jar_set: str) -> str:
    """What to give to `java -cp`. JarsMissing where the set is not there."""
    if java() is None:
        raise JarsMissing("no Java found on PATH or in JAVA_HOME")
    if jar_set == "kafka" and (elsewhere := os.environ.get("TALLYSTICK_KAFKA_JARS")):
        return f"{elsewhere}/*"
    if not is_complete(jar_set):
        raise JarsMissing(f"no jars in .jars/{jar_set}: run `make jars`")
    return str(JARS / jar_set / "*")


def java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def java_of_spark() -> str:
    """A Java that Spark takes. JarsMissing, in a sentence, where there is none."""
    program = java()
    if program is None:
        raise JarsMissing(f"no Java found on PATH or in JAVA_HOME: Spark needs Java {OLDEST_JAVA} or newer")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise JarsMissing(f"{program} is not Java {OLDEST_JAVA} or newer: {said.strip()[:80]}")
    return program


def _wrong(folder: Path, wanted: dict[str, str]) -> list[str]:
    return [
        name for name, digest in wanted.items() if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest
    ]


def resolve(jar_set: str, *, record: bool = False) -> None:
    """Bring one set into `.jars/<set>`, or say why not."""
    if is_complete(jar_set) and not record:
        return
    JARS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS, prefix=f"{jar_set}-") as scratch:
        arrived = Path(scratch) / "arrived"
        arrived.mkdir()
        _retrieve(jar_set, arrived, Path(scratch))
        if record:
            _record(jar_set, arrived)
        wanted = expected(jar_set)
        missing = [name for name in wanted if not (arrived / name).is_file()]
        if missing:
            raise JarsMissing(f"not resolved: {', '.join(missing)}")
        if wrong := _wrong(arrived, wanted):
            raise JarsMissing(f"wrong checksum: {', '.join(wrong)}")
        for surplus in [path for path in arrived.iterdir() if path.name not in wanted]:
            surplus.unlink()
        target = JARS / jar_set
        if target.exists():
            target.rename(Path(scratch) / "replaced")
        arrived.rename(target)


def _record(jar_set: str, arrived: Path) -> None:
    lines = CHECKSUMS.read_text().splitlines()
    kept = [line for line in lines if line.startswith("#") or f" {jar_set}/" not in line]
    found = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()} {jar_set}/{path.name}" for path in sorted(arrived.iterdir())
    ]
    CHECKSUMS.write_text("\n".join([*kept, *found]) + "\n")


def _retrieve(jar_set: str, arrived: Path, scratch: Path) -> None:
    if java() is None:
        raise JarsMissing("no Java found on PATH or in JAVA_HOME")
    commands = []
    if shutil.which("mvn"):
        pom = scratch / "pom.xml"
        pom.write_text(pom_of(jar_set))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={arrived}"]
        commands.append([*command, "-DincludeScope=runtime"])
    if (ivy := _ivy_of_pyspark()) is not None:
        commands.append(_ivy_command(ivy, jar_set, arrived))
    if not commands:
        raise JarsMissing("neither PySpark (for its Ivy) nor Maven is installed: run `make jars`")
    failures = []
    for command in commands:
        try:
            return _run(command)
        except JarsMissing as failure:
            failures.append(str(failure))
    raise JarsMissing("\n".join(failures))


def _ivy_of_pyspark() -> Path | None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))), None)


def _ivy_command(ivy: Path, jar_set: str, arrived: Path) -> list[str]:
    pattern = f"{arrived}/[artifact]-[revision].[ext]"
    program = [str(java()), "-jar", str(ivy), "-cache", str(JARS / "ivy-cache"), "-ivy", str(IVY_FILE)]
    return [*program, "-confs", jar_set, "-types", "jar", "bundle", "-retrieve", pattern]


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise JarsMissing(f"{command[0]} did not end within {_PATIENCE_S} s") from None
    if done.returncode != 0:
        raise JarsMissing(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def pom_of(jar_set: str) -> str:
    """The same list in Maven's words."""
    tree = ElementTree.parse(IVY_FILE)
    alone = any(one.attrib["name"] == jar_set and one.get("transitive") == "false" for one in tree.iter("conf"))
    exclusions = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    rows = []
    for entry in tree.iter("dependency"):
        if not entry.attrib["conf"].startswith(f"{jar_set}->"):
            continue
        rows.append(
            f"<dependency><groupId>{entry.attrib['org']}</groupId><artifactId>{entry.attrib['name']}</artifactId>"
            f"<version>{entry.attrib['rev']}</version>{exclusions if alone else ''}</dependency>"
        )
    name = "<groupId>tallystick</groupId><artifactId>jars</artifactId><version>1</version>"
    return f"<project><modelVersion>4.0.0</modelVersion>{name}<dependencies>{''.join(rows)}</dependencies></project>"


def _tell_java() -> int:
    try:
        java_of_spark()
    except JarsMissing as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str]) -> int:
    if "--java" in arguments:
        return _tell_java()
    best_effort = "--best-effort" in arguments
    for jar_set in [name for name in arguments if name in SETS] or list(SETS):
        try:
            resolve(jar_set, record="--record" in arguments)
        except JarsMissing as reason:
            print(f"jars {jar_set}: {reason}", file=sys.stderr)
            if not best_effort:
                return 1
        else:
            print(f"jars {jar_set}: {len(expected(jar_set))} files in .jars/{jar_set}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
