package assistant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// chats keeps conversations: which session of an agent goes on with each, and
// what was said, in a directory for each owner.
type chats struct {
	dir  string
	keep time.Duration
	now  func() time.Time
	log  *slog.Logger

	most  int   // chats of an owner
	bytes int64 // of all of them

	mu   sync.Mutex
	busy map[string]bool // by owner and id: a turn is under way; guarded by mu
	n    map[string]int  // by owner: turns begun since his chats were looked through; guarded by mu
}

// chat is a conversation as it is kept.
type chat struct {
	ID       string            `json:"id"`
	Owner    atoll.Owner       `json:"owner"`
	Sessions map[string]string `json:"sessions,omitempty"` // of agents, by whose they are
	Prints   []imprint         `json:"prints,omitempty"`   // of all that was said, as clients may repeat it
	Messages []dialect.Message `json:"messages,omitempty"` // what was said, as far as it is kept
	Cut      bool              `json:"cut,omitempty"`      // it is not all of it
	Updated  time.Time         `json:"updated"`

	Workspace string `json:"workspace,omitempty"` // that a request named for it; empty: its own

	fresh bool // it has no turn yet
	stray bool // the client's history is not what this chat knows
}

// Bounds of a chat.
const (
	chatMessages = 400
	chatBytes    = 2 << 20
	sweepEvery   = 100 // turns of an owner between two looks for old ones
	chatsMost    = 10_000
	chatsBytes   = 512 << 20
	printsEach   = 10 // fingerprints that are remembered for each chat there may be
)

func openChats(dir string, keep time.Duration, now func() time.Time, log *slog.Logger) (*chats, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory", atoll.ErrInvalid)
	}
	c := &chats{dir: dir, keep: keep, now: now, log: log, most: chatsMost, bytes: chatsBytes, busy: make(map[string]bool), n: make(map[string]int)}
	return c, os.MkdirAll(dir, 0o700)
}

// ChatKey is the name of a chat in files and workspaces, and as records have it:
// any text will do.
func ChatKey(text string) string {
	if len(text) <= 40 && atoll.CheckName(text) == nil {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "c" + hex.EncodeToString(sum[:10])
}

func (c *chats) of(o atoll.Owner) string { return filepath.Join(c.dir, o.App, o.User) }

// take returns the chat that a request belongs to, which nobody else has until
// let is called: the one that it names, else the one whose history the messages
// repeat, else a new one.
func (c *chats) take(o atoll.Owner, name string, in setting, messages []dialect.Message) (_ *chat, let func(), err error) {
	if err := o.Check(); err != nil {
		return nil, nil, err
	}
	past := history(messages)
	var mark imprint
	if len(past) > 0 {
		mark = in.imprint(past)
	}
	id := ""
	switch {
	case name != "":
		id = ChatKey(name)
	case mark.Whole != "":
		id = c.find(o, mark.Whole)
	}
	if id == "" {
		id = "c" + strings.TrimPrefix(atoll.NewID(), "s")
	}
	c.mu.Lock()
	key := o.String() + "/" + id
	if c.busy[key] && name == "" { // who has not named it goes on beside it
		id = "c" + strings.TrimPrefix(atoll.NewID(), "s")
		key = o.String() + "/" + id
	}
	if c.busy[key] {
		c.mu.Unlock()
		return nil, nil, fmt.Errorf("chat %s: %w: a turn of it is under way; wait for its end, or cancel it", id, atoll.ErrState)
	}
	c.busy[key] = true
	c.n[o.String()]++
	due := c.n[o.String()]%sweepEvery == 1
	c.mu.Unlock()
	let = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, key)
	})
	if due {
		c.sweep(o)
	}
	ch, err := c.load(o, id)
	if err != nil {
		let()
		return nil, nil, err
	}
	// A history that this chat does not end with is another conversation: what
	// the agent remembers of this one is not what the client sees.
	ch.stray = !ch.fresh && len(messages) > 0 && !ch.knows(mark.Said)
	return ch, let, nil
}

