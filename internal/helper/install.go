package helper

import (
	"fmt"
	"regexp"
	"runtime/debug"
)

// modulePath is the module that has the helpers.
const modulePath = "github.com/atoll-sandbox/atoll"

// Names are the programs that atoll starts, the full program first.
var Names = []string{FullProgram, "atoll-guest", "atoll-egress", "atoll-sftp", "atoll-tool", "atoll-worker", PythonProgram}

// installable matches the versions that the module proxy has; others, such as those of a checkout, are
// +dirty or (devel).
var installable = regexp.MustCompile(`^v[0-9][0-9A-Za-z.-]*$`)

// Version returns the version of the module from which this program was built by 'go install'; empty if it
// was built of a checkout, whose helpers no one else has.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != modulePath || info.Main.Sum == "" {
		return ""
	}
	return installable.FindString(info.Main.Version)
}

// InstallArgs returns the arguments of go that build the helpers of a version of the module.
func InstallArgs(version string) []string {
	args := []string{"install", "-trimpath", "-ldflags=-s -w"}
	for _, name := range Names {
		args = append(args, modulePath+"/cmd/"+name+"@"+version)
	}
	return args
}

// howToGet returns a sentence about how to get a helper that is missing.
func howToGet(name, version string) string {
	if version != "" {
		return "run 'atoll setup helpers', which builds it with go, or install a release"
	}
	return fmt.Sprintf("build atoll with `make build`, or build ./cmd/%s with CGO_ENABLED=0 and put it beside atoll", name)
}

// MissingBeside returns the helpers that are not in the directory of this program.
func MissingBeside() []string {
	var missing []string
	for _, name := range Names {
		if _, ok := findBeside(name); !ok {
			missing = append(missing, name)
		}
	}
	return missing
}
