// Uses an assistant with OpenAI's SDK. The first argument names the scenario, the
// second the assistant. A failed check throws.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [scenario, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: process.env.TOKEN, maxRetries: 0, timeout: 60_000 });
const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];
const ask = [{ role: "user", content: "Hello?" }];

// collect reads a stream to its end.
async function collect(stream) {
  const all = { text: "", pieces: 0, calls: [], finish: null, usage: null };
  for await (const chunk of stream) {
    if (chunk.usage) all.usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) continue;
    if (choice.delta.content) {
      all.text += choice.delta.content;
      all.pieces++;
    }
    for (const c of choice.delta.tool_calls ?? []) {
      all.calls[c.index] ??= { id: c.id, type: "function", function: { name: c.function.name, arguments: "" } };
      all.calls[c.index].function.arguments += c.function.arguments ?? "";
    }
    if (choice.finish_reason) all.finish = choice.finish_reason;
  }
  return all;
}

const scenarios = {
  async models() {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert(ids.includes("qa") && ids.includes("coder"), ids.join());
    assert.equal((await client.models.retrieve("qa")).id, "qa");
  },
  async whole() {
    const r = await client.chat.completions.create({ model, messages: ask });
    assert.equal(r.choices[0].message.content, "Hello from the scripted model.");
    assert.equal(r.choices[0].finish_reason, "stop");
    assert(r.usage.total_tokens > 0);
    assert.equal(r.model, model);
  },
  async stream() {
    const r = await collect(await client.chat.completions.create({ model, messages: ask, stream: true, stream_options: { include_usage: true } }));
    assert.equal(r.text, "Hello from the scripted model.");
    assert(r.pieces > 1, `${r.pieces} pieces`);
    assert.equal(r.finish, "stop");
    assert(r.usage.total_tokens > 0);
  },
  async tools() {
    for (const stream of [false, true]) {
      const messages = [...ask];
      const request = () => ({ model, messages, tools, ...(stream ? { stream: true } : {}) });
      let r = await client.chat.completions.create(request());
      const first = stream ? await collect(r) : { finish: r.choices[0].finish_reason, calls: r.choices[0].message.tool_calls };
      assert.equal(first.finish, "tool_calls");
      assert.equal(first.calls.length, 1);
      assert.equal(first.calls[0].function.name, "get_weather");
      assert.deepEqual(JSON.parse(first.calls[0].function.arguments), { city: "Suva" });
      messages.push({ role: "assistant", content: null, tool_calls: first.calls });
      messages.push({ role: "tool", tool_call_id: first.calls[0].id, content: "31 degrees" });
      r = await client.chat.completions.create(request());
      const last = stream ? await collect(r) : { text: r.choices[0].message.content, finish: r.choices[0].finish_reason };
      assert.equal(last.text, "It is warm in Suva.");
      assert.equal(last.finish, "stop");
    }
  },
  async image() {
    const url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const r = await client.chat.completions.create({ model, messages: [{ role: "user", content: [{ type: "text", text: "What is this?" }, { type: "image_url", image_url: { url } }] }] });
    assert.equal(r.choices[0].message.content, "Hello from the scripted model.");
  },
  async errors() {
    await assert.rejects(client.chat.completions.create({ model: "nobody", messages: ask }), OpenAI.NotFoundError);
    await assert.rejects(client.chat.completions.create({ model, messages: "hello" }), OpenAI.BadRequestError);
    const stranger = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.chat.completions.create({ model, messages: ask }), OpenAI.AuthenticationError);
  },
  async abort() {
    const stream = await client.chat.completions.create({ model, messages: ask, stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) break; // ends the connection
    }
  },
  async failure() {
    await assert.rejects(client.chat.completions.create({ model, messages: ask }), OpenAI.APIError);
  },
};
await scenarios[scenario]();
