// SPDX-License-Identifier: Apache-2.0
//! What a request says, read by another parser, and what its answer means.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::certificates::v1::CertificateSigningRequestStatus;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, IsCa, date_time_ymd,
};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509CertificationRequest};

use super::*;

fn request() -> Request {
    let addresses = ["192.0.2.7", "2001:db8::7", "edge-1.example.org"].map(str::to_owned).into();
    Request::new("edge-1", &addresses).unwrap()
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The request, signed for the time between two years.
fn signed(request: &Request, from: i32, until: i32) -> Vec<u8> {
    let mut params = CertificateSigningRequestParams::from_pem(&request.pem).unwrap();
    params.params.not_before = date_time_ymd(from, 1, 1);
    params.params.not_after = date_time_ymd(until, 1, 1);
    params.signed_by(&authority()).unwrap().pem().into_bytes()
}

#[test]
fn a_request_is_what_the_signer_of_kubelets_takes() {
    let request = request();
    let object = request.object();
    assert_eq!(object.spec.signer_name, "kubernetes.io/kubelet-serving");
    assert_eq!(object.spec.usages.unwrap(), ["digital signature", "server auth"]);
    let (_, pem) = x509_parser::pem::parse_x509_pem(&object.spec.request.0).unwrap();
    assert_eq!(pem.label, "CERTIFICATE REQUEST");
    let (_, csr) = X509CertificationRequest::from_der(&pem.contents).unwrap();
    let subject = &csr.certification_request_info.subject;
    let texts = |names: Vec<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
        names.into_iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts(subject.iter_organization().collect()), ["system:nodes"]);
    assert_eq!(texts(subject.iter_common_name().collect()), ["system:node:edge-1"]);
    let names: Vec<String> = csr
        .requested_extensions()
        .unwrap()
        .filter_map(|extension| match extension {
            ParsedExtension::SubjectAlternativeName(names) => Some(names.general_names.clone()),
            _ => None,
        })
        .flatten()
        .map(|name| match name {
            GeneralName::DNSName(name) => name.to_owned(),
            GeneralName::IPAddress(bytes) => match bytes.len() {
                4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap())).to_string(),
                _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap())).to_string(),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["192.0.2.7", "2001:db8::7", "edge-1.example.org"]);
}

#[test]
fn a_requests_name_tells_the_node_is_its_keys_own_and_is_one_that_api_servers_take() {
    let (one, two) = (request(), request());
    assert_eq!(one.name(), one.object().metadata.name.unwrap());
    assert_ne!(one.name(), two.name());
    let (node, random) = one.name().rsplit_once('-').unwrap();
    assert_eq!(node, "edge-1");
    assert!(random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit()), "{random}");

    let long = format!("{}.{}", "a".repeat(199), "b".repeat(50));
    let name = Request::new(&long, &["192.0.2.7".to_owned()].into()).unwrap().name().to_owned();
    assert!(name.len() <= 253 && name.starts_with(&format!("{}-", "a".repeat(199))), "{name}");
}

#[test]
fn what_is_signed_can_be_shown_while_it_holds() {
    let request = request();
    let now = "2026-06-01T00:00:00Z".parse().unwrap();
    let (certified, validity) = request.certified(&signed(&request, 2026, 2027), now).unwrap();
    assert_eq!(certified.cert.len(), 1);
    let expected =
        Validity { from: "2026-01-01T00:00:00Z".parse().unwrap(), until: "2027-01-01T00:00:00Z".parse().unwrap() };
    assert_eq!(validity, expected);
}

#[test]
fn what_cannot_be_shown_is_told() {
    let request = request();
    let now = "2026-06-01T00:00:00Z".parse().unwrap();
    let reason = |pem: &[u8]| request.certified(pem, now).unwrap_err().to_string();
    assert_eq!(reason(b"nothing"), "what was issued cannot be shown: it holds no PEM certificate");
    assert_eq!(reason(&signed(&request, 2024, 2025)), "what was issued cannot be shown: it has run out already");
    let foreign = signed(&self::request(), 2026, 2027);
    assert!(reason(&foreign).starts_with("what was issued cannot be shown: "), "of another key");
}

#[test]
fn no_key_is_in_a_debug_print() {
    let request = request();
    assert_eq!(format!("{request:?}"), format!("Request {{ name: {:?}, .. }}", request.name()));
}

fn condition(kind: &str, reason: &str, message: &str) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..CertificateSigningRequestCondition::default()
    }
}

#[test]
fn what_became_of_a_request_is_read_from_its_conditions() {
    let read = |conditions: Vec<CertificateSigningRequestCondition>, certificate: &[u8]| {
        let status = CertificateSigningRequestStatus {
            conditions: Some(conditions),
            certificate: Some(ByteString(certificate.to_vec())),
        };
        outcome(&CertificateSigningRequest { status: Some(status), ..request().object() })
    };
    let approved = || condition("Approved", "KubectlApprove", "");
    assert_eq!(outcome(&request().object()), Outcome::Undecided);
    assert_eq!(read(vec![], b""), Outcome::Undecided);
    assert_eq!(read(vec![approved()], b""), Outcome::Unsigned);
    assert_eq!(read(vec![approved()], b"PEM"), Outcome::Issued(b"PEM".to_vec()));
    assert_eq!(
        read(vec![condition("Denied", "KubectlDeny", "not today")], b""),
        Outcome::Denied("KubectlDeny: not today".to_owned())
    );
    assert_eq!(
        read(vec![approved(), condition("Failed", "SignerValidationFailure", "")], b""),
        Outcome::Failed("SignerValidationFailure".to_owned())
    );
}
