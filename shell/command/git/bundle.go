package git

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// bundleHead is the first line of a bundle: lines "-COMMIT SUBJECT" of the commits that it builds on, lines "COMMIT REF"
// and, after an empty line, a pack follow. The format is that of git's gitformat-bundle, version 2.
const bundleHead = "# v2 git bundle\n"

// bundle is a file with refs and the objects that they need. As a transport, it can only be read.
type bundle struct {
	p     *kernel.Proc
	name  string
	needs []remoteRef // commits that it does not have, with their subjects as names
	refs  []remoteRef
	start int64 // of the pack
}

// openBundle reads the head of a bundle; nil without an error: the file is none.
func openBundle(p *kernel.Proc, name string) (*bundle, error) {
	info, err := p.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	h, err := p.Open(name)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = h.Close() }() // it was only read
	in := bufio.NewReader(h)
	line, err := readShortLine(in)
	if err != nil || line != bundleHead {
		return nil, nil
	}
	b := &bundle{p: p, name: name, start: int64(len(line))}
	for {
		if line, err = readShortLine(in); err != nil {
			return nil, newFatal("'%s' has a damaged head: %v", name, err)
		}
		b.start += int64(len(line))
		if line == "\n" {
			return b, nil
		}
		p.Tick(4)
		p.Alloc(int64(len(line)) + 200)
		line, need := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-")
		i, rest, _ := strings.Cut(line, " ")
		if !id(i).isValid() {
			return nil, newFatal("unrecognized header: %s", line)
		}
		if need {
			b.needs = append(b.needs, remoteRef{id: id(i), name: rest})
		} else {
			b.refs = append(b.refs, remoteRef{id: id(i), name: rest})
		}
	}
}

// readShortLine reads a line of at most 64 KiB.
func readShortLine(in *bufio.Reader) (string, error) {
	var line []byte
	for len(line) <= 64<<10 {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return string(line), nil
		}
		if err != bufio.ErrBufferFull {
			return "", err
		}
	}
	return "", fmt.Errorf("a line of more than %d bytes", 64<<10)
}

func (b *bundle) listRefs(bool) ([]remoteRef, error) {
	list := slices.Clone(b.refs)
	if n := slices.IndexFunc(list, func(ref remoteRef) bool { return ref.name == "HEAD" }); n > 0 {
		list = slices.Insert(slices.Delete(list, n, n+1), 0, b.refs[n])
	}
	return list, nil // a bundle does not say which branch HEAD is
}

func (b *bundle) fetch(r *repository, _ []id, depth int) error {
	if depth > 0 {
		return newFatal("--depth is not supported for a bundle: it has what it has")
	}
	if err := b.checkNeeds(r); err != nil {
		return err
	}
	h, err := r.p.Open(b.name)
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }() // it was only read
	if _, err := h.Seek(b.start, io.SeekStart); err != nil {
		return err
	}
	return r.receivePack(h)
}

func (b *bundle) push(*repository, []refUpdate) error {
	return newFatal("'%s' is a bundle, which can only be read", b.name)
}

// checkNeeds returns an error if a repository lacks commits that the bundle builds on.
func (b *bundle) checkNeeds(r *repository) error {
	var missing strings.Builder
	for _, need := range b.needs {
		r.p.Tick(1 + len(need.name)>>6)
		if !r.hasObject(need.id) {
			r.p.Alloc(2 * int64(len(need.name)+60))
			missing.WriteString("\nerror: " + string(need.id) + " " + need.name)
		}
	}
	if missing.Len() > 0 {
		return &failure{1, "error: Repository lacks these prerequisite commits:" + missing.String()}
	}
	return nil
}

// manageBundles is git bundle.
func (c *call) manageBundles() error {
	args := append(c.args, c.paths...)
	if len(args) < 2 {
		return &failure{129, "usage: git bundle create <file> <git-rev-list args>, or verify, list-heads, unbundle <file>"}
	}
	verb, file, args := args[0], args[1], args[2:]
	if verb == "create" {
		return c.createBundle(file, args)
	}
	b, err := openBundle(c.p, file)
	if err == nil && b == nil {
		err = &failure{1, "error: '" + file + "' does not look like a v2 or v3 bundle file"}
		if _, serr := c.p.Stat(file); serr != nil {
			err = &failure{1, "error: could not open '" + file + "'"}
		}
	}
	if err != nil {
		return err
	}
	switch verb {
	case "verify":
		return c.verifyBundle(b)
	case "unbundle":
		if err := b.fetch(c.repository, nil, 0); err != nil {
			return err
		}
	case "list-heads":
	default:
		return &failure{129, "error: unknown subcommand: `" + verb + "'"}
	}
	for _, ref := range b.refs {
		if len(args) == 0 || slices.Contains(args, ref.name) {
			_, _ = fmt.Fprintln(c.p.Out(), ref.id, ref.name) // Flush reports the error
		}
	}
	return nil
}

