package about

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/state/diskreserve"
)

// finding is one thing that the doctor looked at.
type finding struct {
	Check    string `json:"check"`
	Driver   string `json:"driver,omitempty"` // that found it
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional,omitempty"` // nothing that is configured needs it
	Detail   string `json:"detail"`
	Fix      string `json:"fix,omitempty"`
}

func (a commands) doctorCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:     "doctor",
		Example: "  atoll doctor\n  atoll doctor --verbose",
		Short:   "Check this machine and suggest fixes",
		Long: `Check what works on this machine. The first line is the verdict. Below it is
what the configuration needs and does not work (BAD), and what the configured
driver lacks ("-"), with the way to get it. --verbose lists all checks of all
drivers. The exit status is 1 if there is something BAD.`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := a.runChecks(cmd.Context())
			verdict := a.judge(list)
			if a.JSON {
				if err := a.PrintJSON(append([]finding{verdict}, list...)); err != nil {
					return err
				}
			} else if err := a.printReport(verdict, list, verbose); err != nil {
				return err
			}
			if !verdict.OK {
				return exitcode.Silent(exitcode.Problems)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "list all checks")
	return cmd
}

// judge sums up findings in one, whose detail is one line.
func (a commands) judge(list []finding) finding {
	var works, missing, bad []string
	for _, f := range list {
		name, isDriver := strings.CutPrefix(f.Check, driverCheck)
		switch {
		case isDriver && f.OK:
			works = append(works, name)
		case isDriver:
			missing = append(missing, name)
		}
		if !f.OK && !f.Optional {
			bad = append(bad, f.Check)
		}
	}
	v := finding{Check: "verdict", OK: len(bad) == 0}
	switch {
	case len(bad) == 1:
		v.Detail = "1 problem (" + bad[0] + "); "
	case len(bad) > 1:
		v.Detail = fmt.Sprintf("%d problems (%s); ", len(bad), strings.Join(bad, ", "))
	}
	v.Detail += "working drivers: " + output.DashIfEmpty(strings.Join(works, ", "))
	if len(missing) > 0 {
		v.Detail += "; not here: " + strings.Join(missing, ", ")
	}
	return v
}

// printReport prints the verdict, and the findings that need attention or all of them.
func (a commands) printReport(verdict finding, list []finding, all bool) error {
	word := "OK"
	if !verdict.OK {
		word = "BAD"
	}
	if _, err := fmt.Fprintf(a.Out, "%s: %s\n", word, verdict.Detail); err != nil {
		return err
	}
	if all {
		return a.tellFindings(list)
	}
	var shown []finding
	for _, f := range list {
		// A line about the driver itself has no name of a driver in it, and is BAD if it is the configured one.
		if !f.OK && (!f.Optional || f.Driver == a.DefaultDriver()) {
			shown = append(shown, f)
		}
	}
	if err := a.tellFindings(shown); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "'atoll doctor --verbose' lists all %d checks; 'atoll setup DRIVER' gets what a driver needs.\n", len(list))
	return err
}

