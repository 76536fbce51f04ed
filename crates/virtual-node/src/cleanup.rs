// SPDX-License-Identifier: Apache-2.0
//! `virtual-node cleanup`: removes from the lower cluster all that this virtual node made there, and tells what it keeps.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use clap::Parser;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{
        ConfigMap, LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service,
    },
    discovery::v1::EndpointSlice,
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions},
    discovery::{Discovery, Scope, verbs},
};
use serde_json::Value;
use tensile_core::{
    cleanup::{self, Verdict},
    pod::LinkView,
};
use tensile_runtime::{clients, service::Service as Program, telemetry::LogArgs, threads::Threads, upper_id};

use crate::{
    app::client,
    args::Args,
    config::{Settings, Surroundings},
    objects::copies,
};

/// Where nodes have their leases.
const LEASES: &str = "kube-node-lease";
/// A node whose lease was renewed within this time has a process, in seconds.
const ALIVE: i64 = 60;

/// Removes from the lower cluster all that this virtual node made there, and nothing else.
///
/// Takes the flags of the virtual node, of which those of the clusters and the node's name count. Claims whose volumes have
/// data are kept, and so are namespaces in which others have something: both are told.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "virtual-node cleanup", max_term_width = 100)]
pub struct CleanupArgs {
    /// Only list what would be removed and what would be kept
    #[arg(long)]
    pub dry_run: bool,

    /// UID of the upper cluster's namespace kube-system, where that cluster is no more and cannot be asked for it
    #[arg(long, value_name = "UID")]
    pub upper_cluster: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub args: Args,
}

/// The command.
pub struct Cleanup {
    settings: Settings,
    dry_run: bool,
    upper_cluster: Option<String>,
}

impl Program for Cleanup {
    type Args = CleanupArgs;
    type Error = anyhow::Error;
    const THREADS: Threads = Threads::One;

    fn log(args: &CleanupArgs) -> &LogArgs {
        &args.args.log
    }

    fn resolve(args: CleanupArgs) -> anyhow::Result<Self> {
        let settings = Settings::resolve(args.args, &Surroundings::PROCESS)?;
        Ok(Self { settings, dry_run: args.dry_run, upper_cluster: args.upper_cluster })
    }

    fn warnings(&self) -> &[String] {
        &[]
    }

    async fn run(self) -> anyhow::Result<()> {
        clients::install_crypto();
        let virtual_node = self.settings.node.name.clone();
        let upper_cluster = if let Some(uid) = self.upper_cluster {
            uid
        } else {
            let upper = client("upper", &self.settings.upper).await?;
            if !self.dry_run {
                ensure_stopped(&upper, &virtual_node).await?;
            }
            upper_id::cluster_id(&upper).await.context("upper cluster")?
        };
        let lower = client("lower", &self.settings.lower).await?;
        let link = LinkView { upper_cluster, virtual_node, ..LinkView::default() };
        Broom { lower, link, dry_run: self.dry_run, gone: BTreeSet::new() }.sweep().await.context("lower cluster")
    }
}

/// A virtual node that runs would make everything again.
async fn ensure_stopped(upper: &Client, node: &str) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(upper.clone(), LEASES);
    let lease = leases.get_opt(node).await.context("cannot ask whether the virtual node runs")?;
    let renewed = lease.and_then(|lease| lease.spec?.renew_time).map_or(i64::MIN, |time| time.0.as_second());
    if jiff::Timestamp::now().as_second().saturating_sub(renewed) < ALIVE {
        bail!("virtual node {node} was alive within the last {ALIVE} seconds: stop it first, or use --dry-run");
    }
    Ok(())
}

struct Broom {
    lower: Client,
    link: LinkView,
    dry_run: bool,
    /// UIDs of what goes.
    gone: BTreeSet<String>,
}

