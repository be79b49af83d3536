package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// exchange is what a Talk says, in the loop of a session.
type exchange struct{ s *Session }

// Emit tells an event. Results are told by the session alone.
func (x exchange) Emit(e Event) {
	switch e.Type {
	case Finished:
	case PermissionRequested:
		x.s.request(e)
	case PermissionResolved:
		if e.Permission != nil {
			x.s.forget(e.Permission.ID)
		}
		x.s.tell(e)
	default:
		x.s.tell(e)
	}
}

// Send says b to the process. One that reads nothing is ended before what it
// was told fills the memory.
func (x exchange) Send(b []byte) {
	if !x.s.in.add(b) {
		x.s.halt(stop{Failed, fmt.Sprintf("the agent has not read the last %d bytes that it was sent", mostUnread)})
		x.s.kill(errStopped)
	}
}

// Close ends what the process reads.
func (x exchange) Close() { x.s.in.close() }

// tell numbers an event, logs it and passes it on.
func (s *Session) tell(e Event) {
	s.seq++
	e.Seq, e.Time, e.Turn = s.seq, time.Now(), s.job.Turn.ID
	err := s.log(e)
	if err != nil {
		s.muted = true
	}
	if err != nil && e.Type != Finished { // which is the last
		defer s.tell(Event{Type: Warning, Text: "the log is not written any more: " + err.Error()})
	}
	if s.job.Emit != nil {
		s.job.Emit(e)
	}
}

// log writes an event as a line of JSON.
func (s *Session) log(e Event) error {
	if s.job.Log == nil || s.muted {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.job.Log.Write(append(b, '\n'))
	return err
}

// text returns what is not JSON as JSON.
func text(b []byte) json.RawMessage {
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