// verifyBundle prints what a bundle has and needs.
func (c *call) verifyBundle(b *bundle) error {
	if err := b.checkNeeds(c.repository); err != nil {
		return err
	}
	print := func(one, many string, list []remoteRef, names bool) {
		out := c.p.Out()
		if len(list) == 1 {
			_, _ = fmt.Fprintln(out, one) // Flush reports the error, as of all writes
		} else {
			_, _ = fmt.Fprintf(out, many+"\n", len(list))
		}
		for _, ref := range list {
			name := ""
			if names {
				name = ref.name
			}
			_, _ = fmt.Fprintln(out, ref.id, name)
		}
	}
	if !c.has("-q", "--quiet") {
		print("The bundle contains this ref:", "The bundle contains these %d refs:", b.refs, true)
		if len(b.needs) == 0 {
			_, _ = fmt.Fprintln(c.p.Out(), "The bundle records a complete history.")
		} else {
			print("The bundle requires this ref:", "The bundle requires these %d refs:", b.needs, false)
		}
		_, _ = fmt.Fprintln(c.p.Out(), "The bundle uses this hash algorithm: sha1")
	}
	_ = c.p.Out().Flush()                                  // the next write reports the error
	_, _ = fmt.Fprintf(c.p.Stderr, "%s is okay\n", b.name) // best effort
	return nil
}

// createBundle writes a bundle with the refs that arguments name, and the objects that they need.
func (c *call) createBundle(file string, args []string) error {
	var s selection
	var refs []remoteRef
	add := func(name string) {
		i := c.readRef(name)
		if i != "" && !slices.ContainsFunc(refs, func(ref remoteRef) bool { return ref.name == name }) {
			refs = append(refs, remoteRef{name: name, id: i})
			s.starts = append(s.starts, i)
		}
	}
	prefixes := map[string]string{"--all": "refs/", "--branches": "refs/heads/", "--tags": "refs/tags/", "--remotes": "refs/remotes/"}
	for _, a := range append(slices.Clone(c.order), args...) {
		if prefix, ok := prefixes[a]; ok {
			for _, name := range c.listRefs(prefix) {
				add(prefix + name)
			}
			if a == "--all" {
				add("HEAD")
			}
			continue
		}
		if slices.Contains(c.order, a) {
			continue // another option
		}
		if err := c.addBundled(&s, a, add); err != nil {
			return err
		}
	}
	hidden, err := c.collectAncestors(s.without)
	if err != nil {
		return err
	}
	refs = slices.DeleteFunc(refs, func(ref remoteRef) bool { return hidden[ref.id] }) // not the tag of a commit that is left out
	if len(refs) == 0 {
		return newFatal("Refusing to create empty bundle.")
	}
	needs, err := c.listEdges(s, hidden)
	if err != nil {
		return err
	}
	var starts []id
	for _, ref := range refs {
		starts = append(starts, ref.id)
	}
	list, err := c.listMissing(starts, s.without)
	if err != nil {
		return err
	}
	pack, err := c.buildPack(list)
	if err != nil {
		return err
	}
	head := []byte(bundleHead)
	for _, k := range needs {
		head = fmt.Appendf(head, "-%s %s\n", k.id, k.subject())
	}
	for _, ref := range refs {
		head = fmt.Appendf(head, "%s %s\n", ref.id, ref.name)
	}
	head = append(head, '\n')
	c.p.Alloc(int64(len(pack)))
	if file == "-" {
		_, err = c.p.Out().Write(append(head, pack...))
		return err
	}
	return c.p.WriteFile(file, append(head, pack...), 0o666)
}

// addBundled adds an operand to a selection; add is called with the ref that it names.
func (c *call) addBundled(s *selection, rev string, add func(ref string)) error {
	if rest, ok := strings.CutPrefix(rev, "^"); ok {
		k, err := c.resolveCommit(rest)
		if err == nil {
			s.without = append(s.without, k.id)
		}
		return err
	}
	from, to, ok := strings.Cut(rev, "..")
	if !ok {
		from, to = "", rev
	} else if strings.HasPrefix(to, ".") {
		return newFatal("A...B is not supported for bundles: name the branches, and ^REVISION for what is left out")
	}
	if ok {
		k, err := c.resolveCommit(orDefault(from, "HEAD"))
		if err != nil {
			return err
		}
		s.without = append(s.without, k.id)
	}
	to = orDefault(to, "HEAD")
	i, err := c.resolveObject(to)
	if err != nil {
		return err
	}
	ref := c.expandRef(to)
	if to == "HEAD" || to == "@" {
		ref = "HEAD"
	}
	if ref == "" { // a commit that no ref names is no part of a bundle by itself
		s.starts = append(s.starts, i)
		return nil
	}
	add(ref)
	return nil
}

// listEdges returns the commits that a selection leaves out and whose children it has.
func (c *call) listEdges(s selection, hidden map[id]bool) ([]*commit, error) {
	var list []*commit
	seen := make(map[id]bool)
	var starts []id
	for _, i := range s.starts {
		if peeled := c.peelTag(i); !hidden[peeled] {
			starts = append(starts, peeled)
		}
	}
	err := c.walkSelected(starts, hidden, func(k *commit) ([]id, bool, error) {
		for _, parent := range k.parents {
			if !hidden[parent] || seen[parent] {
				continue
			}
			c.p.Alloc(200)
			seen[parent] = true
			edge, err := c.readCommit(parent)
			if err != nil {
				return nil, false, err
			}
			list = append(list, edge)
		}
		return k.parents, true, nil
	})
	return list, err
}
