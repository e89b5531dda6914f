"""Properties of librdkafka's clients without a counterpart in some command, or in all.

`-X` refuses them by name, so that users of kcat or confluent-kafka see that they have no effect.
"""

from typing import Final

_NAMES: Final = """
    allow.auto.create.topics api.version.fallback.ms api.version.request
    api.version.request.timeout.ms auto.commit.enable batch.num.messages broker.address.family
    broker.address.ttl broker.version.fallback builtin.features check.crcs
    client.dns.lookup consume.callback.max.messages
    coordinator.query.interval.ms debug delivery.report.only.error
    enable.auto.commit enable.auto.offset.store enable.gapless.guarantee
    enable.metrics.push enable.partition.eof enable.random.seed enable.sasl.oauthbearer.unsecure.jwt
    enable.ssl.certificate.verification enabled_events fetch.error.backoff.ms
    fetch.message.max.bytes fetch.queue.backoff.ms group.protocol group.protocol.type
    group.remote.assignor internal.termination.signal log.connection.close log.queue
    log.thread.name log_level max.in.flight max.poll.interval.ms message.copy.max.bytes
    message.send.max.retries
    offset.store.method offset.store.path offset.store.sync.interval.ms
    plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queued.max.messages.kbytes
    queued.min.messages queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms retries
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal sasl.kerberos.service.name sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.method sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    socket.blocking.max.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.receive.buffer.bytes socket.send.buffer.bytes ssl.ca.certificate.stores ssl.ca.pem
    ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.engine.id
    ssl.engine.location ssl.key.pem ssl.keystore.password ssl.providers ssl.sigalgs.list
    statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    transaction.timeout.ms transactional.id
"""
WITHOUT_COUNTERPART: Final = frozenset(_NAMES.split())
