package wire

// Pull is what image to get.
type Pull struct {
	Ref    string `json:"ref"`
	Driver string `json:"driver,omitempty"` // empty: the first that keeps images
}
