"""Sees each request of an embedded server before it is handled."""

from kohort.server.net import Dispatch, Exchange
from kohort.testing.embedded.clients import MEMBER_APIS, Clients
from kohort.testing.embedded.exchange_log import ExchangeLog, decoded_request
from kohort.testing.embedded.faults import Faults, Intercepted, Served
from kohort.testing.embedded.traffic_recorder import Recordings


class RequestHook:
    """The `intercept` of a `Broker`.

    Logs and records requests, cuts off killed clients, and lets requests meet faults.
    """

    def __init__(
        self, clients: Clients, faults: Faults, recordings: Recordings, log: ExchangeLog
    ) -> None:
        self._clients = clients
        self._faults = faults
        self._recordings = recordings
        self._log = log

    def __call__(self, dispatch: Dispatch) -> Dispatch:
        def dispatch_observed(exchange: Exchange, frame: bytes, body_at: int) -> Served:
            return self._serve(dispatch, exchange, frame, body_at)

        return dispatch_observed

    def _serve(self, dispatch: Dispatch, exchange: Exchange, frame: bytes, body_at: int) -> Served:
        api_key = exchange.api_key
        names_members, concerns_faults = api_key in MEMBER_APIS, self._faults.concern(api_key)
        observed = self._recordings.observe(exchange, frame)
        observed.entry = self._log.add(observed, frame, body_at)
        request = None
        if names_members or concerns_faults:
            request = decoded_request(exchange, frame, body_at)
            if request is None:  # the server refuses it
                return dispatch(observed, frame, body_at)
        if not self._clients.admit(observed, request if names_members else None):
            return None
        fault = self._faults.meet(observed, request) if concerns_faults else None
        if fault is None:
            return dispatch(observed, frame, body_at)
        return fault.effect(
            Intercepted(dispatch, observed, frame, body_at, request, self._faults.stopping)
        )
