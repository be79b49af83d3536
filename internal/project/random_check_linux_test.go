package project_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/project"
)

// treasure is what a side has that must not be lost.
type treasure struct {
	own     map[string]bool   // commits that its branches, tags, stashes and HEADs name
	files   map[string]string // blobs of the files in its main working tree, by name
	staged  map[string]bool   // blobs in its index
	objects map[string]bool   // everything that its refs and reflogs reach
}

// readTreasure prints the names of commits, a line "=", files, a line "=", staged blobs, a line "=", all reachable objects.
const readTreasure = `{ git rev-parse -q --verify HEAD; git for-each-ref --format='%(objectname)' refs/heads refs/tags; git rev-list -g refs/stash 2>/dev/null; git worktree list --porcelain | sed -n 's/^HEAD //p'; } | sort -u
echo =
git ls-files -c -o --exclude-standard | sort -u | while IFS= read -r f; do if [ -f "$f" ]; then echo "$(git hash-object --no-filters "$f") $f"; fi; done
echo =
git ls-files -s | cut -d' ' -f2
echo =
git rev-list --all --reflog --objects 2>/dev/null | cut -d' ' -f1`

func (m *machine) readTreasure(s *workSide) treasure {
	out := s.must(m.t, "set +e; "+readTreasure)
	parts := strings.Split("\n"+out, "\n=\n")
	if len(parts) != 4 {
		m.t.Fatalf("%s: %q", s.name, out)
	}
	set := func(text string) map[string]bool {
		all := make(map[string]bool)
		for line := range strings.FieldsSeq(text) {
			all[line] = true
		}
		return all
	}
	w := treasure{own: set(parts[0]), staged: set(parts[2]), objects: set(parts[3]), files: make(map[string]string)}
	for line := range strings.Lines(parts[1]) {
		if blob, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			w.files[name] = blob
		}
	}
	return w
}

// guard runs an operation of atoll, and checks that nothing was lost: commits are still reachable on their side, or saved on the
// host; files and staged versions are in their place, or reachable on one of the sides.
func (m *machine) guard(name string, run func()) {
	before := []treasure{m.readTreasure(&m.host), m.readTreasure(&m.inside)}
	run()
	after := []treasure{m.readTreasure(&m.host), m.readTreasure(&m.inside)}
	reachable := maps.Clone(after[0].objects)
	maps.Copy(reachable, after[1].objects)
	for i, side := range []*workSide{&m.host, &m.inside} {
		for commit := range before[i].own {
			if !after[i].objects[commit] && (i == 0 || !after[0].objects[commit]) {
				m.t.Fatalf("%s: commit %s of the %s was lost", name, commit, side.name)
			}
		}
		for file, blob := range before[i].files {
			if after[i].files[file] != blob && !reachable[blob] {
				m.t.Fatalf("%s: file %s of the %s was lost, and its content %s is nowhere", name, file, side.name, blob)
			}
		}
		for blob := range before[i].staged {
			if !after[i].staged[blob] && !reachable[blob] && !slices.Contains(slices.Collect(maps.Values(after[i].files)), blob) {
				m.t.Fatalf("%s: the staged version %s of the %s was lost", name, blob, side.name)
			}
		}
	}
}

