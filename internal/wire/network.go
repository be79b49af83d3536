package wire

// NetworkChange is what is to become different in the rules of a sandbox's
// network. What is added to one list leaves the other.
type NetworkChange struct {
	Allow  []string `json:"allow,omitempty"`  // entries to allow
	Deny   []string `json:"deny,omitempty"`   // entries to deny
	Remove []string `json:"remove,omitempty"` // entries to take away, of both lists
}
