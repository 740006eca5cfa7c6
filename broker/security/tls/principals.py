r"""Who a client is by its certificate: the name as Java writes it (RFC 2253), and Kafka's rules that make it shorter
(`ssl.principal.mapping.rules`, KIP-371).

    DEFAULT                                 the whole name
    RULE:pattern/replacement/[L|U]          where the pattern matches the whole name; $1 … in the replacement

The first rule that matches says who it is; a slash within a pattern is written \/. Commas part rules.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from broker.security.tls.errors import NoRuleMatches
from keystores.der import element

USER = "User:"
KEYWORDS = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
"""Those of RFC 2253. Others are written as number and hexadecimal value, also where they have names elsewhere."""
ESCAPED = frozenset(',=+<>#;"\\')

_PART = re.compile(r"(?:\\.|[^\\/])*")
_NAMED_GROUP = re.compile(r"\(\?<(?=[a-zA-Z])")
"""Java's form of what is `(?P<` in Python."""
Conversion = Callable[[str], str]


class BadRules(Exception):
    """Rules that nobody can follow; a sentence without its end for the operator."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of names that match as a whole."""

    pattern: re.Pattern[str]
    replacement: str
    convert: Conversion

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        return self.convert(self.pattern.sub(self._replaced, name))

    def _replaced(self, match: "re.Match[str]") -> str:
        return "".join(_pieces(self.replacement, match))


class PrincipalMapper:
    """The rules of one listener. Raises `BadRules`."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = tuple(_parse(rules))
        """None is the rule that takes the whole name."""

    def principal_of(self, certificate: x509.Certificate) -> str:
        """`User:NAME`. Raises `NoRuleMatches`."""
        return USER + self.name_of(distinguished_name(certificate.subject))

    def name_of(self, name: str) -> str:
        """What the rules make of a distinguished name. Raises `NoRuleMatches`."""
        for rule in self._rules:
            mapped = name if rule is None else rule.apply(name)
            if mapped is not None:
                return mapped
        raise NoRuleMatches(f"no rule of ssl.principal.mapping.rules matches {name!r}")


def distinguished_name(name: x509.Name) -> str:
    """RFC 2253, as `X500Principal.getName` of Java: the last comes first."""
    return ",".join("+".join(_attribute(one) for one in part) for part in reversed(name.rdns))


def _attribute(attribute: "x509.NameAttribute[str | bytes]") -> str:
    keyword, value = KEYWORDS.get(attribute.oid), attribute.value
    if keyword is None or not isinstance(value, str):
        encoded, _ = element(element(element(x509.Name([attribute]).public_bytes())[0])[0])
        _, behind = element(encoded)
        return f"{keyword or attribute.oid.dotted_string}=#{behind.hex()}"
    escaped = "".join(f"\\{one}" if one in ESCAPED else "\\00" if one == "\0" else one for one in value)
    inner = escaped.strip(" \r")
    lead = len(escaped) - len(escaped.lstrip(" \r"))
    around = escaped[:lead], escaped[lead + len(inner) :]
    first, last = ("".join(f"\\{one}" for one in spaces) for spaces in around)
    return f"{keyword}={first}{inner}{last}"


def _parse(text: str) -> list[Rule | None]:
    rules: list[Rule | None] = []
    at, text = 0, text.strip()
    while at < len(text):
        begin = at
        if text.startswith("DEFAULT", at):
            rules.append(None)
            at += len("DEFAULT")
        elif text.startswith("RULE:", at):
            rule, at = _rule(text, at + len("RULE:"))
            rules.append(rule)
        at += len(text[at:]) - len(text[at:].lstrip())
        if text[at : at + 1] not in ("", ","):
            raise BadRules(f"ssl.principal.mapping.rules: {text[begin:].split(',')[0]!r} is no rule")
        at += 1
        at += len(text[at:]) - len(text[at:].lstrip())
    return rules


def _rule(text: str, at: int) -> tuple[Rule, int]:
    """The rule whose pattern begins here, and where it ends."""
    parts: list[str] = []
    for _ in range(2):
        found = _PART.match(text, at)
        assert found is not None
        at = found.end() + 1
        if text[found.end() : at] != "/":
            raise BadRules(f"ssl.principal.mapping.rules: {text!r} wants the form RULE:pattern/replacement/")
        parts.append(found.group())
    conversions: dict[str, Conversion] = {"L": str.lower, "U": str.upper}
    convert = conversions.get(text[at : at + 1])
    try:
        pattern = re.compile(_NAMED_GROUP.sub("(?P<", parts[0]))
    except re.error as problem:
        raise BadRules(f"ssl.principal.mapping.rules: {parts[0]!r} is no pattern: {problem}") from None
    return Rule(pattern, parts[1], convert or str), at + (convert is not None)


def _pieces(replacement: str, match: "re.Match[str]") -> list[str]:
    """The replacement of one match. A number that no group has stays as it is written, as in Kafka."""
    pieces: list[str] = []
    at = 0
    while at < len(replacement):
        one = replacement[at]
        if one == "\\":
            pieces.append(replacement[at + 1 : at + 2])
            at += 2
            continue
        end = at + 1
        groups = match.re.groups
        while one == "$" and replacement[end : end + 1].isdecimal() and int(replacement[at + 1 : end + 1]) <= groups:
            end += 1
        pieces.append((match[int(replacement[at + 1 : end])] or "") if end > at + 1 else one)
        at = end
    return pieces
