package dialect

import "encoding/json"

// Meter reads the usage of an answer from its bytes while they are forwarded.
type Meter struct {
	API       Name
	Usage     Usage // so far
	Final     bool  // Usage is the API's report for the whole answer
	TextBytes int   // bytes of text, thinking and tool input so far
	UsageOnly bool  // the last event has only the usage that OpenAI's include_usage requests

	finish bool
}

// ReadEvent reads an event of a stream. It reports whether no later event can change the usage.
func (m *Meter) ReadEvent(data []byte) bool {
	switch m.API {
	case Anthropic:
		return m.meterAnthropic(data)
	case OpenAI:
		return m.meterOpenAI(data)
	case Responses:
		return m.meterResponses(data)
	case Gemini:
		return m.meterGemini(data)
	}
	return false
}

func (m *Meter) meterResponses(data []byte) bool {
	var e responsesEvent
	if json.Unmarshal(data, &e) != nil {
		m.TextBytes += len(data)
		return false
	}
	m.TextBytes += len(e.Delta)
	if e.Response.Usage != nil {
		m.Usage, m.Final = e.Response.Usage.toUsage(), true
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed", "error":
		return true
	}
	return false
}

func (m *Meter) meterGemini(data []byte) bool {
	var a geminiAnswer
	if json.Unmarshal(data, &a) != nil {
		m.TextBytes += len(data)
		return false
	}
	for i := range a.Candidates {
		for _, p := range a.Candidates[i].Content.Parts {
			m.TextBytes += len(p.Text)
			if p.Call != nil {
				m.TextBytes += len(p.Call.Args)
			}
		}
		m.finish = m.finish || a.Candidates[i].Finish != ""
	}
	m.finish = m.finish || a.Feedback.Block != ""
	if a.Usage != nil {
		m.Usage, m.Final = a.Usage.toUsage(), m.finish
	}
	return m.finish
}

func (m *Meter) meterAnthropic(data []byte) bool {
	var e anthropicEvent
	if json.Unmarshal(data, &e) != nil {
		m.TextBytes += len(data)
		return false
	}
	e.Message.Usage.add(&m.Usage)
	e.Usage.add(&m.Usage)
	m.TextBytes += len(e.Delta.Text) + len(e.Delta.Thinking) + len(e.Delta.PartialJSON) + len(e.Block.Text)
	m.Final = m.Final || e.Type == "message_delta" && e.Usage.Output != nil
	return e.Type == "message_delta" || e.Type == "message_stop" || e.Type == "error"
}

func (m *Meter) meterOpenAI(data []byte) bool {
	m.UsageOnly = false
	if string(data) == "[DONE]" {
		return true
	}
	var c openaiAnswer
	if json.Unmarshal(data, &c) != nil {
		m.TextBytes += len(data)
		return false
	}
	for i := range c.Choices {
		d := &c.Choices[i].Delta
		m.TextBytes += len(d.Content) + len(d.Reasoning) + len(d.Thoughts) + len(d.Refusal)
		for _, t := range d.ToolCalls {
			m.TextBytes += len(t.Function.Arguments)
		}
		m.finish = m.finish || c.Choices[i].Finish != ""
	}
	if c.Usage != nil && (c.Usage.Prompt > 0 || c.Usage.Completion > 0) {
		m.Usage = c.Usage.toUsage()
		m.Final = m.finish || len(c.Choices) == 0
		m.UsageOnly = len(c.Choices) == 0
	}
	return m.finish && m.Final
}

// ReadResponse reads an answer that is not a stream.
func (m *Meter) ReadResponse(body []byte) {
	m.TextBytes = len(body)
	switch m.API {
	case Anthropic:
		var in struct {
			Usage anthropicUsage `json:"usage"`
		}
		if json.Unmarshal(body, &in) == nil && in.Usage.Output != nil {
			in.Usage.add(&m.Usage)
			m.Final = true
		}
	case OpenAI:
		var in openaiAnswer
		if json.Unmarshal(body, &in) == nil && in.Usage != nil {
			m.Usage, m.Final = in.Usage.toUsage(), true
		}
	case Responses:
		var in responsesAnswer
		if json.Unmarshal(body, &in) == nil && in.Usage != nil {
			m.Usage, m.Final = in.Usage.toUsage(), true
		}
	case Gemini:
		var in geminiAnswer
		if json.Unmarshal(body, &in) == nil && in.Usage != nil {
			m.Usage, m.Final = in.Usage.toUsage(), true
		}
	}
}

// EstimateTokens returns the approximate number of tokens of a text with so many bytes.
func EstimateTokens(bytes int) int64 { return int64(bytes+3) / 4 }

// pictureTokens is the approximate number of tokens of an image.
const pictureTokens = 1600

// EstimateRequest returns the approximate number of tokens of a request.
func EstimateRequest(q *Request) int64 {
	n := int64(0)
	for _, t := range q.Tools {
		n += EstimateTokens(len(t.Name)+len(t.Description)+len(t.Schema)) + 8
	}
	for _, m := range q.Messages {
		n += 4 + estimateParts(m.Parts)
	}
	return n + 3
}

func estimateParts(parts []Part) int64 {
	n := int64(0)
	for _, p := range parts {
		switch p.Type {
		case ImagePart:
			n += pictureTokens
		case FilePart:
			n += max(EstimateTokens(len(p.Data)), pictureTokens)
		default:
			n += EstimateTokens(len(p.Text)+len(p.Name)+len(p.Input)) + 2 + estimateParts(p.Parts)
		}
	}
	return n
}
