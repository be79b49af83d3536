package fleet

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/archive"
)

// ExportOptions choose what an archive has.
type ExportOptions struct {
	Snapshot string // id or name of the snapshot to pack; empty: the files as they are now
	Program  string // version of atoll, for the description
}

// ExportArchive packs the sandbox as an archive from which [Account.ImportArchive] creates it again,
// on this host or another: its files as they are now, or were at a snapshot, and its configuration
// without what belongs to this host and its owner. The caller must close the stream; Close returns
// the first error of the transfer.
func (s *Sandbox) ExportArchive(ctx context.Context, o ExportOptions) (io.ReadCloser, error) {
	noted := s.startAudit("export sandbox", o.Snapshot)
	rc, err := s.openTransfer(ctx, "export sandbox", func(ctx context.Context) (io.ReadCloser, error) { return s.packArchive(ctx, o) })
	noted(err)
	return rc, err
}

func (s *Sandbox) packArchive(ctx context.Context, o ExportOptions) (io.ReadCloser, error) {
	r := s.b.cachedRow()
	m := &atoll.SandboxArchive{Version: atoll.SandboxArchiveVersion, Created: s.f.now(), Program: o.Program, Sandbox: r.id, Snapshot: o.Snapshot}
	m.Config, m.LeftOut = s.f.portableConfig(&r)
	ctx, cancel := context.WithCancel(ctx)
	files, err := s.packFiles(ctx, &r, o.Snapshot)
	if err != nil {
		cancel()
		return nil, err
	}
	m.Files = *files
	m.Files.Env = imageEnv(&r, files.Env)
	if m.Files.Kind == atoll.PackedDirectory {
		m.LeftOut = append(m.LeftOut, "all files but those of "+m.Files.Dir+": driver "+r.driver+" can't pack them")
	}
	pr, pw := io.Pipe()
	x := &exportReader{r: pr, stop: cancel}
	x.wg.Go(func() {
		err := archive.Write(ctx, pw, m)
		if errors.Is(err, io.ErrClosedPipe) { // the reader wants no more
			_ = files.Close() // as the stream was not read to its end
			return
		}
		if err = errors.Join(err, files.Close()); err != nil {
			err = s.wrapError("export sandbox", timeoutError(causeOf(ctx, err)))
		}
		x.err = err
		_ = pw.CloseWithError(err) // never fails
	})
	return x, nil
}

// packFiles packs the files of a sandbox: with its driver, or else those of its working directory.
func (s *Sandbox) packFiles(ctx context.Context, r *row, snapshot string) (*atoll.PackedFiles, error) {
	if p, err := innerAs[atoll.FilePacker](s); err == nil {
		return p.PackFiles(ctx, snapshot)
	}
	if snapshot != "" {
		return nil, fmt.Errorf("%w: driver %s packs a sandbox only as it is now: fork the snapshot and export the fork", atoll.ErrUnsupported, r.driver)
	}
	dir := r.cfg.Dir
	if dir == "" {
		dir = atoll.DefaultDir
	}
	dir = path.Clean(dir)
	below, err := mountsBelow(r, dir)
	if err != nil {
		return nil, err
	}
	rc, err := s.innerSandbox().Export(ctx, dir)
	if err != nil {
		return nil, err
	}
	if len(below) > 0 {
		rc = struct {
			io.Reader
			io.Closer
		}{archive.Filter(rc, archive.Limits{}, leaveOut(below)), rc}
	}
	return &atoll.PackedFiles{Kind: atoll.PackedDirectory, Dir: dir, ReadCloser: rc}, nil
}

// mountsBelow returns the names, in an export of dir, of the mounts below it. A mount at dir or
// above has all that would be exported: then it is an error.
func mountsBelow(r *row, dir string) ([]string, error) {
	var below []string
	targets := make([]string, 0, len(r.cfg.Mounts)+len(r.cfg.Workspaces))
	for _, m := range r.cfg.Mounts {
		targets = append(targets, m.Target)
	}
	for _, w := range r.cfg.Workspaces {
		targets = append(targets, w.At())
	}
	for _, t := range targets {
		t = path.Clean(t)
		if t == dir || strings.HasPrefix(dir, strings.TrimSuffix(t, "/")+"/") {
			return nil, fmt.Errorf("%w: driver %s packs only the working directory %s, and that is a mount or workspace, which no archive has: copy it with 'atoll workspace cp' or 'atoll cp'", atoll.ErrUnsupported, r.driver, dir)
		}
		if rest, ok := strings.CutPrefix(t, strings.TrimSuffix(dir, "/")+"/"); ok {
			below = append(below, path.Join(path.Base(dir), rest))
		}
	}
	return below, nil
}

