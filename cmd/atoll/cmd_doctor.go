package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// finding is one thing that the doctor looked at.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check what works here, and say how to get the rest",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := a.examine(cmd.Context())
			bad := 0
			for _, f := range list {
				if !f.OK {
					bad++
				}
			}
			if a.json {
				if err := a.print(list); err != nil {
					return err
				}
			} else if err := a.tellFindings(list); err != nil {
				return err
			}
			if bad > 0 {
				return status(1)
			}
			return nil
		},
	}
}

func (a *app) tellFindings(list []finding) error {
	for _, f := range list {
		mark := "ok  "
		if !f.OK {
			mark = "BAD "
		}
		if _, err := fmt.Fprintf(a.out, "%s %-18s %s\n", mark, f.Check, plain(f.Detail)); err != nil {
			return err
		}
		if f.Fix != "" {
			if _, err := fmt.Fprintf(a.out, "     %-18s to fix: %s\n", "", f.Fix); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) examine(ctx context.Context) []finding {
	v := buildVersion()
	list := []finding{{Check: "atoll", OK: true, Detail: v.Version + " " + v.Go + " " + v.Platform}}
	list = append(list, a.checkConfig(), a.checkHome())
	for _, r := range a.survey(ctx) {
		f := finding{Check: "driver " + r.Name, OK: r.Available, Detail: "isolation " + r.Features.Isolation + "; " + abilities(r.Features)}
		if !r.Available {
			f.Detail, f.Fix = r.Error, "see the message"
		}
		list = append(list, f)
	}
	return append(append(list, checkWork(ctx)), a.checkFleet(ctx)...)
}

// checkHome writes to the state directory.
func (a *app) checkHome() finding {
	f := finding{Check: "state directory", Detail: a.home, Fix: "set ATOLL_HOME or --home to a directory that you can write"}
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		f.Detail = err.Error()
		return f
	}
	probe := filepath.Join(a.home, ".doctor")
	if err := os.WriteFile(probe, []byte("ok"), 0o600); err != nil {
		f.Detail = err.Error()
		return f
	}
	if err := os.Remove(probe); err != nil {
		f.Detail = err.Error()
		return f
	}
	f.OK, f.Fix = true, ""
	return f
}

// checkWork runs a command in a new virtual sandbox and takes the time.
func checkWork(ctx context.Context) finding {
	f := finding{Check: "virtual sandbox", Fix: "this is a bug of atoll: please report it with this output"}
	d := virtual.New()
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
func (a *app) checkFleet(ctx context.Context) []finding {
	c, err := a.client(ctx)
	var info atoll.Server
	if err == nil {
		info, err = c.Info(ctx)
	}
	if err != nil {
		return []finding{{Check: "fleet", Detail: err.Error(), Fix: "see the message; 'atoll context show' says which server is asked"}}
	}
	where := "in this process"
	if c.host != "" {
		where = c.host
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
			f.Detail = i.ID + " is in error: " + readyText(i.Status)
			return append(list, f)
		}
	}
	f.Detail = fmt.Sprintf("%d kept, none in error", len(all))
	return append(list, f)
}

// readyText says why a sandbox is or is not ready.
func readyText(s atoll.Status) string {
	for _, c := range s.Conditions {
		if c.Type == "ready" {
			return strings.TrimSpace(c.Reason + " " + c.Message)
		}
	}
	return "unknown"
}

// checkConfig says which configuration counts.
func (a *app) checkConfig() finding {
	f := finding{Check: "configuration", OK: true, Detail: "defaults"}
	var files []string
	if _, err := os.Stat(a.config.file); err == nil {
		files = append(files, a.config.file)
	}
	if a.config.project != "" {
		files = append(files, a.config.project)
	}
	if len(files) > 0 {
		f.Detail = strings.Join(files, ", ")
	}
	return f
}
