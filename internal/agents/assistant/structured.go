package assistant

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// maxCorrections is how often a model is asked to correct an answer that does not follow the schema.
const maxCorrections = 2

// codeStructured is the code of a result whose answer does not follow the schema.
const codeStructured = "structured_output"

// maxSchemaBytes limits the schema of an answer.
const maxSchemaBytes = 256 << 10

// answerSchema checks answers of a model against the schema of a request.
type answerSchema struct {
	resolved  *jsonschema.Resolved
	limit     *schemaLimit
	corrected int // answers that the model was asked to correct
}

// compileSchema compiles the schema of answers; nil for none.
func compileSchema(raw json.RawMessage) (*answerSchema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if len(raw) > maxSchemaBytes {
		return nil, fieldError("response_format", "%w: the schema has %d bytes: the limit is %d", atoll.ErrInvalid, len(raw), maxSchemaBytes)
	}
	var js jsonschema.Schema
	err := tool.CheckDepth(raw)
	if err == nil {
		err = json.Unmarshal(raw, &js)
	}
	s := &answerSchema{}
	if err == nil {
		s.limit, err = newSchemaLimit(&js)
	}
	if err == nil {
		s.resolved, err = js.Resolve(&jsonschema.ResolveOptions{})
	}
	if err != nil {
		return nil, fieldError("response_format", "%w: the schema: %w", atoll.ErrInvalid, err)
	}
	return s, nil
}

// parseAnswer returns the JSON of an answer, which may be in a fence of Markdown, or an error for the model.
func (s *answerSchema) parseAnswer(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if body, ok := strings.CutPrefix(text, "```"); ok {
		body = strings.TrimPrefix(body, "json")
		text = strings.TrimSpace(strings.TrimSuffix(body, "```"))
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if err := s.limit.checkCost(v); err != nil {
		return nil, err
	}
	if err := s.resolved.Validate(v); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// checkAnswer ends the loop with an answer that follows the schema, and has the model correct another one: then more is true. The text
// is emitted only when it is final, since clients can't take it back.
func (d *modelLoop) checkAnswer(a *dialect.Response) (res agent.Result, more bool) {
	res = d.buildResult(a)
	if d.schema == nil || res.Outcome != agent.OK {
		d.emitHeld()
		return res, false
	}
	structured, err := d.schema.parseAnswer(d.text)
	if err == nil {
		d.held = []byte(string(structured))
		d.emitHeld()
		res.Text, res.Structured = string(structured), structured
		return res, false
	}
	why := explainAnswer(err)
	if d.schema.corrected == maxCorrections || a.Stop == dialect.StopLength {
		d.held = nil
		res.Outcome, res.Code, res.Text = agent.Failed, codeStructured, ""
		res.Message = fmt.Sprintf("the model's answer does not follow the schema after %d corrections: %s", d.schema.corrected, why)
		return res, false
	}
	d.schema.corrected++
	d.held = nil
	d.r.emitEvent(agent.Event{Type: agent.Retrying, Retry: &agent.Retry{Attempt: d.schema.corrected, Message: "the answer does not follow the schema: " + why}})
	d.query.Messages = append(d.query.Messages,
		dialect.Message{Role: dialect.Assistant, Parts: textParts(d.text)},
		dialect.Message{Role: dialect.User, Parts: textParts("This answer does not follow the JSON schema: " + why + "\nAnswer again with the corrected JSON only.")})
	return res, true
}

// explainAnswer returns why an answer does not follow its schema. The checker's text may have the whole answer, several times.
func explainAnswer(err error) string {
	const most = 2000
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// emitHeld emits the text of the answer, if it was held back.
func (d *modelLoop) emitHeld() {
	if len(d.held) == 0 {
		return
	}
	text := string(d.held)
	d.held = nil
	d.r.emitEvent(agent.Event{Type: agent.TextDelta, Text: text})
	d.r.emitEvent(agent.Event{Type: agent.TextDone, Text: text})
}
