// SPDX-License-Identifier: Apache-2.0
//! The controller against an API server that decides at once, or not.

use std::{collections::BTreeMap, convert::Infallible, sync::Mutex};

use http::{Method, Request as HttpRequest, Response};
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// An upper cluster, as far as certificates go.
#[derive(Default)]
struct Upper {
    requests: Mutex<BTreeMap<String, CertificateSigningRequest>>,
    /// Reason and note of each.
    events: Mutex<Vec<(String, String)>>,
    /// How often somebody looked at a request.
    looks: Mutex<u32>,
    /// So many creations are answered 500 after they were done.
    lost: Mutex<u32>,
}

impl Upper {
    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let mut requests = self.requests.lock().unwrap();
        if path.contains("/events/") {
            // Told before: counted.
            return (200, serde_json::from_slice(body).unwrap());
        }
        if path.ends_with("/events") {
            let event: Value = serde_json::from_slice(body).unwrap();
            let text = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
            assert_eq!(
                (event["regarding"]["kind"].as_str(), event["regarding"]["uid"].as_str()),
                (Some("Node"), Some("edge"))
            );
            self.events.lock().unwrap().push((text("reason"), text("note")));
            return (201, event);
        }
        if method == Method::POST {
            let object: CertificateSigningRequest = serde_json::from_slice(body).unwrap();
            let name = object.metadata.name.clone().unwrap();
            if requests.contains_key(&name) {
                return (409, json!({"kind": "Status", "code": 409, "status": "Failure", "reason": "AlreadyExists"}));
            }
            requests.insert(name, object.clone());
            let mut lost = self.lost.lock().unwrap();
            if *lost > 0 {
                *lost -= 1;
                return (500, json!({"kind": "Status", "code": 500, "status": "Failure", "message": "etcd"}));
            }
            return (201, serde_json::to_value(object).unwrap());
        }
        *self.looks.lock().unwrap() += 1;
        match requests.get(path.rsplit('/').next().unwrap()) {
            Some(object) => (200, serde_json::to_value(object).unwrap()),
            None => (404, json!({"kind": "Status", "code": 404, "status": "Failure", "reason": "NotFound"})),
        }
    }

    fn client(self: &Arc<Self>) -> Client {
        let upper = self.clone();
        let service = tower::service_fn(move |request: HttpRequest<Body>| {
            let upper = upper.clone();
            async move {
                let (parts, body) = request.into_parts();
                let path = parts.uri.path();
                assert!(path.starts_with(REQUESTS) || path.contains("/events"), "nobody asks for {path}");
                let body = body.collect_bytes().await.unwrap();
                let (code, answer) = upper.answer(&parts.method, path, &body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        Client::new(service, "default")
    }

    /// Does something to every request, and returns the names.
    fn decide(&self, mut decision: impl FnMut(&mut CertificateSigningRequest)) -> Vec<String> {
        let mut requests = self.requests.lock().unwrap();
        requests.values_mut().for_each(&mut decision);
        requests.keys().cloned().collect()
    }

    fn sign(&self) -> Vec<String> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        self.decide(|object| {
            let pem = String::from_utf8(object.spec.request.0.clone()).unwrap();
            let signed = CertificateSigningRequestParams::from_pem(&pem).unwrap().signed_by(&issuer).unwrap();
            object.status = serde_json::from_value(json!({
                "conditions": [{"type": "Approved", "status": "True"}],
                "certificate": k8s_openapi::ByteString(signed.pem().into_bytes()),
            }))
            .unwrap();
        })
    }

    fn deny(&self) {
        let denied =
            json!({"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": "not you"}]});
        self.decide(|object| object.status = serde_json::from_value(denied.clone()).unwrap());
    }

    fn reasons(&self) -> Vec<String> {
        self.events.lock().unwrap().iter().map(|(reason, _)| reason.clone()).collect()
    }
}

