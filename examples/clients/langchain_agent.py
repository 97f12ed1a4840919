"""An agent whose tools are the skills of a server. Needs: pip install "skillbox[langchain]" langchain

`model` stands for any chat model of LangChain that can call tools, such as ChatAnthropic or ChatOpenAI. Without one, a model that
follows a script shows the way.
"""

import os
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from skillbox import Client
from skillbox.langchain import SkillboxToolkit


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **settings):
        return self


call = {"name": "skillbox_word_counter", "args": {"input": {"text": "one two two"}}, "id": "call_1"}
model = ScriptedModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("It has three words.")]))

client = Client(os.environ.get("SKILLBOX_SERVER_URL", "http://localhost:8080"))
client.register_skill(Path(__file__).parents[1] / "skills" / "word-counter")
agent = create_agent(model, SkillboxToolkit(client=client, skills=["word-counter"]).get_tools())
state = agent.invoke({"messages": [{"role": "user", "content": "How many words has 'one two two'?"}]})
for message in state["messages"]:
    message.pretty_print()
