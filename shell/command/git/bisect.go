package git

import (
	"fmt"
	"slices"
	"strings"
)

// bisectFiles is the state of a bisection.
var bisectFiles = []string{"BISECT_START", "BISECT_LOG", "BISECT_NAMES", "BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "BISECT_FIRST_PARENT", "BISECT_HEAD", "BISECT_RUN", "refs/bisect"}

// bisectUsage is the usage of git bisect.
const bisectUsage = "usage: git bisect [help|start|bad|good|new|old|terms|skip|next|reset|visualize|view|replay|log|run]"

// bisectResult is how a step of a bisection ends.
type bisectResult int

const (
	bisectGoesOn  bisectResult = iota
	bisectFound                // the first bad commit is known
	bisectSkipped              // only skipped commits are left
	bisectBase                 // a merge base must be tested
)

// bisectCommits is git bisect: it finds the commit that introduced a change by halving a range.
func (c *call) bisectCommits() error {
	if len(c.args) == 0 {
		return &failure{1, bisectUsage}
	}
	verb, args := c.args[0], c.args[1:]
	if c.split {
		args = append(append(slices.Clone(args), "--"), c.paths...)
	}
	switch verb {
	case "start":
		return c.startBisect(args)
	case "reset":
		return c.resetBisect(args)
	case "replay":
		return c.replayBisect(args)
	case "help":
		_, _ = fmt.Fprintln(c.p.Out(), bisectUsage) // Flush reports the error
		return nil
	}
	bad, good := c.bisectTerms()
	marks := slices.Contains([]string{"bad", "good", "new", "old", "skip", bad, good}, verb)
	switch {
	case c.hasGitFile("BISECT_START"):
	case verb == "log":
		return newError("We are not bisecting.")
	case verb == "terms":
		return newError("no terms defined")
	case marks || verb == "run" || verb == "next" || verb == "view" || verb == "visualize":
		return &failure{1, "You need to start by \"git bisect start\"\n"}
	}
	switch verb {
	case "log":
		_, _ = fmt.Fprintln(c.p.Out(), c.readGitFile("BISECT_LOG")) // Flush reports the error
		return nil
	case "terms":
		return c.printTerms(args)
	case "view", "visualize":
		return c.viewBisect(args)
	case "run":
		return c.runBisect(args)
	case "next":
		return c.endStep(c.stepBisect())
	}
	if !marks {
		return &failure{129, "error: unknown command: 'git bisect " + verb + "'\n" + bisectUsage}
	}
	return c.endStep(c.markBisect(verb, args))
}

// endStep returns the error of a step that the user asked for.
func (c *call) endStep(result bisectResult, err error) error {
	if err == nil && result == bisectSkipped {
		return &failure{2, ""}
	}
	return err
}

// bisectTerms returns the words for new and old commits.
func (c *call) bisectTerms() (bad, good string) {
	bad, good, _ = strings.Cut(c.readGitFile("BISECT_TERMS"), "\n")
	return orDefault(bad, "bad"), orDefault(good, "good")
}

// printTerms is git bisect terms.
func (c *call) printTerms(args []string) error {
	bad, good := c.bisectTerms()
	if !c.hasGitFile("BISECT_TERMS") {
		return newError("no terms defined")
	}
	text := fmt.Sprintf("Your current terms are %s for the old state\nand %s for the new state.\n", good, bad)
	if len(args) > 0 {
		switch args[0] {
		case "--term-good", "--term-old":
			text = good + "\n"
		case "--term-bad", "--term-new":
			text = bad + "\n"
		default:
			return newError("invalid argument %s for 'git bisect terms'.\nSupported options are: --term-good|--term-old and --term-bad|--term-new.", args[0])
		}
	}
	_, _ = c.p.Out().WriteString(text) // Flush reports the error
	return nil
}

// bisectStart is the arguments of git bisect start.
type bisectStart struct {
	bad, good   string
	revisions   []*commit
	paths       []string
	firstParent bool
}

// parseBisectStart reads the arguments of git bisect start. What is no revision begins the paths.
func (c *call) parseBisectStart(args []string) (o bisectStart, err error) {
	o.bad, o.good = "bad", "good"
	defer func() {
		if err == nil {
			err = checkTerms(o.bad, o.good)
		}
	}()
	split := slices.Contains(args, "--")
	for n := 0; n < len(args); n++ {
		name, value, joined := strings.Cut(args[n], "=")
		term := slices.Contains([]string{"--term-good", "--term-old", "--term-bad", "--term-new"}, name)
		if term && !joined && n+1 < len(args) {
			n++
			value = args[n]
		}
		switch {
		case name == "--term-good" || name == "--term-old":
			o.good = value
		case term:
			o.bad = value
		case args[n] == "--first-parent":
			o.firstParent = true
		case args[n] == "--no-checkout":
			return o, newError("git bisect start --no-checkout is not supported here: use git worktree add and bisect there")
		case args[n] == "--":
			o.paths = args[n+1:]
			return o, nil
		default:
			k, err := c.resolveCommit(args[n])
			if err != nil && (split || strings.HasPrefix(args[n], "--")) {
				return o, newFatal("'%s' does not appear to be a valid revision", args[n])
			}
			if err != nil {
				o.paths = args[n:]
				return o, nil
			}
			o.revisions = append(o.revisions, k)
		}
	}
	return o, nil
}

// checkTerms returns an error for words that can't be used for new and old commits.
func checkTerms(bad, good string) error {
	for _, term := range []string{bad, good} {
		switch {
		case !isRefName(term) || strings.Contains(term, "/"):
			return newError("'%s' is not a valid term", term)
		case slices.Contains([]string{"help", "start", "skip", "next", "reset", "visualize", "view", "replay", "log", "run", "terms"}, term):
			return newError("can't use the builtin command '%s' as a term", term)
		}
	}
	if bad == good {
		return newError("please use two different terms")
	}
	return nil
}

func (c *call) startBisect(args []string) error {
	branch, at := c.readHead()
	o, err := c.parseBisectStart(args)
	if err != nil {
		return err
	}
	if c.hasGitFile("BISECT_START") {
		branch = c.readGitFile("BISECT_START")
		if err := c.with(map[string]string{"-q": ""}, nil).moveTo(branch); err != nil {
			return err
		}
		if err := c.removeGitFiles(bisectFiles...); err != nil {
			return err
		}
	}
	log := ""
	if o.firstParent {
		if err := c.writeGitFile("BISECT_FIRST_PARENT", ""); err != nil {
			return err
		}
	}
	for n, k := range o.revisions {
		kind := o.good
		if n == 0 {
			kind = o.bad
		}
		if err := c.writeRef(c.bisectRef(kind, o.bad, k.id), k.id, ""); err != nil {
			return err
		}
		log += fmt.Sprintf("# %s: [%s] %s\n", kind, k.id, k.subject())
	}
	if o.bad != "bad" || o.good != "good" || len(o.revisions) > 0 {
		if err := c.writeGitFile("BISECT_TERMS", o.bad+"\n"+o.good+"\n"); err != nil {
			return err
		}
	}
	paths := quoteWords(o.paths)
	for _, file := range [][2]string{{"BISECT_START", orDefault(branch, string(at)) + "\n"}, {"BISECT_NAMES", paths + "\n"}, {"BISECT_LOG", log + strings.TrimSpace("git bisect start "+quoteWords(args)) + "\n"}} {
		if err := c.writeGitFile(file[0], file[1]); err != nil {
			return err
		}
	}
	return c.endStep(c.stepBisect())
}

// quoteWords returns words as a shell reads them.
func quoteWords(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, "'"+strings.ReplaceAll(strings.ReplaceAll(word, "'", `'\''`), "!", `'\!'`)+"'")
	}
	return strings.Join(quoted, " ")
}