struct Scene {
    upper: Arc<Upper>,
    certificate: Arc<ServingCertificate>,
    addresses: watch::Sender<Addresses>,
    registry: Registry,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Scene {
    fn start(upper: Upper) -> Self {
        let upper = Arc::new(upper);
        let addresses: Addresses = ["192.0.2.1".to_owned()].into();
        let certificate = ServingCertificate::self_signed("edge", &addresses).unwrap();
        let ((addresses, receiver), registry) = (watch::channel(addresses), Registry::new());
        let controller =
            CertificateController::new(upper.client(), certificate.clone(), "edge", receiver, &registry).unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(controller.run(stop.clone()));
        Self { upper, certificate, addresses, registry, stop, running }
    }

    fn shown(&self) -> Vec<u8> {
        self.certificate.current.load().cert[0].to_vec()
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        let waited = timeout(Duration::from_secs(60), async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        waited.await.expect("it never comes true");
    }

    fn metric(&self, name: &str) -> String {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>().join("\n")
    }
}

#[tokio::test]
async fn what_is_approved_is_shown_and_what_was_shown_stays_until_then() {
    let scene = Scene::start(Upper::default());
    let own = scene.shown();
    scene.until(|| !scene.upper.requests.lock().unwrap().is_empty()).await;
    scene.until(|| *scene.upper.looks.lock().unwrap() == 2).await;
    assert!(scene.shown() == own, "nobody approved anything");
    assert!(scene.metric("tensile_serving_certificate_request_undecided").ends_with(" 1"));
    assert_eq!(scene.upper.sign().len(), 1, "one request, however often it is looked at");
    scene.until(|| scene.shown() != own).await;
    let (_, shown) = x509_parser::parse_x509_certificate(&scene.shown())
        .map(|(rest, c)| (rest.len(), c.subject().to_string()))
        .unwrap();
    assert!(shown.contains("CN=system:node:edge"), "{shown}");
    scene.until(|| scene.metric("tensile_serving_certificate_request_undecided").ends_with(" 0")).await;
    assert!(scene.metric("tensile_serving_certificate_requests_total").contains(r#"result="issued"} 1"#));
    assert_eq!(scene.upper.reasons(), ["CertificateRequested"]);
    scene.stop.cancel();
    scene.running.await.unwrap();
}

#[tokio::test]
async fn what_is_denied_is_told_with_its_words_on_the_node() {
    let scene = Scene::start(Upper::default());
    scene.until(|| !scene.upper.requests.lock().unwrap().is_empty()).await;
    scene.upper.deny();
    scene.until(|| scene.upper.reasons().len() == 2).await;
    let (reason, note) = scene.upper.events.lock().unwrap()[1].clone();
    assert_eq!(reason, "CertificateRefused");
    assert!(
        note.starts_with("CertificateSigningRequest edge-") && note.ends_with(": was denied: No: not you"),
        "{note}"
    );
    scene.until(|| scene.metric("tensile_serving_certificate_requests_total").contains(r#"result="denied"} 1"#)).await;
    scene.stop.cancel();
    scene.running.await.unwrap();
}

#[tokio::test]
async fn a_request_whose_answer_was_lost_is_not_made_twice() {
    let scene = Scene::start(Upper { lost: Mutex::new(1), ..Upper::default() });
    scene.until(|| scene.upper.reasons() == ["CertificateRequested"]).await;
    assert_eq!(scene.upper.sign().len(), 1);
}

#[tokio::test]
async fn a_new_address_is_asked_for_at_once() {
    let scene = Scene::start(Upper::default());
    scene.until(|| !scene.upper.requests.lock().unwrap().is_empty()).await;
    scene.addresses.send_replace(["192.0.2.2".to_owned()].into());
    scene.until(|| scene.upper.requests.lock().unwrap().len() == 2).await;
    let own = scene.shown();
    scene.upper.sign();
    scene.until(|| scene.shown() != own).await;
    let shown = scene.shown();
    assert!(shown.windows(6).any(|window| window == [0x87, 4, 192, 0, 2, 2]), "it is for the new address");
}

#[tokio::test]
async fn a_request_that_was_removed_is_told_too() {
    let scene = Scene::start(Upper::default());
    scene.until(|| !scene.upper.requests.lock().unwrap().is_empty()).await;
    scene.upper.requests.lock().unwrap().clear();
    scene.until(|| scene.upper.reasons() == ["CertificateRequested", "CertificateRefused"]).await;
    assert!(scene.metric("tensile_serving_certificate_requests_total").contains(r#"result="removed"} 1"#));
}
