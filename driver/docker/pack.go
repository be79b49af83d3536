package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	sandboxarchive "github.com/atoll-sandbox/atoll/internal/archive"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

var (
	_ atoll.FilePacker   = (*Sandbox)(nil)
	_ atoll.FileUnpacker = (*Driver)(nil)
)

// packTag begins the tag of an image from which files are packed, the last part of the name of the
// container that the engine exports, and the name of the lock of the process that packs. All are removed
// at the end of the stream; if the process dies meanwhile, by the next PackFiles, or with the sandbox.
const packTag = "pack-"

// packContainer returns the name of the container for an image to pack.
func packContainer(id, tag string) string { return containerName(id) + "." + tag }

// PackFiles packs the whole root directory, as the engine exports it, so that no registry is needed
// to create it again. Processes are paused while the engine commits the container.
func (s *Sandbox) PackFiles(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	p, err := s.packFiles(ctx, snapshot)
	return p, s.wrapError("read files of", err)
}

func (s *Sandbox) packFiles(ctx context.Context, snapshot string) (_ *atoll.PackedFiles, err error) {
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil {
		return nil, err
	}
	cfg, err := guestConfigOf(c.Config)
	if err != nil {
		return nil, err
	}
	if err := s.e.removeLeftPacks(ctx, s.id, s.d.actsDir(s.id)); err != nil {
		return nil, err
	}
	tag := packTag + atoll.NewID()
	ref := snapshotRepo + s.id + ":" + tag
	lock := filepath.Join(s.d.actsDir(s.id), tag) // a file in the directory above would count as use of the sandbox
	unlock, ok, err := filelock.TryPath(lock)
	if errors.Is(err, fs.ErrNotExist) { // this host has no directory of the sandbox: nothing removes what is left
		unlock, ok, err = func() {}, true, nil
	}
	if err != nil || !ok {
		return nil, errors.Join(err, errBusy)
	}
	if snapshot == "" {
		err = s.commitImage(ctx, atoll.SnapshotInfo{Created: time.Now()}, ref)
	} else if from, ferr := s.findSnapshot(ctx, snapshot); ferr != nil {
		err = ferr
	} else {
		_, err = s.e.api.ImageTag(ctx, client.ImageTagOptions{Source: from, Target: ref})
	}
	stream := &packStream{remove: func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoverTimeout)
		defer cancel()
		defer unlock()
		return errors.Join(s.e.removePack(ctx, s.id, tag), os.RemoveAll(lock))
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, stream.Close())
		}
	}()
	if err != nil {
		return nil, s.e.contextError(ctx, err)
	}
	_, err = s.e.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: packContainer(s.id, tag), Config: &container.Config{Image: ref, Cmd: []string{"/"}, Labels: map[string]string{labelHome: ""}}, // it is no sandbox
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return nil, s.e.contextError(ctx, err)
	}
	if stream.ReadCloser, err = s.e.api.ContainerExport(ctx, packContainer(s.id, tag), client.ContainerExportOptions{}); err != nil {
		return nil, s.e.contextError(ctx, err)
	}
	dir := path.Clean(s.spec.Dir)
	if s.spec.Dir == "" {
		dir = atoll.DefaultDir
	}
	return &atoll.PackedFiles{
		Kind: atoll.PackedRoot, Dir: dir, Env: withoutKeys(cfg.Env, egress.Env(s.spec.Network), s.spec.Env),
		User: strconv.Itoa(cfg.UID) + ":" + strconv.Itoa(cfg.GID), ReadCloser: stream,
	}, nil
}

// removePack removes the container and the image from which files were packed.
func (e *engine) removePack(ctx context.Context, id, tag string) error {
	return errors.Join(e.removeContainer(ctx, packContainer(id, tag)), e.untagImage(ctx, snapshotRepo+id+":"+tag))
}

