// SPDX-License-Identifier: Apache-2.0
//! The two watches of a lower cluster.

use futures::StreamExt;
use kube::Api;
use virtual_kubelet::{
    pod::PodFeed,
    watched::{Seen, Selection, Watched, follow},
};

use super::{
    LowerCluster,
    view::{LowerNodeView, LowerPodView},
};

impl LowerCluster {
    /// Follows all lower pods: ours are reported to `feed`, the others are counted against capacity.
    pub(super) async fn watch_pods(&self, feed: PodFeed) {
        let pods: Api<Watched<LowerPodView>> = Api::all(self.client.clone());
        let mut events = std::pin::pin!(follow(pods, Selection::default()));
        while let Some(event) = events.next().await {
            match event {
                Seen::Begin => {
                    feed.begin();
                    self.usage.pods_begin();
                }
                Seen::Listed(object) => self.pod_seen(&object, &feed, true),
                Seen::Complete => {
                    feed.complete();
                    self.objects.pods_listed();
                    self.identity.pods_listed();
                    self.listed.send_replace(true);
                    self.usage.pods_complete();
                }
                Seen::Changed(object) => self.pod_seen(&object, &feed, false),
                Seen::Deleted(object) => self.pod_deleted(&object, &feed),
            }
        }
    }

    fn pod_seen(&self, object: &Watched<LowerPodView>, feed: &PodFeed, listed: bool) {
        let view = match &object.view {
            Ok(view) => view,
            Err(malformed) => return tracing::error!(error = %malformed, "a lower pod was passed over"),
        };
        if !self.owns(view) {
            return self.usage.pod_seen(&view.uid, object.raw.get());
        }
        let Some(id) = self.id_of(object) else {
            return tracing::error!(lower = ?object, "a lower pod with our labels does not say whose it is");
        };
        let reported = self.ours().get(&id.uid).map(|ours| ours.reported);
        if !listed && reported == Some(view.reported) {
            return;
        }
        match self.translate(id, view, &object.raw) {
            Ok(pod) if listed => feed.listed(&pod),
            Ok(pod) => feed.changed(&pod),
            Err(error) => tracing::error!(%error, "a lower pod was passed over"),
        }
    }

    fn pod_deleted(&self, object: &Watched<LowerPodView>, feed: &PodFeed) {
        let Ok(view) = &object.view else { return };
        if !self.owns(view) {
            return self.usage.pod_gone(&view.uid);
        }
        if let Some(id) = self.id_of(object) {
            // How it ended may be told by this last version alone.
            self.pod_seen(object, feed, false);
            self.forget(&id);
            self.objects.pod_gone(&id.uid);
            self.identity.pod_gone(&id.uid);
            feed.gone(&id, view.version);
        }
    }

    /// Follows the lower nodes, for capacity. Does not end.
    pub async fn watch_nodes(&self) {
        let nodes: Api<Watched<LowerNodeView>> = Api::all(self.client.clone());
        let mut events = std::pin::pin!(follow(nodes, Selection::default()));
        while let Some(event) = events.next().await {
            match event {
                Seen::Begin => self.usage.nodes_begin(),
                Seen::Complete => self.usage.nodes_complete(),
                Seen::Listed(object) | Seen::Changed(object) => match object.view {
                    Ok(LowerNodeView(node)) => self.usage.node_seen(node),
                    Err(malformed) => tracing::error!(error = %malformed, "a lower node was passed over"),
                },
                Seen::Deleted(object) => {
                    if let Ok(LowerNodeView(node)) = object.view {
                        self.usage.node_gone(&node.name);
                    }
                }
            }
        }
    }
}
