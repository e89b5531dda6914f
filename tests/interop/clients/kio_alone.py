"""Imports kio as where Hypothesis is not installed, which users' programs do not import."""

from kohort.util.kio import import_kio

import_kio()
