package daytona

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerLifecycle registers the routes that change a sandbox.
func (s *Server) registerLifecycle() {
	s.addSandbox("POST", "/start", s.startSandbox)
	s.addSandbox("POST", "/recover", s.startSandbox)
	s.addSandbox("POST", "/stop", s.stopSandbox)
	s.addSandbox("POST", "/pause", s.pauseSandbox)
	s.addSandbox("POST", "/archive", s.archiveSandbox)
	s.addSandbox("POST", "/backup", s.getSandbox)
	s.addSandbox("POST", "/fork", s.forkSandbox)
	s.addSandbox("POST", "/resize", s.resizeSandbox)
	s.addSandbox("POST", "/last-activity", s.noteActivity)
	s.addSandbox("POST", "/network-settings", s.setNetwork)
	for _, timer := range []string{"autostop", "autopause", "autoarchive", "autodelete", "ttl"} {
		s.addSandbox("POST", "/"+timer+"/{minutes}", func(c *call, sb *fleet.Sandbox) error { return s.setTimer(c, sb, timer) })
	}
}

// timers are the timers of a sandbox in minutes; nil: the client names none.
type timers struct {
	stop, pause, archive, remove, ttl *int
}

// lifecycleOf returns the lifecycle that a client asks for. What the fleet has no term for becomes a label.
func lifecycleOf(in *newSandbox, labels map[string]string) (atoll.Lifecycle, error) {
	l := atoll.Lifecycle{Policy: atoll.PolicyPersistent}
	t := timers{in.AutoStopInterval, in.AutoPauseInterval, in.AutoArchiveInterval, in.AutoDeleteInterval, in.TTLMinutes}
	pauses := t.pause != nil && *t.pause > 0
	if pauses && t.stop != nil && *t.stop > 0 {
		return l, invalidError("autoStopInterval %d, autoPauseInterval %d: a sandbox that is not in use is either stopped or paused: one must be 0", *t.stop, *t.pause)
	}
	idle := timer{"autostop", t.stop, defaultAutoStop}
	if pauses {
		idle = timer{"autopause", t.pause, 0}
	}
	for _, t := range []timer{idle, {"autoarchive", t.archive, defaultAutoArchive}, {"autodelete", t.remove, -1}, {"ttl", t.ttl, 0}} {
		n := t.missing
		if t.minutes != nil {
			n = *t.minutes
		}
		if err := changeTimer(&l, labels, time.Now(), t.name, n); err != nil {
			return l, err
		}
	}
	return l, nil
}

// timer is a timer by its name, with the minutes of a client and those that are meant if it names none.
type timer struct {
	name    string
	minutes *int
	missing int
}

// changeTimer sets a timer of a sandbox that was created at a time.
func changeTimer(l *atoll.Lifecycle, labels map[string]string, created time.Time, name string, minutes int) error {
	if minutes < -1 || minutes > maxMinutes || minutes < 0 && name != "autodelete" {
		return invalidError("%s %d: must be 0 to %d minutes", name, minutes, maxMinutes)
	}
	duration := time.Duration(-1) // never
	if minutes > 0 {
		duration = time.Duration(minutes) * time.Minute
	}
	switch name {
	case "autostop":
		if minutes > 0 || l.IdleThen != atoll.ExpirePause {
			l.Idle, l.IdleThen = duration, atoll.ExpireStop
		}
	case "autopause":
		if minutes > 0 || l.IdleThen == atoll.ExpirePause {
			l.Idle, l.IdleThen = duration, atoll.ExpirePause
		}
	case "autoarchive":
		labels[labelArchive] = strconv.Itoa(minutes)
	case "autodelete":
		l.Stopped = duration
		labels[labelDelete] = strconv.Itoa(minutes)
	case "ttl":
		l.TTL, l.Then = -1, atoll.ExpireRemove
		if minutes > 0 {
			l.TTL = time.Since(created) + duration
		}
	}
	// A sandbox that is to be removed when it stops is removed, rather than stopped, when it is idle.
	switch {
	case labels[labelDelete] == "0" && l.IdleThen == atoll.ExpireStop:
		l.IdleThen = atoll.ExpireRemove
	case labels[labelDelete] != "0" && l.IdleThen == atoll.ExpireRemove:
		l.IdleThen = atoll.ExpireStop
	}
	l.Policy = atoll.PolicyPersistent
	return nil
}

// describeLifecycle adds the timers of a sandbox.
func (d *sandbox) describeLifecycle(info *atoll.Info) {
	l := info.Config.Lifecycle
	if idle := int(max(l.Idle, 0) / time.Minute); l.IdleThen == atoll.ExpirePause {
		d.AutoPauseInterval = idle
	} else {
		d.AutoStopInterval = idle
	}
	d.AutoArchiveInterval, d.AutoDeleteInterval = archiveMinutes(info.Labels), -1
	if n, err := strconv.Atoi(info.Labels[labelDelete]); err == nil {
		d.AutoDeleteInterval = n
	}
	if l.TTL > 0 {
		d.AutoDestroyAt = timeText(info.Created.Add(l.TTL))
	}
}

