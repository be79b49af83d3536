package e2b

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// metric is the resource usage of a sandbox at one moment.
type metric struct {
	Timestamp     string  `json:"timestamp"`
	TimestampUnix int64   `json:"timestampUnix"`
	CPUCount      int     `json:"cpuCount"`
	CPUUsedPct    float64 `json:"cpuUsedPct"`
	MemUsed       int64   `json:"memUsed"`
	MemTotal      int64   `json:"memTotal"`
	MemCache      int64   `json:"memCache"`
	DiskUsed      int64   `json:"diskUsed"`
	DiskTotal     int64   `json:"diskTotal"`
}

// measureUsage returns the present usage of a sandbox.
func (s *Server) measureUsage(ctx context.Context, sb *fleet.Sandbox) (*metric, error) {
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	st, processors, err := compat.MeasureUsage(ctx, sb, info.Created, now)
	if err != nil {
		return nil, err
	}
	d := s.detailOf(&info)
	m := &metric{
		Timestamp: timeText(now), TimestampUnix: now.Unix(), CPUCount: d.CPUCount, CPUUsedPct: cpuPercent(processors, d.CPUCount), MemUsed: st.MemoryUsed, MemTotal: d.MemoryMB << 20,
		DiskUsed: st.DiskUsed, DiskTotal: d.DiskSizeMB << 20,
	}
	if st.DiskLimit > 0 {
		m.DiskTotal = st.DiskLimit
	}
	return m, nil
}

// cpuPercent returns the use of processors in percent of all that a sandbox has.
func cpuPercent(processors float64, of int) float64 { return 100 * processors / float64(max(of, 1)) }

// seriesMetrics returns the usage of a sandbox from start to end, as far as it was sampled.
func (s *Server) seriesMetrics(ctx context.Context, sb *fleet.Sandbox, info *atoll.Info, start, end time.Time) ([]*metric, error) {
	series, err := sb.UsageSeries(ctx, start, end)
	if err != nil {
		return nil, err
	}
	d := s.detailOf(info)
	list := make([]*metric, 0, len(series.Samples)+1)
	for _, u := range series.Samples {
		list = append(list, &metric{
			Timestamp: timeText(u.Time), TimestampUnix: u.Time.Unix(), CPUCount: d.CPUCount, CPUUsedPct: cpuPercent(u.CPU, d.CPUCount),
			MemUsed: u.Memory, MemTotal: d.MemoryMB << 20, DiskUsed: u.Disk, DiskTotal: d.DiskSizeMB << 20,
		})
	}
	return list, nil
}

// readRange reads the parameters start and end, seconds since 1970.
func readRange(c *call) (start, end time.Time, err error) {
	for name, t := range map[string]*time.Time{"start": &start, "end": &end} {
		text := c.r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return start, end, invalidError("%s: %q: must be seconds since 1970", name, text)
		}
		*t = time.Unix(n, 0)
	}
	return start, end, nil
}

// readMetrics answers with the usage of a sandbox over time and, unless the range ends earlier, at present. A
// paused one has no present usage.
func (s *Server) readMetrics(c *call) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	start, end, err := readRange(c)
	if err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	list, err := s.seriesMetrics(ctx, sb, &info, start, end)
	if err != nil {
		return err
	}
	if now := time.Now(); (end.IsZero() || end.Unix() >= now.Unix()) && start.Before(now) && info.State == atoll.Running && sb.Has((*atoll.Meter)(nil)) {
		m, err := s.measureUsage(ctx, sb)
		if err != nil {
			return err
		}
		list = append(list, m)
	}
	return c.writeJSON(http.StatusOK, list)
}

// readAllMetrics answers with the present usage of several sandboxes.
func (s *Server) readAllMetrics(c *call) error {
	ctx := c.r.Context()
	ids := strings.FieldsFunc(strings.Join(c.r.URL.Query()["sandbox_ids"], ","), func(r rune) bool { return r == ',' })
	if len(ids) > 100 {
		return invalidError("sandbox_ids: %d: must be at most 100", len(ids))
	}
	out := make(map[string]*metric)
	for _, id := range ids {
		sb, err := c.openID(ctx, id)
		if err != nil {
			return err
		}
		m, err := s.measureUsage(ctx, sb)
		if err != nil {
			return err
		}
		out[id] = m
	}
	return c.writeJSON(http.StatusOK, map[string]any{"sandboxes": out})
}

// agentMetrics answers with the present usage, as the agent of a sandbox does.
func (s *Server) agentMetrics(c *call) error {
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	m, err := s.measureUsage(c.r.Context(), sb)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{
		"ts": m.TimestampUnix, "cpu_count": m.CPUCount, "cpu_used_pct": m.CPUUsedPct, "mem_total": m.MemTotal, "mem_used": m.MemUsed, "mem_cache": m.MemCache,
		"disk_used": m.DiskUsed, "disk_total": m.DiskTotal,
	})
}

// readLogs answers with the commands of a sandbox, which is what its log has.
func (s *Server) readLogs(c *call) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	limit, err := queryNumber(c, "limit", 1000)
	if err != nil {
		return err
	}
	history, err := sb.History(ctx)
	if err != nil {
		return err
	}
	type line struct {
		Timestamp string            `json:"timestamp"`
		Line      string            `json:"line,omitempty"`
		Message   string            `json:"message,omitempty"`
		Level     string            `json:"level,omitempty"`
		Fields    map[string]string `json:"fields,omitempty"`
	}
	lines, entries := []line{}, []line{}
	for _, r := range history[max(len(history)-limit, 0):] {
		level := "info"
		if !r.Success {
			level = "error"
		}
		at := timeText(r.Time)
		lines = append(lines, line{Timestamp: at, Line: r.Command})
		entries = append(entries, line{Timestamp: at, Message: r.Command, Level: level, Fields: map[string]string{}})
	}
	if strings.HasPrefix(c.r.URL.Path, "/v2/") {
		return c.writeJSON(http.StatusOK, map[string]any{"logs": entries})
	}
	return c.writeJSON(http.StatusOK, map[string]any{"logs": lines, "logEntries": entries})
}