// bisectPaths returns the paths that limit a bisection.
func (c *call) bisectPaths() ([]string, error) {
	words, err := splitAlias(c.readGitFile("BISECT_NAMES"))
	if err != nil {
		return nil, err
	}
	return c.relativePaths(words)
}

// bisectRef returns the ref that marks a commit.
func (c *call) bisectRef(kind, bad string, i id) string {
	if kind == bad {
		return "refs/bisect/" + bad
	}
	return "refs/bisect/" + kind + "-" + string(i)
}

// logBisect adds a text to the log of a bisection.
func (c *call) logBisect(text string) error {
	return c.writeGitFile("BISECT_LOG", c.readGitFile("BISECT_LOG")+"\n"+text)
}

// markBisect marks commits, HEAD without operands, and goes on.
func (c *call) markBisect(kind string, args []string) (bisectResult, error) {
	bad, good := c.bisectTerms()
	if !c.hasGitFile("BISECT_TERMS") && kind != "skip" {
		if kind == "new" || kind == "old" {
			bad, good = "new", "old"
		}
		if err := c.writeGitFile("BISECT_TERMS", bad+"\n"+good+"\n"); err != nil {
			return 0, err
		}
	}
	if kind != bad && kind != good && kind != "skip" {
		return 0, newError("Invalid command: you're currently in a %s/%s bisect", bad, good)
	}
	if kind == bad && len(args) > 1 {
		return 0, newError("'git bisect %s' can take only one argument.", bad)
	}
	if len(args) == 0 {
		args = []string{"HEAD"}
	}
	list, err := c.listMarked(kind, args)
	if err != nil {
		return 0, err
	}
	for _, k := range list {
		c.p.Tick(1)
		if err := c.writeRef(c.bisectRef(kind, bad, k.id), k.id, ""); err != nil {
			return 0, err
		}
		if err := c.logBisect(fmt.Sprintf("# %s: [%s] %s\ngit bisect %s %s\n", kind, k.id, k.subject(), kind, k.id)); err != nil {
			return 0, err
		}
	}
	return c.stepBisect()
}

