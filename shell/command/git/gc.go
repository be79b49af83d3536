package git

// collectGarbage is git gc, prune and repack. It keeps every object as it is: an object that no ref reaches may still be
// one that a reflog or another command needs, and loose objects cost only space. It removes what no reader uses: temporary
// files that interrupted commands have left.
func (c *call) collectGarbage() error {
	if c.has("-n", "--dry-run") {
		return nil
	}
	names, err := c.p.ReadDir(c.common + "/objects")
	if err != nil {
		return err
	}
	for _, e := range names {
		if len(e.Name()) > 8 && e.Name()[:8] == "tmp_obj_" {
			if err := c.p.Unlink(c.common + "/objects/" + e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}
