//go:build !purego

package kinesistest

import "github.com/segmentio/asm/base64"

// encoding64 works by AVX2 where the processor has it, and leaves to the standard library what is short, or not base64.
var encoding64 = base64.StdEncoding
