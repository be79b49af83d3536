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
	"github.com/atoll-sandbox/atoll/driver/internal/grace"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// Create creates a sandbox. It pulls an image that the engine does not have.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: orText(spec.ID, spec.Name), Err: err}
	}
	return s, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil { // before an engine is needed
		return nil, err
	}
	e, err := d.openEngine(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.check(e, &spec); err != nil {
		return nil, err
	}
	image, err := e.ensureImage(ctx, orText(spec.Image, atoll.DefaultImage))
	if err != nil {
		return nil, err
	}
	cfg, err := d.guestConfig(e, &spec, image)
	if err != nil {
		return nil, err
	}
	return d.buildSandbox(ctx, e, &plan{id: spec.ID, spec: spec, image: image.ID, guest: cfg})
}

// ensureImage returns an image of the engine, which is pulled if it is missing.
func (e *engine) ensureImage(ctx context.Context, ref string) (client.ImageInspectResult, error) {
	image, err := e.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		if err := e.pullImage(ctx, ref, nil); err != nil {
			return image, err
		}
		image, err = e.api.ImageInspect(ctx, ref)
	}
	if err != nil {
		return image, fmt.Errorf("image %s: %w", ref, e.contextError(ctx, err))
	}
	return image, nil
}

// guestConfig returns the configuration of a sandbox's guest.
func (d *Driver) guestConfig(e *engine, spec *atoll.Spec, image client.ImageInspectResult) (guest.Config, error) {
	var user string
	var env []string
	if image.Config != nil {
		user, env = image.Config.User, image.Config.Env
	}
	uid, gid, err := commandIdentity(spec, user)
	if err != nil {
		return guest.Config{}, err
	}
	cfg := guest.Config{UID: uid, GID: gid, CanSwitchUser: true, Egress: e.reachesSockets(), Env: joinEnv(env, egress.Env(spec.Network), spec.Env)}
	if e.reachesSockets() && !e.hasSecurityOption("rootless") && !e.hasSecurityOption("userns") {
		cfg.SocketOwner = socketOwner
		if uid == socketOwner {
			cfg.SocketOwner--
		}
	}
	cfg.Filter, err = commandFilter(e)
	return cfg, err
}

// socketOwner is the user of a container that gets the directory of the host with the guest's
// socket: root inside can't enter it without capabilities, and other users can't enter the one above.
const socketOwner = 65531

// buildSandbox creates a sandbox from a plan. When it fails, nothing is left.
func (d *Driver) buildSandbox(ctx context.Context, e *engine, p *plan) (_ *Sandbox, err error) {
	ctx, cancel := guest.WithCreateTimeout(ctx, p.spec.Timeouts.Create)
	defer cancel()
	if p.id == "" {
		p.id = atoll.NewID()
	}
	if p.spec.Dir == "" {
		p.spec.Dir = atoll.DefaultDir
	}
	if s := path.Clean(p.spec.Dir); s != "/" && !isMounted(&p.spec, s) {
		p.guest.Dir = s // in an image it usually belongs to root
	}
	p.spec.ID, p.created, p.dir, p.first = p.id, time.Now(), d.sandboxDir(p.id), true
	if p.program, err = d.Helpers.Find("atoll-guest"); err != nil {
		return nil, err
	}
	held, err := d.makeDir(ctx, e, p.id)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	act, err := journal.Begin(d.actsDir(p.id), actCreate, actArgs{Engine: e.host, Created: p.created})
	if err != nil {
		return nil, errors.Join(err, d.removeDir(p.id))
	}
	s := d.newHandle(e, p.id, p.spec)
	s.created = p.created
	if err := s.fill(ctx, p); err != nil {
		s.hangUp()
		return nil, errors.Join(err, d.endAct(ctx, e, p.id, act))
	}
	return s, act.End()
}

