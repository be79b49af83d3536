// Command start measures the processor time of short calls of atoll beside a Go program that only
// prints a line. $ATOLL names the program; the default is bin/atoll, which `make build` makes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 100, "number of rounds")
	flag.Parse()
	if err := measure(context.Background(), *rounds); err != nil {
		fmt.Fprintf(os.Stderr, "start: %v\n", err)
		os.Exit(1)
	}
}

// measure runs all programs in turns, and prints the median of each and its ratio to the bare one.
func measure(ctx context.Context, rounds int) (err error) {
	dir, err := os.MkdirTemp("", "atoll-bench-start-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bare := filepath.Join(dir, "bare")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bare, "./bench/start/bare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	program := cmp.Or(os.Getenv("ATOLL"), "bin/atoll")
	calls := [][]string{{bare}, {program, "version"}, {program, "run", "--", "true"}, {program, "ls"}}
	used := make([][]time.Duration, len(calls))
	for range rounds + 1 { // the first round unpacks the full program
		for i, args := range calls {
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "ATOLL_HOME="+filepath.Join(dir, "home"))
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w: %s", args, err, out)
			}
			used[i] = append(used[i], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	var least time.Duration
	for i, args := range calls {
		list := used[i][1:]
		slices.Sort(list)
		median := list[len(list)/2]
		if i == 0 {
			least = median
		}
		args[0] = filepath.Base(args[0])
		fmt.Printf("%-20s median %8v  p90 %8v  %5.1f × bare\n", strings.Join(args, " "), median, list[len(list)*9/10], float64(median)/float64(least))
	}
	return nil
}
