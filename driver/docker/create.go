package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Create makes a sandbox; an image that the engine doesn't have is pulled.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: orWord(spec.ID, spec.Name), Err: err}
	}
	return s, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil { // what is wrong is wrong without an engine too
		return nil, err
	}
	e, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.check(e, &spec); err != nil {
		return nil, err
	}
	image, err := e.image(ctx, orWord(spec.Image, atoll.DefaultImage))
	if err != nil {
		return nil, err
	}
	cfg, err := d.guestConfig(e, &spec, image)
	if err != nil {
		return nil, err
	}
	return d.build(ctx, e, &plan{id: spec.ID, spec: spec, image: image.ID, guest: cfg})
}

// image returns an image of the engine, pulled if it is not there.
func (e *engine) image(ctx context.Context, ref string) (client.ImageInspectResult, error) {
	image, err := e.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		if err := e.pull(ctx, ref, nil); err != nil {
			return image, err
		}
		image, err = e.api.ImageInspect(ctx, ref)
	}
	if err != nil {
		return image, fmt.Errorf("image %s: %w", ref, e.cause(ctx, err))
	}
	return image, nil
}

// guestConfig says what the guest is told.
func (d *Driver) guestConfig(e *engine, spec *atoll.Spec, image client.ImageInspectResult) (guest.Config, error) {
	var user string
	var env []string
	if image.Config != nil {
		user, env = image.Config.User, image.Config.Env
	}
	uid, gid, err := identity(spec, user)
	if err != nil {
		return guest.Config{}, err
	}
	cfg := guest.Config{UID: uid, GID: gid, Switch: true, Gate: e.direct(), Env: environ(env, gate.Env(spec.Network), spec.Env)}
	cfg.Filter, err = commandFilter(e)
	return cfg, err
}

// build makes a sandbox of a plan, or leaves nothing behind.
func (d *Driver) build(ctx context.Context, e *engine, p *plan) (_ *Sandbox, err error) {
	limit := p.spec.Timeouts.Create
	if limit == 0 {
		limit = atoll.DefaultCreateTimeout
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: it did not answer within %v", atoll.ErrTimeout, limit))
		defer cancel()
	}
	if p.id == "" {
		p.id = atoll.NewID()
	}
	if p.spec.Dir == "" {
		p.spec.Dir = atoll.DefaultDir
	}
	if s := path.Clean(p.spec.Dir); s != "/" && !mounted(&p.spec, s) {
		p.guest.Dir = s // an image that has it has made it root's
	}
	p.spec.ID, p.created, p.dir = p.id, time.Now(), d.sandboxDir(p.id)
	if p.program, err = d.Helpers.Find("atoll-guest"); err != nil {
		return nil, err
	}
	if err := d.makeDir(ctx, e, p.id); err != nil {
		return nil, err
	}
	s := d.sandbox(e, p.id, p.spec)
	s.created = p.created
	if err := d.prepareGate(p); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if err := d.makeContainer(ctx, e, p, s.name()); err != nil {
		err = errors.Join(e.cause(ctx, err), d.undo(ctx, s, !errors.Is(err, atoll.ErrExists)))
		return nil, err
	}
	if err = s.boot(ctx, s.name()); err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.undo(ctx, s, true))
	}
	return s, nil
}

// undo removes what a failed Create has made.
func (d *Driver) undo(ctx context.Context, s *Sandbox, container bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	s.hangUp()
	var err error
	if container {
		err = s.e.removeAll(ctx, s.id)
	}
	return errors.Join(err, os.RemoveAll(s.dir()))
}

// makeDir makes this host's side of a sandbox. One that a crash has left is
// replaced.
func (d *Driver) makeDir(ctx context.Context, e *engine, id string) error {
	dir := d.sandboxDir(id)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if _, err := e.inspect(ctx, containerName(id)); !errors.Is(err, atoll.ErrNotFound) {
			return errors.Join(fmt.Errorf("id %s: %w", id, atoll.ErrExists), err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil || !e.direct() {
		return err
	}
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		return err
	}
	if e.has("userns") { // the guest is another user here; the directory above keeps others out
		return os.Chmod(run, 0o777) //nolint:gosec // see above
	}
	return nil
}

// makeContainer creates the container of a plan, not started.
func (d *Driver) makeContainer(ctx context.Context, e *engine, p *plan, name string) error {
	config, host, err := d.container(e, p)
	if err != nil {
		return err
	}
	// An engine goes on with what its caller gave up: its answer is awaited, so
	// that undo finds what it made.
	lasting, cancel := outlast(ctx, createGrace)
	defer cancel()
	_, err = e.api.ContainerCreate(lasting, client.ContainerCreateOptions{Config: config, HostConfig: host, Name: name})
	if errdefs.IsConflict(err) {
		return fmt.Errorf("id %s: %w: %w", p.id, atoll.ErrExists, err)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return e.cause(ctx, err)
	}
	if e.remote {
		return e.copyGuest(ctx, name, p.program)
	}
	return nil
}

// copyGuest puts the guest into a container of an engine that can't mount it.
func (e *engine) copyGuest(ctx context.Context, name, program string) error {
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var head bytes.Buffer
	tw := tar.NewWriter(&head)
	err = errors.Join(
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(guestDir, "/") + "/", Mode: 0o700}),
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(guestFile, "/"), Mode: 0o700, Size: info.Size()}))
	if err != nil {
		return err
	}
	padding := make([]byte, (512-info.Size()%512)%512+1024)
	body := io.MultiReader(&head, io.LimitReader(f, info.Size()), bytes.NewReader(padding))
	_, err = e.api.CopyToContainer(ctx, name, client.CopyToContainerOptions{DestinationPath: "/", Content: body})
	if err != nil {
		return fmt.Errorf("copying the guest in: %w", e.cause(ctx, err))
	}
	return nil
}