// archiveMinutes returns after how many minutes a stopped sandbox is archived.
func archiveMinutes(labels map[string]string) int {
	n, err := strconv.Atoi(labels[labelArchive])
	if err != nil {
		return defaultAutoArchive
	}
	if n == 0 {
		return maxArchive
	}
	return n
}

// isArchived reports whether a stopped sandbox is archived: since a client asked for it, or since it has been
// stopped for long enough.
func isArchived(st *atoll.Status) bool {
	if st.State == atoll.Archived {
		return true
	}
	if st.State != atoll.Stopped {
		return false
	}
	after := time.Duration(archiveMinutes(st.Labels)) * time.Minute
	long := slices.ContainsFunc(st.Conditions, func(c atoll.Condition) bool {
		return c.Type == "ready" && !c.Since.IsZero() && time.Since(c.Since) >= after
	})
	return st.Labels[labelArchived] != "" || long
}

// setTimer changes a timer of a sandbox.
func (s *Server) setTimer(c *call, sb *fleet.Sandbox, name string) error {
	minutes, err := parseNumber(name, c.r.PathValue("minutes"), 0, -1, maxMinutes)
	if err != nil {
		return err
	}
	info, err := sb.Info(c.r.Context())
	if err != nil {
		return err
	}
	l := info.Config.Lifecycle
	labels := make(map[string]string, len(info.Labels)+2)
	for k, v := range info.Labels {
		labels[k] = v
	}
	if err := changeTimer(&l, labels, info.Created, name, minutes); err != nil {
		return err
	}
	if info.Features.Archive {
		l.Archive = time.Duration(archiveMinutes(labels)) * time.Minute
	}
	if _, err := c.a.Update(c.r.Context(), sb.ID(), fleet.Change{Lifecycle: &l, Labels: labels}); err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// startSandbox makes a stopped, archived or paused sandbox run.
func (s *Server) startSandbox(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	st, err := sb.Status(ctx)
	if err != nil {
		return err
	}
	switch st.State {
	case atoll.Running:
	case atoll.Paused, atoll.Pausing: // it waits for a pause under way
		err = sb.Resume(ctx)
	default:
		err = sb.Start(ctx)
	}
	if err == nil && sb.Labels()[labelArchived] != "" {
		err = setLabels(ctx, c.a, sb, map[string]string{labelArchived: ""})
	}
	if err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// stopSandbox stops a sandbox with its sessions, or removes it if it is to be removed then.
func (s *Server) stopSandbox(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	st, err := sb.Status(ctx)
	if err != nil {
		return err
	}
	s.forgetSandbox(sb.ID())
	if sb.Labels()[labelDelete] == "0" {
		return s.removeSandbox(c, sb)
	}
	if st.State == atoll.Paused || st.State == atoll.Pausing {
		err = sb.Resume(ctx)
	}
	if err == nil && st.State != atoll.Stopped && st.State != atoll.Archived {
		err = sb.Stop(ctx)
	}
	if err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// pauseSandbox freezes the processes of a sandbox.
func (s *Server) pauseSandbox(c *call, sb *fleet.Sandbox) error {
	if err := sb.Pause(c.r.Context()); err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// canArchive reports whether sandboxes of a driver can be archived.
func (s *Server) canArchive(ctx context.Context, driver string) bool {
	for _, d := range s.opts.Fleet.Drivers(ctx) {
		if d.Name == driver || driver == "" && d.Default {
			return d.Features != nil && d.Features.Archive
		}
	}
	return false
}

// archiveSandbox archives a stopped sandbox. If this server has no archive storage, or can't archive it, it is only
// marked as archived, and its files stay where they are.
func (s *Server) archiveSandbox(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	st, err := sb.Status(ctx)
	if err != nil {
		return err
	}
	if st.State != atoll.Stopped && st.State != atoll.Archived {
		return invalidError("the sandbox is %s: only a stopped one can be archived", stateOf(&st))
	}
	if err = sb.Archive(ctx); errors.Is(err, atoll.ErrUnsupported) {
		err = setLabels(ctx, c.a, sb, map[string]string{labelArchived: "true"})
	}
	if err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// forkSandbox answers with a copy of a sandbox with its files.
func (s *Server) forkSandbox(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	var in struct {
		Name string `json:"name"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	labels := clientLabels(sb.Labels())
	labels[labelSandbox], labels[labelParent] = "true", sb.ID()
	for _, k := range []string{labelSnapshot, labelDisk, labelDelete, labelArchive, labelVolumes} {
		if v := sb.Labels()[k]; v != "" {
			labels[k] = v
		}
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	made, err := sb.Fork(ctx, "", atoll.Spec{Name: in.Name, Labels: labels})
	if err != nil {
		return err
	}
	l := info.Config.Lifecycle
	if l.TTL > 0 {
		l.TTL -= time.Since(info.Created) // the remaining time
		l.TTL = max(l.TTL, time.Second)
	}
	if _, err := c.a.Update(ctx, made.ID(), fleet.Change{Lifecycle: &l}); err != nil {
		return err
	}
	fork, err := c.a.Open(ctx, made.ID())
	if err != nil {
		return err
	}
	return s.writeSandbox(c, fork)
}

// resizeSandbox refuses another size: no driver changes the limits of a sandbox that exists.
func (s *Server) resizeSandbox(c *call, sb *fleet.Sandbox) error {
	var in struct {
		CPU    float64 `json:"cpu"`
		Memory float64 `json:"memory"`
		Disk   float64 `json:"disk"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	info, err := sb.Info(c.r.Context())
	if err != nil {
		return err
	}
	d := c.describe(&info)
	if cmp.Or(in.CPU, d.CPU) == d.CPU && cmp.Or(in.Memory, d.Memory) == d.Memory && cmp.Or(in.Disk, d.Disk) == d.Disk {
		return c.writeJSON(http.StatusOK, d)
	}
	return unsupportedError("resize: another size of a sandbox that exists")
}

// noteActivity makes a sandbox count as used now.
func (s *Server) noteActivity(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	if st, err := sb.Status(ctx); err != nil || st.State != atoll.Running {
		return cmp.Or(err, c.writeEmpty(http.StatusCreated, nil))
	}
	_, err := atoll.Stat(ctx, sb, "/")
	return c.writeEmpty(http.StatusCreated, err)
}

// networkSettings are the network of a sandbox.
type networkSettings struct {
	BlockAll        *bool   `json:"networkBlockAll"`
	AllowList       *string `json:"networkAllowList"` // networks, separated by commas
	DomainAllowList *string `json:"domainAllowList"`  // host names, separated by commas
}

// applyNetwork adds the network that a client asks for to a configuration. A sandbox reaches the public
// internet unless its client forbids it, if its driver can.
func (s *Server) applyNetwork(ctx context.Context, cfg *atoll.Config, in *newSandbox) error {
	n, err := networkOf(&networkSettings{in.NetworkBlockAll, &in.NetworkAllowList, &in.DomainAllowList})
	if err != nil {
		return err
	}
	if n.Mode == atoll.NetworkNAT && in.NetworkBlockAll == nil && !s.hasInternet(ctx, cfg.Driver) { // the client did not ask for it
		n.Mode = atoll.NetworkNone
	}
	cfg.Network = n
	return nil
}

// hasInternet reports whether sandboxes of a driver can reach the internet; true if that is not known.
func (s *Server) hasInternet(ctx context.Context, driver string) bool {
	for _, d := range s.opts.Fleet.Drivers(ctx) {
		if d.Name == driver || driver == "" && d.Default {
			return d.Features == nil || slices.Contains(d.Features.Networks, atoll.NetworkNAT)
		}
	}
	return true
}

// networkOf returns the rules that a client asks for. With an allow-list nothing else is reachable.
func networkOf(in *networkSettings) (atoll.Network, error) {
	n := atoll.Network{Mode: atoll.NetworkNAT}
	if in.BlockAll != nil && *in.BlockAll {
		n.Mode = atoll.NetworkNone
		return n, nil
	}
	for _, list := range []struct {
		field string
		text  *string
		check func(string) bool
		want  string
	}{{"networkAllowList", in.AllowList, isPrefix, "networks, such as 203.0.113.0/24"}, {"domainAllowList", in.DomainAllowList, isDomain, "host names"}} {
		if list.text == nil {
			continue
		}
		for entry := range strings.SplitSeq(*list.text, ",") {
			entry = strings.TrimSpace(entry)
			if entry == "" {
				continue
			}
			if !list.check(entry) {
				return n, invalidError("%s %q: must be %s, separated by commas", list.field, shortenText(entry), list.want)
			}
			n.Allow = append(n.Allow, entry)
		}
	}
	if len(n.Allow) > 0 {
		n.Mode = atoll.NetworkNone
	}
	return n, nil
}

func isPrefix(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil || net.ParseIP(s) != nil
}

func isDomain(s string) bool {
	s = strings.TrimPrefix(s, "*.")
	return s != "" && !isPrefix(s) && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// describeNetwork adds the network of a sandbox.
func (d *sandbox) describeNetwork(n *atoll.Network) {
	var prefixes, domains []string
	for _, entry := range n.Allow {
		if isPrefix(entry) {
			prefixes = append(prefixes, entry)
		} else {
			domains = append(domains, entry)
		}
	}
	d.NetworkAllowList, d.DomainAllowList = strings.Join(prefixes, ","), strings.Join(domains, ",")
	d.NetworkBlockAll = n.Mode == atoll.NetworkNone && len(n.Allow) == 0 || n.Mode == ""
}

// setNetwork replaces the rules of a sandbox.
func (s *Server) setNetwork(c *call, sb *fleet.Sandbox) error {
	var in networkSettings
	if err := c.readJSON(&in); err != nil {
		return err
	}
	now, err := sb.Network(c.r.Context())
	if err != nil {
		return err
	}
	next, err := networkOf(&in)
	if err != nil {
		return err
	}
	next.Rate, next.Bytes = now.Rate, now.Bytes
	if err := sb.SetNetwork(c.r.Context(), next); err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}
