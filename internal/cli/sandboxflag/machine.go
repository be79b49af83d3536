package sandboxflag

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
)

// MachineDriver is the driver whose sandboxes are machines: what is configured of
// machines counts for its sandboxes only, what flags say for any, which may refuse
// it.
const MachineDriver = "microvm"

// addMachine adds what only a machine of its own has.
func (f *Flags) addMachine(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.Bool("nested", true, "allow nested VMs, if this host can (--no-nested: never)")
	fl.Bool("persist", true, "keep the disks of the VM when it stops (--no-persist: discard them)")
	for _, name := range []string{"nested", "persist"} {
		no := fl.VarPF(&Negation{Of: fl.Lookup(name)}, "no-"+name, "", "the opposite of --"+name)
		no.NoOptDefVal, no.Hidden = "true", true
	}
	fl.String("share", "", "`PROTOCOL` of --mount and --workspace in a VM: virtiofs or 9p (default: the best available)")
	fl.StringArray("qemu-arg", nil, "extra `ARGUMENT` of QEMU, of those that the driver allows (repeatable)")
	fl.StringVar(&f.disk, "use-disk", "", "use the kept disk `NAME`; see 'atoll disk'")
	fl.Var(&VCPUs{Of: fl.Lookup("cpus")}, "vcpus", "`NUMBER` of virtual processors of a VM: --cpus as a whole number")
}

// ofMachine returns the settings of a VM from flags and configuration; nil if there are none.
func (f *Flags) ofMachine(c *config.Config) *atoll.Machine {
	counts := func(name string) bool {
		s := c.Settings[name]
		return s.Key != nil && s.Origin != "default" && (config.Get[string](c, "driver") == MachineDriver || strings.HasPrefix(s.Origin, "--"))
	}
	truth := func(name string) *bool {
		if !counts(name) {
			return nil
		}
		b := config.Get[bool](c, name)
		return &b
	}
	m := atoll.Machine{Nested: truth("defaults.machine.nested_virt"), Persist: truth("defaults.machine.persist"), Disk: f.disk}
	if counts("defaults.machine.share_proto") {
		m.Share = config.Get[string](c, "defaults.machine.share_proto")
	}
	if counts("defaults.machine.qemu_extra_args") {
		m.Args = config.List[string](c, "defaults.machine.qemu_extra_args")
	}
	if m.Nested == nil && m.Persist == nil && m.Share == "" && m.Disk == "" && len(m.Args) == 0 {
		return nil
	}
	return &m
}

// Negation is a flag that sets another to the opposite.
type Negation struct{ Of *pflag.Flag }

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
	if n.Of.Changed && n.Of.Value.String() == strconv.FormatBool(yes) {
		return fmt.Errorf("--%s says the opposite", n.Of.Name)
	}
	n.Of.Changed = true
	return n.Of.Value.Set(strconv.FormatBool(!yes))
}

// VCPUs is a flag that sets another to a whole number.
type VCPUs struct{ Of *pflag.Flag }

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
	if p.Of.Changed && p.Of.Value.String() != strconv.Itoa(n) {
		return fmt.Errorf("--%s says %s", p.Of.Name, p.Of.Value)
	}
	p.Of.Changed = true
	return p.Of.Value.Set(strconv.Itoa(n))
}
