"""A folder of a bucket in S3, or in what speaks as S3 does; obstore is imported here only.

Rule 1. An object is written once, under a name of its own and in one request: whoever reads it finds all of it or
        nothing, and no part of one is left where nobody sees it. Nothing is asked of the store but that what was
        written can be read.
Rule 2. A write is tried once. Whether it came or not where it fails, its name is not used again.
Rule 3. What is asked otherwise may be asked again, which is done here for a moment.
Rule 4. Credentials and the address are those of the environment, under AWS's names. No secret is in what is raised.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from urllib.parse import urlsplit

from protocol.schema import Buffer
from storage.shared.store import StoreRefused, StoreUnreachable

try:
    import obstore
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
    from obstore.store import S3Store
except ModuleNotFoundError:
    obstore = None

PATIENCE_S = 15.0
"""How long a request may take, and a second more for each MiB."""
CONNECT_TIMEOUT_S = 5
RETRIES = 3
WRITES_AT_ONCE = 8
READS_AT_ONCE = 16
LEFT_BY_READERS = 4
NEAR_BYTES = 64 << 10
"""What is wanted of an object and lies no further apart is brought in one request."""
LISTED_AT_ONCE = 1000
ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
PASSING = frozenset({408, 409, 425, 429})
"""What a server answers in the 400s, and may not the next time."""

_WHICH_REQUEST = re.compile(r"Error performing ([A-Z]+) (\w+://[^/ ]+|\S+)\S* in .*? - ")
"""Of which object, how long it took and how often it was tried: that is another each time."""


class NotThere(Exception):
    """There is no such object."""


class Shorter(NotThere):
    """There is such an object, and what is wanted of it is not in it."""


class Refusal(StoreUnreachable):
    """Credentials are refused or there are none, there is no such bucket, or it is in another region. Somebody may mend
    it while the node lives."""


class Place:
    """`s3://bucket/folder`, as it is written down."""

    def __init__(self, url: str) -> None:
        """Raises `StoreRefused`."""
        parts = urlsplit(url)
        folder = parts.path.strip("/")
        if parts.scheme != "s3" or not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
            # What is wrong may be a key: it is not said.
            raise StoreRefused("that is not a folder in a bucket (s3://bucket/folder)")
        is_plain = re.fullmatch(r"([\w.-]+/)*[\w.-]*", folder, re.ASCII) and not {".", ".."} & set(folder.split("/"))
        if parts.query or parts.fragment or not is_plain:
            raise StoreRefused("a folder has a plain name (s3://bucket/folder): letters, digits, . _ - and /")
        self.bucket, self.folder = parts.netloc, folder

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.folder}".rstrip("/")


class Bucket:
    """Names are those below the place."""

    def __init__(self, place: Place) -> None:
        if obstore is None:
            raise StoreRefused("objects in S3 need obstore: pip install 'tallystick[s3]'")
        for name in ADDRESSES:
            if (address := os.environ.get(name)) and not re.match("https?://", address):
                raise StoreRefused(f"{name} is an address with http:// or https://")
        self.place = place
        self._patience_s = PATIENCE_S
        self._writing = asyncio.Semaphore(WRITES_AT_ONCE)
        self._reading = asyncio.Semaphore(READS_AT_ONCE)
        self._for_readers = asyncio.Semaphore(READS_AT_ONCE - LEFT_BY_READERS)
        self._once = self._client(retries=0)  # Rule 2.
        self._again = self._client(retries=RETRIES)

    def _client(self, retries: int) -> "S3Store":
        try:
            return S3Store(
                self.place.bucket,
                prefix=self.place.folder or None,
                client_options={
                    # HTTP without TLS is spoken where the address that is given says so, and nowhere else.
                    "allow_http": True,
                    "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
                    "timeout": timedelta(hours=1),  # Ours is kept by `_asked`.
                },
                retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=self._patience_s)},
            )
        except BaseError as error:  # A key without the other.
            raise StoreRefused(_in_short(error)) from None

    async def put(self, name: str, data: Buffer) -> None:
        """Write an object. When it returns, everybody can read it. Raises `StoreUnreachable`, whether it came or not;
        it may come yet."""
        async with self._writing:
            with self._asked():
                async with asyncio.timeout(self._patience_s + (len(data) >> 20)):
                    await obstore.put_async(self._once, name, data, use_multipart=False)

    async def get(self, name: str, stretches: Sequence[tuple[int, int]], *, for_reader: bool = False) -> list[bytes]:
        """Stretches (position, size) of an object. Raises `NotThere`, `StoreUnreachable`."""
        wanted = [one for one in stretches if one[1]]
        found: Iterator[Buffer] = iter(())
        if wanted:
            starts, ends = [at for at, _ in wanted], [at + size for at, size in wanted]
            async with self._for_readers if for_reader else nullcontext(), self._reading:
                with self._asked(name):
                    async with asyncio.timeout(self._patience_s + (sum(size for _, size in wanted) >> 20)):
                        brought = await obstore.get_ranges_async(
                            self._again, name, starts=starts, ends=ends, coalesce=NEAR_BYTES
                        )
            found = iter(brought)
        whole = [bytes(next(found)) if size else b"" for _, size in stretches]
        if any(len(one) != size for one, (_, size) in zip(whole, stretches, strict=True)):
            raise Shorter(f"{self.place}/{name} is shorter than it was")
        return whole

    async def delete(self, names: Sequence[str]) -> None:
        """Remove objects, as far as they are there. Raises `StoreUnreachable`: some may be gone."""
        if names:
            with self._asked():
                async with asyncio.timeout(self._patience_s):
                    await self._delete(list(names))

    async def _delete(self, names: list[str]) -> None:
        """S3 says nothing of what is not there; versitygw does where another node removes it in the same moment. It has
        looked at all of them then, and says nothing of it when it is asked again."""
        for _ in range(RETRIES):
            try:
                await obstore.delete_async(self._again, names)
                return
            except BaseError as error:
                if "NoSuchKey" not in str(error):
                    raise
        await obstore.delete_async(self._again, names)

    async def names(self, folder: str) -> AsyncIterator[list[str]]:
        """All that there is in a folder, by and by. Raises `StoreUnreachable`."""
        pages = obstore.list(self._again, folder, chunk_size=LISTED_AT_ONCE).__aiter__()
        while True:
            with self._asked():
                async with asyncio.timeout(self._patience_s):
                    page = await anext(pages, None)
            if page is None:
                return
            yield [one["path"] for one in page]

    @contextmanager
    def _asked(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise StoreUnreachable(f"{self.place} does not answer") from error
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise Refusal(f"{self.place}: there is no such bucket") from None
            if not name:  # It is no object that is missing: a user, or whatever the store says.
                raise Refusal(f"{self.place}: {_in_short(error)}") from None
            raise NotThere(f"{self.place}/{name} is not there") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise Refusal(f"{self.place} refuses these credentials: {_in_short(error)}") from None
        except BaseError as error:
            if name and "InvalidRange" in str(error):
                raise Shorter(f"{self.place}/{name} is shorter than it was") from None
            raise _of_another_kind(error, self.place) from None


def _of_another_kind(error: Exception, place: Place) -> StoreUnreachable:
    """What obstore has no kind of error for is told apart by what it says."""
    said, _, _ = str(error).partition("\n")
    asked = re.search(r"Error performing [A-Z]+ (\S+) in ", said)
    status = re.search(r"status code: (\d{3})", said)
    code = int(status[1]) if status is not None else 0
    if "token file" in said or (asked is not None and place.bucket not in asked[1]):
        # Not the bucket was asked, but who gives away credentials.
        return Refusal(f"no credentials for {place}: the environment names no keys, and of a role: {_in_short(error)}")
    if "redirect without LOCATION" in said or code in (301, 308):
        return Refusal(f"{place} is in another region than AWS_REGION says: {_in_short(error)}")
    if code in (401, 403):
        return Refusal(f"{place} refuses these credentials: {_in_short(error)}")
    if 400 <= code < 500 and code not in PASSING and "RequestTimeout" not in said:
        return Refusal(f"{place} refuses what it is asked: {_in_short(error)}")
    return StoreUnreachable(f"{place}: {_in_short(error)}")


def _in_short(error: Exception) -> str:
    """What S3 says of it, without the request that it repeats; the same whenever the same has happened."""
    text = str(error)
    said = [found.group(1) for tag in ("Code", "Message") if (found := re.search(f"<{tag}>([^<]*)</{tag}>", text))]
    return ": ".join(said) or _WHICH_REQUEST.sub(r"\1 at \2: ", text.split("\n", 1)[0])[:300].rstrip(" :")
