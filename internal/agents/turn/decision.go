package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll/agent"
)

// keptDecision is an acknowledged decision about a permission. It is stored before it is acknowledged, so that it reaches the agent
// also if this process is killed at once. A later event PermissionResolved of the permission means that the agent has it.
type keptDecision struct {
	Seq      int64          `json:"seq"` // of the turn's last event at that time
	ID       string         `json:"id"`  // of the permission
	By       string         `json:"by,omitempty"`
	Decision agent.Decision `json:"decision"`
}

// recordDecision stores a decision of a turn that another process can continue.
func (t *Turn) recordDecision(k keptDecision) error {
	if !t.kept.Load() {
		return nil
	}
	k.Seq = t.log.lastSeq()
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(t.keptDir(), keptDecisions), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// loadDecisions returns the decisions of a turn that its agent may not have received, by permission.
func (d *Registry) loadDecisions(p turnKey, l *log) (map[string]keptDecision, error) {
	all, err := os.ReadFile(filepath.Join(d.keptDir(p), keptDecisions))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	open := make(map[string]keptDecision)
	for line := range bytes.Lines(all) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the process was killed while it wrote: the decision was not acknowledged
		}
		var k keptDecision
		if err := json.Unmarshal(line, &k); err != nil {
			return nil, fmt.Errorf("%s: %w", keptDecisions, err)
		}
		open[k.ID] = k
	}
	_, err = replayEvents(l.file, 0, l.size, -1, func(e agent.Event) error {
		if e.Type == agent.PermissionResolved && e.Permission != nil && e.Seq > open[e.Permission.ID].Seq {
			delete(open, e.Permission.ID)
		}
		return nil
	})
	return open, err
}

// answerDecided answers a request that was decided in an earlier process. The caller holds mu.
func (t *Turn) answerDecided(q *permissionRequest) {
	k, ok := t.decided[q.permission.ID]
	if !ok || q.answered {
		return
	}
	delete(t.decided, k.ID)
	q.by, q.answered = k.By, true
	q.answer <- k.Decision
}
