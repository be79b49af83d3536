package assistant

import (
	"context"
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
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// chatStore stores conversations, in a directory for each owner: the messages, and
// the sessions of the agents that continue them.
type chatStore struct {
	dir       string
	retention time.Duration
	now       func() time.Time
	log       *slog.Logger

	maxChats int   // of an owner
	maxBytes int64 // of an owner's chats

	mu         sync.Mutex
	busy       map[string]bool      // by owner and id: a turn runs; guarded by mu
	queues     map[string][]*ticket // by owner and id: those that wait for a chat, in order; guarded by mu
	turnCounts map[string]int       // by owner: turns started since the last removal of old chats; guarded by mu

	noLocks sync.Mutex // in place of the locks of owners, on systems without file locks
}

// chat is a stored conversation.
type chat struct {
	ID       string            `json:"id"`
	Owner    atoll.Owner       `json:"owner"`
	Sessions map[string]string `json:"sessions,omitempty"` // of agents, by assistant or agent
	Prints   []fingerprints    `json:"prints,omitempty"`   // of the whole conversation, as clients may repeat it
	Messages []dialect.Message `json:"messages,omitempty"` // the stored messages
	Cut      bool              `json:"cut,omitempty"`      // older messages were dropped
	Turn     string            `json:"turn,omitempty"`     // the last turn that was saved
	Updated  time.Time         `json:"updated"`

	Workspace string `json:"workspace,omitempty"` // that a request named for it; empty: its own

	isNew    bool // it has no turn yet
	diverged bool // the client's history differs from the stored one
}

// Limits of chats.
const (
	chatMessages = 400
	chatBytes    = 2 << 20
	sweepEvery   = 100 // turns of an owner between two removals of old chats
	chatsMost    = 10_000
	chatsBytes   = 512 << 20
	printsEach   = 10 // stored fingerprints for each possible chat
)

func openChats(dir string, keep time.Duration, now func() time.Time, log *slog.Logger) (*chatStore, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory", atoll.ErrInvalid)
	}
	c := &chatStore{dir: dir, retention: keep, now: now, log: log, maxChats: chatsMost, maxBytes: chatsBytes, busy: make(map[string]bool), queues: make(map[string][]*ticket), turnCounts: make(map[string]int)}
	return c, os.MkdirAll(dir, 0o700)
}

