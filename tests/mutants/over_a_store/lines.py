"""What may happen to nodes over one store: the lines that planted defects are of."""

from enum import Enum


class Line(Enum):
    """What happens, and what has to come of it."""

    BEFORE_THE_PUT = "a node dies before its object has come", "nothing of it is visible, and clients try again"
    ORPHAN = (
        "a node dies behind the PUT, in front of the commit",
        "an object that nobody names, which goes with its life",
    )
    IN_THE_COMMIT = "a connection ends in a commit", "it is found out whether it was made, and it is made once"
    AFTER_THE_COMMIT = (
        "a node dies behind the commit, in front of its answer",
        "a retry is answered with its first offset",
    )
    STANDS_STILL = "an owner stands still for longer than its session", "its commit is refused, and it ends"
    TWO_OWNERS = "two think that they own a log", "one commits, and the other is told"
    COORDINATOR = "a coordinator's node dies behind PREPARE", "the next one of the shard goes on"
    FAILOVER = "PostgreSQL fails over", "nothing acknowledged is lost, or nobody goes on"
    SLOW_BUCKET = (
        "the bucket is slow, or refuses",
        "another PUT under another name; nothing is acknowledged that is not there",
    )
    DAMAGED = "an object is damaged", "KAFKA_STORAGE_ERROR for that stretch, which is never passed over"
    AHEAD = "a reader is far behind, and much is read ahead", "it is given what it asks for, within a limit of memory"
    COPY = (
        "a copy of the database, or another bucket, is taken for the one that is meant",
        "one goes on, and nothing is removed",
    )
    AT_ONCE = "several do something at once", "nobody waits in a circle, and none undoes what another did"
    BETWEEN_NODES = "a node asks another, or reads beside it", "it is told what is so, or that nobody knows"

    @property
    def happens(self) -> str:
        """What happens."""
        return self.value[0]

    @property
    def comes(self) -> str:
        """What has to come of it."""
        return self.value[1]
