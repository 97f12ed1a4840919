"""Publishes a skill, follows a run of it, and saves what it left. Needs: pip install skillbox"""

import os
import tempfile
from pathlib import Path

from skillbox import Client, LogEvent, ResultEvent

client = Client(os.environ.get("SKILLBOX_SERVER_URL", "http://localhost:8080"))
client.register_skill(Path(__file__).parents[1] / "skills" / "svg-chart")

points = [{"label": "Q1", "value": 3}, {"label": "Q2", "value": 5}]
started = client.start("svg-chart", input={"title": "Sales", "points": points})
for event in client.events(started.execution_id):
    if isinstance(event, LogEvent):
        print(event.text, end="")
    elif isinstance(event, ResultEvent):
        with tempfile.TemporaryDirectory() as directory:
            for path in client.download_files(event.result, directory):
                print(path.name, path.stat().st_size)
