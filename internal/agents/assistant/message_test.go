package assistant

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

func sampleMessages() []dialect.Message {
	return []dialect.Message{
		textMessage(dialect.System, "be brief"), textMessage(dialect.User, "hello"),
		{Role: dialect.Assistant, Parts: []dialect.Part{{Type: dialect.TextPart, Text: "see"}, {Type: dialect.ToolUse, ID: "1", Name: "look", Input: json.RawMessage(`{"a":1}`)}}},
		{Role: dialect.User, Parts: []dialect.Part{{Type: dialect.ToolResult, ID: "1", Parts: textParts("a tree")}}},
		{Role: dialect.User, Parts: []dialect.Part{{Type: dialect.TextPart, Text: "and this?"}, {Type: dialect.ImagePart, MediaType: "image/png", Data: []byte{1, 2}}, {Type: dialect.FilePart, Name: "a.txt", MediaType: "text/plain", Data: []byte("x")}}},
	}
}

// Messages that a hook returns unchanged are unchanged, including images and calls.
func TestMessagesOfHooks(t *testing.T) {
	given := sampleMessages()
	raw, err := json.Marshal(encodeForHook(given))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeFromHook(raw, given)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(given, got); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{
		`{}`, `[{"role":"king","content":"x"}]`, `[{"role":"user","content":5}]`, `[{"role":"user","content":[{"type":"image","ref":"9.9"}]}]`,
		`[{"role":"user","content":[{"type":"image","ref":"-1.0"}]}]`, `[{"role":"user","content":[{"type":"image"}]}]`,
	} {
		if _, err := decodeFromHook(json.RawMessage(bad), given); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// FuzzFromHook: whatever a hook returns, it is messages or an error.
func FuzzFromHook(f *testing.F) {
	raw, _ := json.Marshal(encodeForHook(sampleMessages()))
	f.Add(raw)
	f.Add([]byte(`[{"role":"user","content":null}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeFromHook(b, sampleMessages())
		for _, m := range list {
			if err == nil && m.Role != dialect.User && m.Role != dialect.Assistant && m.Role != dialect.System {
				t.Errorf("role %q", m.Role)
			}
		}
		replacementAnswer(b)
	})
}

// A Next hook replaces the answer with a text, with content, or with data; all
// else leaves it.
func TestReplaced(t *testing.T) {
	for raw, want := range map[string]string{
		`null`: "", `{}`: "", `5`: "", `{"data":null}`: "", `"text"`: "text", `{"content":"text"}`: "text", `{"data":"text"}`: "text",
		`{"data":{"content":"text"}}`: "text", `{"data":{"a":1}}`: `{"a":1}`, `{"content":""}`: "empty",
	} {
		text, _, ok := replacementAnswer(json.RawMessage(raw))
		if ok && text == "" {
			text = "empty"
		}
		if text != want {
			t.Errorf("%s: %q %v", raw, text, ok)
		}
	}
}

// The newest message is the prompt, with its files; the rest is history, which an
// agent that was not there reads as a file.
func TestSplit(t *testing.T) {
	system, before, last := splitConversation(sampleMessages())
	if system != "be brief" || len(before) != 2 {
		t.Errorf("%q %d", system, len(before))
	}
	want := []agent.Content{{Text: "a tree"}, {Text: "and this?"}, {Name: "attachment-3.png", Type: "image/png", Data: []byte{1, 2}}, {Name: "a.txt", Type: "text/plain", Data: []byte("x")}}
	if d := cmp.Diff(want, promptOf(last)); d != "" {
		t.Error(d)
	}
	text := string(formatTranscript(sampleMessages()))
	for _, word := range []string{"## User\n\nhello", "## Assistant\n\nsee", `look with {"a":1}`, "result: a tree", "a.txt"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in\n%s", word, text)
		}
	}
}

// Names of workspaces are good ones, with room for their siblings.
func TestWorkspaceNames(t *testing.T) {
	for _, text := range []string{"a", "Team.Coder", strings.Repeat("x", 200), "ö/../x", ""} {
		name := safeName("assistant-", text)
		for _, n := range []string{name, stateWorkspace(name), stateWorkspace(strings.Repeat("w", 63))} {
			if err := atoll.CheckName(n); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if stateWorkspace(strings.Repeat("w", 62)+"a") == stateWorkspace(strings.Repeat("w", 62)+"b") {
		t.Error("two workspaces have one sibling")
	}
}
