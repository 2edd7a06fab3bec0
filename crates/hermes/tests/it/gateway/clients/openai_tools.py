"""Brings tools of its own to a gateway, with OpenAI's own client, and prints what came of it, as one object."""

import json
import sys

import openai

base_url, key = sys.argv[1:3]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
model = "hermes-agent"
function = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}
tools = [{"type": "function", "function": function}]


def call(arguments):
    return f"{json.loads(arguments)['at']}: 22 degrees"


# Chat completions, whole.
messages = [{"role": "user", "content": "Ask the weather."}]
first = client.chat.completions.create(model=model, messages=messages, tools=tools)
choice = first.choices[0]
messages.append(choice.message)
for wanted in choice.message.tool_calls:
    messages.append({"role": "tool", "tool_call_id": wanted.id, "content": call(wanted.function.arguments)})
second = client.chat.completions.create(model=model, messages=messages, tools=tools)

# The same in pieces, with a choice.
with client.chat.completions.stream(
    model=model,
    messages=[{"role": "user", "content": "Ask the weather."}],
    tools=tools,
    tool_choice={"type": "function", "function": {"name": "weather"}},
) as stream:
    for _ in stream:
        pass
    streamed = stream.get_final_completion().choices[0]

# Responses.
flat = [{"type": "function", **function}]
response = client.responses.create(model=model, input="Ask the weather.", tools=flat)
wanted = [item for item in response.output if item.type == "function_call"]
answers = [
    {"type": "function_call_output", "call_id": item.call_id, "output": call(item.arguments)} for item in wanted
]
after = client.responses.create(model=model, input=answers, tools=flat, previous_response_id=response.id)

with client.responses.stream(model=model, input="Say hello.") as stream:
    kinds = [event.type for event in stream]
    spoken = stream.get_final_response().output_text

print(
    json.dumps(
        {
            "finish": choice.finish_reason,
            "called": [wanted.function.name for wanted in choice.message.tool_calls],
            "answer": second.choices[0].message.content,
            "streamed_finish": streamed.finish_reason,
            "streamed": [json.loads(wanted.function.arguments) for wanted in streamed.message.tool_calls],
            "response_calls": [item.name for item in wanted],
            "response_answer": after.output_text,
            "spoken": spoken,
            "events": [kinds[0], kinds[-1]],
        }
    )
)
