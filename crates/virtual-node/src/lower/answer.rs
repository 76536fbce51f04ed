// SPDX-License-Identifier: Apache-2.0
//! Answers of the lower API server, in the terms of the pod's owner.

use kube::core::Status;
use virtual_kubelet::pod::{PodError, Refused};

/// The reason of a refusal for want of a right.
pub(crate) const FORBIDDEN: &str = "LowerForbidden";

/// What an error of a request for a pod means for it.
///
/// A client error is the lower cluster's no to this pod and is passed on in the server's own words. Everything else is
/// the cluster's trouble, not the pod's.
pub(crate) fn pod_error(error: &kube::Error) -> PodError {
    match error {
        kube::Error::Api(status) if is_refusal(status) => {
            PodError::Refused(Refused { reason: reason(status), message: status.message.clone() })
        }
        kube::Error::Api(status) => PodError::Unavailable(format!("lower API server: {}", status.message)),
        other => PodError::Unavailable(format!("lower API server: {other}")),
    }
}

/// What an error of the upper API server means for a pod. What is not allowed there is for the operator of the virtual node
/// to mend, and said on the pod.
pub(crate) fn upper_error(error: &kube::Error) -> PodError {
    match error {
        kube::Error::Api(status) if status.code == 403 => PodError::Refused(Refused {
            reason: "UpperForbidden",
            message: format!("the virtual node may not handle what the pod refers to: {}", status.message),
        }),
        kube::Error::Api(status) => PodError::Unavailable(format!("upper API server: {}", status.message)),
        other => PodError::Unavailable(format!("upper API server: {other}")),
    }
}

/// 401 says that our credentials have expired, 404 that something vanished meanwhile, 408 and 429 ask for patience.
fn is_refusal(status: &Status) -> bool {
    // A new quota is not counted yet (Kubernetes `apiserver/pkg/admission/plugin/resourcequota/controller.go`).
    let is_new_quota = status.code == 403 && status.message.contains("status unknown for quota");
    (400..500).contains(&status.code) && !matches!(status.code, 401 | 404 | 408 | 429) && !is_new_quota
}

fn reason(status: &Status) -> &'static str {
    let says = |words: &str| status.message.contains(words);
    match status.code {
        // The second: the quota counts what the pod does not say.
        403 if says("exceeded quota") || says("failed quota") => "LowerQuotaExceeded",
        403 if says("because it is being terminated") => "LowerNamespaceTerminating",
        // A webhook, or a ValidatingAdmissionPolicy; either chooses the code.
        _ if says("denied the request") || says(" denied request: ") => "LowerAdmissionDenied",
        403 => FORBIDDEN,
        400 | 422 => "LowerInvalid",
        _ => "LowerRejected",
    }
}

/// Whether the pod could not be created because its namespace does not exist.
pub(crate) fn lacks_namespace(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the pod could not be created because its namespace is so new that it has no service account yet
/// (Kubernetes `plugin/pkg/admission/serviceaccount/admission.go`).
pub(crate) fn lacks_service_account(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && status.message.contains("error looking up service account"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    #[test]
    fn a_no_to_the_pod_is_told_in_the_servers_own_words() {
        for (code, message, expected) in [
            (403, "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1", "LowerQuotaExceeded"),
            (403, "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu", "LowerQuotaExceeded"),
            (
                403,
                "unable to create new content in namespace n because it is being terminated",
                "LowerNamespaceTerminating",
            ),
            (400, "admission webhook \"w\" denied the request: no", "LowerAdmissionDenied"),
            (422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "LowerAdmissionDenied"),
            (403, "pods is forbidden: User \"x\" cannot create resource", "LowerForbidden"),
            (422, "Pod \"a\" is invalid: spec", "LowerInvalid"),
            (405, "nope", "LowerRejected"),
        ] {
            let PodError::Refused(refused) = pod_error(&answer(code, message)) else { panic!("{code} is a refusal") };
            assert_eq!((refused.reason, refused.message.as_str()), (expected, message));
        }
    }

    #[test]
    fn trouble_of_the_cluster_is_not_the_pods() {
        for code in [401, 404, 408, 429, 500, 503] {
            assert!(matches!(pod_error(&answer(code, "x")), PodError::Unavailable(_)), "{code}");
        }
        let new = answer(403, "pods \"a\" is forbidden: status unknown for quota: q, resources: pods");
        assert!(matches!(pod_error(&new), PodError::Unavailable(_)));
    }
}
