// Create runs before the model: what it returns is what is asked. Throwing
// rejects the request.
export function Create(ctx, messages, options) {
  return { messages };
}
