package atoll

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// Check reports every mistake in the spec at once, as an error that matches ErrInvalid.
// Drivers call it first.
func (s *Spec) Check() error {
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, newFieldError(field, format, a...)) }
	if s.Name != "" {
		if err := validateName(s.Name); err != nil {
			bad("name", "name: %w", err)
		}
	}
	if s.ID != "" {
		if err := validateID(s.ID); err != nil {
			bad("id", "id: %w", err)
		}
	}
	if s.Dir != "" && !strings.HasPrefix(s.Dir, "/") {
		bad("dir", "dir %q: must be absolute", s.Dir)
	}
	errs = append(errs, checkEnv(s.Env)...)
	for k := range s.Labels {
		if k == "" || strings.ContainsAny(k, "=\x00\n") {
			bad("labels", "label %q: the name must not be empty or hold '=' or a newline", k)
		}
	}
	switch s.Network.Mode {
	case "", NetworkNone, NetworkNAT, NetworkBridge, NetworkOpen:
	default:
		bad("network.mode", "network mode %q: must be none, nat, bridge or open", s.Network.Mode)
	}
	errs = append(errs, checkNetworkRules(&s.Network)...)
	if s.VM != nil {
		errs = append(errs, s.VM.check()...)
	}
	errs = append(errs, checkMounts(s.Mounts)...)
	errs = append(errs, checkResources("limits", s.Limits)...)
	errs = append(errs, checkResources("requests", s.Requests)...)
	errs = append(errs, checkRequests(s.Requests, s.Limits)...)
	errs = append(errs, checkDurations(map[string]time.Duration{
		"timeouts.create": s.Timeouts.Create, "timeouts.exec": s.Timeouts.Exec, "timeouts.transfer": s.Timeouts.Transfer,
	})...)
	return joinInvalid(errs)
}

// checkNetworkRules reports entries that can't be rules. It checks only their form; the egress
// proxy parses them.
func checkNetworkRules(n *Network) []error {
	var errs []error
	for _, list := range []struct {
		name    string
		entries []string
	}{{"allow", n.Allow}, {"deny", n.Deny}} {
		for i, a := range list.entries {
			methods, rest, ok := strings.Cut(a, " ")
			if ok && strings.Trim(methods, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-,") == "" && strings.Contains(rest, "://") {
				a = rest // "GET,HEAD https://example.com/"
			}
			if strings.TrimSpace(a) == "" || strings.ContainsAny(a, " \t\r\n\x00") {
				errs = append(errs, newFieldError(fmt.Sprintf("network.%s[%d]", list.name, i), "network %s[%d] %q: must be HOST, HOST:PORT or a URL prefix", list.name, i, list.entries[i]))
			}
		}
	}
	for entry := range n.Until {
		if !slices.Contains(n.Allow, entry) {
			errs = append(errs, newFieldError("network.until", "network until %q: must be an entry of allow", entry))
		}
	}
	for i, h := range n.Headers {
		if h.Host == "" || h.Name == "" || strings.ContainsAny(h.Name+h.Value, "\r\n\x00") {
			errs = append(errs, newFieldError(fmt.Sprintf("network.headers[%d]", i), "network headers[%d] %q: must have a host and a name, and no line breaks", i, h.Name))
		}
	}
	if n.Rate < 0 || n.Bytes < 0 {
		errs = append(errs, newFieldError("network.rate", "network rate %d and bytes %d: must not be negative", n.Rate, n.Bytes))
	}
	return errs
}

// Upper limits of a request. They are larger than any real resource, and sums of them don't
// overflow.
const (
	maxCPU      = 1 << 16                    // cores
	maxBytes    = 1 << 50                    // 1 PiB
	maxCount    = math.MaxInt32              // processes, files
	maxDuration = 100 * 365 * 24 * time.Hour // 100 years
)

// checkResources reports amounts that are out of range.
func checkResources(of string, r Resources) []error {
	var errs []error
	bad := func(what string, v, most any) {
		errs = append(errs, newFieldError(of+"."+what, "%s.%s %v: must be a number that is at most %v", of, what, v, most))
	}
	if math.IsNaN(r.CPU) || math.IsInf(r.CPU, 0) || r.CPU > maxCPU {
		bad("cpu", r.CPU, maxCPU)
	}
	for _, n := range []struct {
		what string
		v    int64
		most int64
	}{
		{"memory", r.Memory, maxBytes},
		{"disk", r.Disk, maxBytes},
		{"file_size", r.FileSize, maxBytes},
		{"pids", int64(r.PIDs), maxCount},
		{"files", int64(r.Files), maxCount},
	} {
		if n.v > n.most {
			bad(n.what, n.v, n.most)
		}
	}
	return errs
}

