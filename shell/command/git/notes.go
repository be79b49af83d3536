package git

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// notes are the notes of a ref: a tree whose files are named after the objects that they belong to, some of them divided
// in directories by the first digits.
type notes struct {
	r     *repository
	ref   string
	at    id                   // the commit of the ref; "" if there is none
	files map[string]treeEntry // by their paths
	paths map[id]string        // by the objects
}

// defaultNotes is the ref of notes if nothing names another.
const defaultNotes = "refs/notes/commits"

// notesRef returns the ref of notes that a name, the environment or the configuration gives.
func (r *repository) notesRef(name string) string {
	for _, other := range []string{r.p.Getenv("GIT_NOTES_REF"), r.conf.get("core.notesref"), defaultNotes} {
		name = orDefault(name, other)
	}
	switch {
	case strings.HasPrefix(name, "refs/notes/"):
		return name
	case strings.HasPrefix(name, "notes/"):
		return "refs/" + name
	}
	return "refs/notes/" + name
}

// readNotes reads the notes of a ref; one that does not exist has none.
func (r *repository) readNotes(ref string) (*notes, error) {
	n := &notes{r: r, ref: ref, at: r.readRef(ref), files: make(map[string]treeEntry), paths: make(map[id]string)}
	if n.at == "" {
		return n, nil
	}
	if err := r.readTree(n.at, "", n.files); err != nil {
		return nil, err
	}
	r.p.Alloc(int64(len(n.files)) * 120)
	for name := range n.files {
		if object := id(strings.ReplaceAll(name, "/", "")); object.isValid() {
			n.paths[object] = name
		}
	}
	return n, nil
}

// find returns the blob of an object's note, or "".
func (n *notes) find(object id) id { return n.files[n.paths[object]].id }

// set sets the note of an object; "" removes it.
func (n *notes) set(object, blob id) {
	name, ok := n.paths[object]
	switch {
	case blob == "":
		delete(n.files, name)
		delete(n.paths, object)
		return
	case !ok:
		name = string(object)
		if len(n.files) >= 256 {
			name = name[:2] + "/" + name[2:]
		}
	}
	n.files[name], n.paths[object] = treeEntry{0o100644, blob}, name
}

// write stores the notes.
func (n *notes) write(message string) error {
	if !isRefName(strings.TrimPrefix(n.ref, "refs/")) {
		return newFatal("refusing to update ref with bad name '%s'", n.ref)
	}
	x := make(index, len(n.files))
	for name, e := range n.files {
		x[name] = indexEntry{treeEntry: e}
	}
	tree, err := n.r.writeTree(x)
	if err != nil {
		return err
	}
	author, err := n.r.buildIdentity("AUTHOR")
	if err != nil {
		return err
	}
	var parents []id
	if n.at != "" {
		parents = []id{n.at}
	}
	i, err := n.r.writeCommit(tree, parents, author, message+"\n")
	if err != nil {
		return err
	}
	return n.r.writeRef(n.ref, i, "notes: "+message)
}

// manageNotes is git notes: it stores texts beside objects, which stay as they are.
func (c *call) manageNotes() error {
	verb, args := "list", append(c.args, c.paths...)
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	ref := c.notesRef(c.flags["--ref"])
	if verb == "get-ref" {
		_, _ = fmt.Fprintln(c.p.Out(), ref) // Flush reports the error
		return nil
	}
	n, err := c.readNotes(ref)
	if err != nil {
		return err
	}
	switch verb {
	case "list":
		return c.listNotes(n, args)
	case "copy":
		return c.copyNote(n, args)
	case "remove":
		return c.removeNotes(n, args)
	case "show", "add", "append":
	case "edit":
		return newError("there is no editor in a virtual sandbox: use git notes add -f with -m or -F")
	default:
		return &failure{1, "error: unknown subcommand: `" + verb + "'; here, they are list, show, add, append, copy, remove and get-ref"}
	}
	if len(args) > 1 {
		return &failure{129, "error: too many arguments"}
	}
	object, err := c.objectOfNote(append(args, "HEAD")[0])
	if err != nil {
		return err
	}
	if verb == "show" {
		return c.showNote(n, object)
	}
	return c.addNote(n, verb, object)
}

// objectOfNote returns the object that an argument names.
func (c *call) objectOfNote(rev string) (id, error) {
	object, err := c.resolveObject(rev)
	if err != nil {
		return "", newFatal("failed to resolve '%s' as a valid ref.", rev)
	}
	return object, nil
}

// listNotes prints the blobs of notes and their objects, or the blob of one.
func (c *call) listNotes(n *notes, args []string) error {
	if len(args) == 0 {
		for _, object := range slices.Sorted(maps.Keys(n.paths)) {
			_, _ = fmt.Fprintln(c.p.Out(), n.find(object), object) // Flush reports the error, as of all writes
		}
		return nil
	}
	object, err := c.objectOfNote(args[0])
	if err != nil {
		return err
	}
	blob := n.find(object)
	if blob == "" {
		return newError("no note found for object %s.", object)
	}
	_, _ = fmt.Fprintln(c.p.Out(), blob)
	return nil
}

