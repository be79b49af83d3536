package git

import (
	"fmt"
	"strings"
)

// pushBranches is git push.
func (c *call) pushBranches() error {
	branch, _ := c.readHead()
	name := orDefault(c.conf.get("branch."+branch+".pushremote"), orDefault(c.conf.get("remote.pushdefault"), c.defaultRemote()))
	specs := []string(nil)
	if len(c.args) > 0 {
		name, specs = c.args[0], c.args[1:]
	}
	url := c.remoteURL(name, true)
	if _, ok := c.conf.lookup("remote." + name + ".url"); !ok && len(c.args) == 0 {
		return newFatal("No configured push destination.\nEither specify the URL from the command-line or configure a remote repository using\n\n    git remote add <name> <url>\n\nand then push using the remote name\n\n    git push <name>\n")
	}
	if len(specs) == 0 && !c.has("--all", "--tags", "--mirror") {
		spec, err := c.defaultPush(name, branch)
		if err != nil {
			return err
		}
		specs = []string{spec}
	}
	t, err := openTransport(c.p, c.conf, url)
	if err != nil {
		return err
	}
	refs, err := t.listRefs(true)
	if err != nil {
		return err
	}
	pushed, err := c.selectPushed(name, specs, refs)
	if err != nil {
		return err
	}
	if err := c.runPrePush(name, url, pushed); err != nil {
		return err
	}
	return c.sendPushed(t, name, url, pushed)
}

// defaultPush returns the refspec of a push without one, as push.default=simple has it.
func (c *call) defaultPush(remote, branch string) (string, error) {
	if branch == "" {
		return "", newFatal("You are not currently on a branch.\nTo push the history leading to the current (detached HEAD)\nstate now, use\n\n    git push %s HEAD:<name-of-remote-branch>\n", remote)
	}
	merge := c.conf.get("branch." + branch + ".merge")
	mode := c.conf.get("push.default")
	if mode == "current" || c.has("-u", "--set-upstream") || c.conf.isTrue("push.autosetupremote") && merge == "" || len(c.args) > 0 && c.conf.get("branch."+branch+".remote") != remote {
		if merge == "" && c.conf.isTrue("push.autosetupremote") {
			c.flags["-u"] = ""
		}
		return "refs/heads/" + branch, nil
	}
	switch {
	case merge == "":
		return "", newFatal("The current branch %s has no upstream branch.\nTo push the current branch and set the remote as upstream, use\n\n    git push --set-upstream %s %s\n\nTo have this happen automatically for branches without a tracking\nupstream, see 'push.autoSetupRemote' in 'git help config'.\n", branch, remote, branch)
	case merge != "refs/heads/"+branch && mode != "upstream":
		return "", newFatal("The upstream branch of your current branch does not match\nthe name of your current branch.  To push to the upstream branch\non the remote, use\n\n    git push %s HEAD:%s\n\nTo push to the branch of the same name on the remote, use\n\n    git push %s HEAD\n", remote, shortenRef(merge), remote)
	}
	return "refs/heads/" + branch + ":" + merge, nil
}

// pushedRef is a ref that a push sends.
type pushedRef struct {
	refUpdate
	from string
}

// selectPushed converts refspecs and options to updates.
func (c *call) selectPushed(remote string, specs []string, refs []remoteRef) ([]pushedRef, error) {
	if c.has("--all", "--mirror") {
		for _, name := range c.listRefs("refs/heads/") {
			specs = append(specs, "refs/heads/"+name)
		}
	}
	if c.has("--tags", "--mirror") {
		for _, name := range c.listRefs("refs/tags/") {
			specs = append(specs, "refs/tags/"+name)
		}
	}
	old := make(map[string]id)
	for _, ref := range refs {
		old[ref.name] = ref.id
	}
	var list []pushedRef
	for n := 0; n < len(specs); n++ {
		spec, force := strings.CutPrefix(specs[n], "+")
		if spec == "tag" && n+1 < len(specs) {
			n++
			spec = "refs/tags/" + specs[n]
		}
		from, to, ok := strings.Cut(spec, ":")
		if c.has("-d", "--delete") {
			from, to, ok = "", from, true
		}
		u, err := c.parsePushed(remote, [2]string{from, to}, ok && from == "", refs)
		if err != nil {
			return nil, err
		}
		u.force = force || c.has("-f", "--force", "--force-with-lease", "--force-if-includes")
		if u.old = old[u.name]; u.old == "" {
			u.old = zeroID
		}
		list = append(list, u)
	}
	return list, nil
}

