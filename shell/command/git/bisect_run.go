package git

import (
	"cmp"
	"fmt"
	"slices"
)

// runBisect is git bisect run: it tests commits by a command until the first bad one is known.
func (c *call) runBisect(words []string) error {
	bad, good := c.bisectTerms()
	at, tested, _ := c.readMarks()
	if at == "" || len(tested) == 0 {
		return &failure{1, "You need to give me at least one good|old and bad|new revision."}
	}
	if len(words) == 0 {
		return newError("bisect run failed: no command provided.")
	}
	command := quoteWords(words)
	for first := true; ; first = false {
		_, _ = fmt.Fprintf(c.p.Out(), "running  %s\n", command) // Flush reports the error, as of all writes
		code, err := c.runShell(command)
		if err != nil {
			return err
		}
		if first && (code == 126 || code == 127) {
			if err := c.checkGoodCode(command, tested[0], code); err != nil {
				return err
			}
		}
		if code >= 128 {
			return &failure{256 - code, fmt.Sprintf("error: bisect run failed: exit code %d from  %s is < 0 or >= 128", code, command)}
		}
		kind := bad
		switch code {
		case 0:
			kind = good
		case 125:
			kind = "skip"
		}
		result, err := c.markBisect(kind, nil)
		switch {
		case err != nil:
			return err
		case result == bisectSkipped:
			return &failure{2, "error: bisect run cannot continue any more"}
		case result == bisectFound:
			_, _ = c.p.Out().WriteString("bisect found first bad commit")
			return nil
		}
	}
}

// checkGoodCode returns an error if a command that could not be run fails on a good commit, too.
func (c *call) checkGoodCode(command string, good id, code int) error {
	_, at := c.readHead()
	move := func(to id) error {
		err := c.with(map[string]string{"-q": "", "--detach": ""}, nil).moveTo(string(to))
		_, _ = fmt.Fprintf(c.p.Out(), "[%s] %s\n", to, c.subjectOf(to)) // Flush reports the error, as of all writes
		return err
	}
	if err := move(good); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "running  %s\n", command)
	again, err := c.runShell(command)
	if err != nil {
		return err
	}
	if err := move(at); err != nil {
		return err
	}
	if again == code {
		return &failure{1, fmt.Sprintf("error: bogus exit code %d for good revision", code)}
	}
	return nil
}

// bisectChoice is the commit to test next.
type bisectChoice struct {
	next   id
	weight int // how many candidates it has as ancestors, itself included
	all    int // the number of candidates
	tried  []id
}

// bisectCandidate is a commit that may be the first bad one.
type bisectCandidate struct {
	k      *commit
	weight int
}

// halve returns the commit that divides the candidates best.
func (c *call) halve(bad id, good, skipped []id) (bisectChoice, error) {
	list, half, err := c.weighCandidates(bad, good)
	if err != nil || len(list) == 0 {
		return bisectChoice{}, err
	}
	all := len(list)
	distance := func(e bisectCandidate) int { return min(e.weight, all-e.weight) }
	if len(skipped) == 0 {
		best := list[0]
		for _, e := range list {
			if distance(e) > distance(best) {
				best = e
			}
		}
		if half >= 0 {
			best = list[half]
		}
		return bisectChoice{next: best.k.id, weight: best.weight, all: all}, nil
	}
	slices.SortStableFunc(list, func(a, b bisectCandidate) int {
		return cmp.Or(cmp.Compare(distance(b), distance(a)), cmp.Compare(a.k.id, b.k.id))
	})
	var tried []id
	var left []bisectCandidate
	for _, e := range list {
		if slices.Contains(skipped, e.k.id) {
			tried = append(tried, e.k.id)
		} else {
			left = append(left, e)
		}
	}
	if len(left) == 0 {
		return bisectChoice{tried: tried, all: all}, nil
	}
	next := left[0]
	if slices.Contains(skipped, list[0].k.id) {
		next = left[skipDistance(left, bad)]
	}
	return bisectChoice{next: next.k.id, weight: list[0].weight, all: all, tried: tried}, nil
}

// skipDistance returns which candidate to test if the best one was skipped: one at some distance from it.
func skipDistance(list []bisectCandidate, bad id) int {
	const modulus = 32768
	count := len(list)
	random := int(uint32(count)*1103515245+12345) / 65536 % modulus
	at := count * random / modulus * rootOf(random) / rootOf(modulus)
	if at = min(at, count-1); list[at].k.id == bad && at > 0 {
		at--
	} else if list[at].k.id == bad {
		at = 0
	}
	return at
}

// rootOf returns the square root of a number as an integer.
func rootOf(n int) int {
	root := 0
	for (root+1)*(root+1) <= n {
		root++
	}
	return root
}

// weighCandidates returns the commits that may be the first bad one, the oldest first, with their weights, and which of
// them was the first whose weight is half of their number, -1 if there is none.
func (c *call) weighCandidates(bad id, good []id) (found []bisectCandidate, half int, err error) {
	paths, err := c.bisectPaths()
	if err != nil {
		return nil, 0, err
	}
	var list []*commit
	touching := make(map[id]bool)
	count := 0
	l := &logRun{call: c, selection: selection{within: paths}}
	err = c.walkRange([]id{bad}, good, func(k *commit) (bool, error) {
		c.p.Alloc(160)
		shown, _, err := l.simplify(k, k.parents)
		if touching[k.id] = shown; shown {
			count++
		}
		list = append(list, k)
		return true, err
	})
	if err != nil {
		return nil, 0, err
	}
	slices.Reverse(list)
	weights, first, err := c.weighAll(list, touching, count)
	if err != nil {
		return nil, 0, err
	}
	half = -1
	for _, k := range list {
		if !touching[k.id] {
			continue
		}
		if k.id == first {
			half = len(found)
		}
		found = append(found, bisectCandidate{k, weights[k.id]})
	}
	return found, half, nil
}

// weighAll returns how many of the touching commits each commit of a list has as ancestors, itself included, and the first
// one that was found to have half of them: merges are looked at before others.
func (c *call) weighAll(list []*commit, touching map[id]bool, count int) (weights map[id]int, half id, err error) {
	onlyFirst := c.hasGitFile("BISECT_FIRST_PARENT")
	inside := func(k *commit) []id {
		parents := k.parents
		if onlyFirst {
			parents = parents[:min(1, len(parents))]
		}
		return slices.DeleteFunc(slices.Clone(parents), func(i id) bool { _, ok := touching[i]; return !ok })
	}
	own := func(k *commit) int {
		if touching[k.id] {
			return 1
		}
		return 0
	}
	weights = make(map[id]int, len(list))
	weigh := func(k *commit, weight int) {
		weights[k.id] = weight
		if d := 2*weight - count; half == "" && touching[k.id] && d >= -1 && d <= 1 {
			half = k.id
		}
	}
	for _, k := range list {
		switch parents := inside(k); {
		case len(parents) == 0:
			weights[k.id] = own(k)
		case len(parents) > 1:
			weight := 0
			err := c.walkSelected([]id{k.id}, nil, func(at *commit) ([]id, bool, error) {
				weight += own(at)
				return inside(at), true, nil
			})
			if err != nil {
				return nil, "", err
			}
			weigh(k, weight)
		}
	}
	for left := true; left; {
		left = false
		for _, k := range list {
			c.p.Tick(1)
			if _, done := weights[k.id]; done {
				continue
			}
			weight, known := weights[inside(k)[0]]
			if !known {
				left = true
				continue
			}
			weigh(k, weight+own(k))
		}
	}
	return weights, half, nil
}