func (a commands) tellFindings(list []finding) error {
	width := 18
	for _, f := range list {
		width = max(width, len(f.name()))
	}
	wide := a.Columns()
	for _, f := range list {
		mark := "ok  "
		switch {
		case f.OK:
		case f.Optional:
			mark = "-   "
		default:
			mark = "BAD "
		}
		if _, err := fmt.Fprintf(a.Out, "%s %-*s %s\n", mark, width, f.name(), output.WrapHanging(output.Clean(strings.Join(strings.Fields(f.Detail), " ")), width+6, wide)); err != nil {
			return err
		}
		if f.Fix == "" {
			continue
		}
		first, more, _ := strings.Cut(f.Fix, "\n")
		text := fmt.Sprintf("     %-*s %s\n", width, "", output.WrapHanging("to get it: "+output.Clean(first), width+6, wide))
		for line := range strings.Lines(more) { // to be pasted somewhere
			text += strings.Repeat(" ", width+6) + output.Clean(strings.TrimRight(line, "\n")) + "\n"
		}
		if _, err := io.WriteString(a.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// name is what a person reads: what a driver found stands beneath it.
func (f *finding) name() string {
	if f.Driver != "" {
		return "  " + f.Check
	}
	return f.Check
}

// driverCheck begins the name of a check of a whole driver.
const driverCheck = "driver "

func (a commands) runChecks(ctx context.Context) []finding {
	v := version.Build()
	list := []finding{{Check: "atoll", OK: true, Detail: v.Version + " " + v.Go + " " + v.Platform}}
	list = append(list, a.checkConfig(), a.checkHome(), a.checkSecrets(ctx))
	found := make([][]finding, len(a.Drivers()))
	var wg sync.WaitGroup
	for i, d := range a.Drivers() {
		wg.Go(func() { found[i] = a.examineDriver(ctx, d) })
	}
	wg.Wait()
	list = append(list, slices.Concat(found...)...)
	list = append(list, a.checkWork(ctx), checkMachine(), checkLocalhost(ctx), checkLocal())
	return slices.Concat(list, a.checkArchive(ctx), a.checkLogins(ctx), a.checkFleet(ctx))
}

// examineDriver checks one driver. A driver that does not work is a problem only if it is the
// configured one.
func (a commands) examineDriver(ctx context.Context, d atoll.Driver) []finding {
	ctx, cancel := context.WithTimeoutCause(ctx, app.ProbeTimeout, fmt.Errorf("%w: it has not answered for %v", atoll.ErrTimeout, app.ProbeTimeout))
	defer cancel()
	f := finding{Check: driverCheck + d.Name(), OK: true}
	ft, err := d.Probe(ctx)
	if err != nil {
		f.OK, f.Optional, f.Detail = false, d.Name() != a.DefaultDriver(), err.Error()
	} else {
		f.Detail = "isolation " + ft.Isolation + "; " + formatFeatures(ft)
	}
	list := []finding{f}
	for _, note := range ft.Notes {
		list = append(list, finding{Check: "note", Driver: d.Name(), OK: true, Detail: note})
	}
	checker, ok := d.(atoll.Checker)
	if !ok {
		if err != nil {
			list[0].Fix = "see the message"
		}
		return list
	}
	for _, c := range checker.Checks(ctx) {
		list = append(list, finding{Check: c.Name, Driver: d.Name(), OK: c.OK, Optional: !c.Needed || f.Optional, Detail: c.Detail, Fix: c.Fix})
	}
	return list
}

// checkMachine checks whether this machine can run VMs.
func checkMachine() finding {
	f := finding{Check: "virtual machines", Optional: true, Fix: "a host with KVM (vmx or svm in /proc/cpuinfo) and the right to open /dev/kvm"}
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		f.Detail = "no KVM: " + err.Error()
		return f
	}
	_ = kvm.Close() // it was only a question
	if _, err := os.Stat("/sys/module/kvm_pvm"); err == nil {
		f.Detail = "/dev/kvm is there, but it is emulated (kvm_pvm): machines would be very slow"
		return f
	}
	f.OK, f.Fix, f.Detail = true, "", "/dev/kvm can be opened"
	return f
}

// checkHome writes to the state directory.
func (a commands) checkHome() finding {
	f := finding{Check: "state directory", Detail: a.Home, Fix: "set ATOLL_HOME or --home to a directory that you can write"}
	if err := os.MkdirAll(a.Home, 0o700); err != nil {
		f.Detail = err.Error()
		return f
	}
	probe := filepath.Join(a.Home, ".doctor")
	if err := os.WriteFile(probe, []byte("ok"), 0o600); err != nil {
		f.Detail = err.Error()
		return f
	}
	if err := os.Remove(probe); err != nil {
		f.Detail = err.Error()
		return f
	}
	reserve, err := diskreserve.Open(a.Home)
	if err == nil {
		err = reserve.Check()
	}
	if err != nil {
		f.Detail, f.Fix = err.Error(), "remove files of this disk, or sandboxes and workspaces that are not needed (atoll rm, atoll workspace rm)"
		return f
	}
	f.OK, f.Fix = true, ""
	return f
}

// checkWork runs a command in a new virtual sandbox and takes the time.
func (a commands) checkWork(ctx context.Context) finding {
	f := finding{Check: "virtual sandbox", Fix: "this is a bug of atoll: please report it with this output"}
	d := a.NewInMemory(a.Config)
	for range 2 { // the first one builds the image
		start := time.Now()
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			f.Detail = err.Error()
			return f
		}
		r, err := atoll.Execute(ctx, sb, "echo works | tr a-z A-Z")
		took := time.Since(start)
		if derr := sb.Destroy(ctx); err == nil {
			err = derr
		}
		if err != nil || r.Stdout != "WORKS\n" {
			f.Detail = fmt.Sprintf("a pipe of two commands printed %q, status %d, %v", r.Stdout, r.ExitCode, err)
			return f
		}
		f.Detail = fmt.Sprintf("created, ran a pipe of two commands in %v", took.Round(time.Microsecond))
	}
	f.OK, f.Fix = true, ""
	return f
}

// checkFleet asks the fleet that commands go to what it holds.
func (a commands) checkFleet(ctx context.Context) []finding {
	c, err := a.Client(ctx)
	var info atoll.Server
	if err == nil {
		info, err = c.Info(ctx)
	}
	if err != nil {
		return []finding{{Check: "fleet", Detail: err.Error(), Fix: "see the message; 'atoll context show' says which server is asked"}}
	}
	where := "in this process"
	if c.Host != "" {
		where = c.Host
	}
	list := []finding{{Check: "fleet", OK: true, Detail: fmt.Sprintf("%s, version %s; you are %s", where, info.Version, info.Owner)}}
	f := finding{Check: "sandboxes", OK: true}
	all, err := c.Sandboxes(ctx, client.Filter{})
	if err != nil {
		return append(list, finding{Check: "sandboxes", Detail: err.Error(), Fix: "see the message"})
	}
	for _, i := range all {
		if i.State == atoll.Failed {
			f.OK = false
			f.Fix = "atoll rm " + i.ID + "  (what it held is lost)"
			f.Detail = i.ID + " is in error: " + output.ReadyReason(i.Status)
			return append(list, f)
		}
	}
	f.Detail = fmt.Sprintf("%d kept, none in error", len(all))
	return append(list, f)
}

// checkConfig reports the configuration files in use.
func (a commands) checkConfig() finding {
	f := finding{Check: "configuration", OK: true, Detail: "defaults"}
	var files []string
	for _, file := range []string{a.Config.System, a.Config.File} {
		if _, err := os.Stat(file); err == nil {
			files = append(files, file)
		}
	}
	if a.Config.Project != "" {
		files = append(files, a.Config.Project)
	}
	if len(files) > 0 {
		f.Detail = strings.Join(files, ", ")
	}
	if err := config.CheckVariables(os.Environ()); err != nil {
		f.OK, f.Detail, f.Fix = false, err.Error(), "correct the name of the variable, or unset it"
	}
	return f
}
