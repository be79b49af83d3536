package previewserver

// Route is a port that is open, and its name.
type Route struct {
	Port    int    `json:"port"`
	Name    string `json:"name,omitempty"` // as .atoll.yaml has it
	Command string `json:"command,omitempty"`
	URL     string `json:"url,omitempty"`    // empty: no proxy leads to it from here
	Locked  bool   `json:"locked,omitempty"` // it opens to those who have a link
}