// boot starts a container and waits until its guest answers.
func (s *Sandbox) boot(ctx context.Context, name string) error {
	var w *watch
	if s.e.direct() {
		var err error
		if w, err = watchSocket(s.dir(), "run"); err != nil {
			return err
		}
		defer w.close()
	}
	if err := gate.Open(s.gateDir()).Ended(ctx); err != nil { // that of the guest before
		return err
	}
	if _, err := s.e.api.ContainerStart(ctx, name, client.ContainerStartOptions{}); err != nil {
		return s.ended(ctx, name, s.e.cause(ctx, err))
	}
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failed chan struct{}
	await := func() { // only if it is not there at once: it costs a call
		if failed == nil {
			failed = make(chan struct{})
			go s.awaitEnd(ctx, name, cancel, failed)
		}
	}
	s.hangUp()
	err := s.greet(ctx, w, await)
	cancel(nil)
	if failed != nil {
		<-failed
	}
	if err != nil {
		return s.ended(ctx, name, err)
	}
	s.learn(atoll.Running, true)
	return s.openGate(outer)
}

// errEnded is why waiting for a guest ends that has ended.
var errEnded = errors.New("the container ended at once")

// awaitEnd cancels when the container has ended.
func (s *Sandbox) awaitEnd(ctx context.Context, name string, cancel context.CancelCauseFunc, done chan<- struct{}) {
	defer close(done)
	status, err := s.e.wait(ctx, name, container.WaitConditionNotRunning)
	if err == nil { // else that of the connection says more
		cancel(fmt.Errorf("%w: %w, with status %d", atoll.ErrUnavailable, errEnded, status))
	}
}

// greet connects to a guest that may not listen yet, and keeps the connection
// for who needs the first.
func (s *Sandbox) greet(ctx context.Context, w *watch, await func()) error {
	for {
		conn, err := s.connect(ctx)
		if err == nil {
			return s.welcome(ctx, conn)
		}
		if w == nil || ctx.Err() != nil || !errors.Is(err, errNoSocket) {
			return err
		}
		await()
		if err := w.next(ctx); err != nil {
			return err
		}
	}
}

// welcome waits for the guest's first words.
func (s *Sandbox) welcome(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	head := make([]byte, 64)
	n, err := conn.Read(head)
	if err != nil || !stop() {
		return errors.Join(context.Cause(ctx), fmt.Errorf("%w: the guest does not answer: %w", atoll.ErrUnavailable, err), conn.Close())
	}
	s.keep(&greeted{Conn: conn, head: head[:n]})
	return nil
}

// greeted is a connection of which a beginning was read.
type greeted struct {
	net.Conn
	head []byte
}

// Read returns what was read, then what comes.
func (c *greeted) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// ended adds what is known of a container to why it failed.
func (s *Sandbox) ended(ctx context.Context, name string, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(cause, errEnded) || errors.Is(cause, atoll.ErrTimeout)) {
		err = cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var facts []string
	if c, ierr := s.e.inspect(ctx, name); ierr == nil {
		if c.State.OOMKilled {
			facts = append(facts, "it ran out of memory")
		}
		if c.State.Error != "" {
			facts = append(facts, oneLine(c.State.Error))
		}
	}
	if log := s.e.logs(ctx, name); log != "" {
		facts = append(facts, "its last words: "+log)
	}
	if len(facts) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(facts, "; "))
}

// logs returns the end of what a container has printed, as one line.
func (e *engine) logs(ctx context.Context, name string) string {
	rc, err := e.api.ContainerLogs(ctx, name, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return "" // the failure that is told is another
	}
	defer rc.Close()
	var b bytes.Buffer
	_, _ = stdcopy.StdCopy(&b, &b, io.LimitReader(rc, 64<<10)) // what came is shown
	text := oneLine(b.String())
	return text[max(0, len(text)-2000):]
}

// prepare makes what a new sandbox has of its own: its working directory, which
// belongs to who runs the commands.
func (s *Sandbox) prepare(ctx context.Context) error {
	dir := path.Clean(s.spec.Dir)
	if dir == "/" || mounted(&s.spec, dir) {
		return nil
	}
	perm := fs.FileMode(0o755)
	if _, _, numeric := numericUser(s.spec.User); s.spec.User != "" && s.spec.User != "root" && !numeric {
		perm = 0o777 // only the guest knows who that is; nobody else is inside
	}
	return s.Mkdir(ctx, dir, perm)
}

// mounted reports whether a directory is one of the host's.
func mounted(spec *atoll.Spec, dir string) bool {
	return slices.ContainsFunc(spec.Mounts, func(m atoll.Mount) bool { return m.Target == dir })
}

// guestConfigOf reads what a container's guest was told.
func guestConfigOf(c *container.Config) (guest.Config, error) {
	var cfg guest.Config
	for _, e := range c.Env {
		if text, ok := strings.CutPrefix(e, guestConfig+"="); ok {
			return cfg, json.Unmarshal([]byte(text), &cfg)
		}
	}
	return cfg, fmt.Errorf("%w: the container has no %s", atoll.ErrUnavailable, guestConfig)
}