// knows reports whether a fingerprint is that of what was said so far.
func (ch *chat) knows(mark string) bool {
	return slices.ContainsFunc(ch.Prints, func(p imprint) bool { return p.Said == mark })
}

func (c *chats) load(o atoll.Owner, id string) (*chat, error) {
	fresh := &chat{ID: id, Owner: o, fresh: true, Sessions: make(map[string]string)}
	b, err := os.ReadFile(filepath.Join(c.of(o), id, "chat.json"))
	if errors.Is(err, os.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	ch := &chat{}
	if err := json.Unmarshal(b, ch); err != nil || ch.Owner != o {
		c.log.Warn("chat begun anew: what was kept can't be read", "chat", id, "err", err)
		return fresh, nil
	}
	ch.ID = id
	if ch.Sessions == nil {
		ch.Sessions = make(map[string]string)
	}
	return ch, nil
}

// save keeps a chat, with the fingerprints of all that was said; nil: they are
// as they were.
func (c *chats) save(ch *chat, prints []imprint) error {
	dir := filepath.Join(c.of(ch.Owner), ch.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	past := ch.Prints
	if prints != nil {
		ch.Prints = prints
	}
	ch.Updated = c.now()
	ch.bound()
	b, err := json.Marshal(ch)
	if err != nil {
		return err
	}
	if err := whole.Replace(filepath.Join(dir, "chat.json"), b, 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.of(ch.Owner), ".prints"), 0o700); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range past {
		if err := c.note(ch, p.Whole, " past"); err != nil {
			return err
		}
	}
	for _, p := range ch.Prints {
		if err := c.note(ch, p.Whole, ""); err != nil {
			return err
		}
	}
	return nil
}

// note writes down whose a fingerprint is, and that it is not of what was said
// last, if so. One that two chats have had is nobody's: who repeats that history
// may be either. It is called with mu held.
func (c *chats) note(ch *chat, mark, past string) error {
	name := c.printName(ch.Owner, mark)
	text := ch.ID + past
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if whose, _, _ := strings.Cut(string(b), " "); err == nil && whose != ch.ID {
		text = "? several"
	}
	return whole.Replace(name, []byte(text), 0o600)
}

// bound forgets the oldest messages of a chat that has too many. Data of files
// is not kept: it is in the workspace.
func (ch *chat) bound() {
	size := 0
	keep := len(ch.Messages)
	for keep > 0 && len(ch.Messages)-keep < chatMessages {
		m := &ch.Messages[keep-1]
		m.Parts = withoutData(m.Parts)
		b, err := json.Marshal(m)
		if size += len(b); err != nil || size > chatBytes {
			break
		}
		keep--
	}
	ch.Cut = ch.Cut || keep > 0
	ch.Messages = slices.Clone(ch.Messages[keep:])
}

// withoutData returns parts without what files hold.
func withoutData(parts []dialect.Part) []dialect.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		p.Data, p.Parts = nil, withoutData(p.Parts)
		if strings.HasPrefix(p.URL, "data:") {
			p.URL = ""
		}
	}
	return parts
}

func (c *chats) printName(o atoll.Owner, mark string) string {
	return filepath.Join(c.of(o), ".prints", mark)
}

// find returns the chat whose history has a fingerprint; empty: none.
func (c *chats) find(o atoll.Owner, mark string) string {
	b, err := os.ReadFile(c.printName(o, mark))
	if err != nil || atoll.CheckName(string(b)) != nil {
		return ""
	}
	return string(b)
}

// sweep forgets an owner's chats that nobody has gone on with for long, and the
// oldest of more than there may be.
func (c *chats) sweep(o atoll.Owner) {
	c.prune(o, kept(c.of(o)), c.most)
	c.prune(o, kept(filepath.Join(c.of(o), ".prints")), printsEach*c.most)
}

