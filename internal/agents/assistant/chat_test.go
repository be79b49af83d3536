package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

var alice, bob = atoll.Owner{App: "app", User: "alice"}, atoll.Owner{App: "app", User: "bob"}

func textMessage(role dialect.Role, text string) dialect.Message {
	return dialect.Message{Role: role, Parts: textParts(text)}
}

func contextOf(who string) chatContext { return chatContext{target: who} }

func newChats(t *testing.T, now func() time.Time) *chatStore {
	t.Helper()
	c, err := openChats(t.TempDir(), time.Hour, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A history is the same however clients space it, join and split its messages;
// another word, speaker, file, assistant or person makes another.
func TestFingerprint(t *testing.T) {
	u, a := dialect.User, dialect.Assistant
	file := func(name, data string) dialect.Message {
		return dialect.Message{Role: u, Parts: append(textParts("hello there"), dialect.Part{Type: dialect.FilePart, Name: name, Data: []byte(data)})}
	}
	sys := textMessage(dialect.System, "x")
	base := []dialect.Message{sys, textMessage(u, "hello there"), textMessage(a, "one\n\ntwo")}
	mark := contextOf("w").computeFingerprints(base)
	for name, c := range map[string]struct {
		messages    []dialect.Message
		whole, said bool // it is the same
	}{
		"Spaces":       {[]dialect.Message{sys, textMessage(u, " hello\tthere\n"), textMessage(a, "one two")}, true, true},
		"Split":        {[]dialect.Message{sys, textMessage(u, "hello there"), textMessage(a, "one"), textMessage(a, "two")}, true, true},
		"ToolsBetween": {[]dialect.Message{sys, textMessage(u, "hello there"), {Role: a, Parts: []dialect.Part{{Type: dialect.ToolUse, ID: "1"}}}, {Role: u, Parts: []dialect.Part{{Type: dialect.ToolResult, ID: "1"}}}, textMessage(a, "one two")}, true, true},
		"OtherWord":    {[]dialect.Message{sys, textMessage(u, "hello here"), textMessage(a, "one two")}, false, false},
		"OtherOrder":   {[]dialect.Message{sys, textMessage(a, "one two"), textMessage(u, "hello there")}, false, false},
		"More":         {append(base[:3:3], textMessage(u, "more")), false, false},
		"Boundary":     {[]dialect.Message{sys, textMessage(u, "hello there one"), textMessage(a, "two")}, false, false},
		"OtherSystem":  {append([]dialect.Message{textMessage(dialect.System, "y")}, base[1:]...), false, true},
		"NoSystem":     {base[1:], false, true},
		"File":         {[]dialect.Message{sys, file("a", "1"), base[2]}, false, false},
	} {
		if got := contextOf("w").computeFingerprints(c.messages); (got.Whole == mark.Whole) != c.whole || (got.Said == mark.Said) != c.said {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, s := range map[string]chatContext{
		"assistant": contextOf("v"), "user": {target: "w", user: "ann"}, "metadata": {target: "w", metadata: map[string]string{"customer": "ann"}},
	} {
		if s.computeFingerprints(base).Whole == mark.Whole {
			t.Errorf("another %s has the same history", name)
		}
	}
	if contextOf("w").computeFingerprints([]dialect.Message{file("a", "1")}) == contextOf("w").computeFingerprints([]dialect.Message{file("a", "2")}) {
		t.Error("another file makes the same history")
	}
	if contextOf("w").computeFingerprints(base[:1]) != (fingerprints{}) {
		t.Error("nothing was said, and it has a fingerprint")
	}
}

// Users behind one owner with the same words have chats of their own; an ambiguous history
// matches no chat.
func TestUsersBehindOneOwner(t *testing.T) {
	answer, more := textMessage(dialect.Assistant, "Saved."), textMessage(dialect.User, "show me the file")
	of := func(system, data string) []dialect.Message {
		return []dialect.Message{
			textMessage(dialect.System, system),
			{Role: dialect.User, Parts: append(textParts("save this"), dialect.Part{Type: dialect.FilePart, Name: "a.pdf", Data: []byte(data)})},
		}
	}
	for name, c := range map[string]struct {
		ann, ben    []dialect.Message
		annIn, ben2 chatContext
		apart       bool
	}{
		"System":   {of("for ann", ""), of("for ben", ""), contextOf("w"), contextOf("w"), true},
		"File":     {of("s", "ann's"), of("s", "ben's"), contextOf("w"), contextOf("w"), true},
		"User":     {of("s", ""), of("s", ""), chatContext{target: "w", user: "ann"}, chatContext{target: "w", user: "ben"}, true},
		"Metadata": {of("s", ""), of("s", ""), chatContext{target: "w", metadata: map[string]string{"u": "ann"}}, chatContext{target: "w", metadata: map[string]string{"u": "ben"}}, true},
		"Nothing":  {of("s", ""), of("s", ""), contextOf("w"), contextOf("w"), false},
	} {
		t.Run(name, func(t *testing.T) {
			chats := newChats(t, time.Now)
			turn := func(s chatContext, m []dialect.Message) string {
				t.Helper()
				ch, let, err := chats.acquireChat(alice, "", s, m)
				if err != nil {
					t.Fatal(err)
				}
				defer let()
				if err := chats.save(ch, []fingerprints{s.computeFingerprints(append(m[:len(m):len(m)], answer))}); err != nil {
					t.Fatal(err)
				}
				return ch.ID
			}
			ann, ben := turn(c.annIn, c.ann), turn(c.ben2, c.ben)
			got := turn(c.annIn, append(c.ann[:2:2], answer, more))
			if c.apart && got != ann || got == ben || !c.apart && got == ann {
				t.Errorf("ann has %s, ben %s, and she goes on in %s", ann, ben, got)
			}
		})
	}
	t.Run("WentOn", func(t *testing.T) { // what one chat has left behind is not another's either
		chats := newChats(t, time.Now)
		said := append(of("s", ""), answer)
		ann, let, _ := chats.acquireChat(alice, "ann", contextOf("w"), nil)
		if err := errors.Join(chats.save(ann, []fingerprints{contextOf("w").computeFingerprints(said)}), chats.save(ann, []fingerprints{contextOf("w").computeFingerprints(append(said[:3:3], more, answer))})); err != nil {
			t.Fatal(err)
		}
		let()
		ben, let, _ := chats.acquireChat(alice, "ben", contextOf("w"), nil)
		if err := chats.save(ben, []fingerprints{contextOf("w").computeFingerprints(said)}); err != nil {
			t.Fatal(err)
		}
		let()
		if ch, _, err := chats.acquireChat(alice, "", contextOf("w"), append(said[:3:3], more)); err != nil || !ch.isNew {
			t.Errorf("%+v, %v", ch, err)
		}
	})
}

// A request gets the chat that it names, or whose history it repeats; a chat has one turn
// at a time.
func TestAcquireChat(t *testing.T) {
	c := newChats(t, time.Now)
	first, let, err := c.acquireChat(alice, "mine", contextOf("w"), nil)
	if err != nil || !first.isNew {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, _, err := c.acquireChat(alice, "mine", contextOf("w"), nil); !errors.Is(err, atoll.ErrState) {
		t.Errorf("two at once: %v", err)
	}
	if _, let, err := c.acquireChat(bob, "mine", contextOf("w"), nil); err != nil {
		t.Errorf("another owner's of that name: %v", err)
	} else {
		let()
	}
	said := []dialect.Message{textMessage(dialect.User, "hello"), textMessage(dialect.Assistant, "hi")}
	first.Sessions["w"], first.Messages = "s1", said
	if err := c.save(first, []fingerprints{contextOf("w").computeFingerprints(said)}); err != nil {
		t.Fatal(err)
	}
	let()
	let() // twice changes nothing
	more := append(said[:2:2], textMessage(dialect.User, "more"))
	again, let, err := c.acquireChat(alice, "", contextOf("w"), more)
	if err != nil || again.ID != "mine" || again.diverged || again.Sessions["w"] != "s1" || len(again.Messages) != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	beside, let2, err := c.acquireChat(alice, "", contextOf("w"), more)
	if err != nil || beside.ID == "mine" || !beside.isNew {
		t.Errorf("beside it: %+v, %v", beside, err)
	}
	let()
	let2()
	for name, take := range map[string]func() (*chat, func(), error){
		"AnotherOwner":     func() (*chat, func(), error) { return c.acquireChat(bob, "", contextOf("w"), more) },
		"AnotherAssistant": func() (*chat, func(), error) { return c.acquireChat(alice, "", contextOf("v"), more) },
		"AnotherHistory":   func() (*chat, func(), error) { return c.acquireChat(alice, "", contextOf("w"), more[1:]) },
	} {
		got, let, err := take()
		if err != nil || got.ID == "mine" || !got.isNew {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		let()
	}
	named, let, err := c.acquireChat(alice, "mine", contextOf("w"), []dialect.Message{textMessage(dialect.User, "another"), textMessage(dialect.Assistant, "tale"), textMessage(dialect.User, "go")})
	if err != nil || named.ID != "mine" || !named.diverged {
		t.Errorf("its name with another history: %+v, %v", named, err)
	}
	let()
	for _, name := range []string{"../../etc", "UPPER", strings.Repeat("x", 300), "ö", "a/b"} {
		got, let, err := c.acquireChat(alice, name, contextOf("w"), nil)
		if err != nil || atoll.CheckName(got.ID) != nil {
			t.Errorf("%q: %+v, %v", name, got, err)
			continue
		}
		let()
	}
	if err := os.WriteFile(filepath.Join(c.ownerDir(alice), "mine", "chat.json"), []byte(`{"owner":{"app":"app","user":"bob"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, let, err := c.acquireChat(alice, "mine", contextOf("w"), nil)
	if err != nil || !broken.isNew {
		t.Errorf("a record that is another's: %+v, %v", broken, err)
	}
	let()
}

// A stored chat is limited, and has no data of files; old chats are removed.
func TestChatsAreBounded(t *testing.T) {
	now := time.Now()
	c := newChats(t, func() time.Time { return now })
	ch, let, err := c.acquireChat(alice, "long", contextOf("w"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		ch.Messages = append(ch.Messages, dialect.Message{Role: dialect.User, Parts: []dialect.Part{
			{Type: dialect.TextPart, Text: fmt.Sprint(i)}, {Type: dialect.ImagePart, Data: make([]byte, 10_000)},
		}})
	}
	if err := c.save(ch, []fingerprints{{Whole: "m"}}); err != nil {
		t.Fatal(err)
	}
	let()
	ch, let, err = c.acquireChat(alice, "long", contextOf("w"), nil)
	if n := len(ch.Messages); err != nil || n == 0 || n > chatMessages || !ch.Cut || messageText(ch.Messages[n-1]) != "2999" || ch.Messages[0].Parts[1].Data != nil {
		t.Errorf("%d messages are kept, %v", n, err)
	}
	let()
	now = now.Add(2 * time.Hour)
	c.removeOld(alice)
	if _, err := os.Stat(filepath.Join(c.ownerDir(alice), "long")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old chat: %v", err)
	}
	if c.findChat(alice, "m") != "" {
		t.Error("the fingerprint of an old chat is there")
	}
}

// The limits count all files of a chat.
func TestChatIsBoundedThroughout(t *testing.T) {
	big := func(n int) string { return strings.Repeat("\x01", n) }
	for name, p := range map[string]dialect.Part{
		"Result":    {Type: dialect.ToolResult, ID: "x", Parts: []dialect.Part{{Type: dialect.TextPart, Text: big(1 << 18)}}},
		"Image":     {Type: dialect.ToolResult, ID: "x", Parts: []dialect.Part{{Type: dialect.ImagePart, Data: make([]byte, 1<<20)}}},
		"Signature": {Type: dialect.ThinkingPart, Signature: big(1 << 18)},
		"URL":       {Type: dialect.ImagePart, URL: "https://x/" + big(1<<18)},
		"Data":      {Type: dialect.ImagePart, URL: "data:" + big(1<<18)},
		"Name":      {Type: dialect.FilePart, Name: big(1 << 18)},
	} {
		c := newChats(t, time.Now)
		ch := &chat{ID: "x", Owner: alice}
		for range 10 {
			ch.Messages = append(ch.Messages, dialect.Message{Role: dialect.User, Parts: []dialect.Part{p}})
		}
		if err := c.save(ch, nil); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(c.ownerDir(alice), "x", "chat.json"))
		if err != nil || info.Size() > chatBytes+1000 || len(ch.Messages) == 0 {
			t.Errorf("%s: %d bytes, %d messages, %v", name, info.Size(), len(ch.Messages), err)
		}
	}
}

// An owner has so many chats, and so many bytes of them: the oldest go first,
// but not one that is under way.
func TestOldestChatsGoFirst(t *testing.T) {
	for name, limit := range map[string]func(*chatStore){
		"Many":  func(c *chatStore) { c.maxChats = 3 },
		"Large": func(c *chatStore) { c.maxBytes = 3 * 1400 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newChats(t, time.Now)
			limit(c)
			begun := time.Now().Add(-30 * time.Minute)
			for i := range 6 {
				ch := &chat{ID: fmt.Sprintf("c%d", i), Owner: alice, Messages: []dialect.Message{textMessage(dialect.User, strings.Repeat("x", 1000))}}
				if err := c.save(ch, nil); err != nil {
					t.Fatal(err)
				}
				at := begun.Add(time.Duration(i) * time.Minute)
				if err := os.Chtimes(filepath.Join(c.ownerDir(alice), ch.ID, "chat.json"), at, at); err != nil {
					t.Fatal(err)
				}
			}
			_, let, err := c.acquireChat(alice, "c0", contextOf("w"), nil) // the first of an owner: it looks for old ones
			if err != nil {
				t.Fatal(err)
			}
			defer let()
			var left []string
			list, err := os.ReadDir(c.ownerDir(alice))
			for _, f := range list {
				if f.Name() != ".prints" && f.Name() != ownerLock {
					left = append(left, f.Name())
				}
			}
			if fmt.Sprint(left) != "[c0 c3 c4 c5]" {
				t.Errorf("%v are left, %v", left, err)
			}
		})
	}
}

// Memories are of their owner, chat and assistant; they are bounded, and end in
// time.
func TestMemory(t *testing.T) {
	now := time.Now()
	p := &Pipeline{opts: Options{Now: func() time.Time { return now }}, chats: newChats(t, time.Now)}
	of := func(o atoll.Owner, id, who string) *hookMemory {
		return (&Turn{pipeline: p, chat: &chat{ID: id, Owner: o}, assistant: &Assistant{ID: who}}).openMemory()
	}
	ctx := t.Context()
	m := of(alice, "c1", "w")
	for _, space := range []string{"user", "team", "chat", "context"} {
		if err := m.Set(ctx, space, "k", json.RawMessage(`"`+space+`"`), 0); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		m    *hookMemory
		want string
	}{
		"same": {of(alice, "c1", "w"), "user team chat context"}, "another chat": {of(alice, "c2", "w"), "user team"},
		"another assistant": {of(alice, "c1", "v"), "user team chat"}, "another owner": {of(bob, "c1", "w"), ""},
	} {
		var got []string
		for _, space := range []string{"user", "team", "chat", "context"} {
			v, err := c.m.Get(ctx, space, "k")
			if err != nil {
				t.Error(err)
			}
			if v != nil {
				got = append(got, strings.Trim(string(v), `"`))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s sees %v", name, got)
		}
	}
	if err := m.Set(ctx, "chat", "brief", json.RawMessage("1"), time.Minute); err != nil {
		t.Error(err)
	}
	now = now.Add(2 * time.Minute)
	if v, err := m.Get(ctx, "chat", "brief"); v != nil || err != nil {
		t.Errorf("after its time: %s, %v", v, err)
	}
	for what, err := range map[string]error{
		"space": m.Set(ctx, "moon", "k", json.RawMessage("1"), 0), "key": m.Set(ctx, "chat", "", json.RawMessage("1"), 0),
		"value": m.Set(ctx, "chat", "k", make(json.RawMessage, memoryValue+1), 0),
	} {
		if !errors.Is(err, atoll.ErrInvalid) && !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := m.Set(context.Background(), "user", fmt.Sprint(i), json.RawMessage("1"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if keys, err := m.Keys(ctx, "user"); err != nil || len(keys) != 21 {
		t.Errorf("%v, %v", keys, err)
	}
	var full error
	for i := 0; i < 2*memoryKeys && full == nil; i++ {
		full = m.Set(ctx, "user", fmt.Sprintf("more%d", i), json.RawMessage("1"), 0)
	}
	if !errors.Is(full, atoll.ErrQuota) {
		t.Errorf("a full space: %v", full)
	}
	if err := m.Delete(ctx, "user", "k"); err != nil {
		t.Error(err)
	}
}

// TestServersShareChats has two servers with one directory: a chat has one turn at a time, an old chat with a turn elsewhere is not
// removed, and values that hooks store at once are all there.
func TestServersShareChats(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	first := newChats(t, clock)
	second, err := openChats(first.dir, time.Hour, clock, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ch, let, err := first.acquireChat(alice, "talk", contextOf("w"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.save(ch, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*chatStore{first, second} {
		if _, _, err := c.acquireChat(alice, "talk", contextOf("w"), nil); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a second turn: %v", err)
		}
	}
	now = now.Add(2 * time.Hour)
	second.removeOld(alice)
	dir := filepath.Join(first.ownerDir(alice), "talk")
	if _, err := os.Stat(filepath.Join(dir, "chat.json")); err != nil {
		t.Errorf("the chat of a turn: %v", err)
	}
	let()
	_, let, err = second.acquireChat(alice, "talk", contextOf("w"), nil)
	if err != nil {
		t.Fatal(err)
	}
	let()
	second.removeOld(alice)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old chat: %v", err)
	}
	testServersShareMemory(t, first, second)
}

func testServersShareMemory(t *testing.T, stores ...*chatStore) {
	var work sync.WaitGroup
	var all *hookMemory
	for i, c := range stores {
		m := (&Turn{pipeline: &Pipeline{chats: c}, chat: &chat{ID: "talk", Owner: alice}, assistant: &Assistant{ID: "w"}}).openMemory()
		all = m
		work.Go(func() {
			for n := range 50 {
				if err := m.Set(t.Context(), "user", fmt.Sprint(i, "-", n), json.RawMessage("1"), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	keys, err := all.Keys(t.Context(), "user")
	if err != nil || len(keys) != 50*len(stores) {
		t.Errorf("%d values, %v", len(keys), err)
	}
}
