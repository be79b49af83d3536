package modeltest

import (
	"encoding/json"
	"fmt"
)

type object = map[string]any

func (a *answer) callID(i int) string { return fmt.Sprintf("toolu_%04d_%d", a.n, i) }

// answerAnthropic answers POST /v1/messages.
func (a *answer) answerAnthropic() {
	stop := "end_turn"
	if len(a.Tools) > 0 {
		stop = "tool_use"
	}
	if s := map[string]string{"length": "max_tokens", "refused": "refusal"}[a.Stop]; s != "" {
		stop = s
	}
	message := object{
		"id": fmt.Sprintf("msg_%04d", a.n), "type": "message", "role": "assistant", "model": a.model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": a.Input, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
	if !a.stream {
		var content []any
		if a.Thinking != "" {
			content = append(content, object{"type": "thinking", "thinking": a.Thinking, "signature": "sig"})
		}
		if a.Text != "" {
			content = append(content, object{"type": "text", "text": a.Text})
		}
		for i, u := range a.Tools {
			content = append(content, object{"type": "tool_use", "id": a.callID(i), "name": u.Name, "input": json.RawMessage(u.inputJSON())})
		}
		a.endCut()
		message["content"], message["stop_reason"] = content, stop
		message["usage"] = object{"input_tokens": a.Input, "output_tokens": a.Output}
		writeJSON(a, message)
		return
	}
	a.writeEvent("message_start", object{"type": "message_start", "message": message})
	a.writeEvent("ping", object{"type": "ping"})
	n := 0
	block := func(start object, deltas []object) {
		a.writeEvent("content_block_start", object{"type": "content_block_start", "index": n, "content_block": start})
		for _, d := range deltas {
			a.writeEvent("content_block_delta", object{"type": "content_block_delta", "index": n, "delta": d})
			if d["type"] == "text_delta" {
				a.pauseAfterPiece()
			}
		}
		a.writeEvent("content_block_stop", object{"type": "content_block_stop", "index": n})
		n++
	}
	if a.Thinking != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, []object{{"type": "thinking_delta", "thinking": a.Thinking}, {"type": "signature_delta", "signature": "sig"}})
	}
	if a.Text != "" {
		var deltas []object
		for _, p := range a.splitText(a.Text) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		block(object{"type": "text", "text": ""}, deltas)
	}
	for i, u := range a.Tools {
		var deltas []object
		for _, p := range a.splitText(u.inputJSON()) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
		}
		block(object{"type": "tool_use", "id": a.callID(i), "name": u.Name, "input": object{}}, deltas)
	}
	a.endCut()
	a.writeEvent("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": a.Output}})
	a.writeEvent("message_stop", object{"type": "message_stop"})
}
