"""Who a certificate stands for: names as Java writes them, rules as Kafka follows them. The names are what
`X500Principal.getName` of Java 17 makes of the same bytes."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from broker.security.tls.errors import NoRuleMatches
from broker.security.tls.principals import BadRules, PrincipalMapper, distinguished_name

DUKE = "CN=Duke,OU=ServiceUsers,O=Unknown,C=US"
ADMIN = "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> str:
    return distinguished_name(x509.Name([x509.NameAttribute(kind, value) for kind, value in parts]))


def test_the_last_part_of_a_name_comes_first() -> None:
    parts = ((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "O"), (NameOID.COMMON_NAME, "alice"))
    assert name(*parts) == "CN=alice,O=O,C=DE"
    others = ((NameOID.DOMAIN_COMPONENT, "org"), (NameOID.USER_ID, "u"), (NameOID.STREET_ADDRESS, "s"))
    assert name(*others) == "STREET=s,UID=u,DC=org"


def test_what_has_a_meaning_in_a_name_is_escaped() -> None:
    assert name((NameOID.COMMON_NAME, 'a,b=c+d<e>f#g;h"i\\j')) == 'CN=a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j'
    assert name((NameOID.COMMON_NAME, "  two ")) == "CN=\\ \\ two\\ "
    assert name((NameOID.COMMON_NAME, "Jürgen 日本")) == "CN=Jürgen 日本"
    assert name((NameOID.COMMON_NAME, "nul\0x\r")) == "CN=nul\\00x\\\r"


def test_parts_that_rfc_2253_has_no_word_for_are_numbers() -> None:
    written = name((NameOID.COMMON_NAME, "a"), (NameOID.EMAIL_ADDRESS, "a@b"))
    assert written == "1.2.840.113549.1.9.1=#1603614062,CN=a"
    assert name((NameOID.SERIAL_NUMBER, "12"), (NameOID.SURNAME, "s")) == "2.5.4.4=#0c0173,2.5.4.5=#13023132"


def test_parts_that_stand_together_stay_together() -> None:
    together = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
    )
    country = x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE")])
    assert distinguished_name(x509.Name([country, together])) in ("CN=a+UID=b,C=DE", "UID=b+CN=a,C=DE")


@pytest.mark.parametrize(
    ("rules", "given", "mapped"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, None),
        (" DEFAULT , ", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U,DEFAULT", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", ADMIN, "duke"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/", DUKE, None),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/ , DEFAULT", DUKE, DUKE),
        (r"RULE:^CN=(.*?)\/x$/$1/", "CN=a/x", "a"),
        (r"RULE:^CN=(.*)$/\$1 $1 $7 $/", "CN=a", "$1 a $7 $"),
        ("RULE:^CN=(?<who>.*)$/$1/", "CN=a", "a"),
        ("RULE:CN=.*//", "CN=a", ""),
        ("RULE:CN=(a)(b)?/$1$2/", "CN=a", "a"),
        ("RULE:CN=(a)/$10/", "CN=a", "a0"),
        ("RULE:a/b/,RULE:CN=a/second/", "CN=a", "second"),
        ("RULE:N=a/part/", "CN=a", None),
        ("RULE:.*/x$0/", "CN=abc", "xCN=abcx"),  # Java replaces the nothing behind the name, too
    ],
)
def test_the_first_rule_that_matches_the_whole_name_says_who_it_is(rules: str, given: str, mapped: str | None) -> None:
    mapper = PrincipalMapper(rules)
    if mapped is None:
        with pytest.raises(NoRuleMatches):
            mapper.name_of(given)
    else:
        assert mapper.name_of(given) == mapped


@pytest.mark.parametrize(
    "rules", ["default", "DEFAULT/L", "RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "DEFAULT DEFAULT", "x"]
)
def test_rules_that_nobody_can_follow_are_refused(rules: str) -> None:
    with pytest.raises(BadRules):
        PrincipalMapper(rules)
