// SPDX-License-Identifier: Apache-2.0
//! Performs what was planned for one object, until there is nothing left to do for it.

use std::time::Duration;

use tensile_core::sync::{Action, Copy, Kind, Upper, Version, body, lower_name, starts_renamed};
use tokio::time::Instant;
use virtual_kubelet::{
    back_off::{back_off, chance},
    pod::Refused,
};

use super::{
    Key, Objects, OnConflict, Trouble,
    object::Object,
    requests::{Meta, Requests},
    table::{Next, Task},
};
use crate::lower::answer;

/// First and longest wait before an object in trouble is tried again; there is no last try.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MOST: Duration = Duration::from_secs(60);
/// Steps in a row for one object: more than any situation needs, if nobody else changes it meanwhile.
const STEPS: usize = 8;

/// The object upstairs, fetched.
struct Fetched {
    text: String,
    version: Version,
}

impl Objects {
    /// Does for `key` what there is to do, and wakes who waits for it.
    pub(super) async fn settle(&self, key: &Key) {
        let mut fetched = None;
        let mut steps = 0..STEPS;
        let again = loop {
            let task = match self.table.next(key) {
                Next::Now(_) if steps.next().is_none() => break Some(Instant::now() + RETRY_FIRST),
                Next::Now(task) => task,
                Next::At(when) => break Some(when),
                Next::Nothing => break None,
            };
            let action = task.action;
            if let Err(trouble) = self.step(key, task, &mut fetched).await {
                tracing::warn!(object = %key, ?action, error = %trouble, "object not settled");
                let failures = self.table.change(key, |object| object.fails(trouble)).unwrap_or(1);
                self.queue.add_at(key.clone(), Instant::now() + back_off(RETRY_FIRST, RETRY_MOST, failures, chance()));
                return self.tell(key);
            }
        };
        self.table.change(key, Object::progress);
        self.tell(key);
        if let Some(when) = again {
            self.queue.add_at(key.clone(), when);
        }
    }

    async fn step(&self, key: &Key, task: Task, fetched: &mut Option<Fetched>) -> Result<(), Trouble> {
        match (task.action, &task.copy) {
            (Action::Look, _) => {
                *fetched = self.look(key, task.heard).await?;
                Ok(())
            }
            (Action::Create, _) => match self.text(key, &task, fetched).await? {
                Some(text) => self.create(key, task.name, &text).await,
                None => Ok(()),
            },
            (Action::Update, Some(copy)) => match self.text(key, &task, fetched).await? {
                Some(text) => self.update(key, copy, &text).await,
                None => Ok(()),
            },
            (Action::Delete, Some(copy)) => self.delete(key, copy).await,
            (Action::Update | Action::Delete, None) => Ok(()),
        }
    }

    /// Requests for the copy of `key`.
    fn requests<'a>(&'a self, key: &'a Key) -> Requests<'a> {
        Requests::within(&self.lower, key.kind, self.link.lower_namespace(&key.namespace))
    }

    /// Asks for the object upstairs.
    async fn look(&self, key: &Key, heard: u64) -> Result<Option<Fetched>, Trouble> {
        let text = Requests::within(&self.upper, key.kind, &*key.namespace)
            .text(&key.name)
            .await
            .map_err(|error| answer::upper_error(&error))?;
        let meta = text.as_deref().map(Meta::parse).transpose().map_err(|_| unreadable(key, "upper"))?;
        let fetched = text.zip(meta).map(|(text, meta)| Fetched { text, version: meta.version });
        let answer = fetched.as_ref().map_or(Upper::Absent, |fetched| Upper::Present(fetched.version.clone()));
        self.table.change(key, |object| object.upper_answered(heard, answer));
        Ok(fetched)
    }

    /// The object upstairs as it was last heard of; `None` when it is gone meanwhile, which the next plan will see.
    async fn text(&self, key: &Key, task: &Task, fetched: &mut Option<Fetched>) -> Result<Option<String>, Trouble> {
        if let Some(at_hand) = fetched.take()
            && task.upper == Upper::Present(at_hand.version)
        {
            return Ok(Some(at_hand.text));
        }
        Ok(self.look(key, task.heard).await?.map(|fetched| fetched.text))
    }

