"""Create certificates for development: of an authority, a server and a client.

    kohort certs dev DIR

Writes ca.pem, server.pem and client.pem, and prints the settings that use them. server.pem and
client.pem contain an unencrypted private key and the certificate. Keys are ECDSA on P-256.
Certificates are valid for `--days`. The key of the authority is not stored.
"""

import argparse
import ipaddress
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.cli.options import RefusedError

if TYPE_CHECKING:
    from cryptography import x509

FILES: Final = ("ca.pem", "server.pem", "client.pem")
_CLOCKS_DIFFER: Final = timedelta(hours=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    dev = commands.add_parser(
        "dev", help="create the certificates and keys of a server and a client", description=__doc__
    )
    dev.epilog = parser.epilog
    dev.add_argument(
        "directory", type=Path, metavar="DIR", help="output directory; created if it does not exist"
    )
    dev.add_argument(
        "--host",
        action="append",
        default=[],
        help="additional host name or IP address of the server; localhost and the names of this "
        "machine are always included; repeatable",
    )
    dev.add_argument(
        "--client",
        default="client",
        metavar="NAME",
        help="common name of the client certificate (default: client)",
    )
    dev.add_argument("--days", type=int, default=365, help="validity in days (default: 365)")


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    directory: Path = options.directory
    if existing := [name for name in FILES if (directory / name).exists()]:
        raise RefusedError(f"{directory}: {', '.join(existing)} exist; choose another directory")
    if not 1 <= options.days <= 10_000:
        raise RefusedError(f"--days {options.days}: is not from 1 to 10000")
    hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname(), *options.host))
    try:
        contents = _pem_files(tuple(hosts), options.client, options.days)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _write(directory / name, content)
    except ImportError:
        raise RefusedError(
            "certificates need a package that is not installed: pip install 'kohort[certs]'"
        ) from None
    except OSError as error:
        raise RefusedError(f"{directory}: {error.strerror}; choose another directory") from error
    except ValueError as error:
        raise RefusedError(f"{directory}: {error}") from error
    print(_instructions(directory))
    return 0


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


def _pem_files(hosts: tuple[str, ...], client: str, days: int) -> dict[str, bytes]:
    """The content of each file. Raises ImportError without `cryptography`, and ValueError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.now(UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kohort dev authority")])

    def builder(name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .issuer_name(authority)
            .subject_name(name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_DIFFER)
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                critical=False,
            )
        )

    def signed(made: x509.CertificateBuilder) -> bytes:
        return made.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issued(common_name: str, purpose: x509.ObjectIdentifier, names: tuple[str, ...]) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        made = (
            builder(name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if names:
            made = made.add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in names]),
                critical=False,
            )
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ) + signed(made)

    server_files = (
        builder(authority, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False, content_commitment=False, key_encipherment=False,
                data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
                encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
    )  # fmt: skip
    return {
        "ca.pem": signed(server_files),
        "server.pem": issued("kohort", ExtendedKeyUsageOID.SERVER_AUTH, hosts),
        "client.pem": issued(client, ExtendedKeyUsageOID.CLIENT_AUTH, ()),
    }


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _instructions(directory: Path) -> str:
    return f"""\
wrote {", ".join(FILES)} to {directory}; they are for development, keep them to yourself

server: kohort serve --listen SSL://127.0.0.1:9093 \\
  --set ssl.keystore.location={directory}/server.pem \\
  --set ssl.truststore.location={directory}/ca.pem --set ssl.client.auth=required
client: security.protocol=SSL ssl.ca.location={directory}/ca.pem \\
  ssl.certificate.location={directory}/client.pem ssl.key.location={directory}/client.pem"""
