//! Pods that cannot run below, and what their owner can do about it.

/// Why a pod cannot run in a lower cluster. Displayed, it is a sentence for the pod's owner.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The object lacks what every pod has.
    #[error("{0} is missing or malformed; the pod cannot be read")]
    Malformed(String),
}

impl Refusal {
    /// One CamelCase word, for conditions, events and waiting reasons.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "MalformedPod",
        }
    }
}
