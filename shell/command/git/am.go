package git

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mailDir has the mails that git am has still to apply, as files 0001, 0002, …, with the numbers of the next and of the
// last one, and the commit before the first.
const mailDir = "rebase-apply"

// applyMails is git am: it commits the patches of mails, and stops at the first that does not apply.
func (c *call) applyMails() error {
	active := c.hasGitFile(mailDir + "/applying")
	switch {
	case c.has("--abort", "--continue", "--skip", "--resolved", "-r", "--quit") && !active:
		return newFatal("Resolve operation not in progress, we are not resuming.")
	case c.has("--abort"):
		return c.abortMails()
	case c.has("--quit"):
		return c.removeGitFiles(mailDir)
	case c.has("--skip"):
		_, at := c.readHead()
		if err := c.resetTouched(at); err != nil {
			return err
		}
		return c.resumeMails(1)
	case c.has("--continue", "--resolved", "-r"):
		return c.continueMails()
	case active:
		return newFatal("previous rebase directory .git/rebase-apply still exists but mbox given.")
	}
	if err := c.checkPickable("am"); err != nil {
		return err
	}
	list, err := c.readMails()
	if err != nil || len(list) == 0 {
		return err
	}
	if err := c.storeMails(list); err != nil {
		return err
	}
	return c.resumeMails(0)
}

// readMails reads the mails of the operands or, without one, of standard input.
func (c *call) readMails() ([]mailPatch, error) {
	names := append(slices.Clone(c.args), c.paths...)
	if len(names) == 0 {
		b, err := c.p.ReadAll(c.p.Stdin)
		if err != nil {
			return nil, err
		}
		return parseMails(string(b)), nil
	}
	var list []mailPatch
	for _, name := range names {
		b, err := c.p.ReadFile(name)
		if err != nil {
			return nil, newFatal("could not open '%s' for reading: No such file or directory", name)
		}
		list = append(list, parseMails(string(b))...)
	}
	return list, nil
}

// storeMails writes the mails, and what --abort needs.
func (c *call) storeMails(list []mailPatch) error {
	if err := c.p.MkdirAll(c.dir+"/"+mailDir, 0o777); err != nil {
		return err
	}
	_, at := c.readHead()
	err := errors.Join(
		c.writeGitFile(mailDir+"/applying", ""), c.writeGitFile(mailDir+"/next", "1\n"), c.writeGitFile(mailDir+"/last", strconv.Itoa(len(list))+"\n"),
		c.writeGitFile(mailDir+"/orig-head", string(at)+"\n"), c.writeGitFile(mailDir+"/sign", map[bool]string{true: "t\n", false: "f\n"}[c.has("-s", "--signoff")]),
	)
	if (c.has("-3", "--3way") || c.conf.isTrue("am.threeway")) && !c.has("--no-3way") {
		err = errors.Join(err, c.writeGitFile(mailDir+"/threeway", "t\n"))
	}
	for n, m := range list {
		err = errors.Join(err, c.writeGitFile(fmt.Sprintf("%s/%04d", mailDir, n+1), m.text))
	}
	return err
}

// nextMail returns the number of the next mail and that of the last.
func (c *call) nextMail() (next, last int, err error) {
	next, err = strconv.Atoi(c.readGitFile(mailDir + "/next"))
	if err != nil {
		return 0, 0, newFatal("could not read '.git/rebase-apply/next': use git am --quit")
	}
	if last, err = strconv.Atoi(c.readGitFile(mailDir + "/last")); err != nil {
		return 0, 0, newFatal("could not read '.git/rebase-apply/last': use git am --quit")
	}
	return next, last, nil
}

// readStoredMail returns a stored mail.
func (c *call) readStoredMail(n int) (mailPatch, error) {
	b, err := c.p.ReadFile(fmt.Sprintf("%s/%s/%04d", c.dir, mailDir, n))
	return parseMail(string(b)), err
}

// resumeMails applies the stored mails; skip is how many of them are left out.
func (c *call) resumeMails(skip int) error {
	next, last, err := c.nextMail()
	if err != nil {
		return err
	}
	for n := next + skip; n <= last; n++ {
		if err := c.writeGitFile(mailDir+"/next", strconv.Itoa(n)+"\n"); err != nil {
			return err
		}
		m, err := c.readStoredMail(n)
		if err != nil {
			return err
		}
		if err := c.applyMail(n, m); err != nil {
			return err
		}
	}
	return c.removeGitFiles(mailDir)
}

const mailAdvice = `When you have resolved this problem, run "git am --continue".
If you prefer to skip this patch, run "git am --skip" instead.
To restore the original branch and stop patching, run "git am --abort".`