// checkLedger compares the ledger, as 'atoll status' prints it, with git's own answers in a repository that has the refs of both sides.
func (m *machine) checkLedger() {
	f := m.options()
	f.DryRun = true
	got, err := m.repo.Sync(m.ctx, m.sb, f)
	m.unexpected("status", err, project.ErrNoNewWork, project.ErrDirty, project.ErrDetached, project.ErrDiverged)
	if got == nil {
		m.t.Fatalf("status: %v", err)
	}
	l, err := m.repo.ReadLedger(m.ctx, "box", got)
	if err != nil {
		m.t.Fatalf("ledger: %v", err)
	}
	o := m.buildOracle()
	if want := strings.TrimSpace(o.must(m.t, "git rev-list --count $(git for-each-ref --format='%(objectname)' refs/in refs/detached) --not --glob=refs/host/heads --glob=refs/host/tags refs/host/HEAD")); want != fmt.Sprint(l.Commits) {
		m.t.Fatalf("the ledger has %d pending commits, git %s: %+v", l.Commits, want, l.Branches)
	}
	inside := strings.Fields(o.must(m.t, "git for-each-ref --format='%(refname:lstrip=2)' refs/in"))
	host := strings.Fields(o.must(m.t, "git for-each-ref --format='%(refname:lstrip=3)' refs/host/heads"))
	if branch := strings.TrimSpace(m.inside.must(m.t, "git branch --show-current")); branch != l.Branch {
		m.t.Fatalf("the ledger has branch %q, git %q", l.Branch, branch)
	}
	for _, b := range l.Branches {
		if strings.HasPrefix(b.Name, "head/") {
			continue
		}
		if (b.Sandbox != "") != slices.Contains(inside, b.Name) || (b.Host != "") != slices.Contains(host, b.Name) {
			m.t.Fatalf("branch %+v; inside: %q, on the host: %q", b, inside, host)
		}
		m.compareBranch(o, b)
	}
	for _, name := range append(inside, host...) {
		if !slices.ContainsFunc(l.Branches, func(b project.BranchState) bool { return b.Name == name }) {
			m.t.Fatalf("the ledger has no branch %s", name)
		}
	}
	// Several working trees can be on one branch.
	dirty := m.inside.must(m.t, "b=$(git branch --show-current); git worktree list --porcelain | sed -n 's/^worktree //p' | while read -r d; do if [ -d $d ] && [ \"$(git -C $d branch --show-current)\" = \"$b\" ]; then git -C $d status --porcelain; fi; done")
	for _, b := range l.Branches {
		if b.Name == l.Branch && b.SandboxDirty != (dirty != "") {
			m.t.Fatalf("branch %+v; git status inside: %q", b, dirty)
		}
		if b.HostTree == m.dir && b.HostDirty != (m.host.must(m.t, "git status --porcelain") != "") {
			m.t.Fatalf("branch %+v; git status on the host differs", b)
		}
	}
}

// compareBranch compares one branch with git's answers.
func (m *machine) compareBranch(o *workSide, b project.BranchState) {
	if b.Sandbox == "" {
		return
	}
	tip := strings.TrimSpace(o.must(m.t, "git rev-parse refs/in/"+b.Name))
	home := strings.TrimSpace(o.must(m.t, "git rev-list --count "+tip+" --not --glob=refs/host/heads --glob=refs/host/tags refs/host/HEAD")) == "0"
	if tip != b.Sandbox || home != b.Home {
		m.t.Fatalf("branch %+v; git has %s, home: %v", b, tip, home)
	}
	if b.Host == "" {
		return
	}
	var ahead, behind int
	out := o.must(m.t, "git rev-list --count --left-right refs/in/"+b.Name+"...refs/host/heads/"+b.Name)
	if _, err := fmt.Sscan(out, &ahead, &behind); err != nil || ahead != b.Ahead || behind != b.Behind {
		m.t.Fatalf("branch %+v; git counts %q", b, out)
	}
	want := map[[2]bool]project.Relation{{false, false}: project.Equal, {true, false}: project.Ahead, {false, true}: project.Behind, {true, true}: project.Diverged}
	if r := want[[2]bool{ahead > 0, behind > 0}]; r != b.Relation {
		m.t.Fatalf("branch %+v; git says %s", b, r)
	}
}

// buildOracle makes a repository with the refs of both sides: refs/host/… and refs/in/BRANCH, refs/detached/….
func (m *machine) buildOracle() *workSide {
	if err := errors.Join(os.RemoveAll(m.oracle), os.Mkdir(m.oracle, 0o755)); err != nil {
		m.t.Fatal(err)
	}
	bundle := m.inside.must(m.t, "n=0; for c in $(git worktree list --porcelain | sed -n 's/^HEAD //p'); do n=$((n+1)); git update-ref refs/tmp/$n $c; done; git bundle create -q - --all | base64 -w0; for r in $(git for-each-ref --format='%(refname)' refs/tmp); do git update-ref -d $r; done")
	if err := os.WriteFile(m.oracle+"/bundle.64", []byte(bundle), 0o600); err != nil {
		m.t.Fatal(err)
	}
	o := m.host
	run := m.host.run
	o.name, o.run = "oracle", func(text string) (string, error) { return run("cd " + m.oracle + "; " + text) }
	o.must(m.t, "git init -q; base64 -d bundle.64 >bundle; git fetch -q bundle '+refs/heads/*:refs/in/*' '+refs/tmp/*:refs/detached/*'; git fetch -q "+m.dir+" '+refs/heads/*:refs/host/heads/*' '+refs/tags/*:refs/host/tags/*' +HEAD:refs/host/HEAD")
	return &o
}
