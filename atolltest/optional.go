package atolltest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var optionalLaws = []law{
	{"SessionKeepsState", sessionKeepsState},
	{"SnapshotRestoreIsExact", snapshotRestoreIsExact},
	{"SnapshotNames", snapshotNames},
	{"ForkIsIndependent", forkIsIndependent},
	{"StopKeepsFiles", stopKeepsFiles},
	{"StopKeepsRoot", stopKeepsRoot},
	{"PauseFreezes", pauseFreezes},
	{"PausedEnds", pausedEnds},
	{"PausedDeadline", pausedDeadline},
	{"StatsCount", statsCount},
	{"HistoryRemembers", historyRemembers},
}

func (e *env) execute(sb atoll.Sandbox, text string) atoll.Result {
	e.Helper()
	r, err := atoll.Execute(e.ctx(), sb, text)
	if err != nil {
		e.Fatalf("Execute %s: %v", text, err)
	}
	return r
}

func sessionKeepsState(e *env) {
	sb := e.sandbox()
	if !e.features.Session {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "true", Session: true})
		e.want(err, atoll.ErrUnsupported, "a session")
		eq(e, "Execute works without", e.execute(sb, "echo hi").Stdout, "hi\n")
		return
	}
	e.execute(sb, "mkdir -p /tmp/s; cd /tmp/s; X='a  b'; export Y=2; f() { echo \"f $1\"; }; set -u")
	eq(e, "state", e.execute(sb, `pwd; echo "$X"; f 3; sh -c 'echo $Y'`).Stdout, "/tmp/s\na  b\nf 3\n2\n")
	r := e.execute(sb, "cd /; exit 3; echo not")
	eq(e, "exit status", r.ExitCode, 3)
	eq(e, "Success", r.Success, false)
	eq(e, "Command", r.Command, "cd /; exit 3; echo not")
	eq(e, "the session lives on", e.execute(sb, "pwd").Stdout, "/\n")
	eq(e, "other commands are not of the session", e.sh(sb, `echo "${X-unset}"`), "unset\n")
	_, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "cd /tmp; Z=1; while :; do :; done", Session: true, Timeout: 200 * time.Millisecond})
	e.want(err, atoll.ErrTimeout, "a session's command past its deadline")
	eq(e, "after a deadline", e.execute(sb, `echo "$X"`).Stdout, "a  b\n")
}

func snapshotRestoreIsExact(e *env) {
	sb := e.sandbox()
	if !e.features.Snapshot {
		_, err := atoll.Snapshot(e.ctx(), sb, "x")
		e.want(err, atoll.ErrUnsupported, "Snapshot")
		return
	}
	e.execute(sb, "mkdir -p /tmp/s/d; echo one > /tmp/s/a; echo two > /tmp/s/d/b; ln -s a /tmp/s/l; chmod 640 /tmp/s/a; cd /tmp/s; V=before")
	info, err := atoll.Snapshot(e.ctx(), sb, "point")
	if err != nil {
		e.Fatalf("Snapshot: %v", err)
	}
	eq(e, "Name", info.Name, "point")
	eq(e, "Sandbox", info.Sandbox, sb.ID())
	e.execute(sb, "echo changed > /tmp/s/a; rm -r /tmp/s/d; echo new > /tmp/s/new; cd /; V=after; W=added; chmod 600 /tmp/s/a")
	if err := atoll.Restore(e.ctx(), sb, "point"); err != nil {
		e.Fatalf("Restore: %v", err)
	}
	eq(e, "files", e.sh(sb, "cd /tmp/s; cat a d/b l; ls; ls -l a | cut -c1-10"), "one\ntwo\none\na\nd\nl\n-rw-r-----\n")
	if e.features.Session {
		eq(e, "session", e.execute(sb, `pwd; echo "$V ${W-unset}"`).Stdout, "/tmp/s\nbefore unset\n")
	}
	if err := atoll.Restore(e.ctx(), sb, info.ID); err != nil {
		e.Errorf("Restore by id, a second time: %v", err)
	}
	e.want(atoll.Restore(e.ctx(), sb, "no-such-snapshot"), atoll.ErrNotFound, "Restore of what is not there")
}

