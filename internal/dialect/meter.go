package dialect

import (
	"encoding/json"
)

// Meter reads what an answer used from its bytes, as they are passed on.
type Meter struct {
	API   Name
	Usage Usage // so far
	Told  bool  // Usage is what the API told of all of the answer
	Text  int   // bytes of text, thinking and input of tools so far
	Extra bool  // the last event held only what OpenAI's include_usage asks for

	finish bool
}

// Event takes an event of a stream. It reports whether nothing of what counts
// can follow.
func (m *Meter) Event(data []byte) bool {
	switch m.API {
	case Anthropic:
		return m.anthropic(data)
	case OpenAI:
		return m.openai(data)
	case Responses:
		return m.responses(data)
	case Gemini:
		return m.gemini(data)
	}
	return false
}

func (m *Meter) responses(data []byte) bool {
	var e responsesEvent
	if json.Unmarshal(data, &e) != nil {
		m.Text += len(data)
		return false
	}
	m.Text += len(e.Delta)
	if e.Response.Usage != nil {
		m.Usage, m.Told = e.Response.Usage.usage(), true
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed", "error":
		return true
	}
	return false
}

func (m *Meter) gemini(data []byte) bool {
	var a geminiAnswer
	if json.Unmarshal(data, &a) != nil {
		m.Text += len(data)
		return false
	}
	for i := range a.Candidates {
		for _, p := range a.Candidates[i].Content.Parts {
			m.Text += len(p.Text)
			if p.Call != nil {
				m.Text += len(p.Call.Args)
			}
		}
		m.finish = m.finish || a.Candidates[i].Finish != ""
	}
	m.finish = m.finish || a.Feedback.Block != ""
	if a.Usage != nil {
		m.Usage, m.Told = a.Usage.usage(), m.finish
	}
	return m.finish
}

func (m *Meter) anthropic(data []byte) bool {
	var e anthropicEvent
	if json.Unmarshal(data, &e) != nil {
		m.Text += len(data)
		return false
	}
	e.Message.Usage.add(&m.Usage)
	e.Usage.add(&m.Usage)
	m.Text += len(e.Delta.Text) + len(e.Delta.Thinking) + len(e.Delta.PartialJSON) + len(e.Block.Text)
	m.Told = m.Told || e.Type == "message_delta" && e.Usage.Output != nil
	return e.Type == "message_delta" || e.Type == "message_stop" || e.Type == "error"
}

func (m *Meter) openai(data []byte) bool {
	m.Extra = false
	if string(data) == "[DONE]" {
		return true
	}
	var c openaiAnswer
	if json.Unmarshal(data, &c) != nil {
		m.Text += len(data)
		return false
	}
	for i := range c.Choices {
		d := &c.Choices[i].Delta
		m.Text += len(d.Content) + len(d.Reasoning) + len(d.Thoughts) + len(d.Refusal)
		for _, t := range d.ToolCalls {
			m.Text += len(t.Function.Arguments)
		}
		m.finish = m.finish || c.Choices[i].Finish != ""
	}
	if c.Usage != nil && (c.Usage.Prompt > 0 || c.Usage.Completion > 0) {
		m.Usage = c.Usage.usage()
		m.Told = m.finish || len(c.Choices) == 0
		m.Extra = len(c.Choices) == 0
	}
	return m.finish && m.Told
}

// Whole takes an answer that is not a stream.
func (m *Meter) Whole(body []byte) {
	m.Text = len(body)
	switch m.API {
	case Anthropic:
		var in struct {
			Usage anthropicUsage `json:"usage"`
		}
		if json.Unmarshal(body, &in) == nil && in.Usage.Output != nil {
			in.Usage.add(&m.Usage)
			m.Told = true
		}
	case OpenAI:
		var in openaiAnswer
		if json.Unmarshal(body, &in) == nil && in.Usage != nil {
			m.Usage, m.Told = in.Usage.usage(), true
		}
	case Responses:
		var in responsesAnswer
		if json.Unmarshal(body, &in) == nil && in.Usage != nil {
			m.Usage, m.Told = in.Usage.usage(), true
		}
	case Gemini:
		var in geminiAnswer
		if json.Unmarshal(body, &in) == nil && in.Usage != nil {
			m.Usage, m.Told = in.Usage.usage(), true
		}
	}
}

// Tokens is about how many tokens so many bytes of text are.
func Tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// pictureTokens is about what a picture costs.
const pictureTokens = 1600

// Estimate is about how many tokens a request has.
func Estimate(q *Request) int64 {
	n := int64(0)
	for _, t := range q.Tools {
		n += Tokens(len(t.Name)+len(t.Description)+len(t.Schema)) + 8
	}
	for _, m := range q.Messages {
		n += 4 + estimate(m.Parts)
	}
	return n + 3
}

func estimate(parts []Part) int64 {
	n := int64(0)
	for _, p := range parts {
		switch p.Type {
		case ImagePart:
			n += pictureTokens
		case FilePart:
			n += max(Tokens(len(p.Data)), pictureTokens)
		default:
			n += Tokens(len(p.Text)+len(p.Name)+len(p.Input)) + 2 + estimate(p.Parts)
		}
	}
	return n
}

// Replay tells a whole answer as if it had come in pieces.
func Replay(a *Response, f func(Delta) error) error {
	list := []Delta{{Type: Begin, ID: a.ID, Model: a.Model}, {Type: UsageTold, Usage: a.Usage}}
	for _, p := range a.Parts {
		switch p.Type {
		case TextPart:
			list = append(list, Delta{Type: TextDelta, Text: p.Text})
		case ThinkingPart:
			if p.Text != "" {
				list = append(list, Delta{Type: ThinkingDelta, Text: p.Text})
			}
			list = append(list, Delta{Type: ThinkingEnd, Text: p.Signature})
		case ToolUse:
			list = append(list, Delta{Type: ToolBegin, ID: p.ID, Name: p.Name, Text: p.Signature}, Delta{Type: ToolDelta, Text: string(p.Input)})
		}
	}
	for _, d := range append(list, Delta{Type: End, Stop: a.Stop, Usage: a.Usage}) {
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}
