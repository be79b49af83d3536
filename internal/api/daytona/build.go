package daytona

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// buildPlan is a Dockerfile: an image, the settings of its commands, and steps.
type buildPlan struct {
	image string // empty: the server's own
	env   []string
	dir   string
	steps []buildStep
}

// buildStep is a command of a build.
type buildStep struct {
	command string
	args    []string // in place of command
	dir     string
	user    string
	env     []string
}

// ownImages are the images of Daytona itself, which stand for the configuration of the server.
const ownImages = "daytonaio/"

// parseDockerfile parses the Dockerfile of a client. Instructions that need files of the client, or that
// atoll has no term for, are refused.
func parseDockerfile(in *buildInfo) (*buildPlan, error) {
	if len(in.ContextHashes) > 0 {
		return nil, unsupportedError("contextHashes: files of the client in an image")
	}
	text := strings.ReplaceAll(strings.ReplaceAll(in.DockerfileContent, "\r\n", "\n"), "\\\n", " ")
	r := &dockerfileReader{}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if err := r.readInstruction(strings.ToUpper(word), strings.TrimSpace(rest)); err != nil {
			return nil, err
		}
	}
	if !r.from {
		return nil, errNoFrom
	}
	return &r.plan, nil
}

// errNoFrom is the error of a Dockerfile without an image.
var errNoFrom = invalidError("the Dockerfile must begin with FROM")

// dockerfileReader reads the instructions of a Dockerfile into a plan.
type dockerfileReader struct {
	plan buildPlan
	from bool   // FROM was read
	user string // of the next steps
}

// readInstruction adds an instruction to the plan.
func (r *dockerfileReader) readInstruction(word, rest string) error {
	p := &r.plan
	if !r.from && word != "FROM" && word != "ARG" {
		return errNoFrom
	}
	switch word {
	case "FROM":
		return r.readFrom(rest)
	case "RUN":
		st := buildStep{command: rest, dir: p.dir, user: r.user, env: slices.Clone(p.env)}
		if strings.HasPrefix(rest, "[") && json.Unmarshal([]byte(rest), &st.args) == nil && len(st.args) > 0 {
			st.command = ""
		}
		p.steps = append(p.steps, st)
	case "ENV":
		env, err := parseEnv(rest)
		if err != nil {
			return err
		}
		p.env = append(p.env, env...)
	case "WORKDIR":
		p.dir = path.Join("/", p.dir, rest)
		if path.IsAbs(rest) {
			p.dir = path.Clean(rest)
		}
		p.steps = append(p.steps, buildStep{args: []string{"mkdir", "-p", "--", p.dir}})
	case "USER":
		r.user = rest
	case "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL": // they change no sandbox
	default:
		return unsupportedError("%s in a Dockerfile", shortenText(word))
	}
	return nil
}

// readFrom sets the image of the plan.
func (r *dockerfileReader) readFrom(rest string) error {
	if r.from {
		return unsupportedError("a Dockerfile with several stages")
	}
	image := strings.Fields(rest)
	if len(image) != 1 {
		return unsupportedError("FROM %s", shortenText(rest))
	}
	r.from = true
	if !strings.HasPrefix(image[0], ownImages) {
		r.plan.image = image[0]
	}
	return nil
}

// parseEnv parses the rest of ENV: "K=V K2=\"V 2\"", or "K V".
func parseEnv(text string) ([]string, error) {
	if strings.Contains(text, "$") {
		return nil, unsupportedError("variables in ENV")
	}
	if name, value, ok := strings.Cut(text, " "); ok && !strings.Contains(name, "=") {
		return []string{name + "=" + strings.TrimSpace(value)}, nil
	}
	var list []string
	var word strings.Builder
	quote := rune(0)
	flush := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
			word.Reset()
		}
	}
	for _, c := range text {
		switch {
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		case c == ' ' && quote == 0:
			flush()
		default:
			word.WriteRune(c)
		}
	}
	flush()
	for _, e := range list {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" {
			return nil, invalidError("ENV %s: must be NAME=VALUE", shortenText(text))
		}
	}
	return list, nil
}

// apply adds the settings of a plan to a configuration.
func (p *buildPlan) apply(cfg *atoll.Config) {
	if p.image != "" {
		cfg.Image = p.image
		cfg.Labels[labelDisk] = p.image
	}
	cfg.Env = append(slices.Clone(cfg.Env), p.env...)
	if p.dir != "" {
		cfg.Dir = p.dir
	}
}

// run runs the steps of a plan in a sandbox.
func (p *buildPlan) run(ctx context.Context, sb *fleet.Sandbox, out io.Writer) error {
	for i, st := range p.steps {
		args := st.args
		if st.command != "" {
			args = []string{"/bin/sh", "-c", st.command}
			_, _ = fmt.Fprintf(out, "step %d of %d: RUN %s\n", i+1, len(p.steps), st.command) // a log has no errors
		}
		dir := st.dir
		if dir == "" {
			dir = "/"
		}
		exit, err := sb.Exec(ctx, atoll.Cmd{Args: args, Dir: dir, User: st.user, Env: st.env, Timeout: -1, Stdout: out, Stderr: out})
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			return invalidError("the build has failed: %s: exit status %d", shortenText(strings.Join(args, " ")), exit.Code)
		}
	}
	return nil
}

// logWriter writes to a log.
type logWriter struct{ log *outputLog }

// Write appends to the log.
func (w logWriter) Write(b []byte) (int, error) {
	w.log.write(1, b)
	return len(b), nil
}

