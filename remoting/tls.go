package remoting

import (
	"crypto/tls"
	"crypto/x509"
)

// WithMutualTLS encrypts and lets only nodes connect, and connects only to nodes, whose certificate was issued by one of the authorities. The
// certificate must be good for the host of this node's address, and for use as server and as client.
func WithMutualTLS(certificate tls.Certificate, authorities *x509.CertPool) Option {
	server := &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
		MinVersion: tls.VersionTLS12,
	}
	client := &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return WithTLS(server, client)
}
