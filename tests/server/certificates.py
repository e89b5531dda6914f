"""Certificates for tests, as PEM files of a directory."""

import ssl
from datetime import datetime
from pathlib import Path

import trustme


class Authority:
    """An authority, and the certificates it signed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.file = directory / f"ca-{id(self)}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(
        self,
        name: str,
        *hosts: str,
        common_name: str | None = None,
        expires: datetime | None = None,
        begins: datetime | None = None,
    ) -> Path:
        """A new key and certificate in the file `name`, which only its owner can read."""
        made = self._ca.issue_cert(
            *(hosts or ("localhost", "127.0.0.1")),
            common_name=common_name,
            organization_unit_name="testing",
            key_type=trustme.KeyType.ECDSA,
            not_before=begins,
            not_after=expires,
        )
        path = self._directory / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        made.private_key_and_cert_chain_pem.write_to_path(path)
        return path

    def client(self, certificate: Path | None = None) -> ssl.SSLContext:
        """The context of a client that trusts the authority."""
        context = ssl.create_default_context(cafile=str(self.file))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