    async fn create(&self, key: &Key, name: Option<String>, text: &str) -> Result<(), Trouble> {
        let renamed = lower_name(&key.namespace, &key.name, &self.link);
        let first =
            if starts_renamed(key.kind, &key.name, &self.link) { renamed.clone() } else { key.name.to_string() };
        let name = name.unwrap_or(first);
        let body = body(key.kind, text, &name, None, &self.link).map_err(|_| unreadable(key, "upper"))?;
        for member in &body.dropped {
            tracing::warn!(object = %key, member, "a member of the object is not known here and does not go down");
        }
        self.namespaces.enter(&key.namespace).await?;
        let requests = self.requests(key);
        let mut made = requests.create(body.text.clone()).await;
        if let Err(error) = &made
            && answer::lacks_namespace(error)
        {
            self.namespaces.create(&key.namespace).await?;
            made = requests.create(body.text).await;
        }
        match made {
            Ok(meta) => {
                tracing::info!(object = %key, name, "copied below");
                self.copied(key, &meta);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.name_taken(key, &requests, &name, renamed).await
            }
            Err(error) => Err(lower_trouble(&error)),
        }
    }

    /// There is an object of this name below: it is ours (an answer was lost), or the copy needs another name.
    async fn name_taken(&self, key: &Key, requests: &Requests<'_>, name: &str, renamed: String) -> Result<(), Trouble> {
        let Some(meta) = requests.meta(name).await.map_err(|error| lower_trouble(&error))? else { return Ok(()) };
        if meta.copy(&key.namespace, &self.link).is_some_and(|(of, _)| *of == *key.name) {
            self.copied(key, &meta);
            return Ok(());
        }
        if self.on_conflict == OnConflict::Rename && *name != *renamed {
            tracing::info!(object = %key, name = renamed, "its name is taken below; the copy gets another one");
            self.table.change(key, |object| object.name = Some(renamed));
            return Ok(());
        }
        Err(Trouble::Refused(Refused {
            reason: "LowerNameConflict",
            message: format!(
                "the lower cluster has a {} {}/{name} that node {} did not make; it is left alone. Rename one of them, \
                 or have the operator of the virtual node rename copies (--on-conflict=rename)",
                key.kind,
                self.link.lower_namespace(&key.namespace),
                self.link.virtual_node
            ),
        }))
    }

    async fn update(&self, key: &Key, copy: &Copy, text: &str) -> Result<(), Trouble> {
        let body = body(key.kind, text, &copy.name, Some(copy), &self.link).map_err(|_| unreadable(key, "upper"))?;
        match self.requests(key).replace(&copy.name, body.text).await {
            Ok(meta) => {
                tracing::info!(object = %key, name = copy.name, "copy brought up to date");
                self.copied(key, &meta);
                Ok(())
            }
            // Not there, or changed by somebody else: what it is now has to be seen first.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => self.look_below(key, copy).await,
            // It has become immutable below, or was given another type there.
            Err(kube::Error::Api(status)) if status.code == 422 => self.delete(key, copy).await,
            Err(error) => Err(lower_trouble(&error)),
        }
    }

    async fn delete(&self, key: &Key, copy: &Copy) -> Result<(), Trouble> {
        match self.requests(key).delete(&copy.name, &copy.version.uid).await {
            Ok(()) => {
                tracing::info!(object = %key, name = copy.name, "copy removed below");
                self.table.change(key, |object| object.copy_gone(&copy.version.uid, &copy.version.revision));
                Ok(())
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => self.look_below(key, copy).await,
            Err(error) => Err(lower_trouble(&error)),
        }
    }

    /// Asks what the copy is now.
    async fn look_below(&self, key: &Key, copy: &Copy) -> Result<(), Trouble> {
        let found = self.requests(key).meta(&copy.name).await.map_err(|error| lower_trouble(&error))?;
        if found.as_ref().is_none_or(|meta| meta.version.uid != copy.version.uid) {
            self.table.change(key, |object| object.copy_gone(&copy.version.uid, &copy.version.revision));
        }
        if let Some(meta) = found {
            self.copied(key, &meta);
        }
        Ok(())
    }

    /// Notes a copy as the lower API server has it.
    fn copied(&self, key: &Key, meta: &Meta) {
        if let Some((of, copy)) = meta.copy(&key.namespace, &self.link)
            && *of == *key.name
        {
            self.table.change(key, |object| object.copy_seen(copy));
        }
    }
}

fn lower_trouble(error: &kube::Error) -> Trouble {
    answer::pod_error(error).into()
}

/// The error of the parser is not passed on: it may quote what it read.
fn unreadable(key: &Key, which: &str) -> Trouble {
    Trouble::Unavailable(format!("the {which} API server sent a {} that cannot be read", Kind::name(key.kind)))
}
