"""Imports kio as where Hypothesis is not installed, which users' programs do not import."""

from kohort.kio_import import import_kio

import_kio()
