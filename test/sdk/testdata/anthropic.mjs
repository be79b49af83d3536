// Uses an assistant with Anthropic's SDK. The first argument names the scenario, the
// second the assistant. A failed check throws.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const [scenario, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL: process.env.BASE, apiKey: process.env.TOKEN, maxRetries: 0, timeout: 60_000 });
const tools = [
  {
    name: "get_weather",
    description: "The weather of a city",
    input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
];
const ask = [{ role: "user", content: "Hello?" }];
const text = (m) => m.content.filter((b) => b.type === "text").map((b) => b.text).join("");

const scenarios = {
  async models() {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert(ids.includes("qa") && ids.includes("coder"), ids.join());
  },
  async whole() {
    const m = await client.messages.create({ model, max_tokens: 100, messages: ask });
    assert.equal(text(m), "Hello from the scripted model.");
    assert.equal(m.stop_reason, "end_turn");
    assert.equal(m.role, "assistant");
    assert(m.usage.output_tokens > 0);
    assert.equal(m.model, model);
  },
  async stream() {
    let pieces = 0;
    const stream = client.messages.stream({ model, max_tokens: 100, messages: ask }).on("text", () => pieces++);
    const m = await stream.finalMessage();
    assert.equal(text(m), "Hello from the scripted model.");
    assert(pieces > 1, `${pieces} pieces`);
    assert.equal(m.stop_reason, "end_turn");
    assert(m.usage.output_tokens > 0);
  },
  async tools() {
    for (const stream of [false, true]) {
      const messages = [...ask];
      const say = async () => {
        const request = { model, max_tokens: 100, messages, tools };
        return stream ? client.messages.stream(request).finalMessage() : client.messages.create(request);
      };
      const first = await say();
      assert.equal(first.stop_reason, "tool_use");
      const use = first.content.find((b) => b.type === "tool_use");
      assert.equal(use.name, "get_weather");
      assert.deepEqual(use.input, { city: "Suva" });
      messages.push({ role: "assistant", content: first.content });
      messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "31 degrees" }] });
      const last = await say();
      assert.equal(text(last), "It is warm in Suva.");
      assert.equal(last.stop_reason, "end_turn");
    }
  },
  async image() {
    const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const content = [{ type: "text", text: "What is this?" }, { type: "image", source: { type: "base64", media_type: "image/png", data } }];
    const m = await client.messages.create({ model, max_tokens: 100, messages: [{ role: "user", content }] });
    assert.equal(text(m), "Hello from the scripted model.");
  },
  async count() {
    const c = await client.messages.countTokens({ model, messages: ask });
    assert(c.input_tokens > 0);
  },
  async errors() {
    await assert.rejects(client.messages.create({ model: "nobody", max_tokens: 100, messages: ask }), Anthropic.NotFoundError);
    await assert.rejects(client.messages.create({ model, max_tokens: 100, messages: "hello" }), Anthropic.BadRequestError);
    const stranger = new Anthropic({ baseURL: process.env.BASE, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.messages.create({ model, max_tokens: 100, messages: ask }), Anthropic.AuthenticationError);
  },
  async failure() {
    await assert.rejects(client.messages.create({ model, max_tokens: 100, messages: ask }), Anthropic.APIError);
  },
};
await scenarios[scenario]();