// listMarked returns the commits of operands; those of skip may be ranges.
func (c *call) listMarked(kind string, args []string) ([]*commit, error) {
	var list []*commit
	for _, a := range args {
		var s selection
		if kind == "skip" && strings.Contains(a, "..") {
			if ok, err := c.addRange(&s, a); err != nil || !ok {
				return nil, newError("Bad rev input: %s", a)
			}
			err := c.walkRange(s.starts, s.without, func(k *commit) (bool, error) { list = append(list, k); return true, nil })
			if err != nil {
				return nil, err
			}
			continue
		}
		k, err := c.resolveCommit(a)
		if err != nil {
			return nil, newError("Bad rev input: %s", a)
		}
		list = append(list, k)
	}
	return list, nil
}

// readMarks returns the commits that are marked.
func (c *call) readMarks() (bad id, good, skipped []id) {
	badTerm, goodTerm := c.bisectTerms()
	for _, name := range c.listRefs("refs/bisect/") {
		if rest, ok := strings.CutPrefix(name, goodTerm+"-"); ok {
			good = append(good, id(rest))
		} else if rest, ok := strings.CutPrefix(name, "skip-"); ok {
			skipped = append(skipped, id(rest))
		}
	}
	return c.readRef("refs/bisect/" + badTerm), good, skipped
}

