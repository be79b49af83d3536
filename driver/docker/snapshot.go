package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

var (
	_ atoll.Snapshotter    = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper = (*Sandbox)(nil)
	_ atoll.Forker         = (*Sandbox)(nil)
)

// Snapshots are images in a repository of their sandbox. The tag is the
// snapshot's id; what else is to be known is in labels. A fork tags the image
// that it was made of in its own repository, so that it can outlive the other.
const (
	snapshotRepo  = "atoll-snapshot/"
	forkTag       = "base"
	labelSnapshot = "atoll.snapshot"
	labelTitle    = "atoll.snapshot.name"
	labelTime     = "atoll.snapshot.created"
	labelSize     = "atoll.snapshot.size"
	labelFiles    = "atoll.snapshot.files"
)

// spareName is that of a container which is about to take a sandbox's place.
func spareName(id string) string { return containerName(id) + ".new" }

// Snapshot commits the container's own layer. Processes stand still meanwhile.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	info, err := s.snapshot(ctx, name)
	return info, s.fail("snapshot", err)
}

func (s *Sandbox) snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	info := atoll.SnapshotInfo{ID: atoll.NewID(), Name: name, Sandbox: s.id, Created: time.Now()}
	if name != "" {
		if err := atoll.CheckName(name); err != nil {
			return info, err
		}
		list, err := s.e.snapshots(ctx, s.id)
		if err != nil {
			return info, err
		}
		if slices.ContainsFunc(list, func(o atoll.SnapshotInfo) bool { return o.Name == name }) {
			return info, fmt.Errorf("snapshot %s: %w", name, atoll.ErrExists)
		}
	}
	if st, err := s.Stats(ctx); err == nil { // of one that does not run nothing is known
		info.Size, info.Files = st.DiskUsed, st.Files
	}
	return info, s.commit(ctx, info, snapshotRepo+s.id+":"+info.ID)
}

// commit makes an image of the container as it is.
func (s *Sandbox) commit(ctx context.Context, info atoll.SnapshotInfo, ref string) error {
	c, err := s.e.inspect(ctx, s.name())
	if err != nil {
		return err
	}
	for _, m := range c.Mounts {
		if m.Type == "volume" {
			return fmt.Errorf("%w: the image declares a volume at %s, which snapshots and forks would leave out", atoll.ErrUnsupported, m.Destination)
		}
	}
	_, err = s.e.api.ContainerCommit(ctx, s.name(), client.ContainerCommitOptions{
		Reference: ref, NoPause: stateOf(c.State) != atoll.Running,
		Config: &container.Config{
			User: strconv.Itoa(commandUser), Env: []string{guestConfig + "="},
			Labels: map[string]string{
				labelHome: s.e.home, labelID: s.id, labelName: s.spec.Name, labelSpec: "", labelSnapshot: info.ID, labelTitle: info.Name,
				labelTime: info.Created.UTC().Format(time.RFC3339Nano), labelSize: strconv.FormatInt(info.Size, 10), labelFiles: strconv.Itoa(info.Files),
			},
		},
	})
	return s.e.cause(ctx, err)
}

// Snapshots lists the snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	list, err := s.e.snapshots(ctx, s.id)
	return list, s.fail("list snapshots", err)
}

// snapshots reads the snapshots of a sandbox from the labels of its images.
func (e *engine) snapshots(ctx context.Context, id string) ([]atoll.SnapshotInfo, error) {
	r, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", snapshotRepo+id)})
	if err != nil {
		return nil, e.cause(ctx, err)
	}
	list := []atoll.SnapshotInfo{}
	for _, i := range r.Items {
		l := i.Labels
		if !slices.Contains(i.RepoTags, snapshotRepo+id+":"+l[labelSnapshot]) || l[labelHome] != e.home {
			continue // what it was forked from
		}
		size, _ := strconv.ParseInt(l[labelSize], 10, 64) // we wrote it
		files, _ := strconv.Atoi(l[labelFiles])           // likewise
		list = append(list, atoll.SnapshotInfo{ID: l[labelSnapshot], Name: l[labelTitle], Sandbox: id, Created: parseTime(l[labelTime]), Size: size, Files: files})
	}
	slices.SortFunc(list, func(a, b atoll.SnapshotInfo) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// find returns the reference of a snapshot, by id or name.
func (s *Sandbox) find(ctx context.Context, snapshot string) (string, error) {
	list, err := s.e.snapshots(ctx, s.id)
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.ID == snapshot || i.Name == snapshot && snapshot != "" {
			return snapshotRepo + s.id + ":" + i.ID, nil
		}
	}
	return "", fmt.Errorf("snapshot %s: %w", snapshot, atoll.ErrNotFound)
}

// RemoveSnapshot forgets a snapshot, by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	ref, err := s.find(ctx, snapshot)
	if err == nil {
		err = s.e.untag(ctx, ref)
	}
	return s.fail("remove snapshot", err)
}

