package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// verbLayers asks which files a VM writes to; verbAddLayer makes it write to others. See VM.AddLayer.
const (
	verbLayers   verb = "layers"
	verbAddLayer verb = "add layer"
)

// maxLayerName is the size limit of the name of a layer: QEMU's names have at most 31 characters.
const maxLayerName = 20

// AddLayer makes a running VM write to new files instead of those of its disks, which it only reads from
// then on. files are empty qcow2 files, open for reading and writing, one for each disk in the order of
// Config.Disks; the caller closes them. All disks change at the same instant, or none. The name, which is
// new, has 1 to 20 letters, digits, '-' and '_'. Beforehand, the guest must have written what is to be in
// the files of before; afterwards the caller configures the next start accordingly.
func (m *VM) AddLayer(ctx context.Context, name string, files []*os.File) error {
	if !isName(name, maxLayerName) {
		return fmt.Errorf("%w: layer %q: must be 1 to %d letters, digits, '-' and '_'", atoll.ErrInvalid, name, maxLayerName)
	}
	_, err := m.askMonitor(ctx, question{Do: verbAddLayer, Layer: name}, files...)
	return err
}

// HasLayer reports whether a VM writes to the files of AddLayer with a name. A monitor of an older
// atoll does not know the question, which is an error.
func (m *VM) HasLayer(ctx context.Context, name string) (bool, error) {
	r, err := m.askMonitor(ctx, question{Do: verbLayers})
	if err != nil {
		return false, err
	}
	for _, node := range r.Layers {
		if _, layer, ok := strings.Cut(node, layerMark); ok && layer == name {
			return true, nil
		}
	}
	return false, nil
}

// layerMark separates the name of a layer from the disk's in the name of a node, such as d0-NAME. The
// nodes of diskArgs have no such mark.
const layerMark = "-"

// listLayers returns the names of the nodes that the VM's disks write to.
func (c *qemuControl) listLayers(ctx context.Context) ([]string, error) {
	var disks []struct {
		Inserted struct {
			Node string `json:"node-name"`
		} `json:"inserted"`
	}
	if err := c.runQuery(ctx, "query-block", nil, &disks); err != nil {
		return nil, err
	}
	list := make([]string, len(disks))
	for i, d := range disks {
		list[i] = printableLine(d.Inserted.Node, maxShown)
	}
	return list, nil
}

// addLayer puts a new file over each disk. QEMU adds the files first, and then changes all disks in one
// transaction.
func (c *qemuControl) addLayer(ctx context.Context, name string, files []*os.File) (err error) {
	tops, err := c.listLayers(ctx)
	if err != nil {
		return err
	}
	if len(files) != len(tops) {
		return fmt.Errorf("%w: a layer of %d files: the VM has %d disks", atoll.ErrInvalid, len(files), len(tops))
	}
	type action struct {
		Type string            `json:"type"`
		Data map[string]string `json:"data"`
	}
	var actions []action
	var added []string
	defer func() {
		if err == nil {
			return
		}
		for i := len(added) - 1; i >= 0; i-- {
			_ = c.runCommand(ctx, "blockdev-del", map[string]string{"node-name": added[i]}) // the error above is the cause
		}
	}()
	for i, f := range files {
		node := diskOf(tops[i]) + layerMark + name
		if err := c.addFileNode(ctx, node+".f", f); err != nil {
			return err
		}
		added = append(added, node+".f")
		image := map[string]any{"node-name": node, "driver": "qcow2", "file": node + ".f", "backing": nil, "discard": "unmap"}
		if err := c.runCommand(ctx, "blockdev-add", image); err != nil {
			return err
		}
		added = append(added, node)
		actions = append(actions, action{"blockdev-snapshot", map[string]string{"node": tops[i], "overlay": node}})
	}
	return c.runCommand(ctx, "transaction", map[string]any{"actions": actions})
}

// addFileNode adds a node for a file, which QEMU gets as a descriptor.
func (c *qemuControl) addFileNode(ctx context.Context, node string, f *os.File) error {
	var set struct {
		ID int `json:"fdset-id"`
	}
	if err := c.runQuery(ctx, "add-fd", nil, &set, f); err != nil {
		return err
	}
	file := map[string]any{"node-name": node, "driver": "file", "filename": fmt.Sprintf("/dev/fdset/%d", set.ID), "discard": "unmap"}
	if err := c.runCommand(ctx, "blockdev-add", file); err != nil {
		return errors.Join(err, c.runCommand(ctx, "remove-fd", map[string]int{"fdset-id": set.ID}))
	}
	return nil
}

// diskOf returns the part of a node's name that names its disk: d0 of d0l0 and of d0-NAME.
func diskOf(node string) string {
	if disk, _, ok := strings.Cut(node, layerMark); ok {
		return disk
	}
	disk, _, _ := strings.Cut(node, "l")
	return disk
}