// fill makes the container of a new sandbox, whose directory exists, and starts it.
func (s *Sandbox) fill(ctx context.Context, p *plan) error {
	if p.makeImage != nil {
		if err := p.makeImage(ctx); err != nil {
			return err
		}
	}
	if err := s.d.makeRunDir(s.e, s.id); err != nil {
		return err
	}
	if err := s.d.prepareProxy(p); err != nil {
		return err
	}
	if err := s.d.makeContainer(ctx, s.e, p, s.mainContainer()); err != nil {
		return s.e.contextError(ctx, err)
	}
	if err := s.bootContainer(ctx, s.mainContainer()); err != nil {
		return err
	}
	return s.makeWorkingDir(ctx)
}

// makeDir creates the directory of a sandbox on this host, and locks it until the returned file is closed. A
// directory that is left of a sandbox whose container was removed is replaced.
func (d *Driver) makeDir(ctx context.Context, e *engine, id string) (*os.File, error) {
	exists := fmt.Errorf("id %s: %w", id, atoll.ErrExists)
	err := os.Mkdir(d.sandboxDir(id), 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	left := err != nil
	held, err := d.lockActs(id, tryLock)
	if errors.Is(err, errBusy) || err == nil && held == nil {
		return nil, exists // another process creates or removes it now
	}
	if err != nil || !left {
		return held, err
	}
	err = d.recoverLocked(ctx, e, id)
	if err == nil {
		if _, err = e.inspectContainer(ctx, containerName(id)); err == nil {
			err = exists
		} else if errors.Is(err, atoll.ErrNotFound) {
			err = d.removeDir(id)
		}
	}
	if err = errors.Join(err, held.Close()); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.sandboxDir(id), 0o700); err != nil {
		return nil, errors.Join(exists, err)
	}
	if held, err = d.lockActs(id, tryLock); err == nil && held == nil || errors.Is(err, errBusy) {
		err = exists
	}
	return held, err
}

// makeRunDir creates the directory of the guest's socket.
func (d *Driver) makeRunDir(e *engine, id string) error {
	if !e.reachesSockets() {
		return nil
	}
	run := filepath.Join(d.sandboxDir(id), "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		return err
	}
	if e.hasSecurityOption("userns") { // the guest is another user on this host; other users can't reach the directory above
		return os.Chmod(run, 0o777) //nolint:gosec // see above
	}
	return nil
}

// makeContainer creates the container of a plan without starting it.
func (d *Driver) makeContainer(ctx context.Context, e *engine, p *plan, name string) error {
	config, host, err := d.containerConfig(e, p)
	if err != nil {
		return err
	}
	// An engine continues a request after its caller has given up: the answer is awaited, so that
	// undoCreate finds the container.
	lasting, cancel := grace.Context(ctx, grace.ForCreate)
	defer cancel()
	_, err = e.api.ContainerCreate(lasting, client.ContainerCreateOptions{Config: config, HostConfig: host, Name: name})
	if errdefs.IsConflict(err) {
		return fmt.Errorf("id %s: %w: %w", p.id, atoll.ErrExists, err)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return e.contextError(ctx, err)
	}
	if e.remote {
		return e.copyGuest(ctx, name, p.program)
	}
	return nil
}

// copyGuest copies the guest into a container of an engine that can't mount it.
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
		return fmt.Errorf("copying the guest in: %w", e.contextError(ctx, err))
	}
	return nil
}

// bootContainer starts a container and waits until its guest answers.
func (s *Sandbox) bootContainer(ctx context.Context, name string) error {
	var w *watch
	if s.e.reachesSockets() {
		var err error
		if w, err = watchSocket(s.hostDir(), "run"); err != nil {
			return err
		}
		defer w.close()
	}
	if err := egress.Open(s.egressDir()).WaitForExit(ctx); err != nil { // the proxy of the guest before
		return err
	}
	if _, err := s.e.api.ContainerStart(ctx, name, client.ContainerStartOptions{}); err != nil {
		return s.explainEnd(ctx, name, s.e.contextError(ctx, err))
	}
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failed chan struct{}
	await := func() { // only if the guest is not ready at once: it costs a request
		if failed == nil {
			failed = make(chan struct{})
			go s.awaitEnd(ctx, name, cancel, failed)
		}
	}
	s.hangUp()
	err := s.connectWhenReady(ctx, w, await)
	cancel(nil)
	if failed != nil {
		<-failed
	}
	if err != nil {
		return s.explainEnd(ctx, name, err)
	}
	s.setKnown(atoll.Running, true)
	return s.startProxy(outer)
}