// parsePushed returns the update for the two sides of a refspec; remove means that the ref is deleted.
func (c *call) parsePushed(remote string, spec [2]string, remove bool, refs []remoteRef) (pushedRef, error) {
	from, to := spec[0], spec[1]
	u := pushedRef{from: from}
	url := hidePassword(c.remoteURL(remote, true))
	if remove {
		u.new = zeroID
		ref := findRemoteRef(refs, to)
		if ref == nil {
			return u, newError("unable to delete '%s': remote ref does not exist\nerror: failed to push some refs to '%s'", to, url)
		}
		u.name = ref.name
		return u, nil
	}
	full := c.expandRef(from)
	if full == "HEAD" {
		full = orDefault(c.readSymbolic("HEAD"), full)
	}
	i, err := c.resolveObject(orHead(from))
	if err != nil {
		return u, newError("src refspec %s does not match any\nerror: failed to push some refs to '%s'", from, url)
	}
	u.new = i
	if from != "HEAD" && full != "" {
		u.from = shortenRef(full)
	}
	u.name, err = choosePushed(full, to, refs)
	return u, err
}

// choosePushed returns the full name of the ref that a push changes.
func choosePushed(from, to string, refs []remoteRef) (string, error) {
	switch {
	case to == "" && strings.HasPrefix(from, "refs/"):
		return from, nil
	case strings.HasPrefix(to, "refs/"):
		if !isRefName(to) {
			return "", newFatal("invalid refspec ':%s'", to)
		}
		return to, nil
	case to == "" || !isRefName(to):
		return "", newFatal("invalid refspec ':%s'", to)
	}
	if ref := findRemoteRef(refs, to); ref != nil && ref.name != "HEAD" {
		return ref.name, nil
	}
	if strings.HasPrefix(from, "refs/tags/") {
		return "refs/tags/" + to, nil
	}
	return "refs/heads/" + to, nil
}

// sendPushed checks the updates, sends them, and prints what happened.
func (c *call) sendPushed(t transport, remote, url string, list []pushedRef) error {
	var updates []refUpdate
	rejected := make(map[string]string)
	for _, u := range list {
		if u.new == u.old {
			continue
		}
		if problem, err := c.checkPush(u); err != nil {
			return err
		} else if problem != "" {
			rejected[u.name] = problem
			continue
		}
		updates = append(updates, u.refUpdate)
	}
	if len(updates)+len(rejected) == 0 {
		if err := c.printMessage("Everything up-to-date"); err != nil {
			return err
		}
		return c.setPushUpstreams(remote, list, nil)
	}
	if len(updates) > 0 && !c.has("-n", "--dry-run") {
		if err := t.push(c.repository, updates); err != nil {
			return err
		}
	}
	for _, u := range updates {
		if u.problem != "" {
			rejected[u.name] = u.problem
		}
	}
	c.printPushed(url, list, rejected, updates)
	if !c.has("-n", "--dry-run") {
		if err := c.followPushed(remote, updates); err != nil {
			return err
		}
	}
	if err := c.setPushUpstreams(remote, list, rejected); err != nil {
		return err
	}
	if len(rejected) > 0 {
		return &failure{1, explainRejected(hidePassword(url), rejected)}
	}
	return nil
}

// checkPush returns why an update must not be sent, or "".
func (c *call) checkPush(u pushedRef) (string, error) {
	if u.force || u.new == zeroID || u.old == zeroID {
		return "", nil
	}
	if strings.HasPrefix(u.name, "refs/tags/") {
		return "already exists", nil
	}
	if !c.hasObject(u.old) {
		return "fetch first", nil
	}
	forward, err := c.isAncestor(u.old, u.new)
	if err != nil || !forward {
		return "non-fast-forward", err
	}
	return "", nil
}

