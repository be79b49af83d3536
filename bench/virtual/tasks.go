package main

import (
	"fmt"
	"strings"
)

// task is a script that every engine runs. The time to start the engine is not
// measured.
type task struct {
	Name   string `json:"name"`
	Script string `json:"script"`
	Log    int    `json:"log,omitempty"` // size in bytes of the log at /tmp/bench/log
	Runs   int    `json:"runs"`
}

func allTasks() []task {
	list := []task{
		{Name: "echo hi", Script: "echo hi", Runs: 50},
		{Name: "for ((i<100000)) :", Script: "for ((i=0;i<100000;i++)); do :; done", Runs: 5},
		{Name: "while [ ] 100000", Script: "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i", Runs: 3},
		{Name: "while (( )) 100000", Script: "i=0; while ((i<100000)); do ((i++)); done; echo $i", Runs: 3},
		{Name: "20000 function calls", Script: "f() { local x=$1; r=$((r+x)); }; r=0; for ((i=0;i<20000;i++)); do f $i; done; echo $r", Runs: 3},
		{Name: "20000 array appends", Script: "a=(); for ((i=0;i<20000;i++)); do a+=($i); done; s=0; for x in \"${a[@]}\"; do ((s+=x)); done; echo $s", Runs: 2},
		{Name: "2000 $(echo)", Script: "for ((i=0;i<2000;i++)); do x=$(echo $i); done; echo $x", Runs: 3},
		{Name: "1000 echo | cat", Script: "for ((i=0;i<1000;i++)); do echo $i | cat >/dev/null; done; echo done", Runs: 2},
		{Name: "read 20000 lines", Script: "seq 20000 > /tmp/bench/n; n=0; while read -r l; do n=$((n+1)); done < /tmp/bench/n; echo $n", Runs: 2},
		{Name: "50 commands on 1 MB", Script: fiftyCommands(), Log: 1 << 20, Runs: 3},
	}
	const ten = 10 << 20
	for _, c := range [][2]string{
		{"grep -c 10 MB", "grep -c ERROR /tmp/bench/log"},
		{"grep -cE 10 MB", "grep -cE '[0-9]{3} (GET|POST) .*user=[a-z]+9' /tmp/bench/log"},
		{"sort 10 MB", "sort /tmp/bench/log | tail -n 1"},
		{"sed 10 MB", "sed 's/user=\\([a-z]*\\)/name=<\\1>/' /tmp/bench/log | tail -n 1"},
		{"awk 10 MB", "awk '{ n[$3]++ } END { for (k in n) print k, n[k] }' /tmp/bench/log | sort"},
		{"cut sort uniq 10 MB", "cut -d' ' -f4 /tmp/bench/log | sort | uniq -c | sort -rn | head -n 3"},
		{"wc 10 MB", "wc /tmp/bench/log | awk '{print $1}'"},
		{"tr 10 MB", "tr a-z A-Z < /tmp/bench/log | tail -n 1"},
	} {
		list = append(list, task{Name: c[0], Script: c[1], Log: ten, Runs: 2})
	}
	return list
}

// fiftyCommands returns a script of fifty commands that are typical for
// inspecting a log.
func fiftyCommands() string {
	lines := []string{
		"grep -c ERROR $L", "grep -c WARN $L", "cut -d' ' -f3 $L | sort | uniq -c", "awk '{print $4}' $L | sort -u | wc -l", "head -n 100 $L | tail -n 5",
		"sed -n '100,110p' $L", "tr -s ' ' < $L | cut -c1-20 | sort | uniq -c | sort -rn | head -n 2", "wc -l < $L", "grep -n user=alice9 $L | head -n 3",
		"sed 's/ERROR/error/' $L | grep -c error",
	}
	var b strings.Builder
	b.WriteString("L=/tmp/bench/log\n")
	for i := range 50 {
		fmt.Fprintf(&b, "%s\n", lines[i%len(lines)])
	}
	return b.String()
}

// logText returns a log of about n bytes, the same for every call.
func logText(n int) string {
	levels := []string{"INFO", "INFO", "INFO", "WARN", "DEBUG", "ERROR"}
	users := []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace"}
	var b strings.Builder
	b.Grow(n + 100)
	x := uint32(1)
	for i := 0; b.Len() < n; i++ {
		x = x*1664525 + 1013904223
		fmt.Fprintf(&b, "2026-01-%02d 12:%02d:%02d %s /path/%d %d %s id=%d user=%s%d\n", 1+i%28, i/60%60, i%60, levels[(x>>16)%6], (x>>20)%97,
			[]int{200, 201, 404, 500}[x>>8&3], []string{"GET", "POST"}[x>>12&1], i, users[(x>>24)%7], x>>28)
	}
	return b.String()
}
