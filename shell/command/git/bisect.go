package git

import (
	"fmt"
	"slices"
	"strings"
)

// bisectCommits is git bisect: it finds the commit that introduced a change by halving a range.
func (c *call) bisectCommits() error {
	if len(c.args) == 0 {
		return &failure{1, "usage: git bisect [start|bad|good|skip|reset|log]"}
	}
	verb, args := c.args[0], c.args[1:]
	switch verb {
	case "start":
		return c.startBisect(args)
	case "reset":
		return c.resetBisect()
	case "run":
		return newFatal("git bisect run is not supported here: mark each commit with git bisect good or git bisect bad")
	}
	if !c.hasGitFile("BISECT_START") {
		return &failure{1, "You need to start by \"git bisect start\"\n"}
	}
	switch verb {
	case "bad", "new", "good", "old", "skip":
		return c.markBisect(map[string]string{"new": "bad", "old": "good"}[verb]+map[bool]string{true: verb}[verb != "new" && verb != "old"], args)
	case "log":
		_, _ = fmt.Fprintln(c.p.Out(), c.readGitFile("BISECT_LOG")) // Flush reports the error
		return nil
	case "view", "visualize":
		return newFatal("git bisect %s is not supported here: use git log", verb)
	}
	return &failure{1, "error: unknown command: 'git bisect " + verb + "'"}
}

func (c *call) startBisect(args []string) error {
	branch, at := c.readHead()
	if c.hasGitFile("BISECT_START") {
		if err := c.resetBisect(); err != nil {
			return err
		}
	}
	if err := c.writeGitFile("BISECT_START", orDefault(branch, string(at))+"\n"); err != nil {
		return err
	}
	var quoted strings.Builder
	for _, a := range args {
		quoted.WriteString(" '" + a + "'")
	}
	log := ""
	for n, a := range args {
		k, err := c.resolveCommit(a)
		if err != nil {
			_ = c.removeGitFiles("BISECT_START") // the error is reported
			return newFatal("'%s' does not appear to be a valid revision", a)
		}
		kind := "good"
		if n == 0 {
			kind = "bad"
		}
		if err := c.writeRef(bisectRef(kind, k.id), k.id, ""); err != nil {
			return err
		}
		log += fmt.Sprintf("# %s: [%s] %s\n", kind, k.id, k.subject())
	}
	if err := c.writeGitFile("BISECT_LOG", log+"git bisect start"+quoted.String()+"\n"); err != nil {
		return err
	}
	return c.stepBisect()
}

func bisectRef(kind string, i id) string {
	if kind == "bad" {
		return "refs/bisect/bad"
	}
	return "refs/bisect/" + kind + "-" + string(i)
}

// markBisect marks commits, HEAD without operands, and goes on.
func (c *call) markBisect(kind string, args []string) error {
	if len(args) == 0 {
		args = []string{"HEAD"}
	}
	for _, a := range args {
		k, err := c.resolveCommit(a)
		if err != nil {
			return newError("Bad rev input: %s", a)
		}
		if err := c.writeRef(bisectRef(kind, k.id), k.id, ""); err != nil {
			return err
		}
		log := c.readGitFile("BISECT_LOG") + fmt.Sprintf("\n# %s: [%s] %s\ngit bisect %s %s\n", kind, k.id, k.subject(), kind, k.id)
		if err := c.writeGitFile("BISECT_LOG", log); err != nil {
			return err
		}
	}
	return c.stepBisect()
}

