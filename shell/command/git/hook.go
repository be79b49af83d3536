package git

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// findHook returns the path of a hook of the repository; "" if it has none that is executable. A bare repository has none:
// one can be a part of a clone.
func (c *call) findHook(name string) string {
	if c.root == "" {
		return ""
	}
	dir := c.conf.get("core.hookspath")
	switch {
	case dir == "":
		dir = c.common + "/hooks"
	case strings.HasPrefix(dir, "~/"):
		dir = c.p.Getenv("HOME") + dir[1:]
	case !path.IsAbs(dir):
		dir = path.Join(c.root, dir)
	}
	file := dir + "/" + name
	info, err := c.p.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if info.Mode()&0o111 == 0 {
		if c.conf.get("advice.ignoredhook") != "false" {
			_, _ = fmt.Fprintf(c.p.Stderr, "hint: The '%s' hook was ignored because it's not set as executable.\nhint: You can disable this warning with `git config advice.ignoredHook false`.\n", file) // best effort
		}
		return ""
	}
	return file
}

// runHook runs a hook in the root of the working tree, if there is one, and returns an error if it fails. What it prints goes to standard error. It is a
// program of the sandbox's user, which runs inside like any other.
func (c *call) runHook(name, stdin string, args ...string) error {
	file := c.findHook(name)
	if file == "" {
		return nil
	}
	_ = c.p.Out().Flush() // the next write reports the error
	s, err := c.p.Command(append([]string{file}, args...))
	if err != nil {
		return newError("cannot run %s: %s", file, program.Reason(err))
	}
	s.Dir = c.root
	s.Env = append(slices.Clone(c.p.Env), "GIT_PREFIX="+c.hookPrefix())
	if c.p.Getenv("GIT_EDITOR") == "" && c.findEditor() == "" {
		s.Env = append(s.Env, "GIT_EDITOR=:")
	}
	in := c.p.OpenMemory([]byte(stdin))
	defer in.Release()
	s.Stdin, s.Stdout = in, c.p.FD(2)
	status, err := c.p.Call(s)
	c.packedRefs, c.attributes = nil, nil // the hook may have changed them
	if err != nil {
		return newError("cannot run %s: %s", file, program.Reason(err))
	}
	if status.Code != 0 {
		return &failure{1, ""}
	}
	return nil
}

// hookPrefix returns the working directory below the root, with a slash at its end.
func (c *call) hookPrefix() string {
	name, err := c.relativePath(".")
	if err != nil || name == "" {
		return ""
	}
	return name + "/"
}

// editByHook has a hook change a message in a file of the repository. The file is written only if there is such a hook.
func (c *call) editByHook(hook, text string, args ...string) (string, error) {
	const name = "COMMIT_EDITMSG"
	if c.findHook(hook) == "" {
		return text, nil
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := c.writeGitFile(name, text); err != nil {
		return "", err
	}
	shown := strings.TrimPrefix(c.dir+"/"+name, c.root+"/")
	if err := c.runHook(hook, "", append([]string{shown}, args...)...); err != nil {
		return "", err
	}
	b, err := c.p.ReadFile(c.dir + "/" + name)
	return string(b), err
}

// messageSource returns the arguments of prepare-commit-msg after the file: where the message comes from.
func (c *call) messageSource(at id) []string {
	switch source := c.flags["-C"] + c.flags["--reuse-message"] + c.flags["-c"] + c.flags["--reedit-message"]; {
	case c.has("-m", "-F", "--file", "--fixup", "--squash"):
		return []string{"message"}
	case source != "":
		return []string{"commit", source}
	case c.hasGitFile("MERGE_MSG"):
		return []string{"merge"}
	case c.hasGitFile("SQUASH_MSG"):
		return []string{"squash"}
	case c.has("--amend"):
		return []string{"commit", "HEAD"}
	}
	return nil
}

// commandsWithHooks are the commands that hooks follow.
var commandsWithHooks = []string{"checkout", "commit", "merge", "pull", "rebase", "switch"}

// runHooksAfter runs the hooks that follow a command which has changed HEAD or files.
func (c *call) runHooksAfter(command string, old id) error {
	_, at := c.readHead()
	switch command {
	case "checkout", "switch":
		if c.findHook("post-checkout") == "" {
			return nil
		}
		branch := "1"
		if command == "checkout" && (len(c.paths) > 0 || c.has("--ours", "--theirs") || len(c.args) > 1 && !c.has("-b", "-B", "--orphan", "--detach", "-t", "--track")) {
			branch = "0"
		}
		return c.runHook("post-checkout", "", string(orZero(old)), string(orZero(at)), branch)
	case "merge", "pull":
		if at == old && !c.has("--squash") {
			return nil
		}
		squash := "0"
		if c.has("--squash") {
			squash = "1"
		}
		_ = c.runHook("post-merge", "", squash) // its status does not matter
	case "commit":
		if at == old {
			return nil
		}
		_ = c.runHook("post-commit", "") // likewise
		if c.has("--amend") {
			_ = c.runHook("post-rewrite", string(old)+" "+string(at)+"\n", "amend")
		}
	case "rebase":
		if at != old && !c.hasGitFile("rebase-merge") {
			_ = c.runHook("post-rewrite", string(old)+" "+string(at)+"\n", "rebase")
		}
	}
	return nil
}

func orZero(i id) id {
	if i == "" {
		return zeroID
	}
	return i
}

// runPrePush runs the hook that may refuse a push. Its input is a line for each ref.
func (c *call) runPrePush(remote, url string, list []pushedRef) error {
	if c.has("--no-verify") || c.findHook("pre-push") == "" {
		return nil
	}
	var b strings.Builder
	for _, u := range list {
		if u.new == u.old {
			continue
		}
		from := u.from
		if full := c.expandRef(from); u.new == zeroID {
			from = "(delete)"
		} else if full != "" && from != "HEAD" {
			from = full
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", from, orZero(u.new), u.name, orZero(u.old))
	}
	if err := c.runHook("pre-push", b.String(), remote, url); err != nil {
		return &failure{1, "error: failed to push some refs to '" + hidePassword(url) + "'"}
	}
	return nil
}
