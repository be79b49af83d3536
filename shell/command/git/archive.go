package git

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// Costs of an archive that is written.
const (
	archiveMemory = 2 << 20 // of a compressor
	archiveEntry  = 512     // of an entry in the list of a zip file, beside its name
)

// treeArchive writes the files of a tree to an archive.
type treeArchive struct {
	*call
	tar    *tar.Writer
	zip    *zip.Writer
	at     time.Time
	prefix string
	paths  []string
	own    []attributeRule // of info/attributes, which are stronger than those of the tree
}

// archiveTree is git archive.
func (c *call) archiveTree() error {
	if c.has("-l", "--list") {
		_, _ = c.p.Out().WriteString("tar\ntgz\ntar.gz\nzip\n") // Flush reports the error
		return nil
	}
	if len(c.args) == 0 {
		return &failure{129, "usage: git archive [--format=tar|tgz|tar.gz|zip] [--prefix=<prefix>/] [-o <file>] <tree-ish> [<path>...]"}
	}
	i, err := c.resolveRevision(c.args[0])
	if err != nil {
		return newFatal("not a valid object name: %s", c.args[0])
	}
	a := &treeArchive{call: c, at: c.p.Now(), prefix: c.flags["--prefix"]}
	comment := ""
	if k, err := c.readCommit(i); err == nil {
		_, _, at := splitIdentity(k.committer)
		a.at = at.UTC()
		comment = string(k.id)
	}
	tree, err := c.archivedTree(i)
	if err != nil {
		return err
	}
	for _, p := range append(slices.Clone(c.args[1:]), c.paths...) {
		p = path.Clean(p)
		if ok, err := c.treeHas(tree, p); err != nil {
			return err
		} else if !ok {
			return newFatal("pathspec '%s' did not match any files", p)
		}
		a.paths = append(a.paths, p)
	}
	output := c.flags["-o"] + c.flags["--output"]
	format := archiveFormat(c.flags["--format"], output)
	if !slices.Contains([]string{"tar", "tgz", "zip"}, format) {
		return newFatal("Unknown archive format '%s'", c.flags["--format"])
	}
	var out io.Writer = c.p.Out()
	if output != "" {
		h, err := c.p.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return newFatal("could not create archive file '%s': %s", output, program.Reason(err))
		}
		return errors.Join(a.write(h, format, comment, tree), h.Close())
	}
	return a.write(out, format, comment, tree)
}

// archivedTree returns the tree of an object, or what it has for the current directory.
func (c *call) archivedTree(i id) (id, error) {
	tree, err := c.peelTo(i, "tree", newFatal("not a tree object: %s", i))
	if err != nil || c.root == "" {
		return tree, err
	}
	here, err := c.relativePath(".")
	if err != nil || here == "" || here == "." {
		return tree, err
	}
	for part := range strings.SplitSeq(here, "/") {
		items, err := c.readTreeItems(tree)
		if err != nil {
			return tree, err
		}
		n := slices.IndexFunc(items, func(it treeItem) bool { return it.name == part && it.mode == modeTree })
		if n < 0 {
			return tree, newFatal("current working directory is untracked")
		}
		tree = items[n].id
	}
	return tree, nil
}

// treeHas reports whether a tree has a path.
func (c *call) treeHas(tree id, p string) (bool, error) {
	if p == "." {
		return true, nil
	}
	name, rest, more := strings.Cut(p, "/")
	items, err := c.readTreeItems(tree)
	if err != nil {
		return false, err
	}
	n := slices.IndexFunc(items, func(it treeItem) bool { return it.name == name })
	switch {
	case n < 0:
		return false, nil
	case !more:
		return true, nil
	}
	return c.treeHas(items[n].id, rest)
}

// archiveFormat returns the format that an option or the name of the output asks for.
func archiveFormat(format, output string) string {
	switch {
	case format == "tar.gz":
		return "tgz"
	case format != "":
		return format
	case strings.HasSuffix(output, ".tgz"), strings.HasSuffix(output, ".tar.gz"):
		return "tgz"
	case strings.HasSuffix(output, ".zip"):
		return "zip"
	}
	return "tar"
}

