package config

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// checkAgentImage checks an entry of agents.images: AGENT=IMAGE.
func checkAgentImage(s string) error {
	name, image, ok := strings.Cut(s, "=")
	if !ok || image == "" || strings.ContainsAny(image, " \t\n") {
		return fmt.Errorf("%w: %q must be AGENT=IMAGE", atoll.ErrInvalid, s)
	}
	return atoll.CheckName(name)
}

// AgentImages returns the images of agents.images, by agent.
func AgentImages(list []string) map[string]string {
	images := make(map[string]string, len(list))
	for _, s := range list {
		name, image, _ := strings.Cut(s, "=") // it was checked
		images[name] = image
	}
	return images
}
