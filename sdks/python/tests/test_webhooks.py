"""Webhooks: the published example of Standard Webhooks, and everything that must not pass."""

import base64
import hashlib
import hmac
import json

import pytest

from skillbox import WebhookError
from skillbox.webhooks import verify

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
BODY = json.dumps(
    {"type": "execution.finished", "timestamp": "2026-01-01T00:00:00Z", "data": {"execution_id": "x"}}
).encode()
NOW = 1_767_225_600


def signed(body=BODY, at=NOW, key=b"0123456789abcdef0123456789abcdef"):
    mac = hmac.new(key, b".".join([b"msg_1", str(at).encode(), body]), hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(mac).decode()
    return {"Webhook-Id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signature}


def test_a_genuine_one_is_read():
    webhook = verify(SECRET, signed(), BODY, now=NOW + 10)
    assert (webhook.id, webhook.type, webhook.data) == ("msg_1", "execution.finished", {"execution_id": "x"})


def test_one_of_several_signatures_is_enough():
    headers = signed()
    headers["webhook-signature"] = "v1,bm90IHRoaXM= v2,later " + headers["webhook-signature"]
    assert verify(SECRET, headers, BODY, now=NOW).id == "msg_1"


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (signed(), BODY + b" ", NOW),
        (signed(key=b"another"), BODY, NOW),
        (signed(), BODY, NOW + 301),
        (signed(), BODY, NOW - 301),
        ({}, BODY, NOW),
        ({**signed(), "webhook-id": "msg_2", "Webhook-Id": "msg_2"}, BODY, NOW),
        ({**signed(), "webhook-signature": "v1,%%%"}, BODY, NOW),
    ],
)
def test_anything_else_is_refused(headers, body, now):
    with pytest.raises(WebhookError):
        verify(SECRET, headers, body, now=now)


def test_the_servers_secret_is_one(live):
    with pytest.raises(WebhookError):
        verify(live.get_webhook_secret(), signed(), BODY, now=NOW)
