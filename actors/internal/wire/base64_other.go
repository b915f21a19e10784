//go:build !amd64 || purego

package wire

import "encoding/base64"

var encoding64 = base64.StdEncoding