// untag removes a name of an image, and the image if it was the last and no
// container is made of it.
func (e *engine) untag(ctx context.Context, ref string) error {
	_, err := e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	if errdefs.IsConflict(err) { // a container is made of it: it goes when that goes
		_, err = e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true})
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return e.cause(ctx, err)
}

// removeImages removes the images of a sandbox that is gone.
func (e *engine) removeImages(ctx context.Context, id string) error {
	r, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", snapshotRepo+id)})
	if err != nil {
		return e.cause(ctx, err)
	}
	var errs []error
	for _, i := range r.Items {
		for _, tag := range i.RepoTags {
			if len(tag) > len(snapshotRepo+id) && tag[:len(snapshotRepo+id)+1] == snapshotRepo+id+":" {
				errs = append(errs, e.untag(ctx, tag))
			}
		}
	}
	return errors.Join(errs...)
}

// Restore replaces the container by one that is made of the snapshot. Until the
// new one answers, the old one is there to go back to.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.fail("restore", s.restore(ctx, snapshot))
}

func (s *Sandbox) restore(ctx context.Context, snapshot string) error {
	ref, err := s.find(ctx, snapshot)
	if err != nil {
		return err
	}
	c, err := s.e.inspect(ctx, s.name())
	if err != nil {
		return err
	}
	p := &plan{id: s.id, spec: s.spec, created: createdOf(c.Config.Labels, c.Created), image: ref, dir: s.dir()}
	if p.guest, err = guestConfigOf(c.Config); err != nil {
		return err
	}
	if p.program, err = s.d.Helpers.Find("atoll-guest"); err != nil {
		return err
	}
	if p.spec.Network, err = s.network(); err == nil {
		err = s.d.prepareGate(p)
	}
	if err != nil {
		return err
	}
	if err := s.e.remove(ctx, spareName(s.id)); err != nil { // of one that was interrupted
		return err
	}
	if err := s.d.makeContainer(ctx, s.e, p, spareName(s.id)); err != nil {
		return err
	}
	state := stateOf(c.State)
	defer s.move()()
	if err := s.swap(ctx, state); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, s.e.remove(undo, spareName(s.id)))
		if state != atoll.Stopped {
			err = errors.Join(err, s.boot(undo, s.name()))
		}
		return err
	}
	return nil
}

// swap puts the spare container in the place of the sandbox's.
func (s *Sandbox) swap(ctx context.Context, state atoll.State) error {
	if err := s.kill(ctx, s.name()); err != nil {
		return err
	}
	s.hangUp()
	if state != atoll.Stopped {
		if err := s.bootSpare(ctx); err != nil {
			return err
		}
	}
	ctx = context.WithoutCancel(ctx) // half of this is nothing
	if err := s.e.remove(ctx, s.name()); err != nil {
		return err
	}
	_, err := s.e.api.ContainerRename(ctx, spareName(s.id), client.ContainerRenameOptions{NewName: s.name()})
	return s.e.cause(ctx, err)
}

// bootSpare starts the spare container and waits until its guest answers.
func (s *Sandbox) bootSpare(ctx context.Context) error {
	s.mu.Lock()
	s.spare = true
	s.mu.Unlock()
	err := s.boot(ctx, spareName(s.id))
	s.mu.Lock()
	s.spare = false
	s.mu.Unlock()
	return err
}

