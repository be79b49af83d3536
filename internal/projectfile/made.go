package projectfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
)

// Made are the keys that count when a sandbox is made and not again, each with a
// digest of what it says. What is not said is not in it.
func (f *File) Made() map[string]string {
	said := make(map[string]string)
	for key, v := range map[string]any{
		"image": f.Image, "driver": f.Driver, "user": f.User, "memory": f.Memory, "disk": f.Disk, "cpus": f.CPUs,
		"network": f.Network, "env": f.Env, "env_files": f.EnvFiles, "prepare": f.Prepare, "agent": f.Agent,
		"ports": f.Ports, "main_port": f.MainPort, "sync.mode": f.Sync.Mode,
	} {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // a field that is no data
		}
		switch zero, _ := json.Marshal(reflect.Zero(reflect.TypeOf(v)).Interface()); string(b) { // it is data as well
		case string(zero), "[]":
		default:
			sum := sha256.Sum256(b)
			said[key] = hex.EncodeToString(sum[:8])
		}
	}
	return said
}