// ChatKey returns the name of a chat in files, workspaces and records, for any text.
func ChatKey(text string) string {
	if len(text) <= 40 && atoll.CheckName(text) == nil {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "c" + hex.EncodeToString(sum[:10])
}

func (c *chatStore) ownerDir(o atoll.Owner) string { return filepath.Join(c.dir, o.App, o.User) }

// acquireChat returns the chat that a request belongs to: the one that it names, else
// the one whose history the messages repeat, else a new one. The chat is locked until
// release is called.
func (c *chatStore) acquireChat(o atoll.Owner, name string, in chatContext, messages []dialect.Message) (_ *chat, let func(), err error) {
	if err := o.Check(); err != nil {
		return nil, nil, err
	}
	past := beforeLastUser(messages)
	var mark fingerprints
	if len(past) > 0 {
		mark = in.computeFingerprints(past)
	}
	id := ""
	switch {
	case name != "":
		id = ChatKey(name)
	case mark.Whole != "":
		id = c.findChat(o, mark.Whole)
	}
	if id == "" {
		id = "c" + strings.TrimPrefix(atoll.NewID(), "s")
	}
	let, err = c.lockChat(o, id, in.ticket)
	if errors.Is(err, atoll.ErrState) && name == "" { // an unnamed request gets a chat of its own
		id = "c" + strings.TrimPrefix(atoll.NewID(), "s")
		let, err = c.lockChat(o, id, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.countTurn(o)%sweepEvery == 1 {
		c.removeOld(o)
	}
	ch, err := c.load(o, id)
	if err != nil {
		let()
		return nil, nil, err
	}
	// If the stored chat does not end with the client's history, the agent's session
	// belongs to another conversation than the one that the client sees.
	ch.diverged = !ch.isNew && len(messages) > 0 && !ch.hasFingerprint(mark.Said)
	return ch, let, nil
}

// countTurn returns how many turns of an owner there have been in this process.
func (c *chatStore) countTurn(o atoll.Owner) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnCounts[o.String()]++
	return c.turnCounts[o.String()]
}

// chatLock is the name of a chat's lock, which its turn holds.
const chatLock = "lock"

// lockChat locks a chat against other turns, also of other processes that share the directory. A chat with a turn is
// ErrState, as is one for which turns are queued, except for the holder of the first ticket.
func (c *chatStore) lockChat(o atoll.Owner, id string, first *ticket) (let func(), err error) {
	key := o.String() + "/" + id
	c.mu.Lock()
	busy := c.busy[key] || len(c.queues[key]) > 0 && c.queues[key][0] != first
	if !busy {
		c.busy[key] = true
	}
	c.mu.Unlock()
	var unlock func()
	ok := !busy
	if ok {
		unlock, ok, err = lockDir(filepath.Join(c.ownerDir(o), id))
	}
	if ok && err == nil {
		return sync.OnceFunc(func() {
			unlock()
			c.setIdle(key)
		}), nil
	}
	if !busy {
		c.setIdle(key)
	}
	if err == nil {
		err = fmt.Errorf("%w: a turn of it is under way; wait for its end, cancel it, or queue this one", atoll.ErrState)
	}
	return nil, fmt.Errorf("chat %s: %w", id, err)
}

// setIdle marks that no turn of this process has a chat.
func (c *chatStore) setIdle(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, key)
	c.callNext(key)
}

// lockDir locks a chat's directory, which is created if it is missing. It returns false if another process has the lock.
func lockDir(dir string) (unlock func(), ok bool, err error) {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, false, err
		}
		unlock, ok, err = filelock.TryPath(filepath.Join(dir, chatLock))
		if !errors.Is(err, os.ErrNotExist) { // an old chat was removed at this moment
			return unlock, ok, err
		}
	}
}

// ownerLock is the name of the lock of an owner; see lockOwner.
const ownerLock = ".lock"

// lockTime limits the wait for the lock of an owner, which is held while a file is replaced.
const lockTime = 10 * time.Second

// lockOwner locks what the chats of an owner share: the fingerprints, and the memory of hooks. It waits for other holders, also in
// other processes.
func (c *chatStore) lockOwner(ctx context.Context, o atoll.Owner) (unlock func(), err error) {
	if err := os.MkdirAll(c.ownerDir(o), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.ownerDir(o), ownerLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, fmt.Errorf("%w: another process has locked the chats", atoll.ErrTimeout))
	defer cancel()
	err = filelock.Poll(ctx, f)
	if errors.Is(err, atoll.ErrUnsupported) {
		c.noLocks.Lock()
		return c.noLocks.Unlock, f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

// removeChat removes an old chat, unless a turn has it.
func (c *chatStore) removeChat(o atoll.Owner, dir string) error {
	let, err := c.lockChat(o, filepath.Base(dir), nil)
	if errors.Is(err, atoll.ErrState) {
		return nil
	}
	if err != nil {
		return err
	}
	defer let()
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Name() != chatLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, chatLock)); err != nil {
		return err
	}
	_ = os.Remove(dir) // fails if a turn has begun the chat again since the lock was removed
	return nil
}

// hasFingerprint reports whether a fingerprint is that of the stored conversation.
func (ch *chat) hasFingerprint(mark string) bool {
	return slices.ContainsFunc(ch.Prints, func(p fingerprints) bool { return p.Said == mark })
}

