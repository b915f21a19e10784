package remoting

import (
	"crypto/tls"
	"crypto/x509"
)

// WithMutualTLS encrypts and lets only nodes connect, and connects only to nodes, whose certificate was issued by one of the authorities. The
// certificate must be good for the host of this node's address, and for use as server and as client. It panics without authorities: whoever this
// machine trusts otherwise, such as any web site's, is not to be a node.
func WithMutualTLS(certificate tls.Certificate, authorities *x509.CertPool) Option {
	if authorities == nil {
		panic("remoting: mutual TLS needs the authorities that issue the nodes' certificates")
	}
	server := &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
		MinVersion: tls.VersionTLS12,
	}
	client := &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return WithTLS(server, client)
}