// stepBisect checks out the next commit to test, or prints the result.
func (c *call) stepBisect() (bisectResult, error) {
	bad, good, skipped := c.readMarks()
	status := ""
	switch {
	case bad == "" && len(good) == 0:
		status = "waiting for both good and bad commits"
	case bad == "":
		status = fmt.Sprintf("waiting for bad commit, %d good commit%s known", len(good), map[bool]string{false: "s"}[len(good) == 1])
	case len(good) == 0:
		status = "waiting for good commit(s), bad commit known"
	}
	if status != "" {
		_, _ = fmt.Fprintf(c.p.Out(), "status: %s\n", status) // Flush reports the error
		return bisectGoesOn, c.logBisect("# status: " + status + "\n")
	}
	if base, err := c.findUntestedBase(bad, good, skipped); err != nil || base != "" {
		if err != nil {
			return 0, err
		}
		_, _ = fmt.Fprintln(c.p.Out(), "Bisecting: a merge base must be tested") // Flush reports the error
		return bisectBase, c.checkOutTested(base)
	}
	choice, err := c.halve(bad, good, skipped)
	if err != nil {
		return 0, err
	}
	switch {
	case choice.next == "" && len(choice.tried) > 0:
		return bisectSkipped, c.reportSkipped(bad, choice.tried)
	case choice.next == "" || choice.next == bad && len(choice.tried) == 0:
		return bisectFound, c.reportBisect(bad)
	case choice.next == bad:
		return bisectSkipped, c.reportSkipped(bad, choice.tried)
	}
	left, steps := max(choice.all-choice.weight-1, 0), bisectSteps(choice.all)
	_, _ = fmt.Fprintf(c.p.Out(), "Bisecting: %d revision%s left to test after this (roughly %d step%s)\n", left, map[bool]string{false: "s"}[left == 1], steps, map[bool]string{false: "s"}[steps == 1]) // Flush reports the error
	return bisectGoesOn, c.checkOutTested(choice.next)
}

// checkOutTested checks out the commit to test.
func (c *call) checkOutTested(i id) error {
	if err := c.writeGitFile("BISECT_EXPECTED_REV", string(i)+"\n"); err != nil {
		return err
	}
	if err := c.with(map[string]string{"-q": "", "--detach": ""}, nil).moveTo(string(i)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "[%s] %s\n", i, c.subjectOf(i)) // Flush reports the error
	return nil
}

