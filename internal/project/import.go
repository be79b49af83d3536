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
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// ImportOptions selects what is imported into a sandbox. The zero value selects all branches and tags with all
// uncommitted work, and no file that git ignores.
type ImportOptions struct {
	Branches []string // local branches besides that of the working tree; nil: all branches and tags; empty: none
	Clean    bool     // leave out uncommitted work

	// Env are patterns, in the syntax of .gitignore, of files that git does not track and that are
	// imported with mode 0600: ".env*". They never become git objects. Ignored files that
	// .worktreeinclude names are imported likewise.
	Env []string

	MaxFiles int64 // limit of the total size of such files in bytes; 0: DefaultMaxFiles
}

// DefaultMaxFiles is the default limit of the size of imported files that git does not track.
const DefaultMaxFiles = 256 << 20

// ImportPlan describes an import: the state of the repository when the plan was made. Files that git does
// not track are read only when it is executed.
type ImportPlan struct {
	Head
	Branches []string // branches to import
	Tags     []string
	Staged   bool     // there are staged changes
	Dirty    bool     // there are changes that are not staged, or new files
	Files    []string // paths of files that git does not track; see ImportOptions.Env
	Skipped  []string // such files that are left out because they are not regular files of this directory
	Modules  []string // paths of submodules and nested repositories
	Shallow  bool     // the host's history is shallow, and so is the sandbox's
	Tree     string   // git tree of all tracked and new files; see FetchOptions.ImportedTree. Empty: no uncommitted work

	// OnSent, if not nil, is called with the number of bytes of objects that have been sent, for each
	// submodule separately. It is called from one goroutine at a time, during Execute.
	OnSent func(n int64)

	repo    *Repo
	refs    []ref
	state   *snapshot
	modules []*ImportPlan
	max     int64
}

// ref is a git ref and its object.
type ref struct{ name, object string }

