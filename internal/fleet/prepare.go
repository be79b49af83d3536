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
	"slices"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// workspaceScope and sandboxScope return the scopes of prepare steps that are done once.
func workspaceScope(workspace string) string { return "workspace " + workspace }

func sandboxScope(sandbox string) string { return "sandbox " + sandbox }

// prepareSandbox runs the prepare steps of a configuration in order, before the first command. The
// first failure ends it, unless the step ignores errors.
func (f *Fleet) prepareSandbox(ctx context.Context, sb atoll.Sandbox, r row) error {
	return f.runSteps(ctx, sb, &r, r.cfg.Prepare)
}

// runSteps runs steps in a sandbox as its owner.
func (f *Fleet) runSteps(ctx context.Context, sb atoll.Sandbox, r *row, steps []atoll.Step) error {
	m := newMask(&r.cfg).withValues(slices.Concat(f.referenceValues(&r.cfg), f.identityValues(r)))
	for i := range steps {
		s := &steps[i]
		err := f.runStepOnce(ctx, sb, r, s)
		if err == nil {
			continue
		}
		name := fmt.Sprintf("prepare[%d]", i)
		if s.Name != "" {
			name += fmt.Sprintf(" %q", s.Name)
		}
		err = m.redactError(fmt.Errorf("%s: %w", name, err))
		if !s.IgnoreError || ctx.Err() != nil {
			return err
		}
		f.log.Warn("a prepare step failed, and its errors are ignored", "id", r.id, "step", i)
	}
	return nil
}

// runStepOnce runs a step, unless it is to be done once and was.
func (f *Fleet) runStepOnce(ctx context.Context, sb atoll.Sandbox, r *row, s *atoll.Step) error {
	if !s.Once {
		return f.runStep(ctx, sb, r, s)
	}
	at := onceStepOf(r, s)
	done, err := f.onceSteps.acquire(ctx, at) // two sandboxes of one workspace don't do it concurrently
	if err != nil {
		return err
	}
	defer done()
	if was, err := f.isStepDone(ctx, at); was || err != nil {
		return err
	}
	if err := f.runStep(ctx, sb, r, s); err != nil {
		return err
	}
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into prepared (app, user, place, hash, time) values (?, ?, ?, ?, ?) on conflict (app, user, place, hash) do update set time = excluded.time",
			at.owner.App, at.owner.User, at.scope, at.hash, registry.Timestamp(f.now()))
		return err
	})
}

// onceStep identifies a step that is done once in a scope.
type onceStep struct {
	owner atoll.Owner
	scope string
	hash  string
}

// onceStepOf returns the identity of a step: its content, and as scope the first writable
// workspace or else the sandbox. Its name and timeout don't count.
func onceStepOf(r *row, s *atoll.Step) onceStep {
	at := onceStep{owner: r.owner, scope: sandboxScope(r.id)}
	for _, w := range r.cfg.Workspaces {
		if !w.ReadOnly {
			at.scope = workspaceScope(w.Workspace)
			break
		}
	}
	b, _ := json.Marshal(atoll.Step{Exec: s.Exec, Shell: s.Shell, File: s.File, Copy: s.Copy}) // texts and numbers always encode
	sum := sha256.Sum256(b)
	at.hash = hex.EncodeToString(sum[:])
	return at
}

func (f *Fleet) isStepDone(ctx context.Context, at onceStep) (bool, error) {
	var n int
	err := f.registry.DB.QueryRowContext(ctx, "select count(*) from prepared where app = ? and user = ? and place = ? and hash = ?",
		at.owner.App, at.owner.User, at.scope, at.hash).Scan(&n)
	return n > 0, err
}

// onceStepTable holds the once steps that this process is running.
type onceStepTable struct {
	mu      sync.Mutex
	running map[onceStep]chan struct{} // closed at the end of the step; guarded by mu
}

// acquire waits until no other call runs a step, and returns its release.
func (t *onceStepTable) acquire(ctx context.Context, at onceStep) (func(), error) {
	for {
		t.mu.Lock()
		other := t.running[at]
		if other == nil {
			if t.running == nil {
				t.running = make(map[onceStep]chan struct{})
			}
			mine := make(chan struct{})
			t.running[at] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.running, at)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, timeoutError(context.Cause(ctx))
		}
	}
}

// runStep runs a step: it writes a file, copies from a workspace or runs a command.
func (f *Fleet) runStep(ctx context.Context, sb atoll.Sandbox, r *row, s *atoll.Step) error {
	if s.File == nil && s.Copy == nil {
		return f.runCommandStep(ctx, sb, r, s)
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
	return timeoutError(err)
}

// runCommandStep runs a command. Its error includes the end of stderr.
func (f *Fleet) runCommandStep(ctx context.Context, sb atoll.Sandbox, r *row, s *atoll.Step) error {
	var stderr tailBuffer
	own, err := f.referenceEnv(ctx, &r.cfg)
	if err != nil {
		return err
	}
	identity, err := f.identityEnv(ctx, r)
	if err != nil {
		return err
	}
	cmd := atoll.Cmd{Args: s.Exec, Shell: s.Shell, Env: slices.Concat(r.env, own, identity), Timeout: s.Timeout, Stdout: io.Discard, Stderr: &stderr}
	exit, err := sb.Exec(ctx, cmd)
	if err == nil && exit.Success() {
		return nil
	}
	said := stderr.lastLines()
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

// tailBuffer keeps the last bytes that are written to it.
type tailBuffer struct{ b []byte }

const tailBytes = 2 << 10

func (t *tailBuffer) Write(b []byte) (int, error) {
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

// lastLines returns the content in one line.
func (t *tailBuffer) lastLines() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?")), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}

// copyStep copies files from a workspace of the owner.
func (f *Fleet) copyStep(ctx context.Context, sb atoll.Sandbox, o atoll.Owner, c *atoll.StepCopy) (err error) {
	files, err := f.Account(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRead}}).Files(ctx, c.Workspace)
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
		return cerr // it is the cause of the import's error
	}
	return err
}