// applyMail commits the patch of one mail.
func (c *call) applyMail(n int, m mailPatch) error {
	subject := cutBefore(m.message, "\n")
	c.printMail(subject)
	files, err := c.parsePatch(m.patch, patchOptions{strip: 1})
	if err == nil && len(files) == 0 {
		return newFatal("Patch is empty: '%s'\n%s", subject, mailAdvice)
	}
	if err == nil {
		err = c.with(map[string]string{"--index": ""}, nil).applyFiles(files)
	}
	if err != nil && c.readGitFile(mailDir+"/threeway") == "t" {
		var done bool
		if done, err = c.mergeMail(m, files); done {
			return nil
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(c.p.Out(), "Patch failed at %04d %s\n%s\n", n, subject, mailAdvice) // Flush reports the error
		return &failure{128, err.Error() + "\nhint: Use 'git am --show-current-patch=diff' to see the failed patch"}
	}
	return c.commitMail(m)
}

// mergeMail applies the patch of a mail to the versions of the files that it was made from, and merges the result. done reports
// that the files have the changes already.
func (c *call) mergeMail(m mailPatch, files []*filePatch) (done bool, err error) {
	base := make(index)
	for _, f := range files {
		c.p.Tick(1)
		if f.old == "" {
			continue
		}
		i, err := c.resolveObject(f.oldID)
		if err != nil {
			return false, newError("could not build fake ancestor")
		}
		_, at := c.readHead()
		mode := f.oldMode
		if mode == 0 {
			mode = 0o100644
			head, err := c.readHeadTree()
			if err != nil {
				return false, err
			}
			if e, ok := head[f.old]; ok && at != "" {
				mode = e.mode
			}
		}
		base[f.old] = indexEntry{treeEntry: treeEntry{mode, i}}
	}
	quiet := c.has("-q", "--quiet")
	say := func(text string) {
		if !quiet {
			_, _ = fmt.Fprintln(c.p.Out(), text) // Flush reports the error
		}
	}
	head, err := c.readHeadTree()
	if err != nil {
		return false, err
	}
	say("Using index info to reconstruct a base tree...")
	for _, name := range sortedKeys(base) {
		if e, ok := head[name]; !ok {
			say("A\t" + name)
		} else if e != base[name].treeEntry {
			say("M\t" + name)
		}
	}
	baseTree, err := c.writeTree(base)
	if err != nil {
		return false, err
	}
	a := &applier{call: c.with(map[string]string{"--cached": ""}, nil), x: base, done: make(map[string]*appliedFile), cached: true, context: 1 << 30}
	for _, f := range files {
		result, err := a.applyFile(f)
		if err == nil {
			err = a.store(result)
		}
		if err != nil {
			return false, newError("Did you hand edit your patch?\nIt does not apply to blobs recorded in its index.")
		}
	}
	theirs, err := c.writeTree(a.x)
	if err != nil {
		return false, err
	}
	say("Falling back to patching base and 3-way merge...")
	_, at := c.readHead()
	t, err := c.newTreeMerge(baseTree, at, theirs, [3]string{"HEAD", "constructed merge base", cutBefore(m.message, "\n")})
	if err != nil {
		return false, err
	}
	if err := t.merge(); err != nil {
		return false, err
	}
	if !quiet {
		t.printMessages()
	}
	if err := t.apply(head, "merge", "merge"); err != nil {
		return false, err
	}
	if len(t.conflicts) > 0 {
		return false, newError("Failed to merge in the changes.")
	}
	if len(compareTrees(c.p, head, t.result)) == 0 {
		say("No changes -- Patch already applied.")
		return true, nil
	}
	return false, nil
}

func (c *call) printMail(subject string) {
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintln(c.p.Out(), "Applying: "+subject) // Flush reports the error
	}
}

// commitMail commits the index with the author and the message of a mail.
func (c *call) commitMail(m mailPatch) error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	tree, err := c.writeTree(x)
	if err != nil {
		return err
	}
	message := m.message
	if c.readGitFile(mailDir+"/sign") == "t" {
		who, err := c.buildIdentity("COMMITTER")
		if err != nil {
			return err
		}
		message = addTrailer(message, "Signed-off-by: "+cutBefore(who, "> ")+">")
	}
	var parents []id
	if _, at := c.readHead(); at != "" {
		parents = []id{at}
	}
	i, err := c.writeCommit(tree, parents, m.author, message)
	if err != nil {
		return err
	}
	return c.setHead(i, "am: "+cutBefore(m.message, "\n"))
}

// continueMails commits what is staged as the change of the mail that did not apply, and applies the others.
func (c *call) continueMails() error {
	next, _, err := c.nextMail()
	if err != nil {
		return err
	}
	m, err := c.readStoredMail(next)
	if err != nil {
		return err
	}
	c.printMail(cutBefore(m.message, "\n"))
	s, err := c.readState()
	switch {
	case err != nil:
		return err
	case len(s.unmerged) > 0:
		_, _ = fmt.Fprintf(c.p.Out(), "You still have unmerged paths in your index.\nYou should 'git add' each file with resolved conflicts to mark them as such.\nYou might run `git rm` on a file to accept \"deleted by them\" for it.\n%s\n", mailAdvice) // Flush reports the error
		return &failure{128, ""}
	case len(s.staged) == 0:
		_, _ = fmt.Fprintf(c.p.Out(), "No changes - did you forget to use 'git add'?\nIf there is nothing left to stage, chances are that something else\nalready introduced the same changes; you might want to skip this patch.\n%s\n", mailAdvice) // likewise
		return &failure{128, ""}
	}
	if err := c.commitMail(m); err != nil {
		return err
	}
	return c.resumeMails(1)
}

// abortMails returns to the commit before the first mail.
func (c *call) abortMails() error {
	start := id(strings.TrimSpace(c.readGitFile(mailDir + "/orig-head")))
	if !start.isValid() {
		return newFatal("the commit before the session is not known: use git am --quit and git reset")
	}
	if err := c.resetTouched(start); err != nil {
		return err
	}
	if err := c.setHead(start, "am --abort"); err != nil {
		return err
	}
	return c.removeGitFiles(mailDir)
}
