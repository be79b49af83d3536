package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

var (
	_ atoll.Snapshotter    = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper = (*Sandbox)(nil)
	_ atoll.Forker         = (*Sandbox)(nil)
)

// Snapshots are images in a repository of their sandbox. The tag is the snapshot's id; labels have the
// other properties. A fork tags the image that it was made from in its own repository, so that it
// can outlive the sandbox that it was forked from.
const (
	snapshotRepo  = "atoll-snapshot/"
	forkTag       = "base"
	labelSnapshot = "atoll.snapshot"
	labelTitle    = "atoll.snapshot.name"
	labelTime     = "atoll.snapshot.created"
	labelSize     = "atoll.snapshot.size"
	labelFiles    = "atoll.snapshot.files"
)

// spareName returns the name of a container that is about to replace a sandbox's.
func spareName(id string) string { return containerName(id) + ".new" }

// Snapshot commits the container's own layer. Processes are paused meanwhile.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	info, err := s.createSnapshot(ctx, name)
	return info, s.wrapError("snapshot", err)
}

func (s *Sandbox) createSnapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	info := atoll.SnapshotInfo{ID: atoll.NewID(), Name: name, Sandbox: s.id, Created: time.Now()}
	if name != "" {
		if err := atoll.CheckName(name); err != nil {
			return info, err
		}
		list, err := s.e.listSnapshots(ctx, s.id)
		if err != nil {
			return info, err
		}
		if slices.ContainsFunc(list, func(o atoll.SnapshotInfo) bool { return o.Name == name }) {
			return info, fmt.Errorf("snapshot %s: %w", name, atoll.ErrExists)
		}
	}
	if st, err := s.Stats(ctx); err == nil { // a sandbox that does not run has no statistics
		info.Size, info.Files = st.DiskUsed, st.Files
	}
	return info, s.commitImage(ctx, info, snapshotRepo+s.id+":"+info.ID)
}

// commitImage commits the container to an image.
func (s *Sandbox) commitImage(ctx context.Context, info atoll.SnapshotInfo, ref string) error {
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil {
		return err
	}
	for _, m := range c.Mounts {
		if m.Type == "volume" {
			return fmt.Errorf("%w: the image declares a volume at %s, which snapshots and forks would leave out", atoll.ErrUnsupported, m.Destination)
		}
	}
	args := actArgs{Active: stateOf(c.State) == atoll.Running, Commit: commitTime(info)}
	name := actSnapshot
	if info.ID == "" {
		name, args.Image = actFork, ref
	}
	return s.runAct(ctx, name, args, func(*journal.Act) error { return s.callCommit(ctx, info, ref, args.Active) })
}

// commitTime returns labelTime of the image of a snapshot or fork. No other image has it.
func commitTime(info atoll.SnapshotInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

// callCommit makes the engine commit the container to an image; with pause, its processes are paused meanwhile.
func (s *Sandbox) callCommit(ctx context.Context, info atoll.SnapshotInfo, ref string, pause bool) error {
	_, err := s.e.api.ContainerCommit(ctx, s.mainContainer(), client.ContainerCommitOptions{
		Reference: ref, NoPause: !pause,
		Config: &container.Config{
			User: strconv.Itoa(commandUser), Env: []string{guestConfigVar + "="},
			Labels: map[string]string{
				labelHome: s.e.home, labelID: s.id, labelName: s.spec.Name, labelSpec: "", labelSnapshot: info.ID, labelTitle: info.Name,
				labelTime: commitTime(info), labelSize: strconv.FormatInt(info.Size, 10), labelFiles: strconv.Itoa(info.Files),
			},
		},
	})
	return s.e.contextError(ctx, err)
}

// Snapshots returns the snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	list, err := s.e.listSnapshots(ctx, s.id)
	return list, s.wrapError("list snapshots", err)
}

