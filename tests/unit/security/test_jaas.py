"""JAAS lines, read as Kafka reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.sasl.jaas import BadJaas, LoginModule, read_jaas, read_login_file

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


COMMENTED = f'{PLAIN}\n  required // users\n user_x="y" /* none\n = ; */\n;\n'
ESCAPED = f'{PLAIN} required "user_a@b.c"="tab\\t quote\\" back\\\\ octal\\101";'
LINES: dict[str, dict[str, str]] = {
    f"{PLAIN} required;": {},
    f'{PLAIN} required username="admin" user_alice="a;b=c";': {"username": "admin", "user_alice": "a;b=c"},
    f"{PLAIN} REQUIRED user_a-b_c$d=word;": {"user_a-b_c$d": "word"},
    f"{PLAIN} required user_e='single \"quoted\"';": {"user_e": 'single "quoted"'},
    f"{PLAIN} required user_ü=wörd;": {"user_ü": "wörd"},
    COMMENTED: {"user_x": "y"},
    ESCAPED: {"user_a@b.c": 'tab\t quote" back\\ octalA'},
}


@pytest.mark.parametrize(("text", "options"), LINES.items())
def test_a_line_is_a_module_and_its_options(text: str, options: dict[str, str]) -> None:
    module = read_jaas(text)
    assert (module.name, module.flag, module.options) == (PLAIN, "required", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " // nothing\n",
        PLAIN,
        f"{PLAIN} necessary;",
        f"{PLAIN} required",
        f"{PLAIN} required username=secret-word",
        f"{PLAIN} required username;",
        f"{PLAIN} required username=;",
        f"{PLAIN} required =secret-word;",
        f'{PLAIN} required username="secret-word;',
        f"{PLAIN} required username=secret-word@x;",
        f'{PLAIN} required username="secret-\nword";',
        f"{PLAIN} required; {PLAIN} required;",
        f"{PLAIN} required username=a=secret-word;",
    ],
)
def test_what_is_wrong_with_a_line_is_told_without_what_is_in_it(text: str) -> None:
    with pytest.raises(BadJaas) as problem:
        read_jaas(text)
    assert "secret" not in str(problem.value)


def test_a_module_is_shown_without_its_options() -> None:
    assert "hunter2" not in repr(read_jaas(f'{PLAIN} required password="hunter2";'))


@given(st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=9), max_size=3))
def test_a_module_is_written_as_it_is_read(options: dict[str, str]) -> None:
    module = LoginModule(PLAIN, "required", options)
    assert read_jaas(module.line) == module


FILE = f"""
// Of all listeners.
KafkaServer {{
    {PLAIN} required username=admin
        user_ute="geheim;}}";
    other.Module optional;
}};
outside.KafkaServer {{ {PLAIN} required user_uwe=auch; }};
"nobody's" {{}};
"""


def test_a_file_is_sections_of_modules() -> None:
    assert read_login_file(FILE) == {
        "KafkaServer": [
            LoginModule(PLAIN, "required", {"username": "admin", "user_ute": "geheim;}"}),
            LoginModule("other.Module", "optional", {}),
        ],
        "outside.KafkaServer": [LoginModule(PLAIN, "required", {"user_uwe": "auch"})],
        "nobody's": [],
    }
    assert read_login_file(" /* nothing */ ") == {}


@pytest.mark.parametrize("length", range(FILE.index("KafkaServer") + 1, FILE.index("outside") - 1))
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(BadJaas) as problem:
        read_login_file(FILE[:length])
    assert "geheim" not in str(problem.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{ };", "section 1 does not begin"),
        ("a {}; b = {};", "section 2 does not begin"),
        ("a {}; a {};", "section 2 has the name"),
        ("a { m required; }", "section 1 does not end"),
        ("a { m required; } b {};", "section 1 does not end"),
        ("a { m required x={; };", "option 1"),
        ("a { { };", "none of required"),
        ("a { m required };", "option 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: str, told: str) -> None:
    with pytest.raises(BadJaas, match=told):
        read_login_file(text)
