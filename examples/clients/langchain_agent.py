"""An agent whose tools are the skills of a server. Needs: pip install "skillbox[langchain]" langchain

`model` stands for any chat model of LangChain that can call tools, such as ChatAnthropic or ChatOpenAI. Without one, a model that
follows a script shows the way.
"""

import os
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from skillbox import Client
from skillbox.langchain import SkillboxToolkit


class ScriptedModel(BaseChatModel):
    """Calls the word counter, and then says what it was told."""

    _llm_type = "scripted"

    def bind_tools(self, tools, **settings):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        call = {"name": "skillbox_word_counter", "args": {"input": {"text": "one two two"}}, "id": "call_1"}
        if isinstance(messages[-1], ToolMessage):
            message = AIMessage(f"The tool says {messages[-1].content}")
        else:
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


model = ScriptedModel()
client = Client(os.environ.get("SKILLBOX_SERVER_URL", "http://localhost:8080"))
client.register_skill(Path(__file__).parents[1] / "skills" / "word-counter")
agent = create_agent(model, SkillboxToolkit(client=client, skills=["word-counter"]).get_tools())
state = agent.invoke({"messages": [{"role": "user", "content": "How many words has 'one two two'?"}]})
for message in state["messages"]:
    message.pretty_print()