// listSnapshots returns the snapshots of a sandbox from the labels of its images.
func (e *engine) listSnapshots(ctx context.Context, id string) ([]atoll.SnapshotInfo, error) {
	r, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", snapshotRepo+id)})
	if err != nil {
		return nil, e.contextError(ctx, err)
	}
	list := []atoll.SnapshotInfo{}
	for _, i := range r.Items {
		l := i.Labels
		if !slices.Contains(i.RepoTags, snapshotRepo+id+":"+l[labelSnapshot]) || l[labelHome] != e.home {
			continue // the image that it was forked from
		}
		size, _ := strconv.ParseInt(l[labelSize], 10, 64) // this package wrote it
		files, _ := strconv.Atoi(l[labelFiles])           // likewise
		list = append(list, atoll.SnapshotInfo{ID: l[labelSnapshot], Name: l[labelTitle], Sandbox: id, Created: parseTime(l[labelTime]), Size: size, Files: files})
	}
	slices.SortFunc(list, func(a, b atoll.SnapshotInfo) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// findSnapshot returns the reference of a snapshot, by id or name.
func (s *Sandbox) findSnapshot(ctx context.Context, snapshot string) (string, error) {
	list, err := s.e.listSnapshots(ctx, s.id)
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

// RemoveSnapshot removes a snapshot, by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	ref, err := s.findSnapshot(ctx, snapshot)
	if err == nil {
		err = s.removeSnapshot(ctx, ref)
	}
	return s.wrapError("remove snapshot", err)
}

// usedPrefix begins the tag of an image whose snapshot was removed while the sandbox's container used it. Without a tag
// nothing would remove it later.
const usedPrefix = "used-"

// removeSnapshot removes a snapshot's name. The image of the container goes when another replaces it, or with the sandbox.
func (s *Sandbox) removeSnapshot(ctx context.Context, ref string) error {
	remove := func() error {
		_, err := s.e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		return err
	}
	err := remove()
	if errdefs.IsConflict(err) { // a container uses it
		repo, tag, _ := strings.Cut(ref, ":")
		if _, err = s.e.api.ImageTag(ctx, client.ImageTagOptions{Source: ref, Target: repo + ":" + usedPrefix + tag}); err == nil {
			err = remove()
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return s.e.contextError(ctx, err)
}

// removeUsedImages removes the images of removed snapshots that no container uses any more. It ignores errors: they go with the
// sandbox at the latest.
func (s *Sandbox) removeUsedImages(ctx context.Context) {
	r, err := s.e.api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", snapshotRepo+s.id+":"+usedPrefix+"*")})
	if err != nil {
		return
	}
	for _, i := range r.Items {
		for _, tag := range i.RepoTags {
			if strings.HasPrefix(tag, snapshotRepo+s.id+":"+usedPrefix) {
				_, _ = s.e.api.ImageRemove(ctx, tag, client.ImageRemoveOptions{PruneChildren: true}) // a conflict: it is used
			}
		}
	}
}

// untagImage removes a name of an image, and the image with its last name if no container uses it.
func (e *engine) untagImage(ctx context.Context, ref string) error {
	_, err := e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	if errdefs.IsConflict(err) { // a container uses it: it is removed with the container
		_, err = e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true})
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return e.contextError(ctx, err)
}

// removeImages removes the images of a sandbox that was removed.
func (e *engine) removeImages(ctx context.Context, id string) error {
	r, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", snapshotRepo+id)})
	if err != nil {
		return e.contextError(ctx, err)
	}
	var errs []error
	for _, i := range r.Items {
		for _, tag := range i.RepoTags {
			if short, ours := strings.CutPrefix(tag, snapshotRepo+id+":"); ours {
				if strings.HasPrefix(short, packTag) { // a dead process was packing it
					errs = append(errs, e.removeContainer(ctx, packContainer(id, short)))
				}
				errs = append(errs, e.untagImage(ctx, tag))
			}
		}
	}
	return errors.Join(errs...)
}

// Restore replaces the container by one made from the snapshot. Until the new one answers, the old
// one remains, and is started again after an error.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.wrapError("restore", s.restoreSnapshot(ctx, snapshot))
}

func (s *Sandbox) restoreSnapshot(ctx context.Context, snapshot string) error {
	ref, err := s.findSnapshot(ctx, snapshot)
	if err != nil {
		return err
	}
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil {
		return err
	}
	p := &plan{id: s.id, spec: s.spec, created: createdOf(c.Config.Labels, c.Created), image: ref, dir: s.hostDir()}
	if p.guest, err = guestConfigOf(c.Config); err != nil {
		return err
	}
	if p.program, err = s.d.Helpers.Find("atoll-guest"); err != nil {
		return err
	}
	if p.spec.Network, err = s.currentNetwork(); err == nil {
		err = s.d.prepareProxy(p)
	}
	if err != nil {
		return err
	}
	args := actArgs{Active: stateOf(c.State) != atoll.Stopped}
	defer s.beginSwap()()
	return s.runAct(ctx, actRestore, args, func(act *journal.Act) error {
		if err := s.e.removeContainer(ctx, spareName(s.id)); err != nil { // of a time before the host was restarted
			return err
		}
		if err := s.d.makeContainer(ctx, s.e, p, spareName(s.id)); err != nil {
			return err
		}
		return s.swapContainers(ctx, act, args)
	})
}

// swapContainers replaces the sandbox's container by the spare one.
func (s *Sandbox) swapContainers(ctx context.Context, act *journal.Act, args actArgs) error {
	if err := s.killContainer(ctx, s.mainContainer()); err != nil {
		return err
	}
	s.hangUp()
	if args.Active {
		if err := s.bootSpare(ctx); err != nil {
			return err
		}
	}
	args.Engine, args.Swap = s.e.host, true
	if act != nil {
		if err := act.Update(args); err != nil {
			return err
		}
	}
	return s.replaceContainer(context.WithoutCancel(ctx)) // not to be interrupted between these steps
}

// bootSpare starts the spare container and waits until its guest answers.
func (s *Sandbox) bootSpare(ctx context.Context) error {
	s.mu.Lock()
	s.spare = true
	s.mu.Unlock()
	err := s.bootContainer(ctx, spareName(s.id))
	s.mu.Lock()
	s.spare = false
	s.mu.Unlock()
	return err
}

// Fork creates a sandbox that starts as this one is now, or was at a snapshot.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	fork, err := s.forkSandbox(ctx, snapshot, spec)
	if err != nil {
		return nil, s.wrapError("fork", err)
	}
	return fork, nil
}

func (s *Sandbox) forkSandbox(ctx context.Context, snapshot string, spec atoll.Spec) (*Sandbox, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	first := s.spec
	var err error
	if first.Network, err = s.currentNetwork(); err != nil {
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
	} else if _, err := s.e.inspectContainer(ctx, containerName(merged.ID)); !errors.Is(err, atoll.ErrNotFound) {
		return nil, errors.Join(fmt.Errorf("id %s: %w", merged.ID, atoll.ErrExists), err)
	}
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil {
		return nil, err
	}
	cfg, err := guestConfigOf(c.Config)
	if err != nil {
		return nil, err
	}
	cfg.Env = joinEnv(cfg.Env, spec.Env)
	if spec.User != "" {
		if cfg.UID, cfg.GID, err = commandIdentity(&merged, ""); err != nil {
			return nil, err
		}
	}
	ref := snapshotRepo + merged.ID + ":" + forkTag
	p := &plan{id: merged.ID, spec: merged, image: ref, guest: cfg}
	p.makeImage = func(ctx context.Context) error { return s.forkImage(ctx, snapshot, ref) }
	return s.d.buildSandbox(ctx, s.e, p)
}

// forkImage creates the image of a fork.
func (s *Sandbox) forkImage(ctx context.Context, snapshot, ref string) error {
	if snapshot == "" {
		s.changing.Lock()
		defer s.changing.Unlock()
		return s.commitImage(ctx, atoll.SnapshotInfo{Created: time.Now()}, ref)
	}
	from, err := s.findSnapshot(ctx, snapshot)
	if err != nil {
		return err
	}
	_, err = s.e.api.ImageTag(ctx, client.ImageTagOptions{Source: from, Target: ref})
	return s.e.contextError(ctx, err)
}

// forkSpec returns the spec of a fork: that of the origin with the fields that are set in spec.
func forkSpec(first, spec atoll.Spec) (atoll.Spec, error) {
	var errs []error
	other := func(field string, differs bool) {
		if differs {
			errs = append(errs, fmt.Errorf("%w: %s: a fork has that of its origin", atoll.ErrInvalid, field))
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