// buildSandbox creates a sandbox of a Dockerfile, whose steps run in it.
func (s *Server) buildSandbox(ctx context.Context, a *fleet.Account, in *buildInfo, cfg atoll.Config) (*fleet.Sandbox, error) {
	plan, err := parseDockerfile(in)
	if err != nil {
		return nil, err
	}
	plan.apply(&cfg)
	sb, err := a.Create(ctx, cfg)
	if err != nil {
		return nil, err
	}
	log := newOutputLog()
	if err := plan.run(ctx, sb, logWriter{log}); err != nil {
		_, text, _ := log.texts()
		var own *Error
		if errors.As(err, &own) {
			err = invalidError("%s\n%s", own.Message, lastBytes(text, 2048))
		}
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return sb, nil
}

func lastBytes(s string, n int) string { return strings.ToValidUTF8(s[max(len(s)-n, 0):], "") }

// Limits of builds in memory.
const (
	maxBuilds    = 1000
	buildTimeout = time.Hour
)

// build is the build of a snapshot.
type build struct {
	id, name string
	owner    atoll.Owner
	created  time.Time
	log      *outputLog
	done     chan struct{} // closed at its end
	cancel   context.CancelFunc

	mu     sync.Mutex
	state  string // building, active or build_failed; guarded by mu
	reason string // why it failed; guarded by mu
}

// builds are the builds of snapshots in this process. The zero value is ready to use.
type builds struct {
	mu   sync.Mutex
	all  []*build // guarded by mu
	done bool     // guarded by mu
	wg   sync.WaitGroup
}

// list returns the builds of an owner, newest first.
func (l *builds) list(o atoll.Owner) []*build {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*build
	for _, b := range slices.Backward(l.all) {
		if b.owner == o {
			list = append(list, b)
		}
	}
	return list
}

// find returns a build of an owner by its id or name, or nil.
func (l *builds) find(key string, o atoll.Owner) *build {
	for _, b := range l.list(o) {
		if b.id == key || b.name == key {
			return b
		}
	}
	return nil
}

// add adds a build; the oldest one that has ended makes room.
func (l *builds) add(b *build) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return compat.ErrStopping
	}
	if len(l.all) >= maxBuilds {
		at := slices.IndexFunc(l.all, func(o *build) bool {
			select {
			case <-o.done:
				return true
			default:
				return false
			}
		})
		if at < 0 {
			return &Error{Status: http.StatusTooManyRequests, Message: "too many builds are under way"}
		}
		l.all = slices.Delete(l.all, at, at+1)
	}
	l.all = append(l.all, b)
	l.wg.Add(1)
	return nil
}

// remove ends a build, waits for it and drops it.
func (l *builds) remove(b *build) {
	b.cancel()
	<-b.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o *build) bool { return o == b })
}

// close ends all builds and waits for them.
func (l *builds) close() {
	l.mu.Lock()
	l.done = true
	for _, b := range l.all {
		b.cancel()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// startBuild builds a snapshot: a sandbox in which the steps ran, and that is then stopped. It goes on
// without its client.
func (s *Server) startBuild(c *call, b *build, plan *buildPlan, cfg atoll.Config) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), buildTimeout)
	b.cancel = cancel
	if err := s.builds.add(b); err != nil {
		cancel()
		return err
	}
	cfg.Labels = map[string]string{labelBuilt: "building", labelName: b.name, labelID: b.id}
	plan.apply(&cfg)
	cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyPersistent, TTL: 2 * buildTimeout}
	a := c.a
	go func() {
		defer s.builds.wg.Done()
		defer cancel()
		defer close(b.done)
		err := b.run(ctx, a, plan, cfg)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.state = "active"; err != nil {
			b.state, b.reason = "build_failed", messageOf(err)
			b.log.write(1, []byte(b.reason+"\n"))
		}
	}()
	return nil
}

// run makes the sandbox of a snapshot.
func (b *build) run(ctx context.Context, a *fleet.Account, plan *buildPlan, cfg atoll.Config) error {
	sb, err := a.Create(ctx, cfg)
	if err != nil {
		return err
	}
	if err = plan.run(ctx, sb, logWriter{b.log}); err == nil {
		labels := sb.Labels()
		kept := map[string]string{labelBuilt: "active", labelName: b.name, labelID: b.id}
		if image := labels[labelDisk]; image != "" {
			kept[labelDisk] = image
		}
		err = keepStopped(ctx, a, sb.ID(), kept)
	}
	if err != nil {
		return errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return nil
}

// readBuildLog answers with the log of a build; with follow until its end.
func (s *Server) readBuildLog(c *call) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	b := s.builds.find(c.r.PathValue("id"), c.a.Caller().Owner)
	if b == nil {
		if _, err := findReadySnapshot(c.r.Context(), c.a, c.r.PathValue("id")); err != nil {
			return err
		}
		return c.writeEmpty(http.StatusOK, nil) // the log ended with the process that had it
	}
	flush := http.NewResponseController(c.w)
	c.w.WriteHeader(http.StatusOK)
	for at := 0; ; {
		text, next, more := b.log.plain(at)
		at = next
		if len(text) > 0 {
			if _, err := c.w.Write(text); err != nil || flush.Flush() != nil {
				return nil //nolint:nilerr // the client is gone
			}
			continue
		}
		if c.r.URL.Query().Get("follow") != "true" {
			return nil
		}
		select {
		case <-more:
		case <-b.done:
			if text, _, _ := b.log.plain(at); len(text) == 0 {
				return nil
			}
		case <-c.r.Context().Done():
			return nil
		case <-s.opts.Stopping.Done():
			return nil
		}
	}
}

// plain returns a chunk of a log without markers, the chunk that follows, and a channel that is closed when
// there is more.
func (l *outputLog) plain(at int) (text []byte, next int, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < len(l.chunks) {
		return l.chunks[at].data, at + 1, l.more
	}
	return nil, at, l.more
}
