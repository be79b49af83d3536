package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

func TestPlain(t *testing.T) {
	got := agent.PlainText([]agent.Content{
		{Text: "look"},
		{Name: "a.png", Type: "image/png", Data: []byte("abc"), Path: "/w/a.png"},
		{Name: "b", Data: []byte("x")},
		{Name: "c", Path: "/w/c"},
	})
	want := "look\n\n[Attached file: /w/a.png (image/png, 3 bytes)]\n\n[File that could not be attached: b]\n\n[Attached file: /w/c (0 bytes)]"
	if got != want {
		t.Errorf("got %q", got)
	}
}

func TestCheckNamesEveryReason(t *testing.T) {
	turn := agent.Turn{System: "s", Session: "x", Ask: true, Skills: []agent.Skill{{}}, Arguments: map[string]any{"b": 1, "known": 1, "a": 1}}
	err := turn.CheckFeatures(agent.Features{Arguments: map[string]string{"known": "…"}})
	if !errors.Is(err, atoll.ErrInvalid) || !errors.Is(err, atoll.ErrUnsupported) {
		t.Fatalf("%v", err)
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 7 {
		t.Errorf("%d reasons: %v", n, err)
	}
	turn = agent.Turn{Prompt: agent.Text("hi"), Arguments: map[string]any{"known": 1}}
	if err := turn.CheckFeatures(agent.Features{Arguments: map[string]string{"known": "…"}}); err != nil {
		t.Error(err)
	}
}

func TestArgument(t *testing.T) {
	turn := agent.Turn{Arguments: map[string]any{"n": 3.0, "list": []any{"a"}, "word": "w"}}
	var n int
	var list []string
	absent := "as it was"
	if err := errors.Join(turn.DecodeArgument("n", &n), turn.DecodeArgument("list", &list), turn.DecodeArgument("absent", &absent)); err != nil {
		t.Fatal(err)
	}
	if n != 3 || len(list) != 1 || list[0] != "a" || absent != "as it was" {
		t.Error(n, list, absent)
	}
	if err := turn.DecodeArgument("word", &n); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a word as a number: %v", err)
	}
}
