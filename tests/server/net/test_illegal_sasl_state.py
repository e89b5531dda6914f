"""The response to a request in the midst of a login, of every API and version."""

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.protocol.messages import encode
from kohort.server.net.illegal_sasl_state import illegal_sasl_state


@pytest.mark.parametrize("api_key", APIS, ids=lambda each: APIS[each].name)
def test_a_response_during_a_login_has_the_sasl_error_where_it_has_one(api_key: int) -> None:
    api = APIS[api_key]
    for version in range(api.min_version, api.max_version + 1):
        answer = illegal_sasl_state(api_key, version)
        assert getattr(answer, "error_code", ErrorCode.illegal_sasl_state) == 34
        assert getattr(answer, "error_message", None) in (
            None,
            "Unexpected Kafka request during SASL authentication.",
        )
        assert encode(answer)