impl Broom {
    async fn sweep(mut self) -> anyhow::Result<()> {
        for object in self.made::<Pod>().await? {
            self.judge::<Pod>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<Service>().await? {
            self.judge::<Service>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<EndpointSlice>().await? {
            self.judge::<EndpointSlice>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<ResourceQuota>().await? {
            self.judge::<ResourceQuota>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<LimitRange>().await? {
            self.judge::<LimitRange>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<NetworkPolicy>().await? {
            self.judge::<NetworkPolicy>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<ConfigMap>().await? {
            self.judge::<ConfigMap>(&object, Verdict::Remove).await?;
        }
        for object in self.made::<Secret>().await? {
            self.judge::<Secret>(&object, Verdict::Remove).await?;
        }
        let volumes = Api::<PersistentVolume>::all(self.lower.clone());
        for object in self.made::<PersistentVolumeClaim>().await? {
            let volume = match object.pointer("/spec/volumeName").and_then(Value::as_str) {
                Some(name) => volumes.get_opt(name).await?.map(serde_json::to_value).transpose()?,
                None => None,
            };
            let verdict = cleanup::claim(&object, volume.as_ref(), &self.link);
            self.judge::<PersistentVolumeClaim>(&object, verdict).await?;
        }
        for object in self.made::<PersistentVolume>().await? {
            self.judge::<PersistentVolume>(&object, cleanup::volume(&object)).await?;
        }
        for object in self.made::<Namespace>().await? {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let verdict = match self.left_in(name).await? {
                Some(left) => Verdict::Keep(format!("{left} in it is not ours")),
                None => Verdict::Remove,
            };
            self.judge::<Namespace>(&object, verdict).await?;
        }
        Ok(())
    }

    /// What the link made of a kind, whichever namespace it is in; but for tokens, which go with the pods that own them.
    async fn made<K: Resource<DynamicType = ()>>(&self) -> anyhow::Result<Vec<Value>> {
        let kind = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = Api::all_with(self.lower.clone(), &kind);
        let listed = api.list(&ListParams::default().labels(&copies(&self.link))).await;
        let listed = listed.with_context(|| format!("cannot list {}", kind.plural))?;
        listed.items.into_iter().map(|object| Ok(serde_json::to_value(object)?)).collect()
    }

    /// Tells the verdict, and carries it out.
    #[allow(clippy::print_stdout, reason = "the list is what the command is for")]
    async fn judge<K: Resource<DynamicType = ()>>(&mut self, object: &Value, verdict: Verdict) -> anyhow::Result<()> {
        let text = |member: &str| object["metadata"][member].as_str();
        let (name, uid) = (text("name").unwrap_or_default(), text("uid").unwrap_or_default());
        let namespace = text("namespace");
        let shown = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        let kind = ApiResource::erase::<K>(&());
        match verdict {
            Verdict::Keep(reason) => println!("keep {} {shown}: {reason}", kind.plural),
            Verdict::Remove => {
                println!("remove {} {shown}", kind.plural);
                self.gone.insert(uid.to_owned());
                if !self.dry_run {
                    let api: Api<DynamicObject> = match namespace {
                        Some(namespace) => Api::namespaced_with(self.lower.clone(), namespace, &kind),
                        None => Api::all_with(self.lower.clone(), &kind),
                    };
                    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
                    match api.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
                        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                        outcome => drop(outcome.with_context(|| format!("cannot delete {} {shown}", kind.plural))?),
                    }
                }
            }
        }
        Ok(())
    }

    /// Something in a namespace that keeps it.
    async fn left_in(&self, namespace: &str) -> anyhow::Result<Option<String>> {
        let discovery = Discovery::new(self.lower.clone()).run().await.context("cannot ask what kinds there are")?;
        for group in discovery.groups_alphabetical() {
            for (kind, capabilities) in group.recommended_resources() {
                if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(verbs::LIST) {
                    continue;
                }
                let api: Api<DynamicObject> = Api::namespaced_with(self.lower.clone(), namespace, &kind);
                let listed = api.list_metadata(&ListParams::default()).await;
                let listed = listed.with_context(|| format!("cannot list {} of {namespace}", kind.plural))?;
                for object in listed.items {
                    let name = object.name_any();
                    let object = serde_json::to_value(object)?;
                    if cleanup::keeps_namespace(&kind.kind, &object, &self.gone) {
                        return Ok(Some(format!("{} {name}", kind.plural)));
                    }
                }
            }
        }
        Ok(None)
    }
}
