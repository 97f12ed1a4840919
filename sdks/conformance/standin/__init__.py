"""A server that misbehaves on purpose.

The first segment of a path picks the behaviour, so an SDK is pointed at one by its base URL: `http://…/drop`.
"""