// printPushed prints a line for each update.
func (c *call) printPushed(url string, list []pushedRef, rejected map[string]string, updates []refUpdate) {
	lines := &updateLines{c: c, title: "To " + hidePassword(url)}
	for _, u := range list {
		from, to := u.from, shortenRef(u.name)
		problem, bad := rejected[u.name]
		remote := false
		for _, sent := range updates {
			remote = remote || sent.name == u.name
		}
		switch {
		case u.new == u.old && !bad:
			if c.has("-v", "--verbose") {
				lines.add('=', "[up to date]", from, to, "")
			}
		case bad && remote:
			lines.addPushed('!', "[remote rejected]", from, to, problem)
		case bad:
			lines.addPushed('!', "[rejected]", from, to, problem)
		case u.new == zeroID:
			lines.addPushed('-', "[deleted]", "", to, "")
		case u.old == zeroID && strings.HasPrefix(u.name, "refs/tags/"):
			lines.addPushed('*', "[new tag]", from, to, "")
		case u.old == zeroID && strings.HasPrefix(u.name, "refs/heads/"):
			lines.addPushed('*', "[new branch]", from, to, "")
		case u.old == zeroID:
			lines.addPushed('*', "[new reference]", from, to, "")
		default:
			forward, err := c.isAncestor(u.old, u.new)
			if err == nil && forward {
				lines.addPushed(' ', u.old.short()+".."+u.new.short(), from, to, "")
			} else {
				lines.addPushed('+', u.old.short()+"..."+u.new.short(), from, to, "forced update")
			}
		}
	}
}

// addPushed prints a line of a push, whose names are not in columns.
func (u *updateLines) addPushed(flag byte, what, from, to, note string) {
	if u.c.has("-q", "--quiet") && flag != '!' {
		return
	}
	if !u.started {
		_, _ = fmt.Fprintln(u.c.p.Stderr, u.title) // best effort
		u.started = true
	}
	line := fmt.Sprintf(" %c %-17s %s -> %s", flag, what, from, to)
	if from == "" {
		line = fmt.Sprintf(" %c %-17s %s", flag, what, to)
	}
	if note != "" {
		line += " (" + note + ")"
	}
	_, _ = fmt.Fprintln(u.c.p.Stderr, line) // best effort
}

// explainRejected returns the error for refs that were not updated.
func explainRejected(url string, rejected map[string]string) string {
	text := "error: failed to push some refs to '" + url + "'"
	for _, name := range sortedKeys(rejected) {
		switch rejected[name] {
		case "non-fast-forward":
			return text + "\nhint: Updates were rejected because the tip of your current branch is behind\nhint: its remote counterpart. Integrate the remote changes (e.g.\nhint: 'git pull ...') before pushing again.\nhint: See the 'Note about fast-forwards' in 'git push --help' for details."
		case "fetch first":
			return text + "\nhint: Updates were rejected because the remote contains work that you do\nhint: not have locally. This is usually caused by another repository pushing\nhint: to the same ref. You may want to first integrate the remote changes\nhint: (e.g., 'git pull ...') before pushing again.\nhint: See the 'Note about fast-forwards' in 'git push --help' for details."
		case "already exists":
			return text + "\nhint: Updates were rejected because the tag already exists in the remote."
		}
	}
	return text
}

// followPushed moves the refs that follow the pushed ones.
func (c *call) followPushed(remote string, updates []refUpdate) error {
	for _, u := range updates {
		if u.problem != "" {
			continue
		}
		for _, spec := range c.conf.all("remote." + remote + ".fetch") {
			to := mapRefspec(spec, u.name)
			if to == "" {
				continue
			}
			err := error(nil)
			if u.new == zeroID {
				err = c.deleteRef(to)
			} else {
				err = c.writeRef(to, u.new, "update by push")
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// setPushUpstreams makes pushed branches follow the remote's, if -u was given.
func (c *call) setPushUpstreams(remote string, list []pushedRef, rejected map[string]string) error {
	if !c.has("-u", "--set-upstream") || c.has("-n", "--dry-run") {
		return nil
	}
	for _, u := range list {
		from := u.from
		if from == "HEAD" {
			from, _ = c.readHead()
		}
		if _, bad := rejected[u.name]; bad || u.new == zeroID || c.readRef("refs/heads/"+from) == "" || !strings.HasPrefix(u.name, "refs/heads/") {
			continue
		}
		file := c.common + "/config"
		if err := setConfig(c.p, file, "branch."+from+".remote", remote); err != nil {
			return err
		}
		if err := setConfig(c.p, file, "branch."+from+".merge", u.name); err != nil {
			return err
		}
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintf(c.p.Out(), "branch '%s' set up to track '%s/%s'.\n", from, remote, shortenRef(u.name)) // Flush reports the error
		}
	}
	return nil
}