func (c *chatStore) load(o atoll.Owner, id string) (*chat, error) {
	fresh := &chat{ID: id, Owner: o, isNew: true, Sessions: make(map[string]string)}
	b, err := os.ReadFile(filepath.Join(c.ownerDir(o), id, "chat.json"))
	if errors.Is(err, os.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	ch := &chat{}
	if err := json.Unmarshal(b, ch); err != nil || ch.Owner != o {
		c.log.Warn("stored chat is unreadable: starting a new one", "chat", id, "err", err)
		return fresh, nil
	}
	ch.ID = id
	if ch.Sessions == nil {
		ch.Sessions = make(map[string]string)
	}
	return ch, nil
}

// save stores a chat with the fingerprints of the conversation; nil: they are
// unchanged.
func (c *chatStore) save(ch *chat, prints []fingerprints) error {
	dir := filepath.Join(c.ownerDir(ch.Owner), ch.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	past := ch.Prints
	if prints != nil {
		ch.Prints = prints
	}
	ch.Updated = c.now()
	ch.trimMessages()
	b, err := json.Marshal(ch)
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(filepath.Join(dir, "chat.json"), b, 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.ownerDir(ch.Owner), ".prints"), 0o700); err != nil {
		return err
	}
	unlock, err := c.lockOwner(context.Background(), ch.Owner)
	if err != nil {
		return err
	}
	defer unlock()
	for _, p := range past {
		if err := c.writeFingerprint(ch, p.Whole, " past"); err != nil {
			return err
		}
	}
	for _, p := range ch.Prints {
		if err := c.writeFingerprint(ch, p.Whole, ""); err != nil {
			return err
		}
	}
	return nil
}

// writeFingerprint stores the chat of a fingerprint, marked as past if it is not the
// latest. A fingerprint of two chats is stored as ambiguous and matches neither. The
// caller holds the lock of the owner.
func (c *chatStore) writeFingerprint(ch *chat, mark, past string) error {
	name := c.printName(ch.Owner, mark)
	text := ch.ID + past
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if whose, _, _ := strings.Cut(string(b), " "); err == nil && whose != ch.ID {
		text = "? several"
	}
	return atomicfile.Replace(name, []byte(text), 0o600)
}

// trimMessages drops the oldest messages over the limits. It drops the data of files,
// which are in the workspace.
func (ch *chat) trimMessages() {
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

// withoutData returns parts without the data of files.
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

func (c *chatStore) printName(o atoll.Owner, mark string) string {
	return filepath.Join(c.ownerDir(o), ".prints", mark)
}

// findChat returns the id of the chat with a fingerprint; "" if there is none.
func (c *chatStore) findChat(o atoll.Owner, mark string) string {
	b, err := os.ReadFile(c.printName(o, mark))
	if err != nil || atoll.CheckName(string(b)) != nil {
		return ""
	}
	return string(b)
}

// removeOld removes an owner's chats that were not used for long, and the oldest over
// the limits.
func (c *chatStore) removeOld(o atoll.Owner) {
	c.removeOldest(o, listEntries(c.ownerDir(o)), c.maxChats)
	c.removeOldest(o, listEntries(filepath.Join(c.ownerDir(o), ".prints")), printsEach*c.maxChats)
}

// removeOldest removes expired entries, and the oldest of more than most.
func (c *chatStore) removeOldest(o atoll.Owner, list []entry, most int) {
	due := c.now().Add(-c.retention)
	slices.SortFunc(list, func(a, b entry) int { return b.used.Compare(a.used) })
	n, size := 0, int64(0)
	for _, e := range list {
		base := filepath.Base(e.name)
		n, size = n+1, size+e.size
		fits := n <= most && size <= c.maxBytes || strings.HasPrefix(base, ".") // the memory of all chats
		if fits && e.used.After(due) {
			continue
		}
		remove := os.RemoveAll
		if e.isChat {
			remove = func(dir string) error { return c.removeChat(o, dir) }
		}
		if err := remove(e.name); err != nil {
			c.log.Warn("old chat not removed", "file", e.name, "err", err)
		}
		size -= e.size
	}
}

// entry is a chat's directory, or a file beside them.
type entry struct {
	name   string
	used   time.Time
	size   int64
	isChat bool
}

// listEntries lists the entries of a directory of chats, or of fingerprints.
func listEntries(dir string) []entry {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil // it does not exist yet
	}
	var list []entry
	for _, f := range all {
		e := entry{name: filepath.Join(dir, f.Name())}
		info, err := f.Info()
		if err != nil || f.Name() == ".prints" || f.Name() == ownerLock {
			continue
		}
		e.used, e.size = info.ModTime(), info.Size()
		if e.isChat = f.IsDir(); e.isChat {
			e.used, e.size = chatUsage(e.name, e.used)
		}
		list = append(list, e)
	}
	return list
}

// chatUsage returns the time of a chat's last use, and its size.
func chatUsage(dir string, used time.Time) (time.Time, int64) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return used, 0 // it was removed
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

// beforeLastUser returns the messages before the last message of the user.
func beforeLastUser(messages []dialect.Message) []dialect.Message {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == dialect.User {
			return messages[:i]
		}
	}
	return nil
}

