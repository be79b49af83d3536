// Package session keeps the journal of each chat's session: which agent, its own session id, the usage that
// the model endpoint has counted, open requests for permission and the state. It is written as these things
// happen, so that the outcome of a turn whose process was killed is computed from the same facts as that of
// any other turn.
package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

// fileName is the journal in the directory of a chat.
const fileName = "session.json"

// maxText limits the last message of an agent in a record, in bytes.
const maxText = 2000

// maxFile limits a journal, in bytes.
const maxFile = 16 << 20

// Options configure a Store.
type Options struct {
	Dir string           // the chats: Dir/APP/USER/CHAT
	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: nothing is logged
}

// Store holds the journals of sessions in the directories of their chats. Its methods are safe for concurrent
// use.
type Store struct {
	dir string
	now func() time.Time
	log *slog.Logger
}

// Open returns a store.
func Open(o Options) *Store {
	s := &Store{dir: o.Dir, now: o.Now, log: o.Log}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// journalFile is the content of a journal.
type journalFile struct {
	agent.SessionRecord

	// Pending is the usage so far of requests to the model that are in flight, by their numbers.
	Pending map[int64]agent.Usage `json:"pending,omitempty"`
}

func (s *Store) chatDir(o atoll.Owner, id string) string {
	return filepath.Join(s.dir, o.App, o.User, id)
}

// load reads a journal. It returns ErrNotFound if the chat has none.
func (s *Store) load(o atoll.Owner, id string) (journalFile, error) {
	var j journalFile
	if atoll.CheckName(id) != nil || o.Check() != nil {
		return j, atoll.ErrNotFound
	}
	f, err := os.Open(filepath.Join(s.chatDir(o, id), fileName))
	if errors.Is(err, os.ErrNotExist) {
		return j, atoll.ErrNotFound
	}
	if err != nil {
		return j, err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxFile)).Decode(&j); err != nil {
		return j, fmt.Errorf("the journal of session %s: %w", id, err)
	}
	if j.Owner != o || j.ID != id {
		return j, atoll.ErrNotFound
	}
	return j, nil
}

// save writes a journal. It survives the end of the process.
func (s *Store) save(j *journalFile) error {
	dir := s.chatDir(j.Owner, j.ID)
	b, err := json.Marshal(j)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	name := filepath.Join(dir, fileName)
	if err == nil {
		err = os.WriteFile(name+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	return err
}

// Get returns the session of a chat.
func (s *Store) Get(o atoll.Owner, id string) (agent.SessionRecord, error) {
	j, err := s.load(o, id)
	if err != nil {
		return j.SessionRecord, &atoll.Error{Op: "session", ID: id, Err: err}
	}
	return j.SessionRecord, nil
}

// Filter selects sessions to list.
type Filter struct {
	State string
	Limit int // the latest; 0: 100; at most 1,000
}

// Limits of lists.
const (
	defaultList = 100
	maxList     = 1000
)

// List returns the sessions of an owner, the one that changed last at the end. Sessions that can't be
// read are left out.
func (s *Store) List(o atoll.Owner, f Filter) ([]agent.SessionRecord, error) {
	list := []agent.SessionRecord{}
	if o.Check() != nil {
		return list, nil
	}
	chats, err := os.ReadDir(filepath.Join(s.dir, o.App, o.User))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, &atoll.Error{Op: "list sessions", Err: err}
	}
	for _, c := range chats {
		j, err := s.load(o, c.Name())
		if err == nil && (f.State == "" || j.State == f.State) {
			list = append(list, j.SessionRecord)
		}
	}
	slices.SortStableFunc(list, func(a, b agent.SessionRecord) int { return a.Updated.Compare(b.Updated) })
	if f.Limit == 0 {
		f.Limit = defaultList
	}
	return list[max(0, len(list)-min(f.Limit, maxList)):], nil
}

// Journal is the journal of a session while a turn runs. Its methods are safe for concurrent use; each returns
// when the change is written.
type Journal struct {
	store *Store

	mu   sync.Mutex
	file journalFile // guarded by mu
}

// Begin opens the journal of a turn's chat for the turn that rec describes. If the turn has begun in
// another process, its usage and session id remain.
func (s *Store) Begin(rec agent.SessionRecord) *Journal {
	j := &Journal{store: s}
	last, err := s.load(rec.Owner, rec.ID)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		s.log.Warn("session begins a new journal", "chat", rec.ID, "err", err)
	}
	rec.State, rec.Started = agent.SessionStarting, s.now().UTC()
	j.file.SessionRecord = rec
	if err == nil {
		rec := &j.file.SessionRecord
		rec.Started, rec.Turns, rec.Usage, rec.Text = last.Started, last.Turns, last.Usage, last.Text
		if last.Agent == rec.Agent && last.Assistant == rec.Assistant {
			rec.Session = last.Session
		}
		if last.Turn == rec.Turn {
			rec.TurnUsage, rec.Answer, rec.Turns = last.TurnUsage, last.Answer, last.Turns-1
			j.file.Pending = last.Pending
		}
	}
	j.Update(func(r *agent.SessionRecord) { r.Turns++ })
	return j
}

