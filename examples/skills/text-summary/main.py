"""Picks the sentences of a text that carry its most frequent words."""

import collections
import json
import os
import re
import sys

SAMPLE = (
    "Agents are given skills so that they can act and not only talk. A skill is a folder with instructions and scripts. "
    "Scripts written by strangers are a risk, because a script can read files, call the network and use up a machine. "
    "A sandbox takes that risk away: the script runs in a room of its own with a limit on memory, time and disk. "
    "Some people like green paint. "
    "When the script ends, the sandbox is thrown away, and the next script finds a clean sandbox."
)
COMMON = set(
    "a about after all also an and any are as at be because been but by can could did do does for from had has have he her "
    "his how i if in into is it its like more most no not of on one only or other our out own she so some such than that "
    "the their them then there these they this those to up use was we were what when which who will with would you your".split()
)


def read_input():
    # The variable is left out for large documents; the file is always there.
    text = os.environ.get("SANDBOX_INPUT")
    if text is None:
        with open("/sandbox/input.json", encoding="utf-8") as file:
            text = file.read()
    return json.loads(text) or {}


def words(text):
    return [word for word in re.findall(r"[^\W\d_]+", text.lower()) if word not in COMMON and len(word) > 2]


def sentences(text):
    return [part for part in re.split(r"(?<=[.!?])\s+", " ".join(text.split())) if part]


def summarise(text, keep):
    frequency = collections.Counter(words(text))
    scored = []
    for position, sentence in enumerate(sentences(text)):
        found = words(sentence)
        # The square root keeps long sentences from winning by length alone.
        score = sum(frequency[word] for word in found) / (len(found) ** 0.5 or 1)
        scored.append({"position": position, "score": round(score, 3), "text": sentence})
    best = sorted(scored, key=lambda entry: (-entry["score"], entry["position"]))[:keep]
    best.sort(key=lambda entry: entry["position"])
    summary = " ".join(entry["text"] for entry in best)
    return {
        "summary": summary,
        "sentences": best,
        "keywords": [word for word, _ in frequency.most_common(5)],
        "kept": round(len(summary) / len(text), 3) if text else 0.0,
    }


def main():
    request = read_input()
    text, keep = request.get("text", SAMPLE), request.get("sentences", 2)
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text must be a string with something in it")
    if not isinstance(keep, int) or not 1 <= keep <= 20:
        raise ValueError("sentences must be a number from 1 to 20")
    result = summarise(text, keep)
    with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
        json.dump(result, file, ensure_ascii=False)
    print(f"kept {len(result['sentences'])} of {len(sentences(text))} sentences")


if __name__ == "__main__":
    try:
        main()
    except ValueError as problem:
        sys.exit(f"text-summary: {problem}")
