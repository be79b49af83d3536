package git

import "fmt"

// printVariable is git var: it prints a value that git finds in its environment and configuration.
func (c *call) printVariable() error {
	if len(c.args) != 1 {
		return &failure{129, "usage: git var <variable>"}
	}
	var text string
	var err error
	switch name := c.args[0]; name {
	case "GIT_AUTHOR_IDENT":
		text, err = c.buildIdentity("AUTHOR")
	case "GIT_COMMITTER_IDENT":
		text, err = c.buildIdentity("COMMITTER")
	case "GIT_EDITOR":
		text = c.p.Getenv("GIT_EDITOR")
		for _, other := range []string{c.conf.get("core.editor"), c.p.Getenv("VISUAL"), c.p.Getenv("EDITOR")} {
			text = orDefault(text, other)
		}
		if text == "" {
			return newError("Terminal is dumb, but EDITOR unset")
		}
	case "GIT_PAGER":
		text = c.p.Getenv("GIT_PAGER")
		for _, other := range []string{c.conf.get("core.pager"), c.p.Getenv("PAGER"), "pager"} {
			text = orDefault(text, other)
		}
	case "GIT_DEFAULT_BRANCH":
		text = orDefault(c.conf.get("init.defaultbranch"), "master")
	default:
		return &failure{129, "usage: git var <variable>\nHere, they are GIT_AUTHOR_IDENT, GIT_COMMITTER_IDENT, GIT_DEFAULT_BRANCH, GIT_EDITOR and GIT_PAGER."}
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), text) // Flush reports the error
	return nil
}
