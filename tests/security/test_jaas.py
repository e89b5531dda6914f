"""Users of PLAIN in Kafka's JAAS syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.jaas import PLAIN_LOGIN_MODULE, plain_users


@pytest.mark.parametrize(
    ("options", "users"),
    [
        ("", {}),
        (' username="admin" password="x"', {}),
        (' user_alice="alice-secret"', {"alice": "alice-secret"}),
        ('\n  user_alice=plain\n  user_bob = "b\\"\'\\\\" ', {"alice": "plain", "bob": "b\"'\\"}),
        (' user_a="; user_b=c"', {"a": "; user_b=c"}),
    ],
)
def test_users_are_read_as_kafka_reads_them(options: str, users: dict[str, str]) -> None:
    assert plain_users(f"{PLAIN_LOGIN_MODULE} required{options};") == users


@given(st.dictionaries(st.from_regex(r"[a-z.@-]{1,8}", fullmatch=True), st.text(min_size=1)))
def test_any_password_can_be_quoted(users: dict[str, str]) -> None:
    def quoted(password: str) -> str:
        return password.replace("\\", "\\\\").replace('"', '\\"')

    options = " ".join(f'user_{name}="{quoted(value)}"' for name, value in users.items())
    assert plain_users(f"{PLAIN_LOGIN_MODULE} Required {options};") == users


@pytest.mark.parametrize(
    "text",
    [
        "",
        "required;",
        f'{PLAIN_LOGIN_MODULE} user_alice="s3cret";',
        f'{PLAIN_LOGIN_MODULE} required user_alice="s3cret"',
        f'{PLAIN_LOGIN_MODULE} required user_alice="s3cret;',
        f'{PLAIN_LOGIN_MODULE} required user_alice="s3cret" s3cret;',
        f'{PLAIN_LOGIN_MODULE} required user_a="s3cret" user_a="s3cret";',
        f"{PLAIN_LOGIN_MODULE} required user_a=x user_a=x;",
        f'{PLAIN_LOGIN_MODULE} required user_a="";',
        f'{PLAIN_LOGIN_MODULE} required user_="s3cret";',
        'org.example.OtherModule required user_a="s3cret";',
    ],
)
def test_other_text_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        plain_users(text)
    assert "s3cret" not in str(refused.value)
