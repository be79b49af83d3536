package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Carry says what goes into a sandbox. The zero Carry is all branches and tags
// with all uncommitted work, and no file that git ignores.
type Carry struct {
	Branches []string // local ones, besides that of the working tree; nil: all, and all tags; empty: none
	Clean    bool     // leave uncommitted work at home

	// Env are patterns, as .gitignore has them, of files that git does not track
	// and that go in with mode 0600: ".env*". Never any of git's objects holds
	// them. Of what .worktreeinclude names, the ignored files go in likewise.
	Env []string

	MaxFiles int64 // bytes of such files; 0: DefaultMaxFiles
}

// DefaultMaxFiles is how much of files that git does not track goes in.
const DefaultMaxFiles = 256 << 20

// Plan is what would go into a sandbox: the repository's state when it was
// made. Its files are read when it is carried in.
type Plan struct {
	Head
	Branches []string // that go in
	Tags     []string
	Staged   bool     // staged work goes in
	Dirty    bool     // so does what is not staged, or not tracked
	Files    []string // that git does not track, by path; see Carry.Env
	Left     []string // such files that stay: what is not a regular file of this directory
	Modules  []string // submodules and repositories inside, by path
	Shallow  bool     // the host's history ends early, and so does the sandbox's
	Tree     string   // git's, of all files that it tracks or would; see Fetch.Carried. Empty: no uncommitted work goes in

	// Sent, if not nil, is told how many bytes of objects have gone in, of
	// submodules apart. It is called from one goroutine at a time, while Into runs.
	Sent func(n int64)

	repo    *Repo
	refs    []ref
	state   *snapshot
	modules []*Plan
	max     int64
}

// ref is a name of git and its object.
type ref struct{ name, object string }

