package project

import (
	"strconv"
	"strings"
)

// The labels of a project's sandbox. They belong to the fleet: programs inside can't change them.
const (
	Label     = "atoll.project"      // name of the project, valid in host names
	LabelPath = "atoll.project.path" // top of the working tree, absolute
	LabelHost = "atoll.project.host" // id of the atoll home that knows the working tree
	LabelMode = "atoll.project.mode" // a Mode
	LabelPort = "atoll.project.port" // port of the project's plain host name; none: the first one opened

	// LabelImported is Plan.Tree of the imported work; none: no uncommitted work.
	LabelImported = "atoll.project.carried"

	// LabelPorts has the names of ports: "3000=web,3001=api".
	LabelPorts = "atoll.project.ports"
)

// LabelStage is the progress of a new sandbox: StageImport until the repository is imported, then
// StagePrepare with a slash and the number of the next step. A finished sandbox has no such label.
const (
	LabelStage   = "atoll.project.stage"
	StageImport  = "carry"
	StagePrepare = "prepare"
)

// PortName returns the name of a port in the value of LabelPorts, or "".
func PortName(names string, port int) string {
	for one := range strings.SplitSeq(names, ",") {
		if number, name, ok := strings.Cut(one, "="); ok && number == strconv.Itoa(port) {
			return name
		}
	}
	return ""
}

// Labels of the session of an agent that works on a branch.
const (
	LabelAgentSandbox = "atoll.agent.sandbox" // id of the sandbox
	LabelAgentBranch  = "atoll.agent.branch"
)
