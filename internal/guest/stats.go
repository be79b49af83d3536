package guest

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// OpStats asks for the resource usage of a sandbox.
const OpStats Op = "stats"

// statsRequest lists the directories whose files are counted.
type statsRequest struct {
	Dirs [][]byte `json:"dirs,omitempty"`
}

// statsBody is the resource usage as the guest measures it.
type statsBody struct {
	Files     int           `json:"files"`
	Disk      int64         `json:"disk"`
	Memory    int64         `json:"memory"`
	Processes int           `json:"processes"`
	Commands  int64         `json:"commands"`
	CPU       time.Duration `json:"cpu"`
	Idle      time.Duration `json:"idle"` // since the last activity
}

// Stats returns the resource usage of the sandbox, without the guest agent and the egress proxy.
// Files are counted in the directories of Counted.
func (l *Link) Stats(ctx context.Context) (atoll.Stats, error) {
	var q statsRequest
	for _, dir := range l.CountedDirs {
		r, err := newFileRequest(dir)
		if err != nil {
			return atoll.Stats{}, l.wrapError("stats", err)
		}
		q.Dirs = append(q.Dirs, r.Path)
	}
	ctx, cancel := l.withTransferTimeout(ctx)
	defer cancel()
	var s statsBody
	err := l.runOp(ctx, "stats", func(c *Client) error { return preferCause(ctx, c.Call(ctx, OpStats, q, &s)) })
	if err != nil {
		return atoll.Stats{}, err
	}
	return atoll.Stats{
		ID: l.ID, Files: max(s.Files, 0), DiskUsed: max(s.Disk, 0), DiskLimit: max(l.Spec.Limits.Disk, 0), MemoryUsed: max(s.Memory, 0),
		Processes: max(s.Processes, 0), Commands: max(s.Commands, 0), CPUTime: max(s.CPU, 0), Dir: l.Spec.Dir,
		Active: time.Now().Add(-max(s.Idle, 0)),
	}, nil
}
