//go:build !unix

package main

import "os/exec"

// ownGroup does nothing here: there are no process groups.
func ownGroup(*exec.Cmd) {}
