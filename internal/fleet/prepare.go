package fleet

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// preparedIn and preparedBy are the places of steps that are done once.
func preparedIn(workspace string) string { return "workspace " + workspace }

func preparedBy(sandbox string) string { return "sandbox " + sandbox }

// prepare does the steps of a sandbox's configuration, in order, before its first
// command. The first that fails ends it, unless its error is to be ignored.
func (f *Fleet) prepare(ctx context.Context, sb atoll.Sandbox, r row) error {
	return f.doSteps(ctx, sb, &r, r.cfg.Prepare)
}

// doSteps does steps in a sandbox, as its owner.
func (f *Fleet) doSteps(ctx context.Context, sb atoll.Sandbox, r *row, steps []atoll.Step) error {
	m := newMask(&r.cfg)
	for i := range steps {
		s := &steps[i]
		err := f.step(ctx, sb, r, s)
		if err == nil {
			continue
		}
		name := fmt.Sprintf("prepare[%d]", i)
		if s.Name != "" {
			name += fmt.Sprintf(" %q", s.Name)
		}
		err = m.error(fmt.Errorf("%s: %w", name, err))
		if !s.IgnoreError || ctx.Err() != nil {
			return err
		}
		f.log.Warn("a step failed, which is to be ignored", "id", r.id, "step", i)
	}
	return nil
}

// step does one step, unless it is to be done once and was.
func (f *Fleet) step(ctx context.Context, sb atoll.Sandbox, r *row, s *atoll.Step) error {
	if !s.Once {
		return f.doStep(ctx, sb, r, s)
	}
	at := stepOf(r, s)
	done, err := f.rites.begin(ctx, at) // two sandboxes of one workspace don't do it at once
	if err != nil {
		return err
	}
	defer done()
	if was, err := f.wasDone(ctx, at); was || err != nil {
		return err
	}
	if err := f.doStep(ctx, sb, r, s); err != nil {
		return err
	}
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into prepared (app, user, place, hash, time) values (?, ?, ?, ?, ?) on conflict (app, user, place, hash) do update set time = excluded.time",
			at.owner.App, at.owner.User, at.place, at.hash, stamp(f.now()))
		return err
	})
}

// rite is a step that is done once: whose, where, and what.
type rite struct {
	owner atoll.Owner
	place string
	hash  string
}

// stepOf says where a step is done once: in the first workspace that can be
// written, else in the sandbox. What it is for people, and how long it may take,
// makes it no other step.
func stepOf(r *row, s *atoll.Step) rite {
	at := rite{owner: r.owner, place: preparedBy(r.id)}
	for _, w := range r.cfg.Workspaces {
		if !w.ReadOnly {
			at.place = preparedIn(w.Workspace)
			break
		}
	}
	b, _ := json.Marshal(atoll.Step{Exec: s.Exec, Shell: s.Shell, File: s.File, Copy: s.Copy}) // of texts and numbers: never fails
	sum := sha256.Sum256(b)
	at.hash = hex.EncodeToString(sum[:])
	return at
}

func (f *Fleet) wasDone(ctx context.Context, at rite) (bool, error) {
	var n int
	err := f.store.db.QueryRowContext(ctx, "select count(*) from prepared where app = ? and user = ? and place = ? and hash = ?",
		at.owner.App, at.owner.User, at.place, at.hash).Scan(&n)
	return n > 0, err
}

// rites are the steps that are under way in this process and are done once.
type rites struct {
	mu    sync.Mutex
	doing map[rite]chan struct{} // closed when it has ended; guarded by mu
}

// begin waits until nobody does a step, and returns how to end it.
func (t *rites) begin(ctx context.Context, at rite) (func(), error) {
	for {
		t.mu.Lock()
		other := t.doing[at]
		if other == nil {
			if t.doing == nil {
				t.doing = make(map[rite]chan struct{})
			}
			mine := make(chan struct{})
			t.doing[at] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.doing, at)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, late(context.Cause(ctx))
		}
	}
}

// doStep does what a step says.
func (f *Fleet) doStep(ctx context.Context, sb atoll.Sandbox, r *row, s *atoll.Step) error {
	if s.File == nil && s.Copy == nil {
		return f.runStep(ctx, sb, r, s)
	}
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, s.Timeout))
		defer cancel()
	}
	var err error
	if s.File != nil {
		perm := fs.FileMode(s.File.Mode)
		if perm == 0 {
			perm = 0o644
		}
		err = atoll.WriteFile(ctx, sb, s.File.Path, []byte(s.File.Content), perm)
	} else {
		err = f.copyStep(ctx, sb, r.owner, s.Copy)
	}
	return late(err)
}

// runStep runs a command. Its error ends with the last that it wrote to stderr.
func (f *Fleet) runStep(ctx context.Context, sb atoll.Sandbox, r *row, s *atoll.Step) error {
	var stderr tail
	cmd := atoll.Cmd{Args: s.Exec, Shell: s.Shell, Env: r.env, Timeout: s.Timeout, Stdout: io.Discard, Stderr: &stderr}
	exit, err := sb.Exec(ctx, cmd)
	if err == nil && exit.Success() {
		return nil
	}
	said := stderr.text()
	if said != "" {
		said = ": " + said
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, said)
	}
	if exit.Signal != "" {
		said = " (" + exit.Signal + ")" + said
	}
	return fmt.Errorf("%w: exit status %d%s", atoll.ErrInvalid, exit.Code, said)
}

// tail keeps the last of what is written to it.
type tail struct{ b []byte }

const tailBytes = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	if len(b) > tailBytes {
		b = b[len(b)-tailBytes:]
	}
	t.b = append(t.b, b...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = t.b[:copy(t.b, t.b[over:])]
	}
	return n, nil
}

// text is the tail in one line.
func (t *tail) text() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?")), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}

// copyStep copies from a workspace of the owner.
func (f *Fleet) copyStep(ctx context.Context, sb atoll.Sandbox, o atoll.Owner, c *atoll.StepCopy) (err error) {
	files, err := f.For(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRead}}).Files(ctx, c.Workspace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	rc, err := files.Export(ctx, path.Join("/", c.From))
	if err != nil {
		return err
	}
	err = sb.Import(ctx, c.To, rc)
	cerr := rc.Close()
	if err == nil && cerr == nil {
		return nil
	}
	if cerr != nil {
		return cerr // what the import failed for
	}
	return err
}