// leaveOut returns a function for archive.Filter that leaves out what is below directories.
func leaveOut(dirs []string) func(*tar.Header) (bool, error) {
	return func(h *tar.Header) (bool, error) {
		return !slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(h.Name, d+"/") && h.Name != d+"/" }), nil
	}
}

// imageEnv returns the variables of an image's environment: neither those of the sandbox's own
// configuration nor any with a secret.
func imageEnv(r *row, env []string) []string {
	own := make(map[string]bool)
	for _, e := range slices.Concat(r.cfg.Env, r.env) {
		k, _, _ := strings.Cut(e, "=")
		own[k] = true
	}
	hide := newMask(&r.cfg, r.env...)
	var kept []string
	for _, e := range env {
		k, _, _ := strings.Cut(e, "=")
		if _, secret := r.cfg.Secrets[k]; !secret && !own[k] && !secretName(k) && hide.redact(e) == e {
			kept = append(kept, e)
		}
	}
	return kept
}

// reservedLabelPrefix begins the labels by which atoll recognizes what it has made.
const reservedLabelPrefix = "atoll."

// portableConfig returns the configuration of a sandbox without what belongs to its host, its owner
// or its servers, and names what it leaves out.
func (f *Fleet) portableConfig(r *row) (atoll.Config, []string) {
	cfg, shown := r.cfg, f.redactedConfig(r)
	var left []string
	drop := func(format string, a ...any) { left = append(left, fmt.Sprintf(format, a...)) }
	cfg.Driver, cfg.Name = r.driver, r.name
	cfg.ID, cfg.Pool, cfg.Prepare = "", "", nil // done already
	for _, m := range cfg.Mounts {
		drop("mount %s", m.Target)
	}
	for _, w := range cfg.Workspaces {
		drop("workspace %s at %s", w.Workspace, w.At())
	}
	for _, k := range slices.Sorted(maps.Keys(cfg.Secrets)) {
		drop("secret %s", k)
	}
	cfg.Mounts, cfg.Workspaces, cfg.Secrets = nil, nil, nil
	cfg.Env = nil
	for i, e := range r.cfg.Env {
		if i < len(shown.Env) && shown.Env[i] == e {
			cfg.Env = append(cfg.Env, e)
			continue
		}
		k, _, _ := strings.Cut(e, "=")
		drop("environment variable %s: it has a secret", k)
	}
	if cfg.Project != nil {
		cfg.Project = nil
		drop("project")
	}
	if cfg.PublicPorts {
		cfg.PublicPorts = false
		drop("public ports")
	}
	cfg.Labels = maps.Clone(cfg.Labels)
	maps.DeleteFunc(cfg.Labels, func(k, _ string) bool { return strings.HasPrefix(k, reservedLabelPrefix) })
	if cfg.Pod != nil {
		cfg.Pod = nil
		drop("settings of the pod")
	}
	if cfg.VM != nil && (len(cfg.VM.Args) > 0 || cfg.VM.Disk != "") {
		vm := *cfg.VM
		vm.Args, vm.Disk = nil, ""
		cfg.VM = &vm
		drop("arguments or disk of the VM")
	}
	cfg.Network = portableNetwork(cfg.Network, drop)
	return cfg, left
}

// portableNetwork returns network rules without credentials, and without what reaches the network
// of the host.
func portableNetwork(n atoll.Network, drop func(format string, a ...any)) atoll.Network {
	for _, h := range n.Headers {
		drop("network header %s for %s", h.Name, h.Host)
	}
	n.Headers = nil
	if one := (atoll.Network{Mode: n.Mode}); one.PrivateRule() != "" {
		drop("network mode %s", n.Mode)
		n.Mode = ""
	}
	allow := n.Allow
	n.Allow, n.Until = nil, maps.Clone(n.Until)
	for _, entry := range allow {
		if one := (atoll.Network{Allow: []string{entry}}); one.PrivateRule() != "" {
			drop("network allow %s", entry)
			delete(n.Until, entry)
			continue
		}
		n.Allow = append(n.Allow, entry)
	}
	return n
}

// ImportOptions change what an archive is imported as.
type ImportOptions struct {
	Name   string // empty: the name in the archive
	Driver string // empty: the driver in the archive; with another, only the files of the working directory are imported
}

