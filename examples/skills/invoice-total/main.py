"""Adds up an invoice in decimal arithmetic."""

import json
import os
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def read_input():
    # The variable is left out for large documents; the file is always there.
    text = os.environ.get("SANDBOX_INPUT")
    if text is None:
        with open("/sandbox/input.json", encoding="utf-8") as file:
            text = file.read()
    # Numbers are read as decimals too: 0.1 stays 0.1.
    return json.loads(text, parse_float=Decimal)


def cents(amount):
    return amount.quantize(CENT, ROUND_HALF_UP)


invoice = read_input()
lines = [
    {"description": line["description"], "amount": cents(Decimal(line["quantity"]) * Decimal(line["unit_price"]))}
    for line in invoice["lines"]
]
net = sum(line["amount"] for line in lines)
discount = cents(net * Decimal(invoice.get("discount_percent", 0)) / 100)
tax = cents((net - discount) * Decimal(invoice.get("tax_percent", 0)) / 100)
result = {
    "currency": invoice["currency"],
    "net": net,
    "discount": discount,
    "tax": tax,
    "total": net - discount + tax,
    "lines": lines,
}
with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
    json.dump(result, file, default=str)
print(f"total {result['total']} {result['currency']}")
