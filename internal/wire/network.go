package wire

// NetworkChange is a change of a sandbox's network rules. An entry that is added to one list is
// removed from the other.
type NetworkChange struct {
	Allow  []string `json:"allow,omitempty"`  // entries to allow
	Deny   []string `json:"deny,omitempty"`   // entries to deny
	Remove []string `json:"remove,omitempty"` // entries to remove from both lists
}
