// Package soak checks the log of a long random run against what the library promises.
//
// It is pure and knows nothing of the library: it is given what the service has stored, and the log of what a consumer's nodes did,
// in the order in which they did it. [Check] goes through the log once and says which rules do not hold. The run itself is TestSoak of the
// directory above.
package soak
