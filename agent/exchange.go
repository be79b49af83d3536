package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// exchange implements Exchange in the event loop of a session.
type exchange struct{ s *Session }

// Emit emits an event. Finished events are dropped: only the session emits them.
func (x exchange) Emit(e Event) {
	switch e.Type {
	case Finished:
	case PermissionRequested:
		x.s.requestPermission(e)
	case PermissionResolved:
		if e.Permission != nil {
			x.s.dropPending(e.Permission.ID)
		}
		x.s.emitEvent(e)
	default:
		x.s.emitEvent(e)
	}
}

// Send writes b to the process's input. A process that does not read is killed
// before the buffer fills the memory.
func (x exchange) Send(b []byte) {
	if !x.s.stdin.add(b) {
		x.s.stopPrompt(StopReason{Failed, fmt.Sprintf("the agent has not read the last %d bytes that it was sent", maxUnread)})
		x.s.kill(errStopped)
	}
}

// Close closes the process's input.
func (x exchange) Close() { x.s.stdin.close() }

// emitEvent numbers an event, logs it and passes it to Job.Emit.
func (s *Session) emitEvent(e Event) {
	s.seq++
	e.Seq, e.Time, e.Turn = s.seq, time.Now(), s.job.Turn.ID
	if e.Type == Started {
		s.started = &e
	}
	if e.Message != nil {
		s.noteMessage(e.Message)
	}
	if s.promptsToReplay > 0 {
		return // it was emitted for an earlier prompt
	}
	err := s.writeLog(e)
	if err != nil {
		s.logFailed = true
	}
	if err != nil && e.Type != Finished { // Finished stays the last event
		defer s.emitEvent(Event{Type: Warning, Text: "writing the event log: " + err.Error()})
	}
	if s.job.Emit != nil {
		s.job.Emit(e)
	}
}

// writeLog writes an event to Job.Log as a line of JSON.
func (s *Session) writeLog(e Event) error {
	if s.job.Log == nil || s.logFailed {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.job.Log.Write(append(b, '\n'))
	return err
}

// jsonString returns bytes as a JSON string; invalid UTF-8 is replaced.
func jsonString(b []byte) json.RawMessage {
	s := string(b)
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	j, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return j
}
