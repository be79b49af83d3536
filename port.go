package atoll

import (
	"context"
	"strconv"
)

// PortLister is a Notifier that knows the ports on which programs inside listen.
type PortLister interface {
	// Ports returns the open ports, ordered by number.
	Ports(ctx context.Context) ([]Port, error)
}

// Port is a port on which a program inside a sandbox listens.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`           // "127.0.0.1", "::", …
	PID     int    `json:"pid,omitempty"`     // inside the sandbox
	Command string `json:"command,omitempty"` // name of the program
}

// Ports returns the ports on which programs in a sandbox listen.
func Ports(ctx context.Context, sb Sandbox) ([]Port, error) {
	p, err := requireAbility[PortLister](sb, "ports")
	if err != nil {
		return nil, err
	}
	return p.Ports(ctx)
}

// DevServerPorts returns the ports on which programs in a sandbox listen, by the name of the
// program. A second port of the same program is called "NAME:PORT".
func DevServerPorts(ctx context.Context, sb Sandbox) (map[string]int, error) {
	list, err := Ports(ctx, sb)
	if err != nil {
		return nil, err
	}
	return namePorts(list), nil
}

func namePorts(list []Port) map[string]int {
	ports := make(map[string]int, len(list))
	for _, p := range list {
		name := p.Command
		if name == "" {
			name = strconv.Itoa(p.Port)
		}
		if other, taken := ports[name]; taken && other != p.Port {
			name += ":" + strconv.Itoa(p.Port)
		}
		ports[name] = p.Port
	}
	return ports
}
