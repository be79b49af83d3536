package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// The files of a Job.Journal.
const (
	journalStart  = "start.json"   // a sessionStart; without it the session can't be continued
	journalStdout = "stdout"       // output of the process that has arrived
	journalStderr = "stderr"       // its standard error
	journalInputs = "inputs.jsonl" // sessionInputs
)

// maxJournal limits the output in a journal, in bytes of each stream. A session with more can't be continued.
const maxJournal = 64 << 20

// maxWarmJournal is the output in a journal beyond which a session accepts no further prompt: each prompt copies the journal, and
// a process that continues the session handles all of it again.
const maxWarmJournal = 8 << 20

// sessionStart is what a session starts with.
type sessionStart struct {
	Several     bool        `json:"several,omitempty"` // the session is not Job.Once
	Process     string      `json:"process"`           // Cmd.ID of the agent's process
	Turn        Turn        `json:"turn"`              // without Env and Skills, which only its start needs
	Environment Environment `json:"environment"`
	Model       string      `json:"model,omitempty"` // address of the model endpoint
	Tools       string      `json:"tools,omitempty"` // address of the tools
	Stdin       []byte      `json:"stdin,omitempty"` // Plan.Stdin
}

// sessionInput is what a Conversation was told besides its process's output. One of Decision, Stop, Prompt and Message is set.
type sessionInput struct {
	After    int64     `json:"after"` // lines of output that were handled before
	ID       string    `json:"id,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	By       string    `json:"by,omitempty"`
	Stop     *stopNote `json:"stop,omitempty"`   // the prompt was interrupted
	Prompt   []Content `json:"prompt,omitempty"` // a further prompt
	Turn     string    `json:"turn,omitempty"`   // its Turn.ID
	Message  *Message  `json:"message,omitempty"`
}

// stopNote is a stopReason in a journal.
type stopNote struct {
	Outcome Outcome `json:"outcome"`
	Message string  `json:"message,omitempty"`
}

// journal is the record of a session with which another process can continue it. It survives the
// end of this process, not that of the machine, with which the sandbox ends as well.
type journal struct {
	start sessionStart

	mu             sync.Mutex
	dir            string // guarded by mu, as all below
	stdout, stderr *journalStream
	inputs         *os.File
}

// createJournal creates the journal of a new session, in place of an earlier one.
func createJournal(dir string, start sessionStart) (*journal, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	start.Turn.Env, start.Turn.Skills = nil, nil
	j, err := openJournal(dir, start)
	if err != nil {
		return nil, err
	}
	if err := writeStart(dir, start); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// writeStart stores what a session starts with, which makes its journal valid.
func writeStart(dir string, start sessionStart) error {
	b, err := json.Marshal(start)
	name := filepath.Join(dir, journalStart)
	if err == nil {
		err = os.WriteFile(name+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	return err
}

// openJournal opens the files that a journal grows in.
func openJournal(dir string, start sessionStart) (*journal, error) {
	j := &journal{dir: dir, start: start}
	var err error
	if j.stdout, err = openJournalStream(j, journalStdout); err != nil {
		return nil, err
	}
	if j.stderr, err = openJournalStream(j, journalStderr); err != nil {
		return nil, errors.Join(err, j.close())
	}
	if j.inputs, err = openAppending(filepath.Join(dir, journalInputs)); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func openAppending(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// close closes the files.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closeFiles()
}

// closeFiles closes the files. The caller holds mu.
func (j *journal) closeFiles() error {
	var errs []error
	for _, f := range []*journalStream{j.stdout, j.stderr} {
		if f != nil {
			errs = append(errs, f.file.Close())
		}
	}
	if j.inputs != nil {
		errs = append(errs, j.inputs.Close())
	}
	return errors.Join(errs...)
}

// addInput records an input before the Conversation receives it.
func (j *journal) addInput(in sessionInput) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := json.Marshal(in)
	if err == nil {
		_, err = j.inputs.Write(append(b, '\n'))
	}
	if err != nil {
		return errors.Join(err, forgetStart(j.dir))
	}
	return nil
}

// moveTo copies the journal to another directory, with one more input, and continues there. The former directory may be
// removed already: its files are open.
func (j *journal) moveTo(dir string, in sessionInput) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stdout.full || j.stderr.full {
		return fmt.Errorf("%w: the journal is full", atoll.ErrState)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	to, err := openJournal(dir, j.start)
	if err != nil {
		return err
	}
	if err = j.copyTo(to); err == nil {
		err = to.addInput(in)
	}
	if err == nil {
		err = writeStart(dir, j.start)
	}
	if err != nil {
		return errors.Join(err, to.close())
	}
	err = j.closeFiles()
	j.dir, j.inputs = dir, to.inputs
	j.stdout.file, j.stderr.file = to.stdout.file, to.stderr.file
	return err
}

// copyTo copies the content of the files to a new journal. The caller holds mu.
func (j *journal) copyTo(to *journal) error {
	info, err := j.inputs.Stat()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		from, to *os.File
		size     int64
	}{{j.stdout.file, to.stdout.file, j.stdout.size}, {j.stderr.file, to.stderr.file, j.stderr.size}, {j.inputs, to.inputs, info.Size()}} {
		if _, err := io.Copy(f.to, io.NewSectionReader(f.from, 0, f.size)); err != nil {
			return err
		}
	}
	return nil
}

// isShort reports whether the session may go on with further prompts.
func (j *journal) isShort() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stdout.size+j.stderr.size < maxWarmJournal && !j.stdout.full && !j.stderr.full
}

// forgetStart makes a session impossible to continue: its journal is incomplete.
func forgetStart(dir string) error {
	err := os.Remove(filepath.Join(dir, journalStart))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// journalStream is an output stream of a process in a journal. The journal's mu guards it.
type journalStream struct {
	journal *journal
	file    *os.File
	size    int64
	full    bool // it is not recorded any more
}

func openJournalStream(j *journal, name string) (*journalStream, error) {
	f, err := openAppending(filepath.Join(j.dir, name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &journalStream{journal: j, file: f, size: info.Size()}, nil
}

// Write records output. It never fails: a session whose output can't be recorded goes on, and can't be
// continued by another process.
func (s *journalStream) Write(b []byte) (int, error) {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if s.full {
		return len(b), nil
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err != nil || s.size > maxJournal {
		s.full = true
		_ = forgetStart(s.journal.dir) // it fails only on a host that is in trouble anyway
	}
	return len(b), nil
}

// readJournal reads the start and the inputs of a journal. It returns ErrSessionLost, which is ErrNotFound
// too, if the session can't be continued.
func readJournal(dir string) (start sessionStart, inputs []sessionInput, err error) {
	b, err := os.ReadFile(filepath.Join(dir, journalStart))
	if errors.Is(err, os.ErrNotExist) {
		return start, nil, fmt.Errorf("%w: the journal of the agent's session is missing or incomplete: %w", ErrSessionLost, atoll.ErrNotFound)
	}
	if err == nil {
		err = json.Unmarshal(b, &start)
	}
	if err != nil {
		return start, nil, fmt.Errorf("the journal of the session: %w", err)
	}
	all, err := os.ReadFile(filepath.Join(dir, journalInputs))
	if err != nil {
		return start, nil, fmt.Errorf("the journal of the session: %w", err)
	}
	for line := range bytes.Lines(all) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the process was killed while it wrote: the Conversation was not told
		}
		var in sessionInput
		if err := json.Unmarshal(line, &in); err != nil {
			return start, nil, fmt.Errorf("the journal of the session: %s: %w", journalInputs, err)
		}
		inputs = append(inputs, in)
	}
	return start, inputs, nil
}

// copyOutput passes the recorded standard output to w.
func (j *journal) copyOutput(w io.Writer) error {
	_, err := io.Copy(w, io.NewSectionReader(j.stdout.file, 0, j.stdout.size))
	return err
}

// copyErrors passes the recorded standard error to w.
func (j *journal) copyErrors(w io.Writer) error {
	_, err := io.Copy(w, io.NewSectionReader(j.stderr.file, 0, j.stderr.size))
	return err
}

// HasJournal reports whether a directory has the journal of a session that [ResumeSession] can continue.
func HasJournal(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, journalStart))
	return err == nil
}