// removeLeftPacks removes what processes have left that died while they were packing files of a
// sandbox. Their locks are in dir.
func (e *engine) removeLeftPacks(ctx context.Context, id, dir string) error {
	r, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", snapshotRepo+id+":"+packTag+"*")})
	if err != nil {
		return e.contextError(ctx, err)
	}
	for _, i := range r.Items {
		for _, t := range i.RepoTags {
			tag, ours := strings.CutPrefix(t, snapshotRepo+id+":")
			if !ours || !strings.HasPrefix(tag, packTag) {
				continue
			}
			lock := filepath.Join(dir, tag)
			unlock, ok, err := filelock.TryPath(lock)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !ok {
				continue // another host's, or in use
			}
			if err == nil {
				err = errors.Join(e.removePack(ctx, id, tag), os.RemoveAll(lock))
				unlock()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// withoutKeys returns the variables whose names are not in the other lists.
func withoutKeys(env []string, others ...[]string) []string {
	not := make(map[string]bool)
	for _, list := range others {
		for _, e := range list {
			k, _, _ := strings.Cut(e, "=")
			not[k] = true
		}
	}
	var kept []string
	for _, e := range env {
		if k, _, _ := strings.Cut(e, "="); !not[k] {
			kept = append(kept, e)
		}
	}
	return kept
}

// packStream is an export that removes what it was made from.
type packStream struct {
	io.ReadCloser // nil: it was not begun
	remove        func() error
	once          sync.Once
	err           error // set by once
}

// Close ends the export.
func (p *packStream) Close() error {
	p.once.Do(func() {
		if p.ReadCloser != nil {
			_ = p.ReadCloser.Close() // what was read counts
		}
		p.err = p.remove()
	})
	return p.err
}

// CreatePacked creates a sandbox whose image is the root directory of another. The engine unpacks
// it like an image: it writes the zeros of holes.
func (d *Driver) CreatePacked(ctx context.Context, spec atoll.Spec, files *atoll.PackedFiles) (atoll.Sandbox, error) {
	s, err := d.createPacked(ctx, spec, files)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: orText(spec.ID, spec.Name), Err: err}
	}
	return s, nil
}

func (d *Driver) createPacked(ctx context.Context, spec atoll.Spec, files *atoll.PackedFiles) (*Sandbox, error) {
	if files.Kind != atoll.PackedRoot {
		return nil, fmt.Errorf("%w: the docker driver unpacks files of the kind root, not %s", atoll.ErrInvalid, files.Kind)
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
	uid, gid, err := commandIdentity(&spec, files.User)
	if err != nil {
		return nil, err
	}
	cfg, err := d.guestConfig(e, &spec, client.ImageInspectResult{})
	if err != nil {
		return nil, err
	}
	cfg.UID, cfg.GID, cfg.Env = uid, gid, joinEnv(files.Env, cfg.Env)
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	} else if _, err := e.inspectContainer(ctx, containerName(spec.ID)); !errors.Is(err, atoll.ErrNotFound) {
		return nil, errors.Join(fmt.Errorf("id %s: %w", spec.ID, atoll.ErrExists), err)
	}
	ref := snapshotRepo + spec.ID + ":" + forkTag
	p := &plan{id: spec.ID, spec: spec, image: ref, guest: cfg}
	p.makeImage = func(ctx context.Context) error { return e.importPacked(ctx, spec.ID, ref, files) }
	return d.buildSandbox(ctx, e, p)
}

// importPacked makes the engine import a root directory as the image of a sandbox.
func (e *engine) importPacked(ctx context.Context, id, ref string, files io.Reader) error {
	guest := strings.TrimPrefix(guestDir, "/")
	rc := sandboxarchive.Filter(files, sandboxarchive.Limits{}, func(h *tar.Header) (bool, error) {
		return path.Clean(h.Name) != guest && !strings.HasPrefix(h.Name, guest+"/"), nil
	})
	defer rc.Close()
	out, err := e.api.ImageImport(ctx, client.ImageImportSource{Source: rc, SourceName: "-"}, ref, client.ImageImportOptions{
		Changes: []string{"LABEL " + labelHome + "=" + strconv.Quote(e.home) + " " + labelID + "=" + strconv.Quote(id)},
	})
	if err != nil {
		return e.contextError(ctx, err)
	}
	defer out.Close()
	return e.reportProgress(ctx, decodeMessages(out), nil)
}