// errEnded is the cause when the wait for a guest ends because its container has exited.
var errEnded = errors.New("the container exited at once")

// awaitEnd cancels a context when the container has exited.
func (s *Sandbox) awaitEnd(ctx context.Context, name string, cancel context.CancelCauseFunc, done chan<- struct{}) {
	defer close(done)
	status, err := s.e.waitContainer(ctx, name)
	if err == nil { // otherwise the error of the connection says more
		cancel(fmt.Errorf("%w: %w, with status %d", atoll.ErrUnavailable, errEnded, status))
	}
}

// connectWhenReady connects to a guest that may not listen yet, and keeps the connection for the
// first request.
func (s *Sandbox) connectWhenReady(ctx context.Context, w *watch, await func()) error {
	for {
		conn, err := s.connectGuest(ctx)
		if err == nil {
			return s.readGreeting(ctx, conn)
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

// readGreeting waits for the first bytes of the guest and keeps the connection.
func (s *Sandbox) readGreeting(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	head := make([]byte, 64)
	n, err := conn.Read(head)
	if err != nil || !stop() {
		return errors.Join(context.Cause(ctx), fmt.Errorf("%w: the guest does not answer: %w", atoll.ErrUnavailable, err), conn.Close())
	}
	s.keepFirst(&greetedConn{Conn: conn, head: head[:n]})
	return nil
}

// greetedConn is a connection whose first bytes were read already.
type greetedConn struct {
	net.Conn
	head []byte
}

// Read returns the bytes that were read already, then those of the connection.
func (c *greetedConn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// explainEnd adds the state and the last log lines of a container to an error.
func (s *Sandbox) explainEnd(ctx context.Context, name string, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(cause, errEnded) || errors.Is(cause, atoll.ErrTimeout)) {
		err = cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var facts []string
	if c, ierr := s.e.inspectContainer(ctx, name); ierr == nil {
		if c.State.OOMKilled {
			facts = append(facts, "it ran out of memory")
		}
		if c.State.Error != "" {
			facts = append(facts, oneLine(c.State.Error))
		}
	}
	if log := s.e.logTail(ctx, name); log != "" {
		facts = append(facts, "its log ends with: "+log)
	}
	if len(facts) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(facts, "; "))
}

// logTail returns the end of a container's log in one line.
func (e *engine) logTail(ctx context.Context, name string) string {
	rc, err := e.api.ContainerLogs(ctx, name, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return "" // the first error counts
	}
	defer rc.Close()
	var b bytes.Buffer
	_, _ = stdcopy.StdCopy(&b, &b, io.LimitReader(rc, 64<<10)) // what was read is enough
	text := oneLine(b.String())
	return text[max(0, len(text)-2000):]
}

// makeWorkingDir creates the working directory of a new sandbox for the user of its commands.
func (s *Sandbox) makeWorkingDir(ctx context.Context) error {
	dir := path.Clean(s.spec.Dir)
	if dir == "/" || isMounted(&s.spec, dir) {
		return nil
	}
	perm := fs.FileMode(0o755)
	if _, _, numeric := numericUser(s.spec.User); s.spec.User != "" && s.spec.User != "root" && !numeric {
		perm = 0o777 // only the guest can resolve that name; there are no other users inside
	}
	return s.Mkdir(ctx, dir, perm)
}

// isMounted reports whether a directory is a mount of the host.
func isMounted(spec *atoll.Spec, dir string) bool {
	return slices.ContainsFunc(spec.Mounts, func(m atoll.Mount) bool { return m.Target == dir })
}

// guestConfigOf returns the configuration of a container's guest.
func guestConfigOf(c *container.Config) (guest.Config, error) {
	var cfg guest.Config
	for _, e := range c.Env {
		if text, ok := strings.CutPrefix(e, guestConfigVar+"="); ok {
			return cfg, json.Unmarshal([]byte(text), &cfg)
		}
	}
	return cfg, fmt.Errorf("%w: the container has no %s", atoll.ErrUnavailable, guestConfigVar)
}