// chatContext distinguishes conversations with the same words: one owner may serve
// many users.
type chatContext struct {
	target   string // the assistant or agent
	user     string // the client's name of the user
	metadata map[string]string

	ticket *ticket // of a queued turn; no part of the conversation
}

// fingerprints identify a conversation, as far as clients repeat it. Empty: it has no
// messages.
type fingerprints struct {
	Whole string `json:"whole"` // with everything that distinguishes users
	Said  string `json:"said"`  // only of the messages: clients may put the time into the rest
}

func (in chatContext) computeFingerprints(messages []dialect.Message) fingerprints {
	p := fingerprints{Said: fingerprint(messages, in.target)}
	if p.Said == "" {
		return p
	}
	around := []string{in.target, in.user}
	for _, k := range slices.Sorted(maps.Keys(in.metadata)) {
		around = append(around, k, in.metadata[k])
	}
	around = append(around, "") // separates the system prompts, since no key is empty
	for _, m := range messages {
		if m.Role == dialect.System {
			around = append(around, strings.Join(strings.Fields(messageText(m)), " "))
		}
	}
	p.Whole = fingerprint(messages, around...)
	return p
}

// fingerprint returns a hash of the roles, texts and files of messages, and of around.
// It does not depend on how a client spaces, joins and splits its messages.
func fingerprint(messages []dialect.Message, around ...string) string {
	h := sha256.New()
	put := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	fmt.Fprintf(h, "%d ", len(around))
	for _, s := range around {
		put(s)
	}
	var speaker dialect.Role
	for _, m := range messages {
		list := messageWords(m)
		if m.Role == dialect.System || len(list) == 0 {
			continue
		}
		if m.Role != speaker {
			speaker = m.Role
			put(" " + string(speaker)) // words have no spaces
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

// messageWords returns the words of a message, and the digests of its files, each
// after a space.
func messageWords(m dialect.Message) []string {
	list := strings.Fields(messageText(m))
	for _, p := range m.Parts {
		if p.Type == dialect.ImagePart || p.Type == dialect.FilePart {
			h := sha256.New()
			fmt.Fprintf(h, "%q %q %q ", p.MediaType, p.Name, p.URL)
			h.Write(p.Data)
			list = append(list, " "+hex.EncodeToString(h.Sum(nil)))
		}
	}
	return list
}

// messageText returns the text of a message.
func messageText(m dialect.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == dialect.TextPart {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Messages returns the stored messages of a chat: at most the last 400. It returns ErrNotFound for a chat without turns.
func (p *Pipeline) Messages(o atoll.Owner, id string) ([]agent.ChatMessage, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	ch, err := p.chats.load(o, ChatKey(id))
	if err == nil && ch.isNew {
		err = atoll.ErrNotFound
	}
	if err != nil {
		return nil, &atoll.Error{Op: "messages of chat", ID: truncateName(id), Err: err}
	}
	list := []agent.ChatMessage{}
	for _, m := range ch.Messages {
		text := messageText(m)
		if text == "" || m.Role != dialect.User && m.Role != dialect.Assistant {
			continue
		}
		list = append(list, agent.ChatMessage{Role: string(m.Role), Text: text})
	}
	return list, nil
}
