"""Settings of TLS, SASL and authorization."""

from typing import Final

from kohort.security import MappingRules
from kohort.security.authorizer import super_users
from kohort.security.jaas import LOGIN_MODULES
from kohort.server.config.rows import (
    HOUR_MS,
    boolean_row,
    int_row,
    list_row,
    long_row,
    password_row,
    string_row,
)

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _identification(text: str) -> None:
    if text.lower() not in ("https", ""):
        raise ValueError(f"{text!r} is not https, or empty")


# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
TLS: Final = (
    string_row("ssl.keystore.type", "PEM", choices=("PEM",), per_listener=True,
        doc="Format of the key store. Kafka's default is JKS.",
    ),
    string_row("ssl.keystore.location", None, per_listener=True,
        doc="PEM file of the server's private key, encrypted or not, and its certificate chain.",
    ),
    password_row("ssl.keystore.key", None, per_listener=True,
        doc="Private key as PEM text, instead of ssl.keystore.location.",
    ),
    password_row("ssl.keystore.certificate.chain", None, per_listener=True,
        doc="Certificate chain as PEM text, for ssl.keystore.key.",
    ),
    password_row("ssl.key.password", None, per_listener=True,
        doc="Password of an encrypted private key.",
    ),
    string_row("ssl.truststore.type", "PEM", choices=("PEM",), per_listener=True,
        doc="Format of the trust store. Kafka's default is JKS.",
    ),
    string_row("ssl.truststore.location", None, per_listener=True,
        doc="PEM file of the certificate authorities that sign client certificates.",
    ),
    password_row("ssl.truststore.certificates", None, per_listener=True,
        doc="Certificate authorities as PEM text, instead of ssl.truststore.location.",
    ),
    string_row("ssl.client.auth", "none", choices=("none", "requested", "required"),
        per_listener=True,
        doc="Whether clients must authenticate by certificate. On a SASL listener, only the "
        "setting with the listener's prefix applies, and the principal is the SASL user.",
    ),
    string_row("ssl.principal.mapping.rules", "DEFAULT", per_listener=True,
        check=MappingRules.parse,
        doc="Rules that map the distinguished name of a client certificate to a principal, as "
        "RULE:regex/replacement/[LU], separated by commas. DEFAULT: the distinguished name.",
    ),
    list_row("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), choices=("TLSv1.2", "TLSv1.3"),
        per_listener=True, doc="Enabled versions of TLS.",
    ),
    list_row("ssl.cipher.suites", (), per_listener=True,
        doc="Cipher suites of TLS 1.2, by OpenSSL or IANA name. Empty: suites with forward "
        "secrecy and authenticated encryption. Kafka's default is that of Java.",
    ),
    boolean_row("ssl.allow.dn.changes", False, per_listener=True,
        doc="Whether a reloaded certificate may have another distinguished name.",
    ),
    boolean_row("ssl.allow.san.changes", False, per_listener=True,
        doc="Whether a reloaded certificate may lack alternative names of the previous one.",
    ),
    string_row("ssl.endpoint.identification.algorithm", "https", check=_identification,
        per_listener=True,
        doc="https: the nodes of a cluster verify the host name in each other's certificates. "
        "Empty: no verification of host names.",
    ),
    int_row("ssl.handshake.timeout.ms", 10_000, minimum=1, kohort_only=True, per_listener=True,
        doc="Maximum duration of a TLS handshake.",
    ),
)

AUTHORIZATION: Final = (
    string_row("authorizer.class.name", None, choices=(STANDARD_AUTHORIZER,),
        doc="Authorizer, which checks access control lists (ACLs). Null: all operations are "
        "allowed.",
    ),
    string_row("super.users", "", check=super_users,
        doc="Principals that are allowed all operations, separated by semicolons: "
        "User:admin;User:ops.",
    ),
    string_row("audit.log.file", None, kohort_only=True,
        doc="File to which denied operations are appended as JSON lines. Null: no audit log. "
        "SIGHUP reopens the file.",
    ),
    string_row("audit.log.decisions", "denied", choices=("denied", "all"), kohort_only=True,
        doc="Operations in the audit log: denied ones only, or all.",
    ),
    boolean_row("allow.everyone.if.no.acl.found", False,
        doc="Whether all clients may access resources without ACLs.",
    ),
)