func snapshotNames(e *env) {
	if !e.features.Snapshot {
		return // SnapshotRestoreIsExact has seen the refusal
	}
	sb := e.sandbox()
	for _, name := range []string{"one", "two", ""} {
		if _, err := atoll.Snapshot(e.ctx(), sb, name); err != nil {
			e.Fatalf("Snapshot %q: %v", name, err)
		}
	}
	_, err := atoll.Snapshot(e.ctx(), sb, "one")
	e.want(err, atoll.ErrExists, "a name that is taken")
	_, err = atoll.Snapshot(e.ctx(), sb, "Not A Name")
	e.want(err, atoll.ErrInvalid, "a bad name")
	list, err := atoll.Snapshots(e.ctx(), sb)
	if err != nil {
		e.Fatalf("Snapshots: %v", err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	eq(e, "names, oldest first", strings.Join(names, ","), "one,two,")
	if err := atoll.RemoveSnapshot(e.ctx(), sb, "one"); err != nil {
		e.Errorf("RemoveSnapshot: %v", err)
	}
	e.want(atoll.RemoveSnapshot(e.ctx(), sb, "one"), atoll.ErrNotFound, "RemoveSnapshot twice")
	e.want(atoll.Restore(e.ctx(), sb, "one"), atoll.ErrNotFound, "Restore of what was removed")
}

func forkIsIndependent(e *env) {
	if !e.features.Fork {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	e.execute(sb, "mkdir -p /tmp/f; cd /tmp/f; echo one > a; V=1")
	spec := e.spec()
	spec.Name = "forked"
	fork, err := atoll.Fork(e.ctx(), sb, "", spec)
	if err != nil {
		e.Fatalf("Fork: %v", err)
	}
	defer func() {
		if err := fork.Destroy(e.ctx()); err != nil {
			e.Errorf("Destroy of the fork: %v", err)
		}
	}()
	if fork.ID() == sb.ID() {
		e.Error("the fork has the same ID")
	}
	e.execute(sb, "echo of-the-first > /tmp/f/a")
	e.execute(fork, "echo of-the-fork > /tmp/f/b")
	eq(e, "the fork's files", e.sh(fork, "cat /tmp/f/a /tmp/f/b"), "one\nof-the-fork\n")
	eq(e, "the first's files", e.sh(sb, "cat /tmp/f/a; ls /tmp/f"), "of-the-first\na\n")
	if e.features.Session {
		eq(e, "the fork's session", e.execute(fork, `pwd; echo "$V"`).Stdout, "/tmp/f\n1\n")
	}
	s, err := fork.Status(e.ctx())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	eq(e, "name", s.Name, "forked")
	if err := sb.Destroy(e.ctx()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	eq(e, "the fork outlives the first", e.sh(fork, "cat /tmp/f/a"), "one\n")
	_, err = atoll.Fork(e.ctx(), fork, "no-such-snapshot", e.spec())
	e.want(err, atoll.ErrNotFound, "Fork of a snapshot that is not there")
}

func stopKeepsFiles(e *env) {
	if !e.features.Stop {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	e.sh(sb, "mkdir kept; echo kept > kept/file; chmod 640 kept/file; ln -s file kept/link")
	for range 2 {
		if err := atoll.Stop(e.ctx(), sb); err != nil {
			e.Fatalf("Stop: %v", err)
		}
	}
	s, err := sb.Status(e.ctx())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	eq(e, "State", s.State, atoll.Stopped)
	eq(e, "Ready", s.Ready(), false)
	_, err = sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}})
	e.want(err, atoll.ErrState, "Exec in a stopped sandbox")
	for range 2 {
		if err := atoll.Start(e.ctx(), sb); err != nil {
			e.Fatalf("Start: %v", err)
		}
	}
	eq(e, "the file", e.sh(sb, "cat kept/link; ls -l kept/file | cut -c1-10"), "kept\n-rw-r-----\n")
}

// stopKeepsRoot looks at files outside of the working directory.
func stopKeepsRoot(e *env) {
	if !e.features.Stop {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	e.sh(sb, "echo kept > /tmp/kept")
	if err := atoll.Stop(e.ctx(), sb); err != nil {
		e.Fatalf("Stop: %v", err)
	}
	if err := atoll.Start(e.ctx(), sb); err != nil {
		e.Fatalf("Start: %v", err)
	}
	eq(e, "the file", e.sh(sb, "cat /tmp/kept"), "kept\n")
}

func pauseFreezes(e *env) {
	if !e.features.Pause {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	busy := e.start(sb, atoll.Cmd{Shell: "echo ready; i=0; while [ ! -e /tmp/go ]; do i=$((i+1)); done"})
	busy.shows("ready")
	r := e.start(sb, atoll.Cmd{Shell: "echo ready; while [ ! -e /tmp/go ]; do echo x >> /tmp/beat; sleep 0.04; done"})
	r.shows("ready")
	for range 2 {
		if err := atoll.Pause(e.ctx(), sb); err != nil {
			e.Fatalf("Pause: %v", err)
		}
	}
	s, err := sb.Status(e.ctx())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	eq(e, "State", s.State, atoll.Paused)
	eq(e, "Ready", s.Ready(), false)
	_, err = sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}})
	e.want(err, atoll.ErrState, "Exec in a paused sandbox")
	before := e.beats(sb)
	select {
	case <-r.done:
		e.Errorf("a command ended in a paused sandbox: %v", r.err)
	case <-time.After(400 * time.Millisecond): // many beats
	}
	eq(e, "beats of a heart that stands still", e.beats(sb), before)
	for range 2 {
		if err := atoll.Resume(e.ctx(), sb); err != nil {
			e.Fatalf("Resume: %v", err)
		}
	}
	e.soon("a heart that goes on", func() {
		for e.beats(sb) == before {
			time.Sleep(20 * millisecond) // a file inside
		}
	})
	e.sh(sb, "touch /tmp/go")
	eq(e, "exit status after Resume", r.ends().Code, 0)
	eq(e, "exit status of what was busy", busy.ends().Code, 0)
}

// beats returns how often the heart has beaten.
func (e *env) beats(sb atoll.Sandbox) int {
	e.Helper()
	b, err := atoll.ReadFile(e.ctx(), sb, "/tmp/beat")
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		e.Fatalf("reading the heart-beat file: %v", err)
	}
	return strings.Count(string(b), "x")
}