// stepBisect checks out the next commit to test, or prints the result.
func (c *call) stepBisect() error {
	bad := c.readRef("refs/bisect/bad")
	var good, skipped []id
	for _, name := range c.listRefs("refs/bisect/") {
		if rest, ok := strings.CutPrefix(name, "good-"); ok {
			good = append(good, id(rest))
		} else if rest, ok := strings.CutPrefix(name, "skip-"); ok {
			skipped = append(skipped, id(rest))
		}
	}
	out := c.p.Out()
	switch {
	case bad == "" && len(good) == 0:
		_, _ = fmt.Fprintln(out, "status: waiting for both good and bad commits") // Flush reports the error, as of all writes
		return nil
	case bad == "":
		_, _ = fmt.Fprintf(out, "status: waiting for bad commit, %d good commit%s known\n", len(good), map[bool]string{false: "s"}[len(good) == 1])
		return nil
	case len(good) == 0:
		_, _ = fmt.Fprintln(out, "status: waiting for good commit(s), bad commit known")
		return nil
	}
	next, left, all, err := c.halve(bad, good, skipped)
	if err != nil {
		return err
	}
	if next == "" || next == bad {
		return c.reportBisect(bad)
	}
	steps := bisectSteps(all)
	_, _ = fmt.Fprintf(out, "Bisecting: %d revision%s left to test after this (roughly %d step%s)\n", left, map[bool]string{false: "s"}[left == 1], steps, map[bool]string{false: "s"}[steps == 1])
	if err := c.with(map[string]string{"-q": "", "--detach": ""}, nil).moveTo(string(next)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "[%s] %s\n", next, c.subjectOf(next))
	return nil
}

// bisectSteps estimates how many tests a number of commits needs.
func bisectSteps(all int) int {
	if all < 3 {
		return 0
	}
	n := 0
	for 1<<(n+1) <= all {
		n++
	}
	e := 1 << n
	if x := all - e; e < 3*x {
		return n
	}
	return n - 1
}

// halve returns the commit that divides the candidates best, how many are left after it, and their number.
func (c *call) halve(bad id, good, skipped []id) (id, int, int, error) {
	var list []*commit
	err := c.walkRange([]id{bad}, good, func(k *commit) (bool, error) {
		list = append(list, k)
		return true, nil
	})
	if err != nil || len(list) == 0 {
		return "", 0, 0, err
	}
	inside := make(map[id]bool)
	for _, k := range list {
		inside[k.id] = true
	}
	best, reach := id(""), -1
	for _, k := range list {
		if slices.Contains(skipped, k.id) {
			continue
		}
		weight := 0
		err := c.walkSelected([]id{k.id}, nil, func(at *commit) ([]id, bool, error) {
			weight++
			return slices.DeleteFunc(slices.Clone(at.parents), func(i id) bool { return !inside[i] }), true, nil
		})
		if err != nil {
			return "", 0, 0, err
		}
		if value := min(weight, len(list)-weight); value > reach {
			best, reach = k.id, value
		}
	}
	return best, max(len(list)-reach-1, 0), len(list), nil
}

// reportBisect prints the first bad commit.
func (c *call) reportBisect(bad id) error {
	k, err := c.readCommit(bad)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "%s is the first bad commit\n", bad) // Flush reports the error
	if err := c.writeGitFile("BISECT_LOG", c.readGitFile("BISECT_LOG")+fmt.Sprintf("\n# first bad commit: [%s] %s\n", bad, k.subject())); err != nil {
		return err
	}
	list, err := c.changesOf(k)
	if err != nil || len(list) == 0 {
		return err
	}
	l, err := c.with(map[string]string{"--stat": "", "--summary": ""}, nil).newLog()
	if err != nil {
		return err
	}
	return l.printCommit(k, true)
}

// resetBisect returns to the branch where the bisection began.
func (c *call) resetBisect() error {
	start := c.readGitFile("BISECT_START")
	if start == "" {
		_, _ = fmt.Fprintln(c.p.Out(), "We are not bisecting.") // Flush reports the error
		return nil
	}
	if err := c.removeGitFiles("BISECT_START", "BISECT_LOG", "BISECT_NAMES", "BISECT_TERMS", "BISECT_EXPECTED_REV", "refs/bisect"); err != nil {
		return err
	}
	return c.with(map[string]string{}, nil).moveTo(start)
}
