// Package replicas tests several servers of one fleet under load, killed at random
// instants.
package replicas
