package guest

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// OpStats asks what a sandbox uses.
const OpStats Op = "stats"

// statsRequest names the directories whose files are counted.
type statsRequest struct {
	Dirs [][]byte `json:"dirs,omitempty"`
}

// stats is what a guest knows of what its sandbox uses.
type stats struct {
	Files     int           `json:"files"`
	Disk      int64         `json:"disk"`
	Memory    int64         `json:"memory"`
	Processes int           `json:"processes"`
	Commands  int64         `json:"commands"`
	CPU       time.Duration `json:"cpu"`
	Idle      time.Duration `json:"idle"` // since the last activity
}

// Stats returns what the sandbox uses; its guest and what the gate does for it
// are not counted. Files are those in the directories of Counted.
func (l *Link) Stats(ctx context.Context) (atoll.Stats, error) {
	var q statsRequest
	for _, dir := range l.Counted {
		r, err := named(dir)
		if err != nil {
			return atoll.Stats{}, l.fail("stats", err)
		}
		q.Dirs = append(q.Dirs, r.Path)
	}
	ctx, cancel := l.transfer(ctx)
	defer cancel()
	var s stats
	err := l.do(ctx, "stats", func(c *Client) error { return ended(ctx, c.call(ctx, OpStats, q, &s)) })
	if err != nil {
		return atoll.Stats{}, err
	}
	return atoll.Stats{
		ID: l.ID, Files: max(s.Files, 0), DiskUsed: max(s.Disk, 0), DiskLimit: max(l.Spec.Limits.Disk, 0), MemoryUsed: max(s.Memory, 0),
		Processes: max(s.Processes, 0), Commands: max(s.Commands, 0), CPUTime: max(s.CPU, 0), Dir: l.Spec.Dir,
		Active: time.Now().Add(-max(s.Idle, 0)),
	}, nil
}
