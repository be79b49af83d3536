package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

// api is the part of the engine's API that this package uses.
type api interface {
	Ping(ctx context.Context, o client.PingOptions) (client.PingResult, error)
	Info(ctx context.Context, o client.InfoOptions) (client.SystemInfoResult, error)

	ContainerCreate(ctx context.Context, o client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerStart(ctx context.Context, id string, o client.ContainerStartOptions) (client.ContainerStartResult, error)
	ContainerKill(ctx context.Context, id string, o client.ContainerKillOptions) (client.ContainerKillResult, error)
	ContainerWait(ctx context.Context, id string, o client.ContainerWaitOptions) client.ContainerWaitResult
	ContainerPause(ctx context.Context, id string, o client.ContainerPauseOptions) (client.ContainerPauseResult, error)
	ContainerUnpause(ctx context.Context, id string, o client.ContainerUnpauseOptions) (client.ContainerUnpauseResult, error)
	ContainerInspect(ctx context.Context, id string, o client.ContainerInspectOptions) (client.ContainerInspectResult, error)
	ContainerList(ctx context.Context, o client.ContainerListOptions) (client.ContainerListResult, error)
	ContainerLogs(ctx context.Context, id string, o client.ContainerLogsOptions) (client.ContainerLogsResult, error)
	ContainerRename(ctx context.Context, id string, o client.ContainerRenameOptions) (client.ContainerRenameResult, error)
	ContainerRemove(ctx context.Context, id string, o client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)
	ContainerCommit(ctx context.Context, id string, o client.ContainerCommitOptions) (client.ContainerCommitResult, error)
	ContainerExport(ctx context.Context, container string, o client.ContainerExportOptions) (client.ContainerExportResult, error)
	CopyToContainer(ctx context.Context, id string, o client.CopyToContainerOptions) (client.CopyToContainerResult, error)
	CopyFromContainer(ctx context.Context, id string, o client.CopyFromContainerOptions) (client.CopyFromContainerResult, error)
	ExecCreate(ctx context.Context, id string, o client.ExecCreateOptions) (client.ExecCreateResult, error)
	ExecAttach(ctx context.Context, id string, o client.ExecAttachOptions) (client.ExecAttachResult, error)

	ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImageList(ctx context.Context, o client.ImageListOptions) (client.ImageListResult, error)
	ImagePull(ctx context.Context, ref string, o client.ImagePullOptions) (client.ImagePullResponse, error)
	ImageRemove(ctx context.Context, ref string, o client.ImageRemoveOptions) (client.ImageRemoveResult, error)
	ImageTag(ctx context.Context, o client.ImageTagOptions) (client.ImageTagResult, error)
	ImageLoad(ctx context.Context, r io.Reader, o ...client.ImageLoadOption) (client.ImageLoadResult, error)
	ImageImport(ctx context.Context, s client.ImageImportSource, ref string, o client.ImageImportOptions) (client.ImageImportResult, error)
	ImageBuild(ctx context.Context, r io.Reader, o client.ImageBuildOptions) (client.ImageBuildResult, error)
}

// engine is a connection to an engine that has answered.
type engine struct {
	api    api
	host   string
	remote bool // it can't see files of this host
	info   engineInfo
	home   string // id of this home, in the labels of its containers
}

// connectEngine finds the engine and reads its description.
func connectEngine(ctx context.Context, host string) (*engine, error) {
	at, err := findEngine(host)
	if err != nil {
		return nil, err
	}
	opts, err := at.clientOptions()
	if err != nil {
		return nil, fmt.Errorf("%w: engine %s: %w", atoll.ErrInvalid, at.host, err)
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: engine %s: %w", atoll.ErrInvalid, at.host, err)
	}
	e := &engine{api: c, host: at.host}
	if err := e.checkSocket(ctx); err != nil {
		return nil, err
	}
	r, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, e.markError(err)
	}
	e.info = r.Info
	if e.info.OSType != "" && e.info.OSType != "linux" {
		return nil, fmt.Errorf("%w: the engine at %s runs %s containers: switch it to Linux containers", atoll.ErrUnavailable, at.host, e.info.OSType)
	}
	e.remote = !sharesFiles(at.host, &e.info)
	return e, nil
}

// sharesFiles reports whether the engine runs on this host's kernel, so that it can mount
// directories and sockets of this host.
func sharesFiles(host string, i *engineInfo) bool {
	return strings.HasPrefix(host, "unix://") && onLinux && i.OperatingSystem != "Docker Desktop"
}

// checkSocket reports why the engine's socket can't be connected to, and what to do about it.
func (e *engine) checkSocket(ctx context.Context) error {
	path, ok := strings.CutPrefix(e.host, "unix://")
	if !ok {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return conn.Close()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: no container engine: %s does not exist; install one (apt-get install docker.io, or podman) and start it (systemctl start docker, or podman.socket), or name another with DOCKER_HOST", atoll.ErrUnavailable, path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: user %d may not use the engine at %s: use a rootless engine, or add the user to the group of the socket (which makes it root on this host)", atoll.ErrUnavailable, os.Getuid(), path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: the engine at %s is not running: start it (systemctl start docker)", atoll.ErrUnavailable, path)
	}
	return fmt.Errorf("%w: the engine at %s: %w", atoll.ErrUnavailable, path, err)
}

// markError makes an error of the engine match one of atoll's errors.
func (e *engine) markError(err error) error {
	is := func(sentinel error) error { return fmt.Errorf("%w: %w", sentinel, err) }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, atoll.ErrTimeout):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return is(atoll.ErrTimeout)
	case errdefs.IsNotFound(err):
		return is(atoll.ErrNotFound)
	case errdefs.IsConflict(err):
		return is(atoll.ErrState)
	case errdefs.IsInvalidArgument(err):
		return is(atoll.ErrInvalid)
	case errdefs.IsPermissionDenied(err), errdefs.IsUnauthorized(err):
		return is(atoll.ErrDenied)
	case errdefs.IsNotImplemented(err):
		return is(atoll.ErrUnsupported)
	case errdefs.IsInternal(err), errdefs.IsUnavailable(err):
		return is(atoll.ErrUnavailable)
	case client.IsErrConnectionFailed(err):
		return fmt.Errorf("%w: the engine at %s does not answer: is it running? %w", atoll.ErrUnavailable, e.host, err)
	}
	return err
}

// contextError returns the cause of ctx if it is done, otherwise err as markError marks it.
func (e *engine) contextError(ctx context.Context, err error) error {
	if c := context.Cause(ctx); err != nil && c != nil {
		if errors.Is(c, context.DeadlineExceeded) && !errors.Is(c, atoll.ErrTimeout) {
			c = fmt.Errorf("%w: %w", atoll.ErrTimeout, c)
		}
		return c
	}
	return e.markError(err)
}

func (e *engine) inspectContainer(ctx context.Context, name string) (container.InspectResponse, error) {
	r, err := e.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err == nil && r.Container.State == nil {
		err = fmt.Errorf("%w: the engine returned no state of %s", atoll.ErrUnavailable, name)
	}
	return r.Container, e.contextError(ctx, err)
}

// productName returns "Docker" or "Podman".
func (e *engine) productName() string {
	if u, err := url.Parse(e.host); err == nil && strings.Contains(u.Path, "podman") {
		return "Podman"
	}
	return "Docker"
}
