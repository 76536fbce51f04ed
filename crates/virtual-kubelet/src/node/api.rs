// SPDX-License-Identifier: Apache-2.0
//! One object of the API server as raw JSON, so that fields unknown to this build survive a round trip.

use std::time::Duration;

use kube::{
    Client,
    core::{
        Request,
        params::{GetParams, Patch, PatchParams, PostParams},
        request::Error as RequestError,
    },
};
use serde_json::{Value, json};

/// Why a request about an object failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// There is no such object (404).
    #[error("the object does not exist")]
    NotFound,
    /// It is there already, or another one than the request was meant for (409).
    #[error("{0}")]
    Conflict(String),
    /// No answer within this time.
    #[error("no answer from the API server within {0:?}")]
    Timeout(Duration),
    /// The API server says no, in its own words.
    #[error("the API server answered {code}: {message}")]
    Refused {
        /// HTTP status code.
        code: u16,
        /// Its words.
        message: String,
    },
    /// The request did not get through, or the answer is not understood.
    #[error(transparent)]
    Failed(kube::Error),
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                404 => Self::NotFound,
                409 => Self::Conflict(status.message),
                code => Self::Refused { code, message: status.message },
            },
            other => Self::Failed(other),
        }
    }
}

/// Requests about one object. Each is cut off after a time: on a half-open connection it would wait for ever.
pub(super) struct RawApi {
    client: Client,
    collection: Request,
    name: String,
    timeout: Duration,
}

impl RawApi {
    /// The object `name` in the collection at `path`, for instance `/api/v1/nodes`.
    pub(super) fn new(client: Client, path: &str, name: &str, timeout: Duration) -> Self {
        Self { client, collection: Request::new(path), name: name.to_owned(), timeout }
    }

    pub(super) async fn get(&self) -> Result<Value, ApiError> {
        self.send(self.collection.get(&self.name, &GetParams::default())).await
    }

    pub(super) async fn create(&self, object: &Value) -> Result<Value, ApiError> {
        self.send(self.collection.create(&PostParams::default(), object.to_string().into_bytes())).await
    }

    pub(super) async fn replace(&self, object: &Value) -> Result<Value, ApiError> {
        self.send(self.collection.replace(&self.name, &PostParams::default(), object.to_string().into_bytes())).await
    }

    pub(super) async fn patch_status(&self, patch: Value) -> Result<Value, ApiError> {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        self.send(self.collection.patch_subresource("status", &self.name, &params, &patch)).await
    }

    async fn send(&self, request: Result<http::Request<Vec<u8>>, RequestError>) -> Result<Value, ApiError> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(ApiError::Timeout(self.timeout)),
        }
    }
}

/// Sets the member at `path`, making objects on the way where there are none.
pub(super) fn set(value: &mut Value, path: &[&str], member: Value) {
    let Some((key, rest)) = path.split_first() else {
        *value = member;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    if let Some(object) = value.as_object_mut() {
        set(object.entry(*key).or_insert(Value::Null), rest, member);
    }
}
