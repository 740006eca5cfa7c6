"""Which quota is whose: the most specific of what is set for users, client ids and both (KIP-55).

In this order: the user with the client id, with any client id, alone; any user with the client id, with any client id,
alone; the client id; any client id. A quota for both is each client's own; one for a user is shared by all that the
user has, and one for a client id by all users.
"""

from collections.abc import Mapping

Key = tuple[str | None, str | None]
"""(user, client id): None is the default, empty means that the entity has none."""
Shared = tuple[str, str]
"""Who is counted together: (user, client id), empty where that makes no difference."""


class Limits:
    """Of one kind of quota."""

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: dict[Key, float] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def set(self, key: Key, bound: float | None) -> None:
        """None: there is none any more."""
        if bound is None:
            self._bounds.pop(key, None)
        else:
            self._bounds[key] = bound

    def find(self, user: str, client_id: str) -> tuple[Shared, float] | None:
        """Whom a client is counted with, and how much they may do together; None where nothing is set for it.

        A client without an id is in no quota that has to do with client ids, as in Kafka.
        """
        bounds, alone = self._bounds, (user, "")
        if client_id:
            both = (user, client_id)
            order: tuple[tuple[Key, Shared], ...] = (
                *((both, both), ((user, None), both), (alone, alone)),
                *(((None, client_id), both), ((None, None), both), ((None, ""), alone)),
                *((("", client_id), ("", client_id)), (("", None), ("", client_id))),
            )
        else:
            order = ((alone, alone), ((None, ""), alone))
        for key, shared in order:
            if key in bounds:
                return shared, bounds[key]
        return None


def key_of(names: Mapping[str, str | None]) -> Key:
    """The key of an entity with these names by type."""
    return names.get("user", ""), names.get("client-id", "")