// adopt finds a sandbox whose restoring was interrupted: the spare container is
// all there is, and takes its place.
func (e *engine) adopt(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := e.inspect(ctx, spareName(id))
	if err != nil {
		return c, err
	}
	_, err = e.api.ContainerRename(ctx, spareName(id), client.ContainerRenameOptions{NewName: containerName(id)})
	return c, e.cause(ctx, err)
}

// Fork makes a sandbox of this one as it is, or was at a snapshot.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	fork, err := s.fork(ctx, snapshot, spec)
	if err != nil {
		return nil, s.fail("fork", err)
	}
	return fork, nil
}

func (s *Sandbox) fork(ctx context.Context, snapshot string, spec atoll.Spec) (*Sandbox, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	first := s.spec
	var err error
	if first.Network, err = s.network(); err != nil {
		return nil, err
	}
	merged, err := forkSpec(first, spec)
	if err == nil {
		err = s.d.check(s.e, &merged)
	}
	if err != nil {
		return nil, err
	}
	if merged.ID == "" {
		merged.ID = atoll.NewID()
	} else if _, err := s.e.inspect(ctx, containerName(merged.ID)); !errors.Is(err, atoll.ErrNotFound) {
		return nil, errors.Join(fmt.Errorf("id %s: %w", merged.ID, atoll.ErrExists), err)
	}
	c, err := s.e.inspect(ctx, s.name())
	if err != nil {
		return nil, err
	}
	cfg, err := guestConfigOf(c.Config)
	if err != nil {
		return nil, err
	}
	cfg.Env = environ(cfg.Env, spec.Env)
	if spec.User != "" {
		if cfg.UID, cfg.GID, err = identity(&merged, ""); err != nil {
			return nil, err
		}
	}
	ref := snapshotRepo + merged.ID + ":" + forkTag
	if err := s.forkImage(ctx, snapshot, ref); err != nil {
		return nil, err
	}
	fork, err := s.d.build(ctx, s.e, &plan{id: merged.ID, spec: merged, image: ref, guest: cfg})
	if err != nil {
		return nil, errors.Join(err, s.e.untag(context.WithoutCancel(ctx), ref))
	}
	return fork, nil
}

// forkImage makes the image that a fork is made of.
func (s *Sandbox) forkImage(ctx context.Context, snapshot, ref string) error {
	if snapshot == "" {
		s.turn.Lock()
		defer s.turn.Unlock()
		return s.commit(ctx, atoll.SnapshotInfo{Created: time.Now()}, ref)
	}
	from, err := s.find(ctx, snapshot)
	if err != nil {
		return err
	}
	_, err = s.e.api.ImageTag(ctx, client.ImageTagOptions{Source: from, Target: ref})
	return s.e.cause(ctx, err)
}

// forkSpec is the spec of a fork: that of the first, and what is asked for
// besides.
func forkSpec(first, spec atoll.Spec) (atoll.Spec, error) {
	var errs []error
	other := func(field string, differs bool) {
		if differs {
			errs = append(errs, fmt.Errorf("%w: %s: a fork has that of the first", atoll.ErrInvalid, field))
		}
	}
	other("image", spec.Image != "" && spec.Image != first.Image)
	other("runtime", spec.Runtime != "" && spec.Runtime != first.Runtime)
	other("dir", spec.Dir != "" && spec.Dir != first.Dir)
	other("mounts", len(spec.Mounts) > 0 && !slices.Equal(spec.Mounts, first.Mounts))
	fork := first
	fork.ID, fork.Name, fork.Labels, fork.Env = spec.ID, spec.Name, spec.Labels, spec.Env
	if spec.User != "" {
		fork.User = spec.User
	}
	if spec.Limits != (atoll.Resources{}) {
		fork.Limits = spec.Limits
	}
	if spec.Requests != (atoll.Resources{}) {
		fork.Requests = spec.Requests
	}
	if spec.Timeouts != (atoll.Timeouts{}) {
		fork.Timeouts = spec.Timeouts
	}
	if spec.Network.Mode != "" || len(spec.Network.Allow) > 0 {
		fork.Network = spec.Network
	}
	return fork, errors.Join(errs...)
}
