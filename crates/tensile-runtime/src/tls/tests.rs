// SPDX-License-Identifier: Apache-2.0
//! Real handshakes against a certificate whose files change as mounted Secrets do.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use super::*;

/// A directory laid out as the kubelet mounts a Secret: `tls.crt -> ..data/tls.crt`, `..data -> ..N`.
struct MountedSecret {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
    generation: u32,
}

impl MountedSecret {
    fn new() -> Self {
        let issuer =
            CertifiedIssuer::self_signed(CertificateParams::new(Vec::new()).unwrap(), KeyPair::generate().unwrap());
        let secret = Self { dir: tempfile::tempdir().unwrap(), issuer: issuer.unwrap(), generation: 0 };
        for file in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{file}"), secret.dir.path().join(file)).unwrap();
        }
        secret
    }

    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    /// Swaps the content as one rename, as the kubelet does.
    fn swap(&mut self, cert: &str, key: &str) {
        self.generation += 1;
        let name = format!("..{}", self.generation);
        let path = self.dir.path().join(&name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("tls.crt"), cert).unwrap();
        std::fs::write(path.join("tls.key"), key).unwrap();
        let link = self.dir.path().join("..data_tmp");
        symlink(&name, &link).unwrap();
        std::fs::rename(&link, self.dir.path().join("..data")).unwrap();
    }

    fn load(&self) -> Result<CertificateFiles, FileError> {
        CertificateFiles::load(&self.dir.path().join("tls.crt"), &self.dir.path().join("tls.key"))
    }

    /// Whether a client that trusts the issuer accepts what is served as `name`.
    async fn serves(&self, files: &CertificateFiles, name: &str) -> bool {
        self.accepts(&files.served(), name).await
    }

    /// The same of what is served from elsewhere.
    async fn accepts(&self, served: &Arc<ServedCertificate>, name: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let (near, far) = tokio::io::duplex(16 << 10);
        let acceptor = TlsAcceptor::from(Arc::new(served.server_config()));
        let connector = TlsConnector::from(Arc::new(client));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let (_, connected) = tokio::join!(
            async {
                let mut stream = acceptor.accept(far).await?;
                stream.write_all(b"x").await
            },
            connector.connect(name, near)
        );
        connected.is_ok()
    }
}

#[tokio::test]
async fn a_swapped_secret_is_served_without_a_restart() {
    let mut secret = MountedSecret::new();
    let (cert, key) = secret.issue("first.example");
    secret.swap(&cert, &key);
    let served = secret.load().unwrap();
    assert!(secret.serves(&served, "first.example").await);
    assert!(!served.reload().unwrap(), "nothing changed yet");

    let (cert, key) = secret.issue("second.example");
    secret.swap(&cert, &key);
    assert!(served.reload().unwrap());
    assert!(secret.serves(&served, "second.example").await);
    assert!(!secret.serves(&served, "first.example").await);
}

#[tokio::test]
async fn a_key_that_does_not_fit_leaves_the_old_certificate_in_place() {
    let mut secret = MountedSecret::new();
    let (cert, key) = secret.issue("first.example");
    secret.swap(&cert, &key);
    let served = secret.load().unwrap();

    let (other, _) = secret.issue("second.example");
    secret.swap(&other, &key);
    assert!(matches!(served.reload(), Err(FileError::Mismatch { .. })));
    assert!(secret.serves(&served, "first.example").await);
}

#[tokio::test(start_paused = true)]
async fn the_files_are_followed_until_told_to_stop() {
    let mut secret = MountedSecret::new();
    let (cert, key) = secret.issue("first.example");
    secret.swap(&cert, &key);
    let files = secret.load().unwrap();
    let served = files.served();
    let stop = CancellationToken::new();
    let following = tokio::spawn(files.follow(RELOAD_EVERY, stop.clone()));

    let (cert, key) = secret.issue("second.example");
    secret.swap(&cert, &key);
    tokio::time::sleep(RELOAD_EVERY * 2).await;
    assert!(secret.accepts(&served, "second.example").await);
    stop.cancel();
    following.await.unwrap();
}

#[test]
fn a_file_that_is_wrong_is_named() {
    let mut secret = MountedSecret::new();
    let (cert, key) = secret.issue("a.example");
    let path = secret.dir.path().join("tls.key").display().to_string();
    secret.swap(&cert, "no key");
    assert_eq!(secret.load().unwrap_err().to_string(), format!("{path} holds no PEM private key"));
    secret.swap("no certificate", &key);
    assert!(matches!(secret.load(), Err(FileError::NoCertificate { .. })));
    let missing = CertificateFiles::load(Path::new("/nowhere/tls.crt"), Path::new("/nowhere/tls.key")).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read /nowhere/tls.crt: "), "{missing}");
}

#[test]
fn a_debug_print_shows_no_key() {
    let mut secret = MountedSecret::new();
    let (cert, key) = secret.issue("a.example");
    secret.swap(&cert, &key);
    let shown = format!("{:?}", secret.load().unwrap());
    assert!(!shown.contains("PRIVATE") && !shown.contains("key_pem"), "{shown}");
}

#[tokio::test]
async fn without_a_certificate_no_handshake_succeeds() {
    let secret = MountedSecret::new();
    assert!(!secret.accepts(&ServedCertificate::none(), "a.example").await);
}

#[test]
fn only_within_its_validity_a_certificate_can_be_accepted() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    // 2026-01-01T00:00:00Z and a minute later.
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = params.not_before + Duration::from_secs(60);
    let cert = params.self_signed(&key).unwrap();
    let served = ServedCertificate::none();
    assert_eq!(served.check(at(0)).unwrap_err(), "there is no certificate yet");
    served.replace(cert.pem().into_bytes(), key.serialize_pem().into_bytes()).unwrap();
    assert_eq!(served.validity(), Some(Validity { from: at(1_767_225_600), until: at(1_767_225_660) }));
    assert_eq!(served.check(at(1_767_225_599)).unwrap_err(), "the certificate is valid from 2026-01-01T00:00:00Z");
    assert_eq!(served.check(at(1_767_225_600)), Ok(()));
    assert_eq!(served.check(at(1_767_225_660)), Ok(()));
    assert_eq!(served.check(at(1_767_225_661)).unwrap_err(), "the certificate expired at 2026-01-01T00:01:00Z");
}
