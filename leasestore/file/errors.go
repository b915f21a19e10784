package file

import "errors"

// Errors of Open; each is wrapped with the path and what to do.
var (
	// ErrLocked: another Store, usually of another process, has the file open.
	ErrLocked = errors.New("lease file: locked")
	// ErrCorrupt: the file is damaged, cut short, or no lease file at all. It is left as it is. Calls on an open
	// store return it, too, when the file is damaged meanwhile.
	ErrCorrupt = errors.New("lease file: corrupt")
	// ErrFormat: a database, but not in a format that this version reads. It is left as it is.
	ErrFormat = errors.New("lease file: unknown format")
)
