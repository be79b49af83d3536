package projectfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
)

// CreationDigests returns digests of the settings that only take effect when a sandbox is created, by key. Unset keys
// are left out.
func (f *File) CreationDigests() map[string]string {
	said := make(map[string]string)
	for key, v := range map[string]any{
		"image": f.Image, "driver": f.Driver, "user": f.User, "memory": f.Memory, "disk": f.Disk, "cpus": f.CPUs,
		"network": f.Network, "env": f.Env, "env_files": f.EnvFiles, "prepare": f.Prepare, "agent": f.Agent,
		"ports": f.Ports, "main_port": f.MainPort, "sync.mode": f.Sync.Mode,
	} {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // impossible for these types
		}
		switch zero, _ := json.Marshal(reflect.Zero(reflect.TypeOf(v)).Interface()); string(b) { // can't fail either
		case string(zero), "[]":
		default:
			sum := sha256.Sum256(b)
			said[key] = hex.EncodeToString(sum[:8])
		}
	}
	return said
}