// findUntestedBase returns a merge base that must be tested because a good commit is no ancestor of the bad one, or "".
func (c *call) findUntestedBase(bad id, good, skipped []id) (id, error) {
	if c.hasGitFile("BISECT_ANCESTORS_OK") {
		return "", nil
	}
	badTerm, goodTerm := c.bisectTerms()
	for _, i := range good {
		bases, err := c.findMergeBases(bad, i)
		if err != nil {
			return "", err
		}
		for _, base := range bases {
			switch {
			case slices.Contains(good, base) || slices.Contains(skipped, base):
			case base == bad && badTerm == "bad" && goodTerm == "good":
				return "", &failure{3, fmt.Sprintf("The merge base %s is bad.\nThis means the bug has been fixed between %s and [%s].", base, base, i)}
			case base == bad:
				return "", &failure{3, fmt.Sprintf("The merge base %s is %s.\nThe first '%s' commit is between %s and [%s].", base, badTerm, goodTerm, base, i)}
			default:
				return base, nil
			}
		}
	}
	return "", c.writeGitFile("BISECT_ANCESTORS_OK", "")
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

// reportBisect prints the first bad commit.
func (c *call) reportBisect(bad id) error {
	k, err := c.readCommit(bad)
	if err != nil {
		return err
	}
	term, _ := c.bisectTerms()
	_, _ = fmt.Fprintf(c.p.Out(), "%s is the first %s commit\n", bad, term) // Flush reports the error
	if err := c.logBisect(fmt.Sprintf("# first %s commit: [%s] %s\n", term, bad, k.subject())); err != nil {
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

// reportSkipped prints the commits that may be the first bad one, if only skipped ones are left.
func (c *call) reportSkipped(bad id, tried []id) error {
	term, _ := c.bisectTerms()
	out := c.p.Out()
	_, _ = fmt.Fprintf(out, "There are only 'skip'ped commits left to test.\nThe first %s commit could be any of:\n", term) // Flush reports the error, as of all writes
	for _, i := range tried {
		_, _ = fmt.Fprintln(out, i)
	}
	_, _ = fmt.Fprintf(out, "%s\nWe cannot bisect more!\n", bad)
	log := "# only skipped commits left to test\n"
	_, good, _ := c.readMarks()
	err := c.walkRange([]id{bad}, good, func(k *commit) (bool, error) {
		log += fmt.Sprintf("# possible first %s commit: [%s] %s\n", term, k.id, k.subject())
		return true, nil
	})
	if err != nil {
		return err
	}
	return c.logBisect(log)
}

// resetBisect returns to the branch where the bisection began, or to the commit that is given.
func (c *call) resetBisect(args []string) error {
	start := c.readGitFile("BISECT_START")
	if len(args) > 0 {
		if _, err := c.resolveCommit(args[0]); err != nil {
			return newError("'%s' is not a valid commit", args[0])
		}
		start = args[0]
	} else if start == "" {
		_, _ = fmt.Fprintln(c.p.Out(), "We are not bisecting.") // Flush reports the error
		return nil
	}
	if err := c.with(map[string]string{}, nil).moveTo(start); err != nil {
		return err
	}
	return c.removeGitFiles(bisectFiles...)
}

// viewBisect is git bisect visualize: it lists the commits that are left.
func (c *call) viewBisect(args []string) error {
	bad, good, _ := c.readMarks()
	if bad == "" || len(good) == 0 {
		return &failure{1, "You need to give me at least one good|old and bad|new revision."}
	}
	if len(args) > 0 && args[0] == "log" {
		args = args[1:]
	}
	words := append([]string{string(bad)}, args...)
	for _, i := range good {
		words = append(words, "^"+string(i))
	}
	paths, err := splitAlias(c.readGitFile("BISECT_NAMES"))
	if err != nil {
		return err
	}
	n := c.with(make(map[string]string), nil)
	if err := n.parseArguments("log", subcommands()["log"].options, append(append(words, "--"), paths...)); err != nil {
		return err
	}
	return n.printLog()
}

// replayBisect is git bisect replay: it repeats the commands of a log.
func (c *call) replayBisect(args []string) error {
	if len(args) != 1 {
		return newError("no logfile given")
	}
	b, err := c.p.ReadFile(args[0])
	if err != nil {
		return newError("cannot read file '%s' for replaying", args[0])
	}
	if err := c.resetBisect(nil); err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		c.p.Tick(1)
		words, err := splitAlias(strings.TrimSpace(line))
		if err != nil || len(words) < 2 || words[0] != "git" && words[0] != "git-bisect" {
			continue
		}
		if words[0] == "git" {
			words = words[1:]
		}
		if len(words) < 2 || words[0] != "bisect" && words[0] != "git-bisect" {
			continue
		}
		if err := c.replayLine(words[1], words[2:]); err != nil {
			return err
		}
	}
	return c.endStep(c.stepBisect())
}

// replayLine repeats a command of a log without its output.
func (c *call) replayLine(verb string, args []string) error {
	if verb == "start" {
		return c.startBisect(args)
	}
	bad, good := c.bisectTerms()
	if !slices.Contains([]string{"bad", "good", "new", "old", "skip", bad, good}, verb) {
		return newError("'git bisect %s' can't be replayed", verb)
	}
	for _, a := range args {
		k, err := c.resolveCommit(a)
		if err != nil {
			return newError("Bad rev input: %s", a)
		}
		if err := c.writeRef(c.bisectRef(verb, bad, k.id), k.id, ""); err != nil {
			return err
		}
		if err := c.logBisect(fmt.Sprintf("# %s: [%s] %s\ngit bisect %s %s\n", verb, k.id, k.subject(), verb, k.id)); err != nil {
			return err
		}
	}
	return nil
}