// Close removes what the plan has on disk.
func (p *Plan) Close() error {
	var errs []error
	if p.state != nil {
		errs = append(errs, p.state.remove())
	}
	for _, m := range p.modules {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Plan finds out what would go in, and changes nothing. The caller closes it.
// Unmerged files are ErrConflict.
func (r *Repo) Plan(ctx context.Context, c Carry) (*Plan, error) {
	if err := r.complete(ctx); err != nil {
		return nil, err
	}
	p := &Plan{repo: r, Shallow: r.shallow, max: c.MaxFiles}
	if p.max == 0 {
		p.max = DefaultMaxFiles
	}
	if err := p.fill(ctx, c); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// fill takes the repository's state into a plan.
func (p *Plan) fill(ctx context.Context, c Carry) error {
	r := p.repo
	env, err := r.untracked(ctx, c.Env)
	if err != nil {
		return err
	}
	included, err := r.included(ctx)
	if err != nil {
		return err
	}
	all := slices.Concat(env, included)
	slices.Sort(all)
	p.Files, p.Left = r.regular(slices.Compact(all))
	if c.Clean {
		p.state = &snapshot{}
		p.state.Head, err = r.Head(ctx)
	} else {
		p.state, err = r.snapshot(ctx, env)
	}
	if err != nil {
		return err
	}
	p.Head, p.Staged, p.Dirty = p.state.Head, p.state.index != "", p.state.work != ""
	if p.Staged || p.Dirty {
		p.Tree = p.state.tree
	}
	if err := p.chooseRefs(ctx, c.Branches); err != nil {
		return err
	}
	return p.addModules(ctx, c)
}

// complete reports why objects may be missing.
func (r *Repo) complete(ctx context.Context) error {
	out, code, err := r.host.status(ctx, "config", "--get-regexp", `^(remote\..*\.promisor|extensions\.partialclone)$`)
	if err == nil && code == 0 && out != "" {
		err = fmt.Errorf("%s: %w: it is a partial clone, whose other objects only its remote has; 'git fetch --refetch --no-filter' gets them, then unset remote.*.promisor and extensions.partialClone", r.Dir, atoll.ErrUnsupported)
	}
	return err
}

// chooseRefs sets the branches and tags that go in.
func (p *Plan) chooseRefs(ctx context.Context, branches []string) error {
	patterns := []string{"refs/heads/"}
	if branches == nil {
		patterns = append(patterns, "refs/tags/")
	}
	lines, err := p.repo.host.lines(ctx, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, patterns...)...)
	if err != nil {
		return err
	}
	for _, l := range lines {
		object, name, _ := strings.Cut(l, " ")
		branch, isBranch := strings.CutPrefix(name, "refs/heads/")
		if isBranch && branches != nil && branch != p.Branch && !slices.Contains(branches, branch) {
			continue
		}
		p.refs = append(p.refs, ref{name, object})
		if isBranch {
			p.Branches = append(p.Branches, branch)
		} else {
			p.Tags = append(p.Tags, strings.TrimPrefix(name, "refs/tags/"))
		}
	}
	for _, b := range branches {
		if !slices.Contains(p.Branches, b) && b != p.Branch {
			return fmt.Errorf("%s: branch %s: %w", p.repo.Dir, shown(b), atoll.ErrNotFound)
		}
	}
	return nil
}

// addModules plans the repositories inside: submodules, and others. What a
// submodule's configuration says of its origin is not even read.
func (p *Plan) addModules(ctx context.Context, c Carry) error {
	tip := p.state.tip()
	if tip == "" {
		return nil
	}
	git := p.repo.host
	if p.state.objects != "" {
		git = p.repo.at(p.state.objects)
	}
	out, err := git.output(ctx, "ls-tree", "-r", "-z", "--full-tree", tip)
	if err != nil {
		return err
	}
	for _, e := range split(out, "\x00") {
		info, name, ok := strings.Cut(e, "\t")
		if !ok || !strings.HasPrefix(info, "160000 ") {
			continue
		}
		dir := filepath.Join(p.repo.Dir, filepath.FromSlash(name))
		m, err := Open(ctx, dir)
		if err != nil || m.Dir != dir { // not checked out: nothing to carry
			if err == nil || errors.Is(err, ErrNoRepository) {
				continue
			}
			return err
		}
		m.prefix = p.repo.prefix + name + "/"
		c.Branches = nil
		plan, err := m.Plan(ctx, c)
		if err != nil {
			return fmt.Errorf("submodule %s: %w", shown(name), err)
		}
		p.modules = append(p.modules, plan)
		p.Modules = append(p.Modules, name)
		for _, inner := range plan.Modules {
			p.Modules = append(p.Modules, name+"/"+inner)
		}
	}
	return nil
}

// CarryIn plans and carries in: the repository is in /workspace of the sandbox
// as it is on the host, staged and other uncommitted work apart, with no remote
// and no credential. The plan is closed.
func (r *Repo) CarryIn(ctx context.Context, sb atoll.Sandbox, c Carry) (p *Plan, err error) {
	p, err = r.Plan(ctx, c)
	if err != nil {
		return nil, err
	}
	defer closed(&err, p.Close)
	return p, p.Into(ctx, sb)
}

// Into carries a plan into a sandbox. A workspace that holds anything is
// ErrExists, unless it is what an Into that was ended has left, which begins anew, or
// what an Into of such a plan has brought, which is left alone: its caller may have
// been killed before he knew.
func (p *Plan) Into(ctx context.Context, sb atoll.Sandbox) error {
	g := guest{sb: sb, dir: "/"}
	if err := g.hasGit(ctx); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := g.hasShell(ctx); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := emptied(ctx, g); errors.Is(err, atoll.ErrExists) && p.isIn(ctx, g) {
		return nil
	} else if err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := p.into(ctx, g.in(Workspace)); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := g.in(Workspace).run(ctx, nil, nil, "config", underWay, p.mark()); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	return nil
}

// carriedFile lists, each with a NUL at its end, the files in a workspace that
// git does not track and that were carried in: new working trees get them, too.
const carriedFile = ".git/atoll-files"

// underWay is "true" in the workspace's configuration until all is there, then the
// mark of the plan that brought it.
const underWay = "atoll.underway"

// mark tells plans apart by what they carry, but for the content of files that git
// does not track.
func (p *Plan) mark() string {
	h := sha256.New()
	p.describe(h)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (p *Plan) describe(w hash.Hash) { // which takes all
	fmt.Fprintf(w, "%q %q %q %q %v %v\n", p.repo.prefix, p.Head, p.Tree, p.Files, p.Staged, p.refs)
	for _, m := range p.modules {
		m.describe(w)
	}
}

// isIn reports whether an Into of such a plan has brought all of it. It changes
// nothing, so it may be deceived.
func (p *Plan) isIn(ctx context.Context, g guest) bool {
	out, code, err := g.status(ctx, "config", "--file", Workspace+"/.git/config", "--get", underWay)
	return err == nil && code == 0 && strings.TrimSuffix(out, "\n") == p.mark()
}

// emptied makes the workspace an empty directory, if nobody worked in it.
func emptied(ctx context.Context, g guest) error {
	if err := atoll.Mkdir(ctx, g.sb, Workspace, 0o755); err != nil {
		return err
	}
	left, err := unused(ctx, g)
	if err != nil || len(left) == 0 {
		return err
	}
	// The mark goes last: whoever is ended here can begin anew, too.
	for _, name := range left {
		if name != ".git" {
			if err := atoll.Remove(ctx, g.sb, path.Join(Workspace, name)); err != nil {
				return err
			}
		}
	}
	return atoll.Remove(ctx, g.sb, Workspace+"/.git")
}

// unused lists what an Into that was ended has left in a workspace in which nobody
// worked; one that holds anything else is ErrExists.
func unused(ctx context.Context, g guest) (left []string, err error) {
	entries, err := atoll.ReadDir(ctx, g.sb, Workspace)
	// A volume of its own comes with that, empty.
	entries = slices.DeleteFunc(entries, func(e fs.FileInfo) bool { return e.Name() == "lost+found" && e.IsDir() })
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if inGit, err := atoll.ReadDir(ctx, g.sb, Workspace+"/.git"); len(entries) == 1 && err == nil && len(inGit) == 0 {
		return nil, nil // all that begin came to
	}
	out, code, err := g.status(ctx, "config", "--file", Workspace+"/.git/config", "--get", underWay)
	if err != nil && !isGuestError(err) {
		return nil, err
	}
	if code != 0 || strings.TrimSpace(out) != "true" {
		return nil, fmt.Errorf("%w: %s holds files already, such as %s", atoll.ErrExists, Workspace, shown(entries[0].Name()))
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left, nil
}

func isGuestError(err error) bool {
	var bad *guestError
	return errors.As(err, &bad)
}

// into builds the repository inside, step by step.
func (p *Plan) into(ctx context.Context, g guest) error {
	for _, step := range []func(context.Context, guest) error{p.begin, p.sendObjects, p.sendRefs, p.sendTree, p.sendFiles} {
		if err := step(ctx, g); err != nil {
			return err
		}
	}
	for i, m := range p.modules {
		dir := path.Join(g.dir, strings.TrimSuffix(strings.TrimPrefix(m.repo.prefix, p.repo.prefix), "/"))
		if err := atoll.Mkdir(ctx, g.sb, dir, 0o755); err != nil {
			return err
		}
		m.Sent = p.Sent
		if err := m.into(ctx, g.in(dir)); err != nil {
			return fmt.Errorf("submodule %s: %w", shown(p.Modules[i]), err)
		}
	}
	return nil
}

// begin makes a repository without a remote, whose commits are the user's.
func (p *Plan) begin(ctx context.Context, g guest) error {
	if p.repo.prefix == "" { // before all else: see emptied
		if err := atoll.WriteFile(ctx, g.sb, path.Join(g.dir, ".git/config"), []byte("[atoll]\n\tunderway = true\n"), 0o644); err != nil {
			return err
		}
	}
	if err := g.run(ctx, nil, nil, "init", "-q", "--template=", "--object-format="+p.repo.format, g.dir); err != nil {
		return err
	}
	settings := [][2]string{{"core.logAllRefUpdates", "true"}}
	for _, key := range []string{"user.name", "user.email"} {
		v, err := p.repo.config(ctx, key)
		if err != nil {
			return err
		}
		if v != "" {
			settings = append(settings, [2]string{key, v})
		}
	}
	for _, s := range settings {
		if err := g.run(ctx, nil, nil, "config", s[0], s[1]); err != nil {
			return err
		}
	}
	exclude := "# atoll: working trees, and files that git shall not take\n/.worktrees/\n/lost+found/\n"
	for _, name := range p.Files {
		exclude += ignoring(name)
	}
	if err := atoll.WriteFile(ctx, g.sb, path.Join(g.dir, ".git/info/exclude"), []byte(exclude), 0o644); err != nil || len(p.Files) == 0 {
		return err
	}
	return atoll.WriteFile(ctx, g.sb, path.Join(g.dir, carriedFile), []byte(nul(p.Files)), 0o600)
}

// ignoring is the line of an exclude file that means one path; a name that no
// line can hold is ignored with its directory's siblings that look alike.
func ignoring(name string) string {
	var b strings.Builder
	b.WriteByte('/')
	for i := range len(name) {
		switch c := name[i]; c {
		case '\n', '\r':
			b.WriteByte('?')
		case '*', '?', '[', '\\', ' ', '!', '#':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// sendObjects sends all objects in one pack, over the sandbox's own wire.
func (p *Plan) sendObjects(ctx context.Context, g guest) error {
	var revs strings.Builder
	for _, r := range p.refs {
		revs.WriteString(r.object + "\n")
	}
	if tip := p.state.tip(); tip != "" {
		revs.WriteString(tip + "\n")
	}
	if revs.Len() == 0 {
		return nil
	}
	if p.Shallow {
		boundary, err := p.repo.shallowFile()
		if err != nil {
			return err
		}
		if err := atoll.WriteFile(ctx, g.sb, path.Join(g.dir, ".git/shallow"), boundary, 0o644); err != nil {
			return err
		}
	}
	git := p.repo.host
	if p.state.objects != "" {
		git = p.repo.at(p.state.objects)
	}
	return piped(ctx, func(ctx context.Context, w io.Writer) error {
		if p.Sent != nil {
			w = &meter{w: w, tell: p.Sent}
		}
		return git.run(ctx, strings.NewReader(revs.String()), w, "pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q")
	}, func(ctx context.Context, r io.Reader) error {
		return g.run(ctx, r, nil, "index-pack", "--stdin")
	})
}

// meter tells how much was written.
type meter struct {
	w    io.Writer
	n    int64
	tell func(n int64)
}

func (m *meter) Write(b []byte) (int, error) {
	n, err := m.w.Write(b)
	m.n += int64(n)
	m.tell(m.n)
	return n, err
}

// piped runs a writer and a reader at once; when one fails the other is ended.
// The writer's error comes first: it is the cause.
func piped(ctx context.Context, write func(context.Context, io.Writer) error, read func(context.Context, io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(ctx, pw)
		_ = pw.CloseWithError(err) // never fails
		if err != nil {
			cancel() // what reads must not take the end of a half for the end
		}
		wrote <- err
	}()
	rerr := read(ctx, pr)
	if rerr != nil {
		cancel()
	}
	_ = pr.CloseWithError(io.ErrClosedPipe) // never fails
	werr := <-wrote
	if rerr != nil && (werr == nil || errors.Is(werr, io.ErrClosedPipe) || errors.Is(werr, context.Canceled)) {
		return rerr
	}
	return werr
}

// sendRefs names the branches and tags, and where HEAD is.
func (p *Plan) sendRefs(ctx context.Context, g guest) error {
	var b strings.Builder
	for _, r := range p.refs {
		b.WriteString("create " + r.name + " " + r.object + "\n")
	}
	if _, err := g.feed(ctx, b.String(), "update-ref", "--stdin"); err != nil {
		return err
	}
	if p.Branch != "" {
		return g.run(ctx, nil, nil, "symbolic-ref", "HEAD", "refs/heads/"+p.Branch)
	}
	return g.run(ctx, nil, nil, "update-ref", "--no-deref", "HEAD", p.Commit)
}

// sendTree writes the files, and makes what was not staged so again.
func (p *Plan) sendTree(ctx context.Context, g guest) error {
	tip := p.state.tip()
	if tip == "" {
		return nil
	}
	if err := g.run(ctx, nil, nil, "read-tree", "-m", "-u", tip); err != nil {
		return err
	}
	if p.state.work == "" {
		return nil
	}
	staged := []string{"read-tree", "--reset", p.Commit}
	switch {
	case p.state.index != "":
		staged[2] = p.state.index
	case p.Commit == "":
		staged = []string{"read-tree", "--empty"}
	}
	if err := g.run(ctx, nil, nil, staged...); err != nil {
		return err
	}
	_, _, err := g.status(ctx, "update-index", "-q", "--refresh") // 1: there is work
	return err
}
