package git

import (
	"errors"
	"fmt"
	"path"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// initRepository creates a repository.
func (c *call) initRepository() error {
	p := c.p
	dir := "."
	if len(c.args) > 0 {
		dir = c.args[0]
	}
	if err := p.MkdirAll(dir, 0o777); err != nil {
		return newFatal("cannot mkdir %s: %s", dir, program.Reason(err))
	}
	root, err := p.Resolve(dir)
	if err != nil {
		return err
	}
	git := path.Join(root, ".git")
	if c.has("--bare") {
		git = root
	}
	branch := c.flags["-b"] + c.flags["--initial-branch"]
	verb := "Initialized empty"
	if _, err := p.Stat(git + "/HEAD"); err == nil {
		verb = "Reinitialized existing"
	} else if err := createGitDir(p, git, orDefault(branch, orDefault(c.conf.get("init.defaultbranch"), "master")), c.has("--bare")); err != nil {
		return err
	}
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(p.Out(), "%s Git repository in %s/\n", verb, git) // Flush reports the error
	}
	return nil
}

// createGitDir creates the directory of a repository without commits.
func createGitDir(p *kernel.Proc, dir, branch string, bare bool) error {
	if !isRefName(branch) {
		return newFatal("invalid initial branch name: '%s'", branch)
	}
	for _, d := range []string{"/objects/info", "/objects/pack", "/refs/heads", "/refs/tags", "/info", "/hooks", "/branches"} {
		if err := p.MkdirAll(dir+d, 0o777); err != nil {
			return err
		}
	}
	conf := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = %t\n", bare)
	if !bare {
		conf += "\tlogallrefupdates = true\n"
	}
	about := "Unnamed repository; edit this file 'description' to name the repository.\n"
	return errors.Join(p.WriteFile(dir+"/description", []byte(about), 0o644), p.WriteFile(dir+"/HEAD", []byte("ref: refs/heads/"+branch+"\n"), 0o644), p.WriteFile(dir+"/config", []byte(conf), 0o644))
}
