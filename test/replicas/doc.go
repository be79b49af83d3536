// Package replicas tests several servers of one fleet under load while they are killed
// at random times.
package replicas
