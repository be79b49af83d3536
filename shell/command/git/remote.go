package git

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// remotes returns the names of the remotes.
func (r *repository) remotes() []string {
	var list []string
	for _, e := range r.conf {
		rest, ok := strings.CutPrefix(e.name, "remote.")
		if at := strings.LastIndexByte(rest, '.'); ok && at > 0 && !slices.Contains(list, rest[:at]) {
			list = append(list, rest[:at])
		}
	}
	slices.Sort(list)
	return list
}

// remoteUsages are the subcommands of git remote that have operands.
var remoteUsages = map[string]string{
	"add": "add <name> <url>", "remove": "remove <name>", "rm": "remove <name>", "rename": "rename <old> <new>",
	"get-url": "get-url <name>", "set-url": "set-url <name> <newurl>", "show": "show <name>", "prune": "prune <name>",
}

// manageRemotes lists, adds and changes remotes.
func (c *call) manageRemotes() error {
	verb, args := "", c.args
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	if usage, ok := remoteUsages[verb]; ok && !(verb == "show" && len(args) == 0) {
		if n := strings.Count(usage, "<") - strings.Count(usage, "["); len(args) < max(n, 1) {
			return &failure{129, "usage: git remote " + usage}
		}
		if verb != "add" && !slices.Contains(c.remotes(), args[0]) {
			return &failure{2, "error: No such remote '" + args[0] + "'"}
		}
	}
	switch verb {
	case "":
		return c.listRemotes()
	case "add":
		return c.addRemote(args[0], args[1])
	case "remove", "rm":
		return c.removeRemote(args[0])
	case "rename":
		return c.renameRemote(args[0], args[1])
	case "get-url":
		_, _ = fmt.Fprintln(c.p.Out(), c.conf.get("remote."+args[0]+".url")) // Flush reports the error
		return nil
	case "set-url":
		key := ".url"
		if c.has("--push") {
			key = ".pushurl"
		}
		return setConfig(c.p, c.common+"/config", "remote."+args[0]+key, args[1])
	case "show":
		if len(args) == 0 {
			return c.listRemotes()
		}
		return c.showRemote(args[0])
	case "prune", "update":
		if verb == "update" {
			c.args = args
			return c.fetchRemotes()
		}
		return c.with(map[string]string{"--prune": ""}, args[:1]).fetchRemotes()
	}
	return newError("Unknown subcommand: %s", verb)
}

func (c *call) listRemotes() error {
	for _, name := range c.remotes() {
		if !c.has("-v", "--verbose") {
			_, _ = fmt.Fprintln(c.p.Out(), name) // Flush reports the error, as of all writes
			continue
		}
		url := c.conf.get("remote." + name + ".url")
		_, _ = fmt.Fprintf(c.p.Out(), "%s\t%s (fetch)\n%s\t%s (push)\n", name, url, name, orDefault(c.conf.get("remote."+name+".pushurl"), url))
	}
	return nil
}

func (c *call) addRemote(name, url string) error {
	if !isRefName(name) {
		return newFatal("'%s' is not a valid remote name", name)
	}
	if slices.Contains(c.remotes(), name) {
		return &failure{3, "error: remote " + name + " already exists."}
	}
	if err := c.configureRemote(name, url); err != nil || !c.has("-f", "--fetch") {
		return err
	}
	again, err := openRepository(c.p)
	if err != nil {
		return err
	}
	return (&call{repository: again, flags: map[string]string{}, args: []string{name}}).fetchRemotes()
}

func (c *call) removeRemote(name string) error {
	file := c.common + "/config"
	for _, branch := range c.listRefs("refs/heads/") {
		if c.conf.get("branch."+branch+".remote") == name {
			if _, err := editConfig(c.p, file, configEdit{name: "branch." + branch, section: true}); err != nil {
				return err
			}
		}
	}
	for _, ref := range c.listRefs("refs/remotes/" + name + "/") {
		if err := c.deleteRef("refs/remotes/" + name + "/" + ref); err != nil {
			return err
		}
	}
	_, err := editConfig(c.p, file, configEdit{name: "remote." + name, section: true})
	return err
}

