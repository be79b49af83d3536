package modeltest

import (
	"encoding/json"
	"fmt"
)

// answerGemini answers POST /v1beta/models/M:generateContent and
// :streamGenerateContent.
func (a *answer) answerGemini() {
	stop := "STOP"
	if s := map[string]string{"length": "MAX_TOKENS", "refused": "SAFETY"}[a.Stop]; s != "" {
		stop = s
	}
	usage := object{"promptTokenCount": a.Input, "candidatesTokenCount": a.Output, "totalTokenCount": a.Input + a.Output}
	chunk := func(parts []any, last bool) object {
		c := object{"content": object{"role": "model", "parts": parts}, "index": 0}
		v := object{"candidates": []any{c}, "modelVersion": a.model, "responseId": fmt.Sprintf("resp%04d", a.n)}
		if last {
			c["finishReason"], v["usageMetadata"] = stop, usage
		}
		return v
	}
	var calls []any
	for i, u := range a.Tools {
		calls = append(calls, object{"functionCall": object{"id": a.callID(i), "name": u.Name, "args": json.RawMessage(u.inputJSON())}})
	}
	var thought []any
	if a.Thinking != "" {
		thought = []any{object{"text": a.Thinking, "thought": true}}
	}
	if !a.stream {
		parts := thought
		if a.Text != "" {
			parts = append(parts, object{"text": a.Text})
		}
		a.endCut()
		writeJSON(a, chunk(append(parts, calls...), true))
		return
	}
	if thought != nil {
		a.writeEvent("", chunk(thought, false))
	}
	for _, p := range a.splitText(a.Text) {
		a.writeEvent("", chunk([]any{object{"text": p}}, false))
		a.pauseAfterPiece()
	}
	a.endCut()
	if calls == nil {
		calls = []any{object{"text": ""}}
	}
	a.writeEvent("", chunk(calls, true))
}