SASL: Final = (
    list_row("sasl.enabled.mechanisms", ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), per_listener=True,
        doc="Enabled SASL mechanisms. Kafka's default is GSSAPI.",
    ),
    password_row("sasl.jaas.config", None, per_listener=True,
        doc="Users of PLAIN, with the prefix of a listener and plain: PlainLoginModule required "
        'user_NAME="PASSWORD" …;, with the full class name of the module. username and '
        "password are the credentials of this node for connections to other nodes; for SCRAM, "
        "in ScramLoginModule.",
    ),
    string_row("sasl.mechanism.inter.broker.protocol", None, choices=tuple(LOGIN_MODULES),
        doc="SASL mechanism for connections between the nodes of a cluster. Kafka's default is "
        "GSSAPI.",
    ),
    long_row("connections.max.reauth.ms", 0, per_listener=True,
        doc="Maximum duration of a SASL session; clients must re-authenticate before it ends "
        "(KIP-368). 0: limited only by the lifetime of bearer tokens.",
    ),
    int_row("connection.failed.authentication.delay.ms", 100, minimum=0,
        doc="Delay of the response to a failed authentication.",
    ),
    int_row("sasl.server.max.receive.size", 524_288, minimum=1,
        doc="Maximum request size before authentication. Larger requests close the connection.",
    ),
    int_row("sasl.authentication.timeout.ms", 30_000, minimum=1, kohort_only=True,
        doc="Maximum duration of a SASL authentication.",
    ),
    int_row("max.failed.authentications.per.ip", 100, minimum=1, kohort_only=True,
        doc="Maximum number of failed SASL authentications per minute from one IP address (IPv6: "
        "/64 prefix). Beyond it, authentication waits for the next minute.",
    ),
    string_row("sasl.oauthbearer.jwks.endpoint.url", None, per_listener=True,
        doc="URL (https or file) of the JWKS with the keys that verify bearer tokens.",
    ),
    list_row("org.apache.kafka.sasl.oauthbearer.allowed.urls", (),
        doc="Allowed values of sasl.oauthbearer.jwks.endpoint.url. In Kafka, a system property.",
    ),
    long_row("sasl.oauthbearer.jwks.endpoint.refresh.ms", HOUR_MS, minimum=1_000, per_listener=True,
        doc="Refresh interval of the JWKS.",
    ),
    list_row("sasl.oauthbearer.expected.audience", (), per_listener=True,
        doc="Accepted audiences of tokens, of which a token must name one.",
    ),
    string_row("sasl.oauthbearer.expected.issuer", None, per_listener=True,
        doc="Required issuer of tokens.",
    ),
    boolean_row("sasl.oauthbearer.allow.unverified.audience", False, per_listener=True,
        doc="Whether tokens for any audience are accepted if sasl.oauthbearer.expected.audience is "
        "not set.",
    ),
    boolean_row("sasl.oauthbearer.allow.unverified.issuer", False, per_listener=True,
        doc="Whether tokens of any issuer are accepted if sasl.oauthbearer.expected.issuer is not "
        "set.",
    ),
    int_row("sasl.oauthbearer.clock.skew.seconds", 30, minimum=0, per_listener=True,
        doc="Allowed difference between the clocks of the server and the token issuer.",
    ),
    string_row("sasl.oauthbearer.sub.claim.name", "sub", per_listener=True,
        doc="Claim of a token that contains the principal.",
    ),
    boolean_row("sasl.oauthbearer.unsecured", False, kohort_only=True, per_listener=True,
        doc="Whether unsigned tokens are accepted if sasl.oauthbearer.jwks.endpoint.url is not "
        "set. Insecure: for development only.",
    ),
)