// ImportArchive creates a sandbox of the caller from an archive, which it reads to its end. When it
// fails, nothing is left but a row of a destroyed sandbox with the reason. What the archive asks for
// is checked like a configuration of the caller; what belongs to a host or an owner it can't ask for.
func (a *Account) ImportArchive(ctx context.Context, r io.Reader, o ImportOptions) (*Sandbox, *atoll.ImportedSandbox, error) {
	const op = "import sandbox"
	if err := a.checkScope(op, atoll.ScopeRun); err != nil {
		return nil, nil, err
	}
	ctx, leave, err := a.f.beginOperation(ctx)
	if err != nil {
		return nil, nil, wrapOpError(op, o.Name, err)
	}
	defer leave()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := archive.NewReader(bufio.NewReaderSize(&contextReader{ctx: reading, r: r, use: func() {}}, readChunk))
	if err != nil {
		return nil, nil, wrapOpError(op, o.Name, err)
	}
	defer in.Close()
	plan, err := a.planImport(ctx, &in.Manifest, o)
	if err != nil {
		return nil, nil, wrapOpError(op, o.Name, err)
	}
	if err := a.checkCreate(op, &plan.cfg); err != nil {
		return nil, nil, err
	}
	files := archive.Filter(in, archive.Limits{}, plan.keep)
	defer files.Close()
	defer cancel() // so that a client that sends nothing does not delay it
	plan.files.ReadCloser = files
	noted := a.startAudit(op, plan.cfg.Name, in.Manifest.Sandbox)
	made, err := a.createImported(ctx, plan)
	noted(err)
	if err != nil {
		return nil, nil, wrapOpError(op, plan.cfg.Name, err)
	}
	return a.sandboxFor(made), &atoll.ImportedSandbox{Archive: in.Manifest, Partial: plan.partial}, nil
}

// importPlan is how an archive is imported.
type importPlan struct {
	files   atoll.PackedFiles
	cfg     atoll.Config
	partial bool                                                                         // only the files of the working directory, through Import
	keep    func(*tar.Header) (bool, error)                                              // for partial
	into    string                                                                       // for partial: where they are imported
	unpack  func(context.Context, atoll.Spec, *atoll.PackedFiles) (atoll.Sandbox, error) // nil: partial
}

// planImport checks the description of an archive and decides how it is imported.
func (a *Account) planImport(ctx context.Context, m *atoll.SandboxArchive, o ImportOptions) (*importPlan, error) {
	if err := checkManifest(m); err != nil {
		return nil, err
	}
	p := &importPlan{files: m.Files, cfg: m.Config}
	p.cfg.Lifecycle.Archive = 0 // that of this server
	if o.Name != "" {
		p.cfg.Name = o.Name
	}
	from := m.Config.Driver
	if o.Driver != "" {
		p.cfg.Driver = o.Driver
	}
	b := a.f.findDriver(p.cfg.Driver)
	if b == nil {
		return nil, fmt.Errorf("%w: driver %q: must be one of %v; another driver than that of the archive imports only the files of %s (--driver)", atoll.ErrInvalid, p.cfg.Driver, a.f.driverNames(), m.Files.Dir)
	}
	if p.cfg.Driver == from && m.Files.Kind != atoll.PackedDirectory {
		u, ok := b.impl.(atoll.FileUnpacker)
		if !ok {
			return nil, fmt.Errorf("%w: this driver %s can't unpack all files of a sandbox; use another driver to import only the files of %s (--driver)", atoll.ErrUnsupported, from, m.Files.Dir)
		}
		p.unpack = u.CreatePacked
		return p, nil
	}
	p.partial, p.into = true, m.Files.Dir
	switch {
	case m.Files.Kind == atoll.PackedDirectory:
		p.keep = archive.Below(path.Base(m.Files.Dir))
		if m.Files.Dir == "/" {
			p.keep = archive.Below(".")
		}
	case m.Files.Dir == "/":
		p.keep = keepUserFiles
	default:
		p.keep = archive.Below(strings.TrimPrefix(m.Files.Dir, "/"))
	}
	if p.cfg.Driver == from {
		return p, nil
	}
	p.cfg.Dir, p.cfg.Runtime, p.cfg.VM = m.Files.Dir, "", nil // the others are names of the other driver
	if ft, err := b.probe(ctx); err == nil && !ft.Images {
		p.cfg.Image = ""
	}
	return p, nil
}

