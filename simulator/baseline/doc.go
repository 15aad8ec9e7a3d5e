// Package baseline has the rules by which other balancers of LLM inference place
// requests, each in the best form that its authors have published, as strategies
// of package virtual: what this project's own strategy is measured against.
//
// Every one can be run with what its gateway would know, and with perfect signals:
// "oracle:" before a name says so, and whoever runs it sets virtual.Config.Oracle.
// The package also has the placement and the engines of the ideal pool, whose
// replicas share one prefix cache.
//
// The command llmlb-sim calls it. A rule belongs to one gateway of one run and
// keeps nothing beyond it.
package baseline
