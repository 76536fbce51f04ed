// SPDX-License-Identifier: Apache-2.0
//! From the manifest to the machine: pods go through a real call of the webhook, the upper scheduler and a lower one.

mod dry_run;
mod exclusions;
mod lab;
mod oracle;
mod topology;
