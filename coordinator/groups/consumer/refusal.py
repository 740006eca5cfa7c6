"""Why a member of a consumer group is not answered as it hoped."""

from protocol.errors import ErrorCode


class Refusal(Exception):
    """Raised while something is decided: nothing has happened. `message` is Kafka's."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