// Close removes the plan's temporary files.
func (p *ImportPlan) Close() error {
	var errs []error
	if p.state != nil {
		errs = append(errs, p.state.remove())
	}
	for _, m := range p.modules {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// PlanImport determines what would be imported, and changes nothing. The caller must close the plan.
// Unmerged files are ErrConflict.
func (r *Repo) PlanImport(ctx context.Context, c ImportOptions) (*ImportPlan, error) {
	if err := r.checkComplete(ctx); err != nil {
		return nil, err
	}
	p := &ImportPlan{repo: r, Shallow: r.shallow, max: c.MaxFiles}
	if p.max == 0 {
		p.max = DefaultMaxFiles
	}
	if err := p.readState(ctx, c); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// readState reads the repository's state into a plan.
func (p *ImportPlan) readState(ctx context.Context, c ImportOptions) error {
	r := p.repo
	env, err := r.listUntracked(ctx, c.Env)
	if err != nil {
		return err
	}
	included, err := r.listIncluded(ctx)
	if err != nil {
		return err
	}
	all := slices.Concat(env, included)
	slices.Sort(all)
	p.Files, p.Skipped = r.splitRegular(slices.Compact(all))
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

// checkComplete reports a partial clone, which may lack objects.
func (r *Repo) checkComplete(ctx context.Context) error {
	out, code, err := r.host.runStatus(ctx, "config", "--get-regexp", `^(remote\..*\.promisor|extensions\.partialclone)$`)
	if err == nil && code == 0 && out != "" {
		err = fmt.Errorf("%s: %w: it is a partial clone, whose other objects only its remote has; 'git fetch --refetch --no-filter' gets them, then unset remote.*.promisor and extensions.partialClone", r.Dir, atoll.ErrUnsupported)
	}
	return err
}

// chooseRefs selects the branches and tags.
func (p *ImportPlan) chooseRefs(ctx context.Context, branches []string) error {
	patterns := []string{"refs/heads/"}
	if branches == nil {
		patterns = append(patterns, "refs/tags/")
	}
	lines, err := p.repo.host.runLines(ctx, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, patterns...)...)
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
			return fmt.Errorf("%s: branch %s: %w", p.repo.Dir, printable(b), atoll.ErrNotFound)
		}
	}
	return nil
}

// addModules plans the nested repositories: submodules and others. It does not read the configured
// URLs of submodules.
func (p *ImportPlan) addModules(ctx context.Context, c ImportOptions) error {
	tip := p.state.tip()
	if tip == "" {
		return nil
	}
	git := p.repo.host
	if p.state.objects != "" {
		git = p.repo.withObjects(p.state.objects)
	}
	out, err := git.runOutput(ctx, "ls-tree", "-r", "-z", "--full-tree", tip)
	if err != nil {
		return err
	}
	for _, e := range splitTerminated(out, "\x00") {
		info, name, ok := strings.Cut(e, "\t")
		if !ok || !strings.HasPrefix(info, "160000 ") {
			continue
		}
		dir := filepath.Join(p.repo.Dir, filepath.FromSlash(name))
		m, err := Open(ctx, dir)
		if err != nil || m.Dir != dir { // not checked out
			if err == nil || errors.Is(err, ErrNoRepository) {
				continue
			}
			return err
		}
		m.prefix = p.repo.prefix + name + "/"
		c.Branches = nil
		plan, err := m.PlanImport(ctx, c)
		if err != nil {
			return fmt.Errorf("submodule %s: %w", printable(name), err)
		}
		p.modules = append(p.modules, plan)
		p.Modules = append(p.Modules, name)
		for _, inner := range plan.Modules {
			p.Modules = append(p.Modules, name+"/"+inner)
		}
	}
	return nil
}

// Import plans and executes an import. Afterwards the repository is in /workspace of the sandbox as it
// is on the host, with staged and unstaged work apart, without remotes and credentials. The returned
// plan is closed.
func (r *Repo) Import(ctx context.Context, sb atoll.Sandbox, c ImportOptions) (p *ImportPlan, err error) {
	p, err = r.PlanImport(ctx, c)
	if err != nil {
		return nil, err
	}
	defer joinClose(&err, p.Close)
	return p, p.Execute(ctx, sb)
}

// Execute executes a plan. A workspace with files is ErrExists, with two exceptions: the remains of an
// interrupted Execute are removed first, and the complete result of an Execute of an equal plan is left as it
// is, since its caller may have been killed before it learned the result.
func (p *ImportPlan) Execute(ctx context.Context, sb atoll.Sandbox) error {
	sb, done := p.repo.trackCommands(ctx, sb)
	defer done()
	g := guest{sb: sb, dir: "/"}
	if err := g.checkGit(ctx); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := g.checkShell(ctx); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := clearWorkspace(ctx, g); errors.Is(err, atoll.ErrExists) && p.isImported(ctx, g) {
		return nil
	} else if err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := p.importSteps(ctx, g.inDir(Workspace)); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := p.shareIdentity(ctx, g); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	if err := g.inDir(Workspace).run(ctx, nil, nil, "config", importKey, p.fingerprint()); err != nil {
		return &atoll.Error{Op: "carry in", ID: sb.ID(), Err: err}
	}
	return nil
}

// importedFilesName is the file in a workspace that lists the imported files that git does not track,
// each followed by a NUL byte. New working trees get these files too.
const importedFilesName = ".git/atoll-files"

// importKey is the key in the workspace's git configuration that is "true" during an import, and then
// the fingerprint of its plan.
const importKey = "atoll.underway"

// fingerprint identifies a plan by its content, except for the content of files that git does not
// track.
func (p *ImportPlan) fingerprint() string {
	h := sha256.New()
	p.writeFingerprint(h)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (p *ImportPlan) writeFingerprint(w hash.Hash) { // a hash never fails
	fmt.Fprintf(w, "%q %q %q %q %v %v\n", p.repo.prefix, p.Head, p.Tree, p.Files, p.Staged, p.refs)
	for _, m := range p.modules {
		m.writeFingerprint(w)
	}
}

// isImported reports whether an equal plan has been executed completely. The answer is untrusted; the
// caller only uses it to do nothing.
func (p *ImportPlan) isImported(ctx context.Context, g guest) bool {
	out, code, err := g.runStatus(ctx, "config", "--file", Workspace+"/.git/config", "--get", importKey)
	return err == nil && code == 0 && strings.TrimSuffix(out, "\n") == p.fingerprint()
}

// clearWorkspace makes the workspace an empty directory, unless it has files of others.
func clearWorkspace(ctx context.Context, g guest) error {
	if err := atoll.Mkdir(ctx, g.sb, Workspace, 0o755); err != nil {
		return err
	}
	left, err := listUnused(ctx, g)
	if err != nil || len(left) == 0 {
		return err
	}
	// .git is removed last, so that an interrupted removal can be continued.
	for _, name := range left {
		if name != ".git" {
			if err := atoll.Remove(ctx, g.sb, path.Join(Workspace, name)); err != nil {
				return err
			}
		}
	}
	return atoll.Remove(ctx, g.sb, Workspace+"/.git")
}

// listUnused lists the remains of an interrupted Execute. A workspace with any other content is
// ErrExists.
func listUnused(ctx context.Context, g guest) (left []string, err error) {
	entries, err := atoll.ReadDir(ctx, g.sb, Workspace)
	// A volume has this directory from the beginning.
	entries = slices.DeleteFunc(entries, func(e fs.FileInfo) bool { return e.Name() == "lost+found" && e.IsDir() })
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if inGit, err := atoll.ReadDir(ctx, g.sb, Workspace+"/.git"); len(entries) == 1 && err == nil && len(inGit) == 0 {
		return nil, nil // interrupted at the very beginning
	}
	out, code, err := g.runStatus(ctx, "config", "--file", Workspace+"/.git/config", "--get", importKey)
	if err != nil && !isGuestError(err) {
		return nil, err
	}
	if code != 0 || strings.TrimSpace(out) != "true" {
		return nil, fmt.Errorf("%w: %s holds files already, such as %s", atoll.ErrExists, Workspace, printable(entries[0].Name()))
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

// importSteps executes the steps of a plan in the directory of g.
func (p *ImportPlan) importSteps(ctx context.Context, g guest) error {
	for _, step := range []func(context.Context, guest) error{p.initRepository, p.sendObjects, p.sendRefs, p.sendLFS, p.sendTree, p.sendFiles} {
		if err := step(ctx, g); err != nil {
			return err
		}
	}
	for i, m := range p.modules {
		dir := path.Join(g.dir, strings.TrimSuffix(strings.TrimPrefix(m.repo.prefix, p.repo.prefix), "/"))
		if err := atoll.Mkdir(ctx, g.sb, dir, 0o755); err != nil {
			return err
		}
		m.OnSent = p.OnSent
		if err := m.importSteps(ctx, g.inDir(dir)); err != nil {
			return fmt.Errorf("submodule %s: %w", printable(p.Modules[i]), err)
		}
	}
	return nil
}

// shareIdentity gives the sandbox's user the name and e-mail address too, unless it has some: for repositories that are
// created or cloned inside. A home that can't be written is no error.
func (p *ImportPlan) shareIdentity(ctx context.Context, g guest) error {
	who, err := p.repo.readIdentity(ctx)
	if err != nil || len(who) == 0 {
		return err
	}
	out, _, err := g.runStatus(ctx, "config", "--global", "-z", "--get-regexp", identityPattern)
	if err != nil && !isGuestError(err) {
		return err
	}
	has := parseConfig(out)
	for _, key := range slices.Sorted(maps.Keys(who)) {
		if _, ok := has[key]; ok {
			continue
		}
		if err := g.run(ctx, nil, nil, "config", "--global", key, who[key]); err != nil && !isGuestError(err) {
			return err
		}
	}
	return nil
}

// initRepository creates a repository without remotes, with the user's name and e-mail address.
func (p *ImportPlan) initRepository(ctx context.Context, g guest) error {
	who, err := p.repo.readIdentity(ctx)
	if err != nil {
		return err
	}
	config := "[core]\n\tlogAllRefUpdates = true\n"
	if p.repo.prefix == "" {
		config = "[atoll]\n\tunderway = true\n" + config // first of all: see clearWorkspace
	}
	if len(who) > 0 {
		config += "[user]\n"
	}
	for _, key := range slices.Sorted(maps.Keys(who)) {
		config += "\t" + strings.TrimPrefix(key, "user.") + " = " + quoteConfig(who[key]) + "\n"
	}
	if err := atoll.WriteFile(ctx, g.sb, path.Join(g.dir, ".git/config"), []byte(config), 0o644); err != nil {
		return err
	}
	if err := g.run(ctx, nil, nil, "init", "-q", "--template=", "--object-format="+p.repo.format, g.dir); err != nil {
		return err
	}
	exclude := "# atoll: working trees, and files that git must not add\n/.worktrees/\n/lost+found/\n"
	for _, name := range p.Files {
		exclude += excludePattern(name)
	}
	if err := atoll.WriteFile(ctx, g.sb, path.Join(g.dir, ".git/info/exclude"), []byte(exclude), 0o644); err != nil || len(p.Files) == 0 {
		return err
	}
	return atoll.WriteFile(ctx, g.sb, path.Join(g.dir, importedFilesName), []byte(joinNUL(p.Files)), 0o600)
}

// excludePattern returns the line of an exclude file for one path. Line breaks in names can't be
// written there; they become wildcards.
func excludePattern(name string) string {
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

// sendObjects sends all objects in one pack.
func (p *ImportPlan) sendObjects(ctx context.Context, g guest) error {
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
		git = p.repo.withObjects(p.state.objects)
	}
	return runPiped(ctx, func(ctx context.Context, w io.Writer) error {
		if p.OnSent != nil {
			w = &progressWriter{w: w, report: p.OnSent}
		}
		return git.run(ctx, strings.NewReader(revs.String()), w, "pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q")
	}, func(ctx context.Context, r io.Reader) error {
		return g.run(ctx, r, nil, "index-pack", "--stdin")
	})
}

// sendLFS sends the LFS objects of all branches that are in the host's store.
func (p *ImportPlan) sendLFS(ctx context.Context, g guest) error {
	tip := p.state.tip()
	if tip == "" {
		return nil
	}
	git := p.repo.host
	if p.state.objects != "" {
		git = p.repo.withObjects(p.state.objects)
	}
	var revs strings.Builder
	for _, r := range p.refs {
		revs.WriteString(r.object + "\n")
	}
	return p.repo.sendLFS(ctx, g, git, tip, revs.String()+tip+"\n", "--no-walk")
}

// progressWriter reports the number of bytes that were written.
type progressWriter struct {
	w      io.Writer
	n      int64
	report func(n int64)
}

func (m *progressWriter) Write(b []byte) (int, error) {
	n, err := m.w.Write(b)
	m.n += int64(n)
	m.report(m.n)
	return n, err
}

// runPiped runs a writer and a reader concurrently. When one fails the other is cancelled. The
// writer's error is preferred, since it is the cause.
func runPiped(ctx context.Context, write func(context.Context, io.Writer) error, read func(context.Context, io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(ctx, pw)
		_ = pw.CloseWithError(err) // never fails
		if err != nil {
			cancel() // the reader must not take a partial stream for a complete one
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

// sendRefs creates the branches and tags, and sets HEAD.
func (p *ImportPlan) sendRefs(ctx context.Context, g guest) error {
	var b strings.Builder
	for _, r := range p.refs {
		b.WriteString("create " + r.name + " " + r.object + "\n")
	}
	if _, err := g.runWithInput(ctx, b.String(), "update-ref", "--stdin"); err != nil {
		return err
	}
	if p.Branch != "" {
		return g.run(ctx, nil, nil, "symbolic-ref", "HEAD", "refs/heads/"+p.Branch)
	}
	return g.run(ctx, nil, nil, "update-ref", "--no-deref", "HEAD", p.Commit)
}

// sendTree writes the files and restores the difference between staged and unstaged work.
func (p *ImportPlan) sendTree(ctx context.Context, g guest) error {
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
	_, _, err := g.runStatus(ctx, "update-index", "-q", "--refresh") // exit status 1: there are changes
	return err
}
