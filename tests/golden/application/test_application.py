"""The application's own calls of a model, through the gateway."""

import openai
import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.fixture(scope="session")
def rageval_generator():
    client = openai.OpenAI(max_retries=0)

    def generate(question, passages):
        passages = "\n".join(passage.text for passage in passages)
        prompt = f"Question: {question}\nPassages:\n<p>\n{passages}\n</p>"
        reply = client.chat.completions.create(model="m1", messages=[{"role": "user", "content": prompt}])
        return reply.choices[0].message.content

    return generate


@pytest.mark.rageval_threshold("answer.em@1", min=0.9, max_drop=0.02)
def test_gate():
    pass