// write writes the archive of a tree.
func (a *treeArchive) write(out io.Writer, format, comment string, tree id) error {
	var ends []io.Closer
	switch format {
	case "zip":
		a.p.Alloc(archiveMemory)
		a.zip = zip.NewWriter(out)
		ends = append(ends, a.zip)
		if err := a.zip.SetComment(comment); err != nil {
			return err
		}
	case "tgz":
		a.p.Alloc(archiveMemory)
		z := gzip.NewWriter(out)
		out, ends = z, append(ends, z)
	}
	if a.zip == nil {
		a.tar = tar.NewWriter(out)
		ends = append([]io.Closer{a.tar}, ends...)
		if comment != "" {
			if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": comment}}); err != nil {
				return err
			}
		}
	}
	if strings.HasSuffix(a.prefix, "/") {
		if err := a.add("", modeTree, nil); err != nil {
			return err
		}
	}
	a.own = a.readAttributes(a.common+"/info/attributes", "")
	err := a.addTree(tree, "", nil)
	for _, e := range ends {
		if cerr := e.Close(); err == nil {
			err = cerr
		}
	}
	return err
}

// addTree adds the entries of a tree; prefix is "" or ends with a slash. rules are the attributes of the directories above.
func (a *treeArchive) addTree(tree id, prefix string, rules []attributeRule) error {
	if !a.p.Enter() {
		return newFatal("directories are nested too deeply")
	}
	defer a.p.Leave()
	items, err := a.readTreeItems(tree)
	if err != nil {
		return err
	}
	for _, it := range items {
		if it.name == ".gitattributes" && it.mode != modeTree && it.mode != modeLink {
			_, b, err := a.readObject(it.id)
			if err != nil {
				return err
			}
			rules = append(slices.Clip(rules), a.parseAttributes(b, prefix)...)
			a.release(b)
		}
	}
	for _, it := range items {
		a.p.Tick(4)
		name := prefix + it.name
		selected, above := a.selects(name)
		if !selected && !(above && it.mode == modeTree) || a.isIgnored(rules, name, it.mode == modeTree) {
			continue
		}
		if it.mode == modeTree || it.mode == modeRepo {
			if err := a.add(name, modeTree, nil); err != nil {
				return err
			}
			if it.mode == modeTree {
				if err := a.addTree(it.id, name+"/", rules); err != nil {
					return err
				}
			}
			continue
		}
		_, b, err := a.readObject(it.id)
		if err != nil {
			return err
		}
		if it.mode != modeLink {
			b = a.smudgeLines(name, b)
		}
		if err := a.add(name, it.mode, b); err != nil {
			return err
		}
		a.release(b)
	}
	return nil
}

// isIgnored reports whether a file has the attribute export-ignore.
func (a *treeArchive) isIgnored(rules []attributeRule, name string, folder bool) bool {
	if folder {
		name += "/"
	}
	state := a.stateOf(rules, name, "export-ignore", "")
	return a.stateOf(a.own, name, "export-ignore", state) == attributeSet
}

// selects reports whether a path of the call names a file, and whether one is below it.
func (a *treeArchive) selects(name string) (selected, above bool) {
	if len(a.paths) == 0 {
		return true, false
	}
	for _, p := range a.paths {
		a.p.Tick(1)
		if p == "." || p == name || strings.HasPrefix(name, p+"/") {
			selected = true
		}
		above = above || strings.HasPrefix(p, name+"/")
	}
	return selected, above
}

// add adds a file, a link or a directory.
func (a *treeArchive) add(name string, mode uint32, content []byte) error {
	name = a.prefix + name
	if mode == modeTree && !strings.HasSuffix(name, "/") {
		name += "/"
	}
	if a.has("-v", "--verbose") {
		_, _ = io.WriteString(a.p.Stderr, name+"\n") // best effort
	}
	a.p.Tick(len(content) >> 5)
	if a.zip != nil {
		return a.addToZip(name, mode, content)
	}
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o664 | int64(mode&0o111), Size: int64(len(content)), ModTime: a.at, Uname: "root", Gname: "root"}
	if mode&0o111 != 0 {
		h.Mode = 0o775
	}
	switch mode {
	case modeTree:
		h.Typeflag, h.Mode = tar.TypeDir, 0o775
	case modeLink:
		h.Typeflag, h.Mode, h.Size, h.Linkname, content = tar.TypeSymlink, 0o777, 0, string(content), nil
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return newFatal("cannot archive '%s': %v", name, err)
	}
	_, err := a.tar.Write(content)
	return err
}

func (a *treeArchive) addToZip(name string, mode uint32, content []byte) error {
	a.p.Alloc(archiveEntry + 2*int64(len(name)))
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: a.at}
	switch {
	case mode == modeTree:
		h.Method = zip.Store
	case mode == modeLink:
		h.Method = zip.Store
		h.SetMode(fs.ModeSymlink | 0o777)
	case mode&0o111 != 0:
		h.SetMode(0o755)
	}
	w, err := a.zip.CreateHeader(h)
	if err != nil {
		return newFatal("cannot archive '%s': %v", name, err)
	}
	_, err = w.Write(content)
	return err
}
