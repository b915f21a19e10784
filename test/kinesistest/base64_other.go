//go:build !amd64 || purego

package kinesistest

import "encoding/base64"

var encoding64 = base64.StdEncoding
