"""What goes wrong about TLS, for those who do not know how it is done."""


class BadTls(Exception):
    """Settings or stores that a listener cannot speak TLS with; a sentence for the operator, and never a secret."""


class NoRuleMatches(Exception):
    """A certificate that no rule says anything of: its client is not let in, as in Kafka."""
