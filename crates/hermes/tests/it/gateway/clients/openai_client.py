"""Talks to a gateway with OpenAI's own client and prints what came of it, as one object."""

import json
import sys

import openai

base_url, key = sys.argv[1:3]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
question = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}]

models = [model.id for model in client.models.list()]
card = client.models.retrieve(models[0])

whole = client.chat.completions.create(model=models[0], messages=question)

pieces, usage = [], None
stream = client.chat.completions.create(
    model=models[0], messages=question, stream=True, stream_options={"include_usage": True}
)
for chunk in stream:
    if chunk.usage:
        usage = chunk.usage.total_tokens
    pieces.extend(choice.delta.content or "" for choice in chunk.choices)
    finish = chunk.choices[0].finish_reason if chunk.choices else finish

raw = client.chat.completions.with_raw_response.create(model=models[0], messages=question)
session = raw.headers["X-Hermes-Session-Id"]
again = client.chat.completions.create(
    model=models[0],
    messages=[{"role": "user", "content": "And again."}],
    extra_headers={"X-Hermes-Session-Id": session},
)

try:
    openai.OpenAI(base_url=base_url, api_key="wrong", max_retries=0).models.list()
    refused = None
except openai.AuthenticationError as error:
    refused = error.code

print(
    json.dumps(
        {
            "models": models,
            "card": card.id,
            "whole": whole.choices[0].message.content,
            "whole_tokens": whole.usage.total_tokens,
            "pieces": "".join(pieces),
            "several": len([piece for piece in pieces if piece]) > 1,
            "stream_tokens": usage,
            "finish": finish,
            "again": again.choices[0].message.content,
            "refused": refused,
        }
    )
)