// showNote prints the note of an object.
func (c *call) showNote(n *notes, object id) error {
	blob := n.find(object)
	if blob == "" {
		return newError("no note found for object %s.", object)
	}
	_, b, err := c.readObject(blob)
	if err != nil {
		return err
	}
	_, err = c.p.Out().Write(b)
	return err
}

// addNote sets the note of an object, or adds to it.
func (c *call) addNote(n *notes, verb string, object id) error {
	old := n.find(object)
	if verb == "add" && old != "" && !c.has("-f", "--force") {
		return newError("Cannot add notes. Found existing notes for object %s. Use '-f' to overwrite existing notes", object)
	}
	text, given, err := c.findMessageText("")
	if err != nil {
		return err
	}
	if !given {
		return newError("there is no editor in a virtual sandbox: give the note with -m or -F")
	}
	text = cleanMessage(text)
	if verb == "add" && old != "" {
		_, _ = fmt.Fprintf(c.p.Stderr, "Overwriting existing notes for object %s\n", object) // best effort, as below
	}
	if verb == "append" && old != "" {
		_, b, err := c.readObject(old)
		if err != nil {
			return err
		}
		if text != "" && len(b) > 0 {
			text = "\n" + text
		}
		text = string(b) + text
	}
	if text == "" && old == "" {
		return nil
	}
	if text == "" {
		_, _ = fmt.Fprintf(c.p.Stderr, "Removing note for object %s\n", object)
		n.set(object, "")
		return n.write("Notes removed by 'git notes " + verb + "'")
	}
	blob, err := c.writeObject("blob", []byte(text))
	if err != nil {
		return err
	}
	n.set(object, blob)
	return n.write("Notes added by 'git notes " + verb + "'")
}

// copyNote gives an object the note of another one.
func (c *call) copyNote(n *notes, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return &failure{129, "usage: git notes copy [<options>] <from-object> <to-object>"}
	}
	from, err := c.objectOfNote(args[0])
	if err != nil {
		return err
	}
	to, err := c.objectOfNote(append(args, "HEAD")[1])
	if err != nil {
		return err
	}
	blob := n.find(from)
	if n.find(to) != "" {
		if !c.has("-f", "--force") {
			return newError("Cannot copy notes. Found existing notes for object %s. Use '-f' to overwrite existing notes", to)
		}
		_, _ = fmt.Fprintf(c.p.Stderr, "Overwriting existing notes for object %s\n", to) // best effort
	}
	if blob == "" {
		return newError("missing notes on source object %s. Cannot copy.", from)
	}
	n.set(to, blob)
	return n.write("Notes added by 'git notes copy'")
}

// removeNotes removes the notes of objects.
func (c *call) removeNotes(n *notes, args []string) error {
	if len(args) == 0 {
		args = []string{"HEAD"}
	}
	changed, missing := false, false
	for _, rev := range args {
		object, err := c.objectOfNote(rev)
		if err != nil {
			_, _ = fmt.Fprintf(c.p.Stderr, "error: Failed to resolve '%s' as a valid ref.\n", rev)
			missing = true
			continue
		}
		if n.find(object) == "" {
			_, _ = fmt.Fprintf(c.p.Stderr, "Object %s has no note\n", rev) // best effort, as below
			missing = missing || !c.has("--ignore-missing")
			continue
		}
		_, _ = fmt.Fprintf(c.p.Stderr, "Removing note for object %s\n", rev)
		n.set(object, "")
		changed = true
	}
	switch {
	case missing: // all or none
		return &failure{1, ""}
	case changed:
		return n.write("Notes removed by 'git notes remove'")
	}
	return nil
}

// noteText returns the note of a commit for the log, with a heading, or "".
func (l *logRun) noteText(k *commit) (string, error) {
	_, shown := l.flags["--notes"]
	if l.has("--no-notes") || !shown && l.has("--format", "--pretty", "--oneline") {
		return "", nil
	}
	note, err := l.readNote(k)
	if note == "" || err != nil {
		return "", err
	}
	heading := "\nNotes:\n"
	if l.notes.ref != defaultNotes {
		heading = "\nNotes (" + strings.TrimPrefix(l.notes.ref, "refs/notes/") + "):\n"
	}
	var text strings.Builder
	text.WriteString(heading)
	for line := range strings.SplitSeq(strings.TrimSuffix(note, "\n"), "\n") {
		l.p.Tick(1 + len(line)>>6)
		l.allocText(2 * (len(line) + 5))
		text.WriteString("    " + line + "\n")
	}
	return text.String(), nil
}

// readNote returns the note of a commit, or "".
func (l *logRun) readNote(k *commit) (string, error) {
	if l.notes == nil {
		var err error
		if l.notes, err = l.readNotes(l.notesRef(l.flags["--notes"])); err != nil {
			return "", err
		}
	}
	blob := l.notes.find(k.id)
	if blob == "" {
		return "", nil
	}
	_, b, err := l.readObject(blob)
	defer l.release(b)
	l.allocText(len(b))
	return string(b), err
}