// Update changes the session's record and writes it. That it can't be written is logged: the turn goes on.
func (j *Journal) Update(f func(r *agent.SessionRecord)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.file.SessionRecord)
	j.write()
}

// write writes the journal. The caller holds mu.
func (j *Journal) write() {
	j.file.Updated = j.store.now().UTC()
	if err := j.store.save(&j.file); err != nil {
		j.store.log.Warn("session not written", "chat", j.file.ID, "turn", j.file.Turn, "err", err)
	}
}

// Record returns the session's record.
func (j *Journal) Record() agent.SessionRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.file.SessionRecord
	r.Permissions = slices.Clone(r.Permissions)
	return r
}

// SetState changes the state, if it is another.
func (j *Journal) SetState(state string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file.State != state {
		j.file.State = state
		j.write()
	}
}

// NoteEvent records what an event of the agent says about the session. It writes only changes.
func (j *Journal) NoteEvent(e *agent.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &j.file.SessionRecord
	changed := false
	if e.Type == agent.TextDone && e.Parent == "" && strings.TrimSpace(e.Text) != "" {
		r.Text, changed = cutText(e.Text), true
	}
	if e.Session != "" && e.Session != r.Session {
		r.Session, changed = e.Session, true
	}
	switch {
	case e.Permission == nil:
	case e.Type == agent.PermissionRequested:
		r.Permissions = append(withoutPermission(r.Permissions, e.Permission.ID), *e.Permission)
		changed = true
	case e.Type == agent.PermissionResolved:
		r.Permissions = withoutPermission(r.Permissions, e.Permission.ID)
		changed = true
	}
	state := agent.SessionWorking
	if len(r.Permissions) > 0 {
		state = agent.SessionWaitingApproval
	}
	if r.State != state && r.State != agent.SessionWaitingInput {
		r.State, changed = state, true
	}
	if changed {
		j.write()
	}
}

// cutText returns the beginning of a message.
func cutText(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }

// withoutPermission returns a list without the request of an id.
func withoutPermission(list []agent.Permission, id string) []agent.Permission {
	return slices.DeleteFunc(slices.Clone(list), func(p agent.Permission) bool { return p.ID == id })
}

// NoteAnswer records the last answer of the model's API.
func (j *Journal) NoteAnswer(a agent.ModelAnswer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file.Answer != a {
		j.file.Answer = a
		j.write()
	}
}

// NoteUsage records the usage so far of a request to the model that is in flight.
func (j *Journal) NoteUsage(request int64, u agent.Usage) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file.Pending == nil {
		j.file.Pending = make(map[int64]agent.Usage)
	}
	j.file.Pending[request] = u
	j.write()
}

// AddUsage records the usage of a request to the model that has ended.
func (j *Journal) AddUsage(request int64, u agent.Usage) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.addUsage(request, u)
	j.write()
}

func (j *Journal) addUsage(request int64, u agent.Usage) {
	delete(j.file.Pending, request)
	u.Counted = true
	j.file.TurnUsage, j.file.Usage = j.file.TurnUsage.Add(u), j.file.Usage.Add(u)
}

// AdoptPending adds the usage of the requests that were in flight when the process of the turn ended, and returns
// its sum, for the ledger.
func (j *Journal) AdoptPending() agent.Usage {
	j.mu.Lock()
	defer j.mu.Unlock()
	var sum agent.Usage
	for _, n := range slices.Sorted(maps.Keys(j.file.Pending)) {
		sum = sum.Add(j.file.Pending[n])
		j.addUsage(n, j.file.Pending[n])
	}
	if sum != (agent.Usage{}) {
		j.write()
	}
	return sum
}

// Ending returns what is known about the end of the turn, without its report.
func (j *Journal) Ending() agent.Ending {
	r := j.Record()
	return agent.Ending{Session: r.Session, Usage: r.TurnUsage, Answer: r.Answer}
}

// Finish records how the turn has ended. canResume reports whether the next turn can resume the conversation.
func (j *Journal) Finish(res agent.Result, canResume bool) {
	j.Update(func(r *agent.SessionRecord) {
		r.Outcome, r.Code, r.Message = res.Outcome, res.Code, res.Message
		r.Sandbox, r.Permissions = "", nil
		if strings.TrimSpace(res.Text) != "" {
			r.Text = cutText(res.Text)
		}
		if res.Session != "" {
			r.Session = res.Session
		}
		r.State = agent.SessionIdle
		if !canResume {
			r.State = agent.SessionEnded
		}
	})
}

// Reopen returns the journal of a turn whose process has ended; nil if the chat has gone on with another turn,
// or has no journal.
func (s *Store) Reopen(o atoll.Owner, chat, turn string) *Journal {
	last, err := s.load(o, chat)
	if err != nil || last.Turn != turn {
		return nil
	}
	return &Journal{store: s, file: last}
}