func (c *call) renameRemote(from, to string) error {
	if slices.Contains(c.remotes(), to) {
		return &failure{3, "error: remote " + to + " already exists."}
	}
	if !isRefName(to) {
		return newFatal("'%s' is not a valid remote name", to)
	}
	file := c.common + "/config"
	url := c.conf.get("remote." + from + ".url")
	for _, ref := range c.listRefs("refs/remotes/" + from + "/") {
		old, new := "refs/remotes/"+from+"/"+ref, "refs/remotes/"+to+"/"+ref
		if target := c.readSymbolic(old); target != "" {
			target = strings.Replace(target, "refs/remotes/"+from+"/", "refs/remotes/"+to+"/", 1)
			if err := c.p.MkdirAll(path.Dir(c.refPath(new)), 0o777); err != nil {
				return err
			}
			if err := c.p.WriteFile(c.refPath(new), []byte("ref: "+target+"\n"), 0o644); err != nil {
				return err
			}
		} else if err := c.writeRef(new, c.readRef(old), ""); err != nil {
			return err
		}
		if err := c.deleteRef(old); err != nil {
			return err
		}
	}
	for _, branch := range c.listRefs("refs/heads/") {
		if c.conf.get("branch."+branch+".remote") == from {
			if err := setConfig(c.p, file, "branch."+branch+".remote", to); err != nil {
				return err
			}
		}
	}
	if _, err := editConfig(c.p, file, configEdit{name: "remote." + from, section: true}); err != nil {
		return err
	}
	return c.configureRemote(to, url)
}

// configureRemote writes the section of a remote.
func (r *repository) configureRemote(name, url string) error {
	file := r.common + "/config"
	if err := setConfig(r.p, file, "remote."+name+".url", url); err != nil {
		return err
	}
	return setConfig(r.p, file, "remote."+name+".fetch", "+refs/heads/*:refs/remotes/"+name+"/*")
}

// showRemote prints the branches of a remote.
func (c *call) showRemote(name string) error {
	out, url := c.p.Out(), c.conf.get("remote."+name+".url")
	push := orDefault(c.conf.get("remote."+name+".pushurl"), url)
	if c.has("-n") {
		_, _ = fmt.Fprintf(out, "* remote %s\n  Fetch URL: %s\n  Push  URL: %s\n  HEAD branch: (not queried)\n", name, url, push) // Flush reports the error
		c.printKnownBranches(name)
		return nil
	}
	_, _ = fmt.Fprintf(out, "* remote %s\n  Fetch URL: %s\n  Push  URL: %s\n  Remote branches:\n", name, url, push) // Flush reports the error
	for _, ref := range c.listRefs("refs/remotes/" + name + "/") {
		if ref != "HEAD" {
			_, _ = fmt.Fprintf(out, "    %s\n", ref)
		}
	}
	return nil
}

// printKnownBranches prints what is known of a remote without asking it, for git remote show -n.
func (c *call) printKnownBranches(name string) {
	out := c.p.Out()
	plural := func(n int, one, many string) string {
		if n == 1 {
			return one
		}
		return many
	}
	var known, pulled []string
	for _, ref := range c.listRefs("refs/remotes/" + name + "/") {
		if ref != "HEAD" {
			known = append(known, ref)
		}
	}
	if len(known) > 0 {
		_, _ = fmt.Fprintf(out, "  Remote %s: (status not queried)\n", plural(len(known), "branch", "branches")) // Flush reports the error, as of all writes
	}
	for _, ref := range known {
		_, _ = fmt.Fprintf(out, "    %s\n", ref)
	}
	width := 0
	for _, branch := range c.listRefs("refs/heads/") {
		if c.conf.get("branch."+branch+".remote") == name && c.conf.get("branch."+branch+".merge") != "" {
			pulled = append(pulled, branch)
			width = max(width, len(branch))
		}
	}
	if len(pulled) > 0 {
		_, _ = fmt.Fprintf(out, "  Local %s configured for 'git pull':\n", plural(len(pulled), "branch", "branches"))
	}
	for _, branch := range pulled {
		verb := "merges with remote"
		if mode := c.conf.get("branch." + branch + ".rebase"); mode != "" && mode != "false" {
			verb = "rebases onto remote"
		}
		_, _ = fmt.Fprintf(out, "    %-*s %s %s\n", width, branch, verb, shortenRef(c.conf.get("branch."+branch+".merge")))
	}
	_, _ = fmt.Fprint(out, "  Local ref configured for 'git push' (status not queried):\n    (matching) pushes to (matching)\n")
}