func pausedEnds(e *env) {
	if !e.features.Pause {
		return // FeaturesAreTrue has seen the refusal
	}
	for _, end := range []struct {
		what string
		f    func(sb atoll.Sandbox) error
	}{
		{"Destroy", func(sb atoll.Sandbox) error { return sb.Destroy(e.ctx()) }},
		{"Stop", func(sb atoll.Sandbox) error { return atoll.Stop(e.ctx(), sb) }},
	} {
		if end.what == "Stop" && !e.features.Stop {
			continue
		}
		sb := e.sandbox()
		r := e.start(sb, atoll.Cmd{Shell: "echo ready; while :; do sleep 0.01; done"})
		r.shows("ready")
		busy := e.start(sb, atoll.Cmd{Shell: "echo ready; while :; do :; done"})
		busy.shows("ready")
		if err := atoll.Pause(e.ctx(), sb); err != nil {
			e.Fatalf("Pause: %v", err)
		}
		e.soon(end.what+" of a paused sandbox", func() {
			if err := end.f(sb); err != nil {
				e.Errorf("%s: %v", end.what, err)
			}
			<-r.done
			<-busy.done
		})
		if r.err == nil || busy.err == nil {
			e.Errorf("commands of a paused sandbox survived %s", end.what)
		}
		if end.what == "Stop" {
			if err := atoll.Start(e.ctx(), sb); err != nil {
				e.Errorf("Start: %v", err)
			}
			eq(e, "after Start", e.sh(sb, "echo works"), "works\n")
		}
	}
}

func pausedDeadline(e *env) {
	if !e.features.Pause {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	r := e.start(sb, atoll.Cmd{Shell: "echo ready; while :; do :; done", Timeout: 2 * time.Second})
	e.soon("a command that begins, or its deadline", func() {
		select {
		case <-r.out.news: // it is busy
		case <-r.done: // too busy a machine: it never began
		}
	})
	if err := atoll.Pause(e.ctx(), sb); err != nil {
		e.Fatalf("Pause: %v", err)
	}
	e.soon("a deadline in a paused sandbox", func() { <-r.done })
	e.want(r.err, atoll.ErrTimeout, "Exec")
	if err := atoll.Resume(e.ctx(), sb); err != nil {
		e.Fatalf("Resume: %v", err)
	}
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

func statsCount(e *env) {
	if !e.features.Stats {
		return // FeaturesAreTrue has seen that there is none
	}
	sb := e.sandbox()
	before, err := atoll.StatsOf(e.ctx(), sb)
	if err != nil {
		e.Fatalf("StatsOf: %v", err)
	}
	e.sh(sb, "mkdir /tmp/st; head -c 100000 /dev/zero > /tmp/st/zeros")
	after, err := atoll.StatsOf(e.ctx(), sb)
	if err != nil {
		e.Fatalf("StatsOf: %v", err)
	}
	eq(e, "ID", after.ID, sb.ID())
	if d := after.DiskUsed - before.DiskUsed; d < 100_000 || d > 1_000_000 {
		e.Errorf("a file of 100,000 bytes counts as %d", d)
	}
	eq(e, "more files", after.Files-before.Files, 2)
	eq(e, "more commands", after.Commands-before.Commands, 1)
}

func historyRemembers(e *env) {
	if !e.features.History {
		return // FeaturesAreTrue has seen that there is none
	}
	sb := e.sandbox()
	e.execute(sb, "echo first")
	e.execute(sb, "echo second >&2; exit 2")
	list, err := atoll.History(e.ctx(), sb)
	if err != nil {
		e.Fatalf("History: %v", err)
	}
	if len(list) < 2 {
		e.Fatalf("history has %d entries", len(list))
	}
	list = list[len(list)-2:]
	got := fmt.Sprintf("%s|%s|%d %s|%s|%d", list[0].Command, list[0].Stdout, list[0].ExitCode, list[1].Command, list[1].Stderr, list[1].ExitCode)
	eq(e, "the last two", got, "echo first|first\n|0 echo second >&2; exit 2|second\n|2")
}