// prune removes what is old, and the oldest of more than most.
func (c *chats) prune(o atoll.Owner, list []entry, most int) {
	due := c.now().Add(-c.keep)
	slices.SortFunc(list, func(a, b entry) int { return b.used.Compare(a.used) })
	n, size := 0, int64(0)
	for _, e := range list {
		base := filepath.Base(e.name)
		n, size = n+1, size+e.size
		fits := n <= most && size <= c.bytes || strings.HasPrefix(base, ".") // a memory of all chats
		if fits && e.used.After(due) || c.taken(o, base) {
			continue
		}
		if err := os.RemoveAll(e.name); err != nil {
			c.log.Warn("old chat not removed", "file", e.name, "err", err)
		}
		size -= e.size
	}
}

// entry is a chat's directory, or a file beside them.
type entry struct {
	name string
	used time.Time
	size int64
}

// kept lists what a directory of chats, or of fingerprints, holds.
func kept(dir string) []entry {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil // there is none yet
	}
	var list []entry
	for _, f := range all {
		e := entry{name: filepath.Join(dir, f.Name())}
		info, err := f.Info()
		if err != nil || f.Name() == ".prints" {
			continue
		}
		e.used, e.size = info.ModTime(), info.Size()
		if f.IsDir() {
			e.used, e.size = inside(e.name, e.used)
		}
		list = append(list, e)
	}
	return list
}

// inside returns when a chat was last gone on with, and how large it is.
func inside(dir string, used time.Time) (time.Time, int64) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return used, 0 // it is gone
	}
	size := int64(0)
	for _, f := range all {
		info, err := f.Info()
		if err != nil {
			continue
		}
		size += info.Size()
		if f.Name() == "chat.json" {
			used = info.ModTime()
		}
	}
	return used, size
}

func (c *chats) taken(o atoll.Owner, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy[o.String()+"/"+id]
}

// history returns what was said before the newest message of the user.
func history(messages []dialect.Message) []dialect.Message {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == dialect.User {
			return messages[:i]
		}
	}
	return nil
}

// setting is what a conversation is had in. One owner may have many people
// behind him, who say and hear the same words.
type setting struct {
	who      string // is asked
	user     string // as the client names him
	metadata map[string]string
}

// imprint says whether two conversations are the same, as far as clients repeat
// them. Empty: nothing was said.
type imprint struct {
	Whole string `json:"whole"` // with all that tells one person's from another's
	Said  string `json:"said"`  // only what was said: clients may put the time into the rest
}

func (in setting) imprint(messages []dialect.Message) imprint {
	p := imprint{Said: fingerprint(messages, in.who)}
	if p.Said == "" {
		return p
	}
	around := []string{in.who, in.user}
	for _, k := range slices.Sorted(maps.Keys(in.metadata)) {
		around = append(around, k, in.metadata[k])
	}
	around = append(around, "") // no key is empty: what follows is of the system
	for _, m := range messages {
		if m.Role == dialect.System {
			around = append(around, strings.Join(strings.Fields(said(m)), " "))
		}
	}
	p.Whole = fingerprint(messages, around...)
	return p
}

// fingerprint is of who spoke, what text was said and which files were given,
// and of what is around it. How a client spaces, joins and splits its messages
// does not matter.
func fingerprint(messages []dialect.Message, around ...string) string {
	h := sha256.New()
	put := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	fmt.Fprintf(h, "%d ", len(around))
	for _, s := range around {
		put(s)
	}
	var speaker dialect.Role
	for _, m := range messages {
		list := words(m)
		if m.Role == dialect.System || len(list) == 0 {
			continue
		}
		if m.Role != speaker {
			speaker = m.Role
			put(" " + string(speaker)) // no word has a space
		}
		for _, w := range list {
			put(w)
		}
	}
	if speaker == "" {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}

// words are those of a message, and the digests of its files, each after a space.
func words(m dialect.Message) []string {
	list := strings.Fields(said(m))
	for _, p := range m.Parts {
		if p.Type == dialect.ImagePart || p.Type == dialect.FilePart {
			h := sha256.New()
			fmt.Fprintf(h, "%q %q %q ", p.Media, p.Name, p.URL)
			h.Write(p.Data)
			list = append(list, " "+hex.EncodeToString(h.Sum(nil)))
		}
	}
	return list
}

// said is the text of a message.
func said(m dialect.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == dialect.TextPart {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
