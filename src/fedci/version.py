"""The one place the version stands; it is part of the handshake between coordinator and sites."""

__version__ = "0.2.0"
