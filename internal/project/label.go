package project

import (
	"strconv"
	"strings"
)

// The labels of a project's sandbox say which working tree it belongs to. They
// are the fleet's: nothing inside can change them.
const (
	Label     = "atoll.project"      // the project's name, which can be a part of a host name
	LabelPath = "atoll.project.path" // the top of the working tree, absolute
	LabelHost = "atoll.project.host" // the home of atoll that knows the working tree
	LabelMode = "atoll.project.mode" // a Mode
	LabelPort = "atoll.project.port" // the port that the project's plain name leads to; none: the one opened first

	// LabelCarried is Plan.Tree of what was carried in; none: no uncommitted work.
	LabelCarried = "atoll.project.carried"

	// LabelPorts has what ports are called: "3000=web,3001=api".
	LabelPorts = "atoll.project.ports"
)

// LabelStage is how far a new sandbox has come: StageCarry until the repository
// is in it, then StagePrepare with a slash and the number of the next step, then
// none.
const (
	LabelStage   = "atoll.project.stage"
	StageCarry   = "carry"
	StagePrepare = "prepare"
)

// PortName returns what the text of LabelPorts calls a port; empty: nothing.
func PortName(names string, port int) string {
	for one := range strings.SplitSeq(names, ",") {
		if number, name, ok := strings.Cut(one, "="); ok && number == strconv.Itoa(port) {
			return name
		}
	}
	return ""
}