// Limits of an environment, secrets included.
const (
	maxEnvVars  = 1000      // variables
	maxEnvBytes = 256 << 10 // of all together
)

// checkEnv reports variables that are not NAME=VALUE. If there are too many, it reports only
// that.
func checkEnv(env []string) []error {
	if err := checkEnvSize("env", env, nil); err != nil {
		return []error{err}
	}
	var errs []error
	for i, e := range env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" || strings.IndexByte(e, 0) >= 0 {
			errs = append(errs, newFieldError(fmt.Sprintf("env[%d]", i), "env[%d] %q: must be NAME=VALUE without NUL bytes", i, e))
		}
	}
	return errs
}

// checkEnvSize reports an environment that is too large, as a mistake in the given field.
func checkEnvSize(field string, env []string, secrets map[string]string) error {
	bytes := 0
	for _, e := range env {
		bytes += len(e)
	}
	for k, v := range secrets {
		bytes += len(k) + len("=") + len(v)
	}
	if n := len(env) + len(secrets); n > maxEnvVars || bytes > maxEnvBytes {
		return newFieldError(field, "%s: %d variables of %d bytes, secrets included: must be at most %d of together %d bytes", field, n, bytes, maxEnvVars, maxEnvBytes)
	}
	return nil
}

// checkRequests reports requests that exceed their limits.
func checkRequests(requests, limits Resources) []error {
	var errs []error
	over := func(what string, request, limit float64) {
		if request > 0 && limit > 0 && request > limit {
			errs = append(errs, newFieldError("requests."+what, "requests.%s %v: must not exceed the limit of %v", what, request, limit))
		}
	}
	over("cpu", requests.CPU, limits.CPU)
	over("memory", float64(requests.Memory), float64(limits.Memory))
	over("disk", float64(requests.Disk), float64(limits.Disk))
	return errs
}

// checkDurations reports durations that are too long for a clock.
func checkDurations(times map[string]time.Duration) []error {
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(times)) {
		if d := times[field]; d > maxDuration {
			errs = append(errs, newFieldError(field, "%s %v: must be at most %v, or negative for no limit", field, d, maxDuration))
		}
	}
	return errs
}

// reservedTargets are directories that every sandbox needs for itself. Nothing can be mounted
// on them or below them.
var reservedTargets = []string{"/proc", "/sys", "/dev", "/boot", "/etc", "/var", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/tmp"}

func checkMounts(mounts []Mount) []error {
	var errs []error
	for i, m := range mounts {
		if !strings.HasPrefix(m.Source, "/") || path.Clean(m.Source) != m.Source {
			errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].source", i), "mounts[%d] source %q: must be an absolute, clean path", i, m.Source))
		}
		if m.Limit < 0 {
			errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].limit", i), "mounts[%d] limit %d: must not be negative", i, m.Limit))
		}
		if err := validateTarget(m.Target); err != nil {
			errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].target", i), "mounts[%d] %w", i, err))
			continue
		}
		for _, o := range mounts[:i] {
			if isWithin(m.Target, o.Target) || isWithin(o.Target, m.Target) {
				errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].target", i), "mounts[%d] target %q: must not be the same as, above or beneath %q", i, m.Target, o.Target))
			}
		}
	}
	return errs
}

// CheckTarget reports why a path of a sandbox can't be a mount point. The error matches
// ErrInvalid.
func CheckTarget(target string) error { return wrapInvalid(validateTarget(target)) }

// wrapInvalid makes an error match ErrInvalid. Nil stays nil.
func wrapInvalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

func validateTarget(target string) error {
	if !strings.HasPrefix(target, "/") || target == "/" || path.Clean(target) != target || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("target %q: must be an absolute, clean path beneath /", target)
	}
	for _, t := range reservedTargets {
		if isWithin(target, t) {
			return fmt.Errorf("target %q: %s belongs to the system of the sandbox", target, t)
		}
	}
	return nil
}

func isWithin(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
