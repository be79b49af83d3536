package sandboxflag

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
)

// HasVMs reports whether the sandboxes of a driver are VMs. Configured settings of VMs apply
// only to these; flags apply to every driver, which refuses them if it has no VMs.
type HasVMs func(driver string) (bool, error)

// addMachine adds what only a machine of its own has.
func (f *Flags) addMachine(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.Bool("nested", true, "allow nested VMs, if this host can (--no-nested: never)")
	fl.Bool("persist", true, "keep the disks of the VM when it stops (--no-persist: discard them)")
	for _, name := range []string{"nested", "persist"} {
		no := fl.VarPF(&Negation{Flag: fl.Lookup(name)}, "no-"+name, "", "the opposite of --"+name)
		no.NoOptDefVal, no.Hidden = "true", true
	}
	fl.String("share", "", "`PROTOCOL` of --mount and --workspace in a VM: virtiofs or 9p (default: the best available)")
	fl.StringArray("qemu-arg", nil, "extra `ARGUMENT` of QEMU, of those that the driver allows (repeatable)")
	fl.StringVar(&f.disk, "use-disk", "", "use the persistent disk `NAME`; see 'atoll disk'")
	fl.Var(&VCPUs{Flag: fl.Lookup("cpus")}, "vcpus", "`NUMBER` of virtual processors of a VM: like --cpus, in whole processors")
}

// ofMachine returns the settings of a VM from flags and configuration; nil if there are none.
func (f *Flags) ofMachine(c *config.Config, hasVMs HasVMs) (*atoll.VM, error) {
	probe := sync.OnceValues(func() (bool, error) {
		if driver := config.Get[string](c, "driver"); driver != "" {
			return hasVMs(driver)
		}
		return false, nil
	})
	var err error
	applies := func(name string) bool {
		s := c.Settings[name]
		if s.Key == nil || s.Origin == "default" {
			return false
		}
		if strings.HasPrefix(s.Origin, "--") {
			return true
		}
		var vm bool
		vm, err = probe()
		return vm
	}
	truth := func(name string) *bool {
		if !applies(name) {
			return nil
		}
		b := config.Get[bool](c, name)
		return &b
	}
	m := atoll.VM{Nested: truth("defaults.machine.nested_virt"), Persist: truth("defaults.machine.persist"), Disk: f.disk}
	if applies("defaults.machine.share_proto") {
		m.Share = config.Get[string](c, "defaults.machine.share_proto")
	}
	if applies("defaults.machine.qemu_extra_args") {
		m.Args = config.List[string](c, "defaults.machine.qemu_extra_args")
	}
	if m.Nested == nil && m.Persist == nil && m.Share == "" && m.Disk == "" && len(m.Args) == 0 {
		return nil, err
	}
	return &m, err
}

// Negation is a flag that sets another to the opposite.
type Negation struct{ Flag *pflag.Flag }

// String is empty: the other flag has the value.
func (n *Negation) String() string { return "" }

// Type is that of the other flag.
func (n *Negation) Type() string { return "bool" }

// Set sets the other flag.
func (n *Negation) Set(text string) error {
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("must be true or false")
	}
	if n.Flag.Changed && n.Flag.Value.String() == strconv.FormatBool(yes) {
		return fmt.Errorf("--%s says the opposite", n.Flag.Name)
	}
	n.Flag.Changed = true
	return n.Flag.Value.Set(strconv.FormatBool(!yes))
}

// VCPUs is a flag that sets another to a whole number.
type VCPUs struct{ Flag *pflag.Flag }

// String is empty: the other flag has the value.
func (p *VCPUs) String() string { return "" }

// Type is what the flag takes.
func (p *VCPUs) Type() string { return "int" }

// Set sets the other flag.
func (p *VCPUs) Set(text string) error {
	n, err := config.ParseCount(text)
	if err != nil {
		return err
	}
	if p.Flag.Changed && p.Flag.Value.String() != strconv.Itoa(n) {
		return fmt.Errorf("--%s says %s", p.Flag.Name, p.Flag.Value)
	}
	p.Flag.Changed = true
	return p.Flag.Value.Set(strconv.Itoa(n))
}
