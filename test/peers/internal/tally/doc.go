// Package tally counts what a consumer that is measured is given and prints what it took, the same way for all of them.
package tally
