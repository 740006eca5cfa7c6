"""A Schema Registry over HTTP: Confluent's API, which others speak, too. Responses are kept: schemas never change.

Protobuf schemas are requested as serialised file descriptors (`format=serialized`), so `.proto` is not parsed here.
"""

import base64
import http.client
import json
import os
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from spark_connector.formats.errors import NoSuchSchema, RegistryUnreachable

FORMATS = {"confluent-avro": "AVRO", "confluent-json": "JSON", "confluent-protobuf": "PROTOBUF"}
"""What options call them, what registries call them."""
_TRIES = 5
_PAUSE_S = 0.5
_TIMEOUT_S = 30
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Schema:
    """`kind` is AVRO, JSON or PROTOBUF. `references` are what it imports, by the names it imports them under; what is
    imported by others comes first.
    """

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, "Schema"], ...] = ()


class Registry:
    """Give it one address or several with commas between, and `name:password` where that is required."""

    def __init__(self, urls: str, credentials: str | None = None) -> None:
        self._urls = [url.strip().rstrip("/") for url in urls.split(",")]
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if credentials:
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        self._by_id: dict[int, Schema] = {}

    def by_id(self, schema_id: int) -> Schema:
        """Raises `NoSuchSchema`, `RegistryUnreachable`."""
        if schema_id not in self._by_id:
            answered = self._ask(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
            self._by_id[schema_id] = self._schema({**answered, "id": schema_id}, f"/schemas/ids/{schema_id}")
        return self._by_id[schema_id]

    def latest(self, subject: str) -> Schema:
        """The newest schema of a subject. Raises `NoSuchSchema`, `RegistryUnreachable`."""
        return self._version(subject, "latest")

    def _version(self, subject: str, version: str) -> Schema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._schema(self._ask(path, f"subject {subject}, version {version}"), path)

    def _schema(self, answered: dict[str, Any], path: str) -> Schema:
        kind = answered.get("schemaType", "AVRO")
        if kind == "PROTOBUF":
            answered = answered | {"schema": self._ask(f"{path}?format=serialized", path)["schema"]}
        imported: dict[str, Schema] = {}
        for reference in answered.get("references") or ():
            schema = self._version(reference["subject"], str(reference["version"]))
            imported |= dict(schema.references) | {reference["name"]: schema}
        return Schema(answered["id"], kind, answered["schema"], tuple(imported.items()))

    def _ask(self, path: str, what: str) -> Any:
        problem = ""
        for _ in range(_TRIES):
            for url in self._urls:
                try:
                    status, body = self._get(url, path)
                except (OSError, http.client.HTTPException) as error:
                    problem = f"{url}: {error}"
                    continue
                if status == _NOT_FOUND:
                    raise NoSuchSchema(
                        f"the registry {url} knows no {what}: is schema.registry.url right, the subject?"
                    )
                if status == http.client.OK:
                    return _parsed(body, f"{url}{path}")
                problem = f"{url}{path}: {status} {body[:200]!r}"
            threading.Event().wait(_PAUSE_S)
        raise RegistryUnreachable(f"{what} cannot be had from the Schema Registry: {problem}. Is it up?")

    def _get(self, url: str, path: str) -> tuple[int, bytes]:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.netloc, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", parts.path + path, headers=self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _parsed(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise RegistryUnreachable(f"{where} did not answer in JSON: is that a Schema Registry?") from error


_registries: dict[tuple[int, str, str | None], Registry] = {}


def registry(urls: str, credentials: str | None = None) -> Registry:
    """The one of this process, with what it remembers."""
    return _registries.setdefault((os.getpid(), urls, credentials), Registry(urls, credentials))
