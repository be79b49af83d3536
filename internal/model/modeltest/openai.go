package modeltest

import "fmt"

func (a *answer) openAIUsage() object {
	return object{"prompt_tokens": a.Input, "completion_tokens": a.Output, "total_tokens": a.Input + a.Output}
}

func (a *answer) openAIStop() string {
	switch {
	case a.Stop == "length":
		return "length"
	case a.Stop == "refused":
		return "content_filter"
	case len(a.Tools) > 0:
		return "tool_calls"
	}
	return "stop"
}

// answerChat answers POST /v1/chat/completions.
func (a *answer) answerChat() {
	id := fmt.Sprintf("chatcmpl-%04d", a.n)
	if !a.stream {
		message := object{"role": "assistant", "content": nil}
		if a.Text != "" {
			message["content"] = a.Text
		}
		if a.Thinking != "" {
			message["reasoning_content"] = a.Thinking
		}
		var calls []any
		for i, u := range a.Tools {
			calls = append(calls, object{"id": a.callID(i), "type": "function", "function": object{"name": u.Name, "arguments": u.inputJSON()}})
		}
		if calls != nil {
			message["tool_calls"] = calls
		}
		a.endCut()
		writeJSON(a, object{
			"id": id, "object": "chat.completion", "created": 1, "model": a.model, "usage": a.openAIUsage(),
			"choices": []any{object{"index": 0, "message": message, "finish_reason": a.openAIStop()}},
		})
		return
	}
	chunk := func(delta object, stop any) {
		a.writeEvent("", object{
			"id": id, "object": "chat.completion.chunk", "created": 1, "model": a.model,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": stop}},
		})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	if a.Thinking != "" {
		chunk(object{"reasoning_content": a.Thinking}, nil)
	}
	for _, p := range a.splitText(a.Text) {
		chunk(object{"content": p}, nil)
		a.pauseAfterPiece()
	}
	for i, u := range a.Tools {
		chunk(object{"tool_calls": []any{object{"index": i, "id": a.callID(i), "type": "function", "function": object{"name": u.Name, "arguments": ""}}}}, nil)
		for _, p := range a.splitText(u.inputJSON()) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	a.endCut()
	chunk(object{}, a.openAIStop())
	a.writeEvent("", object{"id": id, "object": "chat.completion.chunk", "created": 1, "model": a.model, "choices": []any{}, "usage": a.openAIUsage()})
	a.writeEvent("", "[DONE]")
}

// answerResponses answers POST /v1/responses.
func (a *answer) answerResponses() {
	r := object{"id": fmt.Sprintf("resp_%04d", a.n), "object": "response", "created_at": 1, "model": a.model, "status": "in_progress", "output": []any{}}
	var output []any
	item := func(v object, whole object, deltas func(n int)) {
		n := len(output)
		output = append(output, whole)
		if a.stream {
			a.writeEvent("response.output_item.added", object{"type": "response.output_item.added", "output_index": n, "item": v})
			deltas(n)
			a.writeEvent("response.output_item.done", object{"type": "response.output_item.done", "output_index": n, "item": whole})
		}
	}
	if a.stream {
		a.writeEvent("response.created", object{"type": "response.created", "response": r})
	}
	if a.Text != "" {
		id := fmt.Sprintf("msg_%04d", a.n)
		part := object{"type": "output_text", "text": a.Text, "annotations": []any{}}
		message := object{"id": id, "type": "message", "role": "assistant", "status": "completed", "content": []any{part}}
		item(object{"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}, message, func(n int) {
			at := object{"item_id": id, "output_index": n, "content_index": 0}
			a.writeEventAt("response.content_part.added", at, object{"part": object{"type": "output_text", "text": "", "annotations": []any{}}})
			for _, p := range a.splitText(a.Text) {
				a.writeEventAt("response.output_text.delta", at, object{"delta": p})
				a.pauseAfterPiece()
			}
			a.writeEventAt("response.output_text.done", at, object{"text": a.Text})
			a.writeEventAt("response.content_part.done", at, object{"part": part})
		})
	}
	for i, u := range a.Tools {
		id := fmt.Sprintf("fc_%04d_%d", a.n, i)
		call := func(status, arguments string) object {
			v := object{"id": id, "type": "function_call", "call_id": a.callID(i), "name": u.Name, "status": status, "arguments": arguments}
			if u.Namespace != "" {
				v["namespace"] = u.Namespace
			}
			return v
		}
		item(call("in_progress", ""), call("completed", u.inputJSON()), func(n int) {
			at := object{"item_id": id, "output_index": n}
			for _, p := range a.splitText(u.inputJSON()) {
				a.writeEventAt("response.function_call_arguments.delta", at, object{"delta": p})
			}
			a.writeEventAt("response.function_call_arguments.done", at, object{"arguments": u.inputJSON()})
		})
	}
	a.endCut()
	r["status"], r["output"] = "completed", output
	r["usage"] = object{"input_tokens": a.Input, "output_tokens": a.Output, "total_tokens": a.Input + a.Output}
	if a.Stop == "length" {
		r["status"], r["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	if !a.stream {
		writeJSON(a, r)
		return
	}
	a.writeEvent("response.completed", object{"type": "response.completed", "response": r})
}

// writeEventAt writes an event of a place in the output.
func (a *answer) writeEventAt(name string, at, v object) {
	all := object{"type": name}
	for _, m := range []object{at, v} {
		for k, e := range m {
			all[k] = e
		}
	}
	a.writeEvent(name, all)
}
