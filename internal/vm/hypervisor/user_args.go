package hypervisor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// allowedArgs lists the arguments of QEMU that a user may add, with the prefixes or values that are
// allowed; nil: the argument has no value. None of them opens a file, a socket or a device of the
// host, or weakens the isolation.
var allowedArgs = map[string][]string{
	"-cpu":                 {"host", "max", "qemu64", "qemu32", "Nehalem", "Westmere", "SandyBridge", "IvyBridge", "Haswell", "Broadwell", "Skylake", "Cascadelake", "Cooperlake", "Icelake", "SapphireRapids", "Opteron", "EPYC"},
	"-no-hpet":             nil,
	"-overcommit":          {"mem-lock=off", "cpu-pm=on", "cpu-pm=off"},
	"-rtc":                 {"base=utc", "clock=host", "clock=rt", "clock=vm", "driftfix=slew", "driftfix=none"},
	"-device":              {"virtio-rng-device", "virtio-rng-pci", "virtio-balloon-device", "virtio-balloon-pci"},
	"-action":              {"panic=pause", "panic=shutdown", "panic=exit-failure", "panic=none", "watchdog=reset", "watchdog=pause", "watchdog=none"},
	"-uuid":                {""},
	"-msg":                 {"timestamp=on", "timestamp=off", "guest-name=off"},
	"-boot":                {"strict=on", "strict=off"},
	"-enable-sync-profile": nil,
}

// AllowedArgs returns the sorted names of the arguments that CheckArgs accepts.
func AllowedArgs() []string {
	names := make([]string, 0, len(allowedArgs))
	for n := range allowedArgs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// CheckArgs returns an error that matches atoll.ErrInvalid if a user may not add one of the
// arguments. It names the argument and what is allowed.
func CheckArgs(args []string) error {
	for i := 0; i < len(args); i++ {
		name := args[i]
		if strings.HasPrefix(name, "--") {
			name = name[1:] // QEMU accepts both
		}
		values, ok := allowedArgs[name]
		if !ok {
			return fmt.Errorf("%w: QEMU argument %q is not among those that may be added: %s", atoll.ErrInvalid, args[i], strings.Join(AllowedArgs(), " "))
		}
		if values == nil {
			continue
		}
		if i++; i == len(args) {
			return fmt.Errorf("%w: QEMU argument %s needs a value", atoll.ErrInvalid, name)
		}
		if err := checkValue(name, args[i], values); err != nil {
			return err
		}
	}
	return nil
}

// checkValue checks a value of an argument. It checks each part between commas, since a comma
// begins another option.
func checkValue(name, value string, values []string) error {
	bad := func(part string) error {
		return fmt.Errorf("%w: QEMU argument %s: %q is not among the values that may be given: %s", atoll.ErrInvalid, name, part, strings.Join(values, " "))
	}
	switch name {
	case "-cpu": // a model, and features that are switched on and off
		model, features, _ := strings.Cut(value, ",")
		if !slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(model, v) }) || !isName(model, 40) {
			return bad(model)
		}
		for f := range strings.SplitSeq(features, ",") {
			key, state, assigned := strings.Cut(strings.TrimLeft(f, "+-"), "=")
			if features != "" && (!isName(strings.ReplaceAll(key, ".", "-"), 40) || assigned && state != "on" && state != "off") {
				return bad(f)
			}
		}
		return nil
	case "-uuid":
		if !isName(value, 36) {
			return fmt.Errorf("%w: QEMU argument -uuid: %q is no UUID", atoll.ErrInvalid, value)
		}
		return nil
	}
	for part := range strings.SplitSeq(value, ",") {
		if !slices.Contains(values, part) {
			return bad(part)
		}
	}
	return nil
}
