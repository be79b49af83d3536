// Create runs before the agent: what it returns is what is asked. Throwing
// rejects the request.
export function Create(ctx, messages, options) {
  log.Info("files: %s", ctx.sandbox.ListDir(".").map((f) => f.name).join(", "));
  return { messages };
}

// Next runs after the agent, while the sandbox is still there. null: its answer
// is the answer.
export function Next(ctx, payload, options) {
  return null;
}
