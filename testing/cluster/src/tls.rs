//! A certificate for the loopback address. Real clients send a token only over TLS.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) struct ServerIdentity {
    pub acceptor: TlsAcceptor,
    /// The certificate that clients must trust.
    pub certificate: Vec<u8>,
}

/// Creates a key and a certificate in `directory`.
pub(crate) fn make(directory: &Path) -> io::Result<ServerIdentity> {
    let (key, certificate) = (directory.join("key.pem"), directory.join("certificate.pem"));
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=kubernetes",
            "-addext",
            "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes",
        ])
        // Clients reject a CA certificate as a server certificate.
        .args([
            "-addext", "basicConstraints=critical,CA:FALSE", "-addext",
            "extendedKeyUsage=serverAuth",
        ])
        .args(["-addext", "keyUsage=critical,digitalSignature"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if !made.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
    }
    let certificates = CertificateDer::pem_file_iter(&certificate)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(io::Error::other)?;
    let private = PrivateKeyDer::from_pem_file(&key).map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(io::Error::other)?;
    let certificate = std::fs::read(certificate)?;
    Ok(ServerIdentity { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
}