// systemDirs are the directories of a root directory that belong to an image, or to the kernel.
var systemDirs = []string{"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}

// keepUserFiles keeps the entries of a root directory that are not in a directory of the system.
func keepUserFiles(h *tar.Header) (bool, error) {
	for _, name := range []string{h.Name, h.Linkname} {
		if h.Typeflag != tar.TypeLink && name == h.Linkname {
			continue
		}
		top, _, _ := strings.Cut(name, "/")
		if slices.Contains(systemDirs, top) || strings.HasPrefix(path.Base(name), whiteoutPrefix) {
			return false, nil
		}
	}
	return h.Name != "./", nil
}

// whiteoutPrefix begins the names of entries of a layer that remove a file of the image.
const whiteoutPrefix = ".wh."

// checkManifest refuses the description of an archive that asks for what no archive may have: an
// archive is made by others, and a caller with all rights must not give them away by importing it.
func checkManifest(m *atoll.SandboxArchive) error {
	cfg := &m.Config
	var errs []error
	for _, d := range []struct {
		what  string
		asked bool
	}{
		{"an id", cfg.ID != ""},
		{"a pool", cfg.Pool != ""},
		{"mounts", len(cfg.Mounts) > 0},
		{"workspaces", len(cfg.Workspaces) > 0},
		{"secrets", len(cfg.Secrets) > 0},
		{"prepare steps", len(cfg.Prepare) > 0},
		{"a project", cfg.Project != nil},
		{"public ports", cfg.PublicPorts},
		{"settings of the pod", cfg.Pod != nil},
		{"arguments or a disk of the VM", cfg.VM != nil && (len(cfg.VM.Args) > 0 || cfg.VM.Disk != "")},
		{"network headers", len(cfg.Network.Headers) > 0},
		{"network " + cfg.Network.PrivateRule(), cfg.Network.PrivateRule() != ""},
	} {
		if d.asked {
			errs = append(errs, fmt.Errorf("%w: the archive asks for %s, which no archive may: set it on the sandbox after the import", atoll.ErrDenied, d.what))
		}
	}
	for k := range cfg.Labels {
		if strings.HasPrefix(k, reservedLabelPrefix) {
			errs = append(errs, fmt.Errorf("%w: the archive asks for the label %.100s: labels that begin with %s are reserved", atoll.ErrDenied, k, reservedLabelPrefix))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: the archive: "+format, append([]any{atoll.ErrInvalid}, a...)...)
	}
	switch d := m.Files.Dir; {
	case cfg.Driver == "":
		return bad("config.driver: must name the driver of the sandbox")
	case !strings.HasPrefix(d, "/") || path.Clean(d) != d || strings.IndexByte(d, 0) >= 0 || len(d) > 4096:
		return bad("files.dir %.200q: must be a clean absolute path", d)
	case !slices.Contains([]atoll.PackedKind{atoll.PackedRoot, atoll.PackedLayer, atoll.PackedDirectory}, m.Files.Kind):
		return bad("files.kind %.50q: must be root, layer or directory", m.Files.Kind)
	}
	env := atoll.Spec{Env: m.Files.Env}
	if err := env.Check(); err != nil {
		return fmt.Errorf("the archive: files.env: %w", err)
	}
	return cfg.Check()
}

// createImported creates the sandbox of a checked plan.
func (a *Account) createImported(ctx context.Context, p *importPlan) (row, error) {
	f := a.f
	if err := f.checkConfig(ctx, &p.cfg); err != nil {
		return row{}, err
	}
	if p.partial || p.files.Kind != atoll.PackedRoot { // a root directory needs no image
		if err := f.checkPresentImage(ctx, &p.cfg); err != nil {
			return row{}, err
		}
		if err := a.checkImage(ctx, &p.cfg); err != nil {
			return row{}, err
		}
	}
	r := row{owner: a.caller.Owner, cfg: p.cfg}
	return f.startNewWithin(ctx, r, atoll.Timeouts{Create: -1}, p.create) // it takes as long as its caller sends
}

// create creates the sandbox of a plan in its driver.
func (p *importPlan) create(ctx context.Context, b *handle, spec atoll.Spec) (atoll.Sandbox, error) {
	if p.unpack != nil {
		spec.Timeouts.Create = -1
		return p.unpack(ctx, spec, &p.files)
	}
	sb, err := b.driver.impl.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := sb.Import(ctx, p.into, p.files); err != nil {
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return sb, nil
}
