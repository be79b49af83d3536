package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

// specFlags are the flags that say what sandbox is wanted.
type specFlags struct {
	name, dir, image, runtime, user string
	env, envFiles, labels, allow    []string
	memory, disk, fileSize          string
	files, pids                     int
	cpus                            float64
	network                         string
	execTimeout                     time.Duration
}

func (f *specFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVarP(&f.name, "name", "n", "", "name of the sandbox")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "environment variable NAME=VALUE, or NAME to take it from here (repeatable)")
	fl.StringArrayVar(&f.envFiles, "env-file", nil, "file of NAME=VALUE lines (repeatable)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label NAME=VALUE (repeatable)")
	fl.StringVar(&f.dir, "dir", "", "working directory inside")
	fl.StringVar(&f.memory, "memory", "", "limit of memory, like 64m")
	fl.StringVar(&f.disk, "disk", "", "limit of all files together, like 100m")
	fl.StringVar(&f.fileSize, "file-size", "", "limit of one file, like 10m")
	fl.IntVar(&f.files, "files", 0, "limit of files and directories")
	fl.IntVar(&f.pids, "pids", 0, "limit of processes at once")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit of processors")
	fl.StringVar(&f.network, "network", "", "none, nat, bridge or open (default none)")
	fl.StringArrayVar(&f.allow, "allow", nil, "host that may be reached: NAME, *.NAME:PORT or a URL prefix (repeatable)")
	fl.DurationVar(&f.execTimeout, "exec-timeout", 0, "limit of each command, like 30s")
	fl.StringVar(&f.image, "image", "", "image of the root file system")
	fl.StringVar(&f.runtime, "runtime", "", "stronger wall of the driver")
	fl.StringVarP(&f.user, "user", "u", "", "user inside")
}

// spec builds the Spec, or names every mistake.
func (f *specFlags) spec() (atoll.Spec, error) {
	s := atoll.Spec{
		Name: f.name, Dir: f.dir, Image: f.image, Runtime: f.runtime, User: f.user,
		Limits:   atoll.Resources{CPU: f.cpus, Files: f.files, PIDs: f.pids},
		Network:  atoll.Network{Mode: atoll.NetworkMode(f.network), Allow: f.allow},
		Timeouts: atoll.Timeouts{Exec: f.execTimeout},
	}
	var err error
	if s.Env, err = environment(f.env, f.envFiles); err != nil {
		return s, err
	}
	for _, l := range f.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return s, fmt.Errorf("%w: --label %q: must be NAME=VALUE", atoll.ErrInvalid, l)
		}
		if s.Labels == nil {
			s.Labels = make(map[string]string)
		}
		s.Labels[k] = v
	}
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"memory", f.memory, &s.Limits.Memory}, {"disk", f.disk, &s.Limits.Disk}, {"file-size", f.fileSize, &s.Limits.FileSize}} {
		if size.text == "" {
			continue
		}
		if *size.to, err = parseSize(size.text); err != nil {
			return s, fmt.Errorf("%w: --%s %q: %w", atoll.ErrInvalid, size.flag, size.text, err)
		}
	}
	return s, nil
}

// environment reads --env and --env-file; what stands in --env wins.
func environment(vars, files []string) ([]string, error) {
	var env []string
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--env-file: %w", err)
		}
		sc := bufio.NewScanner(f)
		for n := 1; sc.Scan(); n++ {
			line := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(sc.Text()), "export "))
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			k, v, ok := strings.Cut(line, "=")
			if !ok || k == "" {
				return nil, finish(fmt.Errorf("%w: --env-file %s line %d: %q is not NAME=VALUE", atoll.ErrInvalid, name, n, line), f)
			}
			env = append(env, k+"="+unquote(v))
		}
		if err := finish(sc.Err(), f); err != nil {
			return nil, fmt.Errorf("--env-file %s: %w", name, err)
		}
	}
	for _, e := range vars {
		if !strings.Contains(e, "=") {
			v, ok := os.LookupEnv(e)
			if !ok {
				return nil, fmt.Errorf("%w: --env %s: it is not set here; write --env %s=VALUE", atoll.ErrInvalid, e, e)
			}
			e += "=" + v
		}
		env = append(env, e)
	}
	return env, nil
}

func unquote(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}

// parseSize reads 1048576, 64k, 100m, 100MB, 1GiB; all units are powers of
// 1024.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bkmgtie ")
	unit := strings.TrimSpace(strings.ToLower(text)[len(digits):])
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || n <= 0 || n*float64(int64(1)<<shift) > 1<<60 {
		return 0, fmt.Errorf("a size is a number above 0 with k, m, g or t, like 64m")
	}
	return int64(n * float64(int64(1)<<shift)), nil
}
