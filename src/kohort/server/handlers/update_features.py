"""UpdateFeatures (57) v0-2: levels of features cannot change (KIP-584, KIP-778).

An update to the level that is in force succeeds, as in Kafka; any other is refused with
INVALID_UPDATE_VERSION, and with it the whole request. v1 tells downgrades apart and can only
validate; v2 has no result per feature.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.features import FEATURES
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import NOT_AUTHORIZED, refuse
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_SAFE_REFUSED: Final = (
    "Refusing to perform the requested downgrade because it might delete metadata information."
)
_UNSAFE_REFUSED: Final = "Unsafe metadata downgrade is not supported in this version."


def handle(
    services: Services, exchange: Exchange, request: "UpdateFeaturesRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange, error_message=NOT_AUTHORIZED)
        return None
    return respond_in_chunks(services, exchange, _steps(services, request))


def _steps(services: Services, request: "UpdateFeaturesRequest") -> Steps:
    results = []
    for update in request.feature_updates:
        try:
            _validate(services.node_id, update)
        except KafkaError as error:
            return {
                "error_code": error.code,
                "error_message": "The update failed for all features since the following feature "
                f"had an error: {error.message}",
                "results": (),
            }
        results.append(
            {"feature": update.feature, "error_code": ErrorCode.none, "error_message": "NONE"}
        )
        yield
    return {"error_code": ErrorCode.none, "error_message": None, "results": results}


def _validate(node_id: int, update: "FeatureUpdateKey") -> None:
    name, level, kind = update.feature, update.max_version_level, _kind(update)
    feature = FEATURES.get(name)
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    if feature is None:
        why = (
            f"Local controller {node_id} does not support this feature."
            if level
            else f"Feature {name} not found."
        )
        raise _refused(update, why)
    if not feature.first <= level <= feature.last:
        supported = f"{feature.first}-{feature.last}"
        raise _refused(update, f"Local controller {node_id} only supports versions {supported}")
    if level < feature.level and kind == UPGRADE:
        raise _refused(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level != feature.level:
        why = _UNSAFE_REFUSED if kind == UNSAFE_DOWNGRADE else _SAFE_REFUSED
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"Unsupported {name} downgrade from {feature.level} to {level}. {why}",
        )


def _kind(update: "FeatureUpdateKey") -> int:
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _refused(update: "FeatureUpdateKey", why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_update_version,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
    )
