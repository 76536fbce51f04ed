// SPDX-License-Identifier: Apache-2.0
//! A controller at work: what it is made of, and what tests wait for.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::json;
use tokio::task::JoinHandle;

use super::*;

/// A provider whose pings and node a test decides.
pub(super) struct Scripted {
    /// Outcomes of the next pings; the last one stays. None never answers.
    pub(super) pings: Mutex<VecDeque<Option<Result<(), String>>>>,
    pub(super) pinged: AtomicUsize,
    pub(super) node: Mutex<Value>,
    pub(super) changed: Notify,
}

impl Scripted {
    pub(super) fn set_pings(&self, pings: &[Option<Result<(), &str>>]) {
        *self.pings.lock().unwrap() =
            pings.iter().map(|ping| ping.map(|ping| ping.map_err(ToOwned::to_owned))).collect();
    }

    pub(super) fn set_ready(&self, status: &str) {
        self.node.lock().unwrap()["status"]["conditions"][0]["status"] = status.into();
        self.changed.notify_one();
    }

    pub(super) fn set_cpu(&self, cpu: &str) {
        self.node.lock().unwrap()["status"]["allocatable"]["cpu"] = cpu.into();
        self.changed.notify_one();
    }
}

impl NodeProvider for Scripted {
    async fn ping(&self) -> Result<(), String> {
        self.pinged.fetch_add(1, Ordering::Relaxed);
        let outcome = {
            let mut pings = self.pings.lock().unwrap();
            if pings.len() > 1 { pings.pop_front().unwrap() } else { pings[0].clone() }
        };
        match outcome {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    fn node(&self) -> Value {
        self.node.lock().unwrap().clone()
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// A controller at work.
pub(super) struct Scene {
    pub(super) fake: Fake,
    pub(super) provider: Arc<Scripted>,
    pub(super) state: watch::Receiver<NodeState>,
    pub(super) begin: Instant,
    pub(super) token: CancellationToken,
    pub(super) run: JoinHandle<Result<(), NodeError>>,
}

impl Scene {
    pub(super) fn begin(fake: &Fake, pings: &[Option<Result<(), &str>>]) -> Self {
        let node = json!({
            "metadata": {"labels": {"type": "virtual-kubelet"}},
            "spec": {"taints": [{"key": "virtual-kubelet.io/provider", "value": "test", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "1"}, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"},
                {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
            ]},
        });
        let provider = Arc::new(Scripted {
            pings: Mutex::default(),
            pinged: AtomicUsize::new(0),
            node: Mutex::new(node),
            changed: Notify::new(),
        });
        provider.set_pings(pings);
        let controller = NodeController::new(fake.client(), provider.clone(), NodeControllerConfig::new("v"));
        let (state, token, begin) = (controller.state(), CancellationToken::new(), Instant::now());
        let run = tokio::spawn({
            let token = token.clone();
            async move { controller.run(token).await }
        });
        Self { fake: fake.clone(), provider, state, begin, token, run }
    }

    /// A controller whose node is registered and whose lease is made.
    pub(super) async fn registered() -> Self {
        let scene = Self::begin(&Fake::new(), &[Some(Ok(()))]);
        scene.fake.until("a lease", |contents| contents.lease.is_some()).await;
        scene.fake.until("a watch", |contents| contents.asked("WATCH node") > 0).await;
        scene
    }

    pub(super) async fn until_ready_is(&self, status: &str) {
        let what = format!("Ready={status}");
        self.fake.until(&what, |contents| contents.node.as_ref().and_then(patch::ready) == Some(status)).await;
    }

    /// Waits for a state of the controller, up to ten minutes of the paused clock.
    pub(super) async fn until_state(&self, wanted: impl Fn(&NodeState) -> bool) {
        let mut state = self.state.clone();
        let reached = tokio::time::timeout(Duration::from_secs(600), state.wait_for(|state| wanted(state))).await;
        assert!(reached.is_ok(), "never reached; it is {:?}", self.state.borrow());
    }

    /// The Node and its lease.
    pub(super) fn objects(&self) -> (Value, Value) {
        let contents = self.fake.contents();
        (contents.node.clone().unwrap(), contents.lease.clone().unwrap())
    }

    pub(super) fn ready_condition(&self) -> Value {
        let contents = self.fake.contents();
        let conditions = contents.node.as_ref().unwrap()["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|condition| condition["type"] == "Ready").unwrap().clone()
    }

    pub(super) fn seconds(&self, at: Instant) -> f64 {
        (at - self.begin).as_secs_f64()
    }

    pub(super) async fn end(self) {
        self.token.cancel();
        self.run.await.unwrap().unwrap();
    }
}
