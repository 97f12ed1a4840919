"""The version of this package, in one place for packaging and for the User-Agent."""

VERSION = "0.1.0"
