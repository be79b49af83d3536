package git

import (
	"errors"
	"slices"
	"strings"
)

// pullBranch is git pull: it fetches, and joins the fetched branch to the current one.
func (c *call) pullBranch() error {
	branch, at := c.readHead()
	if c.hasGitFile("MERGE_HEAD") {
		return newFatal("You have not concluded your merge (MERGE_HEAD exists).\nPlease, commit your changes before you merge.")
	}
	if len(c.args) < 2 && c.conf.get("branch."+branch+".merge") == "" {
		if err := c.checkUpstream(branch); err != nil {
			return err
		}
	}
	if err := c.with(c.fetchFlags(), c.args).fetchRemotes(); err != nil {
		var f *failure
		if errors.As(err, &f) {
			return &failure{1, f.msg}
		}
		return err
	}
	t, err := c.readFetchHead()
	if err != nil {
		return err
	}
	if at == "" {
		return c.mergeCommit(t)
	}
	mode := orDefault(c.conf.get("branch."+branch+".rebase"), c.conf.get("pull.rebase"))
	if value, ok := c.flags["--rebase"]; ok || c.has("-r") {
		mode = orDefault(value, "true")
	}
	if c.has("--no-rebase") {
		mode = "false"
	}
	if mode != "" && mode != "false" {
		flags := make(map[string]string)
		if c.has("-q", "--quiet") {
			flags["-q"] = ""
		}
		for _, name := range []string{"--autostash", "--no-autostash"} {
			if c.has(name) {
				flags[name] = ""
			}
		}
		return c.with(flags, []string{string(t.id)}).rebaseBranch()
	}
	if c.has("--autostash") {
		return newFatal("--autostash is supported with --rebase only: use git stash before and git stash pop after it")
	}
	forward, err := c.isAncestor(at, t.id)
	if err != nil {
		return err
	}
	behind, err := c.isAncestor(t.id, at)
	if err != nil {
		return err
	}
	if ff := c.conf.get("pull.ff"); ff != "" {
		c.conf = append(slices.Clone(c.conf), configEntry{name: "merge.ff", value: ff})
	}
	if !forward && !behind && mode == "" && !c.has("--ff-only", "--ff", "--no-ff", "--squash") && c.conf.get("pull.ff") == "" {
		return newFatal("Need to specify how to reconcile divergent branches.\nhint: You have divergent branches and need to specify how to reconcile them:\nhint:   git pull --no-rebase   # merge\nhint:   git pull --rebase      # rebase\nhint:   git pull --ff-only     # fast-forward only\nhint: git config pull.rebase false (or true) sets a default.")
	}
	return c.mergeCommit(t)
}

// checkUpstream returns an error for a pull that does not know what to merge.
func (c *call) checkUpstream(branch string) error {
	if branch == "" {
		return &failure{1, "You are not currently on a branch.\nPlease specify which branch you want to merge with.\nSee git-pull(1) for details.\n\n    git pull <remote> <branch>\n"}
	}
	if len(c.args) == 1 && !slices.Contains(c.remotes(), c.args[0]) {
		return nil
	}
	return &failure{1, "There is no tracking information for the current branch.\nPlease specify which branch you want to merge with.\nSee git-pull(1) for details.\n\n    git pull <remote> <branch>\n" + c.trackingHint(branch)}
}

// trackingHint returns how to set the upstream of a branch.
func (c *call) trackingHint(branch string) string {
	remote := "<remote>"
	if list := c.remotes(); len(list) == 1 {
		remote = list[0]
	}
	return "\nIf you wish to set tracking information for this branch you can do so with:\n\n    git branch --set-upstream-to=" + remote + "/<branch> " + branch + "\n"
}

// fetchFlags returns the options of a pull that are those of a fetch.
func (c *call) fetchFlags() map[string]string {
	flags := make(map[string]string)
	for name, value := range c.flags {
		if slices.Contains([]string{"-q", "--quiet", "-v", "--verbose", "--all", "-p", "--prune", "-t", "--tags", "--no-tags", "-f", "--force", "--depth", "--unshallow"}, name) {
			flags[name] = value
		}
	}
	return flags
}

// readFetchHead returns what the last fetch brought for a merge.
func (c *call) readFetchHead() (mergeTarget, error) {
	for line := range strings.SplitSeq(c.readGitFile("FETCH_HEAD"), "\n") {
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) != 3 || fields[1] != "" || !id(fields[0]).isValid() {
			continue
		}
		k, err := c.readCommit(id(fields[0]))
		if err != nil {
			return mergeTarget{}, err
		}
		what := fields[2]
		message := "Merge " + what
		reason := "pull"
		for _, a := range c.args {
			reason += " " + a
		}
		return mergeTarget{k.id, string(k.id), message + c.describeInto(), reason}, nil
	}
	return mergeTarget{}, &failure{1, "There are no candidates for merging among the refs that you just fetched."}
}
