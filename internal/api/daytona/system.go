package daytona

import (
	"net/http"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerSystem registers the routes that describe a sandbox from inside.
func (s *Server) registerSystem() {
	dir := func(c *call, sb *fleet.Sandbox) error {
		info, err := sb.Info(c.r.Context())
		if err != nil {
			return err
		}
		return c.writeJSON(http.StatusOK, map[string]string{"dir": dirOfSandbox(&info)})
	}
	for _, p := range []string{"/user-home-dir", "/work-dir", "/project-dir"} {
		s.addToolbox("GET", p, dir)
	}
	s.addToolbox("GET", "/version", func(c *call, _ *fleet.Sandbox) error {
		return c.writeJSON(http.StatusOK, map[string]string{"version": version})
	})
	s.addToolbox("GET", "/system/metrics", s.readMetrics)
	s.addToolbox("GET", "/port", s.listPorts)
	s.addToolbox("GET", "/port/{port}/in-use", s.checkPort)
}

// dirOfSandbox returns the home and working directory of commands.
func dirOfSandbox(info *atoll.Info) string {
	if info.Config.Dir != "" {
		return info.Config.Dir
	}
	return home
}

// metrics are the resources that a sandbox uses.
type metrics struct {
	CPUCount      float64 `json:"cpuCount"`
	CPUUsedPct    float64 `json:"cpuUsedPct"`
	MemTotal      int64   `json:"memTotal"`
	MemUsed       int64   `json:"memUsed"`
	MemCache      int64   `json:"memCache"`
	DiskTotal     int64   `json:"diskTotal"`
	DiskUsed      int64   `json:"diskUsed"`
	DiskFree      int64   `json:"diskFree"`
	Timestamp     string  `json:"timestamp"`
	TimestampUnix int64   `json:"timestampUnix"`
}

// readMetrics answers with what a sandbox uses now.
func (s *Server) readMetrics(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	st, processors, err := compat.MeasureUsage(ctx, sb, info.Created, now)
	if err != nil {
		return err
	}
	d := c.describe(&info)
	m := metrics{
		CPUCount: d.CPU, MemTotal: int64(d.Memory * (1 << 30)), MemUsed: st.MemoryUsed, DiskTotal: int64(d.Disk * (1 << 30)), DiskUsed: st.DiskUsed,
		Timestamp: timeText(now), TimestampUnix: now.Unix(),
	}
	m.DiskFree = max(m.DiskTotal-m.DiskUsed, 0)
	if d.CPU > 0 {
		m.CPUUsedPct = 100 * processors / d.CPU
	}
	return c.writeJSON(http.StatusOK, m)
}

// openPorts returns the ports on which programs in a sandbox listen.
func openPorts(c *call, sb *fleet.Sandbox) ([]int, error) {
	list, err := sb.Ports(c.r.Context())
	ports := []int{}
	for _, p := range list {
		if !slices.Contains(ports, p.Port) {
			ports = append(ports, p.Port)
		}
	}
	slices.Sort(ports)
	return ports, err
}

func (s *Server) listPorts(c *call, sb *fleet.Sandbox) error {
	ports, err := openPorts(c, sb)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"ports": ports})
}

// checkPort answers whether a program in a sandbox listens on a port.
func (s *Server) checkPort(c *call, sb *fleet.Sandbox) error {
	port, err := parseNumber("port", c.r.PathValue("port"), 0, 1, 65535)
	if err != nil {
		return err
	}
	ports, err := openPorts(c, sb)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]bool{"isInUse": slices.Contains(ports, port)})
}
