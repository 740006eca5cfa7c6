"""JAAS lines, read as Kafka reads them."""

import pytest

from protocol.sasl.jaas import BadJaas, read_jaas

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
